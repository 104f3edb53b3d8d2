package chat

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A template's source is rewritten before the engine compiles it, for three reasons:
//
//   - Separation. What the template itself prints is written in a private alphabet (see shadow), so that afterwards each character of the
//     prompt tells whether it came from the template or from what it was given.
//   - Limits. Loops, ranges, macros and assignments report to a budget, so that no template can run for ever.
//   - The engine's misses: filters and methods that differ from Python's are replaced by ours, names in front of which stands axle_.

// tmplSegment is a part of a template: text, a comment, an expression or a statement.
type tmplSegment struct {
	kind       byte // 't', '#', '{', '%'
	start, end int  // of the inside
	outer      int  // where the opening bracket begins
	after      int  // behind the closing bracket
}

// tmplScan splits a template.
func tmplScan(src string) ([]tmplSegment, error) {
	var out []tmplSegment
	text := 0
	raw := false
	for i := 0; i+1 < len(src); {
		if src[i] != '{' || !strings.ContainsRune("{%#", rune(src[i+1])) {
			i++
			continue
		}
		kind := src[i+1]
		from := i + 2
		if from < len(src) && (src[from] == '-' || src[from] == '+') {
			from++
		}
		end, after := tmplClose(src, from, kind)
		if end < 0 {
			return nil, fmt.Errorf("unclosed {%c at byte %d", kind, i)
		}
		word := tmplKeyword(src[from:end])
		if raw && (kind != '%' || word != "endraw") {
			i += 2
			continue
		}
		if i > text {
			out = append(out, tmplSegment{'t', text, i, text, i})
		}
		out = append(out, tmplSegment{kind, from, end, i, after})
		raw = kind == '%' && word == "raw"
		i, text = after, after
	}
	if text < len(src) {
		out = append(out, tmplSegment{'t', text, len(src), text, len(src)})
	}
	return out, nil
}

// tmplClose finds the end of a tag: where its inside ends, and what follows it.
func tmplClose(src string, i int, kind byte) (end, after int) {
	closer := map[byte]string{'{': "}}", '%': "%}", '#': "#}"}[kind]
	depth, from := 0, i
	for i < len(src) {
		c := src[i]
		switch {
		case kind != '#' && (c == '\'' || c == '"'):
			j := i + 1
			for j < len(src) && src[j] != c {
				if src[j] == '\\' {
					j++
				}
				j++
			}
			i = j + 1
			continue
		case strings.HasPrefix(src[i:], closer) && depth == 0:
			if i > from && (src[i-1] == '-' || src[i-1] == '+') {
				return i - 1, i + 2
			}
			return i, i + 2
		case kind == '{' && c == '{':
			depth++
		case kind == '{' && c == '}' && depth > 0:
			depth--
		}
		i++
	}
	return -1, -1
}

// tmplTexts returns what is left of each text segment once the tags beside it have trimmed it, with trim_blocks and lstrip_blocks on as
// transformers has them: a minus takes all white space, a block or comment takes the indentation of its line and the new line behind it.
func tmplTexts(src string, segs []tmplSegment) []string {
	const space = " \t\n\r\v\f"
	out := make([]string, len(segs))
	newLine := true // what came before ended a line
	for i, s := range segs {
		if s.kind != 't' {
			newLine = false
			continue
		}
		text := src[s.start:s.end]
		if i > 0 {
			tag := segs[i-1]
			switch signed := tag.end < tag.after-2; {
			case signed && src[tag.end] == '-':
				trimmed := strings.TrimLeft(text, space)
				newLine = strings.HasSuffix(text[:len(text)-len(trimmed)], "\n")
				text = trimmed
			case signed, tag.kind == '{', tag.kind == '%' && tmplKeyword(src[tag.start:tag.end]) == "raw":
			case strings.HasPrefix(text, "\n"):
				text, newLine = text[1:], true
			}
		}
		if i+1 < len(segs) {
			tag := segs[i+1]
			switch signed := tag.start > tag.outer+2; {
			case signed && src[tag.outer+2] == '-':
				text = strings.TrimRight(text, space)
			case signed, tag.kind == '{':
			default:
				if k := strings.LastIndexByte(text, '\n') + 1; (k > 0 || newLine) && strings.Trim(text[k:], space) == "" {
					text = text[:k]
				}
			}
		}
		out[i] = text
		newLine = false
	}
	return out
}

func tmplKeyword(s string) string {
	s = strings.TrimLeft(s, " \t\r\n")
	return s[:len(s)-len(strings.TrimLeftFunc(s, func(r rune) bool { return r == '_' || unicode.IsLetter(r) }))]
}

// tmplToken is a token of an expression. kind is 'n' for names, 's' strings, 'd' numbers, and the character itself for operators.
type tmplToken struct {
	kind       byte
	text       string // a string's value, else the source
	start, end int
}

// tmplTokens reads an expression that begins at byte off of the template.
func tmplTokens(s string, off int) []tmplToken {
	var out []tmplToken
	for i := 0; i < len(s); {
		c := s[i]
		start := i
		switch {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r':
			i++
			continue
		case c == '\'' || c == '"':
			i++
			for i < len(s) && s[i] != c {
				if s[i] == '\\' {
					i++
				}
				i++
			}
			i = min(i+1, len(s))
			out = append(out, tmplToken{'s', tmplUnquote(s[start+1 : max(i-1, start+1)]), off + start, off + i})
			continue
		case c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= utf8.RuneSelf:
			for i < len(s) && (s[i] == '_' || s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z' || s[i] >= '0' && s[i] <= '9' || s[i] >= utf8.RuneSelf) {
				i++
			}
			out = append(out, tmplToken{'n', s[start:i], off + start, off + i})
			continue
		case c >= '0' && c <= '9':
			for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '_' || s[i] == '.' && i+1 < len(s) && s[i+1] >= '0' && s[i+1] <= '9') {
				i++
			}
			if j := i; j < len(s) && s[j]|0x20 == 'e' {
				if j++; j < len(s) && (s[j] == '+' || s[j] == '-') {
					j++
				}
				for j < len(s) && s[j] >= '0' && s[j] <= '9' {
					i, j = j+1, j+1
				}
			}
			out = append(out, tmplToken{'d', s[start:i], off + start, off + i})
			continue
		}
		i++
		if i < len(s) && strings.Contains("== != <= >= ** //", s[start:i+1]) && s[i] != ' ' {
			i++
		}
		out = append(out, tmplToken{c, s[start:i], off + start, off + i})
	}
	return out
}

// tmplUnquote reads Python's escapes in a string literal.
func tmplUnquote(s string) string {
	if !strings.Contains(s, "\\") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		hex := func(n int) {
			if i+n < len(s) {
				if v, err := strconv.ParseUint(s[i+1:i+1+n], 16, 32); err == nil {
					b.WriteRune(rune(v))
					i += n
					return
				}
			}
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
		switch s[i] {
		case 'n':
			b.WriteByte('\n')
		case 't':
			b.WriteByte('\t')
		case 'r':
			b.WriteByte('\r')
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'v':
			b.WriteByte('\v')
		case 'a':
			b.WriteByte('\a')
		case '0':
			b.WriteByte(0)
		case '\n':
		case '\\', '\'', '"':
			b.WriteByte(s[i])
		case 'x':
			hex(2)
		case 'u':
			hex(4)
		case 'U':
			hex(8)
		default:
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// tmplQuote writes a literal the engine reads back as s.
func tmplQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// tmplFilters are filters that ours replace, tmplMethods the string methods.
var (
	tmplFilters = []string{"tojson", "string", "join", "map", "select", "reject", "selectattr", "rejectattr", "default", "d", "length", "count", "trim", "list", "upper", "lower", "int", "first", "last", "replace", "indent", "center", "fromjson"}
	tmplMethods = []string{"split", "rsplit", "splitlines", "join", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "index", "rfind", "isdigit", "format", "startswith", "endswith", "replace"}
)

// tmplEdit replaces src[start:end].
type tmplEdit struct {
	start, end int
	text       string
	order      int
	until      int // of an opening bracket: where what it opens ends
}

// tmplRewriter rewrites one template.
type tmplRewriter struct {
	src    string
	macros map[string]bool
	edits  []tmplEdit
	shadow *shadow // nil: print plainly
}

func (r *tmplRewriter) edit(start, end int, text string) {
	r.edits = append(r.edits, tmplEdit{start, end, text, len(r.edits), 0})
}

// tmplRewrite returns the source for the engine.
func tmplRewrite(src string, segs []tmplSegment, macros map[string]bool, sh *shadow) string {
	r := &tmplRewriter{src: src, macros: macros, shadow: sh}
	texts, scopes := tmplTexts(src, segs), tmplLoopSets(src, segs)
	for i, s := range segs {
		// What a loop's body sets is gone in the next round; the engine keeps it, so each round begins with what was there before.
		for _, name := range scopes[i] {
			r.edit(s.outer, s.outer, fmt.Sprintf("{%% set axle_%d_%s = %s %%}", i, name, name))
		}
		if s.kind != 't' { // the engine does not know the plus that keeps white space
			if src[s.outer+2] == '+' {
				r.edit(s.outer+2, s.outer+3, "")
			}
			if s.end < s.after-2 && src[s.end] == '+' {
				r.edit(s.end, s.end+1, "")
			}
		}
		switch s.kind {
		case 't':
			// As a literal, so that the engine's own trimming, which looks beyond neighbours, finds nothing to do.
			text := texts[i]
			if sh != nil {
				text = sh.hide(text)
			}
			if text != "" {
				text = "{{axle_out(" + tmplQuote(text) + ")}}"
			}
			r.edit(s.start, s.end, text)
		case '{':
			toks := tmplTokens(src[s.start:s.end], s.start)
			if len(toks) == 0 {
				continue
			}
			r.expression(toks, true)
			if tmplTopComma(toks) < 0 {
				r.wrap(toks, "axle_out")
			}
		case '%':
			r.statement(s)
		}
		for _, name := range scopes[i] {
			r.edit(s.after, s.after, fmt.Sprintf("{%% set %s = axle_%d_%s %%}", name, i, name))
		}
	}
	slices.SortStableFunc(r.edits, tmplEditOrder)
	var b strings.Builder
	at := 0
	for _, e := range r.edits {
		b.WriteString(src[at:e.start])
		b.WriteString(e.text)
		at = e.end
	}
	b.WriteString(src[at:])
	return b.String()
}

// tmplLoopSets returns, for the segment of each for, the names its body sets.
func tmplLoopSets(src string, segs []tmplSegment) map[int][]string {
	type frame struct {
		word    string
		seg     int
		targets []string // set anew each round as it is
	}
	out := make(map[int][]string)
	var open []frame
	for i, s := range segs {
		if s.kind != '%' {
			continue
		}
		switch word := tmplKeyword(src[s.start:s.end]); word {
		case "for", "macro", "call", "filter":
			f := frame{word: word, seg: i}
			for _, t := range tmplTokens(src[s.start:s.end], s.start)[1:] {
				if t.text == "in" {
					break
				}
				f.targets = append(f.targets, t.text)
			}
			open = append(open, f)
		case "endfor", "endmacro", "endcall", "endfilter":
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		case "set":
			toks := tmplTokens(src[s.start:s.end], s.start)
			if len(toks) < 3 || toks[2].text != "=" || len(open) == 0 || open[len(open)-1].word != "for" {
				continue
			}
			f, name := open[len(open)-1], toks[1].text
			if !slices.Contains(f.targets, name) && !slices.Contains(out[f.seg], name) {
				out[f.seg] = append(out[f.seg], name)
			}
		}
	}
	return out
}

// wrap makes a call of the expression that toks are.
func (r *tmplRewriter) wrap(toks []tmplToken, f string) {
	r.around(toks, 0, len(toks)-1, f, "")
}

// tmplTopComma returns the index of the first comma outside brackets, or -1.
func tmplTopComma(toks []tmplToken) int {
	return tmplTop(toks, func(t tmplToken) bool { return t.kind == ',' })
}

func tmplTop(toks []tmplToken, is func(tmplToken) bool) int {
	depth := 0
	for i, t := range toks {
		switch t.kind {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		}
		if depth == 0 && is(t) {
			return i
		}
	}
	return -1
}

func (r *tmplRewriter) statement(s tmplSegment) {
	toks := tmplTokens(r.src[s.start:s.end], s.start)
	if len(toks) == 0 {
		return
	}
	word := func(w string) func(tmplToken) bool {
		return func(t tmplToken) bool { return t.kind == 'n' && t.text == w }
	}
	switch toks[0].text {
	case "raw", "endraw": // what stood between is a literal now
		r.edit(s.outer, s.after, "")
	case "generation", "endgeneration": // marks what to train on; as a comment it prints nothing and trims the same
		r.edit(s.outer+1, s.outer+2, "#")
		r.edit(s.after-2, s.after-1, "#")
	case "for":
		in := tmplTop(toks, word("in"))
		if in < 0 {
			return
		}
		list := toks[in+1:]
		end := len(list)
		for _, w := range []string{"if", "recursive"} {
			if k := tmplTop(list, word(w)); k >= 0 && k < end {
				end = k
			}
		}
		// An inline "a if b else c" is the list itself, not a filter.
		if k := tmplTop(list, word("else")); k >= 0 {
			end = len(list)
		}
		r.expression(list, false)
		if end > 0 && tmplTopComma(list[:end]) < 0 {
			r.wrap(list[:end], "axle_each")
		}
		r.edit(s.after, s.after, "{% set axle_r = axle_round() %}")
	case "set":
		eq := tmplTop(toks, func(t tmplToken) bool { return t.text == "=" })
		if eq < 0 || eq+1 >= len(toks) {
			return // a block
		}
		value := toks[eq+1:]
		r.expression(value, true)
		if tmplTopComma(value) < 0 {
			owner := ""
			if toks[2].kind == '.' {
				owner = ", " + toks[1].text
			}
			r.around(value, 0, len(value)-1, "axle_keep", owner)
		}
	case "macro":
		// A parameter nobody passes: its default is evaluated at every call.
		last := toks[len(toks)-1]
		if last.kind != ')' || len(toks) < 4 {
			return
		}
		comma := ", "
		if toks[len(toks)-2].kind == '(' {
			comma = ""
		}
		r.literals(toks[3:len(toks)-1], false)
		r.edit(last.start, last.start, comma+"axle_call=axle_enter()")
	case "call":
		rest := toks[1:]
		if rest[0].kind == '(' { // what the block is given
			rest = rest[tmplTop(rest, func(t tmplToken) bool { return t.kind == ')' })+1:]
		}
		if len(rest) == 0 {
			return
		}
		r.expression(rest, true)
		parts := tmplParts(rest)
		if end := len(rest) - 1; rest[end].kind == ')' && parts[end].match > 0 && parts[parts[end].match].fn {
			r.around(rest, parts[end].atom, parts[end].match-1, "axle_text", "")
		}
	default:
		r.expression(toks[1:], false)
	}
}

// expression rewrites the tokens of one. prints says that its value may end up in the prompt.
func (r *tmplRewriter) expression(toks []tmplToken, prints bool) {
	r.literals(toks, prints)
	r.guard(toks)
}

// literals rewrites the words and literals of an expression.
func (r *tmplRewriter) literals(toks []tmplToken, prints bool) {
	at := func(i int) tmplToken {
		if i < 0 || i >= len(toks) {
			return tmplToken{}
		}
		return toks[i]
	}
	// What encloses each token: the index of the opening bracket.
	var open []int
	for i, t := range toks {
		switch t.kind {
		case '(', '[', '{':
			open = append(open, i)
		case ')', ']', '}':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
		case 's':
			text := t.text
			if prints && r.shadow != nil && r.printed(toks, i, open) {
				text = r.shadow.hide(text)
			}
			r.edit(t.start, t.end, tmplQuote(text))
		case 'd':
			if strings.ContainsAny(t.text, "eE_") { // the engine reads neither
				if f, err := strconv.ParseFloat(t.text, 64); err == nil && strings.ContainsAny(t.text, "eE") {
					r.edit(t.start, t.end, strings.TrimSuffix(strconv.FormatFloat(f, 'f', -1, 64), ".0")+map[bool]string{true: ".0"}[f == math.Trunc(f)])
				} else {
					r.edit(t.start, t.end, strings.ReplaceAll(t.text, "_", ""))
				}
			}
		case 'n':
			switch prev := at(i - 1); {
			case prev.kind == '|' && slices.Contains(tmplFilters, t.text):
				r.edit(t.start, t.end, "axle_"+t.text)
			case (t.text == "sequence") && (prev.text == "is" || prev.text == "not" && at(i-2).text == "is"):
				r.edit(t.start, t.end, "iterable")
			}
		}
	}
}

func tmplOperator(s string) bool {
	return slices.Contains([]string{"and", "or", "not", "in", "is", "if", "else", "elif"}, s)
}

// printed decides whether a literal is printed rather than compared with, looked up, or given to a function. Only literals that can be part of
// a control token matter: those with brackets or bars in them.
func (r *tmplRewriter) printed(toks []tmplToken, i int, open []int) bool {
	if !strings.ContainsAny(toks[i].text, "<>[]|｜{}") {
		return false
	}
	near := func(k int) bool {
		if k < 0 || k >= len(toks) || toks[k].kind == 's' {
			return false
		}
		switch toks[k].text {
		case "==", "!=", "<", ">", "<=", ">=", "in", "is":
			return true
		case "not":
			return k+1 < len(toks) && toks[k+1].text == "in"
		}
		return false
	}
	if near(i-1) || near(i+1) {
		return false
	}
	for k := len(open) - 1; k >= 0; k-- {
		o := open[k]
		switch toks[o].kind {
		case '[', '{':
			return false
		}
		if o == 0 || toks[o-1].kind != 'n' || tmplOperator(toks[o-1].text) {
			continue // a group
		}
		if f := toks[o-1].text; !r.macros[f] && f != "namespace" {
			return false
		}
	}
	return true
}
