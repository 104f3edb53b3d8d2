package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestConditions: keywords that speak of other values than the one at hand are enforced where that
// takes a bounded automaton.
func TestConditions(t *testing.T) {
	const card = `{"type":"object","properties":{"pay":{"enum":["card","cash"]},"number":{"type":"integer"},"change":{"type":"boolean"}},"required":["pay"],
		"if":{"properties":{"pay":{"const":"card"}}},"then":{"required":["number"]},"else":{"required":["change"]},"additionalProperties":false}`
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{card, []string{`{"pay":"card","number":1}`, `{"pay":"cash","change":true}`, `{"pay":"cash","number":1,"change":true}`},
			[]string{`{"pay":"card"}`, `{"pay":"cash","number":1}`, `{"pay":"cash"}`, `{"pay":"card","change":true}`}},
		{`{"type":"string","if":{"pattern":"^a"},"then":{"maxLength":2}}`, []string{`"ab"`, `"bcd"`, `""`}, []string{`"abc"`}},
		{`{"type":"integer","if":{"minimum":10},"then":{"multipleOf":10},"else":{"not":{"enum":[3,5]}}}`,
			[]string{"10", "20", "7", "-3", "9"}, []string{"11", "3", "5"}},
		{`{"type":"number","not":{"const":1.5}}`, []string{"1", "1.51", "15", "-1.5"}, []string{"1.5", "1.50"}},
		{`{"type":["null","boolean"],"not":{"enum":[null,true]}}`, []string{"false"}, []string{"null", "true"}},
		{`{"type":"object","properties":{"a":{},"b":{}},"not":{"required":["a","b"]}}`, []string{"{}", `{"a":1}`, `{"b":1}`},
			[]string{`{"a":1,"b":1}`}},
		{`{"type":"array","items":{"enum":["x","y","z"]},"uniqueItems":true,"minItems":1}`, []string{`["x"]`, `["z","x","y"]`},
			[]string{`[]`, `["x","x"]`, `["x","y","x"]`}},
		{`{"type":"array","prefixItems":[{"const":1}],"items":{"type":"boolean"},"uniqueItems":true,"maxItems":3}`,
			[]string{`[]`, `[1]`, `[1,true,false]`}, []string{`[1,true,true]`, `[true]`, `[1,true,false,true]`}},
		{`{"type":"array","items":{"type":"string"},"uniqueItems":true,"maxItems":1}`, []string{`["a"]`, `[]`}, []string{`["a","a"]`}},
		{`{"type":"array","items":{"enum":[1,2,3]},"uniqueItems":true,"contains":{"const":2}}`, []string{`[2]`, `[1,2]`},
			[]string{`[]`, `[1,3]`}},
		{`{"type":"array","items":{"type":"integer"},"contains":{"const":7},"minContains":2}`, []string{`[7,7]`, `[1,7,2,7,3]`},
			[]string{`[]`, `[7]`, `[1,7]`, `["7","7"]`}},
		{`{"type":"array","contains":{"type":"null"},"minContains":1,"maxContains":2}`, []string{`[null]`, `[1,null,"a",null]`},
			[]string{`[1]`, `[null,null,null]`}},
		{`{"type":"array","contains":{"type":"null"},"minContains":0}`, []string{`[]`, `[1]`}, nil},
		{`{"type":"array","items":{"type":["integer","null"]},"contains":{"type":"null"},"maxItems":2}`,
			[]string{`[null]`, `[1,null]`, `[null,1]`}, []string{`[1,1]`, `[1,1,null]`}},
		{`{"type":"object","properties":{"a":{}},"allOf":[{"properties":{"b":{}}}],"unevaluatedProperties":false}`,
			[]string{`{}`, `{"a":1,"b":2}`}, []string{`{"c":1}`}},
		{`{"allOf":[{"type":"object","properties":{"a":{}}},{"properties":{"b":{}},"unevaluatedProperties":false}]}`, []string{`{"b":1}`},
			[]string{`{"a":1}`, `{"c":1}`}},
		{`{"type":"object","properties":{"a":{}},"unevaluatedProperties":{"type":"null"}}`, []string{`{"a":1,"z":null}`},
			[]string{`{"z":1}`}},
		{`{"type":"array","prefixItems":[{"const":1}],"unevaluatedItems":{"const":2}}`, []string{`[1,2,2]`, `[]`},
			[]string{`[1,1]`, `[2]`}},
	} {
		for _, o := range []Options{{Strict: true, Open: true}, {}} {
			g, err := SchemaWith([]byte(c.schema), o)
			if err != nil || len(g.Notes()) > 0 {
				t.Errorf("%s: %v %v", c.schema, err, g.Notes())
				continue
			}
			for _, s := range c.yes {
				if !accepts(g, s) {
					t.Errorf("%+v: %s does not accept %s", o, c.schema, s)
				}
			}
			for _, s := range c.no {
				if accepts(g, s) {
					t.Errorf("%+v: %s accepts %s", o, c.schema, s)
				}
			}
			v := compileJudge(t, []byte(c.schema))
			for seed := range uint64(4) {
				if strings.Contains(c.schema, "ontains") {
					continue // see TestSuite
				}
				text := generate(t, g, rand.New(rand.NewPCG(seed, 6)), int(seed)*4)
				if err := judged(t, v, text); err != nil {
					t.Errorf("%s: %s: %v", c.schema, text, err)
				}
			}
		}
	}
}

// TestListedOnly: where additionalProperties is absent an object has the properties that its
// schemas list, all of them together.
func TestListedOnly(t *testing.T) {
	for _, c := range []struct {
		schema  string
		yes, no []string
	}{
		{`{"type":"object","properties":{"a":{}}}`, []string{`{}`, `{"a":1}`}, []string{`{"b":1}`}},
		{`{"type":"object","properties":{}}`, []string{`{}`}, []string{`{"b":1}`}},
		{`{"type":"object"}`, []string{`{}`, `{"b":1}`}, nil},
		{`{"properties":{"a":{}},"required":["a","b"]}`, []string{`{"a":1,"b":2}`, `3`}, []string{`{"a":1,"b":2,"c":3}`, `{"a":1}`}},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":true}`, []string{`{"b":1}`}, nil},
		{`{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"null"}}`, []string{`{"b":null}`}, []string{`{"b":1}`}},
		{`{"type":"object","properties":{"a":{}},"unevaluatedProperties":true}`, []string{`{"b":1}`}, nil},
		{`{"type":"object","properties":{"a":{}},"patternProperties":{"^x":{"type":"null"}}}`, []string{`{"a":1,"xy":null}`},
			[]string{`{"b":1}`, `{"x":1}`}},
		{`{"type":"object","allOf":[{"properties":{"a":{}}},{"$ref":"#/$defs/b"}],"$defs":{"b":{"properties":{"b":{}}}}}`,
			[]string{`{"a":1,"b":2}`}, []string{`{"c":1}`}},
		{`{"type":"object","properties":{"a":{}},"anyOf":[{"properties":{"b":{}},"required":["b"]},{"properties":{"c":{}},"required":["c"]}]}`,
			[]string{`{"a":1,"b":2}`, `{"c":1}`}, []string{`{"b":1,"c":2}`, `{"a":1}`}},
		{`{"type":"object","dependentRequired":{"a":["b"]}}`, []string{`{"z":1}`, `{"a":1,"b":2}`}, []string{`{"a":1}`}},
		{`{"type":"object","if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"required":["b"]}}`,
			[]string{`{"z":1}`, `{"a":2}`, `{"a":1,"b":2}`}, []string{`{"a":1}`}},
		{`{"type":"object","properties":{"a":{"properties":{"b":{}}}}}`, []string{`{"a":{"b":1}}`}, []string{`{"a":{"c":1}}`}},
	} {
		g, err := SchemaWith([]byte(c.schema), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, s := range c.yes {
			if !accepts(g, s) {
				t.Errorf("%s does not accept %s", c.schema, s)
			}
		}
		for _, s := range c.no {
			if accepts(g, s) {
				t.Errorf("%s accepts %s", c.schema, s)
			}
		}
		v := compileJudge(t, []byte(c.schema))
		if g, err = SchemaWith([]byte(c.schema), Options{Strict: true}); err == nil {
			text := generate(t, g, rand.New(rand.NewPCG(1, 6)), 3)
			if err := judged(t, v, text); err != nil {
				t.Errorf("%s: %s: %v", c.schema, text, err)
			}
		}
	}
}

// TestNotes: what cannot be enforced is left out and told, keyword and place, and the rest is
// enforced; strict refuses the same.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		schema  string
		notes   []string // how each begins
		yes, no []string
	}{
		{`{"type":"array","items":{"type":"string"},"uniqueItems":true}`, []string{"#: uniqueItems: is not enforced"},
			[]string{`["a","a"]`}, []string{`[1]`}},
		{`{"type":"object","properties":{"a/b":{"type":"array","uniqueItems":true,"contains":{"const":1},"minContains":900}}}`,
			[]string{"#/properties/a~1b: contains", "#/properties/a~1b: uniqueItems"}, []string{`{"a/b":[2,2]}`},
			[]string{`{"c":1}`, `{"a/b":1}`}},
		{`{"type":"string","format":"iri"}`, nil, []string{`"x"`}, []string{`1`}},
		{`{"type":"string","pattern":"(?=x)y","maxLength":2}`, []string{"#: pattern"}, []string{`"ab"`}, []string{`"abc"`}},
		{`{"type":"string","pattern":"("}`, []string{"#: pattern"}, []string{`"ab"`}, nil},
		{`{"type":"array","minItems":100000,"items":{"type":"null"}}`, []string{"#: minItems"}, []string{`[null]`}, []string{`[1]`}},
		{`{"oneOf":[{"type":"integer"},{"minimum":2}]}`, []string{"#: oneOf: is taken as anyOf"}, []string{`1`, `3`}, nil},
		{`{"type":"object","properties":{"a":{"not":{"multipleOf":3}}},"required":["a"]}`, []string{"#/properties/a: not"},
			[]string{`{"a":3}`}, []string{`{}`}},
		{`{"if":{"format":"date"},"then":{"type":"null"},"type":["string","null"]}`, []string{"#: if"}, []string{`"x"`, `null`},
			[]string{`1`}},
		{`{"type":"string","pattern":"(a|b)*a.{30}$"}`, []string{`#: pattern: is not enforced: "(a|b)*a.{30}$": too large`},
			[]string{`"x"`}, []string{`1`}},
		{`{"type":"object","patternProperties":{"^a":{},"^b":{},"^c":{},"^d":{},"^e":{}},"additionalProperties":false}`,
			[]string{"#: patternProperties"}, []string{`{"a":1}`, `{"z":1}`}, []string{`1`}},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","type":"null"}`, []string{"#: $schema"}, []string{`null`}, []string{`1`}},
		{`{"items":[{"type":"null"},{}],"additionalItems":{"type":"boolean"},"type":"array"}`, nil, []string{`[null,1,true]`},
			[]string{`[1]`, `[null,1,1]`}},
		{`{"type":"object","dependencies":{"a":["b"],"c":{"required":["d"]}}}`, nil, []string{`{"a":1,"b":1}`, `{"d":1,"c":1}`},
			[]string{`{"a":1}`, `{"c":1}`}},
		{`{"type":"object","properties":{"a":{}},"minProperties":2}`, []string{"#: minProperties"}, []string{`{"a":1}`},
			[]string{`{"b":1}`}},
		{`{"type":"array","items":{"$dynamicRef":"#x"}}`, []string{"#/items: $dynamicRef"}, []string{`[1]`}, []string{`1`}},
	} {
		g, err := SchemaWith([]byte(c.schema), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		var notes []string
		for _, n := range g.Notes() {
			notes = append(notes, n.String())
		}
		slices.Sort(notes)
		ok := len(notes) == len(c.notes)
		for i := range c.notes {
			ok = ok && strings.HasPrefix(notes[i], c.notes[i])
		}
		if !ok {
			t.Errorf("%s: notes %q", c.schema, notes)
		}
		for _, s := range c.yes {
			if !accepts(g, s) {
				t.Errorf("%s does not accept %s", c.schema, s)
			}
		}
		for _, s := range c.no {
			if accepts(g, s) {
				t.Errorf("%s accepts %s", c.schema, s)
			}
		}
		var own *Error
		if _, err := SchemaWith([]byte(c.schema), Options{Strict: true}); len(c.notes) > 0 && !errors.As(err, &own) {
			t.Errorf("%s: strict takes it", c.schema)
		}
		think, err := Thinking(must2(Or(g, JSON())), Thought{End: "</think>"})
		if err != nil || len(think.Notes()) != len(notes) {
			t.Errorf("%s: what was made of it has %v", c.schema, think.Notes())
		}
	}
	for _, s := range []string{`{"type":"strange"}`, `{"$ref":"#/none"}`, `{"enum":1}`, `{"minLength":-1,"type":"string"}`, `false`,
		`{"minimum":3,"maximum":2,"type":"integer"}`, `{`, `3`, `{"required":3,"type":"object"}`} {
		if _, err := SchemaWith([]byte(s), Options{}); err == nil {
			t.Errorf("%s is no schema that a value satisfies, and is taken", s)
		}
	}
	for where, want := range map[string]string{
		"#/properties/secret/items": "#/properties/*/items", "#/anyOf/2/patternProperties/^a~1b": "#/anyOf/2/patternProperties/*", "#": "#",
		"#/properties/items/properties/0": "#/properties/*/properties/*", "#/secret": "#/*", "#/$defs/7/not": "#/$defs/*/not",
	} {
		if got := placeOf(where); got != want {
			t.Errorf("%s: %s, want %s", where, got, want)
		}
	}
}

// TestToolNotes: a tool's notes have its name, its strictness is its own, and its objects have the
// listed properties only.
func TestToolNotes(t *testing.T) {
	unique := []byte(`{"type":"object","properties":{"x":{"type":"array","uniqueItems":true,"items":{"type":"string"}}}}`)
	for _, family := range chat.Families() {
		if family == "plain" {
			continue
		}
		g, err := ToolCalls(family,
			[]Tool{{Name: "f", Parameters: unique}, {Name: "g", Parameters: []byte(`{"properties":{"a":{"type":"integer"}}}`),
				Strict: true}}, true)
		if err != nil {
			t.Fatal(err)
		}
		if n := g.Notes(); len(n) != 1 || n[0].Where != "tool f: #/properties/x" || n[0].Keyword != "uniqueItems" {
			t.Errorf("%s: %v", family, n)
		}
		if _, err := ToolCalls(family, []Tool{{Name: "f", Parameters: unique, Strict: true}}, true); err == nil ||
			!strings.Contains(err.Error(), "tool f: #/properties/x: uniqueItems") {
			t.Errorf("%s: %v", family, err)
		}
	}
	g := must2(ToolCalls("llama3", []Tool{{Name: "g", Parameters: []byte(`{"properties":{"a":{"type":"integer"}}}`)}}, false))
	if accepts(g, `{"name":"g","parameters":{"b":1}}`) || !accepts(g, `{"name":"g","parameters":{"a":1}}`) {
		t.Error("a property that is not listed is taken, or one that is is not")
	}
}

// TestHostileNotes: a schema with more that cannot be enforced than is worth trying is held to its
// type soon.
func TestHostileNotes(t *testing.T) {
	//proves:T7 a process, nineteen kinds of hostile requests, 64 at once: 480 to 560 MiB were seen, 819 once
	lane.Slow(t)
	lane.NoRace(t)
	for name, format := range map[string]string{
		"lists": `"p%d":{"type":"array","uniqueItems":true}`, "patterns": `"p%d":{"type":"string","pattern":"(?=%[1]d)"}`,
		"conditions": `"p%d":{"if":{"format":"%[1]d"},"then":{"type":"null"}}`,
		"sets":       `"p%d":{"type":"array","items":{"enum":[1,2,3]},"uniqueItems":true}`,
		"subsets":    `"p%d":{"type":"string","pattern":"a.{14}b%[1]d$"}`,
	} {
		for _, n := range []int{3, 300, 5000} {
			var b strings.Builder
			for i := range n {
				fmt.Fprintf(&b, ","+format, i)
			}
			var g *Grammar
			var err error
			d := fuzzguard.Busy(func() {
				g, err = SchemaWith([]byte(`{"type":"object","properties":{`+b.String()[1:]+`}}`), Options{})
			})
			if err != nil || d > 20*time.Second || !accepts(g, "{}") || accepts(g, "1") {
				t.Errorf("%d %s: %v, %v", n, name, err, d)
			}
			if testing.Verbose() && err == nil {
				t.Logf("%d %s: %v, %d notes", n, name, d, len(g.Notes()))
			}
		}
	}
}

// TestHostileLoosely: schemas that are large and mean are all taken, soon, and what became of them
// is told.
func TestHostileLoosely(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	for name, c := range hostile {
		var g *Grammar
		var err error
		d := fuzzguard.Busy(func() { g, err = SchemaWith([]byte(c.schema), Options{}) })
		if d > 20*time.Second { // as in TestHostileSchemas
			t.Errorf("%s: took %v", name, d)
		}
		if err != nil {
			if len(c.schema) < 1<<18 && name != "selves" { // which no value satisfies; what is longer may have more values than are read
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if testing.Verbose() {
			t.Logf("%s: %v %.200s", name, d, fmt.Sprint(g.Notes()))
		}
		if (len(g.Notes()) == 0) != c.good {
			t.Errorf("%s: %v %v", name, err, g.Notes())
		}
	}
}
