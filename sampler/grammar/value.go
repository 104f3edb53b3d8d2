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

const maxNesting = 200

func parseJSON(b []byte) (*value, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := parseNext(d, 0)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("not JSON: more than one value")
	}
	return v, nil
}

func parseNext(d *json.Decoder, depth int) (*value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested more than %d deep", maxNesting)
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
		return &value{kind: kindNumber, text: string(t)}, nil
	case json.Delim:
		v := &value{kind: kindArray}
		if t == '{' {
			v.kind = kindObject
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
			item, err := parseNext(d, depth+1)
			if err != nil {
				return nil, err
			}
			if i := slices.Index(v.keys, key); v.kind == kindObject && i >= 0 {
				v.items[i] = item // as decoders do: the last one counts
				continue
			}
			v.items = append(v.items, item)
			if v.kind == kindObject {
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
	if i := slices.Index(v.keys, key); i >= 0 {
		return v.items[i]
	}
	return nil
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
