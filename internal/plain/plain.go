// Package plain makes text from others safe to print. A terminal obeys control sequences, and a
// package's name or a hub's listing may hold some that move its cursor, change its title or reverse
// text. What is not printable is shown quoted, as \u001b.
//
// Functions are safe for concurrent use; a [Writer] belongs to its user. Nothing here holds a
// resource.
package plain

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// hides says whether a rune acts on a terminal, or hides or turns text, rather than being shown.
// Joiners and selectors, which some scripts and emoji need, do not.
func hides(r rune) bool {
	switch r {
	case '\n', '\t':
		return false
	case '\u061c', '\u200e', '\u200f', '\u2028', '\u2029', '\ufeff': // marks of direction, and line ends that are none
		return true
	}
	return unicode.IsControl(r) || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' || r >= '\ufff9' && r <= '\ufffb'
}

// append adds the rune or byte that s begins with, whose length is size, to b.
func quote(b []byte, s string, r rune, size int) []byte {
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Appendf(b, `\x%02x`, s[0])
	case hides(r):
		return fmt.Appendf(b, `\u%04x`, r) // also within JSON, where it stands for the same
	}
	return append(b, s[:size]...)
}

// Text is s with what is not printable quoted. Line ends and tabs stay; a line end in two parts
// becomes one.
func Text(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || hides(r) }) {
		return s
	}
	s = strings.ReplaceAll(s, "\r\n", "\n")
	var b []byte
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		b = quote(b, s, r, size)
		s = s[size:]
	}
	return string(b)
}

// Line is Text for what has to stay on its line, a name for one: line ends are quoted too, and a
// tab is a space.
func Line(s string) string {
	s = Text(s)
	if !strings.ContainsAny(s, "\n\t") {
		return s
	}
	return strings.NewReplacer("\n", `\n`, "\t", " ").Replace(s)
}

// Writer quotes what is not printable in all that goes through it, whatever parts it comes in.
type Writer struct {
	W    io.Writer
	rest string // the beginning of a rune, or of a line end
}

// Raw is the writer below, for what shall act on a terminal.
func Raw(w io.Writer) io.Writer {
	if p, ok := w.(*Writer); ok {
		return p.W
	}
	return w
}

// Write writes all of p but the beginning of a rune at its end, which waits for the rest.
func (w *Writer) Write(p []byte) (int, error) {
	s := w.rest + string(p)
	end := len(s)
	if end > 0 && s[end-1] == '\r' {
		end--
	}
	for back := 1; back < utf8.UTFMax && back <= end; back++ {
		if c := s[end-back]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRuneInString(s[end-back:end]) && end == len(s) {
				end -= back
			}
			break
		}
	}
	w.rest = s[end:]
	if _, err := io.WriteString(w.W, Text(s[:end])); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what waits for a rest that does not come.
func (w *Writer) Flush() error {
	s := w.rest
	w.rest = ""
	if s == "" {
		return nil
	}
	_, err := io.WriteString(w.W, Text(s))
	return err
}
