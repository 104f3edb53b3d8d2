package grammar

import (
	"fmt"
	"math/big"
	"strings"
)

// bounds are the keywords that compare a number with theirs, and what the comparison must give.
var bounds = []struct {
	keyword string
	fits    func(order int) bool
}{
	{"minimum", func(order int) bool { return order >= 0 }},
	{"maximum", func(order int) bool { return order <= 0 }},
	{"exclusiveMinimum", func(order int) bool { return order > 0 }},
	{"exclusiveMaximum", func(order int) bool { return order < 0 }},
}

// bound is the value of a keyword that must be a number; nil where it is absent.
func (s *schema) bound(keyword string) *big.Rat {
	if v := s.v.get(keyword); v != nil {
		return s.number(keyword, v)
	}
	return nil
}

// number is the value of a number that a keyword is about.
func (s *schema) number(keyword string, v *value) *big.Rat {
	r := v.rat()
	if v.kind != kindNumber || r == nil {
		panic(s.err(keyword, "must be a number of sensible size"))
	}
	return r
}

// numbers is the language of the numbers that the leaves allow; nil stands for a plain integer or
// number. wide makes it all of them, of any length, for asking whether two languages share a value.
func numbers(m *meter, leaves []*schema, kinds kind, wide bool) *runes {
	type part struct {
		s       *schema
		keyword string
		make    func() (*runes, error)
	}
	var parts []part
	integer := kinds&kindNumber == 0
	digits := 18
	if wide {
		digits = 400
	}
	compare := func(s *schema, keyword string, v *big.Rat, fits func(int) bool) {
		parts = append(parts, part{s, keyword, func() (*runes, error) { return compared(v, fits), nil }})
		digits = max(digits, len(new(big.Int).Quo(v.Num(), v.Denom()).String()))
	}
	for _, s := range leaves {
		for _, b := range bounds {
			if v := s.bound(b.keyword); v != nil {
				compare(s, b.keyword, v, b.fits)
			}
		}
		if v := s.bound("multipleOf"); v != nil {
			if v.Sign() <= 0 {
				panic(s.err("multipleOf", "must be greater than 0"))
			}
			parts = append(parts, part{s, "multipleOf", func() (*runes, error) { return multiples(v) }})
		}
		if f := s.v.get("format"); f != nil && f.kind == kindString {
			if r := numberFormats[f.text]; r[0] != "" {
				for i, text := range r {
					v, _ := new(big.Rat).SetString(text)
					compare(s, "format", v, bounds[i].fits)
				}
				integer = true
			}
			s.format(f.text) // which must be known
		}
	}
	not := excluded(leaves, kindNumber)
	if len(not) > maxExcluded {
		panic(tooLarge(leaves, "not"))
	}
	other := func(order int) bool { return order != 0 }
	for _, v := range not {
		s := asker(leaves, "not")
		r := s.number("not", v)
		parts = append(parts, part{s, "not", func() (*runes, error) { return compared(r, other), nil }})
	}
	if len(parts) == 0 && !wide {
		return nil
	}
	form := fmt.Sprintf(`0|-?[1-9][0-9]{0,%d}`, digits-1)
	if !integer {
		form = fmt.Sprintf(`-?(?:0|[1-9][0-9]{0,%d})(?:\.[0-9]{1,32})?`, max(digits, 32)-1)
	}
	d, err := compileRegex(m, "^(?:"+form+")$", false)
	if err != nil {
		panic(leaves[0].tooLarge("minimum"))
	}
	for _, p := range parts {
		e, err := p.make()
		if err == nil {
			d, err = d.and(e)
		}
		if err != nil {
			panic(p.s.cannot(p.keyword, "%v", err))
		}
	}
	return d
}

// maxExcluded is how many numbers a not may rule out: each is an automaton.
const maxExcluded = 64

// decimal splits a bound into digits before and behind the point; bounds in JSON are decimals.
func decimal(v *big.Rat) (whole, fraction string) {
	places, pow, ten := 0, big.NewInt(1), big.NewInt(10)
	for new(big.Int).Mod(pow, v.Denom()).Sign() != 0 {
		pow.Mul(pow, ten)
		places++
	}
	text := new(big.Rat).Abs(v).FloatString(places)
	whole, fraction, _ = strings.Cut(text, ".")
	return whole, strings.TrimRight(fraction, "0")
}

// compared is the language of the plain decimals whose order to v, -1, 0 or 1, fits. What is no
// plain decimal may be in it too: it is for being one of several.
func compared(v *big.Rat, fits func(order int) bool) *runes {
	whole, fraction := decimal(v)
	d := &runes{}
	edge := func(from int32, lo, hi byte, to int32) {
		if lo <= hi {
			d.trans[from] = append(d.trans[from], span{rune(lo), rune(hi), to})
		}
	}
	// side is the decimals of one sign, by how their magnitude compares, and where they start.
	side := func(sign int) int32 {
		add := func(order int) int32 { return d.add(fits(sign * order)) }
		split := func(from int32, digit byte, less, same, more int32) {
			edge(from, '0', digit-1, less)
			edge(from, digit, digit, same)
			edge(from, digit+1, '9', more)
		}
		less, more := add(-1), add(1)
		for _, s := range []int32{less, more} {
			edge(s, '.', '.', s)
			edge(s, '0', '9', s)
		}
		if sign*v.Sign() < 0 {
			return more
		}
		// Backwards from the end of the fraction; a text that ends in it before that is less.
		point := add(0)
		split(point, '0', less, point, more)
		for i := len(fraction) - 1; i >= 0; i-- {
			s := add(-1)
			split(s, fraction[i], less, point, more)
			point = s
		}
		// Then backwards through the digits before the point, by how those read compare: a text
		// that ends before them is less, one that goes on behind them more.
		low, same := add(-1), add(-min(len(fraction), 1))
		high := more
		edge(low, '.', '.', less)
		edge(low, '0', '9', more)
		edge(same, '.', '.', point)
		edge(same, '0', '9', more)
		for i := len(whole) - 1; i > 0; i-- {
			a, b, c := add(-1), add(-1), add(-1)
			for _, s := range []int32{a, b, c} {
				edge(s, '.', '.', less)
			}
			edge(a, '0', '9', low)
			split(b, whole[i], low, same, high)
			edge(c, '0', '9', high)
			low, same, high = a, b, c
		}
		start := d.add(false)
		split(start, whole[0], low, same, high)
		return start
	}
	d.add(false)
	// Of what is at least 0 a sign would allow -0 alone.
	if v.Sign() != 0 || !fits(1) || fits(-1) {
		edge(0, '-', '-', side(-1))
	}
	positive := side(1)
	d.trans[0] = append(d.trans[0], d.trans[positive]...)
	return d.trim()
}

// multiples is the language of the plain decimals that are multiples of m. With m = c/10^k it reads
// digits modulo c.
func multiples(m *big.Rat) (*runes, error) {
	k := 0
	scaled := new(big.Rat).Set(m)
	for ; !scaled.IsInt(); k++ {
		if k > 20 {
			return nil, errTooLarge
		}
		scaled.Mul(scaled, big.NewRat(10, 1))
	}
	if !scaled.Num().IsInt64() || scaled.Num().Int64()*int64(k+2) > maxRunes {
		return nil, errTooLarge
	}
	c := scaled.Num().Int64()
	// A state is how many digits of the fraction were read, or one of these, and the remainder.
	const start, sign, whole = -3, -2, -1
	type state struct {
		places int
		rest   int64
	}
	d := &runes{}
	known := map[state]int32{}
	var work []state
	at := func(s state) int32 {
		id, ok := known[s]
		if !ok {
			rest := s.rest
			for i := max(s.places, 0); i < k; i++ {
				rest = rest * 10 % c
			}
			id = d.add(s.places >= whole && rest == 0)
			known[s] = id
			work = append(work, s)
		}
		return id
	}
	at(state{places: start})
	for i := 0; i < len(work); i++ {
		s := work[i]
		var out []span
		switch s.places {
		case start:
			out = append(out, span{'-', '-', at(state{places: sign})})
		case whole:
			out = append(out, span{'.', '.', at(state{0, s.rest})})
		case k: // what is finer than the step must be 0
			d.trans[i] = []span{{'0', '0', int32(i)}}
			continue
		}
		for digit := range int64(10) {
			next := state{whole, (s.rest*10 + digit) % c}
			if s.places >= 0 {
				next.places = s.places + 1
			}
			out = append(out, span{'0' + rune(digit), '0' + rune(digit), at(next)})
		}
		d.trans[i] = out
	}
	return d.trim(), nil
}
