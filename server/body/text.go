package body

import (
	"bytes"
	crand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
)

// Decode reads the first JSON value of a body that has been weighed into v, with Ollama's error
// texts: null fields are as absent ones, unknown fields are ignored, and what follows the value is
// too. fix corrects what an error of a wrong type tells, where v is not Ollama's own type.
func Decode(body []byte, v any, fix ...func(*json.UnmarshalTypeError)) error {
	err := json.Unmarshal(body, v) // needs none of a Decoder's buffers, and touches nothing where the body is not one whole value
	if errors.As(err, new(*json.SyntaxError)) {
		err = json.NewDecoder(bytes.NewReader(body)).Decode(v) // as in Ollama: what follows the first value is not read
	}
	var te *json.UnmarshalTypeError
	if len(fix) > 0 && errors.As(err, &te) {
		fix[0](te)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return Fail(400, "missing request body")
	default:
		return Fail(400, "%s", err)
	}
}

// Spread writes frame, a JSON object, with n items in its field that is an empty list. Each item is
// encoded as it is written.
func Spread(w io.Writer, frame []byte, field string, n int, item func(i int) any) error {
	mark := fmt.Appendf(nil, "%q:[", field) // within a string its quotes would be escaped
	at := bytes.Index(frame, append(mark, ']'))
	if at < 0 {
		return fmt.Errorf("body: no empty list %q in the answer", field)
	}
	at += len(mark)
	if _, err := w.Write(frame[:at]); err != nil {
		return err
	}
	for i := range n {
		b, err := json.Marshal(item(i))
		if err != nil {
			return err
		}
		if i > 0 {
			b = append([]byte{','}, b...)
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	_, err := w.Write(frame[at:])
	return err
}

// ID is a fresh id of 96 random bits, which cannot be guessed: who knows an answer's id may have
// what was kept of it.
func ID(prefix string) string {
	var b [12]byte
	_, _ = crand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}

// CallID is a fresh tool call id: call_ and eight of [a-z0-9].
func CallID() string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := []byte("call_12345678")
	for i := len("call_"); i < len(b); i++ {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}
