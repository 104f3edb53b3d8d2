package prompt

import (
	"io"
	"time"

	"github.com/axle-llm/axle/ask"
)

// Vectors is a request for vectors, whichever dialect it came in.
type Vectors struct {
	Model      string
	Unnamed    error // what is told where Model is empty
	Options    map[string]any
	KeepAlive  *time.Duration
	Input      []string // none: only the model is loaded
	Truncate   bool     // inputs that are too long are cut
	Dimensions int      // of each vector; 0: all
	Raw        bool     // vectors as the model gives them
	// Write writes the answer, a vector at a time, so that its text is nowhere whole.
	Write func(w io.Writer, a Embedded) error
	Type  string // the answer's content type
}

// Embedded answers it.
type Embedded struct {
	Vectors     [][]float32
	Total, Load time.Duration
	Prompt      int // tokens
}

// Rerank is a request to order documents, whichever dialect it came in.
type Rerank struct {
	Model     string
	Options   map[string]any
	KeepAlive *time.Duration
	Ask       ask.RerankRequest // without the context, the key and who is told of cuts
	// Write writes the answer. Error: a score that is no number, before anything is written.
	Write func(w io.Writer, r ask.Ranking) error
}
