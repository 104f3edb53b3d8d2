package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dlclark/regexp2"
	judge "github.com/santhosh-tekuri/jsonschema/v6"
)

func TestSuite(t *testing.T) {
	raw, err := os.ReadFile("testdata/suite.json")
	if err != nil {
		t.Fatal(err)
	}
	var files map[string][]suiteGroup
	if err := json.Unmarshal(raw, &files); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	groups, refused, taken, drawn := 0, map[string]int{}, 0, 0
	for _, file := range names {
		for _, g := range files[file] {
			groups++
			suiteLoosely(t, file+": "+g.Description, g)
			gr, err := Schema(g.Schema)
			if err != nil {
				var own *Error
				if !errors.As(err, &own) {
					t.Errorf("%s: %s: %T", file, g.Description, err)
				} else if own.Keyword == "" {
					if slices.ContainsFunc(g.Tests, func(c struct {
						Description string
						Data        json.RawMessage
						Valid       bool
					}) bool {
						return c.Valid
					}) {
						t.Errorf("%s: %s: refused: %v", file, g.Description, err)
					}
				} else if !refusable[own.Keyword] {
					t.Errorf("%s: %s: refused: %v", file, g.Description, err)
				} else {
					refused[own.Keyword]++
				}
				continue
			}
			for _, c := range g.Tests {
				v, err := parseJSON(c.Data)
				if err != nil {
					t.Fatal(err)
				}
				last := ""
				got := spellings(v, func(s string) bool { last = s; return accepts(gr, s) })
				if got != c.Valid {
					t.Errorf("%s: %s: %s: %s\n  schema %s: accepted %v, valid %v", file, g.Description, c.Description, last, g.Schema, got,
						c.Valid)
				}
				taken++
			}
			s := compileJudge(t, g.Schema)
			if s == nil || bytes.Contains(g.Schema, []byte(`"contains"`)) {
				continue // an array that must hold a certain item is left by no random draw
			}
			for seed := range uint64(6) {
				text := generate(t, gr, rand.New(rand.NewPCG(seed, 1)), int(seed)*10)
				if err := judged(t, s, text); err != nil {
					t.Errorf("%s: %s: generated %s\n  schema %s: %v", file, g.Description, text, g.Schema, err)
				}
				drawn++
			}
		}
	}
	n := 0
	for _, c := range refused {
		n += c
	}
	t.Logf("%d groups: %d instances decided, %d texts drawn and validated, %d groups refused by %v", groups, taken, drawn, n, refused)
	if n > 15 {
		t.Errorf("%d groups are refused", n)
	}
}

// words is a vocabulary made for tests: every byte, what JSON is made of, pieces that cross its
// joints, and control tokens.
type words struct {
	list []string
	ctl  map[string]bool
}

func (w words) Vocab() int { return len(w.list) }

func (w words) Bytes(id int32) []byte { return []byte(w.list[id]) }

func (w words) Control(id int32) bool { return w.ctl[w.list[id]] }

func (w words) EOS() []int32 { return []int32{256} }

var testWords = func() words {
	w := words{ctl: map[string]bool{"<eos>": true, "</think>": true, "<tool_call>": true, "</tool_call>": true}}
	for b := range 256 {
		w.list = append(w.list, string([]byte{byte(b)}))
	}
	w.list = append(w.list, "<eos>", "</think>", "<tool_call>", "</tool_call>", "", "a", // two tokens with the same bytes
		`{"`, `"}`, `":`, `": `, `": "`, `",`, `", "`, `"},`, `}]`, `]]`, `[[`, `{}`, `[]`, `""`, "}}", " {", "\n", "\n  ", ",\n", "  ",
		"\r\n",
		"true", "false", "null", "tru", "e,", "0.", "12", "-1", "1e", "00", "foo", "bar", `foo"`, `"foo`, `"foo":`, "a\"", "é", "日本",
		"\U0001f600", "\xf0\x9f", "\\u", `\"`, `\n`,
		"2026-11-", "-02-29", "T10:00", "@example", ".com", "abc", "number", "name", `"name": "`, "\xff</think>", "</", "think>", "<tool",
		"_call>")
	return w
}()

var testTrie = sync.OnceValue(func() *Trie { return NewTrie(testWords) })

// AcceptText moves past a text; false, and no move, when the grammar does not allow it.
func (m *Matcher) AcceptText(text string) bool { return !m.ended && m.advance([]byte(text), true) }

// Reset puts m back at the start of a text.
func (m *Matcher) Reset() {
	m.truncate(0)
	m.cur = append(m.cur[:0], kernel{m.g.root, 0, -1})
	m.ended, m.left, m.due = false, m.think, 0
}

// accepts reports whether the whole text is in the language.
func accepts(g *Grammar, text string) bool {
	m := g.Matcher(testTrie())
	return m.AcceptText(text) && m.Done()
}

// checkMask compares Fill with trying every token, and Allowed with both.
func checkMask(t testing.TB, m *Matcher) (allowed []int32) {
	t.Helper()
	bits := make([]uint64, (m.t.vocab+63)/64+1)
	for i := range bits {
		bits[i] = ^uint64(0) // Fill overwrites
	}
	m.Fill(bits)
	before := fmt.Sprint(m.cur, m.rets)
	for id := range int32(m.t.vocab) {
		got := bits[id>>6]>>(id&63)&1 == 1
		want := m.Clone().Accept(id) == nil
		if got != want || m.Allowed(id) != want {
			t.Fatalf("token %d %q: mask %v, Allowed %v, Accept %v", id, m.t.words[id], got, m.Allowed(id), want)
		}
		if got {
			allowed = append(allowed, id)
		}
	}
	if bits[len(bits)-1] != 0 || before != fmt.Sprint(m.cur, m.rets) {
		t.Fatal("the mask has bits past the vocabulary, or asking moved the matcher")
	}
	return allowed
}

// generate draws a text at random, hurrying to the end after a while. It never finds itself without
// a token.
func generate(t testing.TB, g *Grammar, r *rand.Rand, hurry int) string {
	t.Helper()
	m := g.Matcher(testTrie())
	bits := make([]uint64, (m.t.vocab+63)/64)
	var text []byte
	for n := 0; ; n++ {
		if n > hurry && n%50 == 0 { // no random draw writes what ends free text
			for _, tag := range []string{"\n</parameter>\n", "]]></param>", "</think>"} {
				if m.AcceptText(tag) {
					text = append(text, tag...)
				}
			}
		}
		m.Fill(bits)
		best, top := int32(-1), -1.0
		for id := range int32(m.t.vocab) {
			if bits[id>>6]>>(id&63)&1 == 0 {
				continue
			}
			score := r.Float64()
			if w := m.t.words[id]; n > hurry {
				switch {
				case id == 256:
					score += 9
				case w != nil && (w[0] == '"' || w[0] == '}' || w[0] == ']'):
					score += 3 - float64(len(w))/10
				case w == nil:
				case w[0] == ':' || w[0] == '@' || w[0] == '.' || w[0] == ')':
					score += 2
				case w[0] >= '0' && w[0] <= '9' || w[0] == 'n' || w[0] == 't':
					score += 1
				case w[0] == '{' || w[0] == '[' || w[0] == ' ' || w[0] == '\n' || w[0] == '\\':
					score -= 1
				}
			}
			if score > top {
				best, top = id, score
			}
		}
		if best < 0 {
			t.Fatalf("no token is allowed behind %q", text)
		}
		if err := m.Accept(best); err != nil {
			t.Fatalf("%v, though the mask has it, behind %q", err, text)
		}
		if best == 256 {
			return string(text)
		}
		text = append(text, m.t.words[best]...)
		if n > 20_000 {
			t.Fatalf("the text does not end: …%q", text[len(text)-100:])
		}
	}
}

// compileJudge compiles a schema with a validator that shares no code with ours. nil: it cannot.
func compileJudge(t testing.TB, schema []byte) *judge.Schema {
	t.Helper()
	doc, err := judge.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatal(err)
	}
	c := judge.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(func(s string) (judge.Regexp, error) {
		re, err := regexp2.Compile(s, regexp2.ECMAScript|regexp2.Unicode)
		return ecma{re}, err
	})
	if err := c.AddResource("mem:///schema", doc); err != nil {
		return nil
	}
	s, err := c.Compile("mem:///schema")
	if err != nil {
		return nil
	}
	return s
}

type ecma struct{ *regexp2.Regexp }

func (e ecma) MatchString(s string) bool { ok, _ := e.Regexp.MatchString(s); return ok }

func judged(t testing.TB, s *judge.Schema, text string) error {
	t.Helper()
	v, err := judge.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// spellings calls try with v written with its keys in every order, until it returns true.
func spellings(v *value, try func(string) bool) bool {
	var write func(v *value, k func(string) bool) bool
	write = func(v *value, k func(string) bool) bool {
		switch v.kind {
		case kindNull:
			return k("null")
		case kindBool:
			return k(fmt.Sprint(v.bool))
		case kindString:
			return k(`"` + canonical(v.text) + `"`)
		case kindNumber:
			if r := v.rat(); r != nil && r.IsInt() && len(r.Num().String()) < 20 {
				return k(r.Num().String())
			}
			return k(v.text)
		}
		var step func(used uint, out string) bool
		step = func(used uint, out string) bool {
			if used == 1<<len(v.items)-1 {
				if v.kind == kindArray {
					return k("[" + out + "]")
				}
				return k("{" + out + "}")
			}
			for i := range v.items {
				if used>>i&1 == 1 {
					continue
				}
				sep, name := "", ""
				if used != 0 {
					sep = ", "
				}
				if v.kind == kindObject {
					name = `"` + canonical(v.keys[i]) + `": `
				}
				if write(v.items[i], func(s string) bool { return step(used|1<<i, out+sep+name+s) }) {
					return true
				}
				if v.kind == kindArray {
					break
				}
			}
			return false
		}
		return step(0, "")
	}
	return write(v, try)
}

type suiteGroup struct {
	Description string
	Schema      json.RawMessage
	Tests       []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

// What the suite asks for and a generator cannot promise: only these keywords may be refused.
var refusable = map[string]bool{
	"uniqueItems": true, "not": true, "oneOf": true, "minProperties": true,
	"multipleOf": true, // of 0.123456789: remainders are states
}

// suiteLoosely: what is not strict takes every schema that some value satisfies, and what it does
// not tell of it enforces.
func suiteLoosely(t *testing.T, name string, g suiteGroup) {
	t.Helper()
	gr, err := SchemaWith(g.Schema, Options{})
	if err != nil {
		if _, strict := Schema(g.Schema); strict == nil || strict.(*Error).Keyword != "" {
			t.Errorf("%s: refused: %v", name, err)
		}
		return
	}
	if len(gr.Notes()) > 0 {
		return
	}
	for _, c := range g.Tests {
		v, err := parseJSON(c.Data)
		if err != nil {
			t.Fatal(err)
		}
		if spellings(v, func(s string) bool { return accepts(gr, s) }) && !c.Valid {
			t.Errorf("%s: %s is accepted", name, c.Description)
		}
	}
}
