package jinja

import (
	"slices"
	"strings"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// tuple reads items with commas between; one without a comma is itself. It ends at one of ends too.
func (p *parser) tuple(item func() expr, ends ...string) expr {
	items := []expr{item()}
	tuple := false
	for p.skipOp(",") {
		tuple = true
		if t := p.tok(); t.kind == tokExprEnd || t.kind == tokBlockEnd || p.op(")") || t.kind == tokName && slices.Contains(ends, t.text) {
			break
		}
		items = append(items, item())
	}
	if !tuple {
		return items[0]
	}
	return &listExpr{items, true}
}

// expression reads one, "a if b else c" included; plain reads one without: an if behind it belongs
// to the statement.
func (p *parser) expression() expr { return p.any(true) }
func (p *parser) plain() expr      { return p.any(false) }

func (p *parser) any(cond bool) expr {
	defer p.deeper()()
	chained := p.chained
	defer func() { p.chained = chained }()
	x := p.or()
	for cond && p.skipWord("if") {
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

func (p *parser) or() expr  { return p.logic(p.and, "or") }
func (p *parser) and() expr { return p.logic(p.not, "and") }

func (p *parser) logic(operand func() expr, word string) expr {
	x := operand()
	for p.skipWord(word) {
		p.chain()
		x = &logicExpr{word == "and", x, operand()}
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

func (p *parser) sum() expr      { return p.binary(p.concat, "+", "-") }
func (p *parser) product() expr  { return p.binary(p.filtered, "*", "/", "//", "%") }
func (p *parser) filtered() expr { return p.unary(true) }

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
		if p.skipOp(")") {
			return &listExpr{tuple: true}
		}
		x := p.tuple(p.expression)
		p.expectOp(")")
		return x
	case p.skipOp("["):
		l := &listExpr{}
		p.until("]", func() { l.items = append(l.items, p.expression()) })
		return l
	case p.skipOp("{"):
		d := &dictExpr{}
		p.until("}", func() {
			d.keys = append(d.keys, p.expression())
			p.expectOp(":")
			d.values = append(d.values, p.expression())
		})
		return d
	}
	p.fail("unexpected %v", t)
	return nil
}

// until reads items with commas between, and perhaps one behind the last, and goes behind the
// bracket that ends them.
func (p *parser) until(end string, item func()) {
	for first := true; !p.op(end); first = false {
		if !first {
			if p.expectOp(","); p.op(end) {
				break
			}
		}
		item()
	}
	p.next()
}

func (p *parser) postfix(x expr) expr {
	for {
		t := p.tok()
		switch {
		case p.skipOp("."):
			x = &attrExpr{x, p.expect(tokName, "a name").text, t.line}
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
	var at [3]expr
	ends := func() bool { return p.op("]") || p.op(":") }
	if !ends() {
		at[0] = p.expression()
	}
	if p.op(",") {
		p.fail("several subscripts at once are not supported")
	}
	if at[0] != nil && p.skipOp("]") {
		return &itemExpr{x, at[0], line}
	}
	p.expectOp(":")
	if !ends() {
		at[1] = p.expression()
	}
	if p.skipOp(":") && !ends() {
		at[2] = p.expression()
	}
	p.expectOp("]")
	return &sliceExpr{x, at, line}
}

func (p *parser) call(x expr) expr {
	line := p.tok().line
	return &callExpr{x, p.arguments(), line}
}

func (p *parser) arguments() arguments {
	var a arguments
	p.expectOp("(")
	p.until(")", func() {
		bad := false
		switch n := p.peek(); {
		case p.skipOp("*"):
			bad = a.star != nil
			a.star = p.expression()
		case p.tok().kind == tokName && n.kind == tokOp && n.text == "=":
			bad = slices.Contains(a.names, p.tok().text)
			a.names = append(a.names, p.next().text)
			p.next()
			a.named = append(a.named, p.expression())
		default:
			bad = a.star != nil || len(a.names) > 0
			a.pos = append(a.pos, p.expression())
		}
		if bad {
			p.fail("arguments are out of order")
		}
	})
	return a
}

// builtin reads the name of a filter or a test.
func (p *parser) builtin(x expr, what string, known map[string]*builtin) *builtinExpr {
	b := &builtinExpr{x: x, what: what, line: p.tok().line, name: p.expect(tokName, "a "+what+"'s name").text}
	if b.f = known[b.name]; b.f == nil && p.soft == 0 {
		p.fail("the %s %q is not supported", what, b.name)
	}
	return b
}

func (p *parser) filter(x expr) *builtinExpr {
	f := p.builtin(x, "filter", filters)
	if p.op("(") {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) test(x expr) expr {
	negated := p.skipWord("not")
	t := p.builtin(x, "test", tests)
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
