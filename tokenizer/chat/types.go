// Package chat turns conversations into the pieces a model reads, and what a model writes back into thinking, tool calls and text.
//
// Templates, families and tools are immutable once built and safe for concurrent use; a [Parser] belongs to one answer and one goroutine.
// Nothing here holds a resource, so nothing needs closing.
package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"time"
)

// Message is one turn. Content and Thinking are plain text: whatever they hold, no byte of them becomes a control token.
type Message struct {
	Role     string // "system", "user", "assistant", "tool", or what the template knows
	Content  string
	Null     bool     // content was null or absent: templates that tell none from "" see none
	Thinking string   // assistant only: the thinking that came before Content
	Images   [][]byte // only how many there are matters: templates of models that see print a placeholder for each
	// Parts are Content and Images in the order they came in, for templates of models that see; nil: the images first. Others print
	// Content.
	Parts      []Part
	ToolCalls  []ToolCall
	ToolName   string // tool results: the tool that answered
	ToolCallID string
}

// Part of a message's content: a picture, or text.
type Part struct {
	Image bool
	Text  string // where it is no picture
}

// ToolCall is a model's request to call a tool. Arguments is a JSON object whose key order is the model's.
type ToolCall struct {
	ID        string
	Name      string
	Arguments json.RawMessage
}

// Tool is a function offered to the model.
type Tool struct {
	Type        string // "function" when empty
	Name        string
	Description string
	Parameters  json.RawMessage // JSON schema, key order kept; may be empty
	Raw         json.RawMessage // the tool as the request gave it, for templates that print it whole; may be empty
	Schema      json.RawMessage // what a required call's arguments are held to; empty: Parameters
	Strict      bool            // a required call that cannot be held to all of it is refused
}

// json is the tool as the request gave it, or as one would have that has only what is known of it.
func (t Tool) json() ([]byte, error) {
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

// Think says whether the model should think before it answers, and how hard where it knows levels.
type Think string

// The zero Think leaves the choice to the template.
const (
	ThinkDefault Think = ""
	ThinkOn      Think = "true"
	ThinkOff     Think = "false"
	ThinkLow     Think = "low"
	ThinkMedium  Think = "medium"
	ThinkHigh    Think = "high"
	ThinkMax     Think = "max"
)

// Conversation is everything a template may look at.
type Conversation struct {
	Messages []Message
	Tools    []Tool
	Think    Think
	// Continue leaves the last assistant message open instead of starting a new one.
	Continue bool
	// Kwargs are further template variables (chat_template_kwargs), each a JSON value.
	Kwargs map[string]json.RawMessage
	// Now is the clock templates see (strftime_now); zero means the wall clock.
	Now time.Time
}

// Piece is a part of a rendered prompt. A control piece is tokenized with special tokens recognised, any other with specials off.
type Piece struct {
	Text    string
	Control bool
}

// Capabilities is what a template shows itself able to do.
type Capabilities struct {
	Tools    bool
	Thinking bool
	Insert   bool // fill in the middle
	Vision   bool
	System   bool
}

// Template renders conversations. Render fails when the template itself raises an exception or meets a value it cannot print (the error
// names the template and what it said), with [ErrBudget] where it does not come to an end, with [ErrRoom] where too many large prompts are
// rendered at once, and with ctx's error.
type Template interface {
	Render(ctx context.Context, c Conversation) ([]Piece, error)
	// Generate renders a bare prompt for /api/generate: system may be empty, suffix is for fill-in-the-middle.
	Generate(ctx context.Context, system, prompt, suffix string, think Think) ([]Piece, error)
	Capabilities() Capabilities
	// Source is the template's own text, as /api/show prints it.
	Source() string
	// Family names the output format, for [NewParser].
	Family() string
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
	// ThinkOpen is set when the prompt already ended inside a thinking block, so that the answer begins with thinking.
	ThinkOpen bool
	ThinkTag  string // which tag that block began with, of [ThinkTags]; empty: the first
}
