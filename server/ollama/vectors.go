package ollama

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
)

// embedRequest is Ollama's with what we add: pictures, and which prompt stands before the texts.
type embedRequest struct {
	api.EmbedRequest
	Images      [][]byte `json:"images"`
	PromptName  string   `json:"prompt_name"`
	Instruction string   `json:"instruction"`
}

// DecodeEmbed reads the body of /api/embed. As Ollama does, it looks at the name's form, then at
// the input, and only then for the model.
func DecodeEmbed(b []byte) (*prompt.Vectors, error) {
	var req embedRequest
	if err := body.Decode(b, &req, asEmbed); err != nil {
		return nil, err
	}
	unnamed := prompt.ErrMissing(prompt.Missing, req.Model)
	if _, err := prompt.ParseRef(req.Model, unnamed, body.Fail(400, "invalid model name")); err != nil {
		return nil, err
	}
	input, err := prompt.Inputs(req.Input)
	if err == nil && len(req.Images) > 0 {
		if len(input) == 0 {
			input = make([]string, len(req.Images))
		}
		if len(input) != len(req.Images) {
			return nil, body.Fail(400, "images must have a picture for each input, null where one has none: there are %d for %d inputs",
				len(req.Images), len(input))
		}
	}
	return &prompt.Vectors{Model: req.Model, Unnamed: unnamed, Options: req.Options, KeepAlive: ollamatype.KeepAlive(req.KeepAlive),
		Input: input, Truncate: yes(req.Truncate), Dimensions: req.Dimensions, Type: object,
		Pictures: req.Images, PromptName: req.PromptName, Instruction: req.Instruction,
		Write: func(w io.Writer, a prompt.Embedded) error {
			return writeVectors(w, api.EmbedResponse{Model: req.Model, TotalDuration: a.Total, LoadDuration: a.Load,
				PromptEvalCount: a.Prompt}, a.Vectors)
		}}, err
}

// asEmbed names Ollama's type where the error is of one of its fields.
func asEmbed(te *json.UnmarshalTypeError) {
	te.Struct = "EmbedRequest"
	te.Field = strings.TrimPrefix(te.Field, "EmbedRequest.")
}

// writeVectors writes an answer of vectors as [json.Marshal] gives it, a vector at a time.
func writeVectors(w io.Writer, r api.EmbedResponse, vectors [][]float32) error {
	r.Embeddings = [][]float32{}
	frame, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return body.Spread(w, frame, "embeddings", len(vectors), func(i int) any { return vectors[i] })
}

// DecodeEmbeddings reads the body of /api/embeddings, the old form: one prompt, a vector as the
// model gives it.
func DecodeEmbeddings(b []byte) (*prompt.Vectors, error) {
	var req api.EmbeddingRequest
	if err := body.Decode(b, &req); err != nil {
		return nil, err
	}
	v := &prompt.Vectors{Model: req.Model, Unnamed: prompt.ErrUnnamed, Options: req.Options, KeepAlive: ollamatype.KeepAlive(req.KeepAlive),
		Truncate: true, Raw: true, Type: object, Write: writeVector}
	if req.Prompt != "" {
		v.Input = []string{req.Prompt}
	}
	return v, nil
}

func writeVector(w io.Writer, a prompt.Embedded) error {
	out := api.EmbeddingResponse{Embedding: []float64{}}
	for _, v := range a.Vectors {
		for _, n := range v {
			out.Embedding = append(out.Embedding, float64(n))
		}
	}
	b, err := json.Marshal(out)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}
