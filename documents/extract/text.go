package extract

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// isBinary says whether the beginning of a file is no text in any encoding that is read here: it
// has bytes that no text has.
func isBinary(head []byte) bool {
	if bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff}) {
		return false
	}
	odd := 0
	for _, c := range head {
		if c == 0 {
			return true
		}
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b {
			odd++
		}
	}
	return odd*100 > len(head)
}

// readText reads what is text already, or HTML.
func readText(ctx context.Context, doc *Document, data io.ReaderAt, size int64, l Limits) error {
	raw, err := readAll(ctx, data, size)
	if err != nil {
		return err
	}
	if doc.Kind == HTML {
		return readHTML(ctx, doc, decode(raw), l)
	}
	text, err := decode(raw), error(nil)
	if len(text) > l.Text {
		return l.tooMuch()
	}
	if doc.Kind == Markdown {
		markdownPages(doc, text)
	} else {
		doc.Pages = parts(nil, "", text, 1)
	}
	return err
}

// decode makes UTF-8 of a file: of UTF-16 where it says so in its first bytes, else of UTF-8, else
// of Latin-1 (as Windows has it, with quotation marks and dashes), which every byte is a letter of.
// Ends of lines become \n.
func decode(raw []byte) string {
	var s string
	switch {
	case bytes.HasPrefix(raw, []byte{0xff, 0xfe}):
		s = utf16Text(raw[2:], binary.LittleEndian)
	case bytes.HasPrefix(raw, []byte{0xfe, 0xff}):
		s = utf16Text(raw[2:], binary.BigEndian)
	default:
		raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
		if s = string(raw); !mostlyUTF8(raw) {
			s = latin1(raw)
		}
	}
	return clean(s)
}

// mostlyUTF8 lets a damaged character in a hundred pass, which is then shown as such: a long text
// of UTF-8 does not become gibberish for one bad byte.
func mostlyUTF8(raw []byte) bool {
	good, bad := 0, 0
	for i := 0; i < len(raw); {
		if raw[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRune(raw[i:])
		if r == utf8.RuneError && n == 1 {
			bad++
		} else {
			good++
		}
		i += n
	}
	return bad == 0 || bad*100 <= good
}

func utf16Text(raw []byte, order binary.ByteOrder) string {
	var b strings.Builder
	b.Grow(len(raw))
	for i := 0; i+1 < len(raw); i += 2 {
		r := rune(order.Uint16(raw[i:]))
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if i+3 < len(raw) {
				pair = utf16.DecodeRune(r, rune(order.Uint16(raw[i+2:])))
			}
			if pair != utf8.RuneError {
				i += 2
			}
			r = pair
		}
		b.WriteRune(r)
	}
	return b.String()
}

// windows1252 are the bytes 0x80 to 0x9f.
var windows1252 = []rune("€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ")

func latin1(raw []byte) string {
	var b strings.Builder
	b.Grow(len(raw) + len(raw)/8)
	for _, c := range raw {
		if c >= 0x80 && c < 0xa0 {
			b.WriteRune(windows1252[c-0x80])
		} else {
			b.WriteRune(rune(c))
		}
	}
	return b.String()
}

// clean makes text valid UTF-8 with \n at the ends of lines, without characters that no reader
// sees.
func clean(s string) string {
	plain := true
	for i := 0; i < len(s) && plain; i++ {
		plain = s[i] >= ' ' && s[i] < 0x7f || s[i] == '\n' || s[i] == '\t'
	}
	if plain {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s { // an invalid byte comes as the replacement character
		switch {
		case r == '\r':
			if i+1 < len(s) && s[i+1] == '\n' {
				continue
			}
			b.WriteByte('\n')
		case r == '\f' || r == '\v' || r == '\u2028' || r == '\u2029' || r == '\u0085':
			b.WriteByte('\n')
		case r < ' ' && r != '\n' && r != '\t', r >= 0x7f && r <= 0x9f, r == '\ufeff', r == '\u00ad', r == '\ufffe', r == '\uffff':
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// parts appends a text to pages in parts of about pagePart bytes, cut at empty lines where there
// are some, else at ends of lines, else between characters. line is the text's first line in its
// file, 0 where it has none.
func parts(pages []Page, label, text string, line int) []Page {
	for len(text) > 0 {
		n := len(text)
		if n > pagePart+pagePart/4 {
			n = cutAt(text)
		}
		if strings.TrimSpace(text[:n]) != "" {
			pages = append(pages, Page{Line: line, Label: label, Text: text[:n]})
		}
		if line > 0 {
			line += strings.Count(text[:n], "\n")
		}
		text = text[n:]
	}
	return pages
}

func cutAt(text string) int {
	for _, end := range []string{"\n\n", "\n", " "} {
		if i := strings.LastIndex(text[pagePart/2:pagePart], end); i >= 0 {
			return pagePart/2 + i + len(end)
		}
	}
	n := pagePart
	for !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}

// headings follows where in a document's outline a reader is.
type headings struct {
	names [6]string
}

// at notes a heading of a level from 1, and gives the label of what is below it.
func (h *headings) at(level int, name string) string {
	level = min(max(level, 1), len(h.names))
	h.names[level-1] = clip(oneLine(name), 120)
	clear(h.names[level:])
	return h.label()
}

func (h *headings) label() string {
	var b strings.Builder
	for _, n := range h.names {
		if n == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(separator)
		}
		b.WriteString(n)
	}
	return b.String()
}

// markdownPages cuts Markdown at its headings. Its text stays as it is written.
func markdownPages(doc *Document, text string) {
	var h headings
	var fence, label, before string
	start, startLine, line, at := 0, 1, 1, 0
	if rest, ok := strings.CutPrefix(text, "---\n"); ok { // front matter
		if i := strings.Index(rest, "\n---\n"); i >= 0 && i < 1<<14 {
			doc.Title = frontTitle(rest[:i])
			at = len("---\n") + i + len("\n---\n")
			line += strings.Count(text[:at], "\n")
		}
	}
	cut := func(to, toLine int) {
		doc.Pages = parts(doc.Pages, label, text[start:to], startLine)
		start, startLine = to, toLine
	}
	beforeAt, beforeLine := at, line
	for at < len(text) {
		end := at + strings.IndexByte(text[at:], '\n')
		if end < at {
			end = len(text)
		}
		row := text[at:end]
		trimmed := strings.TrimSpace(row)
		level, name := 0, ""
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, fence[:1]) == "" {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~"):
			fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, trimmed[:1]))]
			if fence[0] == '`' && strings.Contains(trimmed[len(fence):], "`") {
				fence = "" // code in a line
			}
		case strings.HasPrefix(trimmed, "#"):
			level, name = atxHeading(row)
		case before != "" && underline(trimmed) > 0:
			level, name = underline(trimmed), before
		}
		if level > 0 {
			from, fromLine := at, line
			if name == before {
				from, fromLine = beforeAt, beforeLine
			}
			cut(from, fromLine)
			label = h.at(level, name)
			if doc.Title == "" && level == 1 {
				doc.Title = name
			}
		}
		before, beforeAt, beforeLine = "", at, line
		if fence == "" && level == 0 && trimmed != "" && strings.IndexByte(">-*+|#=`~", trimmed[0]) < 0 && !indented(row) {
			before = trimmed
		}
		at = min(end+1, len(text))
		line++
	}
	cut(len(text), line)
}

func indented(row string) bool { return strings.HasPrefix(row, "    ") || strings.HasPrefix(row, "\t") }

// atxHeading reads "## Name ##".
func atxHeading(row string) (level int, name string) {
	if indented(row) {
		return 0, ""
	}
	row = strings.TrimSpace(row)
	name = strings.TrimLeft(row, "#")
	level = len(row) - len(name)
	if level > 6 || name != "" && name[0] != ' ' && name[0] != '\t' {
		return 0, ""
	}
	name = strings.TrimSpace(name)
	if bare := strings.TrimRight(name, "#"); bare == "" || strings.HasSuffix(bare, " ") {
		name = strings.TrimSpace(bare)
	}
	return level, name
}

// underline is the level of the heading that a line makes of the line before it.
func underline(row string) int {
	switch {
	case len(row) >= 2 && strings.Trim(row, "=") == "":
		return 1
	case len(row) >= 2 && strings.Trim(row, "-") == "":
		return 2
	}
	return 0
}

// frontTitle is the title in a Markdown file's front matter.
func frontTitle(front string) string {
	for row := range strings.Lines(front) {
		if v, ok := strings.CutPrefix(row, "title:"); ok {
			return strings.Trim(strings.TrimSpace(v), `"'`)
		}
	}
	return ""
}
