package grammar

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// GBNF compiles a grammar in llama.cpp's notation. Errors are [*Error]s that name line and column.
// As in llama.cpp, a rule may not be left-recursive and repetitions end at 2,000.
func GBNF(src string) (*Grammar, error) { return GBNFFor(context.Background(), "", src) }

// GBNFFor is GBNF as [SchemaFor] is SchemaWith.
func GBNFFor(ctx context.Context, asker, src string) (*Grammar, error) {
	if len(src) > 1<<20 {
		return nil, &Error{Msg: fmt.Sprintf("a grammar of %d bytes is longer than 1 MiB", len(src))}
	}
	return recent.get(ctx, asker, "gbnf\x00"+src, func(m *meter) (*Grammar, error) { return compileGBNF(m, src) })
}

func compileGBNF(m *meter, src string) (g *Grammar, err error) {
	defer catch(&err)
	p := &gbnf{program: program{m: m}, src: src, rules: map[string]*gbnfRule{}}
	root := p.parse()
	if err := p.finish(); err != nil {
		return nil, &Error{Msg: err.Error()}
	}
	if root.need[0] >= never {
		return nil, &Error{Msg: "no text matches the grammar: a rule can never end"}
	}
	return &Grammar{root: root, depth: gbnfDepth, bytes: p.bytes()}, nil
}

const (
	maxRepeat = 2000
	maxRules  = 20_000
)

type gbnfRule struct {
	f       *frame
	defined bool
	used    int // where, for the error when it is never defined
}

// gbnf reads a grammar. What is wrong it panics with, as an [*Error].
type gbnf struct {
	program
	src    string
	at     int
	rules  map[string]*gbnfRule
	order  []string // of the rules, as they were used first
	states int
	depth  int
}

func (p *gbnf) fail(format string, args ...any) *Error {
	before := p.src[:min(p.at, len(p.src))]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return &Error{Where: fmt.Sprintf("line %d:%d", line, column), Msg: fmt.Sprintf(format, args...)}
}

func (p *gbnf) parse() *frame {
	if !utf8.ValidString(p.src) {
		panic(&Error{Msg: "not UTF-8"})
	}
	for p.space(true); p.at < len(p.src); p.space(true) {
		start := p.at
		name := p.name()
		if name == "" {
			panic(p.fail("a rule's name is expected"))
		}
		r := p.rule(name)
		if r.defined {
			p.at = start
			panic(p.fail("rule %s is defined twice", name))
		}
		r.defined = true
		p.space(false)
		p.must("::=", "behind "+name)
		p.space(true)
		r.f.nfa.eps(p.alternatives(r.f.nfa, 0, false), r.f.nfa.end)
		if !p.take("\r\n") && !p.take("\n") && !p.take("\r") && p.at < len(p.src) {
			next, _ := utf8.DecodeRuneInString(p.src[p.at:])
			panic(p.fail("%q is not expected here", next))
		}
	}
	for _, name := range p.order {
		if r := p.rules[name]; !r.defined {
			p.at = r.used
			panic(p.fail("rule %s is not defined", name))
		}
	}
	root := p.rules["root"]
	if root == nil {
		panic(&Error{Msg: "there is no rule named root"})
	}
	return root.f
}

func (p *gbnf) rule(name string) *gbnfRule {
	r := p.rules[name]
	if r == nil {
		r = &gbnfRule{f: p.add(name), used: p.at - len(name)}
		p.rules[name] = r
		p.order = append(p.order, name)
	}
	return r
}

func (p *gbnf) take(s string) bool {
	if !strings.HasPrefix(p.src[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

// must takes s, which has to stand here.
func (p *gbnf) must(s, where string) {
	if !p.take(s) {
		panic(p.fail("%s is expected %s", s, where))
	}
}

// span takes the bytes that are in a set.
func (p *gbnf) span(in func(c byte) bool) string {
	from := p.at
	for p.at < len(p.src) && in(p.src[p.at]) {
		p.at++
	}
	return p.src[from:p.at]
}

// space skips blanks and comments, and line ends where they may be.
func (p *gbnf) space(lines bool) {
	line := func(c byte) bool { return c == '\n' || c == '\r' }
	for {
		p.span(func(c byte) bool { return c == ' ' || c == '\t' || lines && line(c) })
		if !p.take("#") {
			return
		}
		p.span(func(c byte) bool { return !line(c) })
	}
}

func (p *gbnf) name() string {
	return p.span(func(c byte) bool {
		return c == '-' || c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
	})
}

func (p *gbnf) alternatives(n *nfa, from int32, nested bool) int32 {
	if p.depth++; p.depth > maxNesting {
		panic(p.fail("nested more than %d deep", maxNesting))
	}
	end := n.state()
	for {
		in := n.state()
		n.eps(from, in)
		n.eps(p.sequence(n, in, nested), end)
		if p.space(nested); !p.take("|") {
			p.depth--
			return end
		}
		p.space(true)
	}
}

// sequence reads items and their repetitions up to |, ) or the end of the line.
func (p *gbnf) sequence(n *nfa, from int32, nested bool) int32 {
	for {
		p.space(nested)
		start := p.at
		// Repetition reads the item again for every copy: what it makes are states of this very
		// automaton.
		item := func(from int32) int32 {
			p.at = start
			p.m.step(1)
			if p.states++; p.states > maxNodes || len(n.states) > maxNodes || len(p.rules) > maxRules {
				panic(p.fail("%v", errTooLarge))
			}
			return p.item(n, from)
		}
		in := n.state()
		n.eps(from, in)
		out := item(in)
		if p.at == start {
			return from
		}
		least, most := p.repetition(nested)
		behind := p.at
		end := n.state()
		if least == 0 {
			n.eps(from, end)
		}
		for i := 1; most != 0; i++ {
			if i >= least {
				n.eps(out, end)
			}
			if i >= max(least, most) {
				break
			}
			in = n.state()
			n.eps(out, in)
			out = item(in)
		}
		if most < 0 {
			n.eps(out, in)
		}
		p.at = behind
		from = end
	}
}

// repetition reads how often an item comes; most < 0: as often as one likes.
func (p *gbnf) repetition(nested bool) (least, most int) {
	after := p.at
	p.space(nested)
	switch {
	case p.take("*"):
		return 0, -1
	case p.take("+"):
		return 1, -1
	case p.take("?"):
		return 0, 1
	case !p.take("{"):
		p.at = after
		return 1, 1
	}
	number := func() int {
		p.space(false)
		from := p.at
		v, err := strconv.Atoi(p.span(func(c byte) bool { return c >= '0' && c <= '9' }))
		if err != nil || v > maxRepeat {
			p.at = from
			panic(p.fail("a repetition count from 0 to %d is expected", maxRepeat))
		}
		p.space(false)
		return v
	}
	least = number()
	most = least
	if p.take(",") {
		p.space(false)
		if most = -1; p.at < len(p.src) && p.src[p.at] != '}' {
			if most = number(); most < least {
				panic(p.fail("{%d,%d} is no range", least, most))
			}
		}
	}
	p.must("}", "behind the repetition")
	return least, most
}

// item reads a literal, class, reference or group; nothing when there is none.
func (p *gbnf) item(n *nfa, from int32) int32 {
	switch {
	case p.take(`"`):
		for !p.take(`"`) {
			r := p.char('"')
			if len(n.states) > maxNodes {
				panic(p.fail("%v", errTooLarge))
			}
			to := n.state()
			writeUTF8(n, from, r, r, to)
			from = to
		}
		return from
	case p.take("["):
		return p.class(n, from)
	case p.take("."):
		to := n.state()
		writeUTF8(n, from, 0, utf8.MaxRune, to)
		return to
	case p.take("("):
		p.space(true)
		out := p.alternatives(n, from, true)
		p.space(true)
		p.must(")", "behind the group")
		return out
	case p.at < len(p.src) && strings.IndexByte("<!", p.src[p.at]) >= 0:
		panic(p.fail("token references are not supported: write the token's text"))
	case p.at < len(p.src) && strings.IndexByte("*+?{", p.src[p.at]) >= 0:
		panic(p.fail("there is nothing before %q to repeat", p.src[p.at]))
	}
	name := p.name()
	if name == "" {
		return from
	}
	return n.then(from, p.rule(name).f)
}

func (p *gbnf) class(n *nfa, from int32) int32 {
	negated := p.take("^")
	var spans []span
	for !p.take("]") {
		lo := p.char(']')
		hi := lo
		if strings.HasPrefix(p.src[p.at:], "-") && !strings.HasPrefix(p.src[p.at:], "-]") {
			p.at++
			hi = p.char(']')
		}
		if hi < lo {
			panic(p.fail("the range from %q to %q is empty", lo, hi))
		}
		spans = append(spans, span{lo: lo, hi: hi})
	}
	to := n.state()
	if negated {
		slices.SortFunc(spans, byRune)
		next, gaps := rune(0), []span(nil)
		for _, s := range append(spans, span{lo: utf8.MaxRune + 1}) {
			if s.lo > next {
				gaps = append(gaps, span{lo: next, hi: s.lo - 1})
			}
			next = max(next, s.hi+1)
		}
		spans = gaps
	}
	for _, s := range spans {
		writeUTF8(n, from, s.lo, s.hi, to)
	}
	return to
}

// The escapes that are a letter or sign, and what they stand for.
const gbnfEscapes, gbnfEscaped = `trn\"[]-^`, "\t\r\n\\\"[]-^"

// char reads a character of a literal or class, with escapes.
func (p *gbnf) char(closing byte) rune {
	if p.at == len(p.src) {
		panic(p.fail("%q is expected", closing))
	}
	r, n := utf8.DecodeRuneInString(p.src[p.at:])
	if r != '\\' {
		p.at += n
		return r
	}
	start := p.at
	if p.at++; p.at == len(p.src) {
		panic(p.fail("an escape is expected"))
	}
	c := p.src[p.at]
	p.at++
	if i := strings.IndexByte(gbnfEscapes, c); i >= 0 {
		return rune(gbnfEscaped[i])
	}
	size := strings.IndexByte("xuU", c)
	if size < 0 {
		p.at = start
		panic(p.fail("\\%c is not an escape", c))
	}
	digits := 2 << size
	end := min(p.at+digits, len(p.src))
	v, err := strconv.ParseUint(p.src[p.at:end], 16, 32)
	if err != nil || end < p.at+digits || v > utf8.MaxRune || !utf8.ValidRune(rune(v)) {
		p.at = start
		panic(p.fail("\\%c must be followed by %d hexadecimal digits of a character", c, digits))
	}
	p.at = end
	return rune(v)
}
