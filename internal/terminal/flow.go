package terminal

import (
	"strings"
	"unicode"
)

// style is how a text looks.
type style uint8

// What a text may be, all at once.
const (
	bold style = 1 << iota
	italic
	under
	struck
	coded // a colour
	faint // a colour
)

// codes are what turns each style on, in their order.
var codes = []string{"1", "3", "4", "9", "36", "90"}

// colours are the styles that NO_COLOR takes away.
const colours = coded | faint

// span is a text in one style.
type span struct {
	text  string
	style style
}

// longestWord is how many characters wait for the blank behind them. Scripts without blanks, and
// what is no word, go on in parts.
const longestWord = 40

// flow lays styled text out: a word that does not fit goes to the next line. A word is written when
// it is whole, so nothing on the screen changes.
type flow struct {
	out     strings.Builder
	columns func() int
	colour  bool
	indent  []span // before each further line of what is written
	col     int
	blanks  string
	between style // of the blanks
	word    []span
	length  int // of the word, in characters
	last    string
	on      style // of the screen
}

// text adds text without line ends.
func (f *flow) text(s string, st style) {
	if !f.colour {
		st &^= colours
	}
	for _, r := range s {
		if r == ' ' || r == '\t' {
			f.place()
			f.blanks, f.between = f.blanks+string(r), st
			continue
		}
		if ends := f.length >= longestWord || wide(f.last) && !unicode.IsPunct(r); ends && f.length > 0 && !joins(r) &&
			!strings.HasSuffix(f.last, "\u200d") {
			f.place()
		}
		if n := len(f.word); n > 0 && f.word[n-1].style == st {
			f.word[n-1].text += string(r)
		} else {
			f.word = append(f.word, span{string(r), st})
		}
		f.length++
		if joins(r) {
			f.last += string(r)
		} else {
			f.last = string(r)
		}
	}
}

// joins says whether a character belongs to the one before it.
func joins(r rune) bool { return unicode.IsMark(r) || r == 0x200d || r >= 0x1f3fb && r <= 0x1f3ff }

// place writes the word, here or on the next line.
func (f *flow) place() {
	if len(f.word) == 0 {
		return
	}
	w := 0
	for _, s := range f.word {
		w += Width(s.text)
	}
	gap := strings.ReplaceAll(f.blanks, "\t", "    ")
	limit := f.columns() - 1 // in a row's last column a terminal may be about to wrap by itself
	from := width(f.indent)
	if limit >= 8 && f.col+len(gap)+w > limit && f.col > from {
		f.line()
		gap = ""
	}
	f.write(span{gap, f.between})
	for _, s := range f.word {
		f.write(s)
	}
	f.col += len(gap) + w
	if columns := limit + 1; limit >= 8 && f.col > columns { // the terminal has cut it
		f.col %= columns
	}
	f.word, f.length, f.blanks, f.last = f.word[:0], 0, "", ""
}

// line goes to the next line and its indent.
func (f *flow) line() {
	f.write(span{"\n", 0})
	f.col = 0
	f.raw(f.indent)
}

// raw writes spans where they are.
func (f *flow) raw(list []span) {
	for _, s := range list {
		f.write(s)
		f.col += Width(s.text)
	}
}

// end ends the line, and the indent.
func (f *flow) end() {
	f.place()
	f.write(span{"\n", 0})
	f.col, f.blanks, f.indent = 0, "", nil
}

// write writes a text, with what turns the screen to its style.
func (f *flow) write(s span) {
	if !f.colour {
		s.style &^= colours
	}
	if s.text == "" {
		return
	}
	if s.style != f.on {
		var on []string
		if f.on&^s.style != 0 { // something ends, and a terminal ends all at once
			on = append(on, "0")
			f.on = 0
		}
		for i, code := range codes {
			if s.style&^f.on&(1<<i) != 0 {
				on = append(on, code)
			}
		}
		f.out.WriteString("\x1b[" + strings.Join(on, ";") + "m")
		f.on = s.style
	}
	f.out.WriteString(s.text)
}

func width(list []span) (n int) {
	for _, s := range list {
		n += Width(s.text)
	}
	return n
}
