// Package sentence finds the sentences of a text that is still being written, so that each can be
// spoken before the next is there. Its functions may be called from any goroutine.
package sentence

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// Least is how many bytes a part has that is spoken by itself, unless it is the last.
	Least   = 16
	longest = 2000 // bytes without a sentence's end; a longer part is cut between words
)

// Whole is how many bytes of a text can be spoken by themselves, as far as can be said while the
// rest is still to come: whole sentences, of Least bytes together. 0: none can.
func Whole(text string) int {
	if n := ended(text); n >= Least {
		return n
	}
	return 0
}

// Worded says whether there is anything to speak. A model refuses a text without a word, such as
// the emoji that an answer ends with.
func Worded(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
}

// ended is how many bytes of a text are whole sentences, as far as can be said while the rest is
// still to come: a sentence ends with a line, or with its mark and a space. A full stop behind
// three letters or fewer may be an abbreviation's.
//
// An exclamation or question mark at the end of what came is a sentence's end already. What is
// wrong then is a second mark or a quote that begins the next part, which is not spoken. A full
// stop waits for its space: it may be in the middle of a name, such as that of a file, and a cut
// there would be heard.
func ended(text string) (n int) {
	ends, sure := false, false
	word, space := 0, 0
	for i, r := range text {
		next := i + utf8.RuneLen(r)
		switch {
		case r == '\n', strings.ContainsRune("。！？", r):
			n, word, ends, sure = next, 0, false, false
		case unicode.IsSpace(r):
			if ends {
				n = next
			}
			word, space, ends, sure = 0, next, false, false
		case strings.ContainsRune("!?…", r):
			ends, sure = true, true
		case r == '.':
			ends, sure = word > 3, false
		case !strings.ContainsRune(`"'”’)]`, r):
			word++
			ends, sure = false, false
		}
	}
	if sure {
		n = len(text)
	}
	if n < Least && len(text) > longest {
		if n = space; n < Least {
			n = len(text)
		}
	}
	return n
}
