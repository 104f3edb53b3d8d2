package jinja

import (
	"strings"
	"unicode"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// mapped changes each stretch of a text by itself.
func (r *run) mapped(s origin.Text, f func(string) string) origin.Text {
	r.Grow(3*s.Len() + 4*s.Cuts())
	//rule:T2 TestMarksSurvive s.Map(f) => origin.Own(f(s.String()))
	return s.Map(f)
}

func (r *run) upper(s origin.Text) origin.Text { return r.mapped(s, upper) }
func (r *run) lower(s origin.Text) origin.Text { return r.mapped(s, lower) }

// title makes a capital of the first letter behind each character that is no letter with two cases.
func (r *run) title(s origin.Text) origin.Text {
	return r.words(s, func(c rune) bool { return !cased(c) })
}

// capitalize makes the first character a capital and the others small.
func (r *run) capitalize(s origin.Text) origin.Text {
	return r.words(s, func(rune) bool { return false })
}

func upper(s string) string { return strings.ToUpper(s) }
func lower(s string) string { return strings.ToLower(s) }

// cased reports whether a character is a capital or small.
func cased(c rune) bool {
	return unicode.In(c, unicode.Upper, unicode.Lower, unicode.Title, unicode.Other_Uppercase, unicode.Other_Lowercase)
}

// isCased reports whether a string has a letter that knows upper and lower case.
func isCased(s string) bool {
	return lower(s) != s || upper(s) != s
}

// words makes the first character of each word a capital and the others small.
func (r *run) words(s origin.Text, between func(rune) bool) origin.Text {
	r.Grow(3*s.Len() + 4*s.Cuts())
	begins := true
	return s.Map(func(run string) string {
		return strings.Map(func(c rune) rune {
			first := begins && !between(c)
			begins = between(c)
			if first {
				return unicode.ToTitle(c)
			}
			return unicode.ToLower(c)
		}, run)
	})
}
