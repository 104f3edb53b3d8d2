package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ardanlabs/jinja"
)

// tmplJSON reads a JSON value for the engine, with the order of its keys.
func tmplJSON(raw []byte) (jinja.Value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := tmplDecode(d, 0)
	if errors.Is(err, io.EOF) {
		err = errors.New("no JSON, or JSON that ends too soon")
	}
	if err != nil {
		return v, err
	}
	if _, err := d.Token(); err != io.EOF {
		return v, errors.New("more than one JSON value")
	}
	return v, nil
}

func tmplDecode(d *json.Decoder, depth int) (jinja.Value, error) {
	if depth > 128 {
		return jinja.None(), errors.New("JSON is nested more than 128 deep")
	}
	t, err := d.Token()
	if err != nil {
		return jinja.None(), err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			var items []jinja.Value
			for d.More() {
				v, err := tmplDecode(d, depth+1)
				if err != nil {
					return v, err
				}
				items = append(items, v)
			}
			_, err := d.Token()
			return jinja.NewList(items), err
		}
		v := jinja.NewDict()
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return v, err
			}
			x, err := tmplDecode(d, depth+1)
			if err != nil {
				return x, err
			}
			v.AsDict().Set(k.(string), x)
		}
		_, err := d.Token()
		return v, err
	case json.Number:
		return jinja.FromGoValue(t), nil
	}
	return jinja.FromGoValue(t), nil
}

// tmplString is Python's str(v), which is what {{ v }} prints.
func tmplString(v jinja.Value) string {
	switch {
	case v.IsString():
		return v.AsString()
	case v.IsUndefined():
		return ""
	}
	var b strings.Builder
	tmplRepr(&b, v, 0)
	return b.String()
}

// tmplDeep is how deep values are printed: a namespace may hold itself.
const tmplDeep = 200

// tmplRepr writes Python's repr(v).
func tmplRepr(b *strings.Builder, v jinja.Value, depth int) {
	switch {
	case depth > tmplDeep || b.Len() > tmplMaxOutput:
		b.WriteString("...")
	case v.IsNone():
		b.WriteString("None")
	case v.IsBool() && v.AsBool():
		b.WriteString("True")
	case v.IsBool():
		b.WriteString("False")
	case v.IsInt():
		b.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		b.WriteString(tmplFloat(v.AsFloat()))
	case v.IsString():
		tmplReprString(b, v.AsString())
	case v.IsList():
		b.WriteByte('[')
		for i, x := range v.AsList().Items {
			if i > 0 {
				b.WriteString(", ")
			}
			tmplRepr(b, x, depth+1)
		}
		b.WriteByte(']')
	case v.IsDict():
		b.WriteByte('{')
		d := v.AsDict()
		for i, k := range d.Keys {
			if i > 0 {
				b.WriteString(", ")
			}
			tmplReprString(b, k)
			b.WriteString(": ")
			tmplRepr(b, d.Data[k], depth+1)
		}
		b.WriteByte('}')
	}
}

func tmplReprString(b *strings.Builder, s string) {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteByte(quote)
	for i, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(b, `\x%02x`, r)
		case r >= 0x80 && r < shadowFirst && !strconv.IsPrint(r):
			switch {
			case r < 0x100:
				fmt.Fprintf(b, `\x%02x`, r)
			case r < 0x10000:
				fmt.Fprintf(b, `\u%04x`, r)
			default:
				fmt.Fprintf(b, `\U%08x`, r)
			}
		case r == utf8.RuneError:
			b.WriteString(s[i : i+tmplRuneLen(s[i:])])
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte(quote)
}

func tmplRuneLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// tmplFloat is Python's repr of a float.
func tmplFloat(f float64) string {
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

// tmplToJSON is json.dumps(v, ensure_ascii=False) as transformers sets it for templates. indent < 0 means on one line.
func tmplToJSON(b *strings.Builder, v jinja.Value, indent int, item, key string, sorted bool, depth int) error {
	line := func(depth int) {
		if indent >= 0 {
			b.WriteByte('\n')
			for range indent * depth {
				b.WriteByte(' ')
			}
		}
	}
	switch {
	case depth > tmplDeep || b.Len() > tmplMaxOutput:
		return errors.New("tojson: the value is too large, or holds itself")
	case v.IsUndefined() || v.IsCallable():
		return errors.New("tojson: the value is undefined")
	case v.IsNone():
		b.WriteString("null")
	case v.IsBool():
		b.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsFloat():
		switch s := tmplFloat(v.AsFloat()); s {
		case "nan":
			b.WriteString("NaN")
		case "inf":
			b.WriteString("Infinity")
		case "-inf":
			b.WriteString("-Infinity")
		default:
			b.WriteString(s)
		}
	case v.IsInt():
		b.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsString():
		tmplJSONString(b, v.AsString())
	case v.IsList():
		items := v.AsList().Items
		b.WriteByte('[')
		for i, x := range items {
			if i > 0 {
				b.WriteString(item)
			}
			line(depth + 1)
			if err := tmplToJSON(b, x, indent, item, key, sorted, depth+1); err != nil {
				return err
			}
		}
		if len(items) > 0 {
			line(depth)
		}
		b.WriteByte(']')
	case v.IsDict():
		d := v.AsDict()
		keys := d.Keys
		if sorted {
			keys = tmplSorted(keys)
		}
		b.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				b.WriteString(item)
			}
			line(depth + 1)
			tmplJSONString(b, k)
			b.WriteString(key)
			if err := tmplToJSON(b, d.Data[k], indent, item, key, sorted, depth+1); err != nil {
				return err
			}
		}
		if len(keys) > 0 {
			line(depth)
		}
		b.WriteByte('}')
	}
	return nil
}

func tmplJSONString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\b':
			b.WriteString(`\b`)
		case c == '\f':
			b.WriteString(`\f`)
		case c < ' ':
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
}

// tmplTime is Python's strftime.
func tmplTime(t time.Time, format string) string {
	verbs := map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'p': "PM", 'I': "03", 'y': "06", 'j': "002", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05", 'e': "_2", 'D': "01/02/06"}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		c := format[i]
		bare := c == '-' && i+1 < len(format) // %-d: without the leading zero
		if bare {
			i++
			c = format[i]
		}
		switch v, ok := verbs[c]; {
		case c == '%':
			b.WriteByte('%')
		case ok && bare:
			b.WriteString(strings.TrimLeft(t.Format(v), "0"))
		case ok:
			b.WriteString(t.Format(v))
		default:
			b.WriteByte('%')
			b.WriteByte(c)
		}
	}
	return b.String()
}
