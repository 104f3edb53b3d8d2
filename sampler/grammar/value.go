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

// reader reads one document and counts its values.
type reader struct {
	*json.Decoder
	values int
}

// limit is what a document has more of than it may.
type limit string

func (l limit) Error() string { return string(l) }

func parseJSON(b []byte) (*value, error) {
	d := &reader{Decoder: json.NewDecoder(bytes.NewReader(b))}
	d.UseNumber()
	v, err := d.next(0)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty, or ends too soon")
		}
		if errors.As(err, new(limit)) {
			return nil, fmt.Errorf("too large: %w", err)
		}
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("not JSON: more than one value")
	}
	return v, nil
}

func (d *reader) next(depth int) (*value, error) {
	if depth > maxNesting {
		return nil, limit(fmt.Sprintf("nested more than %d deep", maxNesting))
	}
	if d.values++; d.values > maxValues {
		return nil, limit(fmt.Sprintf("more than %d values", maxValues))
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case nil:
		return &value{kind: kindNull}, nil
	case bool:
		return &value{kind: kindBool, bool: t}, nil
	case string:
		return &value{kind: kindString, text: t}, nil
	case json.Number:
		if len(t) > maxDigits {
			return nil, limit(fmt.Sprintf("a number of more than %d characters", maxDigits))
		}
		return &value{kind: kindNumber, text: string(t)}, nil
	case json.Delim:
		v := &value{kind: kindArray}
		var at map[string]int
		if t == '{' {
			v.kind, at = kindObject, map[string]int{}
		}
		for d.More() {
			key := ""
			if v.kind == kindObject {
				k, err := d.Token()
				if err != nil {
					return nil, err
				}
				key = k.(string) // the decoder allows nothing else
			}
			item, err := d.next(depth + 1)
			if err != nil {
				return nil, err
			}
			if i, twice := at[key]; twice {
				v.items[i] = item // as decoders do: the last one counts
				continue
			}
			if len(v.items) == maxEntries {
				return nil, limit(fmt.Sprintf("a list or object of more than %d entries", maxEntries))
			}
			v.items = append(v.items, item)
			if v.kind == kindObject {
				at[key] = len(v.keys)
				v.keys = append(v.keys, key)
			}
		}
		_, err := d.Token()
		return v, err
	}
	return nil, fmt.Errorf("unexpected %v", t)
}

func (v *value) get(key string) *value {
	if v.kind != kindObject {
		return nil
	}
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
	r, ok := new(big.Rat).SetString(v.text)
	if !ok {
		return nil
	}
	return r
}

// whole says whether v is a number without fraction.
func (v *value) whole() bool {
	r := v.rat()
	return r != nil && r.IsInt()
}
