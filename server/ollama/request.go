package ollama

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/sampler"
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
	Messages []api.Message
	Template chat.Template // nil: the package's own
}

// Extra is what other dialects ask of a chat beyond Ollama's fields.
type Extra struct {
	ToolChoice   string
	SerialTools  bool
	LogitBias    map[int32]float32
	Kwargs       map[string]json.RawMessage
	RelaxThink   bool                  // thinking asked of a model that cannot is dropped, not refused
	MaxTokens    *int                  // instead of options.num_predict
	Strict       bool                  // a format that cannot be enforced whole is refused
	Schemas      map[string]ToolSchema // of tools by name, where the native request has lost some of them
	ThinkLimit   int                   // most tokens of thinking before an answer that a format binds; 0: the engine's
	ReportsTimes bool                  // the answer's usage carries the vendor's ttft_ms and decode_tps
}

// ToolSchema is a tool's schema as a dialect gave it.
type ToolSchema struct {
	Parameters json.RawMessage
	Strict     bool
}

// ChatRequest is the body of /api/chat, or what another dialect's body means.
type ChatRequest struct {
	api.ChatRequest
	Extra

	null  []bool            // message i's content was null or absent
	tools []json.RawMessage // the tools as the body gave them
	parts [][]chat.Part     // message i's content in its order; nil where it was no list with pictures
}

// GenerateRequest is the body of /api/generate.
type GenerateRequest struct {
	api.GenerateRequest
	Extra
}

// Prompt is a chat or a bare prompt, whichever dialect it came in, on its one way to the engine.
type Prompt interface {
	// Common is what both have.
	Common() Common
	// Text is how many bytes of text it holds, pictures left out.
	Text() int
	// Check refuses, before anything is loaded, what the model cannot do, pictures beyond the
	// limits and wrong options.
	Check(m Model) error
	// ToEngine is the request as the engine takes it, and whether it is a chat to it. base is the
	// loaded model's sampling; unknown options are returned for the log.
	ToEngine(base sampler.Params, m Model) (er ask.Request, isChat bool, unknown []string, err error)
}

// Common is what chats and bare prompts have in common.
type Common struct {
	Model      string
	Unnamed    error // what is told where Model is empty
	Options    map[string]any
	Format     json.RawMessage
	KeepAlive  *api.Duration
	Images     []api.ImageData
	Crowded    int  // how many of them the message has that has most
	Unloads    bool // nothing is asked but that the model goes
	Loads      bool // nothing but that it is there
	RenderOnly bool // the prompt is rendered and not answered
}

func unloads(d *api.Duration) bool { return d != nil && d.Duration == 0 }

// AsPrompt is the request itself, as other dialects' give theirs.
func (r *ChatRequest) AsPrompt() Prompt { return r }

// AsPrompt is the request itself.
func (r *GenerateRequest) AsPrompt() Prompt { return r }

// Common is the chat's part of a [Prompt].
func (r *ChatRequest) Common() Common {
	c := Common{Model: r.Model, Unnamed: ErrUnnamed, Options: r.Options, Format: r.Format, KeepAlive: r.KeepAlive,
		RenderOnly: r.DebugRenderOnly,
		Loads:      len(r.Messages) == 0, Unloads: len(r.Messages) == 0 && unloads(r.KeepAlive)}
	for _, m := range r.Messages {
		c.Images = append(c.Images, m.Images...)
		c.Crowded = max(c.Crowded, len(m.Images))
	}
	return c
}

// Common is the bare prompt's part of a [Prompt].
func (r *GenerateRequest) Common() Common {
	return Common{Model: r.Model, Unnamed: ErrMissing(Missing, r.Model), Options: r.Options, Format: r.Format, KeepAlive: r.KeepAlive,
		Images: r.Images, Crowded: len(r.Images), RenderOnly: r.DebugRenderOnly,
		Loads:   r.Prompt == "" && len(r.Images) == 0 && r.Suffix == "",
		Unloads: r.Prompt == "" && unloads(r.KeepAlive)}
}

// decodeThink decodes "think" apart from the rest, so that its errors are its own.
func decodeThink(raw json.RawMessage, to **api.ThinkValue) error {
	if len(raw) == 0 {
		return nil
	}
	if err := json.Unmarshal(raw, to); err != nil {
		return Fail(400, "%s", err)
	}
	return nil
}

// DecodeChat reads the body of /api/chat.
func DecodeChat(b []byte) (*ChatRequest, error) {
	if err := Check(b); err != nil {
		return nil, err
	}
	r := plainChat(b)
	if r == nil {
		var err error
		if r, err = decodeChat(b); err != nil {
			return nil, err
		}
	}
	r.Remember(b)
	return r, checkTop(r.TopLogprobs)
}

func decodeChat(b []byte) (*ChatRequest, error) {
	r := new(ChatRequest)
	body := struct {
		*api.ChatRequest
		Think json.RawMessage `json:"think"`
	}{ChatRequest: &r.ChatRequest}
	if err := decodeWeighed(b, &body); err != nil {
		return nil, err
	}
	return r, decodeThink(body.Think, &r.Think)
}

// plainChat is decodeChat of a body that can be taken apart; nil for any other, and for one that is
// wrong.
func plainChat(b []byte) *ChatRequest {
	p, ok := TakeApart(b)
	if !ok {
		return nil
	}
	r := new(ChatRequest)
	if p.Rest != nil {
		var err error
		if r, err = decodeChat(p.Rest); err != nil {
			return nil
		}
	}
	r.Model, r.Stream = p.Model, p.Stream
	if p.Messages != nil {
		r.Messages = make([]api.Message, len(p.Messages))
	}
	for i, m := range p.Messages {
		if m.Object == nil {
			r.Messages[i] = api.Message{Role: strings.ToLower(m.Role), Content: m.Content}
		} else if json.Unmarshal(m.Object, &r.Messages[i]) != nil {
			return nil
		}
	}
	return r
}

// Remember keeps of a body what api.ChatRequest loses: which contents were null, and the tools'
// schemas whole. The body has been decoded before, so that this cannot fail.
func (r *ChatRequest) Remember(b []byte) {
	empty := slices.ContainsFunc(r.Messages, func(m api.Message) bool { return m.Content == "" })
	if !empty && len(r.Tools) == 0 {
		return
	}
	var raw struct {
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []json.RawMessage `json:"tools"`
	}
	if json.Unmarshal(b, &raw) != nil {
		return
	}
	if len(raw.Tools) == len(r.Tools) {
		r.tools = raw.Tools
	}
	if len(raw.Messages) == len(r.Messages) {
		r.null = make([]bool, len(raw.Messages))
		for i, m := range raw.Messages {
			r.null[i] = len(m.Content) == 0 || string(m.Content) == "null"
		}
	}
}

// RememberTools keeps the tools as another dialect's body gave them.
func (r *ChatRequest) RememberTools(raw []json.RawMessage) { r.tools = raw }

// DecodeGenerate reads the body of /api/generate.
func DecodeGenerate(b []byte) (*GenerateRequest, error) {
	r := new(GenerateRequest)
	body := struct {
		*api.GenerateRequest
		Think json.RawMessage `json:"think"`
	}{GenerateRequest: &r.GenerateRequest}
	if err := Decode(b, &body); err != nil {
		return nil, err
	}
	if err := decodeThink(body.Think, &r.Think); err != nil {
		return nil, err
	}
	return r, checkTop(r.TopLogprobs)
}

func checkTop(n int) error {
	if n < 0 || n > 20 {
		return Fail(400, "top_logprobs must be between 0 and 20")
	}
	return nil
}

// Check refuses, before anything is loaded, what the model cannot do.
func (r *ChatRequest) Check(m Model) error {
	relaxed := r.Think
	if r.RelaxThink && !m.Caps.Thinking {
		relaxed = nil
	}
	if err := checkThink(relaxed, m); err != nil {
		return err
	}
	if r.Options["typical_p"] != nil {
		return Fail(400, "typical_p is no longer supported")
	}
	if m.Embedding {
		return Fail(400, "%q does not support chat", m.Asked)
	}
	if len(r.Tools) > 0 && !m.Caps.Tools {
		return Fail(400, "%s does not support tools", m.Full)
	}
	return r.Common().check(m)
}

// Check refuses, before anything is loaded, what the model cannot do.
func (r *GenerateRequest) Check(m Model) error {
	if r.Raw && (r.Template != "" || r.System != "" || len(r.Context) > 0) {
		return Fail(400, "raw mode does not support template, system, or context")
	}
	if err := checkThink(r.Think, m); err != nil {
		return err
	}
	if r.Options["typical_p"] != nil {
		return Fail(400, "typical_p is no longer supported")
	}
	if m.Embedding {
		return Fail(400, "%q does not support generate", m.Asked)
	}
	if r.Suffix != "" && !m.Caps.Insert {
		return Fail(400, "%s does not support insert", m.Full)
	}
	return r.Common().check(m)
}

func (c Common) check(m Model) error {
	if err := checkImages(c.Images, c.Crowded); err != nil {
		return err
	}
	return CheckOptions(m.Params, c.Options)
}

func checkThink(t *api.ThinkValue, m Model) error {
	if err := api.ValidateLegacyThinking(t); err != nil {
		return Fail(400, "%s", err)
	}
	if t.Bool() && !m.Caps.Thinking {
		return Fail(400, "%q does not support thinking", m.Asked)
	}
	return nil
}

func think(t *api.ThinkValue, m Model) chat.Think {
	switch {
	case t == nil || t.Value == nil || !m.Caps.Thinking:
		return chat.ThinkDefault
	case t.IsString():
		return chat.Think(t.String())
	case t.Bool():
		return chat.ThinkOn
	}
	return chat.ThinkOff
}

// Format reads the "format" field of a request.
func Format(raw json.RawMessage) (ask.Format, error) {
	switch s := string(raw); {
	case s == "" || s == "null" || s == `""`:
		return ask.Format{}, nil
	case s == `"json"`:
		return ask.Format{JSON: true}, nil
	case s[0] == '{' && json.Valid(raw):
		return ask.Format{Schema: raw}, nil
	}
	return ask.Format{}, Fail(500, "invalid format: %q; expected \"json\" or a valid JSON Schema object", raw)
}

// common fills what chats and bare prompts share. Precedence: defaults, the model's, the
// Modelfile's, the request's.
func common(er *ask.Request, base sampler.Params, m Model, opts map[string]any, format json.RawMessage, x Extra) (
	unknown []string, err error,
) {
	o := DefaultOptions(base)
	if _, err = o.Set(m.Params); err != nil {
		return nil, err
	}
	if unknown, err = o.Set(opts); err != nil {
		return unknown, err
	}
	if x.MaxTokens != nil {
		o.NumPredict = *x.MaxTokens
	}
	o.Sampling.LogitBias = x.LogitBias
	if err = o.check(); err != nil {
		return unknown, err
	}
	er.Sampling, er.Stop, er.NumCtx, er.NumKeep, er.Speculate, er.Repeatable = o.Sampling, o.Stop, o.NumCtx, o.NumKeep, o.Speculate,
		o.Repeatable
	if er.Limit = o.NumPredict; er.Limit <= 0 {
		er.Limit = -1
	}
	er.ToolChoice, er.SerialTools, er.Kwargs, er.ThinkLimit = x.ToolChoice, x.SerialTools, x.Kwargs, x.ThinkLimit
	er.Format, err = Format(format)
	er.Format.Strict = x.Strict
	return unknown, err
}

func yes(b *bool) bool { return b == nil || *b }

// ToEngine is the chat's part of a [Prompt].
func (r *ChatRequest) ToEngine(base sampler.Params, m Model) (er ask.Request, isChat bool, unknown []string, err error) {
	er = ask.Request{Template: m.Template, Think: think(r.Think, m), Truncate: yes(r.Truncate), Shift: yes(r.Shift)}
	if unknown, err = common(&er, base, m, r.Options, r.Format, r.Extra); err != nil {
		return er, true, unknown, err
	}
	er.Sampling.Logprobs, er.Sampling.TopLogprobs = r.Logprobs, 0
	if r.Logprobs {
		er.Sampling.TopLogprobs = r.TopLogprobs
	}
	if m.System != "" && (len(r.Messages) == 0 || r.Messages[0].Role != "system") {
		er.Messages = append(er.Messages, chat.Message{Role: "system", Content: m.System})
	}
	for _, msg := range m.Messages {
		er.Messages = append(er.Messages, message(msg, m, false))
	}
	for i, msg := range r.Messages {
		er.Messages = append(er.Messages, message(msg, m, i < len(r.null) && r.null[i]))
		if last := &er.Messages[len(er.Messages)-1]; len(last.Images) > 0 {
			last.Parts = r.partsOf(i)
		}
	}
	er.Tools = Tools(r.Tools, r.tools)
	for i := range er.Tools {
		if s, ok := r.Schemas[er.Tools[i].Name]; ok {
			er.Tools[i].Schema, er.Tools[i].Strict = s.Parameters, s.Strict
		}
	}
	// An assistant's turn at the end is a beginning to go on from.
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == "assistant" && len(r.Messages[n-1].ToolCalls) == 0 {
		er.Continue = true
	}
	return er, true, unknown, nil
}

func message(msg api.Message, m Model, null bool) chat.Message {
	out := chat.Message{Role: msg.Role, Content: msg.Content, Null: null, Thinking: msg.Thinking, ToolName: msg.ToolName,
		ToolCallID: msg.ToolCallID}
	for _, c := range msg.ToolCalls {
		args, err := json.Marshal(c.Function.Arguments)
		if err != nil {
			args = json.RawMessage("{}")
		}
		out.ToolCalls = append(out.ToolCalls, chat.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: args})
	}
	if m.Caps.Vision {
		for _, img := range msg.Images {
			out.Images = append(out.Images, img)
		}
	}
	return out
}

// Tools turns offered tools into the engine's; raw, where it has as many, is the text they came
// from.
func Tools(tools api.Tools, raw []json.RawMessage) []chat.Tool {
	var out []chat.Tool
	for i, t := range tools {
		ct := chat.Tool{Type: t.Type, Name: t.Function.Name, Description: t.Function.Description}
		if ct.Type == "" {
			ct.Type = "function"
		}
		if p := t.Function.Parameters; p.Type != "" || p.Properties != nil || p.Items != nil {
			ct.Parameters, _ = json.Marshal(p)
		}
		if len(raw) == len(tools) {
			var whole struct {
				Function struct {
					Parameters json.RawMessage `json:"parameters"`
					Strict     json.RawMessage `json:"strict"`
				} `json:"function"`
			}
			ct.Raw = raw[i]
			if json.Unmarshal(raw[i], &whole) == nil && len(whole.Function.Parameters) > 0 && whole.Function.Parameters[0] == '{' {
				ct.Parameters = whole.Function.Parameters
			}
			ct.Strict = string(whole.Function.Strict) == "true"
		}
		out = append(out, ct)
	}
	return out
}

// ToEngine is the bare prompt's part of a [Prompt]. It is a chat to the engine where the Modelfile
// puts messages before the prompt.
func (r *GenerateRequest) ToEngine(base sampler.Params, m Model) (er ask.Request, isChat bool, unknown []string, err error) {
	er = ask.Request{Prompt: r.Prompt, Suffix: r.Suffix, System: r.System, Raw: r.Raw, Template: m.Template, Think: think(r.Think, m),
		Truncate: yes(r.Truncate), Shift: yes(r.Shift)}
	if r.Template != "" {
		if er.Template, err = chat.NewGo(r.Template); err != nil {
			return er, false, nil, Fail(500, "%s", err)
		}
	}
	if er.System == "" && !r.Raw && r.Suffix == "" {
		er.System = m.System
	}
	for _, id := range r.Context {
		if id < 0 || int64(id) > 1<<31-1 {
			return er, false, nil, Fail(400, "context holds %d, which is no token", id)
		}
		er.Context = append(er.Context, int32(id))
	}
	if m.Caps.Vision {
		for _, img := range r.Images {
			er.Images = append(er.Images, img)
		}
	}
	if unknown, err = common(&er, base, m, r.Options, r.Format, r.Extra); err != nil {
		return er, false, unknown, err
	}
	er.Sampling.Logprobs, er.Sampling.TopLogprobs = r.Logprobs, 0
	if r.Logprobs {
		er.Sampling.TopLogprobs = r.TopLogprobs
	}
	if len(m.Messages) > 0 && !r.Raw && r.Suffix == "" && r.Template == "" && r.Context == nil {
		if er.System != "" {
			er.Messages = append(er.Messages, chat.Message{Role: "system", Content: er.System})
		}
		for _, msg := range m.Messages {
			er.Messages = append(er.Messages, message(msg, m, false))
		}
		er.Messages = append(er.Messages, chat.Message{Role: "user", Content: r.Prompt, Images: er.Images})
		er.Images = nil
		return er, true, unknown, nil
	}
	return er, false, unknown, nil
}
