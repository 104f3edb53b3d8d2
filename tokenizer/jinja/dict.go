package jinja

import (
	"math"
	"slices"

	"github.com/axle-llm/axle/tokenizer/origin"
)

// Dict is a mapping that keeps the order in which its keys came. Its zero value is empty. The code
// that makes a Dict fills it; templates cannot change it.
type Dict struct {
	keys, values []Value
	index        map[any]int // only for more than a few keys
}

// few is how many keys are looked through one by one.
const few = 8

// Len is the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// Set adds a key of the program's own, as "role" is; the key counts as the template's, its value is
// what it is.
func (d *Dict) Set(key string, v Value) { d.set(origin.Own(key), v) }

// Get looks a string up.
func (d *Dict) Get(key string) (Value, bool) { return d.get(origin.Own(key)) }

func (d *Dict) set(key, v Value) {
	if i := d.find(key); i >= 0 {
		d.values[i] = v
		return
	}
	if d.index != nil {
		d.index[hash(key)] = len(d.keys)
	}
	d.keys, d.values = append(d.keys, key), append(d.values, v)
	if d.index == nil && len(d.keys) > few {
		d.index = make(map[any]int, 2*len(d.keys))
		for i, k := range d.keys {
			d.index[hash(k)] = i
		}
	}
}

func (d *Dict) get(key Value) (Value, bool) {
	if i := d.find(key); i >= 0 {
		return d.values[i], true
	}
	return nil, false
}

func (d *Dict) find(key Value) int {
	if d.index != nil {
		if i, ok := d.index[hash(key)]; ok {
			return i
		}
		return -1
	}
	if t, ok := key.(origin.Text); ok {
		return slices.IndexFunc(d.keys, func(k Value) bool { other, ok := k.(origin.Text); return ok && other.String() == t.String() })
	}
	h := hash(key)
	return slices.IndexFunc(d.keys, func(k Value) bool { return hash(k) == h })
}

// hash is a value that is equal for equal keys. Numbers that are equal are one key, True is 1.
func hash(v Value) any {
	switch v := v.(type) {
	case origin.Text:
		return v.String()
	case bool:
		i, _ := whole(v)
		return i
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int(v)
		}
	case *Undefined: // all of them are equal
		return (*Undefined)(nil)
	}
	return v
}

// hashable reports whether v may be the key of a dict: a text, a number, none or undefined.
func hashable(v Value) bool {
	switch v.(type) {
	case nil, bool, int, float64, origin.Text, *Undefined:
		return true
	}
	return false
}

// hashed returns a key that a dict may have, and fails for others.
func (r *run) hashed(v Value) Value {
	if !hashable(v) {
		r.failf("a key that is a %s is not supported", typeName(v))
	}
	return v
}
