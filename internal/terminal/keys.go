package terminal

import (
	"strings"
	"unicode"
)

// name is a key that is not a character.
type name int

const (
	char name = iota // a character: its rune
	enter
	newline // a line's end that does not send
	up
	down
	left
	right
	wordLeft
	wordRight
	home
	end
	backspace
	del
	deleteWord // to the end of the word
	eraseWord  // back to the word's beginning
	eraseBlank // back to the last blank
	eraseLine  // back to the line's beginning
	deleteRest // to the line's end
	yank       // what was deleted last
	clearScreen
	search // in the history, backwards
	searchForward
	editor // the text in an editor
	complete
	suspend // stop the program for now
	interrupt
	eof     // or delete
	paste   // what follows was pasted
	escape  // alone, or before what it does not go with
	unknown // a sequence that means nothing here
)

type key struct {
	name name
	rune rune
}

var controls = map[rune]name{
	1: home, 2: left, 3: interrupt, 4: eof, 5: end, 6: right, 7: editor, 8: backspace, '\t': complete, '\n': enter, 11: deleteRest,
	12:   clearScreen,
	'\r': enter,
	14:   down, 16: up, 18: search, 19: searchForward, 21: eraseLine, 23: eraseBlank, 25: yank, 26: suspend, 127: backspace,
}

// alts are keys after an escape: Alt held down, or Escape typed before.
var alts = map[rune]name{
	'b': wordLeft, 'f': wordRight, 'd': deleteWord, 8: eraseWord, 127: eraseWord, '\r': newline, '\n': newline, '<': unknown, '>': unknown,
}

// finals are the last letters of ESC [ … and ESC O …
var finals = map[rune]name{'A': up, 'B': down, 'C': right, 'D': left, 'H': home, 'F': end}

// tildes are the numbers of ESC [ number ~: xterm's, the console's, rxvt's.
var tildes = map[string]name{"1": home, "7": home, "4": end, "8": end, "3": del, "200": paste}

// key reads one. A sequence is read to its end even if it means nothing: its letters must not land
// in the text.
func (e *Editor) key() (key, error) {
	r, err := e.rune()
	if err != nil {
		return key{}, err
	}
	if r != 27 {
		if n, ok := controls[r]; ok {
			if r == '\r' && e.in.Buffered() > 0 { // a line's end of two characters
				if b, err := e.in.Peek(1); err == nil && b[0] == '\n' {
					_, _ = e.in.Discard(1)
				}
			}
			return key{name: n}, nil
		}
		if unicode.IsControl(r) && r != '\t' {
			return key{name: unknown}, nil
		}
		return key{name: char, rune: r}, nil
	}
	if r, err = e.rune(); err != nil {
		return key{}, err
	}
	switch r {
	case '[':
		return e.sequence()
	case 'O':
		if r, err = e.rune(); err != nil {
			return key{}, err
		}
		switch r {
		case 'c':
			return key{name: wordRight}, nil
		case 'd':
			return key{name: wordLeft}, nil
		}
		return key{name: known(finals[r])}, nil
	}
	if n, ok := alts[r]; ok {
		return key{name: n}, nil
	}
	if r < ' ' { // Escape was typed alone, and this is a key of its own
		_ = e.in.UnreadRune()
	}
	return key{name: escape}, nil
}

// known turns what a table lacks into unknown.
func known(n name) name {
	if n == char {
		return unknown
	}
	return n
}

// sequence reads the rest of ESC [.
func (e *Editor) sequence() (key, error) {
	var args strings.Builder
	for {
		r, err := e.rune()
		if err != nil {
			return key{}, err
		}
		switch {
		case r == '[' && args.Len() == 0: // the console's function keys: ESC [ [ A
			if _, err = e.rune(); err != nil {
				return key{}, err
			}
			return key{name: unknown}, nil
		case r >= 0x20 && r < 0x40:
			if args.Len() < 32 {
				args.WriteRune(r)
			}
			continue
		case r == '~':
			number, _, _ := strings.Cut(args.String(), ";")
			return key{name: known(tildes[number])}, nil
		}
		n := known(finals[r])
		// ESC [ 1 ; 5 C: with Ctrl or Alt, an arrow goes by words.
		if _, mod, ok := strings.Cut(args.String(), ";"); ok && mod != "2" {
			switch n {
			case left:
				n = wordLeft
			case right:
				n = wordRight
			}
		}
		return key{name: n}, nil
	}
}

// rune is the next character; what is not UTF-8 is one that says so.
func (e *Editor) rune() (rune, error) {
	r, _, err := e.in.ReadRune()
	return r, err
}

// pasted reads a paste to its end. ok is false where Ctrl-C came in it.
func (e *Editor) pasted() (text string, ok bool, err error) {
	const over = "\x1b[201~"
	var sb strings.Builder
	var last rune
	for {
		r, err := e.rune()
		if err != nil {
			return "", false, err
		}
		switch {
		case r == 3:
			return "", false, nil
		case r == 27:
			// Only the end of the paste is looked for. Any other sequence in it sets a colour or
			// the like, and is left out.
			seen := string(r)
			for strings.HasPrefix(over, seen) && seen != over {
				if r, err = e.rune(); err != nil {
					return "", false, err
				}
				seen += string(r)
			}
			if seen == over {
				return sb.String(), true, nil
			}
			if strings.HasPrefix(seen, "\x1b[") {
				for r >= 0x20 && r < 0x40 {
					if r, err = e.rune(); err != nil {
						return "", false, err
					}
				}
			} else if r == 27 || r == 3 || r == '\r' || r == '\n' {
				_ = e.in.UnreadRune()
			}
			last = 0
			continue
		case r == '\r', r == '\n' && last != '\r':
			sb.WriteByte('\n')
		case r == '\n':
		default:
			sb.WriteString(clean(string(r)))
		}
		last = r
	}
}

// clean leaves out what a terminal would obey and what is no text: all controls but tabs and line
// ends.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\t' && r != '\n' {
			return -1
		}
		return r
	}, s)
}
