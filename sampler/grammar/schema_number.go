package grammar

import (
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// numbers is the language of the numbers that the leaves allow; nil stands for a plain integer or
// number. wide makes it all of them, of any length, for asking whether two languages share a value.
func numbers(m *meter, leaves []*schema, kinds kind, wide bool) (*runes, error) {
	integer := kinds&kindNumber == 0
	digits := 18
	if wide {
		digits = 400
	}
	type bound struct {
		s       *schema
		keyword string
		v       *big.Rat
		lower   bool
		strict  bool
	}
	var bounds []bound
	var steps []bound
	for _, s := range leaves {
		for _, b := range []bound{
			{keyword: "minimum", lower: true}, {keyword: "maximum"},
			{keyword: "exclusiveMinimum", lower: true, strict: true}, {keyword: "exclusiveMaximum", strict: true}, {keyword: "multipleOf"},
		} {
			v := s.v.get(b.keyword)
			if v == nil {
				continue
			}
			b.s, b.v = s, v.rat()
			if v.kind != kindNumber || b.v == nil {
				return nil, s.err(b.keyword, "must be a number of sensible size")
			}
			if b.keyword == "multipleOf" {
				if b.v.Sign() <= 0 {
					return nil, s.err(b.keyword, "must be greater than 0")
				}
				steps = append(steps, b)
			} else {
				bounds = append(bounds, b)
				digits = max(digits, len(new(big.Int).Quo(b.v.Num(), b.v.Denom()).String()))
			}
		}
		if f := s.v.get("format"); f != nil && f.kind == kindString {
			r, ok := numberFormats[f.text]
			if ok && r != [2]string{} {
				for i, text := range r {
					v, _ := new(big.Rat).SetString(text)
					bounds = append(bounds, bound{s: s, keyword: "format", v: v, lower: i == 0})
					digits = max(digits, len(text))
				}
				integer = true
			} else if _, known := stringFormat(f.text); !ok && !known && s.doc.strict {
				return nil, s.err("format", "%q is not a format this can honour", f.text)
			}
		}
	}
	not := excluded(leaves, kindNumber)
	if len(bounds)+len(steps)+len(not) == 0 && !wide {
		return nil, nil
	}
	if !integer {
		digits = max(digits, 32)
	}
	form := fmt.Sprintf(`-?(?:0|[1-9][0-9]{0,%d})(?:\.[0-9]{1,32})?`, digits-1)
	if integer {
		form = fmt.Sprintf(`0|-?[1-9][0-9]{0,%d}`, digits-1)
	}
	d, err := compileRegex(m, "^(?:"+form+")$", false)
	if err != nil {
		return nil, leaves[0].tooLarge("minimum")
	}
	for _, b := range slices.Concat(bounds, steps) {
		var e *runes
		switch {
		case b.keyword == "multipleOf":
			e, err = multiples(b.v)
		case b.lower:
			e, err = compileRegex(m, "^(?:"+atLeast(b.v, b.strict)+")$", false)
		default:
			e, err = compileRegex(m, "^(?:"+atMost(b.v, b.strict)+")$", false)
		}
		if err == nil {
			d, err = d.and(e)
		}
		if err != nil {
			return nil, b.s.cannot(b.keyword, "%v", err)
		}
	}
	return without(m, d, leaves, not)
}

// without is d without some numbers.
func without(m *meter, d *runes, leaves []*schema, not []*value) (*runes, error) {
	if len(not) > maxExcluded {
		return nil, asker(leaves, "not").tooLarge("not")
	}
	for _, v := range not {
		r := v.rat()
		if r == nil {
			return nil, asker(leaves, "not").err("not", "must be over a number of sensible size")
		}
		e, err := compileRegex(m, "^(?:"+exactly(r)+")$", false)
		if err == nil {
			d, err = d.and(e.not())
		}
		if err != nil {
			return nil, asker(leaves, "not").cannot("not", "%v", err)
		}
	}
	return d, nil
}

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

const anyInt, anyFraction = `(?:0|[1-9][0-9]*)`, `(?:\.[0-9]+)?`

// maxExcluded is how many numbers a not may rule out: each is an automaton.
const maxExcluded = 64

// exactly is an expression for the plain decimals that are v.
func exactly(v *big.Rat) string {
	w, f := decimal(v)
	sign := ""
	switch v.Sign() {
	case -1:
		sign = "-"
	case 0:
		sign = "-?"
	}
	if f == "" {
		return sign + w + `(?:\.0+)?`
	}
	return sign + w + `\.` + f + `0*`
}

// atLeast is an expression for the plain decimals ≥ v, or > v.
func atLeast(v *big.Rat, strict bool) string {
	w, f := decimal(v)
	if v.Sign() < 0 {
		return anyInt + anyFraction + "|-(?:" + magnitudeAtMost(w, f, strict) + ")"
	}
	return magnitudeAtLeast(w, f, strict)
}

// atMost is an expression for the plain decimals ≤ v, or < v.
func atMost(v *big.Rat, strict bool) string {
	w, f := decimal(v)
	switch {
	case v.Sign() < 0, v.Sign() == 0 && strict:
		return "-(?:" + magnitudeAtLeast(w, f, strict) + ")"
	}
	return "-" + anyInt + anyFraction + "|" + magnitudeAtMost(w, f, strict)
}

// magnitudeAtLeast is an expression for the unsigned decimals ≥ (>) whole.fraction.
func magnitudeAtLeast(whole, fraction string, strict bool) string {
	out := intAbove(whole) + anyFraction + "|" + whole
	if fraction == "" {
		if strict {
			return out + `\.[0-9]*[1-9][0-9]*`
		}
		return out + anyFraction
	}
	tail := `[0-9]*`
	if strict {
		tail = `[0-9]*[1-9][0-9]*`
	}
	for i := len(fraction) - 1; i >= 0; i-- {
		same := string(fraction[i]) + "(?:" + tail + ")"
		if fraction[i] < '9' {
			same += "|[" + string(fraction[i]+1) + "-9][0-9]*"
		}
		tail = same
	}
	return out + `\.(?:` + tail + ")"
}

// magnitudeAtMost is an expression for the unsigned decimals ≤ (<) whole.fraction.
func magnitudeAtMost(whole, fraction string, strict bool) string {
	out := ""
	if below := intBelow(whole); below != "" {
		out = below + anyFraction + "|"
	}
	if fraction == "" {
		if strict {
			return out + `[^\x{0}-\x{10ffff}]`
		}
		return out + whole + `(?:\.0+)?`
	}
	tail := "0*"
	if strict {
		tail = `[^\x{0}-\x{10ffff}]`
	}
	for i := len(fraction) - 1; i >= 0; i-- {
		same := string(fraction[i]) + "(?:" + tail + ")"
		if i < len(fraction)-1 {
			same = string(fraction[i]) + "(?:" + tail + ")?" // stopping short is less: more digits follow in the bound
		} else if strict {
			same = `[^\x{0}-\x{10ffff}]`
		}
		if fraction[i] > '0' {
			same += "|[0-" + string(fraction[i]-1) + "][0-9]*"
		}
		tail = same
	}
	return out + whole + `(?:\.(?:` + tail + "))?"
}

// intAbove is an expression for the integers > n ≥ 0 without leading zeros.
func intAbove(n string) string {
	out := fmt.Sprintf("[1-9][0-9]{%d}[0-9]*", len(n))
	if n == "0" {
		return "(?:[1-9][0-9]*)"
	}
	for i := range n {
		if n[i] < '9' {
			out += "|" + n[:i] + "[" + string(n[i]+1) + "-9][0-9]{" + strconv.Itoa(len(n)-1-i) + "}"
		}
	}
	return "(?:" + out + ")"
}

// intBelow is an expression for the integers < n, "" when there is none.
func intBelow(n string) string {
	if n == "0" {
		return ""
	}
	out := "0"
	if len(n) > 1 {
		out += fmt.Sprintf("|[1-9][0-9]{0,%d}", len(n)-2)
	}
	for i := range n {
		low := byte('0')
		if i == 0 {
			low = '1'
		}
		if n[i] > low {
			out += "|" + n[:i] + "[" + string(low) + "-" + string(n[i]-1) + "][0-9]{" + strconv.Itoa(len(n)-1-i) + "}"
		}
	}
	return "(?:" + out + ")"
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
	d := &runes{}
	// State 0 is the start, 1 behind the sign, then by how much of the fraction was read, −1 being
	// none of it, the remainders.
	zero := func(places int) int32 { return 2 + int32(int64(places+1)*c) }
	for range int64(k+2)*c + 2 {
		d.add(false)
	}
	scale := func(r int64, places int) int64 {
		for ; places < k; places++ {
			r = r * 10 % c
		}
		return r
	}
	spans := func(r int64, places int) []span {
		var out []span
		for digit := range int64(10) {
			if places > k && digit > 0 {
				break
			}
			to := r
			if places <= k {
				to = (r*10 + digit) % c
			}
			out = append(out, span{'0' + rune(digit), '0' + rune(digit), zero(min(places, k)) + int32(to)})
		}
		return out
	}
	d.trans[0] = append([]span{{'-', '-', 1}}, spans(0, -1)...)
	d.trans[1] = spans(0, -1)
	for r := range c {
		s := zero(-1) + int32(r)
		d.accept[s] = scale(r, 0) == 0
		point := zero(0) + int32(r)
		d.trans[s] = append([]span{{'.', '.', point}}, spans(r, -1)...)
		for places := 0; places <= k; places++ {
			s := zero(places) + int32(r)
			d.accept[s] = scale(r, places) == 0
			d.trans[s] = spans(r, places+1)
		}
	}
	return d.trim(), nil
}
