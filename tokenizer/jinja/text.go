package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// strip takes characters off the ends: white space where chars is nil.
func (r *run) strip(s origin.Text, chars Value, left, right bool) origin.Text {
	r.Step(1 + s.Len()/64)
	is := isSpace
	if chars != nil {
		set := r.text(chars, "strip").String()
		r.Step(1 + s.Len()*len(set)/256)
		is = func(c rune) bool { return strings.ContainsRune(set, c) }
	}
	from, to := 0, s.Len()
	if left {
		from = to - len(strings.TrimLeftFunc(s.String(), is))
	}
	if right {
		to = from + len(strings.TrimRightFunc(s.String()[from:], is))
	}
	return s.Slice(from, to)
}

func (r *run) join(texts []Value, sep origin.Text) origin.Text {
	n := 0
	for _, x := range texts {
		t := x.(origin.Text)
		n += t.Len() + sep.Len() + 4*(t.Cuts()+sep.Cuts())
		r.Fits(n)
	}
	r.Grow(n)
	r.Step(len(texts))
	var b origin.Builder
	for i, x := range texts {
		if i > 0 {
			b.Add(sep)
		}
		b.Add(x.(origin.Text))
	}
	return b.Text()
}

func (r *run) replace(s, old, with origin.Text, n int) origin.Text {
	if old.Len() == 0 {
		r.failf("replacing an empty text is not supported")
	}
	k := strings.Count(s.String(), old.String())
	if n >= 0 {
		k = min(k, n)
	}
	if k == 0 {
		return s
	}
	r.Step(k)
	r.growBy(s.Len(), k, with.Len()-old.Len()+4*with.Cuts()+8)
	return s.Replace(old.String(), with, n)
}

// growBy asks for a text of n bytes with k more of size each.
func (r *run) growBy(n, k, size int) {
	if size > 0 && k > 2*origin.MaxText/size {
		r.Grow(origin.MaxText + 1)
	}
	r.Grow(max(0, n+k*max(size, 0)))
}

// split cuts s at most n times, where n is not negative: at sep, or at white space where sep is
// nil.
func (r *run) split(s origin.Text, sep Value, n int) []Value {
	str, at := s.String(), 0
	next := func(rest string) (from, to int) { // where it is cut next; from < 0: nowhere
		from = strings.IndexFunc(rest, isSpace)
		return from, len(rest) - len(strings.TrimLeftFunc(rest[max(from, 0):], isSpace))
	}
	if sep == nil {
		at = len(str) - len(strings.TrimLeftFunc(str, isSpace))
	} else {
		cut := r.separator(sep)
		next = func(rest string) (int, int) { k := strings.Index(rest, cut); return k, k + len(cut) }
	}
	var out []Value
	for sep != nil || at < len(str) {
		from, to := next(str[at:])
		if from < 0 || len(out) == n {
			return append(out, s.Slice(at, len(str)))
		}
		r.Grow(2 * itemBytes)
		out = append(out, s.Slice(at, at+from))
		at += to
	}
	return out
}

// splitLast cuts s at most n times, where n is not negative, from its end.
func (r *run) splitLast(s origin.Text, sep Value, n int) []Value {
	cut, end := r.separator(sep), s.Len()
	var out []Value
	for len(out) != n {
		k := strings.LastIndex(s.String()[:end], cut)
		if k < 0 {
			break
		}
		r.Grow(2 * itemBytes)
		out = append(out, s.Slice(k+len(cut), end))
		end = k
	}
	out = append(out, s.Slice(0, end))
	slices.Reverse(out)
	return out
}

func (r *run) separator(sep Value) string {
	cut := r.text(sep, "split").String()
	if cut == "" {
		r.failf("empty separator")
	}
	return cut
}

// lines is Python's splitlines.
func (r *run) lines(s origin.Text) []Value {
	str := s.String()
	var out []Value
	for from := 0; from < len(str); {
		k := strings.IndexFunc(str[from:], isLineEnd)
		if k < 0 {
			k = len(str) - from
		}
		end := from + k
		_, size := utf8.DecodeRuneInString(str[end:])
		if strings.HasPrefix(str[end:], "\r\n") {
			size = 2
		}
		r.Grow(itemBytes)
		out = append(out, s.Slice(from, end))
		from = end + size
	}
	return out
}

func isLineEnd(c rune) bool {
	return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
}
