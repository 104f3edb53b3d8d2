package jinja

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// number reads a number; a bool is one.
func number(v Value) (i int, f float64, isFloat, ok bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, false, true
		}
		return 0, 0, false, true
	case int:
		return v, float64(v), false, true
	case float64:
		return 0, v, true, true
	}
	return 0, 0, false, false
}

// whole reads an int or a bool.
func whole(v Value) (int, bool) {
	i, _, isFloat, ok := number(v)
	return i, ok && !isFloat
}

// math computes x op y for numbers; ok is false where one is none.
func (r *run) math(op string, x, y Value) (v Value, ok bool) {
	xi, xf, xFloat, ok := number(x)
	yi, yf, yFloat, ok2 := number(y)
	if !ok || !ok2 {
		return nil, false
	}
	if (op == "/" || op == "//" || op == "%") && yf == 0 {
		r.failf("division by zero")
	}
	if xFloat || yFloat || op == "/" || op == "**" && yi < 0 {
		return r.floats(op, xf, yf), true
	}
	out, fits := 0, true
	switch op {
	case "+":
		out = xi + yi
		fits = (out > xi) == (yi > 0)
	case "-":
		out = xi - yi
		fits = (out < xi) == (yi > 0)
	case "*":
		out, fits = multiply(xi, yi)
	case "//", "%":
		q, m := 0, 0
		if yi == -1 {
			q, fits = -xi, xi != math.MinInt
		} else {
			q, m = xi/yi, xi%yi
		}
		if m != 0 && (m < 0) != (yi < 0) {
			q, m = q-1, m+yi
		}
		if out = q; op == "%" {
			out = m
		}
	case "**":
		out = 1
		for base := xi; yi > 0 && fits; yi >>= 1 {
			if yi&1 == 1 {
				out, fits = multiply(out, base)
			}
			if yi > 1 && fits {
				base, fits = multiply(base, base)
			}
		}
	}
	if !fits {
		r.failf("a whole number does not fit 64 bits")
	}
	return out, true
}

func multiply(x, y int) (int, bool) {
	hi, lo := bits.Mul64(uint64(max(x, -x)), uint64(max(y, -y)))
	if hi != 0 || lo > math.MaxInt64 || x == math.MinInt || y == math.MinInt {
		return 0, x == 0 || y == 0
	}
	return x * y, true
}

func (r *run) floats(op string, x, y float64) Value {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "**":
		if x < 0 && y != math.Trunc(y) || x == 0 && y < 0 {
			r.failf("%v ** %v is no number", x, y)
		}
		f := math.Pow(x, y)
		if math.IsInf(f, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
			r.failf("%v ** %v is too large", x, y)
		}
		return f
	}
	m := math.Mod(x, y)
	q := (x - m) / y
	if m != 0 {
		if (y < 0) != (m < 0) {
			m, q = m+y, q-1
		}
	} else {
		m = math.Copysign(0, y)
	}
	if op == "%" {
		return m
	}
	if q == 0 {
		return math.Copysign(0, x/y)
	}
	f := math.Floor(q)
	if q-f > 0.5 {
		f++
	}
	return f
}

// formatFloat is Python's repr of a float.
func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		format = 'e'
	}
	s := strconv.FormatFloat(f, format, -1, 64)
	if format == 'f' && !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func toInt(r *run, v Value, o opts) Value {
	switch x := v.(type) {
	case *Undefined:
		r.undefined(x)
	case float64:
		if !math.IsNaN(x) {
			return r.truncated(x)
		}
	case bool, int:
		n, _ := whole(v)
		return n
	case origin.Text:
		s := strings.TrimFunc(x.String(), isSpace)
		base := r.whole(o.or(1, 10), "int")
		if n, ok := parseInt(s, base); ok {
			return n
		}
		if f, ok := parseFloat(s); ok && !math.IsNaN(f) {
			return r.truncated(f)
		}
	}
	return o.or(0, 0)
}

// truncated is a float without what is behind its point.
func (r *run) truncated(f float64) int {
	if !(math.Abs(f) < 1<<63) {
		r.failf("the number %v does not fit 64 bits", f)
	}
	return int(f)
}

func parseInt(s string, base int) (int, bool) {
	if len(s) > 4300 {
		return 0, false
	}
	sign := ""
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		sign, s = s[:1], s[1:]
	}
	prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]
	if prefix != "" && strings.HasPrefix(strings.ToLower(s), prefix) {
		s = s[2:]
	}
	if s == "" || strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") || strings.HasPrefix(s, "_") && prefix == "" ||
		strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return 0, false
	}
	if base != 0 && (base < 2 || base > 36) {
		return 0, false
	}
	n, err := strconv.ParseInt(sign+strings.ReplaceAll(s, "_", ""), base, 64)
	return int(n), err == nil
}

func parseFloat(s string) (float64, bool) {
	low := strings.ToLower(s)
	if strings.ContainsAny(low, "xp") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") ||
		strings.Contains(s, "_.") || strings.Contains(s, "._") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return f, err == nil || math.IsInf(f, 0)
}

func toFloat(r *run, v Value, o opts) Value {
	switch x := v.(type) {
	case *Undefined:
		r.undefined(x)
	case bool, int, float64:
		_, f, _, _ := number(v)
		return f
	case origin.Text:
		if f, ok := parseFloat(strings.TrimFunc(x.String(), isSpace)); ok {
			return f
		}
	}
	return o.or(0, 0.0)
}

func round(r *run, v Value, o opts) Value {
	p := r.whole(o.or(0, 0), "round")
	i, f, isFloat, ok := number(v)
	if !ok {
		r.failf("round of %s", typeName(v))
	}
	if p > 300 || p < -300 {
		r.failf("round to %d places", p)
	}
	scale := math.Pow(10, float64(p))
	switch method := r.text(o.or(1, own("common")), "round").String(); {
	case method == "ceil" || method == "floor":
		x := math.Floor(f * scale)
		if method == "ceil" {
			x = math.Ceil(f * scale)
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			r.failf("%s of no number", method)
		}
		return x / scale
	case method != "common":
		r.failf("round knows common, ceil and floor")
	case !isFloat && p >= 0:
		return i
	case !isFloat:
		return int(math.RoundToEven(f*scale) / scale)
	case p < 0 || math.IsNaN(f) || math.IsInf(f, 0):
		return math.RoundToEven(f*scale) / scale
	}
	x, _ := strconv.ParseFloat(strconv.FormatFloat(f, 'f', p, 64), 64)
	return x
}
