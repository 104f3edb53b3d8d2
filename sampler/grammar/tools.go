package grammar

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Tool is a function that may be called. Parameters is the JSON schema of its arguments; empty: any
// object.
type Tool struct {
	Name       string
	Parameters []byte
	Strict     bool // refuse what of Parameters cannot be enforced: see [Options]
}

// ToolCalls is the grammar of an answer that is a call of one of the tools, or with many set one
// call or several, in the format of the family (see chat.Families): for tool_choice required.
// Errors are [Schema]'s, Where beginning with the tool's name, and one for a family that has no
// format for calls.
func ToolCalls(family string, tools []Tool, many bool) (*Grammar, error) {
	return ToolCallsFor(context.Background(), "", family, tools, many)
}

// ToolCallsFor is ToolCalls as [SchemaFor] is SchemaWith.
func ToolCallsFor(ctx context.Context, asker, family string, tools []Tool, many bool) (*Grammar, error) {
	if len(tools) == 0 {
		return nil, &Error{Msg: "a call is required and no tool is offered"}
	}
	key := fmt.Sprintf("tools\x00%s %v", family, many)
	for _, t := range tools {
		key += fmt.Sprintf("\x00%q %q %v", t.Name, t.Parameters, t.Strict)
	}
	return recent.get(ctx, asker, key, func(m *meter) (*Grammar, error) { return compileTools(m, family, tools, many) })
}

func compileTools(m *meter, family string, tools []Tool, many bool) (*Grammar, error) {
	return widen(m, func(w *widened) *Grammar { return w.tools(family, tools, many) })
}

func (w *widened) tools(family string, tools []Tool, many bool) *Grammar {
	c := w.newCompiler()
	top := c.program.add("root")
	n := top.nfa
	start, end := n.state(), n.state()
	if family == "phi" {
		n.eps(n.text(n.tag(0, "<|tool_call|>"), "["), start)
		n.eps(n.tag(n.text(end, "]"), "<|/tool_call|>"), n.end)
	} else {
		n.eps(0, start)
		n.eps(end, n.end)
	}
	if many {
		between := "\n"
		switch family {
		case "phi":
			between = ", "
		case "llama3", "gemma":
			between = "; "
		}
		n.eps(n.text(end, between), start)
	}
	var last *schema
	for i, t := range tools {
		if t.Name == "" || strings.ContainsAny(t.Name, "<>\x00\n") {
			panic(&Error{Msg: "a tool's name is empty or holds <, > or a line end"})
		}
		params := objectOf()
		if len(t.Parameters) > 0 && string(t.Parameters) != "null" {
			var err error
			if params, err = parseJSON(t.Parameters); err != nil {
				panic(&Error{Where: "tool " + t.Name, Msg: err.Error()})
			}
		}
		last = c.document(params, &document{num: i, prefix: "tool " + t.Name + ": ", strict: t.Strict}, w)
		c.toolCall(n, start, end, family, t.Name, []*schema{last, c.sub(last, "", typed("object"))})
		c.drain() // now, while its anchors are the ones that are known
	}
	return c.link(top, last)
}

// toolCall adds a call of one tool between two states.
func (c *compiler) toolCall(n *nfa, from, to int32, family, name string, set []*schema) {
	object := func(from int32, key string) int32 {
		at := n.then(n.text(n.then(n.text(from, `{"name":`), c.b.space), `"`+canonical(name)+`"`), c.b.space)
		at = n.then(n.text(n.then(n.text(at, `,`), c.b.space), `"`+key+`":`), c.b.space)
		return n.text(n.then(n.then(at, c.frame(set)), c.b.space), "}")
	}
	// elements writes the arguments one by one, behind open, and returns where they end.
	elements := func(open int32, e element) int32 {
		closing := n.state()
		for _, a := range c.alternatives(set, maxAlternatives) {
			if a.finite {
				panic(asker(set, "enum").cannot("enum", "cannot be honoured for the arguments of a tool in this family's format"))
			}
			c.parameters(n, open, closing, a.leaves, e)
		}
		return closing
	}
	switch family {
	case "qwen3", "hermes", "minicpm":
		at := object(n.text(n.tag(from, "<tool_call>"), "\n"), "arguments")
		n.eps(n.tag(n.text(at, "\n"), "</tool_call>"), to)
	case "qwen3-coder":
		at := elements(n.text(n.tag(from, "<tool_call>"), "\n<function="+name+">\n"), coder)
		n.eps(n.tag(n.text(at, "</function>\n"), "</tool_call>"), to)
	case "minicpm5":
		at := elements(n.text(n.tag(from, "<function"), ` name="`+name+`">`), cdata)
		n.eps(n.tag(at, "</function>"), to)
	case "llama3", "gemma":
		n.eps(object(from, "parameters"), to)
	case "phi":
		n.eps(object(from, "arguments"), to)
	default:
		panic(&Error{Msg: "models of the family " + family + " have no format for tool calls that could be required"})
	}
}

// tag adds text that some vocabularies have as a control token.
func (n *nfa) tag(from int32, text string) int32 {
	to := n.text(from, text)
	n.eps(n.text(from, string([]byte{control})+text), to)
	return to
}

// element is how a family writes a parameter: behind open, the name and close, and before end. A
// string stands between quote and unquote and goes on up to the latter, whatever it holds.
type element struct{ open, close, quote, unquote, end string }

var (
	coder = element{"<parameter=", ">\n", "", "\n</parameter>\n", "\n</parameter>\n"}
	cdata = element{`<param name="`, `">`, "<![CDATA[", "]]>", "</param>"}
)

// behind is what follows a string once unquote was written.
func (e element) behind() string {
	if e.unquote == e.end {
		return ""
	}
	return e.end
}

// parameters adds the parameters of Qwen3-Coder's and MiniCPM5's calls: strings stand as they are,
// anything else as JSON. Only named properties can be written so.
func (c *compiler) parameters(n *nfa, from, to int32, leaves []*schema, e element) {
	o := c.object(leaves)
	if o.none {
		return
	}
	if o.lo > 1 || o.hi >= 0 {
		panic(asker(leaves, "maxProperties").cannot("maxProperties", "cannot be honoured in this family's format"))
	}
	at := from
	for _, m := range o.members {
		next := n.state()
		in := n.text(at, e.open+m.name+e.close)
		for _, a := range c.alternatives(m.set, maxAlternatives) {
			c.parameter(n, in, next, a, e)
		}
		if !m.required {
			n.eps(at, next)
		}
		at = next
	}
	n.eps(at, to)
}

// parameter adds the values of one way to satisfy a parameter's schema.
func (c *compiler) parameter(n *nfa, from, to int32, a alternative, e element) {
	for _, v := range a.values {
		if v.kind != kindString {
			n.eps(n.text(c.literal(n, from, v), e.end), to)
		} else if !strings.Contains(v.text, e.unquote) {
			n.eps(n.text(n.text(from, e.quote+v.text), e.unquote+e.behind()), to)
		}
	}
	if a.kinds&kindString != 0 {
		closing := n.state()
		n.eps(n.text(closing, e.behind()), to)
		d, lo, hi := c.text(a.leaves)
		open := n.text(from, e.quote)
		if d == nil && lo == 0 && hi < 0 {
			n.call(open, untilFrame(e.unquote, nil, false).free, closing)
		} else {
			if d == nil {
				d = lengths(a.leaves, lo, hi)
			}
			ends, err := compileRegex(c.m, regexp.QuoteMeta(e.unquote), true)
			if err != nil {
				panic(tooLarge(a.leaves, "pattern"))
			}
			d = language{asker(a.leaves, "pattern"), "pattern", ends.not()}.both(d)
			n.eps(n.text(c.embed(n, open, d, writeUTF8), e.unquote), closing)
		}
	}
	if rest := a.kinds &^ kindString; rest != 0 {
		owner := &schema{v: objectOf(), ptr: "#", doc: &document{}} // to name in errors
		if len(a.leaves) > 0 {
			owner = a.leaves[0]
		}
		f := c.frame(append(slices.Clone(a.leaves), c.sub(owner, "", objectOf("type", typeValue(rest)))))
		n.eps(n.text(n.then(from, f), e.end), to)
	}
}
