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
	if xFloat || yFloat || op == "/" {
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
	var out float64
	switch op {
	case "+":
		out = x + y
	case "-":
		out = x - y
	case "*":
		out = x * y
	case "/":
		out = x / y
	default:
		m := math.Mod(x, y)
		if m != 0 && (y < 0) != (m < 0) {
			m += y
		}
		if out = math.Copysign(m, y); op == "//" {
			out = math.Round((x - out) / y)
		}
	}
	if math.IsNaN(out) || math.IsInf(out, 0) {
		r.failf("%v %s %v does not fit a number", x, op, y)
	}
	return out
}

// formatFloat is Python's repr of a float.
func formatFloat(f float64) string {
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
		return r.truncated(x)
	case bool, int:
		n, _ := whole(v)
		return n
	case origin.Text:
		s := strings.TrimFunc(x.String(), isSpace)
		if n, err := strconv.Atoi(s); err == nil {
			return n
		}
		if f, ok := parseFloat(s); ok {
			return r.truncated(f)
		}
	}
	return o.or(0, 0)
}

// truncated is a float without what is behind its point.
func (r *run) truncated(f float64) int {
	if math.Abs(f) >= 1<<63 {
		r.failf("the number %v does not fit 64 bits", f)
	}
	return int(f)
}

// parseFloat reads a number, but for the ways to write one that Python does not know, or that are
// none: 0x1p4, inf, nan.
func parseFloat(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && strings.Trim(s, "0123456789.+-eE") == ""
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
