package ollama

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
)

// chatBody is the body of /api/chat: Ollama's, and what of it Ollama's types lose.
type chatBody struct {
	api.ChatRequest
	messages []ask.Message
	tools    ollamatype.Tools
}

// message is one of a body's messages.
type message struct {
	api.Message
	null bool // its content was null or absent
}

// UnmarshalJSON reads a message. Errors are as Ollama's type gives them.
func (m *message) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &m.Message); err != nil || m.Content != "" {
		return err
	}
	var content struct {
		Content *string `json:"content"`
	}
	err := json.Unmarshal(b, &content)
	m.null = content.Content == nil
	return err
}

func (m *message) ask() ask.Message {
	out := ollamatype.Message(m.Message)
	out.Null = m.null
	return out
}

// decodeThink decodes "think" apart from the rest, so that its errors are its own.
func decodeThink(raw json.RawMessage) (t *api.ThinkValue, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, body.Fail(400, "%s", err)
	}
	return t, nil
}

// readChat reads the body of /api/chat.
func readChat(_ prompt.From, b []byte) (*prompt.Request, prompt.Encoder, error) {
	c, err := decodeChat(b)
	if err != nil {
		return nil, nil, err
	}
	if err := prompt.CheckTop(c.TopLogprobs); err != nil {
		return nil, nil, err
	}
	r := &prompt.Request{Model: c.Model, Unnamed: prompt.ErrUnnamed, Chat: true, Options: c.Options, Format: c.Format,
		KeepAlive: ollamatype.KeepAlive(c.KeepAlive), RenderOnly: c.DebugRenderOnly, Loads: len(c.messages) == 0}
	r.Unloads = r.Loads && r.KeepAlive != nil && *r.KeepAlive == 0
	r.Ask = ask.Request{Messages: c.messages, Tools: c.tools, Truncate: yes(c.Truncate), Shift: yes(c.Shift)}
	r.Ask.Think, r.ThinkError = ollamatype.Think(c.Think)
	r.Ask.Sampling.Logprobs, r.Ask.Sampling.TopLogprobs = c.Logprobs, c.TopLogprobs
	return r, &encoder{stream: yes(c.Stream) && !r.Loads, form: chatForm}, nil
}

func decodeChat(b []byte) (*chatBody, error) {
	c := new(chatBody)
	raw := struct {
		*api.ChatRequest
		Think    json.RawMessage  `json:"think"`
		Messages []message        `json:"messages"`
		Tools    ollamatype.Tools `json:"tools"`
	}{ChatRequest: &c.ChatRequest}
	if err := body.Decode(b, &raw, asOllama); err != nil {
		return nil, err
	}
	if raw.Messages != nil {
		c.messages = make([]ask.Message, len(raw.Messages))
	}
	for i := range raw.Messages {
		c.messages[i] = raw.Messages[i].ask()
	}
	c.tools = raw.Tools
	var err error
	c.ChatRequest.Think, err = decodeThink(raw.Think)
	return c, err
}

// asOllama makes an error about a field that is read here say what it says of Ollama's type.
func asOllama(te *json.UnmarshalTypeError) {
	if name, _, _ := strings.Cut(te.Field, "."); name != "messages" && name != "tools" {
		return
	}
	te.Field = "ChatRequest." + te.Field
	switch te.Type {
	case reflect.TypeFor[[]message]():
		te.Type = reflect.TypeFor[[]api.Message]()
	case reflect.TypeFor[ollamatype.Tools]():
		te.Type = reflect.TypeFor[api.Tools]()
	}
}

// readGenerate reads the body of /api/generate.
func readGenerate(_ prompt.From, b []byte) (*prompt.Request, prompt.Encoder, error) {
	g := new(api.GenerateRequest)
	raw := struct {
		*api.GenerateRequest
		Think json.RawMessage `json:"think"`
		pictureSize
	}{GenerateRequest: g}
	if err := body.Decode(b, &raw); err != nil {
		return nil, nil, err
	}
	think, err := decodeThink(raw.Think)
	if err == nil {
		err = prompt.CheckTop(g.TopLogprobs)
	}
	if err != nil {
		return nil, nil, err
	}
	r := &prompt.Request{Model: g.Model, Unnamed: prompt.ErrMissing(prompt.Missing, g.Model), Options: g.Options, Format: g.Format,
		KeepAlive: ollamatype.KeepAlive(g.KeepAlive), RenderOnly: g.DebugRenderOnly,
		Loads: g.Prompt == "" && len(g.Images) == 0 && g.Suffix == ""}
	r.Unloads = g.Prompt == "" && r.KeepAlive != nil && *r.KeepAlive == 0
	r.Ask = ask.Request{Prompt: g.Prompt, Suffix: g.Suffix, System: g.System, Raw: g.Raw, Template: ask.Template{Text: g.Template},
		Truncate: yes(g.Truncate), Shift: yes(g.Shift)}
	for _, img := range g.Images {
		r.Ask.Images = append(r.Ask.Images, img)
	}
	for _, id := range g.Context {
		if id < 0 || int64(id) > math.MaxInt32 {
			return nil, nil, body.Fail(400, "context holds %d, which is no token", id)
		}
		r.Ask.Context = append(r.Ask.Context, int32(id))
	}
	r.Ask.Think, r.ThinkError = ollamatype.Think(think)
	r.Ask.Sampling.Logprobs, r.Ask.Sampling.TopLogprobs = g.Logprobs, g.TopLogprobs
	e := encoder{stream: yes(g.Stream) && !r.Loads && !r.Unloads, form: generateForm}
	return r, &generateEncoder{e, r, raw.pictureSize}, nil
}

func yes(b *bool) bool { return b == nil || *b }
