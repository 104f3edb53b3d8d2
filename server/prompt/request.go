package prompt

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Model is what a request's meaning depends on: the model it is for, and what its Modelfile says.
type Model struct {
	Asked     string // the name in the request
	Full      string // the fully qualified name
	Caps      chat.Capabilities
	Embedding bool // gives vectors only

	// Of the Modelfile.
	Params   map[string]any
	System   string
	Messages []ask.Message
	Template ask.Template // zero: the package's own
}

// Request is a prompt, whichever dialect it came in.
type Request struct {
	Model   string
	Unnamed error // what is told where Model is empty
	Chat    bool  // Ask.Messages are asked, else Ask.Prompt
	// Ask is what is asked, without what the model, its Modelfile and the options add: see
	// [Request.Engine].
	Ask     ask.Request
	Options map[string]any // by the names that Ollama has for them
	// Assumes: the option temperature is what the dialect has where the client says none. A model
	// whose package says that its answers are greedy stays so.
	Assumes   bool
	MaxTokens *int           // instead of the option num_predict
	KeepAlive *time.Duration // nil: the server's; negative: for ever
	Format    json.RawMessage

	ThinkError error // why the thinking that was asked for is none
	RelaxThink bool  // thinking asked of a model that cannot is dropped, not refused

	Loads      bool // nothing is asked but that the model is there
	Unloads    bool // nothing but that it goes
	RenderOnly bool // the prompt is rendered and not answered
	Encodes    bool // the prompt is encoded and not answered, which any model does that reads text
}

// Images are the request's pictures, and Crowded is how many of them the message has that has most.
func (r *Request) Images() (all [][]byte, crowded int) {
	if !r.Chat {
		return r.Ask.Images, len(r.Ask.Images)
	}
	for i := range r.Ask.Messages {
		all = append(all, r.Ask.Messages[i].Images...)
		crowded = max(crowded, len(r.Ask.Messages[i].Images))
	}
	return all, crowded
}

// Text is how many bytes of text the request holds, pictures left out.
func (r *Request) Text() int {
	q := &r.Ask
	text := len(q.Prompt) + len(q.Suffix) + len(q.System) + len(q.Template.Text) + len(q.ToolChoice) + optionText(r.Options)
	for i := range q.Messages {
		m := &q.Messages[i]
		text += len(m.Role) + len(m.Content) + len(m.Thinking) + len(m.ToolName) + len(m.ToolCallID)
		for _, c := range m.ToolCalls {
			text += len(c.ID) + len(c.Name) + len(c.Arguments)
		}
	}
	for i := range q.Tools {
		t := &q.Tools[i]
		if len(t.Raw) > 0 {
			text += len(t.Raw)
		} else {
			text += len(t.Name) + len(t.Description) + len(t.Parameters)
		}
	}
	for key, v := range q.Kwargs {
		text += len(key) + len(v)
	}
	return text
}

// optionText is the text of options: stop strings.
func optionText(o map[string]any) (n int) {
	switch v := o["stop"].(type) {
	case []any:
		for _, s := range v {
			s, _ := s.(string)
			n += len(s)
		}
	case []string:
		for _, s := range v {
			n += len(s)
		}
	}
	return n
}

// Check refuses, before anything is loaded, what the model cannot do, pictures beyond the limits
// and wrong options.
func (r *Request) Check(m Model) error {
	q, what := &r.Ask, "generate"
	if r.Chat {
		what = "chat"
	}
	thinks := q.Think != ask.ThinkDefault && q.Think != ask.ThinkOff
	switch {
	case !r.Chat && q.Raw && !r.Encodes && (q.Template.Text != "" || q.System != "" || len(q.Context) > 0):
		return body.Fail(400, "raw mode does not support template, system, or context")
	case r.ThinkError != nil && !(r.RelaxThink && !m.Caps.Thinking):
		return r.ThinkError
	case thinks && !m.Caps.Thinking && !r.RelaxThink:
		return body.Fail(400, "%q does not support thinking", m.Asked)
	case r.Options["typical_p"] != nil:
		return body.Fail(400, "typical_p is no longer supported")
	case m.Embedding && !r.Encodes:
		return body.Fail(400, "%q does not support %s", m.Asked, body.Ours(what))
	case elsewhere(m.Caps) != "" && !r.Loads && !r.Unloads:
		return body.Fail(400, "%q does not support %s: %s", m.Asked, body.Ours(what), body.Ours(elsewhere(m.Caps)))
	case r.Chat && len(q.Tools) > 0 && !m.Caps.Tools:
		return body.Fail(400, "%s does not support tools", m.Full)
	case !r.Chat && q.Suffix != "" && !m.Caps.Insert:
		return body.Fail(400, "%s does not support insert", m.Full)
	}
	if err := checkImages(r.Images()); err != nil {
		return err
	}
	return CheckOptions(m.Params, r.Options)
}

// elsewhere is what a model does that writes no text, and where it is asked; "": it writes.
func elsewhere(c chat.Capabilities) string {
	switch {
	case c.Audio:
		return "it writes speech down, see /v1/audio/transcriptions"
	case c.Speech:
		return "it speaks, see /v1/audio/speech"
	case c.Detection:
		return "it finds things in pictures, see /v1/vision/detection"
	case c.Faces:
		return "it finds faces in pictures"
	case c.Drawing:
		return "it draws pictures, see /v1/images/generations"
	}
	return ""
}

// Engine is the request as the engine takes it, and whether it is a chat to it: a bare prompt is
// one where the Modelfile puts messages before it. base is the loaded model's sampling. Defaults
// go before the model's settings, those before the Modelfile's, and those before the request's.
// Unknown options are returned for the log.
func (r *Request) Engine(base sampler.Params, m Model) (er ask.Request, isChat bool, unknown []string, err error) {
	er, isChat = r.Ask, r.Chat
	own := er.Template.Text != ""
	if !own {
		er.Template = m.Template
	}
	if !m.Caps.Thinking {
		er.Think = ask.ThinkDefault
	}
	if unknown, err = r.options(&er, base, m); err != nil {
		return er, isChat, unknown, err
	}
	if isChat {
		er.Messages = conversation(r.Ask.Messages, m)
		er.Continue = r.Continues()
		return er, true, unknown, nil
	}
	if er.System == "" && !er.Raw && er.Suffix == "" {
		er.System = m.System
	}
	if !m.Caps.Vision {
		er.Images = nil
	}
	if len(m.Messages) > 0 && !er.Raw && er.Suffix == "" && !own && er.Context == nil {
		if er.System != "" {
			er.Messages = append(er.Messages, ask.Message{Role: "system", Content: er.System})
		}
		er.Messages = append(er.Messages, m.Messages...)
		er.Messages = append(er.Messages, ask.Message{Role: "user", Content: er.Prompt, Images: er.Images})
		er.Images, isChat = nil, true
	}
	return er, isChat, unknown, nil
}

// Continues says whether a chat's last message is the assistant's, which is a beginning that the
// answer goes on from.
func (r *Request) Continues() bool {
	n := len(r.Ask.Messages)
	return n > 0 && r.Ask.Messages[n-1].Role == "assistant" && len(r.Ask.Messages[n-1].ToolCalls) == 0
}

// conversation is what a request's messages become to a model: its Modelfile's come first, and no
// model is given pictures that it cannot see.
func conversation(said []ask.Message, m Model) []ask.Message {
	out := said
	if m.System != "" && (len(said) == 0 || said[0].Role != "system") {
		out = append([]ask.Message{{Role: "system", Content: m.System}}, m.Messages...)
		out = append(out, said...)
	} else if len(m.Messages) > 0 {
		out = slices.Concat(m.Messages, said)
	}
	for i := range out {
		if !m.Caps.Vision {
			out[i].Images = nil
		}
		if len(out[i].Images) == 0 {
			out[i].Parts = nil
		}
	}
	return out
}

// options fills in what chats and bare prompts share.
func (r *Request) options(er *ask.Request, base sampler.Params, m Model) (unknown []string, err error) {
	o := DefaultOptions(base)
	if _, err = o.Set(m.Params); err != nil {
		return nil, err
	}
	said := r.Options
	if r.Assumes && base.Temperature == 0 {
		said = maps.Clone(said)
		delete(said, "temperature")
	}
	if unknown, err = o.Set(said); err != nil {
		return unknown, err
	}
	if r.MaxTokens != nil {
		o.NumPredict = *r.MaxTokens
	}
	told := er.Sampling // a dialect sets what is told of tokens, and which are preferred
	o.Sampling.LogitBias = told.LogitBias
	if err = o.check(); err != nil {
		return unknown, err
	}
	er.Sampling, er.Stop, er.NumCtx, er.NumKeep = o.Sampling, o.Stop, o.NumCtx, o.NumKeep
	er.Speculate, er.Repeatable = o.Speculate, o.Repeatable
	if er.Limit = o.NumPredict; er.Limit <= 0 {
		er.Limit = -1
	}
	if er.Sampling.Logprobs, er.Sampling.TopLogprobs = told.Logprobs, 0; told.Logprobs {
		er.Sampling.TopLogprobs = told.TopLogprobs
	}
	strict := er.Format.Strict
	er.Format, err = Format(r.Format)
	er.Format.Strict = strict
	return unknown, err
}

// Format reads a format: "json", or a JSON schema.
func Format(raw json.RawMessage) (ask.Format, error) {
	switch s := string(raw); {
	case s == "" || s == "null" || s == `""`:
		return ask.Format{}, nil
	case s == `"json"`:
		return ask.Format{JSON: true}, nil
	case s[0] == '{' && json.Valid(raw):
		return ask.Format{Schema: raw}, nil
	}
	return ask.Format{}, body.Fail(500, "invalid format: %q; expected \"json\" or a valid JSON Schema object", raw)
}

// CheckTop checks how many rivals of a token are to be told.
func CheckTop(n int) error {
	if n < 0 || n > sampler.MaxTopLogprobs {
		return body.Fail(400, "top_logprobs must be between 0 and %d", sampler.MaxTopLogprobs)
	}
	return nil
}
