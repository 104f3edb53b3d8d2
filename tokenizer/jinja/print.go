package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// str is Python's str(v), which is what {{ v }} prints. What is not a string already is computed,
// and so counts as given.
func (r *run) str(v Value) origin.Text {
	switch v := v.(type) {
	case origin.Text:
		return v
	case *Undefined:
		return origin.Text{}
	case int:
		return origin.Given(strconv.Itoa(v))
	}
	return r.reprText(v)
}

// reprText is Python's repr(v).
func (r *run) reprText(v Value) origin.Text {
	var b strings.Builder
	r.repr(&b, v)
	return origin.Given(b.String())
}

// room is asked before n more bytes are written to b.
func (r *run) room(b *strings.Builder, n int) {
	r.Step(1)
	r.Fits(b.Len() + n)
	r.Grow(n)
}

// repr writes Python's repr(v).
func (r *run) repr(b *strings.Builder, v Value) {
	r.room(b, 8)
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int:
		b.WriteString(strconv.Itoa(v))
	case float64:
		b.WriteString(formatFloat(v))
	case origin.Text:
		r.room(b, 4*v.Len())
		quoted(b, v.String())
	case *Undefined:
		b.WriteString("Undefined")
	case *List:
		open, end := "[", "]"
		if v.Tuple {
			open, end = "(", ")"
			if len(v.Items) == 1 {
				end = ",)"
			}
		}
		r.reprItems(b, open, end, v.Items, nil)
	case *Dict:
		r.reprItems(b, "{", "}", v.keys, v.values)
	case *Namespace:
		r.reprItems(b, "<Namespace {", "}>", v.attrs.keys, v.attrs.values)
	default:
		r.failf("printing a %s is not supported", typeName(v))
	}
}

// reprItems writes items between brackets, each with its value if there are any.
func (r *run) reprItems(b *strings.Builder, open, end string, items, values []Value) {
	defer r.Deeper()()
	b.WriteString(open)
	for i, x := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		r.repr(b, x)
		if values != nil {
			b.WriteString(": ")
			r.repr(b, values[i])
		}
	}
	b.WriteString(end)
}

// quoted writes a string as Python's repr does.
func quoted(b *strings.Builder, s string) {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteByte(quote)
	for i := 0; i < len(s); {
		c, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case c == rune(quote) || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ' || c >= 0x7f && c < 0xa1 || c == 0xad:
			fmt.Fprintf(b, `\x%02x`, c)
		case c == utf8.RuneError && n == 1 || c < 0x7f || printable(c):
			b.WriteString(s[i : i+n])
		case c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			fmt.Fprintf(b, `\U%08x`, c)
		}
		i += n
	}
	b.WriteByte(quote)
}

// printable is Python's str.isprintable.
func printable(c rune) bool {
	return c == ' ' || !unicode.In(c, unicode.Z, unicode.C) && (unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S))
}
