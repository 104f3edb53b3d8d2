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
	return widen(m, func(w *widened) (*compiler, *Grammar, error) { return w.tools(family, tools, many) })
}

func (w *widened) tools(family string, tools []Tool, many bool) (*compiler, *Grammar, error) {
	c := w.newCompiler()
	top := c.program.add("root")
	n := top.nfa
	start, end := n.state(), n.state()
	if family == "phi" {
		n.eps(n.text(n.tag(0, "<|tool_call|>"), "["), start)
	} else {
		n.eps(0, start)
	}
	var last *schema
	for i, t := range tools {
		if t.Name == "" || strings.ContainsAny(t.Name, "<>\x00\n") {
			return nil, nil, &Error{Msg: "a tool's name is empty or holds <, > or a line end"}
		}
		params := &value{kind: kindObject}
		if len(t.Parameters) > 0 && string(t.Parameters) != "null" {
			var err error
			if params, err = parseJSON(t.Parameters); err != nil {
				return nil, nil, &Error{Where: "tool " + t.Name, Msg: err.Error()}
			}
		}
		root, err := c.document(params, &document{num: i, prefix: "tool " + t.Name + ": ", strict: t.Strict}, w)
		if err == nil {
			last = root
			set := []*schema{root, c.sub(root, "", objectOf(ofType("object")...))}
			err = c.toolCall(n, start, end, family, t.Name, set)
		}
		if err == nil {
			// Fill the tool's frames now, while its anchors are the ones that are known.
			err = c.drain()
		}
		if err != nil {
			return c, nil, err
		}
	}
	if family == "phi" {
		n.eps(n.tag(n.text(end, "]"), "<|/tool_call|>"), n.end)
	} else {
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
	g, err := c.link(top, last)
	return c, g, err
}

// toolCall adds a call of one tool between two states.
func (c *compiler) toolCall(n *nfa, from, to int32, family, name string, set []*schema) error {
	object := func(from int32, key string) (int32, error) {
		f, err := c.frame(set)
		if err != nil {
			return 0, err
		}
		at := n.then(n.text(n.then(n.text(from, `{"name":`), c.b.space), `"`+canonical(name)+`"`), c.b.space)
		at = n.then(n.text(n.then(n.text(at, `,`), c.b.space), `"`+key+`":`), c.b.space)
		return n.text(n.then(n.then(at, f), c.b.space), "}"), nil
	}
	switch family {
	case "qwen3", "hermes", "minicpm":
		at, err := object(n.text(n.tag(from, "<tool_call>"), "\n"), "arguments")
		if err != nil {
			return err
		}
		n.eps(n.tag(n.text(at, "\n"), "</tool_call>"), to)
	case "qwen3-coder":
		alts, err := c.alternatives(set)
		if err != nil {
			return err
		}
		open := n.text(n.tag(from, "<tool_call>"), "\n<function="+name+">\n")
		closing := n.state()
		for _, a := range alts {
			if a.finite {
				return asker(set, "enum").cannot("enum", "cannot be honoured for the arguments of a tool in this family's format")
			}
			if err := c.parameters(n, open, closing, a.leaves, coder); err != nil {
				return err
			}
		}
		n.eps(n.tag(n.text(closing, "</function>\n"), "</tool_call>"), to)
	case "minicpm5":
		alts, err := c.alternatives(set)
		if err != nil {
			return err
		}
		open := n.text(n.tag(from, "<function"), ` name="`+name+`">`)
		closing := n.state()
		for _, a := range alts {
			if a.finite {
				return asker(set, "enum").cannot("enum", "cannot be honoured for the arguments of a tool in this family's format")
			}
			if err := c.parameters(n, open, closing, a.leaves, cdata); err != nil {
				return err
			}
		}
		n.eps(n.tag(closing, "</function>"), to)
	case "llama3", "gemma", "phi":
		key := "parameters"
		if family == "phi" {
			key = "arguments"
		}
		at, err := object(from, key)
		if err != nil {
			return err
		}
		n.eps(at, to)
	default:
		return &Error{Msg: "models of the family " + family + " have no format for tool calls that could be required"}
	}
	return nil
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
func (c *compiler) parameters(n *nfa, from, to int32, leaves []*schema, e element) error {
	o, err := c.object(leaves)
	if err != nil {
		return err
	}
	if o.none {
		return nil
	}
	if o.lo > 1 || o.hi >= 0 {
		return asker(leaves, "maxProperties").cannot("maxProperties", "cannot be honoured in this family's format")
	}
	at := from
	for _, m := range o.members {
		next := n.state()
		in := n.text(at, e.open+m.name+e.close)
		if err := c.parameter(n, in, next, m.set, e); err != nil {
			return err
		}
		if !m.required {
			n.eps(at, next)
		}
		at = next
	}
	n.eps(at, to)
	return nil
}

func (c *compiler) parameter(n *nfa, from, to int32, set []*schema, e element) error {
	alts, err := c.alternatives(set)
	if err != nil {
		return err
	}
	for _, a := range alts {
		if a.finite {
			for _, v := range a.values {
				if v.kind == kindString && !strings.Contains(v.text, e.unquote) {
					n.eps(n.text(n.text(n.text(from, e.quote+v.text), e.unquote), e.behind()), to)
				} else if v.kind != kindString {
					n.eps(n.text(c.literal(n, from, v), e.end), to)
				}
			}
			continue
		}
		if a.kinds&kindString != 0 {
			d, lo, hi, err := c.text(a.leaves)
			if err != nil {
				return err
			}
			from, to := n.text(from, e.quote), to
			if rest := e.behind(); rest != "" {
				end := n.state()
				n.eps(n.text(end, rest), to)
				to = end
			}
			if d == nil && lo == 0 && hi < 0 {
				n.call(from, untilFrame(e.unquote, nil, false).free, to)
			} else {
				if d == nil {
					if d, err = textLength(lo, hi); err != nil {
						return asker(a.leaves, "maxLength").tooLarge("maxLength")
					}
				}
				open, err := compileRegex(c.m, regexp.QuoteMeta(e.unquote), true)
				if err == nil {
					d, err = d.and(open.not())
				}
				if err != nil {
					return asker(a.leaves, "pattern").tooLarge("pattern")
				}
				n.eps(n.text(c.embed(n, from, d, writeUTF8), e.unquote), to)
			}
		}
		if rest := a.kinds &^ kindString; rest != 0 {
			types := &value{kind: kindArray}
			for name, k := range kindNames {
				if k != kindString && (rest&k == k || k == kindInteger && rest&kindInteger != 0) {
					types.items = append(types.items, &value{kind: kindString, text: name})
				}
			}
			slices.SortFunc(types.items, func(a, b *value) int { return strings.Compare(a.text, b.text) })
			owner := a.owner(set)
			f, err := c.frame(append(slices.Clone(a.leaves),
				c.sub(owner, "", &value{kind: kindObject, keys: []string{"type"}, items: []*value{types}})))
			if err != nil {
				return err
			}
			n.eps(n.text(n.then(from, f), e.end), to)
		}
	}
	return nil
}

// owner is a schema to name in errors about a.
func (a alternative) owner(set []*schema) *schema {
	if len(a.leaves) > 0 {
		return a.leaves[0]
	}
	if len(set) > 0 {
		return set[0]
	}
	return &schema{v: &value{kind: kindObject}, ptr: "#", doc: &document{}}
}
