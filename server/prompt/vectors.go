package prompt

import (
	"io"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
)

// maxVectorPictures is the most pictures that one request may have vectors made of.
const maxVectorPictures = 64

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
	// Pictures is nil, or has a picture for each input, nil where there is none. A picture's input
	// may be empty.
	Pictures    [][]byte
	PromptName  string // which of the model's prompts stands before each text; "": its usual one
	Instruction string // what the vectors are for; "": the model's usual one
	// Write writes the answer, a vector at a time, so that its text is nowhere whole.
	Write func(w io.Writer, a Embedded) error
	Type  string // the answer's content type
}

// Images are the pictures that there are.
func (v *Vectors) Images() (list [][]byte) {
	for _, p := range v.Pictures {
		if p != nil {
			list = append(list, p)
		}
	}
	return list
}

// Text is how many bytes of text the request holds, pictures left out.
func (v *Vectors) Text() int {
	n := len(v.PromptName) + len(v.Instruction)
	for _, text := range v.Input {
		n += len(text)
	}
	return n
}

// Check refuses, before anything is loaded, pictures that the model gives no vectors of or that are
// beyond the limits, and wrong options.
func (v *Vectors) Check(m Model) error {
	list := v.Images()
	switch {
	case len(list) > 0 && !(m.Embedding && m.Caps.Vision):
		return body.Fail(400, "%q gives no vectors of pictures: a model that does has embedding and vision among its capabilities", m.Asked)
	//rule:T7 ./server TestVectorPictures false
	case len(list) > maxVectorPictures:
		return body.Fail(400, "%d pictures are more than one request may have: send at most %d", len(list), maxVectorPictures)
	case v.Dimensions < 0:
		return body.Fail(400, "dimensions must not be negative, got %d", v.Dimensions)
	}
	if err := checkImages(list, 1); err != nil {
		return err
	}
	return CheckOptions(m.Params, v.Options)
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
