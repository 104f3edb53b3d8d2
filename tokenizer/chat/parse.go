package chat

import (
	"bytes"
	"slices"
	"strings"
)

// Families are the output formats [NewParser] knows; any other name is parsed as "plain".
//
//	qwen3, hermes   <tool_call>{"name": …, "arguments": {…}}</tool_call>
//	qwen3-coder     <tool_call><function=name><parameter=key>value</parameter></function></tool_call>
//	llama3          {"name": …, "parameters": {…}} or [name(key=value)] as the whole answer, <|python_tag|>, <function=name>{…}</function>
//	minicpm5        <function name="name"><param name="key">value</param></function>, a value in CDATA where it holds marks
//	minicpm         as qwen3, and <|tool_call_start|>name(key=value)<|tool_call_end|>
//	gemma           <start_function_call>call:name{…}<end_function_call>, <|tool_call>call:name{…}<tool_call|>, ```tool_code,
//	                or llama3's JSON
//	phi             <|tool_call|>[{"name": …, "arguments": {…}}]<|/tool_call|>
//	plain           no tool calls
//
// All of them know <think>; minicpm and gemma their own thinking tags too.
func Families() []string {
	return []string{"qwen3", "hermes", "qwen3-coder", "llama3", "minicpm5", "minicpm", "gemma", "phi", "plain"}
}

type parseState int

const (
	parseStart    parseState = iota // before the first character: a thinking tag may come
	parseThinkIn                    // inside thinking, before its first character
	parseThinking                   //
	parseThinkEnd                   // behind thinking: white space belongs to the tag
	parseLead                       // before the first character of the answer proper
	parseText                       //
	parseCall                       // behind an opener, or inside a call without one
	parseAfter                      // behind a call's value: its closing tag, or another value
	parseGap                        // behind a call: white space belongs to it
)

// Parser splits what a model writes into thinking, text and tool calls, as it comes. It belongs to
// one answer and one goroutine.
//
// Tags never appear in the deltas, and white space around </think> and around a tool call goes with
// the tag. Bytes are held back only while they may still become a tag, white space before one, or
// an unfinished call. Calls to tools that were not offered are dropped. What looked like a call and
// is none comes back as text, tag and all, or as thinking where it stood in that. How the answer is
// cut into writes makes no difference to what the deltas add up to.
type Parser struct {
	o      ParserOptions
	f      parseFormat
	state  parseState
	think  ThinkTag // the pair we are in
	opener parseOpener
	lead   []byte // the white space and opener that come back if the call is none
	amid   bool   // the opener stood in thinking, which goes on if the call is none
	buf    []byte // not yet decided
	json   parseScan
	seek   int  // buf[:seek] holds no closing tag
	quoted bool // buf[seek:] goes on in CDATA
	white  int  // buf[:white] is white space, in this state
	out    []Delta
	tries  int    // calls that were not finished when the answer ended
	run    []byte // text or thinking that belongs at the end of out
	inward bool   // it is thinking
}

// NewParser returns the parser for one answer of a model of the family; see [Families].
func NewParser(family string, o ParserOptions) *Parser {
	p := &Parser{o: o, f: parseFormatOf(family)}
	if len(o.Tools) == 0 {
		p.f.calls, p.f.leading = nil, false
	}
	switch {
	case o.Think == ThinkOff:
		p.state = parseLead
	case o.ThinkOpen:
		p.state, p.think = parseThinkIn, p.f.think[0]
		for _, t := range p.f.think {
			if t.Open == o.ThinkTag {
				p.think = t
			}
		}
	}
	return p
}

// Tagging says whether what was held back last belongs to thinking: its tag, or white space beside
// it.
func (p *Parser) Tagging() bool {
	switch p.state {
	case parseStart, parseThinkIn, parseThinking, parseThinkEnd:
		return true
	}
	return false
}

// Write takes the next part of the answer and returns what is certain now. The slice is the
// caller's.
func (p *Parser) Write(text string) []Delta {
	p.out = nil
	p.buf = append(p.buf, text...)
	for p.step(false) {
	}
	p.flush()
	return p.out
}

// Close returns what was held back: the answer is over. A call that is complete but for its closing
// tag is a call; any other unfinished call is text, and unfinished thinking is thinking.
func (p *Parser) Close() []Delta {
	p.out = nil
	for p.step(true) {
	}
	p.buf = nil
	p.flush()
	return p.out
}

// step moves on by one decision and reports whether there may be another. At the end it must decide
// everything.
func (p *Parser) step(end bool) bool {
	was := p.state
	more := p.decide(end)
	if p.state != was {
		p.white = 0
	}
	return more
}

func (p *Parser) decide(end bool) bool {
	if len(p.buf) == 0 && !(end && p.state == parseCall) {
		return false
	}
	switch p.state {
	case parseStart:
		return p.stepStart(end)
	case parseThinkIn:
		return p.stepThinkIn(end)
	case parseThinking:
		return p.stepThinking(end)
	case parseLead:
		return p.stepLead(end)
	case parseText:
		return p.stepText(end)
	case parseCall:
		if p.opener.body != nil {
			return p.stepBody(end)
		}
		return p.stepValue(end)
	case parseAfter:
		return p.stepAfter(end)
	}
	// parseThinkEnd, parseGap
	p.buf = bytes.TrimLeft(p.buf, parseSpace)
	if len(p.buf) == 0 {
		return false
	}
	if p.state == parseThinkEnd {
		p.state = parseLead
	} else {
		p.state = parseText
	}
	return true
}

// blank returns buf without the white space that it begins with. What is known of it is not looked
// at again: a model that writes nothing else may go on for long.
func (p *Parser) blank() []byte {
	for p.white < len(p.buf) && strings.IndexByte(parseSpace, p.buf[p.white]) >= 0 {
		p.white++
	}
	return p.buf[p.white:]
}

func (p *Parser) stepStart(end bool) bool {
	opened, wait := p.thinkTag(end)
	switch {
	case wait:
		return false
	case opened:
		p.state = parseThinkIn
	default:
		p.state = parseLead
	}
	return true
}

// thinkTag takes a tag that begins thinking, if one is next behind white space; wait says that one
// may still come. A second tag is text.
func (p *Parser) thinkTag(end bool) (opened, wait bool) {
	rest := p.blank()
	for _, t := range p.f.think {
		switch {
		case bytes.HasPrefix(rest, []byte(t.Open)):
			p.buf, p.think = rest[len(t.Open):], t
			p.o.ThinkOpen, p.white = false, 0
			return true, false
		case !end && parsePrefix(t.Open, rest):
			return false, true
		}
	}
	return false, false
}

func (p *Parser) stepThinkIn(end bool) bool {
	if p.o.ThinkOpen { // the prompt opened the block; some models open it again
		if opened, wait := p.thinkTag(end); opened || wait {
			return opened
		}
		p.o.ThinkOpen = false
	}
	rest := p.blank()
	p.buf, p.white = rest, 0
	if len(rest) > 0 {
		p.state = parseThinking
	}
	return len(rest) > 0
}

func (p *Parser) stepThinking(end bool) bool {
	i, o := p.findOpener()
	before := p.buf
	if i >= 0 {
		before = p.buf[:i] // no further: there may be many
	}
	if at := bytes.Index(before[min(p.white, len(before)):], []byte(p.think.Close)); at >= 0 {
		at += min(p.white, len(before)) // no tag begins with white space
		p.emit(Delta{Thinking: string(bytes.TrimRight(p.buf[:at], parseSpace))})
		p.buf, p.state = p.buf[at+len(p.think.Close):], parseThinkEnd
		return true
	}
	// A tool call inside thinking ends it: small models forget the closing tag. A tag that is only
	// mentioned does not.
	if i >= 0 {
		text := bytes.TrimRight(p.buf[:i], parseSpace)
		p.emit(Delta{Thinking: string(text)})
		p.open(p.buf[len(text):i], p.buf[i:], o)
		p.amid = true
		return true
	}
	n := p.settled(end, p.think.Close)
	p.emit(Delta{Thinking: string(p.buf[:n])})
	p.keep(n)
	return false
}

// stepLead looks for a call without a tag, fenced or not: it must be the first thing in the answer.
func (p *Parser) stepLead(end bool) bool {
	if !p.f.leading {
		p.state = parseText
		return true
	}
	rest := p.blank()
	if len(rest) == 0 && !end {
		return false
	}
	space := p.buf[:len(p.buf)-len(rest)]
	switch {
	case len(rest) > 0 && (rest[0] == '{' || rest[0] == '['):
		p.open(space, rest, parseOpener{loose: true})
		return true
	case bytes.HasPrefix(rest, []byte(parseFence.open)):
		p.open(space, rest, parseFence)
		return true
	case !end && parsePrefix(parseFence.open, rest):
		return false
	}
	p.state = parseText
	return true
}

func (p *Parser) stepText(end bool) bool {
	if len(p.f.calls) == 0 {
		p.emit(Delta{Text: string(p.buf)})
		p.buf = nil
		return false
	}
	if i, o := p.findOpener(); i >= 0 {
		text := bytes.TrimRight(p.buf[:i], parseSpace)
		p.emit(Delta{Text: string(text)})
		p.open(p.buf[len(text):i], p.buf[i:], o)
		return true
	}
	n := p.settled(end, "")
	p.emit(Delta{Text: string(p.buf[:n])})
	p.keep(n)
	return false
}

// keep drops the first n bytes of buf.
func (p *Parser) keep(n int) {
	if n > 0 {
		p.buf, p.white = p.buf[n:], 0
	}
}

// findOpener returns the first opener in buf, the longest where two begin together.
func (p *Parser) findOpener() (int, parseOpener) {
	rest := p.blank()
	for i, c := range rest {
		if c != '<' && c != '`' { // what all of them begin with
			continue
		}
		var found parseOpener
		for _, o := range p.f.calls {
			if len(o.open) > len(found.open) && bytes.HasPrefix(rest[i:], []byte(o.open)) {
				found = o
			}
		}
		if found.open != "" {
			return p.white + i, found
		}
	}
	return -1, parseOpener{}
}

// settled returns how much of buf cannot belong to a tag that comes later, nor to the white space
// before one.
func (p *Parser) settled(end bool, tag string) int {
	if end {
		return len(p.buf)
	}
	n := len(p.buf) - parseOverlap(p.buf, tag)
	for _, o := range p.f.calls {
		n = min(n, len(p.buf)-parseOverlap(p.buf, o.open))
	}
	if n <= p.white {
		return 0
	}
	return len(bytes.TrimRight(p.buf[:n], parseSpace))
}

// open begins a call at rest; space is what comes back with it if it is none.
func (p *Parser) open(space, rest []byte, o parseOpener) {
	p.opener, p.state = o, parseCall
	p.lead = append(bytes.Clone(space), o.open...)
	p.buf = rest[len(o.open):]
	p.json, p.seek, p.amid, p.quoted = parseScan{}, 0, false, false
}

// giveUp turns the opener and the first n bytes of buf into text, or into thinking up to its end.
func (p *Parser) giveUp(n int) {
	if p.amid {
		if i := bytes.Index(p.buf[:n], []byte(p.think.Close)); i >= 0 {
			n = i
		}
		n = len(bytes.TrimRight(p.buf[:n], parseSpace)) // it goes with a tag that may come
		p.emit(Delta{Thinking: string(p.lead)})
		p.emit(Delta{Thinking: string(p.buf[:n])})
		p.buf, p.lead, p.state, p.amid = p.buf[n:], nil, parseThinking, false
		return
	}
	p.emit(Delta{Text: string(p.lead)})
	p.emit(Delta{Text: string(p.buf[:n])})
	p.buf, p.lead, p.state = p.buf[n:], nil, parseText
}

// stepBody waits for the closing tag and decodes what is before it.
func (p *Parser) stepBody(end bool) bool {
	tag := []byte(p.opener.close)
	if p.opener.cdata {
		p.skipCDATA(len(tag))
	}
	at := -1
	if !p.quoted {
		at = bytes.Index(p.buf[p.seek:], tag)
	}
	if p.amid { // thinking that ends before the call does is where the answer begins
		from := max(0, p.seek-len(p.think.Close))
		if i := bytes.Index(p.buf[from:], []byte(p.think.Close)); i >= 0 && (at < 0 || from+i < p.seek+at) {
			p.giveUp(from + i)
			return true
		}
	}
	if at < 0 {
		if !end {
			if !p.opener.cdata { // else skipCDATA did
				p.seek = max(0, len(p.buf)-len(tag)+1)
			}
			return false
		}
		if calls, ok := p.opener.body(p.buf, p.o.Tools); ok {
			p.calls(calls)
			p.buf, p.state = nil, parseGap
			return false
		}
		p.giveUp(p.unfinished(0))
		return len(p.buf) > 0
	}
	at += p.seek
	calls, ok := p.opener.body(p.buf[:at], p.o.Tools)
	if !ok {
		p.giveUp(at + len(tag))
		return true
	}
	p.calls(calls)
	p.buf, p.state = p.buf[at+len(tag):], parseGap
	return true
}

// stepValue scans the JSON value, XML element or Python list behind an opener, or at the start of
// the answer.
func (p *Parser) stepValue(end bool) bool {
	verdict := p.json.scan(p.buf)
	if p.opener.loose && !parsePlausible(p.buf) {
		verdict = parseNever
	}
	switch {
	case verdict == parseMore && !end:
		return false
	case verdict == parseDone:
		if calls, ok := parseValue(p.buf[:p.json.at], p.o.Tools); ok && p.meant(calls, p.buf[:p.json.at]) {
			p.calls(calls)
			p.buf, p.state = p.buf[p.json.at:], parseAfter
			return true
		}
		p.giveUp(p.json.at)
		return true
	case verdict == parseNever:
		p.giveUp(p.json.at)
		return true
	}
	if calls, ok := parseValue(p.buf, p.o.Tools); ok && p.meant(calls, p.buf) {
		p.calls(calls) // complete but for the closing tag
		p.buf, p.state = nil, parseGap
		return false
	}
	// The answer ended inside: text up to the closing tag if there is one after all (in a string
	// that never ended).
	n := 0
	if p.opener.close != "" {
		if i := bytes.Index(p.buf, []byte(p.opener.close)); i >= 0 {
			n = i + len(p.opener.close)
		}
	}
	p.giveUp(p.unfinished(n))
	return len(p.buf) > 0
}

// unfinished is how much of buf is text where the answer ended inside a call: n bytes, and what is
// behind them may hold a call that is whole. It is asked for that twenty times.
func (p *Parser) unfinished(n int) int {
	if p.tries++; p.tries > 20 {
		return len(p.buf)
	}
	return n
}

// stepAfter takes the closing tag, or the next value where several share one pair of tags.
func (p *Parser) stepAfter(end bool) bool {
	rest := p.blank()
	tag := p.opener.close
	switch {
	case len(rest) == 0:
		if end {
			p.buf = nil
		}
		return false
	case tag != "" && bytes.HasPrefix(rest, []byte(tag)):
		p.buf, p.state = rest[len(tag):], parseGap
	case tag != "" && !end && parsePrefix(tag, rest):
		return false
	case rest[0] == '{' || rest[0] == '[' || tag == "" && (rest[0] == ';' || rest[0] == ','):
		if rest[0] == ';' || rest[0] == ',' {
			more := bytes.TrimLeft(rest[1:], parseSpace)
			if len(more) == 0 && !end {
				return false
			}
			if len(more) == 0 || more[0] != '{' && more[0] != '[' {
				p.buf, p.state = rest, parseText
				return true
			}
			p.open(rest[:len(rest)-len(more)], more, parseOpener{loose: true})
			return true
		}
		o := p.opener
		o.open, o.loose = "", true
		p.open(nil, rest, o)
	default:
		p.buf, p.state = rest, parseText
	}
	return true
}

// meant reports whether the value was written as calls: without a tag, {"name": "Ada"} is just an
// object.
func (p *Parser) meant(calls []ToolCall, raw []byte) bool {
	return !p.opener.loose || bytes.Contains(raw, []byte(`"parameters"`)) || bytes.Contains(raw, []byte(`"arguments"`)) ||
		bytes.HasPrefix(raw, []byte("[")) ||
		slices.ContainsFunc(calls, func(c ToolCall) bool { return p.offered(c.Name) })
}

func (p *Parser) offered(name string) bool {
	return slices.ContainsFunc(p.o.Tools, func(t Tool) bool { return t.Name == name })
}

// calls emits the calls to tools that were offered.
func (p *Parser) calls(calls []ToolCall) {
	p.lead = nil
	for _, c := range calls {
		if p.offered(c.Name) {
			p.emit(Delta{ToolCall: &c})
		}
	}
}

// emit adds d to the output, joining text to text.
func (p *Parser) emit(d Delta) {
	switch inward := d.Thinking != ""; {
	case d == (Delta{}):
	case d.ToolCall != nil:
		p.flush()
		p.out = append(p.out, d)
	default:
		if inward != p.inward {
			p.flush()
		}
		p.inward = inward
		p.run = append(append(p.run, d.Text...), d.Thinking...)
	}
}

// flush ends a run of text or thinking.
func (p *Parser) flush() {
	if len(p.run) == 0 {
		return
	}
	d := Delta{Text: string(p.run)}
	if p.inward {
		d = Delta{Thinking: d.Text}
	}
	p.out, p.run = append(p.out, d), p.run[:0]
}

// parsePrefix reports whether more bytes could turn have into tag.
func parsePrefix(tag string, have []byte) bool {
	return len(have) < len(tag) && tag[:len(have)] == string(have)
}

// parseOverlap returns the length of the longest end of b that begins tag.
func parseOverlap(b []byte, tag string) int {
	for n := min(len(b), len(tag)-1); n > 0; n-- {
		if string(b[len(b)-n:]) == tag[:n] {
			return n
		}
	}
	return 0
}
