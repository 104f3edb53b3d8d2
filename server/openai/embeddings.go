package openai

import (
	"encoding/base64"
	"io"
	"strings"

	"github.com/ollama/ollama/api"
	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// embedRequest is a request for vectors: OpenAI's, whose inputs may be objects with a text, a
// picture or both as Jina has them, or vLLM's, whose messages are one input.
type embedRequest struct {
	wire.EmbedRequest
	Messages   []embedMessage `json:"messages"`
	PromptName string         `json:"prompt_name"`
	InputType  string         `json:"input_type"`
}

type embedMessage struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// DecodeEmbeddings reads the body of /v1/embeddings.
func DecodeEmbeddings(b []byte) (*prompt.Vectors, error) {
	var req embedRequest
	if err := decode(b, &req, "EmbedRequest"); err != nil {
		return nil, err
	}
	switch f := req.EncodingFormat; f {
	case "", "float", "base64", "FLOAT", "BASE64", "Float", "Base64":
	default:
		return nil, body.Fail(400, "Invalid value for 'encoding_format' = %s. Supported values: ['float', 'base64'].", f)
	}
	v := &prompt.Vectors{Model: req.Model, Unnamed: prompt.ErrMissing(prompt.Missing, req.Model), Truncate: true,
		Dimensions: req.Dimensions, Type: whole, PromptName: req.PromptName,
		Write: func(w io.Writer, a prompt.Embedded) error { return writeVectors(w, &req.EmbedRequest, a) }}
	switch {
	case req.InputType == "":
	case v.PromptName == "", v.PromptName == req.InputType:
		v.PromptName = req.InputType
	default:
		return nil, body.Fail(400, "prompt_name is %q and input_type is %q: both name a prompt, set one", v.PromptName, req.InputType)
	}
	input, messages := req.Input, req.Messages
	req.Input, req.Messages = nil, nil // which the answer would keep
	switch {
	case len(messages) == 0:
		return v, readInputs(v, input)
	case input != nil:
		return nil, body.Fail(400, "the request has input and messages: send one of them")
	}
	return v, readMessages(v, messages)
}

// readInputs reads the field input.
func readInputs(v *prompt.Vectors, input any) error {
	items, ok := input.([]any)
	switch t := input.(type) {
	case string, map[string]any:
		items, ok = []any{t}, true
	case nil:
	default:
		if !ok {
			return body.Fail(400, "invalid input type")
		}
	}
	if len(items) == 0 {
		return body.Fail(400, "invalid input")
	}
	for i, item := range items {
		one := embedInput{where: body.Ours("input")}
		var err error
		switch t := item.(type) {
		case string:
			one.texts = []string{t}
		case map[string]any:
			err = one.item(t)
		default:
			err = body.Fail(400, "invalid input type")
		}
		if err != nil {
			return err
		}
		one.add(v, i)
	}
	return nil
}

// readMessages reads the field messages: one user's, whose texts and picture become one vector, and
// before it a system's, which says what the vector is for.
func readMessages(v *prompt.Vectors, messages []embedMessage) error {
	one, asked := embedInput{where: body.Ours("messages")}, false
	for i, m := range messages {
		said := embedInput{where: one.where}
		if err := said.content(m.Content); err != nil {
			return err
		}
		switch {
		case (m.Role == "system" || m.Role == "developer") && i == 0:
			if said.picture != nil {
				return body.Fail(400, "messages: a system message has text alone")
			}
			v.Instruction = said.text()
		case m.Role == "user" && !asked:
			one, asked = said, true
		case m.Role == "assistant" && asked && i == len(messages)-1 && said.picture == nil && said.text() == "":
			// vLLM's clients end with the beginning of an answer.
		default:
			return body.Fail(400, "messages must be one user message, and before it a system message if an instruction is given: "+
				"message %d has the role %q", i+1, m.Role)
		}
	}
	if !asked {
		return body.Fail(400, "messages has no user message, which holds what becomes a vector")
	}
	one.add(v, 0)
	return nil
}

// embedInput is what becomes one vector.
type embedInput struct {
	where   body.Ours // the field that it came in
	texts   []string
	picture []byte
}

func (e *embedInput) text() string { return strings.Join(e.texts, "\n") }

// add makes it input i.
func (e *embedInput) add(v *prompt.Vectors, i int) {
	v.Input = append(v.Input, e.text())
	if e.picture != nil && v.Pictures == nil {
		v.Pictures = make([][]byte, i)
	}
	if v.Pictures != nil {
		v.Pictures = append(v.Pictures, e.picture)
	}
}

// content reads a text, or a list of parts.
func (e *embedInput) content(c any) error {
	switch t := c.(type) {
	case string:
		e.texts = append(e.texts, t)
		return nil
	case []any:
		for _, p := range t {
			part, ok := p.(map[string]any)
			if !ok {
				return e.wrong()
			}
			if err := e.item(part); err != nil {
				return err
			}
		}
		return nil
	}
	return e.wrong()
}

// item reads an object that has a text, a picture, both, or a list of such objects.
func (e *embedInput) item(fields map[string]any) error {
	switch kind := fields["type"]; kind {
	case nil, "text", "image_url", "image", "input_text", "input_image":
	default:
		return body.Fail(400, "%s: a part of the type %v becomes no vector: text and image_url do", e.where, kind)
	}
	known := false
	for _, name := range []string{"text", "image", "image_url", "content"} {
		value, ok := fields[name]
		if !ok {
			continue
		}
		known = true
		if name == "content" {
			if err := e.content(value); err != nil {
				return err
			}
			continue
		}
		text, ok := value.(string)
		if in, is := value.(map[string]any); is && name != "text" {
			text, ok = in["url"].(string)
		}
		switch {
		case !ok:
			return e.wrong()
		case name == "text":
			e.texts = append(e.texts, text)
		default:
			if err := e.see(text, name == "image"); err != nil {
				return err
			}
		}
	}
	if !known {
		return e.wrong()
	}
	return nil
}

// see reads a picture: a data URL, or where bare is set base64 alone.
func (e *embedInput) see(url string, bare bool) error {
	if e.picture != nil {
		return body.Fail(400, "%s: a vector is of one picture at most", e.where)
	}
	data, isData := strings.CutPrefix(url, "data:")
	if isData {
		kind, coded, ok := strings.Cut(data, ",")
		if data = coded; !ok || !strings.HasSuffix(kind, ";base64") {
			return body.Fail(400, "%s: a data URL must have the form data:image/png;base64,…", e.where)
		}
	}
	b, err := base64.StdEncoding.DecodeString(data)
	switch {
	//rule:T12 ./server TestVectorPictures !isData && !bare => false
	case !isData && !bare, !isData && strings.Contains(url, ":"):
		return body.Fail(400, "%s: a picture must be a data URL (data:image/png;base64,…): none is fetched from an address or read "+
			"from a file", e.where)
	case err != nil, len(b) == 0:
		return body.Fail(400, "%s: a picture is no base64", e.where)
	}
	e.picture = b
	return nil
}

func (e *embedInput) wrong() error {
	return body.Fail(400, "%s: what becomes a vector is a text, or an object with text, image or image_url", e.where)
}

// writeVectors writes the body of the answer, a vector at a time, so that its text is nowhere
// whole.
func writeVectors(w io.Writer, req *wire.EmbedRequest, a prompt.Embedded) error {
	r := api.EmbedResponse{Model: req.Model, Embeddings: a.Vectors, TotalDuration: a.Total, LoadDuration: a.Load, PromptEvalCount: a.Prompt}
	if len(a.Vectors) == 0 { // of an input that only loads; Ollama's conversion has its own idea of that
		r.Embeddings = [][]float32{}
		b, err := line(wire.ToEmbeddingList(req.Model, r, req.EncodingFormat))
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	}
	one := r
	list := wire.ToEmbeddingList(req.Model, r, "float") // which shares the vectors
	list.Data = []wire.Embedding{}
	frame, err := line(list)
	if err != nil {
		return err
	}
	return body.Spread(w, frame, "data", len(a.Vectors), func(i int) any {
		one.Embeddings = a.Vectors[i : i+1]
		v := wire.ToEmbeddingList(req.Model, one, req.EncodingFormat).Data[0]
		v.Index = i
		return v
	})
}
