package tokenizer

import "unicode/utf8"

// scanner finds the end of the match that begins at s[i], or returns -1 where its pattern does not
// match there.
type scanner interface {
	next(s string, i int) int
}

// at reads the character at s[i] with its class. A stray byte counts as U+FFFD, as it would after
// the cleaning other libraries insist on.
func (t *classPages) at(s string, i int) (r rune, n int, c uint8) {
	if b := s[i]; b < utf8.RuneSelf {
		return rune(b), 1, t.pages[t.page[0]][b]
	}
	r, n = utf8.DecodeRuneInString(s[i:])
	return r, n, t.of(r)
}

// run returns the end of the run of characters of class c that begins at s[i].
func (t *classPages) run(s string, i int, c uint8) int {
	for i < len(s) {
		_, n, k := t.at(s, i)
		if k&c == 0 {
			break
		}
		i += n
	}
	return i
}

// digits returns the end of up to n characters of a number that begin at s[i].
func (t *classPages) digits(s string, i, n int) int {
	for ; n > 0 && i < len(s); n-- {
		_, size, c := t.at(s, i)
		if c&classNumber == 0 {
			break
		}
		i += size
	}
	return i
}

// spaces matches \s*[\r\n]+ (where newlines is set), \s+(?!\S), \s+, in that order. s[i] is a
// space.
func (t *classPages) spaces(s string, i int, newlines bool) int {
	last, nl := i, -1 // start of the last space; end of the last newline
	j := i
	for j < len(s) {
		r, n, c := t.at(s, j)
		if c&classSpace == 0 {
			break
		}
		last = j
		j += n
		if r == '\n' || r == '\r' {
			nl = j
		}
	}
	switch {
	case newlines && nl >= 0:
		return nl
	case j == len(s), last == i:
		return j
	}
	return last
}

// contraction matches 's 't 're 've 'm 'll 'd, in any case if fold is set, and returns the end, or
// -1. Oniguruma folds ſ (U+017F) to s.
func contraction(s string, i int, fold bool) int {
	if s[i] != '\'' || i+1 >= len(s) {
		return -1
	}
	lower := func(k int) byte {
		if k >= len(s) {
			return 0
		}
		b := s[k]
		if fold && 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		return b
	}
	switch a, b := lower(i+1), lower(i+2); {
	case a == 's' || a == 't' || a == 'm' || a == 'd':
		return i + 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return i + 3
	case fold && a == 0xC5 && b == 0xBF:
		return i + 3
	}
	return -1
}

// gpt2 is 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
type gpt2 struct{ t *classPages }

func (g gpt2) next(s string, i int) int {
	if e := contraction(s, i, false); e >= 0 {
		return e
	}
	t := g.t
	j := i
	if s[i] == ' ' && i+1 < len(s) {
		j++
	}
	_, n, c := t.at(s, j)
	switch {
	case c&classLetter != 0:
		return t.run(s, j+n, classLetter)
	case c&classNumber != 0:
		return t.run(s, j+n, classNumber)
	case c&classSpace != 0:
		return t.spaces(s, i, false)
	}
	return t.others(s, j+n, classSpace|classLetter|classNumber)
}

// clip is 's|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+
type clip struct{ t *classPages }

func (g clip) next(s string, i int) int {
	if e := contraction(s, i, false); e >= 0 {
		return e
	}
	_, n, c := g.t.at(s, i)
	switch {
	case c&classLetter != 0:
		return g.t.run(s, i+n, classLetter)
	case c&classNumber != 0:
		return i + n
	case c&classSpace != 0:
		return -1
	}
	return g.t.others(s, i+n, classSpace|classLetter|classNumber)
}

// others returns the end of the run of characters in none of the classes c.
func (t *classPages) others(s string, i int, c uint8) int {
	for i < len(s) {
		_, n, k := t.at(s, i)
		if k&c != 0 {
			break
		}
		i += n
	}
	return i
}

// cl100k is the family that begins with GPT-4's:
//
//	(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// Qwen takes one digit at a time, Qwen3.5 lets marks be part of words.
type cl100k struct {
	t      *classPages
	digits int   // longest number
	word   uint8 // classes of a word's characters: letters, or letters and marks
}

func (g cl100k) next(s string, i int) int {
	t := g.t
	if s[i] == '\'' {
		if e := contraction(s, i, true); e >= 0 {
			return e
		}
	}
	r, n, c := t.at(s, i)
	if c&g.word != 0 {
		return t.run(s, i+n, g.word)
	}
	if c&classNumber != 0 {
		return t.digits(s, i+n, g.digits-1)
	}
	// Any character but a newline may lead a word.
	if i+n < len(s) && r != '\r' && r != '\n' {
		if _, m, c2 := t.at(s, i+n); c2&g.word != 0 {
			return t.run(s, i+n+m, g.word)
		}
	}
	j := i
	if r == ' ' {
		j++
	}
	if e := t.others(s, j, classSpace|classNumber|g.word|classLetter); e > j {
		for e < len(s) && (s[e] == '\r' || s[e] == '\n') {
			e++
		}
		return e
	}
	return t.spaces(s, i, true)
}

// o200k is GPT-4o's:
//
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|
//	\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
type o200k struct {
	t     *classPages
	slash bool // a slash may follow punctuation, as newlines may
}

func (g o200k) next(s string, i int) int {
	t := g.t
	r, n, c := t.at(s, i)
	e := -1
	lead := c&(classLetter|classNumber) == 0 && r != '\r' && r != '\n'
	if lead && i+n < len(s) {
		e = g.lowerWord(s, i+n)
	}
	if e < 0 {
		e = g.lowerWord(s, i)
	}
	if e < 0 && lead && i+n < len(s) {
		e = g.upperWord(s, i+n)
	}
	if e < 0 {
		e = g.upperWord(s, i)
	}
	if e >= 0 {
		if e < len(s) {
			if k := contraction(s, e, true); k >= 0 {
				return k
			}
		}
		return e
	}
	if c&classNumber != 0 {
		return t.digits(s, i+n, 2)
	}
	j := i
	if r == ' ' {
		j++
	}
	if e := t.others(s, j, classSpace|classLetter|classNumber); e > j {
		for e < len(s) && (s[e] == '\r' || s[e] == '\n' || g.slash && s[e] == '/') {
			e++
		}
		return e
	}
	return t.spaces(s, i, true)
}

// sets says whether a character is in the pattern's upper set and in its lower set; letters without
// case and marks are in both.
func (g o200k) sets(s string, i int) (n int, upper, lower bool) {
	_, n, c := g.t.at(s, i)
	both := c&classMark != 0 || c&classLetter != 0 && c&(classUpper|classLower) == 0
	return n, both || c&classUpper != 0, both || c&classLower != 0
}

// lowerWord matches [upper]*[lower]+ at s[i].
func (g o200k) lowerWord(s string, i int) int {
	j, give := i, -1 // give: the end of the last character of the upper run that the lower set could take instead
	for j < len(s) {
		n, up, low := g.sets(s, j)
		if !up {
			if low {
				for j < len(s) {
					n, _, low := g.sets(s, j)
					if !low {
						break
					}
					j += n
				}
				return j
			}
			break
		}
		j += n
		if low {
			give = j
		}
	}
	return give
}

// upperWord matches [upper]+[lower]* at s[i], once lowerWord has not matched.
func (g o200k) upperWord(s string, i int) int {
	j := i
	for j < len(s) {
		n, up, _ := g.sets(s, j)
		if !up {
			break
		}
		j += n
	}
	if j == i {
		return -1
	}
	return j
}

// deepseek3 is the third split of DeepSeek-V3:
//
//	[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
type deepseek3 struct{ t *classPages }

func (g deepseek3) next(s string, i int) int {
	t := g.t
	r, n, c := t.at(s, i)
	if r > ' ' && r < 127 && c&classSymbol != 0 {
		j := i + 1
		for j < len(s) && ('a' <= s[j]|0x20 && s[j]|0x20 <= 'z') {
			j++
		}
		if j > i+1 {
			return j
		}
	}
	const word = classLetter | classMark
	if c&word != 0 {
		return t.run(s, i+n, word)
	}
	if c&classSymbol == 0 && r != '\r' && r != '\n' && i+n < len(s) {
		if _, m, c2 := t.at(s, i+n); c2&word != 0 {
			return t.run(s, i+n+m, word)
		}
	}
	j := i
	if r == ' ' {
		j++
	}
	if e := t.run(s, j, classSymbol); e > j {
		for e < len(s) && (s[e] == '\r' || s[e] == '\n') {
			e++
		}
		return e
	}
	if c&classSpace != 0 {
		return t.spaces(s, i, true)
	}
	return -1
}

// atMost matches one to max characters for which is holds.
type atMost struct {
	t   *classPages
	is  func(r rune, c uint8) bool
	max int
}

func (g atMost) next(s string, i int) int {
	j := i
	for k := 0; k < g.max && j < len(s); k++ {
		r, n, c := g.t.at(s, j)
		if !g.is(r, c) {
			break
		}
		j += n
	}
	if j == i {
		return -1
	}
	return j
}
