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
	loops   int          // that surround what is read, for break and continue
	soft    int          // conditions around it: an unknown filter there is an error only once it is reached
	macros  []*macroUses // that surround it
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

// op and word report whether an operator or a keyword is next; skipOp and skipWord go behind it if so.
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
			x := p.tuple(true)
			p.expect(tokExprEnd, `"}}"`)
			out = append(out, &outputStmt{x, t.line})
		case tokBlockBegin:
			p.next()
			if name := p.tok(); name.kind == tokName && slices.Contains(ends, name.text) {
				return out
			}
			if s := p.statement(); s != nil {
				out = append(out, s...)
			}
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

func (p *parser) statement() []stmt {
	t := p.expect(tokName, "a statement")
	switch t.text {
	case "if":
		return []stmt{p.ifStmt()}
	case "for":
		return []stmt{p.forStmt(t.line)}
	case "set":
		return []stmt{p.setStmt(t.line)}
	case "macro":
		name := p.expect(tokName, "a macro's name").text
		m := &macroStmt{name: name, line: t.line}
		p.macro(m, "endmacro")
		return []stmt{m}
	case "call":
		return []stmt{p.callStmt(t.line)}
	case "filter":
		s := &captureStmt{line: t.line, filters: p.blockFilters(true)}
		s.body = p.body(true, "endfilter")
		return []stmt{s}
	case "with":
		return []stmt{p.withStmt(t.line)}
	case "autoescape":
		p.expression()
		return []stmt{&withStmt{body: p.body(true, "endautoescape")}}
	case "generation": // marks what to train on, and prints what is in it
		return p.body(true, "endgeneration")
	case "print":
		x := p.tuple(true)
		return []stmt{&outputStmt{x, t.line}}
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%s outside of a loop", t.text)
		}
		if t.text == "break" {
			return []stmt{&jumpStmt{flowBreak}}
		}
		return []stmt{&jumpStmt{flowContinue}}
	}
	p.at--
	p.fail("unknown statement %q", t.text)
	return nil
}

func (p *parser) ifStmt() stmt {
	s := &ifStmt{}
	p.soft++
	defer func() { p.soft-- }()
	for {
		s.tests = append(s.tests, p.tuple(false))
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
	s.items = p.tuple(false, "recursive")
	if p.skipWord("if") {
		s.test = p.expression()
	}
	s.recursive = p.skipWord("recursive")
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
		return &setStmt{to, p.tuple(true), line}
	}
	s := &captureStmt{target: &to, line: line, filters: p.blockFilters(false)}
	s.body = p.body(true, "endset")
	return s
}

// blockFilters reads the filters of a block; the first one has no bar before it if first is set.
func (p *parser) blockFilters(first bool) []*filterExpr {
	var out []*filterExpr
	for first || p.op("|") {
		if !first {
			p.next()
		}
		out = append(out, p.filter(nil))
		first = false
	}
	return out
}

// macro reads parameters, if there are any, and the body.
func (p *parser) macro(m *macroStmt, end string) {
	if end == "endmacro" || p.op("(") {
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
	if end == "endmacro" {
		p.macroBody(m, end)
	}
}

func (p *parser) macroBody(m *macroStmt, end string) {
	p.macros = append(p.macros, &m.uses)
	loops := p.loops
	p.loops = 0
	m.body = p.body(true, end)
	p.loops = loops
	p.macros = p.macros[:len(p.macros)-1]
}

func (p *parser) callStmt(line int) stmt {
	s := &callStmt{block: &macroStmt{name: "caller", line: line}}
	p.macro(s.block, "endcall")
	x := p.expression()
	call, ok := x.(*callExpr)
	if !ok {
		p.fail("a call block needs a call")
	}
	s.call = call
	p.macroBody(s.block, "endcall")
	return s
}

func (p *parser) withStmt(line int) stmt {
	s := &withStmt{line: line}
	for p.tok().kind != tokBlockEnd {
		if len(s.targets) > 0 {
			p.expectOp(",")
		}
		s.targets = append(s.targets, p.target())
		p.expectOp("=")
		s.values = append(s.values, p.expression())
	}
	s.body = p.body(true, "endwith")
	return s
}

// target reads names to assign to; a tuple of them ends at one of ends too.
func (p *parser) target(ends ...string) target {
	x := p.tupleOf(p.primary, false, ends...)
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

// tuple reads an expression, or several with commas between; cond says whether "a if b" is one.
func (p *parser) tuple(cond bool, ends ...string) expr {
	if cond {
		return p.tupleOf(p.expression, false, ends...)
	}
	return p.tupleOf(p.plain, false, ends...)
}

// plain reads an expression without a condition: an if behind it belongs to the statement.
func (p *parser) plain() expr {
	defer p.deeper()()
	chained := p.chained
	defer func() { p.chained = chained }()
	return p.or()
}

func (p *parser) tupleOf(item func() expr, brackets bool, ends ...string) expr {
	var items []expr
	tuple := false
	for {
		if len(items) > 0 {
			p.expectOp(",")
		}
		if t := p.tok(); t.kind == tokExprEnd || t.kind == tokBlockEnd || p.op(")") || t.kind == tokName && slices.Contains(ends, t.text) {
			break
		}
		items = append(items, item())
		if !p.op(",") {
			break
		}
		tuple = true
	}
	if !tuple {
		if len(items) > 0 {
			return items[0]
		}
		if !brackets {
			p.fail("expected an expression, got %v", p.tok())
		}
	}
	return &listExpr{items, true}
}

// expression reads one, "a if b else c" included.
func (p *parser) expression() expr {
	defer p.deeper()()
	chained := p.chained
	defer func() { p.chained = chained }()
	x := p.or()
	for p.skipWord("if") {
		p.chain()
		p.soft++
		c := &condExpr{yes: x, test: p.or()}
		if p.skipWord("else") {
			c.no = p.expression()
		}
		p.soft--
		x = c
	}
	return x
}

func (p *parser) or() expr {
	x := p.and()
	for p.skipWord("or") {
		p.chain()
		x = &logicExpr{false, x, p.and()}
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for p.skipWord("and") {
		p.chain()
		x = &logicExpr{true, x, p.not()}
	}
	return x
}

func (p *parser) not() expr {
	if p.skipWord("not") {
		defer p.deeper()()
		return &notExpr{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	c := &compareExpr{x: p.sum(), line: p.tok().line}
	for {
		t := p.tok()
		switch {
		case t.kind == tokOp && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text):
			p.next()
			c.ops = append(c.ops, t.text)
		case p.skipWord("in"):
			c.ops = append(c.ops, "in")
		case p.word("not") && p.peek().kind == tokName && p.peek().text == "in":
			p.next()
			p.next()
			c.ops = append(c.ops, "not in")
		case len(c.ops) == 0:
			return c.x
		default:
			return c
		}
		p.chain()
		c.with = append(c.with, p.sum())
	}
}

// binary reads operands with operators of one level between them.
func (p *parser) binary(operand func() expr, ops ...string) expr {
	x := operand()
	for {
		t := p.tok()
		if t.kind != tokOp || !slices.Contains(ops, t.text) {
			return x
		}
		p.next()
		p.chain()
		x = &mathExpr{t.text, x, operand(), t.line}
	}
}

func (p *parser) sum() expr { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() expr {
	parts := []expr{p.product()}
	for p.skipOp("~") {
		p.chain()
		parts = append(parts, p.product())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return &concatExpr{parts}
}

func (p *parser) product() expr { return p.binary(p.power, "*", "/", "//", "%") }

func (p *parser) power() expr { return p.binary(p.filtered, "**") }

func (p *parser) filtered() expr { return p.unary(true) }

func (p *parser) unary(filters bool) expr {
	var x expr
	if t := p.tok(); p.op("-") || p.op("+") {
		defer p.deeper()()
		p.next()
		x = &signExpr{t.text == "-", p.unary(false)}
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	for filters {
		switch {
		case p.skipOp("|"):
			x = p.filter(x)
		case p.skipWord("is"):
			x = p.test(x)
		case p.op("("):
			x = p.call(x)
		default:
			return x
		}
		p.chain()
	}
	return x
}

func (p *parser) primary() expr {
	t := p.tok()
	switch {
	case t.kind == tokName:
		p.next()
		switch t.text {
		case "true", "True":
			return &literal{true}
		case "false", "False":
			return &literal{false}
		case "none", "None":
			return &literal{nil}
		}
		for _, m := range p.macros {
			m.caller = m.caller || t.text == "caller"
			m.varargs = m.varargs || t.text == "varargs"
			m.kwargs = m.kwargs || t.text == "kwargs"
		}
		return &nameExpr{t.text}
	case t.kind == tokString:
		var s strings.Builder
		for p.tok().kind == tokString {
			s.WriteString(p.next().text)
		}
		return &literal{origin.Own(s.String())}
	case t.kind == tokInt, t.kind == tokFloat:
		p.next()
		return &literal{t.value}
	case p.skipOp("("):
		x := p.tupleOf(p.expression, true)
		p.expectOp(")")
		return x
	case p.skipOp("["):
		l := &listExpr{}
		for !p.op("]") {
			if len(l.items) > 0 {
				if p.expectOp(","); p.op("]") {
					break
				}
			}
			l.items = append(l.items, p.expression())
		}
		p.next()
		return l
	case p.skipOp("{"):
		d := &dictExpr{}
		for !p.op("}") {
			if len(d.keys) > 0 {
				if p.expectOp(","); p.op("}") {
					break
				}
			}
			d.keys = append(d.keys, p.expression())
			p.expectOp(":")
			d.values = append(d.values, p.expression())
		}
		p.next()
		return d
	}
	p.fail("unexpected %v", t)
	return nil
}

func (p *parser) postfix(x expr) expr {
	for {
		t := p.tok()
		switch {
		case p.skipOp("."):
			switch n := p.next(); n.kind {
			case tokName:
				x = &attrExpr{x, n.text, t.line}
			case tokInt:
				x = &itemExpr{x, &literal{n.value}, t.line}
			default:
				p.at--
				p.fail("expected a name or a number, got %v", n)
			}
		case p.skipOp("["):
			x = p.subscript(x, t.line)
		case p.op("("):
			x = p.call(x)
		default:
			return x
		}
		p.chain()
	}
}

func (p *parser) subscript(x expr, line int) expr {
	var keys []expr
	for !p.op("]") {
		if len(keys) > 0 {
			p.expectOp(",")
		}
		var at [3]expr
		if !p.op(":") {
			at[0] = p.expression()
		}
		if !p.op(":") {
			keys = append(keys, at[0])
			continue
		}
		p.next()
		ends := func() bool { return p.op("]") || p.op(",") || p.op(":") }
		if !ends() {
			at[1] = p.expression()
		}
		if p.skipOp(":") && !ends() {
			at[2] = p.expression()
		}
		if len(keys) > 0 || !p.op("]") {
			p.fail("a slice among several subscripts")
		}
		p.next()
		return &sliceExpr{x, at, line}
	}
	p.next()
	if len(keys) == 1 {
		return &itemExpr{x, keys[0], line}
	}
	return &itemExpr{x, &listExpr{keys, true}, line}
}

func (p *parser) call(x expr) expr {
	line := p.tok().line
	return &callExpr{x, p.arguments(), line}
}

func (p *parser) arguments() arguments {
	var a arguments
	p.expectOp("(")
	for comma := false; !p.op(")"); comma = true {
		if comma {
			if p.expectOp(","); p.op(")") {
				break
			}
		}
		bad := false
		switch n := p.peek(); {
		case p.skipOp("*"):
			bad = a.star != nil || a.dict != nil
			a.star = p.expression()
		case p.skipOp("**"):
			bad = a.dict != nil
			a.dict = p.expression()
		case p.tok().kind == tokName && n.kind == tokOp && n.text == "=":
			bad = a.dict != nil || slices.Contains(a.names, p.tok().text)
			a.names = append(a.names, p.next().text)
			p.next()
			a.named = append(a.named, p.expression())
		default:
			bad = a.star != nil || a.dict != nil || len(a.names) > 0
			a.pos = append(a.pos, p.expression())
		}
		if bad {
			p.fail("arguments are out of order")
		}
	}
	p.next()
	return a
}

// dotted reads a filter's or a test's name.
func (p *parser) dotted(what string) string {
	name := p.expect(tokName, what).text
	for p.skipOp(".") {
		name += "." + p.expect(tokName, what).text
	}
	return name
}

func (p *parser) filter(x expr) *filterExpr {
	f := &filterExpr{x: x, line: p.tok().line, name: p.dotted("a filter's name")}
	if f.f = filters[f.name]; f.f == nil && p.soft == 0 {
		p.fail("there is no filter %q", f.name)
	}
	if p.op("(") {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) test(x expr) expr {
	negated := p.skipWord("not")
	t := &testExpr{x: x, line: p.tok().line, name: p.dotted("a test's name")}
	if t.f = tests[t.name]; t.f == nil && p.soft == 0 {
		p.fail("there is no test %q", t.name)
	}
	switch n := p.tok(); {
	case p.op("("):
		t.args = p.arguments()
	case (n.kind == tokName || n.kind == tokString || n.kind == tokInt || n.kind == tokFloat || p.op("[") || p.op("{")) &&
		!p.word("else") && !p.word("or") && !p.word("and"):
		if p.word("is") {
			p.fail("tests cannot be chained with is")
		}
		t.args.pos = []expr{p.postfix(p.primary())}
	}
	if negated {
		return &notExpr{t}
	}
	return t
}
