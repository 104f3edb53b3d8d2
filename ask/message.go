package ask

import "encoding/json"

// Message is one turn. Content and Thinking are plain text: whatever they hold, no byte of them
// becomes a control token.
type Message struct {
	Role     string // "system", "user", "assistant", "tool", or what the template knows
	Content  string
	Null     bool     // content was null or absent: templates that tell none from "" see none
	Thinking string   // assistant only: the thinking that came before Content
	Images   [][]byte // only how many there are matters: templates of models that see print a placeholder for each
	// Parts are Content and Images in the order they came in, for templates of models that see;
	// nil: the images first. Others print Content.
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

// ToolCall is a model's request to call a tool. Arguments is a JSON object whose key order is the
// model's.
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
