// Package openai speaks OpenAI's API: chat completions, completions, embeddings, models and
// responses. A body becomes a [prompt.Request], and the parts of the answer OpenAI's objects. The
// wire types, and what writes answers and reads the items of responses, are Ollama's own
// (github.com/ollama/ollama/openai), so answers look like Ollama's to the byte. What Ollama ignores
// and axle honours is here: max_completion_tokens, tool_choice, logit_bias, parallel_tool_calls, n,
// best_of, echo, the completions' logprobs, and the vendor's enable_thinking, thinking_mode,
// chat_template_kwargs, usage.ttft_ms and usage.decode_tps.
//
// Functions are pure and safe for concurrent use; an encoder belongs to one answer and one
// goroutine. Nothing here holds a resource.
package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
)

// decode reads a body as Ollama's OpenAI routes do. name is that of Ollama's type, which errors
// tell.
func decode(b []byte, v any, name string) error {
	err := json.NewDecoder(bytes.NewReader(b)).Decode(v)
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) && te.Struct == reflect.TypeOf(v).Elem().Name() {
		te.Struct, te.Field = name, strings.TrimPrefix(te.Field, name+".")
		if field, ours := strings.CutPrefix(te.Field, "extra."); ours {
			te.Struct, te.Field = "extra", field
		}
	}
	if err != nil {
		return body.Fail(400, "%s", err)
	}
	return nil
}

// extra is what a chat request may hold beyond Ollama's own type.
type extra struct {
	MaxCompletionTokens *int                       `json:"max_completion_tokens"`
	ToolChoice          json.RawMessage            `json:"tool_choice"`
	LogitBias           map[string]float32         `json:"logit_bias"`
	ParallelToolCalls   *bool                      `json:"parallel_tool_calls"`
	EnableThinking      *bool                      `json:"enable_thinking"`
	ThinkingMode        string                     `json:"thinking_mode"`
	Kwargs              map[string]json.RawMessage `json:"chat_template_kwargs"`
	TopK                *float64                   `json:"top_k"`
	MinP                *float64                   `json:"min_p"`
	RepetitionPenalty   *float64                   `json:"repetition_penalty"`
	Store               *bool                      `json:"store"`
	N                   *int                       `json:"n"`
	BestOf              *int                       `json:"best_of"`
	Echo                *bool                      `json:"echo"`
}

// jsonObject is the format of a json_object that has a schema, as llama.cpp takes it, or has none:
// then any object is one. where names the format.
func jsonObject(where string, schema json.RawMessage) (json.RawMessage, error) {
	var keywords map[string]json.RawMessage
	switch {
	case len(schema) == 0 || string(schema) == "null":
	case json.Unmarshal(schema, &keywords) != nil:
		return nil, body.Fail(400, "%s.schema must be a JSON schema, an object", where)
	case len(keywords) > 0:
		return schema, nil
	}
	return json.RawMessage(`"json"`), nil
}

// checkMax checks max_completion_tokens; 0 is no limit, as with Ollama's max_tokens.
func (x extra) checkMax() error {
	if n := x.MaxCompletionTokens; n != nil && (*n < 0 || *n > math.MaxInt32) {
		return body.Fail(400, "max_completion_tokens must be between 0 and %d, got %d", math.MaxInt32, *n)
	}
	return nil
}

// toolChoice reads "none", "auto", "required", or an object that names a function.
func toolChoice(raw json.RawMessage, tools []ask.Tool) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		switch word {
		case "none", "auto", "":
			return word, nil
		case "required":
			if len(tools) == 0 {
				return "", body.Fail(400, "tool_choice is \"required\", but no tools are offered")
			}
			return word, nil
		}
		return "", body.Fail(400, "invalid tool_choice value: %q (must be \"none\", \"auto\", \"required\" or a function)", word)
	}
	var named struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	}
	if json.Unmarshal(raw, &named) != nil {
		return "", body.Fail(400, "invalid tool_choice: must be a string or an object")
	}
	name := cmp.Or(named.Function.Name, named.Name)
	if slices.ContainsFunc(tools, func(t ask.Tool) bool { return t.Name == name }) {
		return name, nil
	}
	return "", body.Fail(400, "tool_choice names %q, which is not among the tools", name)
}

// logitBias reads OpenAI's map of token ids as decimal strings.
func logitBias(in map[string]float32) (map[int32]float32, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make(map[int32]float32, len(in))
	for key, v := range in {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || id < 0 {
			return nil, body.Fail(400, "logit_bias: %q is no token id", key)
		}
		if !(v >= -100 && v <= 100) {
			return nil, body.Fail(400, "logit_bias: %v for token %s is not between -100 and 100", v, key)
		}
		out[int32(id)] = v
	}
	return out, nil
}

// ErrorBody is the body of an error.
func ErrorBody(status int, text string) []byte { return coded(status, text, "") }

// coded is the body of an error with a code; "": without one.
func coded(status int, text, code string) []byte {
	e := wire.NewError(status, text)
	if code != "" {
		e.Error.Code = &code
	}
	b, _ := line(e)
	return b
}

// ControlError is what is wrong with the items of a request to /v1/responses that control a
// compaction. It stands around what a client is told.
type ControlError struct{ error }

func (e ControlError) Unwrap() error { return e.error }

// Control makes err one.
func Control(err error) error {
	if err = body.Bad(err); err != nil {
		err = ControlError{err}
	}
	return err
}

// event is one server-sent event without a name.
func event(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("openai: %w", err)
	}
	return append(append([]byte("data: "), b...), "\n\n"...), nil
}

// named is one server-sent event with a name.
func named(name string, v any) ([]byte, error) {
	b, err := event(v)
	if err != nil {
		return nil, err
	}
	return append([]byte("event: "+name+"\n"), b...), nil
}
