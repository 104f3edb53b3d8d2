package jinja

import "github.com/axle-llm/axle/tokenizer/origin"

// expr is a node that has a value; expr.go evaluates them.
type expr interface{ eval(*run) Value }

// stmt is a node that prints, sets or decides; eval.go executes them.
type stmt interface{ exec(*run) flow }

// flow is how a statement ends. Break and continue are statements that do no more.
type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

type (
	literal  struct{ v Value }
	nameExpr struct{ name string }
	listExpr struct {
		items []expr
		tuple bool
	}
	dictExpr struct{ keys, values []expr }
	notExpr  struct{ x expr }
	signExpr struct {
		minus bool
		x     expr
	}
	logicExpr struct {
		and  bool
		x, y expr
	}
	mathExpr struct {
		op   string
		x, y expr
		line int
	}
	compareExpr struct {
		x    expr
		ops  []string // == != < <= > >= in, not in
		with []expr
		line int
	}
	concatExpr struct{ parts []expr }
	condExpr   struct{ test, yes, no expr } // no may be nil
	attrExpr   struct {
		x    expr
		name string
		line int
	}
	itemExpr struct {
		x, key expr
		line   int
	}
	sliceExpr struct {
		x    expr
		at   [3]expr // each may be nil
		line int
	}
	callExpr struct {
		fn   expr
		args arguments
		line int
	}
	builtinExpr struct { // x|name(args), x is name(args)
		x    expr // nil in a chain that begins with a block
		name string
		what string   // "filter" or "test"
		f    *builtin // nil: unknown, an error once it is reached
		args arguments
		line int
	}
)

// arguments are those of one call.
type arguments struct {
	pos   []expr
	names []string
	named []expr
	star  expr // *x, or nil
}

type (
	dataStmt   struct{ text origin.Text }
	outputStmt struct {
		x    expr
		line int
	}
	ifStmt struct {
		tests  []expr
		bodies [][]stmt
		other  []stmt
	}
	forStmt struct {
		target      target
		items, test expr // test may be nil
		body, other []stmt
		line        int
	}
	setStmt struct {
		target target
		x      expr
		line   int
	}
	captureStmt struct { // {% set x %}…{% endset %} and, without a target, {% filter f %}…{% endfilter %}
		target  *target
		filters []*builtinExpr // the first is applied first
		body    []stmt
		line    int
	}
	macroStmt struct {
		name     string
		params   []string
		defaults []expr // of the last params
		body     []stmt
		line     int
	}
	callStmt struct {
		call  *callExpr
		block *macroStmt
	}
	scopeStmt struct{ body []stmt } // a body in a scope of its own
)

// target is what is assigned to: a name, a namespace's attribute, or several.
type target struct {
	name, attr string
	tuple      []target // where name is empty
}
