package grammar

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

func TestGBNF(t *testing.T) {
	for _, c := range []struct {
		name, src string
		yes, no   []string
	}{
		{"llama.cpp's JSON", llamaJSON, []string{`{}`, `{"a": [1, -2.5e3, "é\n\u00e9"], "b": {"c": null}}`, "{\n  \"a\":true\n}\n"},
			[]string{`[]`, `{"a"}`, `{"a":}`, "{\"\x7f\":1}"}},
		{"chess", "root ::= \"1. \" move \" \" move \"\\n\" ([1-9] [0-9]? \". \" move \" \" move \"\\n\")+\nmove ::= (pawn | nonpawn | " +
			"castle) [+#]?\nnonpawn ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\npawn ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" " +
			"[NBKQR])?\ncastle ::= \"O-O\" \"-O\"?",
			[]string{"1. e4 e5\n2. Nf3 Nc6\n"}, []string{"1. e4 e5\n", "1. e9 e5\n2. Nf3 Nc6\n"}},
		{"repetitions", `root ::= "a"{2} "b"{1,} "c"{0,2} "d"{0} [e]?`, []string{"aab", "aabbbcce"},
			[]string{"ab", "aa", "aabccc", "aabd"}},
		{"ranges", `root ::= [a-c\-x] [^a-c] [\]\[] [\u00e9-\u00ea] "\U0001F600" .`, []string{"ad]é😀z", "-😀[ê😀\n"},
			[]string{"ba]é😀z", "dd]é😀z", "ad]é😀"}},
		{"empty alternative", "root ::= \"a\" (\"b\" |) rest\nrest ::=", []string{"a", "ab"}, []string{"b", ""}},
		{"empty rules", "root ::= x* \"y\"\nx ::= \"\" | \"a\" | x2\nx2 ::= x3?\nx3 ::= \"b\"", []string{"y", "aby"}, []string{"c"}},
		{"right recursion", "root ::= \"a\" root | \"b\"", []string{"b", strings.Repeat("a", 5000) + "b"}, []string{"a"}},
		{"middle recursion", "root ::= \"(\" root \")\" | \"\"", []string{"", "(())", strings.Repeat("(", 400) + strings.Repeat(")", 400)},
			[]string{"(", ")"}},
		{"comments and line ends", "# first\r\nroot ::= # here\r\n  \"a\" | # there\r\n  \"b\"\r\n\r\nother ::= \"c\"", []string{"a", "b"},
			[]string{"c"}},
		{"no line end", `root ::= "a"`, []string{"a"}, []string{"b"}},
	} {
		g, err := GBNF(c.src)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, s := range c.yes {
			if !accepts(g, s) {
				t.Errorf("%s does not accept %.40q", c.name, s)
			}
		}
		for _, s := range c.no {
			if accepts(g, s) {
				t.Errorf("%s accepts %.40q", c.name, s)
			}
		}
	}
}

// llamaJSON is the grammar llama.cpp and Ollama ship for JSON mode.
const llamaJSON = `root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
`

func TestGBNFErrors(t *testing.T) {
	for src, want := range map[string]string{
		``:                               "root",
		`other ::= "a"`:                  "root",
		`root "a"`:                       "line 1:6: ::= is expected",
		"root ::= x\n":                   "rule x is not defined",
		"root ::= \"a\"\nroot ::= \"b\"": "line 2:1: rule root is defined twice",
		`root ::= "a`:                    `line 1:12: '"' is expected`,
		`root ::= [a`:                    `']' is expected`,
		`root ::= [b-a]`:                 "is empty",
		`root ::= ("a"`:                  ") is expected",
		`root ::= "a")`:                  "')' is not expected",
		`root ::= *`:                     "nothing before",
		`root ::= "a"{3,2}`:              "no range",
		`root ::= "a"{2001}`:             "0 to 2000",
		`root ::= "a"{`:                  "repetition count",
		`root ::= "\q"`:                  `line 1:11: \q is not an escape`,
		`root ::= "\xg0"`:                "hexadecimal",
		`root ::= "\ud800"`:              "hexadecimal",
		`root ::= root "a" | "b"`:        "rule root is left-recursive",
		"root ::= x\nx ::= y? x \"a\" | \"b\"\ny ::=": "left-recursive",
		`root ::= "a" root`:                           "never end",
		`root ::= <think>`:                            "token references",
		"root ::= \"\xff\"":                           "UTF-8",
		`root ::= ((("a"{2000}){2000}){2000})`:        "too large",
		"root ::= " + strings.Repeat("(", 300):        "nested more than",
	} {
		_, err := GBNF(src)
		var own *Error
		if !errors.As(err, &own) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", src, err, want)
		}
	}
}

// quick fails when f, with whatever a test itself does, takes far longer than anything a request
// sends may: what it guards against took minutes.
func quick(t *testing.T, f func()) {
	if d := fuzzguard.Busy(f); d > 20*time.Second {
		t.Fatalf("it took %v", d)
	}
}

// whatEver checks a compiled grammar without knowing what it is: it must lead to an end, and its
// masks be right.
func whatEver(t *testing.T, g *Grammar, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	m := g.Matcher(testTrie())
	bits := make([]uint64, (m.t.vocab+63)/64)
	left := 2 * maxLooks // of an ambiguous grammar, not every token can be asked for at every step
	for range 12 {
		m.Fill(bits)
		if m.lost != nil {
			checkLost(t, m, m.Accept(0))
			return
		}
		var allowed []int32
		for id := range int32(m.t.vocab) {
			got := bits[id>>6]>>(id&63)&1 == 1
			m.looks = maxLooks // a server asks for a few tokens, this for all
			may := m.Allowed(id)
			if m.lost != nil {
				checkLost(t, m, m.Accept(0))
				return
			}
			if left -= maxLooks - m.looks; left < 0 {
				return
			}
			if got != may {
				t.Fatalf("token %d: mask %v, Allowed %v", id, got, may)
			}
			if got {
				allowed = append(allowed, id)
			}
		}
		if len(allowed) == 0 {
			t.Fatal("no token is allowed")
		}
		id := allowed[r.IntN(len(allowed))]
		err := m.Accept(id)
		if m.lost != nil {
			checkLost(t, m, err)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if id == 256 {
			return
		}
	}
}

func FuzzGBNF(f *testing.F) {
	f.Add(llamaJSON, uint64(1))
	f.Add(`root ::= [a-c\-x] [^a-c] "\U0001F600" . x{2,3}`+"\nx ::= (\"a\" | x2)* \"\"\nx2 ::= \"b\" root", uint64(2))
	for _, a := range ambiguous {
		f.Add(a.src, uint64(3))
	}
	f.Add("root ::= e\ne ::= e? e? \"x\" |", uint64(4))
	f.Fuzz(func(t *testing.T, src string, seed uint64) {
		if len(src) > 2000 {
			return
		}
		var g *Grammar
		var err error
		fuzzguard.CheckClock(t, len(src), 20*time.Second, func() { g, err = compileGBNF(newMeter(context.Background()), src) })
		if err != nil {
			var own *Error
			if !errors.As(err, &own) {
				t.Fatalf("%T", err)
			}
			return
		}
		quick(t, func() { whatEver(t, g, seed) })
	})
}

func FuzzSchema(f *testing.F) {
	for _, s := range sample {
		f.Add(s.schema, uint64(1))
	}
	f.Add(`{"allOf":[{"patternProperties":{"^a|b$":{"multipleOf":0.5}}},{"$ref":"#/$defs/x"}],"$defs":{"x":{"oneOf":[{"type":"null"},{"prefixItems":[{"$ref":"#"}],"minItems":1,"type":"array"}]}}}`,
		uint64(2))
	f.Fuzz(func(t *testing.T, src string, seed uint64) {
		if len(src) > 2000 {
			return
		}
		var g *Grammar
		var err error
		fuzzguard.CheckClock(t, len(src), 20*time.Second, func() {
			g, err = compileSchema(newMeter(context.Background()), []byte(src), Options{Strict: true, Open: true})
		})
		if err != nil {
			var own *Error
			if !errors.As(err, &own) {
				t.Fatalf("%T", err)
			}
			return
		}
		quick(t, func() { whatEver(t, g, seed) })
	})
}

func FuzzPattern(f *testing.F) {
	f.Add(`^[a-c]{2,3}(x|\d+)?$`, "abx")
	f.Add(`\u0061|\p{L}[^\s\]]`, "é]")
	f.Fuzz(func(t *testing.T, source, text string) {
		if len(source) > 200 || !utf8.ValidString(text) {
			return
		}
		var d *runes
		var err error
		fuzzguard.CheckClock(t, len(source), 20*time.Second, func() { d, err = pattern(nil, source) })
		if err != nil {
			return
		}
		if d.match(text) == d.not().match(text) {
			t.Fatalf("%q is both in and not in %q, or neither", text, source)
		}
	})
}

// A tool's schema is compiled as any other, in every family's form, or refused.
func FuzzTools(f *testing.F) {
	for _, s := range []string{`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}`,
		`{}`, `null`, `[]`, `{"properties":{"a\u0000<":{"enum":["</tool_call>"]}}}`} {
		f.Add("qwen3", "get_weather", s)
		f.Add("phi", "f", s)
	}
	f.Fuzz(func(t *testing.T, family, name, params string) {
		if len(params) > 2000 || len(name) > 200 {
			return
		}
		fuzzguard.CheckClock(t, len(name)+len(params), 20*time.Second, func() {
			_, err := compileTools(newMeter(context.Background()), family, []Tool{{Name: name, Parameters: []byte(params)}}, true)
			var own *Error
			if err != nil && !errors.As(err, &own) {
				t.Fatalf("%T", err)
			}
		})
	})
}
