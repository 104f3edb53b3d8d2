// Package grammar turns JSON mode, JSON schemas and GBNF into token masks.
//
// A [Grammar] is a pushdown automaton over bytes: frames (deterministic automata) that call each
// other. It is immutable, safe for concurrent use; the last few compiled are remembered, so
// compiling for each request costs little. A [Matcher] follows one request. A Matcher belongs to
// one goroutine. A [Trie] holds a tokenizer's vocabulary and serves every grammar. Nothing here
// holds a resource, so nothing needs closing.
//
// What a state of a frame allows is found once by walking the trie, as if nothing stood below the
// frame, and cached with the grammar, or with the trie for the frames all grammars share (strings,
// numbers, white space, any JSON value). The few tokens that reach beyond the frame's end are
// walked with the real stack each time. So the mask inside a string costs microseconds, whatever
// schema the string is in.
//
// A text allowed by a schema validates against it. Where JSON leaves a choice of spelling, the
// grammar is narrower than JSON: properties come in the schema's order, additional ones behind
// them; names, enums, constants and strings with a pattern or format are spelled without needless
// escapes; integers have no fraction or exponent, and at most 18 digits unless the bounds have
// more; other numbers at most 32 digits before and after the point, and no exponent where they are
// bounded. White space between tokens is one blank, or one or two line ends with up to 32 blanks or
// tabs: nothing can be generated for ever without getting on, except inside a string, an array or
// an object without a maximum. Values nest at most 64 deep.
package grammar

import (
	"cmp"
	"maps"
	"strings"
	"sync"
	"weak"
)

// Depths that stacks are limited to: a JSON value is one frame, and needs one more for what it is
// made of.
const (
	jsonDepth = 66
	gbnfDepth = 1000
)

// Grammar is a compiled language.
type Grammar struct {
	root  *frame
	depth int32
	ends  map[*frame]*ending // the frames of its thinking, if it has any
	notes []Note
	bytes int64      // about what its automata take, without those of what it was made of
	of    []*Grammar // what Thinking and Or made it of, whose automata it goes through: they are in use as long as it is

	mu     sync.Mutex
	caches map[weak.Pointer[Trie]]*maskCache // weak: a grammar may outlive the models it served
	made   map[derived]*Grammar              // what Thinking and Or made of it: they keep their masks
}

func (g *Grammar) cacheFor(t *Trie) *maskCache {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := weak.Make(t)
	c := g.caches[key]
	if c == nil {
		maps.DeleteFunc(g.caches, func(t weak.Pointer[Trie], _ *maskCache) bool { return t.Value() == nil })
		if g.caches == nil {
			g.caches = map[weak.Pointer[Trie]]*maskCache{}
		}
		c = &maskCache{limit: 6 << 20, room: &masksKept}
		g.caches[key] = c
	}
	return c
}

// Error says why a schema or GBNF text was refused: Where is a JSON pointer into the schema, or
// line:column in GBNF.
type Error struct {
	Where   string
	Keyword string // the schema's keyword at fault, if it is one
	Msg     string

	at    *schema // what a schema that need not be enforced whole does without; nil: nothing helps
	large bool
}

func (e *Error) Error() string {
	where := cmp.Or(e.Where, "#")
	if e.Keyword != "" {
		where += ": " + e.Keyword
	}
	return "grammar: " + where + ": " + e.Msg
}

// JSON is the grammar of JSON mode: any JSON object.
func JSON() *Grammar { return jsonMode() }

var jsonMode = sync.OnceValue(func() *Grammar { return &Grammar{root: builtins().root, depth: jsonDepth} })

// shared are the frames that all grammars use.
type shared struct {
	root    *frame // JSON mode
	space   *frame
	chars   *frame // what is between a string's quotes
	str     *frame
	integer *frame
	number  *frame
	value   *frame
}

// jsonRules are the shared frames, a rule each. A character is there in any spelling: escapes, and
// surrogates only in pairs. Numbers are within the range of a float64, whatever digits are chosen.
const jsonRules = `
root    ::= space object
space   ::= " "? | ("\r"? "\n"){1,2} [ \t]{0,32}
chars   ::= CHAR*
string  ::= "\"" CHAR* "\""
integer ::= "0" | "-"? [1-9] [0-9]{0,17}
number  ::= "-"? ("0" | [1-9] [0-9]{0,31}) ("." [0-9]{1,32})?
	| "-"? ("0" | [1-9] [0-9]{0,8}) ("." [0-9]{1,32})? [eE] [+\-]? ([0-9]{1,2} | [12] [0-9]{2})
	| "-"? [1-9] ".0"? [eE] [+\-]? "30" [0-7] | "1" ".0"? [eE] "+"? "308"
value   ::= "true" | "false" | "null" | string | number | object | array
object  ::= "{" space (MEMBER ("," space MEMBER)*)? "}"
array   ::= "[" space (value space ("," space value space)*)? "]"
`

// jsonParts are written out in jsonRules: as rules they would be frames of their own.
var jsonParts = strings.NewReplacer("\n\t", " ", "MEMBER", `string space ":" space value space`,
	"CHAR", `([^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" ([0-9a-cefA-CEF] HEX HEX HEX | [dD] [0-7] HEX HEX
		| [dD] [89abAB] HEX HEX "\\u" [dD] [c-fC-F] HEX HEX)))`)

var builtins = sync.OnceValue(func() *shared {
	text := strings.ReplaceAll(jsonParts.Replace(jsonRules), "HEX", "[0-9a-fA-F]")
	p := &gbnf{src: text, rules: map[string]*gbnfRule{}}
	p.parse()
	if err := p.finish(); err != nil {
		panic(err) // constant input
	}
	for _, f := range p.frames {
		f.shared = true
	}
	of := func(name string) *frame { return p.rules[name].f }
	return &shared{of("root"), of("space"), of("chars"), of("string"), of("integer"), of("number"), of("value")}
})
