package tokenizer

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// reader pulls values out of JSON text. encoding/json would need a second for the 11 MB of Qwen3's
// file; most of it is two lists of strings that can be read in place. Once something is not what it
// should be, err says so, and nothing is left to be read.
type reader struct {
	b   []byte
	i   int
	buf []byte // the last string, where it held escapes
	err error
}

// fail notes the first error.
func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = badf("not valid JSON at byte %d: %s", r.i, what)
	}
	r.i = len(r.b)
}

func (r *reader) space() {
	for r.i < len(r.b) && (r.b[r.i] == ' ' || r.b[r.i] == '\n' || r.b[r.i] == '\t' || r.b[r.i] == '\r') {
		r.i++
	}
}

// skip consumes the character c, if that is next.
func (r *reader) skip(c byte) bool {
	r.space()
	ok := r.i < len(r.b) && r.b[r.i] == c
	if ok {
		r.i++
	}
	return ok
}

// open consumes the bracket c.
func (r *reader) open(c byte) {
	if !r.skip(c) {
		r.fail("expected " + string(c))
	}
}

// more reports whether another element follows before the closing bracket c, and consumes the comma
// or the bracket. first is true for the first element.
func (r *reader) more(c byte, first bool) bool {
	if r.err != nil || r.skip(c) {
		return false
	}
	if !first && !r.skip(',') || r.i == len(r.b) {
		r.fail("expected , or " + string(c))
	}
	return r.err == nil
}

// key reads an object's key and the colon.
func (r *reader) key() []byte {
	k := r.str()
	r.open(':')
	return k
}

// str reads a string. The result is valid until the next call.
func (r *reader) str() []byte {
	r.open('"')
	for start := r.i; r.i < len(r.b); r.i++ {
		switch c := r.b[r.i]; {
		case c == '"':
			r.i++
			return r.b[start : r.i-1]
		case c == '\\':
			return r.escaped(start)
		case c < ' ':
			r.fail("control character in a string")
		}
	}
	r.fail("string without end")
	return nil
}

// escaped reads the rest of a string that has an escape at i.
func (r *reader) escaped(start int) []byte {
	r.close()
	var s string
	if err := json.Unmarshal(r.b[start-1:r.i], &s); err != nil {
		r.fail(err.Error())
	}
	r.buf = append(r.buf[:0], s...)
	return r.buf
}

// close goes behind the quote that ends a string.
func (r *reader) close() {
	i := r.i
	for ; i < len(r.b) && r.b[i] != '"'; i++ {
		if r.b[i] == '\\' {
			i++
		}
	}
	if r.i = i + 1; r.i > len(r.b) {
		r.fail("string without end")
	}
}

// number reads a number's text.
func (r *reader) number() []byte {
	r.space()
	start := r.i
	for r.i < len(r.b) && (r.b[r.i] >= '0' && r.b[r.i] <= '9' || bytes.IndexByte([]byte("+-.eE"), r.b[r.i]) >= 0) {
		r.i++
	}
	if r.i == start {
		r.fail("expected a number")
	}
	return r.b[start:r.i]
}

func (r *reader) int() int64 {
	n, err := strconv.ParseInt(string(r.number()), 10, 64)
	if err != nil {
		r.fail("expected a whole number")
		return 0
	}
	return n
}

// value skips a value and returns its text.
func (r *reader) value() []byte {
	r.space()
	start, depth := r.i, 0
	for r.i < len(r.b) {
		c := r.b[r.i]
		if depth == 0 && bytes.IndexByte([]byte(",:]} \n\t\r"), c) >= 0 {
			break // behind a number or a word
		}
		r.i++
		switch c {
		case '"':
			r.close()
		case '{', '[':
			if depth++; depth > 64 {
				r.fail("nested more than 64 deep")
			}
		case '}', ']':
			depth--
		}
		if depth == 0 && (c == '"' || c == '}' || c == ']') {
			return r.b[start:r.i]
		}
	}
	if depth > 0 || r.i == start {
		r.fail("expected a whole value")
	}
	return r.b[start:r.i]
}

// fields returns the values of an object by key, without reading them.
func fields(b []byte) (map[string]json.RawMessage, error) {
	r := &reader{b: b}
	r.open('{')
	out := make(map[string]json.RawMessage)
	for first := true; r.more('}', first); first = false {
		name := string(r.key())
		if len(out) > 256 {
			r.fail("more than 256 keys")
		}
		out[name] = r.value()
	}
	return out, r.err
}
