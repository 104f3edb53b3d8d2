// Package ollama speaks Ollama's native API: request bodies to engine requests, engine events to
// response objects. The wire types are Ollama's own (github.com/ollama/ollama/api); this package
// holds only functions over them and knows nothing of HTTP but status codes, which errors carry as
// [api.StatusError].
//
// The functions are pure and safe for concurrent use; an [Answer] belongs to one answer and one
// goroutine. Nothing here holds a resource.
package ollama

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Decode reads a body's first JSON value into v, with Ollama's error texts: null fields are as
// absent ones, unknown fields are ignored, and what follows the value is too.
func Decode(body []byte, v any) error {
	if err := Check(body); err != nil {
		return err
	}
	return decodeWeighed(body, v)
}

// decodeWeighed is Decode of a body that has been checked.
func decodeWeighed(body []byte, v any) error {
	err := json.Unmarshal(body, v) // needs none of a Decoder's buffers, and touches nothing where the body is not one whole value
	if errors.As(err, new(*json.SyntaxError)) {
		err = json.NewDecoder(bytes.NewReader(body)).Decode(v) // as in Ollama: what follows the first value is not read
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
