package jinja

import (
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// The methods that values have. What would change a list or a dict is missing, as it is in jinja2's immutable sandbox.
var strMethods, listMethods, dictMethods, floatMethods map[string]*builtin

func methodsOf(v Value) map[string]*builtin {
	switch v.(type) {
	case origin.Text:
		return strMethods
	case *List, *Range:
		return listMethods
	case *Dict:
		return dictMethods
	case float64:
		return floatMethods
	}
	return nil
}

func init() {
	// text is a method of a string with the given parameters, those after need being optional.
	text := func(need int, fn func(r *run, s origin.Text, o opts) Value, params ...string) *builtin {
		return &builtin{params: params, need: need, fn: func(r *run, v Value, o opts) Value {
			s := v.(origin.Text)
			r.Step(1 + s.Len()/64)
			return fn(r, s, o)
		}}
	}
	all := func(f func(rune) bool) *builtin {
		return text(0, func(_ *run, s origin.Text, _ opts) Value {
			return s.Len() > 0 && strings.IndexFunc(s.String(), func(c rune) bool { return !f(c) }) < 0
		})
	}
	strip := func(left, right bool) *builtin {
		return text(0, func(r *run, s origin.Text, o opts) Value { return r.strip(s, o.or(0, nil), left, right) }, "chars")
	}
	pad := func(side byte) *builtin {
		return text(1, func(r *run, s origin.Text, o opts) Value {
			fill := r.text(o.or(1, own(" ")), "a width")
			if utf8.RuneCountInString(fill.String()) != 1 {
				r.failf("the fill is not one character")
			}
			return r.pad(s, r.whole(o[0], "a width"), fill.String(), side)
		}, "width", "fillchar")
	}
	find := func(last, must bool) *builtin {
		return text(1, func(r *run, s origin.Text, o opts) Value {
			part, base, ok := r.window(s, o, 1)
			sub, k := r.text(o[0], "find").String(), -1
			if ok && last {
				k = strings.LastIndex(part, sub)
			} else if ok {
				k = strings.Index(part, sub)
			}
			if k < 0 && must {
				r.failf("substring not found")
			} else if k < 0 {
				return -1
			}
			return base + utf8.RuneCountInString(part[:k])
		}, "sub", "start", "end")
	}
	affix := func(has func(s, affix string) bool) *builtin {
		return text(1, func(r *run, s origin.Text, o opts) Value {
			part, _, ok := r.window(s, o, 1)
			list := []Value{o[0]}
			if l, is := o[0].(*List); is && l.Tuple {
				list = l.Items
			}
			for _, x := range list {
				if has(part, r.text(x, "a prefix").String()) && ok {
					return true
				}
			}
			return false
		}, "prefix", "start", "end")
	}
	parts := func(last bool) *builtin {
		return text(1, func(r *run, s origin.Text, o opts) Value {
			sep := r.text(o[0], "partition")
			if sep.Len() == 0 {
				r.failf("empty separator")
			}
			k := strings.Index(s.String(), sep.String())
			if last {
				k = strings.LastIndex(s.String(), sep.String())
			}
			switch {
			case k >= 0:
				return &List{[]Value{s.Slice(0, k), sep, s.Slice(k+sep.Len(), s.Len())}, true}
			case last:
				return &List{[]Value{own(""), own(""), s}, true}
			}
			return &List{[]Value{s, own(""), own("")}, true}
		}, "sep")
	}
	split := func(last bool) *builtin {
		return text(0, func(r *run, s origin.Text, o opts) Value {
			return newList(r.split(s, o.or(0, nil), r.whole(o.or(1, -1), "split"), last))
		}, "sep", "maxsplit")
	}
	strMethods = map[string]*builtin{
		"upper": text(0, func(r *run, s origin.Text, _ opts) Value { return r.upper(s) }),
		"lower": text(0, func(r *run, s origin.Text, _ opts) Value { return r.lower(s) }),
		"casefold": text(0, func(r *run, s origin.Text, _ opts) Value {
			r.Grow(3 * s.Len())
			return s.Map(func(s string) string { return strings.ReplaceAll(lower(s), "ß", "ss") })
		}),
		"capitalize": text(0, func(r *run, s origin.Text, _ opts) Value { return r.capitalize(s) }),
		"title": text(0, func(r *run, s origin.Text, _ opts) Value {
			return r.words(s, title, uncased)
		}),
		"swapcase": text(0, func(r *run, s origin.Text, _ opts) Value {
			r.Grow(3*s.Len() + 4*s.Cuts())
			return s.Map(swapcase)
		}),
		"strip": strip(true, true), "lstrip": strip(true, false), "rstrip": strip(false, true),
		"split": split(false), "rsplit": split(true),
		"splitlines": text(0, func(r *run, s origin.Text, o opts) Value { return newList(r.lines(s, truth(o.or(0, false)))) }, "keepends"),
		"partition":  parts(false), "rpartition": parts(true),
		"join": text(1, func(r *run, s origin.Text, o opts) Value {
			items := r.items(o[0])
			for _, x := range items {
				r.text(x, "join")
			}
			return r.join(items, s)
		}, "iterable"),
		"replace": text(2, func(r *run, s origin.Text, o opts) Value {
			return r.replace(s, r.text(o[0], "replace"), r.text(o[1], "replace"), r.whole(o.or(2, -1), "replace"))
		}, "old", "new", "count"),
		"startswith": affix(strings.HasPrefix), "endswith": affix(strings.HasSuffix),
		"removeprefix": text(1, func(r *run, s origin.Text, o opts) Value {
			if p := r.text(o[0], "removeprefix"); strings.HasPrefix(s.String(), p.String()) {
				return s.Slice(p.Len(), s.Len())
			}
			return s
		}, "prefix"),
		"removesuffix": text(1, func(r *run, s origin.Text, o opts) Value {
			if p := r.text(o[0], "removesuffix"); strings.HasSuffix(s.String(), p.String()) {
				return s.Slice(0, s.Len()-p.Len())
			}
			return s
		}, "suffix"),
		"find": find(false, false), "rfind": find(true, false), "index": find(false, true), "rindex": find(true, true),
		"count": text(1, func(r *run, s origin.Text, o opts) Value {
			part, _, ok := r.window(s, o, 1)
			if !ok {
				return 0
			}
			return strings.Count(part, r.text(o[0], "count").String())
		}, "sub", "start", "end"),
		"center": pad('c'), "ljust": pad('<'), "rjust": pad('>'),
		"zfill": text(1, func(r *run, s origin.Text, o opts) Value {
			n := r.whole(o[0], "zfill")
			if s.Len() > 0 && (s.String()[0] == '-' || s.String()[0] == '+') {
				return origin.Join([]origin.Text{s.Slice(0, 1), r.pad(s.Slice(1, s.Len()), n-1, "0", '>')}, origin.Text{})
			}
			return r.pad(s, n, "0", '>')
		}, "width"),
		"isalpha": all(unicode.IsLetter), "isspace": all(isSpace), "isdecimal": all(unicode.IsDigit),
		"isdigit": all(func(c rune) bool {
			return unicode.IsDigit(c) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", c)
		}),
		"isnumeric": all(unicode.IsNumber),
		"isalnum":   all(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isascii": text(0, func(_ *run, s origin.Text, _ opts) Value {
			return strings.IndexFunc(s.String(), func(c rune) bool { return c > 127 }) < 0
		}),
		"islower": text(0, func(r *run, s origin.Text, _ opts) Value {
			return isCased(s.String()) && r.lower(s).String() == s.String()
		}),
		"isupper": text(0, func(r *run, s origin.Text, _ opts) Value {
			return isCased(s.String()) && r.upper(s).String() == s.String()
		}),
		"istitle": text(0, func(r *run, s origin.Text, _ opts) Value {
			return isCased(s.String()) && r.words(s, title, uncased).String() == s.String()
		}),
		"format": {variadic: true, fn: func(r *run, v Value, o opts) Value { return r.format(v.(origin.Text), o[0].(*args)) }},
	}
	listMethods = map[string]*builtin{
		"count": {params: []string{"value"}, need: 1, fn: func(r *run, v Value, o opts) Value {
			n := 0
			for _, x := range r.items(v) {
				if r.equal(x, o[0]) {
					n++
				}
			}
			return n
		}},
		"index": {params: []string{"value", "start", "stop"}, need: 1, fn: func(r *run, v Value, o opts) Value {
			items := r.items(v)
			from, n, _ := indices([3]*int{r.optional(o, 1), r.optional(o, 2)}, len(items))
			for i, x := range items[from : from+n] {
				if r.equal(x, o[0]) {
					return from + i
				}
			}
			r.failf("the value is not in the list")
			return nil
		}},
		"copy": {fn: func(_ *run, v Value, _ opts) Value { return v }},
	}
	dictMethods = map[string]*builtin{
		"get": {params: []string{"key", "default"}, need: 1, fn: func(r *run, v Value, o opts) Value {
			if x, ok := v.(*Dict).get(r.hashed(o[0])); ok {
				return x
			}
			return o.or(1, nil)
		}},
		"keys":   {fn: func(_ *run, v Value, _ opts) Value { return &view{"keys", v.(*Dict).keys} }},
		"values": {fn: func(_ *run, v Value, _ opts) Value { return &view{"values", v.(*Dict).values} }},
		"items":  {fn: func(r *run, v Value, _ opts) Value { return &view{"items", v.(*Dict).pairs(r)} }},
		"copy":   {fn: func(_ *run, v Value, _ opts) Value { return v }},
	}
	floatMethods = map[string]*builtin{
		"is_integer": {fn: func(_ *run, v Value, _ opts) Value { f := v.(float64); return f == math.Trunc(f) && !math.IsInf(f, 0) }},
	}
}

func (d *Dict) pairs(r *run) []Value {
	out := r.list(2 * len(d.keys))
	for i, k := range d.keys {
		out = append(out, &List{[]Value{k, d.values[i]}, true})
	}
	return out
}

// optional is a whole number, or nil.
func (r *run) optional(o opts, i int) *int {
	v := o.or(i, nil)
	if v == nil {
		return nil
	}
	n := r.whole(v, "a place")
	return &n
}

// window is the part of s between the places that o tells from its ith argument on, and the number of its first character. Where they are
// beyond the end nothing is found, not even nothing.
func (r *run) window(s origin.Text, o opts, i int) (part string, base int, ok bool) {
	from, to := r.optional(o, i), r.optional(o, i+1)
	if from == nil && to == nil {
		return s.String(), 0, true
	}
	n := r.length(s)
	if from != nil && *from > n {
		return "", 0, false
	}
	base, count, _ := indices([3]*int{from, to}, n)
	if count == 0 && from != nil {
		base = *from
		if base < 0 {
			base = max(0, base+n)
		}
		end := n
		if to != nil {
			if end = *to; end < 0 {
				end += n
			}
		}
		if base > end {
			return "", 0, false
		}
	}
	start := runeAt(s.String(), base)
	return s.String()[start : start+runeAt(s.String()[start:], count)], base, true
}

// mapped changes each stretch of a text by itself.
func (r *run) mapped(s origin.Text, f func(string) string) origin.Text {
	r.Grow(2*s.Len() + 4*s.Cuts())
	return s.Map(f)
}

func (r *run) upper(s origin.Text) origin.Text { return r.mapped(s, upper) }
func (r *run) lower(s origin.Text) origin.Text { return r.mapped(s, lower) }

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

// swapcase makes what is small a capital and the other way round. How the Greek sigma is written small depends on what stands round it, so
// what is small is taken out of the whole text's.
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

// uncased reports whether a character is neither capital nor small: after one, str.title begins a word.
func uncased(c rune) bool {
	return !unicode.In(c, unicode.Upper, unicode.Lower, unicode.Title, unicode.Other_Uppercase, unicode.Other_Lowercase)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// capitalize makes the first character a capital and the others small.
func (r *run) capitalize(s origin.Text) origin.Text {
	first := true
	return r.cased(s, title, func(rune) bool {
		was := first
		first = false
		return was
	})
}

// words makes the first character of each word a capital and the others small.
func (r *run) words(s origin.Text, capital func(string) string, between func(rune) bool) origin.Text {
	begins := true
	return r.cased(s, capital, func(c rune) bool {
		was := begins && !between(c)
		begins = between(c)
		return was
	})
}

func (r *run) cased(s origin.Text, capital func(string) string, is func(rune) bool) origin.Text {
	r.Grow(3*s.Len() + 4*s.Cuts())
	var b origin.Builder
	for run, given := range s.Runs() {
		for from := 0; from < len(run); {
			to := from
			var change func(string) string
			for to < len(run) { // what is small goes in one piece, for the Greek sigma's sake
				c, n := utf8.DecodeRuneInString(run[to:])
				if is(c) {
					b.Write(lower(run[from:to]), given)
					from, to, change = to, to+n, capital
					break
				}
				to += n
			}
			if change == nil {
				change = lower
			}
			b.Write(change(run[from:to]), given)
			from = to
		}
	}
	return b.Text()
}

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
