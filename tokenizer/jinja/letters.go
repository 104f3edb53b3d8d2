package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// mapped changes each stretch of a text by itself.
func (r *run) mapped(s origin.Text, f func(string) string) origin.Text {
	r.Grow(3*s.Len() + 4*s.Cuts())
	//rule:T2 TestMarksSurvive s.Map(f) => origin.Own(f(s.String()))
	return s.Map(f)
}

func (r *run) upper(s origin.Text) origin.Text    { return r.mapped(s, upper) }
func (r *run) lower(s origin.Text) origin.Text    { return r.mapped(s, lower) }
func (r *run) swapcase(s origin.Text) origin.Text { return r.mapped(s, swapcase) }
func (r *run) casefold(s origin.Text) origin.Text { return r.mapped(s, casefold) }
func (r *run) title(s origin.Text) origin.Text    { return r.words(s, title, uncased) }

// capitalize makes the first character a capital and the others small.
func (r *run) capitalize(s origin.Text) origin.Text {
	return r.words(s, title, func(rune) bool { return false })
}

func upper(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	return cases.Upper(language.Und).String(s) // ß becomes SS, as in Python
}

func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	return cases.Lower(language.Und).String(s)
}

func casefold(s string) string { return strings.ReplaceAll(lower(s), "ß", "ss") }

// swapcase makes what is small a capital and the other way round. How the Greek sigma is written
// small depends on what stands round it, so what is small is taken out of the whole text's.
func swapcase(s string) string {
	var b strings.Builder
	rest := lower(s)
	for _, c := range s {
		n := len(lower(string(c)))
		switch {
		case unicode.IsUpper(c):
			b.WriteString(rest[:n])
		case small(c):
			b.WriteString(upper(string(c)))
		default:
			b.WriteRune(c)
		}
		rest = rest[n:]
	}
	return b.String()
}

// small reports whether a character is small, as Python's str.islower says.
func small(c rune) bool { return unicode.In(c, unicode.Lower, unicode.Other_Lowercase) }

func title(s string) string {
	if isASCII(s) {
		return strings.ToUpper(s)
	}
	t := cases.Title(language.Und, cases.NoLower).String(s)
	if c, _ := utf8.DecodeRuneInString(s); t == s && !unicode.IsTitle(c) { // it leaves ŉ, whose capital is two characters
		return upper(s)
	}
	return t
}

// uncased reports whether a character is neither capital nor small: after one, str.title begins a
// word.
func uncased(c rune) bool {
	return !unicode.In(c, unicode.Upper, unicode.Lower, unicode.Title, unicode.Other_Uppercase, unicode.Other_Lowercase)
}

// isCased reports whether a string has a letter that knows upper and lower case.
func isCased(s string) bool {
	return lower(s) != s || upper(s) != s
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// words makes the first character of each word a capital and the others small.
func (r *run) words(s origin.Text, capital func(string) string, between func(rune) bool) origin.Text {
	r.Grow(3*s.Len() + 4*s.Cuts())
	var b origin.Builder
	begins := true
	for run, given := range s.Runs() {
		from := 0 // what is small goes in one piece, for the Greek sigma's sake
		for at, c := range run {
			if begins && !between(c) {
				_, n := utf8.DecodeRuneInString(run[at:])
				b.Write(lower(run[from:at]), given)
				b.Write(capital(run[at:at+n]), given)
				from = at + n
			}
			begins = between(c)
		}
		b.Write(lower(run[from:]), given)
	}
	return b.Text()
}
