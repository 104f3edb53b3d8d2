package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// longestSpan is how far from its beginning the end of what is emphasised, coded or linked is
// waited for, in bytes. What is longer is shown as it was written.
const longestSpan = 400

// escapes are the characters that a backslash keeps from being marks. The others are left as they
// are written, for \( and \[ begin mathematics.
const escapes = "*_`#~|<>!+-"

// next takes the first piece off the text of a line: a mark with all that is between it and its
// end, or a character. before is the character before the text. wait says that the piece may go on
// in what is still to come; where the line is whole nothing does.
func next(s string, before rune, st style, whole, colour bool) (out []span, n int, wait bool) {
	r, size := utf8.DecodeRuneInString(s)
	literal := []span{{s[:size], st}}
	if len(s) >= longestSpan {
		s, whole = s[:longestSpan], true
	}
	switch r {
	case '\\':
		if len(s) == 1 {
			return literal, size, !whole
		}
		if strings.IndexByte(escapes, s[1]) >= 0 {
			return []span{{s[1:2], st}}, 2, false
		}
	case '`':
		return codeSpan(s, st, whole, colour)
	case '*', '_', '~':
		return emphasis(s, before, st, whole, colour)
	case '[':
		return link(s, 0, st, whole, colour)
	case '!':
		if len(s) == 1 {
			return literal, size, !whole
		}
		if s[1] == '[' {
			return link(s, 1, st, whole, colour)
		}
	}
	return literal, size, false
}

// run is how often a text begins with its first byte.
func run(s string) int { return len(s) - len(strings.TrimLeft(s, s[:1])) }

func codeSpan(s string, st style, whole, colour bool) ([]span, int, bool) {
	n := run(s)
	if n == len(s) && !whole {
		return nil, 0, true
	}
	for at := n; at < len(s); {
		i := strings.IndexByte(s[at:], '`')
		if i < 0 {
			break
		}
		at += i
		m := run(s[at:])
		if at+m == len(s) && !whole {
			return nil, 0, true
		}
		if m == n {
			text := s[n:at]
			if !colour { // the marks say it
				return []span{{s[:at+m], st}}, at + m, false
			}
			if in := strings.TrimSpace(text); in != "" && text[0] == ' ' && text[len(text)-1] == ' ' {
				text = text[1 : len(text)-1]
			}
			return []span{{text, st | coded}}, at + m, false
		}
		at += m
	}
	return []span{{s[:n], st}}, n, !whole
}

// emphasis reads what stands between marks of one kind. One, two and three of them mean italics,
// bold and both; two of ~ strike out. What is so already is not made so again, or a text of marks
// alone would be read once for each.
func emphasis(s string, before rune, st style, whole, colour bool) ([]span, int, bool) {
	n := run(s)
	literal := []span{{s[:n], st}}
	if n == len(s) {
		return literal, n, !whole
	}
	add := map[int]style{1: italic, 2: bold, 3: bold | italic}[n]
	if s[0] == '~' {
		add = map[int]style{2: struck}[n]
	}
	after, _ := utf8.DecodeRuneInString(s[n:])
	if add&^st == 0 || unicode.IsSpace(after) || s[0] == '_' && word(before) {
		return literal, n, false
	}
	for at := n; at < len(s); {
		switch c := s[at]; {
		case c == '\\' && at+1 < len(s):
			at += 2
			continue
		case c == '`':
			_, m, wait := codeSpan(s[at:], 0, whole, colour)
			if wait {
				return literal, n, true
			}
			at += m
			continue
		case c != s[0]:
			at++
			continue
		}
		m := run(s[at:])
		end := at + m
		if end == len(s) && !whole {
			return literal, n, true
		}
		left, _ := utf8.DecodeLastRuneInString(s[:at])
		right, _ := utf8.DecodeRuneInString(s[end:])
		if m != n || unicode.IsSpace(left) || s[0] == '_' && end < len(s) && word(right) {
			at = end
			continue
		}
		return inline(s[n:at], rune(s[0]), st|add, colour), end, false
	}
	return literal, n, !whole
}

// word says whether a character is part of a word, in which _ is no mark.
func word(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' }

// link reads [text](address), at what stands behind at bytes. The address is shown behind the text.
func link(s string, at int, st style, whole, colour bool) ([]span, int, bool) {
	literal := []span{{s[:at+1], st}}
	if st&under != 0 { // a link in a link
		return literal, at + 1, false
	}
	depth, i := 0, at
	for ; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
			continue
		case '[':
			depth++
		case ']':
			depth--
		}
		if depth == 0 {
			break
		}
	}
	if i+1 >= len(s) {
		return literal, at + 1, !whole
	}
	if s[i+1] != '(' {
		return literal, at + 1, false
	}
	depth = 0
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case '(':
			depth++
		case ')':
			if depth--; depth > 0 {
				continue
			}
			text, address := s[at+1:i], s[i+2:j]
			if text == "" || text == address && strings.Contains(address, "://") { // it says all
				return []span{{address, st | under}}, j + 1, false
			}
			return append(inline(text, '[', st|under, colour), span{" (" + address + ")", st&^under | faint}), j + 1, false
		case ' ', '<': // a title, or an address in brackets: it stays as it is written
			return literal, at + 1, false
		}
	}
	return literal, at + 1, !whole
}

// inline is a whole text with its marks.
func inline(s string, before rune, st style, colour bool) (out []span) {
	for s != "" {
		list, n, _ := next(s, before, st, true, colour)
		before, _ = utf8.DecodeLastRuneInString(s[:n])
		out = append(out, list...)
		s = s[n:]
	}
	return out
}
