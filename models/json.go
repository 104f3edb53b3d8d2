package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Limits on what a package's own files may ask for. Real packages stay far below all of them.
const (
	maxJSON   = 16 << 20 // tokenizer side files excepted, which their own package reads
	maxDepth  = 64
	maxLayers = 1024
	maxVocab  = 1 << 24
	maxHidden = 1 << 17
	maxText   = 1 << 20 // scripts, templates, post_config
)

// object is a JSON object read leniently: a key of the wrong type counts as an error only for the
// getter that asks for it.
type object map[string]json.RawMessage

// parseObject reads one JSON object after bounding its size and depth, since encoding/json bounds
// only depth, and at ten thousand.
func parseObject(data []byte) (object, error) {
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	var o object
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	return o, nil
}

func checkJSON(data []byte) error {
	if len(data) > maxJSON {
		return fmt.Errorf("JSON of %d bytes, limit %d", len(data), maxJSON)
	}
	depth, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("JSON nested deeper than %d", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// get returns the first of the keys that is there and not null.
func (o object) get(keys ...string) (json.RawMessage, bool) {
	for _, k := range keys {
		if v, ok := o[k]; ok && !bytes.Equal(bytes.TrimSpace(v), []byte("null")) {
			return v, true
		}
	}
	return nil, false
}

// any says whether one of the keys is there, whatever it says.
func (o object) any(keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { _, ok := o[k]; return ok })
}

func (o object) str(keys ...string) string {
	v, ok := o.get(keys...)
	if !ok {
		return ""
	}
	var s string
	if json.Unmarshal(v, &s) != nil {
		return strings.TrimSpace(string(v)) // a number where a name is expected: the oldest packages' tokenizer_type
	}
	return s
}

// num reads a whole number, also from a string. ok is false when the key is absent; err when it is
// no number, or out of [lo, hi].
func (o object) num(lo, hi int64, keys ...string) (n int64, ok bool, err error) {
	v, ok := o.get(keys...)
	if !ok {
		return 0, false, nil
	}
	text := strings.Trim(strings.TrimSpace(string(v)), `"`)
	if n, err = strconv.ParseInt(text, 10, 64); err != nil {
		f, ferr := strconv.ParseFloat(text, 64)
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return 0, true, fmt.Errorf("%s is %.40q, want a whole number", keys[0], text)
		}
		n = int64(f)
	}
	if n < lo || n > hi {
		return 0, true, fmt.Errorf("%s is %d, want %d to %d", keys[0], n, lo, hi)
	}
	return n, true, nil
}

// float reads a finite number; nil when absent or not one.
func (o object) float(keys ...string) *float64 {
	v, ok := o.get(keys...)
	if !ok {
		return nil
	}
	f, err := strconv.ParseFloat(strings.Trim(string(v), `" `), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}

// flag reads a boolean, which the vendor writes as true, 1 or "1"; nil when absent.
func (o object) flag(keys ...string) *bool {
	v, ok := o.get(keys...)
	if !ok {
		return nil
	}
	var b bool
	switch strings.ToLower(strings.Trim(string(v), `" `)) {
	case "true", "1", "yes", "on":
		b = true
	case "false", "0", "no", "off", "none", "":
	default:
		return nil
	}
	return &b
}

func (o object) strs(key string) []string { return decoded[[]string](o, key) }
func (o object) sub(key string) object    { return decoded[object](o, key) }

// decoded is a value of a type; its zero value where it is none.
func decoded[T any](o object, key string) (v T) {
	if raw, ok := o.get(key); ok && json.Unmarshal(raw, &v) != nil {
		return *new(T)
	}
	return v
}

// ids reads one token id or a list of them, as eos_token_id is written; negative ones, which mean
// none, are left out.
func (o object) ids(keys ...string) []int32 {
	v, ok := o.get(keys...)
	if !ok {
		return nil
	}
	var many []int32
	var one int32
	if json.Unmarshal(v, &one) == nil {
		many = []int32{one}
	} else if json.Unmarshal(v, &many) != nil {
		return nil
	}
	return slices.DeleteFunc(many, func(id int32) bool { return id < 0 })
}
