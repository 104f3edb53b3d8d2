package ollama

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/ollama/ollama/api"
)

// An answer of vectors that is written in pieces is the one that is made whole.
func TestWriteVectors(t *testing.T) {
	for _, r := range []api.EmbedResponse{
		{Model: `"embeddings":[]`, Embeddings: [][]float32{{1, -0.5, 1e-9, 3e20}, {}, {0.1}}, TotalDuration: 5, LoadDuration: 6,
			PromptEvalCount: 7},
		{Embeddings: [][]float32{{2}}},
		{Model: "<m>", Embeddings: [][]float32{}},
	} {
		want, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := writeVectors(&b, r, r.Embeddings); err != nil || b.String() != string(want) {
			t.Errorf("got %s, want %s, %v", &b, want, err)
		}
		for n := range b.Len() {
			if err := writeVectors(&short{n}, r, r.Embeddings); !errors.Is(err, errShort) {
				t.Errorf("after %d bytes: %v", n, err)
			}
		}
	}
}

var errShort = errors.New("no more")

// short takes this many bytes.
type short struct{ n int }

func (s *short) Write(b []byte) (int, error) {
	if s.n -= len(b); s.n < 0 {
		return 0, errShort
	}
	return len(b), nil
}
