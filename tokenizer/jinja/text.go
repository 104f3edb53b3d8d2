package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// strip takes characters off the ends: white space where chars is nil.
func (r *run) strip(s origin.Text, chars Value, left, right bool) origin.Text {
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
		return r.between(s, with, n)
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

// between puts with before each character, and at the end.
func (r *run) between(s, with origin.Text, n int) origin.Text {
	k := r.length(s) + 1
	if n >= 0 {
		k = min(k, n)
	}
	r.growBy(s.Len(), k, with.Len()+4*with.Cuts()+8)
	var b origin.Builder
	at := 0
	for ; k > 0; k-- {
		b.Add(with)
		_, size := utf8.DecodeRuneInString(s.String()[at:])
		b.Add(s.Slice(at, at+size))
		at += size
	}
	b.Add(s.Slice(at, s.Len()))
	return b.Text()
}

// pad makes s n characters wide; side is where s stays.
func (r *run) pad(s origin.Text, n int, fill string, side byte) origin.Text {
	more := n - r.length(s)
	if more <= 0 {
		return s
	}
	r.growBy(s.Len(), more, len(fill))
	left, right := 0, more
	switch side {
	case '>':
		left, right = more, 0
	case '^':
		left, right = more/2, more-more/2
	case 'c':
		left = more/2 + more&n&1 // as Python's center rounds, and its format does not
		right = more - left
	}
	var b origin.Builder
	b.Write(strings.Repeat(fill, left), false)
	b.Add(s)
	b.Write(strings.Repeat(fill, right), false)
	return b.Text()
}

// split cuts s at most n times, where n is not negative, from the left or from the right.
func (r *run) split(s origin.Text, sep Value, n int, last bool) []Value {
	str := s.String()
	from, to := 0, len(str)
	var next func(s string) (from, to int) // where s is cut next; from < 0: nowhere
	if sep == nil {
		next = func(s string) (int, int) { return spaceIn(s, last) }
		from = to - len(strings.TrimLeftFunc(str, isSpace))
		if to = len(strings.TrimRightFunc(str, isSpace)); from >= to {
			return nil
		}
	} else {
		cut, index := r.text(sep, "split").String(), strings.Index
		if cut == "" {
			r.failf("empty separator")
		}
		if last {
			index = strings.LastIndex
		}
		next = func(s string) (int, int) { k := index(s, cut); return k, k + len(cut) }
	}
	var cuts [][2]int // what lies between the parts
	for at, end := from, to; ; {
		if n >= 0 && len(cuts) == n {
			if sep == nil && last { // what is left keeps the white space at its end of the text
				from = 0
			} else if sep == nil {
				to = len(str)
			}
			break
		}
		a, b := next(str[at:end])
		if a < 0 {
			break
		}
		r.Grow(2 * itemBytes)
		cuts = append(cuts, [2]int{at + a, at + b})
		if last {
			end = at + a
		} else {
			at += b
		}
	}
	if last {
		slices.Reverse(cuts)
	}
	out := r.list(len(cuts) + 1)
	for _, c := range cuts {
		out = append(out, s.Slice(from, c[0]))
		from = c[1]
	}
	return append(out, s.Slice(from, to))
}

// spaceIn is where the first or the last stretch of white space in s begins and ends.
func spaceIn(s string, last bool) (from, to int) {
	if last {
		head := strings.TrimRightFunc(s, func(c rune) bool { return !isSpace(c) })
		if head == "" {
			return -1, 0
		}
		return len(strings.TrimRightFunc(head, isSpace)), len(head)
	}
	from = strings.IndexFunc(s, isSpace)
	if from < 0 {
		return -1, 0
	}
	return from, len(s) - len(strings.TrimLeftFunc(s[from:], isSpace))
}

// lines is Python's splitlines.
func (r *run) lines(s origin.Text, keep bool) []Value {
	str := s.String()
	var out []Value
	for from := 0; from < len(str); {
		k := strings.IndexFunc(str[from:], isLineEnd)
		end, next := len(str), len(str)
		if k >= 0 {
			end = from + k
			_, size := utf8.DecodeRuneInString(str[end:])
			if next = end + size; strings.HasPrefix(str[end:], "\r\n") {
				next = end + 2
			}
		}
		if keep {
			end = next
		}
		r.Grow(itemBytes)
		out = append(out, s.Slice(from, end))
		from = next
	}
	return out
}

func isLineEnd(c rune) bool {
	return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
}
