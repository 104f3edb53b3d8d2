package ollama

import (
	"encoding/json"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
)

// Content types.
const (
	lines  = "application/x-ndjson"
	object = "application/json; charset=utf-8"
)

// Dialect is Ollama's API.
func Dialect() prompt.Dialect {
	return prompt.Dialect{Under: "/", ErrorType: object,
		Error: func(_ error, _ int, text string) []byte { return body.ErrorJSON(text) },
		Routes: []prompt.Route{
			{Path: "/api/chat", Role: access.Ask, Read: readChat},
			{Path: "/api/generate", Role: access.Ask, Read: readGenerate},
		}}
}

// form is the object that an answer is made of.
type form uint8

const (
	chatForm form = iota
	generateForm
)

// encoder writes an answer as lines of JSON, or as one object.
type encoder struct {
	Errors
	stream bool
	form   form
}

func (e *encoder) Streams() bool { return e.stream }
func (e *encoder) Type() string  { return lines }

// Chunk is a line.
func (e *encoder) Chunk(p prompt.Part) ([]byte, error) {
	b, err := e.Whole(p)
	return append(b, '\n'), err
}

// Whole is the object.
func (e *encoder) Whole(p prompt.Part) ([]byte, error) {
	if e.form == chatForm {
		return json.Marshal(ollamatype.Chat(p))
	}
	return json.Marshal(ollamatype.Generate(p))
}

// Rendered is what is told of a prompt that is not answered.
func (e *encoder) Rendered(p prompt.Part, text string, images int) any {
	if e.form == chatForm {
		return api.ChatResponse{Model: p.Model, CreatedAt: p.Created, DebugInfo: ollamatype.Debug(text, images)}
	}
	return api.GenerateResponse{Model: p.Model, CreatedAt: p.Created, DebugInfo: ollamatype.Debug(text, images)}
}

// Errors is the form of the errors of Ollama's API.
type Errors struct{}

func (Errors) WholeType() string                   { return object }
func (Errors) ErrorBody(_ int, text string) []byte { return body.ErrorJSON(text) }
func (Errors) ErrorEnd(_ int, text string) []byte  { return append(body.ErrorJSON(text), '\n') }
