package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// errRange is a range, or a width, that nobody needs.
var errRange = fmt.Errorf("%w: it counts further than %d", origin.ErrBudget, maxRange)

// spec is how a value is to be formatted, for % and for str.format.
type spec struct {
	fill                string
	align, sign         byte
	alt, zero, thousand bool
	width, prec         int // prec < 0: not told
	verb                byte
}

// formatReader reads a format from left to right.
type formatReader struct {
	s  string
	at int
}

// to goes to the first byte of set, or to the end; it reports whether there is one.
func (f *formatReader) to(set string) bool {
	k := strings.IndexAny(f.s[f.at:], set)
	if k < 0 {
		f.at = len(f.s)
		return false
	}
	f.at += k
	return true
}

// one goes over a byte of set, and returns it; 0 if none is next.
func (f *formatReader) one(set string) byte {
	if f.at == len(f.s) || strings.IndexByte(set, f.s[f.at]) < 0 {
		return 0
	}
	f.at++
	return f.s[f.at-1]
}

// size reads a width or a precision.
func (f *formatReader) size() int {
	n := 0
	for c := f.one(digits); c != 0; c = f.one(digits) {
		n = min(10*n+int(c-'0'), origin.MaxText+1)
	}
	return n
}

const digits = "0123456789"

// percent is Python's s % v.
func (r *run) percent(s origin.Text, v Value) Value {
	list, isList := v.(*List)
	byPlace := []Value{v}
	if isList && list.Tuple {
		byPlace = list.Items
	}
	dict, isDict := v.(*Dict)
	used := 0
	next := func() Value {
		if used >= len(byPlace) {
			r.failf("not enough arguments for format string")
		}
		used++
		return byPlace[used-1]
	}
	var b origin.Builder
	for in := (formatReader{s: s.String()}); ; {
		from := in.at
		more := in.to("%")
		r.Grow(in.at - from)
		b.Add(s.Slice(from, in.at))
		if !more {
			break
		}
		in.at++
		value := next
		if in.one("(") != 0 {
			key, _, closed := strings.Cut(in.s[in.at:], ")")
			if !closed || !isDict {
				r.failf("format requires a mapping")
			}
			x, ok := dict.Get(key)
			if !ok {
				r.failf("there is no key %q", key)
			}
			value = func() Value { return x }
			in.at += len(key) + 1
		}
		f := spec{fill: " ", align: '>', prec: -1}
		for flag := in.one("-+ #0"); flag != 0; flag = in.one("-+ #0") {
			switch flag {
			case '-':
				f.align = '<'
			case '+':
				f.sign = '+'
			case ' ':
				f.sign = max(f.sign, ' ')
			case '#':
				f.alt = true
			case '0':
				f.zero = true
			}
		}
		size := func() int {
			if in.one("*") != 0 {
				return r.whole(next(), "a width")
			}
			return in.size()
		}
		if f.width = size(); f.width < 0 {
			f.width, f.align = -f.width, '<'
		}
		if in.one(".") != 0 {
			f.prec = max(0, size())
		}
		if in.at == len(in.s) {
			r.failf("incomplete format")
		}
		f.verb = in.s[in.at]
		in.at++
		if f.verb == '%' {
			b.Write("%", false)
			continue
		}
		b.Add(r.verb(f, value()))
	}
	_, isRange := v.(*Range)
	if used < len(byPlace) && !isDict && !isRange && (!isList || list.Tuple) {
		r.failf("not all arguments converted during string formatting")
	}
	return b.Text()
}

// verb formats one value for %.
func (r *run) verb(f spec, v Value) origin.Text {
	switch f.verb {
	case 's':
		return r.padded(f, r.str(v))
	case 'r', 'a':
		return r.padded(f, r.reprText(v))
	case 'c':
		if n, ok := whole(v); ok {
			return r.padded(f, origin.Given(string(rune(n))))
		}
		t := r.text(v, "%c")
		if utf8.RuneCountInString(t.String()) != 1 {
			r.failf("%%c requires one character")
		}
		return r.padded(f, t)
	case 'd', 'i', 'u', 'x', 'X', 'o':
		i, x, isFloat, ok := number(v)
		if !ok || isFloat && bases[f.verb].base != 10 {
			r.failf("%%%c format: a whole number is required, not %s", f.verb, typeName(v))
		}
		if isFloat {
			i = r.truncated(x)
		}
		return r.integer(f, i)
	case 'f', 'F', 'e', 'E', 'g', 'G':
		_, x, _, ok := number(v)
		if !ok {
			r.failf("must be real number, not %s", typeName(v))
		}
		return r.float(f, x)
	}
	r.failf("unsupported format character %q", f.verb)
	return origin.Text{}
}

// bases are those of the verbs that write whole numbers, and what # puts before them.
var bases = map[byte]struct {
	base   int
	prefix string
}{0: {10, ""}, 'd': {10, ""}, 'i': {10, ""}, 'u': {10, ""}, 'n': {10, ""}, 'b': {2, "0b"}, 'o': {8, "0o"}, 'x': {16, "0x"}, 'X': {16, "0x"}}

func (r *run) integer(f spec, i int) origin.Text {
	b := bases[f.verb]
	s := strconv.FormatInt(int64(i), b.base)
	if f.alt {
		s = strings.Replace(b.prefix+s, b.prefix+"-", "-"+b.prefix, 1)
	}
	if f.verb == 'X' {
		s = strings.ToUpper(s)
	}
	return r.digits(f, s)
}

// maxPrec is more digits than any number has.
const maxPrec = 400

func (r *run) float(f spec, x float64) origin.Text {
	prec := f.prec
	if prec < 0 {
		prec = 6
	}
	if prec > maxPrec {
		r.failf("a precision of %d", prec)
	}
	var s string
	if f.verb|0x20 != 'g' {
		s = strconv.FormatFloat(x, f.verb|0x20, prec, 64)
	} else {
		prec = max(prec, 1)
		s = strconv.FormatFloat(x, 'e', prec-1, 64)
		mantissa, e, hasExp := strings.Cut(s, "e")
		if exp, _ := strconv.Atoi(e); hasExp && exp >= -4 && exp < prec {
			s = strconv.FormatFloat(x, 'f', prec-1-exp, 64)
			mantissa, hasExp = s, false
		}
		if !f.alt && strings.Contains(mantissa, ".") {
			if s = strings.TrimRight(strings.TrimRight(mantissa, "0"), "."); hasExp {
				s += "e" + e
			}
		}
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		s, f.zero = strings.TrimPrefix(strings.ToLower(s), "+"), false
	}
	if f.verb < 'a' {
		s = strings.ToUpper(s)
	}
	f.prec = -1
	return r.digits(f, s)
}

// digits formats a number that is written out: sign, thousands, leading zeros, width.
func (r *run) digits(f spec, s string) origin.Text {
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	} else if f.sign == '+' || f.sign == ' ' {
		sign = string(f.sign)
	}
	if f.prec > len(s) {
		r.growBy(0, f.prec, 1)
		s = strings.Repeat("0", f.prec-len(s)) + s
	}
	if f.thousand {
		whole, rest := s, ""
		if k := strings.IndexAny(s, ".e"); k >= 0 {
			whole, rest = s[:k], s[k:]
		}
		for k := len(whole) - 3; k > 0; k -= 3 {
			whole = whole[:k] + "," + whole[k:]
		}
		s = whole + rest
	}
	if n := f.width - len(sign) - len(s); n > 0 && (f.zero && f.align != '<' || f.align == '=') {
		r.growBy(0, n, 1)
		fill := "0"
		if !f.zero {
			fill = f.fill
		}
		s = strings.Repeat(fill, n) + s
	}
	f.prec = -1
	return r.padded(f, origin.Given(sign+s))
}

func (r *run) padded(f spec, s origin.Text) origin.Text {
	if f.prec >= 0 {
		s = r.slice(s, [3]*int{1: &f.prec}).(origin.Text)
	}
	r.Grow(s.Len() + 4*s.Cuts())
	return r.pad(s, f.width, f.fill, f.align)
}

// formatter is one s.format(…): its arguments, and which of them stands for the next place without a number.
type formatter struct {
	*run
	*args
	next   int
	byHand bool // places have numbers
}

// format is Python's s.format(…).
func (r *formatter) format(s origin.Text) origin.Text {
	defer r.Deeper()()
	var b origin.Builder
	for in := (formatReader{s: s.String()}); ; {
		from := in.at
		more := in.to("{}")
		r.Grow(in.at - from)
		b.Add(s.Slice(from, in.at))
		if !more {
			break
		}
		brace := in.one("{}")
		if in.one(string(brace)) != 0 { // {{ or }}
			b.Add(s.Slice(in.at-1, in.at))
			continue
		}
		if brace == '}' {
			r.failf("single '}' encountered in format string")
		}
		from = in.at
		for depth := 1; depth > 0; {
			if !in.to("{}") {
				r.failf("expected '}' before end of string")
			}
			if in.one("{}") == '{' {
				depth++
			} else {
				depth--
			}
		}
		field, how, _ := strings.Cut(in.s[from:in.at-1], ":")
		field, conv, has := strings.Cut(field, "!")
		v := r.field(field)
		if strings.Contains(how, "{") {
			how = r.format(origin.Given(how)).String()
		}
		switch {
		case !has:
		case conv == "s":
			v = r.str(v)
		case conv == "r" || conv == "a":
			v = r.reprText(v)
		default:
			r.failf("unknown conversion %q", conv)
		}
		out := r.formatted(v, how)
		r.Fits(b.Len() + out.Len())
		b.Add(out)
	}
	return b.Text()
}

// field finds what stands between braces: a place or a name, and what is behind it.
func (r *formatter) field(field string) Value {
	k := strings.IndexAny(field, ".[")
	if k < 0 {
		k = len(field)
	}
	name, rest := field[:k], field[k:]
	var v Value
	n, err := strconv.Atoi(name)
	switch {
	case name == "":
		if r.byHand {
			r.failf("cannot switch from manual field specification to automatic field numbering")
		}
		n, err = r.next, nil
		r.next++
	case err == nil:
		if r.byHand = true; r.next > 0 {
			r.failf("cannot switch from automatic field numbering to manual field specification")
		}
	}
	if err == nil {
		if n < 0 || n >= len(r.pos) {
			r.failf("replacement index %d out of range", n)
		}
		v = r.pos[n]
	} else {
		i := slices.Index(r.names, name)
		if i < 0 {
			r.failf("there is no argument %q", name)
		}
		v = r.named[i]
	}
	for rest != "" {
		r.Step(1)
		if rest[0] == '.' {
			k := strings.IndexAny(rest[1:], ".[")
			if k < 0 {
				k = len(rest) - 1
			}
			v, rest = r.attribute(v, rest[1:1+k]), rest[1+k:]
			continue
		}
		end := strings.IndexByte(rest, ']')
		if rest[0] != '[' || end < 0 {
			r.failf("missing ']' in format string")
		}
		var key Value = own(rest[1:end])
		if n, err := strconv.Atoi(rest[1:end]); err == nil {
			key = n
		}
		v, rest = r.item(v, key), rest[end+1:]
	}
	return v
}

// formatted is Python's format(v, how).
func (r *run) formatted(v Value, how string) origin.Text {
	if how == "" {
		return r.str(v)
	}
	f := spec{fill: " ", prec: -1}
	if _, n := utf8.DecodeRuneInString(how); n < len(how) && strings.IndexByte("<>^=", how[n]) >= 0 {
		f.fill, f.align, how = how[:n], how[n], how[n+1:]
	} else if strings.IndexByte("<>^=", how[0]) >= 0 {
		f.align, how = how[0], how[1:]
	}
	in := formatReader{s: how}
	f.sign = in.one("+- ")
	f.alt = in.one("#") != 0
	if f.zero = in.one("0") != 0; f.zero && f.align != 0 {
		f.zero = false
		if f.fill == " " {
			f.fill = "0"
		}
	}
	f.width = in.size()
	f.thousand = in.one(",") != 0
	if in.one(".") != 0 {
		f.prec = in.size()
	}
	f.verb = in.one("bcdeEfFgGnosxX%")
	if in.at < len(how) {
		r.failf("invalid format specifier")
	}
	i, x, isFloat, isNumber := number(v)
	if _, isBool := v.(bool); isBool && f.verb == 0 {
		isNumber = false
		v = r.str(v)
	}
	if !isNumber {
		t, ok := v.(origin.Text)
		if !ok || f.sign != 0 || f.thousand || f.align == '=' || f.verb != 0 && f.verb != 's' {
			r.failf("this format does not go with %s", typeName(v))
		}
		if f.zero {
			f.fill = "0"
		}
		if f.align == 0 {
			f.align = '<'
		}
		return r.padded(f, t)
	}
	if f.align == 0 {
		f.align = '>'
	}
	switch {
	case f.verb == '%':
		f.verb = 'f'
		t := r.float(spec{prec: f.prec, verb: 'f', sign: f.sign, thousand: f.thousand, align: '>', fill: " "}, x*100).String() + "%"
		return r.pad(origin.Given(t), f.width, f.fill, f.align)
	case strings.IndexByte("eEfFgG", f.verb) >= 0 && f.verb != 0:
		return r.float(f, x)
	case isFloat && f.verb == 0 && f.prec < 0:
		return r.digits(f, formatFloat(x))
	case isFloat && (f.verb == 0 || f.verb == 'n'):
		f.verb = 'g'
		return r.float(f, x)
	case isFloat || f.prec >= 0:
		r.failf("this format does not go with %s", typeName(v))
	case f.verb == 'c':
		return r.padded(f, origin.Given(string(rune(i))))
	}
	if _, ok := bases[f.verb]; !ok {
		r.failf("this format does not go with %s", typeName(v))
	}
	return r.integer(f, i)
}
