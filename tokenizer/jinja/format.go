package jinja

import (
	"fmt"
	"math"
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

// percent is Python's s % v.
func (r *run) percent(s origin.Text, v Value) Value {
	format := s.String()
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
	for at := 0; at < len(format); {
		k := strings.IndexByte(format[at:], '%')
		if k < 0 {
			k = len(format) - at
		}
		r.grow(k)
		b.Add(s.Slice(at, at+k))
		if at += k + 1; at > len(format) {
			break
		}
		f := spec{fill: " ", align: '>', prec: -1}
		var named Value
		mapped := false
		if at < len(format) && format[at] == '(' {
			end := strings.IndexByte(format[at:], ')')
			if end < 0 || !isDict {
				r.failf("format requires a mapping")
			}
			key := format[at+1 : at+end]
			x, ok := dict.Get(key)
			if !ok {
				r.failf("there is no key %q", key)
			}
			named, mapped = x, true
			at += end + 1
		}
		for ; at < len(format) && strings.IndexByte("-+ #0", format[at]) >= 0; at++ {
			switch format[at] {
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
			if at < len(format) && format[at] == '*' {
				at++
				return r.whole(next(), "a width")
			}
			n := 0
			for ; at < len(format) && format[at] >= '0' && format[at] <= '9'; at++ {
				n = min(10*n+int(format[at]-'0'), origin.MaxText+1)
			}
			return n
		}
		if f.width = size(); f.width < 0 {
			f.width, f.align = -f.width, '<'
		}
		if at < len(format) && format[at] == '.' {
			at++
			f.prec = max(0, size())
		}
		if at >= len(format) {
			r.failf("incomplete format")
		}
		f.verb = format[at]
		at++
		if f.verb == '%' {
			b.Write("%", false)
			continue
		}
		x := named
		if !mapped {
			x = next()
		}
		b.Add(r.verb(f, x))
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
		var b strings.Builder
		r.repr(&b, v)
		return r.padded(f, origin.Given(b.String()))
	case 'c':
		if n, ok := whole(v); ok {
			return r.padded(f, origin.Given(string(rune(n))))
		}
		t := r.text(v, "%c")
		if utf8.RuneCountInString(t.String()) != 1 {
			r.failf("%%c requires one character")
		}
		return r.padded(f, t)
	case 'd', 'i', 'u':
		i, x, isFloat, ok := number(v)
		if !ok {
			r.failf("%%%c format: a number is required, not %s", f.verb, typeName(v))
		}
		if isFloat {
			i = int(x)
		}
		return r.digits(f, strconv.Itoa(i))
	case 'x', 'X', 'o':
		i, ok := whole(v)
		if !ok {
			r.failf("%%%c format: an integer is required, not %s", f.verb, typeName(v))
		}
		base, prefix := 16, "0x"
		if f.verb == 'o' {
			base, prefix = 8, "0o"
		}
		s := strconv.FormatInt(int64(i), base)
		if f.alt {
			s = strings.Replace(prefix+s, prefix+"-", "-"+prefix, 1)
		}
		if f.verb == 'X' {
			s = strings.ToUpper(s)
		}
		return r.digits(f, s)
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
	switch f.verb | 0x20 {
	case 'g':
		prec = max(prec, 1)
		s = strconv.FormatFloat(x, 'e', prec-1, 64)
		if k := strings.IndexByte(s, 'e'); k >= 0 {
			exp, _ := strconv.Atoi(s[k+1:])
			if exp >= -4 && exp < prec {
				s = strconv.FormatFloat(x, 'f', prec-1-exp, 64)
			}
			if !f.alt {
				mantissa, e, _ := strings.Cut(s, "e")
				if strings.Contains(mantissa, ".") {
					mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
				}
				if s = mantissa; e != "" {
					s += "e" + e
				}
			}
		}
	default:
		s = strconv.FormatFloat(x, f.verb|0x20, prec, 64)
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
		r.fits(0, f.prec, 1)
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
		r.fits(0, n, 1)
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
	r.grow(s.Len() + 4*s.Cuts())
	return r.pad(s, f.width, f.fill, f.align)
}

// format is Python's s.format(…).
func (r *run) format(s origin.Text, a *args) Value {
	defer r.deeper()()
	var b origin.Builder
	auto, byHand := 0, false
	str := s.String()
	for at := 0; at < len(str); {
		k := strings.IndexAny(str[at:], "{}")
		if k < 0 {
			k = len(str) - at
		}
		r.grow(k)
		b.Add(s.Slice(at, at+k))
		if at += k; at >= len(str) {
			break
		}
		c := str[at]
		if at++; at < len(str) && str[at] == c { // {{ or }}
			b.Add(s.Slice(at, at+1))
			at++
			continue
		}
		if c == '}' {
			r.failf("single '}' encountered in format string")
		}
		depth, end := 1, at
		for ; end < len(str); end++ {
			if str[end] == '{' {
				depth++
			} else if str[end] == '}' {
				if depth--; depth == 0 {
					break
				}
			}
		}
		if end >= len(str) {
			r.failf("expected '}' before end of string")
		}
		field := str[at:end]
		at = end + 1
		field, how, _ := strings.Cut(field, ":")
		field, conv, has := strings.Cut(field, "!")
		if strings.Contains(how, "{") {
			how = r.format(origin.Given(how), a).(origin.Text).String()
		}
		v := r.field(field, a, &auto, &byHand)
		var x Value = v
		switch {
		case !has:
		case conv == "s":
			x = r.str(v)
		case conv == "r" || conv == "a":
			var w strings.Builder
			r.repr(&w, v)
			x = origin.Given(w.String())
		default:
			r.failf("unknown conversion %q", conv)
		}
		out := r.formatted(x, how)
		if b.Len()+out.Len() > origin.MaxText {
			r.grow(origin.MaxText + 1)
		}
		b.Add(out)
	}
	return b.Text()
}

// field finds what stands between braces: a place or a name, and what is behind it.
func (r *run) field(field string, a *args, auto *int, byHand *bool) Value {
	k := strings.IndexAny(field, ".[")
	if k < 0 {
		k = len(field)
	}
	name, rest := field[:k], field[k:]
	var v Value
	n, err := strconv.Atoi(name)
	switch {
	case name == "":
		if *byHand {
			r.failf("cannot switch from manual field specification to automatic field numbering")
		}
		n, err = *auto, nil
		*auto++
	case err == nil:
		if *byHand = true; *auto > 0 {
			r.failf("cannot switch from automatic field numbering to manual field specification")
		}
	}
	if err == nil {
		if n < 0 || n >= len(a.pos) {
			r.failf("replacement index %d out of range", n)
		}
		v = a.pos[n]
	} else {
		found := false
		for i, have := range a.names {
			if have == name {
				v, found = a.named[i], true
			}
		}
		if !found {
			r.failf("there is no argument %q", name)
		}
	}
	for rest != "" {
		r.step(1)
		if rest[0] == '.' {
			k := strings.IndexAny(rest[1:], ".[")
			if k < 0 {
				k = len(rest) - 1
			}
			v, rest = (&attrExpr{x: &literal{v}, name: rest[1 : 1+k], line: r.line}).eval(r), rest[1+k:]
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
	skip := func(set string) byte {
		if how == "" || strings.IndexByte(set, how[0]) < 0 {
			return 0
		}
		c := how[0]
		how = how[1:]
		return c
	}
	size := func() int {
		n := 0
		for ; how != "" && how[0] >= '0' && how[0] <= '9'; how = how[1:] {
			n = min(10*n+int(how[0]-'0'), origin.MaxText+1)
		}
		return n
	}
	f.sign = skip("+- ")
	f.alt = skip("#") != 0
	if f.zero = skip("0") != 0; f.zero && f.align != 0 {
		f.zero = false
		if f.fill == " " {
			f.fill = "0"
		}
	}
	f.width = size()
	f.thousand = skip(",") != 0
	if skip(".") != 0 {
		f.prec = size()
	}
	f.verb = skip("bcdeEfFgGnosxX%")
	if how != "" {
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
	base, ok := map[byte]int{0: 10, 'd': 10, 'n': 10, 'b': 2, 'o': 8, 'x': 16, 'X': 16}[f.verb]
	if !ok {
		r.failf("this format does not go with %s", typeName(v))
	}
	s := strconv.FormatInt(int64(i), base)
	if prefix := map[byte]string{'b': "0b", 'o': "0o", 'x': "0x", 'X': "0x"}[f.verb]; f.alt && prefix != "" {
		s = strings.Replace(prefix+s, prefix+"-", "-"+prefix, 1)
	}
	if f.verb == 'X' {
		s = strings.ToUpper(s)
	}
	return r.digits(f, s)
}
