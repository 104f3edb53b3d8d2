package grammar

import (
	"context"
	"errors"
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
	defer func() {
		if errors.Is(err, errSpent) {
			err = &Error{Msg: err.Error()}
		}
	}()
	defer catch(&err)
	p := &gbnf{program: program{m: m}, src: src, rules: map[string]*gbnfRule{}}
	root, err := p.parse()
	if err != nil {
		var own *Error
		if !errors.As(err, &own) {
			own = p.fail("%v", err)
		}
		return nil, own
	}
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

type gbnf struct {
	program
	src    string
	at     int
	rules  map[string]*gbnfRule
	states int
	depth  int
}

func (p *gbnf) fail(format string, args ...any) *Error {
	before := p.src[:min(p.at, len(p.src))]
	line := strings.Count(before, "\n") + 1
	column := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
	return &Error{Where: fmt.Sprintf("line %d:%d", line, column), Msg: fmt.Sprintf(format, args...)}
}

func (p *gbnf) parse() (*frame, error) {
	if !utf8.ValidString(p.src) {
		return nil, &Error{Msg: "not UTF-8"}
	}
	for p.space(true); p.at < len(p.src); p.space(true) {
		start := p.at
		name := p.name()
		if name == "" {
			return nil, p.fail("a rule's name is expected")
		}
		r := p.rule(name)
		if r.defined {
			p.at = start
			return nil, p.fail("rule %s is defined twice", name)
		}
		r.defined = true
		p.space(false)
		if !p.take("::=") {
			return nil, p.fail("::= is expected behind %s", name)
		}
		p.space(true)
		end, err := p.alternatives(r.f.nfa, 0, false)
		if err != nil {
			return nil, err
		}
		r.f.nfa.eps(end, r.f.nfa.end)
		if !p.take("\r\n") && !p.take("\n") && !p.take("\r") && p.at < len(p.src) {
			return nil, p.fail("%q is not expected here", p.peek())
		}
	}
	// The first rule that is missing, in the order of the text.
	var missing []string
	for name, r := range p.rules {
		if !r.defined {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.SortFunc(missing, func(a, b string) int { return p.rules[a].used - p.rules[b].used })
		p.at = p.rules[missing[0]].used
		return nil, p.fail("rule %s is not defined", missing[0])
	}
	root := p.rules["root"]
	if root == nil {
		return nil, &Error{Msg: "there is no rule named root"}
	}
	return root.f, nil
}

func (p *gbnf) rule(name string) *gbnfRule {
	r := p.rules[name]
	if r == nil {
		r = &gbnfRule{f: p.add(name), used: p.at - len(name)}
		p.rules[name] = r
	}
	return r
}

func (p *gbnf) peek() rune {
	r, _ := utf8.DecodeRuneInString(p.src[p.at:])
	return r
}

func (p *gbnf) take(s string) bool {
	if !strings.HasPrefix(p.src[p.at:], s) {
		return false
	}
	p.at += len(s)
	return true
}

// space skips blanks and comments, and line ends where they may be.
func (p *gbnf) space(lines bool) {
	for p.at < len(p.src) {
		switch c := p.src[p.at]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			p.at++
		case c == '#':
			for p.at < len(p.src) && p.src[p.at] != '\n' && p.src[p.at] != '\r' {
				p.at++
			}
		default:
			return
		}
	}
}

func (p *gbnf) name() string {
	from := p.at
	for p.at < len(p.src) {
		c := p.src[p.at]
		if c != '-' && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') {
			break
		}
		p.at++
	}
	return p.src[from:p.at]
}

func (p *gbnf) alternatives(n *nfa, from int32, nested bool) (int32, error) {
	if p.depth++; p.depth > maxNesting {
		return 0, p.fail("nested more than %d deep", maxNesting)
	}
	defer func() { p.depth-- }()
	end := n.state()
	for {
		in := n.state()
		n.eps(from, in)
		out, err := p.sequence(n, in, nested)
		if err != nil {
			return 0, err
		}
		n.eps(out, end)
		if p.space(nested); !p.take("|") {
			return end, nil
		}
		p.space(true)
	}
}

// sequence reads items and their repetitions up to |, ) or the end of the line.
func (p *gbnf) sequence(n *nfa, from int32, nested bool) (int32, error) {
	for {
		p.space(nested)
		start := p.at
		// Repetition reads the item again for every copy: what it makes are states of this very
		// automaton.
		item := func(from int32) (int32, error) {
			p.at = start
			p.m.step(1)
			if p.states = p.states + 1; p.states > maxNodes || len(n.states) > maxNodes || len(p.rules) > maxRules {
				return 0, p.fail("%v", errTooLarge)
			}
			return p.item(n, from, nested)
		}
		in := n.state()
		n.eps(from, in)
		out, err := item(in)
		if err != nil {
			return 0, err
		}
		if p.at == start {
			return from, nil
		}
		after := p.at
		p.space(nested)
		least, most := 1, 1
		switch {
		case p.take("*"):
			least, most = 0, -1
		case p.take("+"):
			least, most = 1, -1
		case p.take("?"):
			least, most = 0, 1
		case p.take("{"):
			if least, most, err = p.bounds(); err != nil {
				return 0, err
			}
		default:
			p.at = after
		}
		behind := p.at
		end := n.state()
		if least == 0 {
			n.eps(from, end)
		}
		copies := max(least, most, 1)
		if most == 0 {
			copies, out = 0, in
		}
		for i := 1; ; i++ {
			if i >= least && copies > 0 {
				n.eps(out, end)
			}
			if i >= copies {
				break
			}
			next := n.state()
			n.eps(out, next)
			in = next
			if out, err = item(next); err != nil {
				return 0, err
			}
		}
		if most < 0 {
			n.eps(out, in)
		}
		p.at = behind
		from = end
	}
}

func (p *gbnf) bounds() (least, most int, err error) {
	number := func() (int, error) {
		p.space(false)
		from := p.at
		for p.at < len(p.src) && p.src[p.at] >= '0' && p.src[p.at] <= '9' {
			p.at++
		}
		v, err := strconv.Atoi(p.src[from:p.at])
		if err != nil || v > maxRepeat {
			p.at = from
			return 0, p.fail("a repetition count from 0 to %d is expected", maxRepeat)
		}
		p.space(false)
		return v, nil
	}
	if least, err = number(); err != nil {
		return 0, 0, err
	}
	most = least
	if p.take(",") {
		p.space(false)
		if most = -1; p.at < len(p.src) && p.src[p.at] != '}' {
			if most, err = number(); err != nil {
				return 0, 0, err
			}
			if most < least {
				return 0, 0, p.fail("{%d,%d} is no range", least, most)
			}
		}
	}
	if !p.take("}") {
		return 0, 0, p.fail("} is expected behind the repetition")
	}
	return least, most, nil
}

// item reads a literal, class, reference or group; nothing when there is none.
func (p *gbnf) item(n *nfa, from int32, nested bool) (int32, error) {
	if p.at == len(p.src) {
		return from, nil
	}
	switch c := p.src[p.at]; {
	case c == '"':
		p.at++
		for !p.take(`"`) {
			r, err := p.char('"')
			if err != nil {
				return 0, err
			}
			if len(n.states) > maxNodes {
				return 0, p.fail("%v", errTooLarge)
			}
			to := n.state()
			writeUTF8(n, from, r, r, to)
			from = to
		}
		return from, nil
	case c == '[':
		return p.class(n, from)
	case c == '.':
		p.at++
		to := n.state()
		writeUTF8(n, from, 0, utf8.MaxRune, to)
		return to, nil
	case c == '(':
		p.at++
		p.space(true)
		out, err := p.alternatives(n, from, true)
		if err != nil {
			return 0, err
		}
		if p.space(true); !p.take(")") {
			return 0, p.fail(") is expected")
		}
		return out, nil
	case c == '<' || c == '!':
		return 0, p.fail("token references are not supported: write the token's text")
	case c == '*' || c == '+' || c == '?' || c == '{':
		return 0, p.fail("there is nothing before %q to repeat", c)
	}
	name := p.name()
	if name == "" {
		return from, nil
	}
	to := n.state()
	n.call(from, p.rule(name).f, to)
	return to, nil
}

func (p *gbnf) class(n *nfa, from int32) (int32, error) {
	p.at++
	negated := p.take("^")
	var spans []span
	for !p.take("]") {
		lo, err := p.char(']')
		if err != nil {
			return 0, err
		}
		hi := lo
		if strings.HasPrefix(p.src[p.at:], "-") && !strings.HasPrefix(p.src[p.at:], "-]") {
			p.at++
			if hi, err = p.char(']'); err != nil {
				return 0, err
			}
		}
		if hi < lo {
			return 0, p.fail("the range from %q to %q is empty", lo, hi)
		}
		spans = append(spans, span{lo: lo, hi: hi})
	}
	to := n.state()
	if !negated {
		for _, s := range spans {
			writeUTF8(n, from, s.lo, s.hi, to)
		}
		return to, nil
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.lo - b.lo) })
	next := rune(0)
	for _, s := range spans {
		if s.lo > next {
			writeUTF8(n, from, next, s.lo-1, to)
		}
		next = max(next, s.hi+1)
	}
	if next <= utf8.MaxRune {
		writeUTF8(n, from, next, utf8.MaxRune, to)
	}
	return to, nil
}

// char reads a character of a literal or class, with escapes.
func (p *gbnf) char(closing byte) (rune, error) {
	if p.at == len(p.src) {
		return 0, p.fail("%q is expected", closing)
	}
	r, n := utf8.DecodeRuneInString(p.src[p.at:])
	if r != '\\' {
		p.at += n
		return r, nil
	}
	start := p.at
	p.at++
	if p.at == len(p.src) {
		return 0, p.fail("an escape is expected")
	}
	c := p.src[p.at]
	p.at++
	digits := 0
	switch c {
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	case 't':
		return '\t', nil
	case 'r':
		return '\r', nil
	case 'n':
		return '\n', nil
	case '\\', '"', '[', ']', '-', '^':
		return rune(c), nil
	default:
		p.at = start
		return 0, p.fail("\\%c is not an escape", c)
	}
	var v rune
	if p.at+digits > len(p.src) || !parseHex(p.src[p.at:p.at+digits], &v) || !utf8.ValidRune(v) {
		p.at = start
		return 0, p.fail("\\%c must be followed by %d hexadecimal digits of a character", c, digits)
	}
	p.at += digits
	return v, nil
}
