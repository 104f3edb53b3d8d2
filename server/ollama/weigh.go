package ollama

import "bytes"

// What a request body may hold (promise T7). A few bytes of JSON can become a hundred times as many in memory, so that its parts are counted
// before any of it is decoded.
const (
	MaxDepth   = 128     // deepest nesting
	MaxParts   = 1 << 16 // objects, arrays and strings
	MaxNumbers = 1 << 20 // numbers and the like
	MaxText    = 4 << 20 // bytes of strings that are no image: no context holds more
)

// Weight is what a body holds.
type Weight struct{ Bytes, Parts, Numbers, Text int }

// Cost is about how much memory a request takes from its body's decoding to its answer's end: measured, and rounded up.
func (w Weight) Cost() int64 {
	return int64(w.Bytes)*3 + int64(w.Text)*16 + int64(w.Parts)*1024 + int64(w.Numbers)*64
}

// Check fails when a body holds more than it may.
func Check(body []byte) error {
	_, err := Weigh(body)
	return err
}

// Weigh counts what a body holds, and fails when that is more than it may. It scans once and allocates nothing; what is no JSON is left to
// the decoder.
func Weigh(body []byte) (w Weight, err error) {
	w.Bytes = len(body)
	for depth, i := 0, 0; i < len(body); i++ {
		switch c := body[i]; c {
		case '"':
			n := stringEnd(body[i+1:])
			if s := body[i+1 : i+1+n]; n < 4096 || !encoded(s) {
				w.Text += n
			}
			i += n + 1
			w.Parts++
		case '{', '[':
			w.Parts++
			if depth++; depth > MaxDepth {
				return w, Fail(400, "the request body nests deeper than %d levels", MaxDepth)
			}
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
		default: // a number or a word; each begins after something else
			if i == 0 || !word(body[i-1]) {
				w.Numbers++
			}
		}
		switch {
		case w.Parts > MaxParts:
			return w, Fail(400, "the request body holds more than %d objects, lists and strings", MaxParts)
		case w.Numbers > MaxNumbers:
			return w, Fail(400, "the request body holds more than %d numbers", MaxNumbers)
		case w.Text > MaxText:
			return w, TextTooLong()
		}
	}
	return w, nil
}

// TextTooLong is the error of a request with more than [MaxText] bytes of text.
func TextTooLong() error {
	return Fail(400, "the request's text is too long: the limit is %d MiB", MaxText>>20)
}

func word(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '+' || c == '.'
}

// stringEnd is where the string that s begins within ends.
func stringEnd(s []byte) int {
	for at := 0; ; {
		n := bytes.IndexByte(s[at:], '"')
		if n < 0 {
			return len(s)
		}
		at += n
		back := 0
		for back < at && s[at-1-back] == '\\' {
			back++
		}
		if back%2 == 0 {
			return at
		}
		at++
	}
}

// encoded says whether a string may be base64, as images are: letters, digits and few signs, those of a data URL among them.
func encoded(s []byte) bool {
	for _, c := range s {
		if !word(c) && c != '/' && c != '=' && c != '_' && c != ':' && c != ';' && c != ',' && c != '\\' {
			return false
		}
	}
	return true
}
