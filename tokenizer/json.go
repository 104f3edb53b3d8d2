package tokenizer

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// reader pulls values out of JSON text. encoding/json would need a second for the 11 MB of Qwen3's
// file; most of it is two lists of strings that can be read in place.
type reader struct {
	b   []byte
	i   int
	buf []byte // the last string, where it held escapes
}

func (r *reader) fail(what string) error { return badf("not valid JSON at byte %d: %s", r.i, what) }

func (r *reader) space() {
	for r.i < len(r.b) && (r.b[r.i] == ' ' || r.b[r.i] == '\n' || r.b[r.i] == '\t' || r.b[r.i] == '\r') {
		r.i++
	}
}

// open consumes the bracket c.
func (r *reader) open(c byte) error {
	r.space()
	if r.i >= len(r.b) || r.b[r.i] != c {
		return r.fail("expected " + string(c))
	}
	r.i++
	return nil
}

// more reports whether another element follows before the closing bracket c, and consumes the comma
// or the bracket. first is true for the first element.
func (r *reader) more(c byte, first bool) (bool, error) {
	r.space()
	if r.i >= len(r.b) {
		return false, r.fail("unexpected end")
	}
	switch {
	case r.b[r.i] == c:
		r.i++
		return false, nil
	case first:
		return true, nil
	case r.b[r.i] == ',':
		r.i++
		return true, nil
	}
	return false, r.fail("expected , or " + string(c))
}

// key reads an object's key and the colon.
func (r *reader) key() ([]byte, error) {
	k, err := r.str()
	if err != nil {
		return nil, err
	}
	return k, r.open(':')
}

// str reads a string. The result is valid until the next call.
func (r *reader) str() ([]byte, error) {
	if err := r.open('"'); err != nil {
		return nil, err
	}
	start := r.i
	for r.i < len(r.b) {
		switch c := r.b[r.i]; {
		case c == '"':
			r.i++
			return r.b[start : r.i-1], nil
		case c == '\\':
			return r.escaped(start)
		case c < ' ':
			return nil, r.fail("control character in a string")
		}
		r.i++
	}
	return nil, r.fail("string without end")
}

// escaped reads the rest of a string that has an escape at i.
func (r *reader) escaped(start int) ([]byte, error) {
	for r.i < len(r.b) && r.b[r.i] != '"' {
		if r.b[r.i] == '\\' {
			r.i++
		}
		r.i++
	}
	if r.i >= len(r.b) {
		return nil, r.fail("string without end")
	}
	r.i++
	var s string
	if err := json.Unmarshal(r.b[start-1:r.i], &s); err != nil {
		return nil, r.fail(err.Error())
	}
	r.buf = append(r.buf[:0], s...)
	return r.buf, nil
}

// number reads a number's text.
func (r *reader) number() ([]byte, error) {
	r.space()
	start := r.i
	for r.i < len(r.b) && (r.b[r.i] >= '0' && r.b[r.i] <= '9' || bytes.IndexByte([]byte("+-.eE"), r.b[r.i]) >= 0) {
		r.i++
	}
	if r.i == start {
		return nil, r.fail("expected a number")
	}
	return r.b[start:r.i], nil
}

func (r *reader) int() (int64, error) {
	b, err := r.number()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		return 0, r.fail("expected a whole number")
	}
	return n, nil
}

// value skips a value and returns its text.
func (r *reader) value() ([]byte, error) {
	r.space()
	start, depth := r.i, 0
	for r.i < len(r.b) {
		switch c := r.b[r.i]; c {
		case '"':
			r.i++
			for {
				k := bytes.IndexByte(r.b[r.i:], '"')
				if k < 0 {
					return nil, r.fail("string without end")
				}
				r.i += k
				esc := 0
				for j := r.i - 1; r.b[j] == '\\'; j-- {
					esc++
				}
				r.i++
				if esc%2 == 0 {
					break
				}
			}
		case '{', '[':
			if depth++; depth > 64 {
				return nil, r.fail("nested more than 64 deep")
			}
			r.i++
		case '}', ']':
			if depth == 0 {
				if r.i == start {
					return nil, r.fail("expected a value")
				}
				return r.b[start:r.i], nil
			}
			depth--
			r.i++
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 && r.i > start {
				return r.b[start:r.i], nil
			}
			r.i++
		default:
			r.i++
		}
		if depth == 0 && r.i > start && (r.b[r.i-1] == '}' || r.b[r.i-1] == ']' || r.b[r.i-1] == '"') {
			return r.b[start:r.i], nil
		}
	}
	if depth > 0 || r.i == start {
		return nil, r.fail("unexpected end")
	}
	return r.b[start:r.i], nil
}

// fields returns the values of an object by key, without reading them.
func fields(b []byte) (map[string][]byte, error) {
	r := &reader{b: b}
	if err := r.open('{'); err != nil {
		return nil, err
	}
	out := make(map[string][]byte)
	for first := true; ; first = false {
		ok, err := r.more('}', first)
		if err != nil || !ok {
			return out, err
		}
		k, err := r.key()
		if err != nil {
			return nil, err
		}
		name := string(k)
		if len(out) > 256 {
			return nil, r.fail("more than 256 keys")
		}
		if out[name], err = r.value(); err != nil {
			return nil, err
		}
	}
}
