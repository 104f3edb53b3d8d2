// Package origin has text that knows where it came from, and a meter that counts what is made of
// it.
//
// A prompt mixes a template's own words with what people and tools wrote. Only the template's words
// may hold control tokens. So a [Text] marks each of its bytes as the template's own or as given,
// and every operation keeps the marks. The template languages (packages jinja and gotmpl) compute
// with such text only. What they compute from given text in another way is given too.
//
// A [Text] is immutable, and any goroutine may use it at any time. A [Builder] and a [Meter] belong
// to one goroutine. The caller that makes a Meter closes it, for it holds a part of its [Room].
package origin

import (
	"iter"
	"slices"
	"strings"
)

// Text is a string with marks. The zero Text is empty.
type Text struct {
	s string
	m *marks // nil: all of it is the template's own
}

// marks tell stretches apart: the first is given or not, and each cut ends one.
type marks struct {
	given bool
	cuts  []int32 // ascending, within the text, no ends
}

var allGiven = &marks{given: true}

// Own is text of the template's.
func Own(s string) Text { return Text{s: s} }

// Given is text of anybody else's.
func Given(s string) Text { return Text{s, allGiven} } //rule:T2 ./tokenizer/chat TestNoForgedControlTokens {s, allGiven} => {s: s}

func whole(s string, given bool) Text {
	if given {
		return Given(s)
	}
	return Own(s)
}

// String is the text without its marks.
func (t Text) String() string { return t.s }

// Len is the number of bytes.
func (t Text) Len() int { return len(t.s) }

// Whole reports whether the text is of one origin, and which.
func (t Text) Whole() (given, ok bool) {
	if t.m == nil {
		return false, true
	}
	return t.m.given, len(t.m.cuts) == 0
}

// GivenAt reports whether the byte at i was given.
func (t Text) GivenAt(i int) bool {
	if t.m == nil {
		return false
	}
	n, _ := slices.BinarySearch(t.m.cuts, int32(i)+1) // the cuts at or before i
	return t.m.given != (n%2 == 1)
}

// Runs yields the stretches of one origin.
func (t Text) Runs() iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		var m marks
		if t.m != nil {
			m = *t.m
		}
		given, from := m.given, 0
		for _, c := range m.cuts {
			if !yield(t.s[from:c], given) {
				return
			}
			given, from = !given, int(c)
		}
		if t.s != "" {
			yield(t.s[from:], given)
		}
	}
}

// Slice is the text from byte i to byte j.
func (t Text) Slice(i, j int) Text {
	if given, ok := t.Whole(); ok {
		return whole(t.s[i:j], given)
	}
	lo, _ := slices.BinarySearch(t.m.cuts, int32(i)+1)
	hi, _ := slices.BinarySearch(t.m.cuts, int32(j))
	m := &marks{given: t.m.given != (lo%2 == 1)}
	for _, c := range t.m.cuts[lo:max(lo, hi)] {
		m.cuts = append(m.cuts, c-int32(i))
	}
	return Text{t.s[i:j], m}
}

// Cuts is how many times the origin changes: what [Text.Slice] may have to copy.
func (t Text) Cuts() int {
	if t.m == nil {
		return 0
	}
	return len(t.m.cuts)
}

// Map applies f to each stretch, for changes that look at no neighbour.
func (t Text) Map(f func(string) string) Text {
	if given, ok := t.Whole(); ok {
		return whole(f(t.s), given)
	}
	var b Builder
	for s, given := range t.Runs() {
		b.Write(f(s), given)
	}
	return b.Text()
}

// Replace replaces the first n places of old, which is not empty, with with; n < 0 means all.
func (t Text) Replace(old string, with Text, n int) Text {
	var b Builder
	at := 0
	for ; n != 0; n-- {
		k := strings.Index(t.s[at:], old)
		if k < 0 {
			break
		}
		b.Add(t.Slice(at, at+k))
		b.Add(with)
		at += k + len(old)
	}
	if at == 0 {
		return t
	}
	b.Add(t.Slice(at, len(t.s)))
	return b.Text()
}

// Join is the texts with sep between them.
func Join(texts []Text, sep Text) Text {
	var b Builder
	for i, t := range texts {
		if i > 0 {
			b.Add(sep)
		}
		b.Add(t)
	}
	return b.Text()
}

// Builder makes a Text of parts. Its zero value is ready.
type Builder struct {
	s strings.Builder
	m marks
}

// Len is the number of bytes written.
func (b *Builder) Len() int { return b.s.Len() }

// Write adds a string.
func (b *Builder) Write(s string, given bool) {
	switch {
	case s == "":
		return
	case b.s.Len() == 0:
		b.m.given = given
	case given != (b.m.given != (len(b.m.cuts)%2 == 1)):
		b.m.cuts = append(b.m.cuts, int32(b.s.Len()))
	}
	b.s.WriteString(s)
}

// Add adds a text.
func (b *Builder) Add(t Text) {
	if given, ok := t.Whole(); ok {
		b.Write(t.s, given)
		return
	}
	for s, given := range t.Runs() {
		b.Write(s, given)
	}
}

// Text is what was written. The builder may go on.
func (b *Builder) Text() Text {
	if len(b.m.cuts) > 0 {
		return Text{b.s.String(), &marks{b.m.given, slices.Clip(b.m.cuts)}}
	}
	return whole(b.s.String(), b.m.given)
}
