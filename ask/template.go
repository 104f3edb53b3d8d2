package ask

import (
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
	Tools     bool
	Thinking  bool
	Insert    bool // fill in the middle
	Vision    bool
	System    bool
	Audio     bool // writes speech down
	Speech    bool // speaks
	Detection bool // finds things in pictures
	Drawing   bool // draws pictures
	Faces     bool // finds faces in pictures, and tells them apart
}

// Template is the text of a template, which the engine compiles. The zero Template is the model's
// own.
type Template struct {
	Kind TemplateKind // "": TemplateGo
	Text string
}

// TemplateKind is a language that templates are written in.
type TemplateKind string

// The languages.
const (
	TemplateGo    TemplateKind = "go"    // Go's, as Ollama's models bring it
	TemplateJinja TemplateKind = "jinja" // Jinja, as Hugging Face's do
)

// TemplateError is a request's template that does not compile.
type TemplateError struct{ Err error }

func (e *TemplateError) Error() string { return e.Err.Error() }
func (e *TemplateError) Unwrap() error { return e.Err }
