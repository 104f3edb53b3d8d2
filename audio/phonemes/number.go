package phonemes

import "strings"

// An Accent is the English that is spoken: it decides how numbers and dates are read, and how
// endings sound.
type Accent int

// The accents of Kokoro's English voices.
const (
	American Accent = iota
	British
)

var small = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen " +
	"sixteen seventeen eighteen nineteen")

var tens = strings.Fields("- - twenty thirty forty fifty sixty seventy eighty ninety")

var scales = strings.Fields("- thousand million billion trillion")

// spoken is a whole number in words. Digits without a scale, and more than fifteen of them, are
// read one by one, as are those that begin with a zero.
func (a Accent) spoken(digits string) string {
	digits = strings.ReplaceAll(digits, ",", "")
	if len(digits) > 15 || len(digits) > 1 && digits[0] == '0' {
		return oneByOne(digits)
	}
	return a.cardinal(value(digits))
}

func value(digits string) int {
	n := 0
	for _, c := range digits {
		n = 10*n + int(c-'0')
	}
	return n
}

func oneByOne(digits string) string {
	var out []string
	for _, c := range digits {
		if c >= '0' && c <= '9' {
			out = append(out, small[c-'0'])
		}
	}
	return strings.Join(out, " ")
}

func (a Accent) cardinal(n int) string {
	if n == 0 {
		return small[0]
	}
	var groups []string
	last := n % 1000
	for scale := 0; n > 0; scale, n = scale+1, n/1000 {
		if n%1000 == 0 {
			continue
		}
		words := a.hundreds(n % 1000)
		if scale > 0 {
			words += " " + scales[scale]
		} else if n >= 1000 && last < 100 && a == British {
			words = "and " + words
		}
		groups = append([]string{words}, groups...)
	}
	return strings.Join(groups, " ")
}

func (a Accent) hundreds(n int) string {
	if n < 100 {
		return below100(n)
	}
	out := small[n/100] + " hundred"
	if n%100 == 0 {
		return out
	}
	if a == British {
		out += " and"
	}
	return out + " " + below100(n%100)
}

func below100(n int) string {
	if n < 20 {
		return small[n]
	}
	if n%10 == 0 {
		return tens[n/10]
	}
	return tens[n/10] + " " + small[n%10]
}

var irregular = map[string]string{"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth", "nine": "ninth",
	"twelve": "twelfth"}

func (a Accent) ordinal(n int) string {
	words := a.cardinal(n)
	at := strings.LastIndexByte(words, ' ') + 1
	last := words[at:]
	if special, ok := irregular[last]; ok {
		last = special
	} else if stem, ok := strings.CutSuffix(last, "y"); ok {
		last = stem + "ieth"
	} else {
		last += "th"
	}
	return words[:at] + last
}

// year reads a number of four digits as years are read.
func (a Accent) year(y int) string {
	high, low := y/100, y%100
	switch {
	case y < 1000 || y >= 2000 && y < 2010 || y%1000 == 0:
		return a.cardinal(y)
	case low == 0:
		return below100(high) + " hundred"
	case low < 10:
		return below100(high) + " oh " + small[low]
	}
	return below100(high) + " " + below100(low)
}

// decimal is a number with a point, read as digits after it.
func (a Accent) decimal(s string) string {
	whole, part, ok := strings.Cut(s, ".")
	var out []string
	if whole != "" {
		out = append(out, a.spoken(whole))
	}
	if ok {
		out = append(out, "point", oneByOne(part))
	}
	return strings.Join(out, " ")
}

func (a Accent) fraction(n, d int) string {
	name := ""
	switch {
	case d == 2:
		name = "half"
	case d == 4:
		name = "quarter"
	case d > 2 && d <= 20 || d == 100:
		name = a.ordinal(d)
	default:
		return a.cardinal(n) + " over " + a.cardinal(d)
	}
	switch {
	case n == 1:
	case d == 2:
		name = "halves"
	default:
		name += "s"
	}
	return a.cardinal(n) + " " + name
}

// roman is the value of a numeral in its usual form, and 0 of anything else.
func roman(s string) int {
	units := []struct {
		text string
		n    int
	}{{"M", 1000}, {"CM", 900}, {"D", 500}, {"CD", 400}, {"C", 100}, {"XC", 90}, {"L", 50}, {"XL", 40}, {"X", 10}, {"IX", 9}, {"V", 5},
		{"IV", 4}, {"I", 1}}
	if len(s) > 15 {
		return 0
	}
	n, rest := 0, s
	for _, u := range units {
		for strings.HasPrefix(rest, u.text) {
			n, rest = n+u.n, rest[len(u.text):]
		}
	}
	if rest != "" || n == 0 {
		return 0
	}
	// Only the usual form is made of the greatest units that fit; IIII and IVI are none.
	usual, left := "", n
	for _, u := range units {
		for left >= u.n {
			usual, left = usual+u.text, left-u.n
		}
	}
	if usual != s {
		return 0
	}
	return n
}

// plural is a word for more than one.
func plural(word string) string {
	switch {
	case strings.HasSuffix(word, "y"):
		return word[:len(word)-1] + "ies"
	case strings.HasSuffix(word, "x"), strings.HasSuffix(word, "ch"):
		return word + "es"
	}
	return word + "s"
}
