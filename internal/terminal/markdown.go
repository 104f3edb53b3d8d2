package terminal

import (
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Markdown writes an answer in Markdown as a terminal shows it: its marks become bold, italic and
// underlined text, lists and quotes keep their indent where they wrap, tables have columns. The
// lines of code stay as they are, so that they can be copied.
//
// What is on the screen does not change: a mark waits for its end, a table for its last row.
// The text comes in any parts, and what is written does not depend on them. It must hold nothing
// that a terminal obeys: see package plain.
type Markdown struct {
	w      io.Writer
	f      flow
	block  block
	start  string // the beginning of a line, while it is not known what the line is
	rest   string // what of the line's text is not written
	before rune   // the character before rest
	fence  string // the marks that end the code; "": there is none
	rows   []string
	held   int    // bytes of rows
	part   []byte // of a character
}

// block is what a line is.
type block int

const (
	unknownBlock block = iota // its beginning is not known yet
	prose
	heading
	codeLine // inside the marks of code
)

// Limits of what waits: a table that is larger is shown as it was written, and so is a line that
// begins with more than that of blanks and marks.
const (
	largestTable = 32 << 10
	longestStart = 120
)

// NewMarkdown makes one. columns is how wide the screen is, asked at every word; 0 or less: nothing
// is wrapped. Without colour there is bold and italic, and code keeps its marks.
func NewMarkdown(w io.Writer, columns func() int, colour bool) *Markdown {
	return &Markdown{w: w, f: flow{columns: columns, colour: colour}}
}

// Write takes any part of the text. It never fails: a screen is not waited for.
func (m *Markdown) Write(p []byte) (int, error) {
	n := len(p)
	if len(m.part) > 0 {
		p = append(m.part, p...)
	}
	for len(p) > 0 {
		if !utf8.FullRune(p) {
			break
		}
		r, size := utf8.DecodeRune(p)
		m.put(r)
		p = p[size:]
	}
	m.part = append([]byte(nil), p...)
	m.send()
	return n, nil
}

// End writes what still waits. The next text is another answer.
func (m *Markdown) End() {
	for range m.part {
		m.put(utf8.RuneError)
	}
	m.part = nil
	m.lineEnd(false)
	m.table(false)
	m.f.place()
	m.f.write(span{"", 0})
	if m.f.on != 0 {
		m.f.out.WriteString("\x1b[0m")
		m.f.on = 0
	}
	m.send()
	*m = *NewMarkdown(m.w, m.f.columns, m.f.colour)
}

func (m *Markdown) send() {
	if m.f.out.Len() > 0 {
		_, _ = io.WriteString(m.w, m.f.out.String())
		m.f.out.Reset()
	}
}

func (m *Markdown) put(r rune) {
	if r == '\n' {
		m.lineEnd(true)
		return
	}
	switch m.block {
	case unknownBlock:
		m.start += string(r)
		m.begin(false)
	case codeLine:
		m.f.write(span{string(r), m.codeStyle()})
	default:
		m.rest += string(r)
		m.more(false)
	}
}

func (m *Markdown) codeStyle() style { return coded }

// What a line may begin with. The last character is there, so that more digits or marks are not
// taken for its text.
var (
	aHeading = regexp.MustCompile(`^ {0,3}(#{1,6}) +`)
	aQuote   = regexp.MustCompile(`^ {0,3}> ?`)
	anItem   = regexp.MustCompile(`^( *)([-*+]|\d{1,9}[.)]) +(\[[ xX]\] +)?`)
	aFence   = regexp.MustCompile("^ *(```+[^`]*|~~~+.*)$")
	aRule    = regexp.MustCompile(`^ {0,3}(?:(?:- *){3,}|(?:\* *){3,}|(?:_ *){3,})$`)
	open     = regexp.MustCompile(`^ *(?:> ?)* *(?:#{1,6} *|[-*_][-*_ ]*|\+ *|[-+*] +\[?[ xX]?\]? *|\d{1,9}[.)]?(?: +\[?[ xX]?\]? *)?|[` + "`~" + `]{0,2})$`)
)

// begin looks whether what the line is is known by its beginning, or by all of it.
func (m *Markdown) begin(whole bool) {
	s := m.start
	if m.fence != "" { // code, or its end
		bare := strings.TrimSpace(s)
		ends := bare != "" && strings.Trim(bare, m.fence[:1]) == "" && len(bare) >= len(m.fence)
		switch {
		case whole && ends:
			m.fence, m.start = "", ""
			m.f.write(span{s, faint})
		case !whole && len(s) < longestStart && strings.Trim(bare, m.fence[:1]) == "" && strings.TrimLeft(s, " ") == bare:
			return // it may be the end
		default:
			m.start, m.block = "", codeLine
			m.f.write(span{s, m.codeStyle()})
		}
		return
	}
	if strings.HasPrefix(strings.TrimLeft(s, " "), "|") {
		if whole || len(s) > largestTable {
			m.row(whole)
		}
		return
	}
	m.table(true)
	if aFence.MatchString(s) && len(s) < longestStart {
		if whole {
			bare := strings.TrimLeft(s, " ")
			m.fence, m.start = bare[:run(bare)], ""
			m.f.write(span{s, faint})
		}
		return
	}
	if !whole && len(s) < longestStart && open.MatchString(s) {
		return
	}
	m.known(s)
	m.more(whole)
}

// known begins a line whose kind is known.
func (m *Markdown) known(s string) {
	m.start, m.block, m.before = "", prose, ' '
	for {
		mark := aQuote.FindString(s)
		if mark == "" {
			break
		}
		bar := []span{{"│ ", faint}}
		m.f.raw(bar)
		m.f.indent = append(m.f.indent, bar...)
		s = s[len(mark):]
	}
	if aRule.MatchString(s) {
		n := min(max(m.f.columns()-1-m.f.col, 3), 40)
		m.f.raw([]span{{strings.Repeat("─", n), faint}})
		return
	}
	if mark := aHeading.FindStringSubmatch(s); mark != nil {
		m.block = heading
		m.rest = s[len(mark[0]):]
		return
	}
	if mark := anItem.FindStringSubmatch(s); mark != nil {
		bullet := mark[2]
		if len(bullet) == 1 {
			bullet = "•"
		}
		if box := strings.TrimSpace(mark[3]); box != "" {
			bullet += " " + box
		}
		head := []span{{strings.ReplaceAll(mark[1], "\t", "    ") + bullet + " ", 0}}
		m.f.raw(head)
		m.f.indent = append(m.f.indent, span{strings.Repeat(" ", width(head)), 0})
		s = s[len(mark[0]):]
	} else if text := strings.TrimLeft(s, " "); len(text) < len(s) && len(s)-len(text) < 40 {
		blanks := []span{{s[:len(s)-len(text)], 0}}
		m.f.raw(blanks)
		m.f.indent = append(m.f.indent, blanks...)
		s = text
	}
	m.rest = s
}

// more writes what of the line's text is known.
func (m *Markdown) more(whole bool) {
	st := style(0)
	if m.block == heading {
		st = bold
	}
	for m.rest != "" {
		list, n, wait := next(m.rest, m.before, st, whole, m.f.colour)
		if wait {
			return
		}
		m.before, _ = utf8.DecodeLastRuneInString(m.rest[:n])
		m.rest = m.rest[n:]
		for _, s := range list {
			m.f.text(s.text, s.style)
		}
	}
}

// lineEnd ends the line. newline: it has an end.
func (m *Markdown) lineEnd(newline bool) {
	if m.block == unknownBlock {
		if m.start == "" && newline {
			m.table(true)
		}
		if m.start != "" {
			rows := len(m.rows)
			m.begin(true)
			if len(m.rows) > rows {
				return // the row has its line's end
			}
		}
	} else if m.block != codeLine {
		m.more(true)
	}
	m.block = unknownBlock
	if newline {
		m.f.end()
	}
}
