package index

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Language is what decides how words lose their endings.
type Language uint8

// The languages whose endings are known. Other texts keep their words as they are written, but for
// an English plural's end, which does little harm.
const (
	English Language = iota
	German
)

// maxTerm is the longest term in bytes: what is longer is no word, base64 for one.
const maxTerm = 64

// Terms gives the terms of a text in their order: words in lower case, without accents and endings,
// and pairs of neighbours where a script has no spaces (Chinese, Japanese, Korean, Thai). Of a word
// with marks inside (num_ctx, keep-alive) it gives the parts and, at the place of the last one, the
// whole. place counts words.
func Terms(text string, lang Language, yield func(term string, place int)) {
	t := scanner{lang: lang, yield: yield}
	if !ascii(text) {
		text = norm.NFKC.String(text)
	}
	t.text(text)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// scanner is a text on its way to terms.
type scanner struct {
	lang   Language
	yield  func(string, int)
	place  int
	whole  []byte // parts of a word with marks inside
	parts  int
	buffer []byte
}

func (t *scanner) text(s string) {
	word, last, pairs := -1, rune(0), 0 // where a word began; the last character of a run without spaces, and its length
	joined := false                     // what came before this word belongs to it
	endRun := func() {
		if pairs == 1 {
			t.emit(string(last))
		}
		last, pairs = 0, 0
	}
	endWord := func(to int) {
		if word >= 0 {
			t.word(s[word:to], joined)
			word = -1
		}
	}
	for i, r := range s {
		switch {
		case unspaced(r):
			endWord(i)
			t.endWhole()
			joined = false
			if pairs++; pairs > 1 {
				t.emit(string(last) + string(r))
			}
			last = r
			continue
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r):
			if word < 0 {
				word = i
			}
		case r == '\'' || r == '’':
			if word >= 0 && i+utf8.RuneLen(r) < len(s) && letterAt(s[i+utf8.RuneLen(r):]) {
				continue // inside a word: don't, l'heure
			}
			endWord(i)
			t.endWhole()
			joined = false
		case strings.ContainsRune("_-.", r) && word >= 0 && i+1 < len(s) && letterAt(s[i+1:]):
			endWord(i)
			joined = true
		default:
			endWord(i)
			t.endWhole()
			joined = false
		}
		endRun()
	}
	endWord(len(s))
	t.endWhole()
	endRun()
}

func letterAt(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) && !unspaced(r)
}

// unspaced says that a script puts no spaces between its words.
func unspaced(r rune) bool {
	if r < 0x0E00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer,
		unicode.Myanmar) || r == 'ー'
}

// word folds a word and takes its ending.
func (t *scanner) word(s string, joined bool) {
	t.buffer = fold(t.buffer[:0], s)
	if len(t.buffer) == 0 || len(t.buffer) > maxTerm {
		return
	}
	if !joined {
		t.endWhole()
	}
	t.whole = append(t.whole, t.buffer...)
	t.parts++
	t.emit(string(stem(t.buffer, t.lang)))
}

// endWhole gives a word of several parts as one.
func (t *scanner) endWhole() {
	if t.parts > 1 && t.parts <= 6 && len(t.whole) <= maxTerm && t.place > 0 {
		t.yield(string(stem(t.whole, t.lang)), t.place-1)
	}
	t.whole, t.parts = t.whole[:0], 0
}

func (t *scanner) emit(term string) {
	t.yield(term, t.place)
	t.place++
}

// fold appends a word in lower case and without accents.
func fold(to []byte, s string) []byte {
	if ascii(s) {
		for i := range len(s) {
			c := s[i]
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			if c != '\'' {
				to = append(to, c)
			}
		}
		return to
	}
	for _, r := range norm.NFD.String(s) {
		switch r = unicode.ToLower(r); {
		case unicode.Is(unicode.Mn, r), r == '\'', r == '’':
		case r == 'ß':
			to = append(to, "ss"...)
		case r == 'æ':
			to = append(to, "ae"...)
		case r == 'ø':
			to = append(to, 'o')
		default:
			to = utf8.AppendRune(to, r)
		}
	}
	return to
}

// Guess is the language of a text by its small words; English where they do not say.
func Guess(text string) Language {
	german, english := 0, 0
	if len(text) > 16<<10 {
		text = text[:16<<10]
	}
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		switch word {
		case "der", "die", "das", "und", "ist", "nicht", "ein", "eine", "mit", "für", "auf", "den", "von", "zu", "im", "sich", "dem",
			"wie", "wird",
			"werden", "oder", "auch", "es", "ich", "sie", "kann":
			german++
		case "the", "and", "is", "of", "to", "in", "that", "it", "for", "with", "are", "not", "be", "or", "how", "what", "can":
			english++
		}
	}
	if german > english {
		return German
	}
	return English
}
