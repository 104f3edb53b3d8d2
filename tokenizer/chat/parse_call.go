package chat

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

type parseVerdict int

const (
	parseMore  parseVerdict = iota // incomplete so far
	parseDone                      // complete, up to at
	parseNever                     // cannot become a call; up to at it is text
)

// parseScan finds the end of a value without decoding it, going on where it stopped: a call of n
// bytes costs n steps.
type parseScan struct {
	at    int
	depth int
	quote byte // the string we are in, or 0
	skip  bool // the next byte is escaped
	from  int  // an XML element is read so far
	param bool // and we are in a parameter
}

func (s *parseScan) scan(b []byte) parseVerdict {
	if s.depth == 0 {
		for s.at < len(b) && strings.IndexByte(parseSpace, b[s.at]) >= 0 {
			s.at++
		}
		if s.at == len(b) {
			return parseMore
		}
		switch b[s.at] {
		case '{', '[':
		case '<':
			return s.scanXML(b)
		default:
			s.at = 0
			return parseNever
		}
	}
	for ; s.at < len(b); s.at++ {
		c := b[s.at]
		switch {
		case s.skip:
			s.skip = false
		case s.quote != 0:
			if c == '\\' {
				s.skip = true
			} else if c == s.quote {
				s.quote = 0
			}
		case c == '"' || c == '\'':
			s.quote = c
		case c == '{' || c == '[' || c == '(':
			s.depth++
		case c == '}' || c == ']' || c == ')':
			if s.depth--; s.depth == 0 {
				s.at++
				return parseDone
			}
		case c == '<': // a tag before the value's end
			return parseNever
		}
	}
	return parseMore
}

// scanXML looks for </tool_call> outside every parameter, whose text may hold anything.
func (s *parseScan) scanXML(b []byte) parseVerdict {
	const open, end = "<function=", "</tool_call>"
	body := b[s.at:]
	if !bytes.HasPrefix(body, []byte(open)) {
		if parsePrefix(open, body) {
			return parseMore
		}
		s.at = 0
		return parseNever
	}
	const enter, leave = "<parameter=", "</parameter>"
	for {
		i := bytes.IndexByte(b[s.from:], '<')
		if i < 0 {
			s.from = len(b)
			return parseMore
		}
		s.from += i
		rest := b[s.from:]
		switch {
		case bytes.HasPrefix(rest, []byte(end)) && !s.param:
			s.at = s.from
			return parseDone
		case bytes.HasPrefix(rest, []byte(enter)):
			s.param = true
		case bytes.HasPrefix(rest, []byte(leave)):
			s.param = false
		case parsePrefix(end, rest), parsePrefix(enter, rest), parsePrefix(leave, rest):
			return parseMore
		}
		s.from++
	}
}

// parsePlausible reports whether an answer that begins like b may be a call without a tag: an
// object whose first key is one of a call's, an array of such objects, or a Python list of calls.
func parsePlausible(b []byte) bool {
	b = bytes.TrimLeft(b, parseSpace)
	if len(b) == 0 {
		return true
	}
	if b[0] == '[' {
		if b = bytes.TrimLeft(b[1:], parseSpace); len(b) == 0 {
			return true
		}
		if b[0] != '{' {
			name := bytes.TrimLeft(b, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
			return len(name) < len(b) && (len(name) == 0 || name[0] == '(')
		}
	}
	if b[0] != '{' {
		return false
	}
	if b = bytes.TrimLeft(b[1:], parseSpace); len(b) == 0 {
		return true
	}
	return slices.ContainsFunc([]string{`"name"`, `"type"`, `"function"`, `"parameters"`, `"arguments"`}, func(key string) bool {
		return parsePrefix(key, b) || bytes.HasPrefix(b, []byte(key))
	})
}

// parseValue decodes one JSON call, an array of them, a Python list of calls or a <function=…>
// element.
func parseValue(b []byte, tools []Tool) ([]ToolCall, bool) {
	b = bytes.Trim(b, parseSpace)
	if len(b) == 0 {
		return nil, false
	}
	switch b[0] {
	case '<':
		rest, ok := bytes.CutPrefix(b, []byte("<function="))
		if end := bytes.LastIndex(rest, []byte("</function>")); ok && end >= 0 {
			return parseBareFunction(rest[:end], tools)
		}
		return nil, false
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(b, &list) != nil {
			return parsePythonCalls(string(b))
		}
		var calls []ToolCall
		for _, raw := range list {
			c, ok := parseJSONCall(raw)
			if !ok {
				return nil, false
			}
			calls = append(calls, c)
		}
		return calls, len(calls) > 0
	}
	c, ok := parseJSONCall(b)
	return []ToolCall{c}, ok
}

// parseJSONCall decodes {"name": …, "arguments" or "parameters": {…}}, also within {"function": …}.
func parseJSONCall(raw []byte) (ToolCall, bool) {
	type call struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
	}
	var c struct {
		call
		Function json.RawMessage `json:"function"`
	}
	if json.Unmarshal(raw, &c) != nil {
		return ToolCall{}, false
	}
	if len(c.Function) > 0 && c.Name == "" {
		if json.Unmarshal(c.Function, &c.call) != nil && json.Unmarshal(c.Function, &c.Name) != nil {
			return ToolCall{}, false
		}
	}
	if c.Name == "" {
		return ToolCall{}, false
	}
	args := c.Arguments
	if len(args) == 0 {
		args = c.Parameters
	}
	args, ok := parseArguments(args)
	return ToolCall{Name: c.Name, Arguments: args}, ok
}

// parseArguments returns the object raw is, or holds as a string; nothing and null are no
// arguments.
func parseArguments(raw json.RawMessage) (json.RawMessage, bool) {
	var text string
	if len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(strings.TrimSpace(text))
	}
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage("{}"), true
	}
	var out bytes.Buffer
	if raw[0] != '{' || json.Compact(&out, raw) != nil {
		return nil, false
	}
	return out.Bytes(), true
}

// parseObject builds a JSON object whose keys keep their order.
type parseObject struct{ b []byte }

func (o *parseObject) set(key string, value json.RawMessage) {
	if len(o.b) == 0 {
		o.b = append(o.b, '{')
	} else {
		o.b = append(o.b, ',')
	}
	o.b = append(append(append(o.b, parseQuote(key)...), ':'), value...)
}

func (o *parseObject) json() json.RawMessage {
	if len(o.b) == 0 {
		return json.RawMessage("{}")
	}
	return append(o.b, '}')
}

// parseQuote is the JSON string for s, without HTML escapes.
func parseQuote(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// parseBareFunction decodes what is between <function= and </function>: name>{…} (Llama) or name>
// and parameters (Qwen3-Coder).
func parseBareFunction(b []byte, tools []Tool) ([]ToolCall, bool) {
	name, body, ok := strings.Cut(string(b), ">")
	name = strings.Trim(name, parseSpace+`"`)
	if !ok || name == "" {
		return nil, false
	}
	if body = strings.Trim(body, parseSpace); strings.HasPrefix(body, "{") {
		args, ok := parseArguments(json.RawMessage(body))
		return []ToolCall{{Name: name, Arguments: args}}, ok
	}
	types := parseTypes(name, tools)
	var args parseObject
	const closing, another = "</parameter>", "\n<parameter="
	var left, next int // bytes behind the first of each that is still ahead, so that each is looked for once
	left, next = len(body)+1, len(body)+1
	for {
		body = strings.TrimLeft(body, parseSpace)
		if body == "" {
			return []ToolCall{{Name: name, Arguments: args.json()}}, true
		}
		rest, ok := strings.CutPrefix(body, "<parameter=")
		if !ok {
			return nil, false
		}
		key, rest, ok := strings.Cut(rest, ">")
		if !ok {
			return nil, false
		}
		// The value ends at its closing tag, or, where the model forgot that, where the next
		// parameter begins.
		left, next = parseAhead(rest, closing, left), parseAhead(rest, another, next)
		var value string
		switch {
		case left < 0 && next < 0:
			return nil, false
		case next > left: // that many are behind it, so it comes first
			value, body = rest[:len(rest)-next], rest[len(rest)-next:]
		default:
			value, body = rest[:len(rest)-left], rest[len(rest)-left+len(closing):]
		}
		value = strings.TrimSuffix(strings.TrimPrefix(value, "\n"), "\n")
		key = strings.Trim(key, parseSpace+`"`)
		args.set(key, parseTyped(value, types[key]))
	}
}

// What stands between the two is taken as it is.
const cdataOpen, cdataClose = "<![CDATA[", "]]>"

// skipCDATA moves seek past every CDATA that is over and, where no closing tag of this many bytes
// comes before the next, into that.
func (p *Parser) skipCDATA(tag int) {
	for {
		rest := p.buf[p.seek:]
		if p.quoted {
			i := bytes.Index(rest, []byte(cdataClose))
			if i < 0 {
				p.seek = max(p.seek, len(p.buf)-len(cdataClose)+1)
				return
			}
			p.seek, p.quoted = p.seek+i+len(cdataClose), false
			continue
		}
		i := bytes.Index(rest, []byte(cdataOpen))
		if at := bytes.Index(rest, []byte(p.opener.close)); at >= 0 && (i < 0 || at < i) {
			p.seek += at
			return
		}
		if i < 0 {
			p.seek = max(p.seek, len(p.buf)-max(tag, len(cdataOpen))+1)
			return
		}
		p.seek, p.quoted = p.seek+i+len(cdataOpen), true
	}
}

// parseNamedFunction decodes what is between <function name= and </function> (MiniCPM5): "name">
// and parameters.
func parseNamedFunction(b []byte, tools []Tool) ([]ToolCall, bool) {
	name, body, ok := strings.Cut(string(b), ">")
	if name = strings.Trim(name, parseSpace+`"'`); !ok || name == "" {
		return nil, false
	}
	types := parseTypes(name, tools)
	var args parseObject
	for {
		if body = strings.TrimLeft(body, parseSpace); body == "" {
			return []ToolCall{{Name: name, Arguments: args.json()}}, true
		}
		rest, ok := strings.CutPrefix(body, "<param name=")
		if !ok {
			return nil, false
		}
		key, value, ok := strings.Cut(rest, ">")
		if key = strings.Trim(key, parseSpace+`"'`); !ok || key == "" {
			return nil, false
		}
		var text strings.Builder // a value may be of several parts: what holds ]]> has to be
		for {
			inner, quoted := strings.CutPrefix(strings.TrimLeft(value, parseSpace), cdataOpen)
			if !quoted {
				break
			}
			if inner, value, ok = strings.Cut(inner, cdataClose); !ok {
				return nil, false
			}
			text.WriteString(inner)
		}
		plain, left, ok := strings.Cut(value, "</param>")
		if !ok {
			return nil, false
		}
		if text.Len() == 0 {
			text.WriteString(strings.TrimSuffix(strings.TrimPrefix(plain, "\n"), "\n"))
		} else if strings.Trim(plain, parseSpace) != "" {
			return nil, false
		}
		args.set(key, parseTyped(text.String(), types[key]))
		body = left
	}
}

// parseAhead finds tag in text, which is the end of a longer one in which it was found before:
// known counts the bytes from there to the end, and is below zero where there is none.
func parseAhead(text, tag string, known int) int {
	if known <= len(text) {
		return known
	}
	i := strings.Index(text, tag)
	if i < 0 {
		return -1
	}
	return len(text) - i
}

// parseTypes returns the types that the schema of the tool of this name gives to each parameter.
func parseTypes(name string, tools []Tool) map[string][]string {
	i := slices.IndexFunc(tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	type typed struct {
		Type json.RawMessage `json:"type"`
	}
	var s struct {
		Properties map[string]struct {
			typed
			AnyOf []typed `json:"anyOf"`
		} `json:"properties"`
	}
	if json.Unmarshal(tools[i].Parameters, &s) != nil {
		return nil
	}
	out := map[string][]string{}
	for name, p := range s.Properties {
		for _, t := range append([]typed{p.typed}, p.AnyOf...) {
			var one string
			var many []string
			if json.Unmarshal(t.Type, &one) == nil {
				out[name] = append(out[name], one)
			} else if json.Unmarshal(t.Type, &many) == nil {
				out[name] = append(out[name], many...)
			}
		}
	}
	return out
}

// parseTyped turns the text of a parameter into JSON by the types it may have, the narrowest first,
// as Ollama does: null, boolean, integer, number, array, object, and a string when nothing else
// fits.
func parseTyped(text string, types []string) json.RawMessage {
	lower := strings.ToLower(strings.TrimSpace(text))
	if lower == "null" {
		return json.RawMessage("null")
	}
	has := func(t string) bool { return slices.Contains(types, t) }
	if has("boolean") && (lower == "true" || lower == "false") {
		return json.RawMessage(lower)
	}
	raw := json.RawMessage(strings.TrimSpace(text))
	if len(raw) > 0 && json.Valid(raw) {
		_, err := strconv.ParseInt(string(raw), 10, 64)
		switch c := raw[0]; {
		case has("integer") && err == nil,
			has("number") && (c == '-' || c >= '0' && c <= '9'),
			has("array") && c == '[',
			has("object") && c == '{':
			var out bytes.Buffer
			_ = json.Compact(&out, raw) // it is valid
			return out.Bytes()
		}
	}
	return parseQuote(text)
}
