// Package chat turns conversations into the pieces a model reads, and what a model writes back into
// thinking, tool calls and text.
//
// Templates, families and tools are immutable once built, and any goroutine may use them at any
// time. A [Parser] belongs to one answer and one goroutine. Nothing needs closing.
package chat

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/axle-llm/axle/ask"
)

// What a conversation is made of is package ask's.
type (
	Message      = ask.Message
	Part         = ask.Part
	ToolCall     = ask.ToolCall
	Tool         = ask.Tool
	Think        = ask.Think
	Conversation = ask.Conversation
	Piece        = ask.Piece
	Capabilities = ask.Capabilities
)

// Template renders conversations. Render fails when the template itself raises an exception or
// meets a value it cannot print (the error names the template and what it said), with [ErrBudget]
// where it does not come to an end, with [ErrRoom] where too many large prompts are rendered at
// once, and with ctx's error.
type Template interface {
	Render(ctx context.Context, c Conversation) ([]Piece, error)
	// Generate renders a bare prompt for /api/generate: system may be empty, suffix is for
	// fill-in-the-middle.
	Generate(ctx context.Context, system, prompt, suffix string, think Think) ([]Piece, error)
	Capabilities() Capabilities
	// Source is the template's own text, as /api/show prints it.
	Source() string
	// Family names the output format, for [NewParser].
	Family() string
}

// The zero Think leaves the choice to the template.
const (
	ThinkDefault = ask.ThinkDefault
	ThinkOn      = ask.ThinkOn
	ThinkOff     = ask.ThinkOff
	ThinkLow     = ask.ThinkLow
	ThinkMedium  = ask.ThinkMedium
	ThinkHigh    = ask.ThinkHigh
	ThinkMax     = ask.ThinkMax
)

// toolJSON is the tool as the request gave it, or as one would have that has only what is known of
// it.
func toolJSON(t Tool) ([]byte, error) {
	if len(t.Raw) > 0 {
		return t.Raw, nil
	}
	var out struct {
		Type     string `json:"type"`
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters,omitempty"`
		} `json:"function"`
	}
	out.Type = cmp.Or(t.Type, "function")
	out.Function.Name, out.Function.Description, out.Function.Parameters = t.Name, t.Description, t.Parameters
	return json.Marshal(out)
}

// Delta is the next part of an answer: at most one field is set.
type Delta struct {
	Thinking string
	Text     string
	ToolCall *ToolCall
}

// ParserOptions says what an answer may hold.
type ParserOptions struct {
	Tools []Tool // the offered tools; calls to others are dropped. Empty: no tool parsing at all
	Think Think  // ThinkOff leaves thinking tags in the text, as Ollama does
	// ThinkOpen is set when the prompt already ended inside a thinking block, so that the answer
	// begins with thinking.
	ThinkOpen bool
	ThinkTag  string // which tag that block began with, of [ThinkTags]; empty: the first
}
