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
	"fmt"
	"maps"
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
	where := e.Where
	if where == "" {
		where = "#"
	}
	if e.Keyword != "" {
		return fmt.Sprintf("grammar: %s: %s: %s", where, e.Keyword, e.Msg)
	}
	return fmt.Sprintf("grammar: %s: %s", where, e.Msg)
}

// JSON is the grammar of JSON mode: any JSON object.
func JSON() *Grammar { return jsonMode() }

var jsonMode = sync.OnceValue(func() *Grammar {
	b := builtins()
	p := &program{}
	root := p.add("root")
	n := root.nfa
	n.call(n.then(0, b.space), b.object, n.end)
	if err := p.finish(); err != nil {
		panic(err) // constant input
	}
	return &Grammar{root: root, depth: jsonDepth}
})

// shared are the frames that all grammars use.
type shared struct {
	space   *frame
	chars   *frame // what is between a string's quotes
	str     *frame
	integer *frame
	number  *frame
	value   *frame
	object  *frame
	array   *frame
}

const (
	integerForm = `0|-?[1-9][0-9]{0,17}`
	// Within the range of a float64, whatever digits are chosen.
	numberForm = `-?(?:0|[1-9][0-9]{0,31})(?:\.[0-9]{1,32})?|-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{1,32})?[eE](?:[+-]?[0-9]{1,2}|[+-]?[12][0-9]{2})|-?[1-9](?:\.0)?[eE][+-]?30[0-7]|1(?:\.0)?[eE]\+?308`
)

var builtins = sync.OnceValue(func() *shared {
	p := &program{}
	b := &shared{
		space: p.add("space"), chars: p.add("chars"), str: p.add("string"), integer: p.add("integer"), number: p.add("number"),
		value: p.add("value"), object: p.add("object"), array: p.add("array"),
	}

	n := b.space.nfa
	n.eps(0, n.end)
	n.edge(0, ' ', ' ', n.end)
	line := n.state()
	for from, i := int32(0), 0; i < 2; i++ {
		n.edge(from, '\n', '\n', line)
		n.edge(n.text(from, "\r"), '\n', '\n', line)
		n.eps(line, n.end)
		at := line
		for range 32 {
			next := n.state()
			n.edge(at, ' ', ' ', next)
			n.edge(at, '\t', '\t', next)
			n.eps(next, n.end)
			at = next
		}
		from, line = line, n.state()
	}

	n = b.chars.nfa
	n.eps(0, n.end)
	anyChar(n, 0, 0)

	n = b.str.nfa
	open := n.text(0, `"`)
	anyChar(n, open, open)
	n.edge(open, '"', '"', n.end)

	n = b.integer.nfa
	n.eps(p.embed(n, 0, whole(integerForm), writeUTF8), n.end)
	n = b.number.nfa
	n.eps(p.embed(n, 0, whole(numberForm), writeUTF8), n.end)

	n = b.value.nfa
	for _, word := range []string{"true", "false", "null"} {
		n.eps(n.text(0, word), n.end)
	}
	for _, f := range []*frame{b.str, b.number, b.object, b.array} {
		n.call(0, f, n.end)
	}

	n = b.object.nfa
	open = n.then(n.text(0, "{"), b.space)
	key := n.state()
	n.eps(open, key)
	colon := n.then(n.text(n.then(n.then(key, b.str), b.space), ":"), b.space)
	after := n.then(n.then(colon, b.value), b.space)
	n.call(n.text(after, ","), b.space, key)
	n.edge(after, '}', '}', n.end)
	n.edge(open, '}', '}', n.end)

	n = b.array.nfa
	open = n.then(n.text(0, "["), b.space)
	item := n.state()
	n.eps(open, item)
	after = n.then(n.then(item, b.value), b.space)
	n.call(n.text(after, ","), b.space, item)
	n.edge(after, ']', ']', n.end)
	n.edge(open, ']', ']', n.end)

	if err := p.finish(); err != nil {
		panic(err) // constant input
	}
	for _, f := range p.frames {
		f.shared = true
	}
	return b
})

// anyChar adds one character of a JSON string, in any spelling: escapes, and surrogates only in
// pairs.
func anyChar(n *nfa, from, to int32) {
	plain := func(lo, hi rune) { writeUTF8(n, from, lo, hi, to) }
	plain(0x20, '"'-1)
	plain('"'+1, '\\'-1)
	plain('\\'+1, 0x10ffff)
	esc := n.text(from, `\`)
	for _, c := range []byte(`"\/bfnrt`) {
		n.edge(esc, c, c, to)
	}
	digit := func(from, to int32, set string) {
		for _, c := range []byte(set) {
			n.edge(from, c, c, to)
		}
	}
	const all = "0123456789abcdefABCDEF"
	u := n.text(esc, "u")
	h1, h2, h3, d, low := n.state(), n.state(), n.state(), n.state(), n.state()
	digit(u, h1, "0123456789abcefABCEF")
	digit(h1, h2, all)
	digit(h2, h3, all)
	digit(h3, to, all)
	digit(u, d, "dD")
	digit(d, h2, "01234567")
	digit(d, low, "89abAB")
	l1, pair, l2, l3 := n.state(), n.state(), n.state(), n.state()
	digit(low, l1, all)
	digit(l1, pair, all)
	digit(n.text(pair, `\u`), l2, "dD")
	digit(l2, l3, "cdefCDEF")
	digit(l3, h3, all)
}
