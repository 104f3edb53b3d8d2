package ask

import (
	"context"
	"encoding/json"
	"time"
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

// Piece is a part of a rendered prompt. A control piece is tokenized with special tokens
// recognised, any other with specials off.
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

// Template renders conversations. Render fails when the template itself raises an exception or
// meets a value it cannot print (the error names the template and what it said), with
// chat.ErrBudget where it does not come to an end, with chat.ErrRoom where too many large prompts
// are rendered at once, and with ctx's error.
type Template interface {
	Render(ctx context.Context, c Conversation) ([]Piece, error)
	// Generate renders a bare prompt for /api/generate: system may be empty, suffix is for
	// fill-in-the-middle.
	Generate(ctx context.Context, system, prompt, suffix string, think Think) ([]Piece, error)
	Capabilities() Capabilities
	// Source is the template's own text, as /api/show prints it.
	Source() string
	// Family names the output format, for chat.NewParser.
	Family() string
}
