package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// value is a JSON value that keeps the order of keys and the spelling of numbers.
type value struct {
	kind  kind
	bool  bool
	text  string // a string, or a number as it was written
	items []*value
	keys  []string // of an object; items are the values

	id    string          // what same has found
	index map[string]int  // of a large object's keys, once one was asked for
	set   map[string]bool // of a list's items, as has made it
}

type kind uint8

const (
	kindNull kind = 1 << iota
	kindBool
	kindInteger // as a type; numbers without fraction
	kindNumber
	kindString
	kindArray
	kindObject
	kindAll = kindNull | kindBool | kindNumber | kindString | kindArray | kindObject
)

// What a document may hold. Names and values are compared with one another, so that a large list
// costs the square of its length.
const (
	maxNesting = 200
	maxValues  = 50_000
	maxEntries = 6000 // of one list or object
	maxDigits  = 1000 // of a number, as it is written
)

// reader reads one document and counts its values. What is wrong it panics with.
type reader struct {
	*json.Decoder
	values int
}

func parseJSON(b []byte) (v *value, err error) {
	defer catch(&err)
	d := &reader{Decoder: json.NewDecoder(bytes.NewReader(b))}
	d.UseNumber()
	v = d.next(0)
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("not JSON: more than one value")
	}
	return v, nil
}

func (d *reader) token() json.Token {
	t, err := d.Token()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it is empty, or ends too soon")
	}
	if err != nil {
		panic(stopped{fmt.Errorf("not JSON: %w", err)})
	}
	return t
}

// most refuses a document that has more of something than it may.
func most(n, limit int, format string) {
	if n > limit {
		panic(stopped{fmt.Errorf("too large: "+format, limit)})
	}
}

func (d *reader) next(depth int) *value {
	most(depth, maxNesting, "nested more than %d deep")
	d.values++
	most(d.values, maxValues, "more than %d values")
	switch t := d.token().(type) {
	case bool:
		return boolOf(t)
	case string:
		return textOf(t)
	case json.Number:
		most(len(t), maxDigits, "a number of more than %d characters")
		return &value{kind: kindNumber, text: string(t)}
	case json.Delim:
		v := listOf()
		var at map[string]int
		if t == '{' {
			v.kind, at = kindObject, map[string]int{}
		}
		for d.More() {
			key := ""
			if v.kind == kindObject {
				key = d.token().(string) // the decoder allows nothing else
			}
			item := d.next(depth + 1)
			if i, twice := at[key]; twice {
				v.items[i] = item // as decoders do: the last one counts
				continue
			}
			v.items = append(v.items, item)
			most(len(v.items), maxEntries, "a list or object of more than %d entries")
			if v.kind == kindObject {
				at[key] = len(v.keys)
				v.keys = append(v.keys, key)
			}
		}
		d.token()
		return v
	}
	return &value{kind: kindNull}
}

// get is the value of a key; nil where v has none, or is no object.
func (v *value) get(key string) *value {
	if len(v.keys) <= 16 {
		if i := slices.Index(v.keys, key); i >= 0 {
			return v.items[i]
		}
		return nil
	}
	if v.index == nil {
		v.index = make(map[string]int, len(v.keys))
		for i, k := range v.keys {
			v.index[k] = i
		}
	}
	if i, ok := v.index[key]; ok {
		return v.items[i]
	}
	return nil
}

// has says whether a list holds an item equal to x.
func (v *value) has(x *value) bool {
	if v.set == nil {
		v.set = make(map[string]bool, len(v.items))
		for _, item := range v.items {
			v.set[item.same()] = true
		}
	}
	return v.set[x.same()]
}

// distinct are a list's items without those that equal one before them.
func (v *value) distinct() (out []*value) {
	seen := map[string]bool{} // lists may be long: no pair by pair
	for _, item := range v.items {
		if key := item.same(); !seen[key] {
			seen[key] = true
			out = append(out, item)
		}
	}
	return out
}

// same is a text that two values share when they are equal, as JSON Schema has it.
func (v *value) same() string {
	if v.id == "" {
		v.id = v.spell()
	}
	return v.id
}

func (v *value) spell() string {
	switch v.kind {
	case kindBool:
		return strconv.FormatBool(v.bool)
	case kindString:
		return strconv.Quote(v.text)
	case kindNumber:
		if r := v.rat(); r != nil {
			return r.RatString()
		}
		return v.text
	case kindArray, kindObject:
		parts := make([]string, len(v.items))
		for i, item := range v.items {
			if parts[i] = item.spell(); v.kind == kindObject {
				parts[i] = strconv.Quote(v.keys[i]) + ":" + parts[i]
			}
		}
		if v.kind == kindObject {
			slices.Sort(parts)
			return "{" + strings.Join(parts, ",") + "}"
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	return "null"
}

// rat is a number's exact value; nil for exponents no one means.
func (v *value) rat() *big.Rat {
	if i := strings.IndexAny(v.text, "eE"); i >= 0 {
		if e, err := strconv.Atoi(v.text[i+1:]); err != nil || e > 400 || e < -400 {
			return nil
		}
	}
	r, _ := new(big.Rat).SetString(v.text)
	return r
}

// whole says whether v is a number without fraction.
func (v *value) whole() bool {
	r := v.rat()
	return r != nil && r.IsInt()
}
