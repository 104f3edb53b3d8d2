package jinja

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// errRange is a range, or a width, beyond all need.
var errRange = fmt.Errorf("%w: it counts further than %d", origin.ErrBudget, maxRange)

// spec is how a value is to be formatted, for % and for str.format.
type spec struct {
	fill                string
	align, sign         byte
	alt, zero, thousand bool
	width, prec         int // prec < 0: not told
	verb                byte
}

// percentForm is a verb of s % v: the key in brackets, flags, width, precision, and the letter.
var percentForm = regexp.MustCompile(`^%(\([^)]*\))?([-+ #0]*)(\*|[0-9]*)(\.\*|\.[0-9]*|)[hlL]?(.?)`)

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
	size := func(s string) int {
		if s == "*" {
			return r.whole(next(), "a width")
		}
		return atoi(s)
	}
	var b origin.Builder
	for at := 0; at < s.Len(); {
		r.Step(1)
		rest := s.String()[at:]
		if plain, _, _ := strings.Cut(rest, "%"); plain != "" {
			r.Grow(len(plain))
			b.Add(s.Slice(at, at+len(plain)))
			at += len(plain)
			continue
		}
		m := percentForm.FindStringSubmatch(rest)
		at += len(m[0])
		key, flags, width, prec, verb := m[1], m[2], m[3], m[4], m[5]
		value := next
		if key != "" {
			if !isDict {
				r.failf("format requires a mapping")
			}
			x, ok := dict.Get(key[1 : len(key)-1])
			if !ok {
				r.failf("there is no key %q", key)
			}
			value = func() Value { return x }
		}
		f := spec{fill: " ", align: '>', prec: -1, alt: strings.Contains(flags, "#"), zero: strings.Contains(flags, "0")}
		if strings.Contains(flags, "-") {
			f.align = '<'
		}
		if strings.Contains(flags, "+") {
			f.sign = '+'
		} else if strings.Contains(flags, " ") {
			f.sign = ' '
		}
		if f.width = size(width); f.width < 0 {
			f.width, f.align = -f.width, '<'
		}
		if prec != "" {
			f.prec = max(0, size(prec[1:]))
		}
		switch verb {
		case "":
			r.failf("incomplete format")
		case "%":
			b.Write("%", false)
		default:
			f.verb = verb[0]
			b.Add(r.verb(f, value()))
		}
	}
	_, isRange := v.(*Range)
	if used < len(byPlace) && !isDict && !isRange && (!isList || list.Tuple) {
		r.failf("not all arguments converted during string formatting")
	}
	return b.Text()
}

// atoi reads digits; a number that nothing has room for is as good as a larger one.
func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil && s != "" {
		return origin.MaxText + 1
	}
	return min(n, origin.MaxText+1)
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

// formatter is one s.format(…): its arguments, and which of them stands for the next place without
// a number.
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
	str := s.String()
	for at := 0; at < len(str); {
		r.Step(1)
		k := strings.IndexAny(str[at:], "{}")
		if k < 0 {
			k = len(str) - at
		}
		r.Grow(k)
		b.Add(s.Slice(at, at+k))
		if at += k; at == len(str) {
			break
		}
		if strings.HasPrefix(str[at+1:], str[at:at+1]) { // {{ or }}
			b.Add(s.Slice(at, at+1))
			at += 2
			continue
		}
		if str[at] == '}' {
			r.failf("single '}' encountered in format string")
		}
		end := at + 1
		for depth := 1; depth > 0; end++ {
			k := strings.IndexAny(str[end:], "{}")
			if k < 0 {
				r.failf("expected '}' before end of string")
			}
			if end += k; str[end] == '{' {
				depth++
			} else {
				depth--
			}
		}
		field, how, _ := strings.Cut(str[at+1:end-1], ":")
		field, conv, has := strings.Cut(field, "!")
		at = end
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

// specForm is what follows the colon in braces: fill and align, sign, #, 0, width, comma,
// precision, and the letter.
var specForm = regexp.MustCompile(`^(?s:(.?)([<>^=]))?([-+ ]?)(#?)(0?)([0-9]*)(,?)(\.[0-9]+)?([bcdeEfFgGnosxX%]?)$`)

// formatted is Python's format(v, how).
func (r *run) formatted(v Value, how string) origin.Text {
	if how == "" {
		return r.str(v)
	}
	m := specForm.FindStringSubmatch(how)
	if m == nil {
		r.failf("invalid format specifier")
	}
	letter := func(s string) byte { return (s + "\x00")[0] }
	f := spec{fill: cmp.Or(m[1], " "), align: letter(m[2]), sign: letter(m[3]), alt: m[4] != "", zero: m[5] != "", width: atoi(m[6]),
		thousand: m[7] != "", prec: -1, verb: letter(m[9])}
	if m[8] != "" {
		f.prec = atoi(m[8][1:])
	}
	if f.zero && f.align != 0 {
		f.zero = false
		if f.fill == " " {
			f.fill = "0"
		}
	}
	i, x, isFloat, isNumber := number(v)
	if _, isBool := v.(bool); isBool && f.verb == 0 {
		isNumber = false
		v = r.str(v)
	}
	if !isNumber {
		return r.formattedText(v, f)
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

// formattedText is formatted for what is no number.
func (r *run) formattedText(v Value, f spec) origin.Text {
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
