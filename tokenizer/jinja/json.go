package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// maxJSON is how deep JSON may be nested.
const maxJSON = 128

// FromJSON reads a JSON value, with the order of its keys. All its strings, keys too, are given.
func FromJSON(raw []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := decode(d, 0)
	if errors.Is(err, io.EOF) {
		err = errors.New("no JSON, or JSON that ends too soon")
	}
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

func decode(d *json.Decoder, depth int) (Value, error) {
	if depth > maxJSON {
		return nil, fmt.Errorf("JSON is nested more than %d deep", maxJSON)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		list, dict := &List{}, &Dict{}
		for d.More() {
			var key json.Token
			if t == '{' {
				if key, err = d.Token(); err != nil {
					return nil, err
				}
			}
			v, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			if t == '[' {
				list.Items = append(list.Items, v)
			} else {
				dict.set(origin.Given(key.(string)), v)
			}
		}
		if _, err := d.Token(); err != nil {
			return nil, err
		}
		if t == '[' {
			return list, nil
		}
		return dict, nil
	case json.Number:
		if n, err := strconv.Atoi(t.String()); err == nil {
			return n, nil
		}
		return t.Float64()
	case string:
		//rule:T2 ./tokenizer/chat TestKwargs origin.Given(t) => origin.Own(t)
		return origin.Given(t), nil
	}
	return t, nil
}

// dumper writes json.dumps(v, ensure_ascii=False).
type dumper struct {
	*run
	b         strings.Builder
	indent    string // of one level
	lines     bool
	item, key string
	sorted    bool
	ascii     bool
}

func (d *dumper) newline(depth int) {
	if d.lines {
		d.room(&d.b, 1+depth*len(d.indent))
		d.b.WriteByte('\n')
		for range depth {
			d.b.WriteString(d.indent)
		}
	}
}

func (d *dumper) write(s string) {
	d.room(&d.b, len(s))
	d.b.WriteString(s)
}

func (d *dumper) dump(v Value, depth int) {
	defer d.Deeper()()
	if s, ok := scalar(v); ok {
		d.write(s)
		return
	}
	d.room(&d.b, 8)
	switch v := v.(type) {
	case origin.Text:
		d.str(v.String())
	case *List:
		d.nest("[", "]", v.Len(), depth, func(i int) { d.dump(v.Items[i], depth+1) })
	case *Dict:
		order := make([]int, v.Len())
		for i := range order {
			order[i] = i
		}
		if d.sorted {
			slices.SortStableFunc(order, func(i, j int) int { return d.order("<", v.keys[i], v.keys[j]) })
		}
		d.nest("{", "}", v.Len(), depth, func(i int) {
			d.str(d.keyText(v.keys[order[i]]))
			d.write(d.key)
			d.dump(v.values[order[i]], depth+1)
		})
	default:
		d.failf("object of type %s is not JSON serializable", typeName(v))
	}
}

// nest writes n items between brackets.
func (d *dumper) nest(open, end string, n, depth int, item func(i int)) {
	d.b.WriteString(open)
	for i := range n {
		if i > 0 {
			d.write(d.item)
		}
		d.newline(depth + 1)
		item(i)
	}
	if n > 0 {
		d.newline(depth)
	}
	d.b.WriteString(end)
}

func (d *dumper) keyText(k Value) string {
	if t, ok := k.(origin.Text); ok {
		return t.String()
	}
	s, ok := scalar(k)
	if !ok {
		d.failf("keys must be str, int, float, bool or None, not %s", typeName(k))
	}
	return s
}

// scalar writes what is neither a string nor made of others.
func scalar(v Value) (s string, ok bool) {
	switch v := v.(type) {
	case nil:
		return "null", true
	case bool:
		return strconv.FormatBool(v), true
	case int:
		return strconv.Itoa(v), true
	case float64:
		return formatFloat(v), true
	}
	return "", false
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}

func (d *dumper) str(s string) {
	plain := !d.ascii && strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' }) < 0
	if d.room(&d.b, len(s)+2); plain {
		d.b.WriteByte('"')
		d.b.WriteString(s)
		d.b.WriteByte('"')
		return
	}
	d.room(&d.b, 5*len(s))
	d.b.WriteByte('"')
	for i, c := range s {
		switch e, ok := jsonEscapes[c]; {
		case ok:
			d.b.WriteString(e)
		case c < ' ' || d.ascii && c > '~' && c < 0x10000:
			fmt.Fprintf(&d.b, `\u%04x`, c)
		case d.ascii && c >= 0x10000:
			c -= 0x10000
			fmt.Fprintf(&d.b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		case c == '\uFFFD': // a stray byte stays what it is
			d.b.WriteByte(s[i])
			if strings.HasPrefix(s[i:], "\uFFFD") {
				d.b.WriteString(s[i+1 : i+3])
			}
		default:
			d.b.WriteRune(c)
		}
	}
	d.b.WriteByte('"')
}
