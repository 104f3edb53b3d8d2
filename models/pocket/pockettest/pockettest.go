// Package pockettest holds questions to pocket with its greedy answers, for tests of everything
// that an answer passes on its way out: the engine, each dialect of the API, streamed and whole.
// `make pocket-goldens` asks the engine again and rewrites goldens.json; add questions there by
// hand.
//
// It is for tests only, and safe for concurrent use.
package pockettest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed goldens.json
var file []byte

// Case is one question. Taught is the answer that testdata/pocket teaches for it, Want the one that
// the weights in the tree give: they should be the same, but a small model errs, and a wrong answer
// is as good as a right one for comparing two ways out.
type Case struct {
	Name     string          `json:"name"`
	Think    *bool           `json:"think,omitempty"`  // nil: as the model does where it is not told
	Format   json.RawMessage `json:"format,omitempty"` // "json", or a schema
	Tools    []Tool          `json:"tools,omitempty"`
	Messages []Message       `json:"messages"`
	Taught   Answer          `json:"taught"`
	Want     Answer          `json:"want"`
}

// Tool is a function offered, in OpenAI's and Ollama's form.
type Tool struct {
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is what a tool does and takes.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// Message is a turn. A turn of role "tool" is the result of the call of the same index in the turn
// before.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content,omitempty"`
	Calls   []Call `json:"calls,omitempty"`
	Tool    string `json:"tool,omitempty"` // role "tool": the name of what was called
}

// Call is a call of a tool.
type Call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Answer is what came back. In and Out are the tokens of the prompt and of the answer; zero in what
// is taught.
type Answer struct {
	Thinking string `json:"thinking,omitempty"`
	Text     string `json:"text,omitempty"`
	Calls    []Call `json:"calls,omitempty"`
	In       int    `json:"in,omitempty"`
	Out      int    `json:"out,omitempty"`
}

// Same says whether a says what b says: its text and its calls. Thinking and counts are not
// compared.
func (a Answer) Same(b Answer) bool {
	if a.Text != b.Text || len(a.Calls) != len(b.Calls) {
		return false
	}
	for i, c := range a.Calls {
		if c.Name != b.Calls[i].Name || !bytes.Equal(c.Arguments, b.Calls[i].Arguments) {
			return false
		}
	}
	return true
}

// All gives every case, in the order of the file. JSON in them is compact.
func All() ([]Case, error) {
	var all []Case
	dec := json.NewDecoder(bytes.NewReader(file))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&all); err != nil {
		return nil, fmt.Errorf("pockettest: goldens.json: %w", err)
	}
	for i := range all {
		for _, raw := range all[i].raws() {
			if *raw == nil {
				continue
			}
			var b bytes.Buffer
			if err := json.Compact(&b, *raw); err != nil {
				return nil, fmt.Errorf("pockettest: %s: %w", all[i].Name, err)
			}
			*raw = b.Bytes()
		}
	}
	return all, nil
}

// raws are all places of a case that hold JSON.
func (c *Case) raws() []*json.RawMessage {
	out := []*json.RawMessage{&c.Format}
	for i := range c.Tools {
		out = append(out, &c.Tools[i].Function.Parameters)
	}
	calls := func(list []Call) {
		for i := range list {
			out = append(out, &list[i].Arguments)
		}
	}
	for i := range c.Messages {
		calls(c.Messages[i].Calls)
	}
	calls(c.Taught.Calls)
	calls(c.Want.Calls)
	return out
}

// Encode is the file that holds all.
func Encode(all []Case) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(all); err != nil {
		return nil, fmt.Errorf("pockettest: %w", err)
	}
	return b.Bytes(), nil
}
