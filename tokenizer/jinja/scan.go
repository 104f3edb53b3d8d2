package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// kind says what a token is. Operators are tokOp, with their text.
type kind uint8

const (
	tokEOF kind = iota
	tokData
	tokExprBegin  // {{
	tokExprEnd    // }}
	tokBlockBegin // {%
	tokBlockEnd   // %}
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind  kind
	text  string // a string's value, else the source
	value Value  // of numbers
	line  int
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokString:
		return fmt.Sprintf("the string %.40q", t.text)
	}
	return fmt.Sprintf("%.40q", t.text)
}

// Error is a template that cannot be parsed, or that met a value it cannot work with.
type Error struct {
	Line int // 0: unknown
	Msg  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Msg)
}

// scanner cuts a source into tokens. It trims the white space around tags as jinja2's lexer does: a
// minus takes all of it, a block or a comment takes the indentation of its line and the new line
// behind it, a plus keeps both.
type scanner struct {
	src       string
	at        int
	line      int
	counted   int // the byte up to which line counts
	lineStart bool
	open      []byte // brackets to close
	out       []token
}

// scan returns the tokens of a template; it panics with *Error.
func scan(source string) []token {
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	s := &scanner{src: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for s.at < len(s.src) {
		s.root()
	}
	s.add(tokEOF, "")
	return s.out
}

func (s *scanner) fail(format string, args ...any) {
	panic(&Error{s.where(), fmt.Sprintf(format, args...)})
}

func (s *scanner) where() int {
	s.line += strings.Count(s.src[s.counted:max(s.at, s.counted)], "\n")
	s.counted = max(s.at, s.counted)
	return s.line
}

func (s *scanner) add(k kind, text string) {
	s.out = append(s.out, token{kind: k, text: text, line: s.where()})
}

// root reads text and the tag behind it.
func (s *scanner) root() {
	rest := s.src[s.at:]
	begin := tagForm.FindStringIndex(rest)
	if begin == nil {
		s.add(tokData, rest)
		s.at = len(s.src)
		return
	}
	tag := rest[begin[0]+1]
	s.at += begin[1]
	sign := s.sign()
	s.text(rest[:begin[0]], sign, tag != '{')
	switch tag {
	case '#':
		s.comment()
	case '{':
		s.add(tokExprBegin, "{{")
		s.lineStart = false
		s.inside('}')
	case '%':
		if m := rawForm.FindStringSubmatchIndex(s.src[s.at:]); m != nil {
			s.at += m[2]
			s.close("%}", false)
			s.verbatim()
			return
		}
		s.add(tokBlockBegin, "{%")
		s.lineStart = false
		s.inside('%')
	}
}

func (s *scanner) sign() byte {
	if s.at < len(s.src) && (s.src[s.at] == '-' || s.src[s.at] == '+') {
		s.at++
		return s.src[s.at-1]
	}
	return 0
}

// text adds what stands before a tag.
func (s *scanner) text(text string, sign byte, block bool) {
	switch {
	case sign == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case sign != '+' && block:
		if k := strings.LastIndexByte(text, '\n') + 1; (k > 0 || s.lineStart) && strings.TrimLeftFunc(text[k:], isSpace) == "" {
			text = text[:k]
		}
	}
	if text != "" {
		s.add(tokData, text)
	}
}

// close goes behind an end tag, if one is here.
func (s *scanner) close(tag string, trim bool) bool {
	rest := s.src[s.at:]
	switch {
	case strings.HasPrefix(rest, "-"+tag):
		s.at += 1 + len(tag)
		s.space()
	case trim && strings.HasPrefix(rest, "+"+tag):
		s.at += 1 + len(tag)
	case strings.HasPrefix(rest, tag):
		s.at += len(tag)
		if trim && strings.HasPrefix(s.src[s.at:], "\n") {
			s.at++
		}
	default:
		return false
	}
	s.lineStart = s.src[s.at-1] == '\n'
	return true
}

func (s *scanner) space() {
	s.at = len(s.src) - len(strings.TrimLeftFunc(s.src[s.at:], isSpace))
}

func (s *scanner) comment() {
	for ; s.at < len(s.src); s.at++ {
		if c := s.src[s.at]; (c == '#' || c == '-' || c == '+') && s.close("#}", true) {
			return
		}
	}
	s.fail("a comment is not closed")
}

// verbatim adds everything up to {% endraw %}.
func (s *scanner) verbatim() {
	m := endForm.FindStringSubmatchIndex(s.src[s.at:])
	if m == nil {
		s.fail("a raw block is not closed")
	}
	from := s.at
	s.at += m[2]
	sign := s.sign()
	s.text(s.src[from:from+m[0]], sign, true)
	s.at = from + m[4]
	s.close("%}", true)
}

// inside reads an expression or a statement to its end.
func (s *scanner) inside(end byte) {
	for s.at < len(s.src) {
		c := s.src[s.at]
		if len(s.open) == 0 && (c == end || c == '-' || c == '+') {
			if end == '%' && s.close("%}", true) {
				s.add(tokBlockEnd, "%}")
				return
			}
			if end == '}' && s.close("}}", false) {
				s.add(tokExprEnd, "}}")
				return
			}
		}
		r, n := utf8.DecodeRuneInString(s.src[s.at:])
		switch {
		case isSpace(r):
			s.at += n
		case c >= '0' && c <= '9':
			s.number()
		case c == '_' || unicode.IsLetter(r):
			s.name()
		case c == '\'' || c == '"':
			s.str(c)
		default:
			s.operator(c)
		}
	}
	s.fail("a tag is not closed")
}

func (s *scanner) name() {
	name := nameForm.FindString(s.src[s.at:])
	s.add(tokName, name)
	s.at += len(name)
}

const operators = "// ** == != >= <= "

func (s *scanner) operator(c byte) {
	n := 1
	if s.at+1 < len(s.src) && s.src[s.at+1] != ' ' && strings.Contains(operators, s.src[s.at:s.at+2]) {
		n = 2
	}
	text := s.src[s.at : s.at+n]
	switch {
	case text == "**":
		s.fail("the operator ** is not supported")
	case n == 1 && !strings.Contains("+-*/%~()[]{}<>=.:|,;", text):
		r, _ := utf8.DecodeRuneInString(s.src[s.at:])
		s.fail("unexpected character %q", r)
	case c == '(' || c == '[' || c == '{':
		s.open = append(s.open, map[byte]byte{'(': ')', '[': ']', '{': '}'}[c])
		if len(s.open) > maxNesting {
			s.fail("brackets are nested more than %d deep", maxNesting)
		}
	case c == ')' || c == ']' || c == '}':
		if len(s.open) == 0 {
			s.fail("unexpected %q", text)
		}
		if want := s.open[len(s.open)-1]; want != c {
			s.fail("unexpected %q, expected %q", text, want)
		}
		s.open = s.open[:len(s.open)-1]
	}
	s.add(tokOp, text)
	s.at += n
}

// What jinja2's lexer knows: where a tag begins, names, what is behind the {% of a raw block and
// what ends one, and numbers.
var (
	tagForm  = regexp.MustCompile(`\{[{%#]`)
	nameForm = regexp.MustCompile(`^[_\pL\p{Nd}\pM]+`)
	rawForm  = regexp.MustCompile(`^\s*raw\s*(-?%\})`)
	endForm  = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*([-+]?%\})`)
	numForm  = regexp.MustCompile(`^([0-9]+)(\.[0-9]+)?([eE][+-]?[0-9]+)?([_\pL\p{Nd}\pM]*)`)
)

func (s *scanner) number() {
	m := numForm.FindStringSubmatch(s.src[s.at:])
	text, whole, more := m[0], m[1], m[4]
	if more != "" {
		s.fail("the number %.40s is not supported", text)
	}
	tok := token{kind: tokInt, text: text, line: s.where()}
	var err error
	if whole == text {
		tok.value, err = strconv.Atoi(text)
	} else {
		tok.kind = tokFloat
		tok.value, err = strconv.ParseFloat(text, 64)
	}
	if err != nil {
		s.fail("the number %.40s does not fit 64 bits", text)
	}
	s.out = append(s.out, tok)
	s.at += len(text)
}

func (s *scanner) str(quote byte) {
	i := s.at + 1
	for i < len(s.src) && s.src[i] != quote {
		if s.src[i] == '\\' {
			i++
		}
		i++
	}
	if i >= len(s.src) {
		s.fail("a string is not closed")
	}
	text, err := unescape(s.src[s.at+1 : i])
	if err != "" {
		s.fail("%s", err)
	}
	s.add(tokString, text)
	s.at = i + 1
}

var escapes = map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'b': "\b", 'f': "\f", 'v': "\v", 'a': "\a", '\n': "", '\\': "\\", '\'': "'",
	'"': `"`}

// unescape reads Python's escapes; what follows an unknown one stays as it is.
func unescape(s string) (out, err string) {
	if !strings.Contains(s, "\\") {
		return s, ""
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if e, ok := escapes[c]; ok {
			b.WriteString(e)
			continue
		}
		digits := map[byte]int{'x': 2, 'u': 4}[c]
		switch {
		case digits > 0:
			if i+digits >= len(s) {
				return "", "truncated escape \\" + string(rune(c))
			}
			v, e := strconv.ParseUint(s[i+1:i+1+digits], 16, 32)
			if e != nil {
				return "", fmt.Sprintf("bad escape \\%s", s[i:i+1+digits])
			}
			b.WriteRune(rune(v))
			i += digits
		case c == 'N' || c == 'U' || c >= '0' && c <= '7':
			return "", fmt.Sprintf("the escape \\%c is not supported", c)
		default:
			b.WriteByte('\\')
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// isSpace is Python's str.isspace.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1C && r <= 0x1F }
