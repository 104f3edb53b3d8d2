package jinja

import (
	"fmt"
	"slices"
	"strings"

	"github.com/axle-llm/axle/tokenizer/origin"
)

const (
	maxNesting = 200  // of statements and brackets
	maxChain   = 4096 // operators, filters and subscripts in a row
)

// parser is jinja2's, rule by rule.
type parser struct {
	toks    []token
	at      int
	depth   int
	chained int
	loops   int // that surround what is read, for break and continue
	soft    int // conditions around it: an unknown filter there is an error only once it is reached
}

// Template is a parsed template.
type Template struct{ body []stmt }

// Parse reads a template. It fails with an [*Error].
func Parse(source string) (t *Template, err error) {
	defer func() {
		if p := recover(); p != nil {
			e, ok := p.(*Error)
			if !ok {
				panic(p)
			}
			t, err = nil, e
		}
	}()
	p := &parser{toks: scan(source)}
	return &Template{p.statements()}, nil
}

func (p *parser) tok() token { return p.toks[p.at] }

func (p *parser) next() token {
	t := p.toks[p.at]
	if p.at < len(p.toks)-1 {
		p.at++
	}
	return t
}

func (p *parser) peek() token { return p.toks[min(p.at+1, len(p.toks)-1)] }

func (p *parser) fail(format string, args ...any) {
	panic(&Error{p.tok().line, fmt.Sprintf(format, args...)})
}

// op and word report whether an operator or a keyword is next; skipOp and skipWord go behind it if
// so.
func (p *parser) op(s string) bool   { t := p.tok(); return t.kind == tokOp && t.text == s }
func (p *parser) word(s string) bool { t := p.tok(); return t.kind == tokName && t.text == s }

func (p *parser) skipOp(s string) bool {
	ok := p.op(s)
	if ok {
		p.next()
	}
	return ok
}

func (p *parser) skipWord(s string) bool {
	ok := p.word(s)
	if ok {
		p.next()
	}
	return ok
}

func (p *parser) expectOp(s string) {
	if !p.skipOp(s) {
		p.fail("expected %q, got %v", s, p.tok())
	}
}

func (p *parser) expect(k kind, what string) token {
	if p.tok().kind != k {
		p.fail("expected %s, got %v", what, p.tok())
	}
	return p.next()
}

// deeper bounds recursion: defer p.deeper()().
func (p *parser) deeper() func() {
	//rule:T7 TestNested > 2*maxNesting => < 0
	if p.depth++; p.depth > 2*maxNesting {
		p.fail("nested more than %d deep", maxNesting)
	}
	return func() { p.depth-- }
}

func (p *parser) chain() {
	if p.chained++; p.chained > maxChain {
		p.fail("an expression has more than %d parts in a row", maxChain)
	}
}

// statements reads up to one of the end tags, which it leaves, or to the end of the template.
func (p *parser) statements(ends ...string) []stmt {
	defer p.deeper()()
	var out []stmt
	for {
		switch t := p.tok(); t.kind {
		case tokEOF:
			if len(ends) > 0 {
				p.fail("the template ends before %s", strings.Join(ends, " or "))
			}
			return out
		case tokData:
			p.next()
			out = append(out, &dataStmt{origin.Own(t.text)})
		case tokExprBegin:
			p.next()
			x := p.tuple(p.expression)
			p.expect(tokExprEnd, `"}}"`)
			out = append(out, &outputStmt{x, t.line})
		case tokBlockBegin:
			p.next()
			if name := p.tok(); name.kind == tokName && slices.Contains(ends, name.text) {
				return out
			}
			out = append(out, p.statement())
			p.expect(tokBlockEnd, `"%}"`)
		}
	}
}

// body reads a block's statements; the end tag's name is next afterwards, or, if drop, behind it.
func (p *parser) body(drop bool, ends ...string) []stmt {
	p.skipOp(":")
	p.expect(tokBlockEnd, `"%}"`)
	out := p.statements(ends...)
	if drop {
		p.next()
	}
	return out
}

func (p *parser) statement() stmt {
	t := p.expect(tokName, "a statement")
	switch t.text {
	case "if":
		return p.ifStmt()
	case "for":
		return p.forStmt(t.line)
	case "set":
		return p.setStmt(t.line)
	case "macro":
		m := &macroStmt{name: p.expect(tokName, "a macro's name").text, line: t.line}
		p.params(m)
		m.body = p.macroBody("endmacro")
		return m
	case "call":
		return p.callStmt(t.line)
	case "filter":
		s := &captureStmt{line: t.line, filters: p.blockFilters(true)}
		s.body = p.body(true, "endfilter")
		return s
	case "generation": // marks what to train on, as the body of a call block, and prints it
		return &scopeStmt{p.macroBody("endgeneration")}
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%s outside of a loop", t.text)
		}
		return map[string]flow{"break": flowBreak, "continue": flowContinue}[t.text]
	}
	p.at--
	p.fail("the statement %q is not supported", t.text)
	return nil
}

func (p *parser) ifStmt() stmt {
	s := &ifStmt{}
	p.soft++
	defer func() { p.soft-- }()
	for {
		s.tests = append(s.tests, p.tuple(p.plain))
		s.bodies = append(s.bodies, p.body(false, "elif", "else", "endif"))
		switch p.next().text {
		case "elif":
			continue
		case "else":
			s.other = p.body(true, "endif")
		}
		return s
	}
}

func (p *parser) forStmt(line int) stmt {
	s := &forStmt{line: line, target: p.target("in")}
	if !p.skipWord("in") {
		p.fail("expected \"in\", got %v", p.tok())
	}
	s.items = p.tuple(p.plain, "recursive")
	if p.skipWord("if") {
		s.test = p.expression()
	}
	if p.word("recursive") {
		p.fail("recursive loops are not supported")
	}
	p.loops++
	s.body = p.body(false, "endfor", "else")
	p.loops--
	if p.next().text == "else" {
		s.other = p.body(true, "endfor")
	}
	return s
}

func (p *parser) setStmt(line int) stmt {
	var to target
	if n := p.peek(); p.tok().kind == tokName && n.kind == tokOp && n.text == "." {
		to.name = p.next().text
		p.next()
		to.attr = p.expect(tokName, "an attribute's name").text
	} else {
		to = p.target()
	}
	if p.skipOp("=") {
		return &setStmt{to, p.tuple(p.expression), line}
	}
	s := &captureStmt{target: &to, line: line, filters: p.blockFilters(false)}
	s.body = p.body(true, "endset")
	return s
}

// blockFilters reads the filters of a block; the first one has no bar before it if first is set.
func (p *parser) blockFilters(first bool) []*builtinExpr {
	var out []*builtinExpr
	for first || p.op("|") {
		if !first {
			p.next()
		}
		out = append(out, p.filter(nil))
		first = false
	}
	return out
}

func (p *parser) params(m *macroStmt) {
	p.expectOp("(")
	for !p.op(")") {
		if len(m.params) > 0 {
			p.expectOp(",")
		}
		m.params = append(m.params, p.expect(tokName, "a parameter").text)
		if p.skipOp("=") {
			m.defaults = append(m.defaults, p.expression())
		} else if len(m.defaults) > 0 {
			p.fail("a parameter without a default follows one that has one")
		}
	}
	p.next()
}

// macroBody reads a body that no break and no continue leaves.
func (p *parser) macroBody(end string) []stmt {
	loops := p.loops
	p.loops = 0
	body := p.body(true, end)
	p.loops = loops
	return body
}

func (p *parser) callStmt(line int) stmt {
	s := &callStmt{block: &macroStmt{name: "caller", line: line}}
	if p.op("(") {
		p.params(s.block)
	}
	var ok bool
	if s.call, ok = p.expression().(*callExpr); !ok {
		p.fail("a call block needs a call")
	}
	s.block.body = p.macroBody("endcall")
	return s
}

// target reads names to assign to; a tuple of them ends at one of ends too.
func (p *parser) target(ends ...string) target {
	x := p.tuple(p.primary, ends...)
	var of func(x expr) target
	of = func(x expr) target {
		switch x := x.(type) {
		case *nameExpr:
			return target{name: x.name}
		case *listExpr:
			if x.tuple {
				t := target{tuple: make([]target, 0, len(x.items))}
				for _, item := range x.items {
					t.tuple = append(t.tuple, of(item))
				}
				return t
			}
		}
		p.fail("cannot assign to this")
		return target{}
	}
	return of(x)
}
