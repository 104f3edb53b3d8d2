package terminal

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"
)

// Wrapper writes text that comes in parts, and lets no word be cut by the screen's edge: a word
// that turns out not to fit is taken back and written on the next line. Lines inside ``` are left
// to the terminal, for they may be copied, and so are words longer than a line.
type Wrapper struct {
	out     io.Writer
	columns func() int
	col     int    // where the word began
	word    string // since then
	line    string // the line so far, while it may be a fence
	code    bool   // inside ```
}

// NewWrapper makes one. columns is asked at every line; 0 or less: nothing is wrapped.
func NewWrapper(out io.Writer, columns func() int) *Wrapper {
	return &Wrapper{out: out, columns: columns}
}

// Write takes any part of the text, whole characters. It never fails: a screen is not waited for.
func (w *Wrapper) Write(p []byte) (int, error) {
	var sb strings.Builder
	for _, r := range string(p) {
		w.put(&sb, r)
	}
	_, _ = io.WriteString(w.out, sb.String())
	return len(p), nil
}

func (w *Wrapper) put(sb *strings.Builder, r rune) {
	if r == '\n' {
		if strings.HasPrefix(strings.TrimLeft(w.line, " "), "```") {
			w.code = !w.code
		}
		w.col, w.word, w.line = 0, "", ""
		sb.WriteByte('\n')
		return
	}
	if len(w.line) < 64 {
		w.line += string(r)
	}
	limit := w.columns() - 1 // in a row's last column a terminal may be about to wrap by itself, and going back is off by one
	if w.code || limit < 8 {
		sb.WriteRune(r)
		return
	}
	was := Width(w.word)
	if r == ' ' || r == '\t' {
		w.col += was
		w.word = ""
		switch {
		case w.col >= limit: // the blank is the line's end
			sb.WriteByte('\n')
			w.col = 0
		case r == '\t':
			w.col = min(w.col+8-w.col%8, limit)
			sb.WriteRune(r)
		default:
			w.col++
			sb.WriteRune(r)
		}
		return
	}
	// Where there are no blanks, between two ideographs is a place to break.
	if was > 0 && wide(w.word) && !unicode.IsMark(r) && !unicode.IsPunct(r) && r != 0x200d && !strings.HasSuffix(w.word, "\u200d") {
		w.col += was
		w.word, was = "", 0
	}
	w.word += string(r)
	now := Width(w.word)
	switch {
	case w.col+now <= limit:
	case w.col > 0 && now <= limit:
		if was > 0 {
			fmt.Fprintf(sb, "\x1b[%dD\x1b[K", was)
		}
		sb.WriteByte('\n')
		w.col = 0
		sb.WriteString(w.word)
		return
	default: // longer than a line: it is cut at the edge
		sb.WriteByte('\n')
		w.col, w.word = 0, string(r)
	}
	sb.WriteRune(r)
}

// wide reports whether the text ends in a character of two columns.
func wide(s string) bool {
	rest, state, w := s, -1, 0
	for rest != "" {
		_, rest, w, state = uniseg.FirstGraphemeClusterInString(rest, state)
	}
	return w == 2
}

// Fold breaks s at blanks into lines of at most columns; each after the first begins with indent.
// Lines in s stay lines.
func Fold(s, indent string, columns int) string {
	var out strings.Builder
	for i, line := range strings.Split(s, "\n") {
		if i > 0 {
			out.WriteByte('\n')
		}
		if Width(line) <= columns {
			out.WriteString(line)
			continue
		}
		words := strings.Split(line, " ")
		col := 0
		for n, word := range words {
			w := Width(word)
			switch {
			case n == 0:
			case col+1+w > columns && col > len(indent):
				out.WriteString("\n" + indent)
				col = Width(indent)
			default:
				out.WriteByte(' ')
				col++
			}
			out.WriteString(word)
			col += w
		}
	}
	return out.String()
}
