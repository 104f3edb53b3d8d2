package ollama

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/ollama/ollama/api"
)

// WriteVectors writes an answer of vectors as [json.Marshal] gives it, a vector at a time, so that
// its text is nowhere whole.
func WriteVectors(w io.Writer, r api.EmbedResponse) error {
	vectors := r.Embeddings
	r.Embeddings = [][]float32{}
	frame, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return Spread(w, frame, "embeddings", len(vectors), func(i int) any { return vectors[i] })
}

// Spread writes frame, a JSON object, with n items in its field that is an empty list. Each item is
// encoded as it is written.
func Spread(w io.Writer, frame []byte, field string, n int, item func(i int) any) error {
	mark := fmt.Appendf(nil, "%q:[", field) // within a string its quotes would be escaped
	at := bytes.Index(frame, append(mark, ']'))
	if at < 0 {
		return fmt.Errorf("ollama: no empty list %q in the answer", field)
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
