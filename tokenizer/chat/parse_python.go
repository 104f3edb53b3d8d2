package chat

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parsePythonBlock decodes calls between tags, in a ```python fence or not, one a line or in a
// list.
func parsePythonBlock(b []byte, _ []Tool) ([]ToolCall, bool) {
	text := strings.Trim(string(b), parseSpace)
	if rest, ok := strings.CutPrefix(text, "```"); ok {
		text = strings.TrimSuffix(strings.Trim(strings.TrimPrefix(rest, "python"), parseSpace), "```")
	}
	return parsePythonCalls(text)
}

// parsePythonCalls decodes name(key=value, …) expressions: one, several on lines or behind
// semicolons, or a list.
func parsePythonCalls(text string) ([]ToolCall, bool) {
	r := parsePython{parseReader{text: text}}
	list := r.take("[")
	var calls []ToolCall
	for {
		r.space()
		for !list && r.take(";") {
			r.space()
		}
		if r.at == len(text) || list && r.take("]") {
			break
		}
		c, ok := r.call()
		if !ok {
			return nil, false
		}
		calls = append(calls, c)
		if list && !r.take(",") {
			if !r.take("]") {
				return nil, false
			}
			break
		}
	}
	r.space()
	return calls, len(calls) > 0 && r.at == len(text)
}

// parsePython reads the part of Python's grammar that calls are written in: keyword arguments and
// literals.
type parsePython struct{ parseReader }

// parseReader is how far a text is read.
type parseReader struct {
	text  string
	at    int
	depth int
}

func (r *parseReader) space() {
	for r.at < len(r.text) && strings.IndexByte(parseSpace, r.text[r.at]) >= 0 {
		r.at++
	}
}

func (r *parseReader) take(s string) bool {
	r.space()
	if !strings.HasPrefix(r.text[r.at:], s) {
		return false
	}
	r.at += len(s)
	return true
}

func (r *parsePython) name() string {
	r.space()
	from := r.at
	for r.at < len(r.text) {
		c := r.text[r.at]
		if c != '_' && c != '.' && c != '-' && (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c < utf8.RuneSelf {
			break
		}
		r.at++
	}
	return r.text[from:r.at]
}

func (r *parsePython) call() (ToolCall, bool) {
	name := r.name()
	if name == "" || !r.take("(") {
		return ToolCall{}, false
	}
	args, ok := r.pairs(")", func() (string, bool) {
		key := r.name()
		return key, key != "" && r.take("=")
	}, r.value)
	return ToolCall{Name: name, Arguments: args}, ok
}

// value reads a literal and returns it as JSON.
func (r *parsePython) value() (json.RawMessage, bool) {
	if r.depth++; r.depth > 100 {
		return nil, false
	}
	defer func() { r.depth-- }()
	r.space()
	if r.at == len(r.text) {
		return nil, false
	}
	switch c := r.text[r.at]; c {
	case '"', '\'':
		var whole strings.Builder
		s, ok := r.str()
		for ok { // adjacent strings are one
			whole.WriteString(s)
			r.space()
			if r.at == len(r.text) || r.text[r.at] != '"' && r.text[r.at] != '\'' {
				break
			}
			s, ok = r.str()
		}
		return parseQuote(whole.String()), ok
	case '[', '(':
		r.at++
		return parseItems(map[byte]string{'[': "]", '(': ")"}[c], r.take, r.value)
	case '{':
		r.at++
		return r.pairs("}", func() (string, bool) {
			if r.space(); r.at == len(r.text) || r.text[r.at] != '"' && r.text[r.at] != '\'' {
				return "", false
			}
			key, ok := r.str()
			return key, ok && r.take(":")
		}, r.value)
	}
	return r.word()
}

// parseItems reads values with commas between, up to what closes the list, and returns them as a
// JSON array.
func parseItems(closing string, take func(string) bool, value func() (json.RawMessage, bool)) (json.RawMessage, bool) {
	out := []byte{'['}
	for !take(closing) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		v, ok := value()
		if !ok {
			return nil, false
		}
		if out = append(out, v...); take(",") {
			continue
		}
		if take(closing) {
			break
		}
		return nil, false
	}
	return append(out, ']'), true
}

// pairs reads keys and values with commas between, up to what closes them, and returns them as a
// JSON object. key goes behind what stands between a key and its value.
func (r *parseReader) pairs(closing string, key func() (string, bool), value func() (json.RawMessage, bool)) (json.RawMessage, bool) {
	var o parseObject
	for !r.take(closing) {
		k, ok := key()
		if !ok {
			return nil, false
		}
		v, ok := value()
		if !ok {
			return nil, false
		}
		o.set(k, v)
		if !r.take(",") && !strings.HasPrefix(r.text[r.at:], closing) {
			return nil, false
		}
	}
	return o.json(), true
}

// word reads what stands for a number, a truth or nothing.
func (r *parsePython) word() (json.RawMessage, bool) {
	from := r.at
	for r.at < len(r.text) && strings.IndexByte(",)]} \t\r\n", r.text[r.at]) < 0 {
		r.at++
	}
	switch word := r.text[from:r.at]; word {
	case "True", "true":
		return json.RawMessage("true"), true
	case "False", "false":
		return json.RawMessage("false"), true
	case "None", "null":
		return json.RawMessage("null"), true
	default:
		word = strings.TrimPrefix(strings.ReplaceAll(word, "_", ""), "+")
		if json.Valid([]byte(word)) {
			return json.RawMessage(word), true
		}
		f, err := strconv.ParseFloat(word, 64)
		if err != nil || strings.ContainsAny(word, "xXnN") {
			return nil, false
		}
		return json.RawMessage(strconv.FormatFloat(f, 'g', -1, 64)), true // 1. and .5
	}
}

// What Python's escapes stand for, and how many digits of a character's number follow others.
var (
	parseEscapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f", '\n': "", '\\': "\\", '\'': "'",
		'"': `"`, '/': "/"}
	parseDigits = map[byte]int{'x': 2, 'u': 4, 'U': 8}
)

// str reads a quoted string, of one quote or three, with Python's escapes.
func (r *parsePython) str() (string, bool) {
	quote := r.text[r.at : r.at+1]
	if three := strings.Repeat(quote, 3); strings.HasPrefix(r.text[r.at:], three) {
		quote = three
	}
	r.at += len(quote)
	var out []byte
	for r.at < len(r.text) {
		if strings.HasPrefix(r.text[r.at:], quote) {
			r.at += len(quote)
			return string(out), true
		}
		c := r.text[r.at]
		r.at++
		if c != '\\' || r.at == len(r.text) {
			out = append(out, c)
			continue
		}
		c = r.text[r.at]
		r.at++
		text, known := parseEscapes[c]
		digits := parseDigits[c]
		switch {
		case known:
			out = append(out, text...)
		case digits > 0:
			n, err := strconv.ParseUint(r.text[r.at:min(r.at+digits, len(r.text))], 16, 32)
			if err != nil || n > utf8.MaxRune || r.at+digits > len(r.text) {
				return "", false
			}
			out = utf8.AppendRune(out, rune(n))
			r.at += digits
		default:
			out = append(out, '\\', c)
		}
	}
	return "", false
}

// parseGemmaCall decodes call:name{key:value,…}, strings standing between <escape> or <|"|> marks.
func parseGemmaCall(b []byte, _ []Tool) ([]ToolCall, bool) {
	text, ok := strings.CutPrefix(strings.Trim(string(b), parseSpace), "call:")
	brace := strings.IndexByte(text, '{')
	if !ok || brace <= 0 {
		return nil, false
	}
	name := strings.Trim(text[:brace], parseSpace)
	r := parseGemma{parseReader{text: text[brace:]}}
	args, ok := r.value()
	if !ok || name == "" || strings.Trim(r.text[r.at:], parseSpace) != "" {
		return nil, false
	}
	return []ToolCall{{Name: name, Arguments: args}}, true
}

// parseGemma reads Gemma's values.
type parseGemma struct{ parseReader }

func (r *parseGemma) value() (json.RawMessage, bool) {
	if r.depth++; r.depth > 100 {
		return nil, false
	}
	defer func() { r.depth-- }()
	for _, mark := range []string{"<escape>", `<|"|>`} {
		if r.take(mark) {
			s, _, ok := strings.Cut(r.text[r.at:], mark)
			r.at += min(len(s)+len(mark), len(r.text)-r.at)
			return parseQuote(s), ok
		}
	}
	switch {
	case r.take("{"):
		return r.pairs("}", func() (string, bool) {
			key, _, ok := strings.Cut(r.text[r.at:], ":")
			r.at += min(len(key)+1, len(r.text)-r.at)
			key = strings.Trim(key, parseSpace)
			for _, mark := range []string{"<escape>", `<|"|>`, `"`} {
				key = strings.TrimSuffix(strings.TrimPrefix(key, mark), mark)
			}
			return key, ok
		}, r.value)
	case r.take("["):
		return parseItems("]", r.take, r.value)
	case strings.HasPrefix(r.text[r.at:], `"`): // some write JSON strings
		end := r.at + 1
		for end < len(r.text) && r.text[end] != '"' {
			if r.text[end] == '\\' {
				end++
			}
			end++
		}
		var s string
		if end >= len(r.text) || json.Unmarshal([]byte(r.text[r.at:end+1]), &s) != nil {
			return nil, false
		}
		r.at = end + 1
		return parseQuote(s), true
	}
	word := r.text[r.at:]
	if i := strings.IndexAny(word, ",]}"); i >= 0 {
		word = word[:i]
	}
	r.at += len(word)
	if word = strings.Trim(word, parseSpace); word != "" && json.Valid([]byte(word)) {
		return json.RawMessage(word), true
	}
	return parseQuote(word), true
}
