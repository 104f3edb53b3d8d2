package openai

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
)

// chatRequest is the body of /v1/chat/completions: Ollama's, and what axle honours in addition.
type chatRequest struct {
	wire.ChatCompletionRequest
	extra
	continuation
	Tools          ollamatype.Tools `json:"tools"`
	ResponseFormat struct {
		Type       string          `json:"type"`
		Schema     json.RawMessage `json:"schema"`
		JSONSchema *struct {
			Schema json.RawMessage `json:"schema"`
			Strict bool            `json:"strict"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

// continuation are vLLM's fields that say where the prompt ends. A last message of the assistant's
// is always gone on from, as in Ollama: they can be wrong, but change nothing.
type continuation struct {
	Answer   *bool `json:"add_generation_prompt"`
	Continue bool  `json:"continue_final_message"`
}

// check returns an error if the fields ask for a prompt that the request does not become.
func (c continuation) check(r *prompt.Request) error {
	last := r.Continues()
	switch {
	case c.Continue && c.Answer != nil && *c.Answer:
		return body.Fail(400, "continue_final_message and add_generation_prompt cannot be had together")
	case c.Continue && !last:
		return body.Fail(400, "continue_final_message wants a last message of the assistant's, without tool calls")
	case !last && c.Answer != nil && !*c.Answer:
		return body.Fail(400, "add_generation_prompt cannot be false: a prompt ends where the model's answer begins")
	}
	return nil
}

const chatName = "ChatCompletionRequest"

// readChat reads the body of /v1/chat/completions.
func readChat(from prompt.From, b []byte) (*prompt.Request, prompt.Encoder, error) {
	c, err := decodeChat(b)
	if err != nil {
		return nil, nil, err
	}
	r, err := c.request()
	if err != nil {
		return nil, nil, body.Bad(err)
	}
	n, err := c.chatChoices()
	if err == nil {
		err = c.apply(r)
	}
	if err == nil {
		err = c.continuation.check(r)
	}
	if err == nil {
		err = prompt.CheckTop(c.TopLogprobs)
	}
	if err != nil {
		return nil, nil, body.Bad(err)
	}
	return r, newChatEncoder(c, n, from.Began()), nil
}

func decodeChat(b []byte) (*chatRequest, error) {
	c := new(chatRequest)
	if err := decode(b, c, chatName); err != nil {
		return nil, err
	}
	if len(c.Messages) == 0 {
		return nil, body.Fail(400, "[] is too short - 'messages'")
	}
	return c, nil
}

// request is what the body asks in Ollama's words.
func (c *chatRequest) request() (*prompt.Request, error) {
	messages, err := c.messages()
	if err != nil {
		return nil, err
	}
	var effort string
	if c.Reasoning != nil {
		effort = c.Reasoning.Effort
	} else if c.ReasoningEffort != nil {
		effort = *c.ReasoningEffort
	}
	think, err := wire.ThinkingFromReasoningEffort(effort)
	if err != nil {
		return nil, err
	}
	r := &prompt.Request{Model: c.Model, Unnamed: prompt.ErrUnnamed, Chat: true, Loads: len(messages) == 0, RenderOnly: c.DebugRenderOnly,
		Options: options(c.Stop, c.Temperature, c.TopP), Assumes: c.Temperature == nil}
	set(r.Options, "num_predict", c.MaxTokens)
	set(r.Options, "seed", c.Seed)
	set(r.Options, "frequency_penalty", c.FrequencyPenalty)
	set(r.Options, "presence_penalty", c.PresencePenalty)
	switch strings.ToLower(strings.TrimSpace(c.ResponseFormat.Type)) {
	case "json_object":
		if r.Format, err = jsonObject("response_format", c.ResponseFormat.Schema); err != nil {
			return nil, err
		}
	case "json_schema":
		if f := c.ResponseFormat.JSONSchema; f != nil {
			r.Format = f.Schema
		}
	}
	r.Ask = ask.Request{Messages: messages, Tools: c.Tools, Truncate: true, Shift: true}
	r.Ask.Think, r.ThinkError = ollamatype.Think(think)
	r.Ask.Sampling.Logprobs, r.Ask.Sampling.TopLogprobs = c.Logprobs != nil && *c.Logprobs, c.TopLogprobs
	return r, nil
}

// options are those that OpenAI's requests always say something of.
func options(stop any, temperature, topP *float64) map[string]any {
	o := map[string]any{"temperature": 1.0, "top_p": 1.0}
	set(o, "temperature", temperature)
	set(o, "top_p", topP)
	switch stop := stop.(type) {
	case string:
		o["stop"] = []string{stop}
	case []any:
		var stops []string
		for _, s := range stop {
			if text, ok := s.(string); ok {
				stops = append(stops, text)
			}
		}
		o["stop"] = stops
	}
	return o
}

func set[T int | float32 | float64](o map[string]any, key string, v *T) {
	if v != nil {
		o[key] = *v
	}
}

// apply adds what Ollama ignores.
func (c *chatRequest) apply(r *prompt.Request) error {
	r.MaxTokens = c.MaxCompletionTokens
	r.Ask.SerialTools = c.ParallelToolCalls != nil && !*c.ParallelToolCalls
	r.Ask.Kwargs = c.Kwargs
	if f := c.ResponseFormat.JSONSchema; f != nil {
		r.Ask.Format.Strict = f.Strict
	}
	set(r.Options, "top_k", c.TopK)
	set(r.Options, "min_p", c.MinP)
	set(r.Options, "repeat_penalty", c.RepetitionPenalty)
	if err := c.checkMax(); err != nil {
		return err
	}
	if err := c.think(r); err != nil {
		return err
	}
	var err error
	if r.Ask.ToolChoice, err = toolChoice(c.ToolChoice, r.Ask.Tools); err != nil {
		return err
	}
	r.Ask.Sampling.LogitBias, err = logitBias(c.LogitBias)
	return err
}

// think reads the switches of other servers, which count where reasoning_effort says nothing.
func (c *chatRequest) think(r *prompt.Request) error {
	on := c.EnableThinking
	if v, ok := c.Kwargs["enable_thinking"]; ok && on == nil {
		var is bool
		if json.Unmarshal(v, &is) == nil {
			on = &is
		}
	}
	to := func(on bool) {
		r.Ask.Think = ask.ThinkOff
		if on {
			r.Ask.Think = ask.ThinkOn
		}
	}
	switch mode := strings.ToLower(c.ThinkingMode); {
	case r.Ask.Think != ask.ThinkDefault || r.ThinkError != nil:
	case on != nil:
		to(*on)
		r.RelaxThink = true
	case mode == "think" || mode == "on" || mode == "enabled" || mode == "true":
		to(true)
		r.RelaxThink = true
	case mode == "no_think" || mode == "off" || mode == "disabled" || mode == "false":
		to(false)
	case mode != "" && mode != "auto":
		return body.Fail(400, "invalid thinking_mode value: %q (must be \"think\", \"no_think\" or \"auto\")", c.ThinkingMode)
	}
	return nil
}

var errMessage = errors.New("invalid message format")

// messages are the conversation. Messages of no parts are left out, as Ollama does; those that mean
// something all the same, tools' results and calls, have an empty text.
func (c *chatRequest) messages() (out []ask.Message, err error) {
	for i := range c.Messages {
		m := &c.Messages[i]
		said := ask.Message{Role: strings.ToLower(m.Role), ToolCallID: m.ToolCallID}
		if said.Role == "developer" {
			said.Role = "system"
		}
		switch content := m.Content.(type) {
		case string:
			said.Content, said.Thinking = content, m.Reasoning
		case []any:
			if len(content) == 0 && len(m.ToolCalls) == 0 && said.Role != "tool" {
				continue
			}
			if err := parts(&said, content); err != nil {
				return nil, err
			}
			if len(m.ToolCalls) > 0 || len(content) == 0 {
				said.Thinking = m.Reasoning
			}
		default: // only beside calls may there be none
			if m.ToolCalls == nil {
				return nil, fmt.Errorf("invalid message content type: %T", content)
			}
			said.Null, said.Thinking = true, m.Reasoning
		}
		if said.Role == "tool" && !said.Null {
			said.ToolName = c.toolName(m)
		}
		for _, call := range m.ToolCalls {
			args, err := ollamatype.Arguments(call.Function.Arguments)
			if err != nil {
				return nil, errors.New("invalid tool call arguments")
			}
			said.ToolCalls = append(said.ToolCalls, ask.ToolCall{ID: call.ID, Name: call.Function.Name, Arguments: args})
		}
		out = append(out, said)
	}
	return out, nil
}

// parts puts the parts of a content together: its texts, a line each, its pictures, and where there
// are any the order of both.
func parts(m *ask.Message, content []any) error {
	var texts []string
	for _, c := range content {
		data, ok := c.(map[string]any)
		if !ok {
			return errMessage
		}
		part := ask.Part{Image: data["type"] != "text"}
		if part.Image {
			img, err := picture(data)
			if err != nil {
				return err
			}
			m.Images = append(m.Images, img)
		} else if part.Text, ok = data["text"].(string); !ok {
			return errMessage
		} else if part.Text != "" {
			texts = append(texts, part.Text)
		}
		m.Parts = append(m.Parts, part)
	}
	m.Content = strings.Join(texts, "\n")
	if len(m.Images) == 0 || len(content) < 2 {
		m.Parts = nil
	}
	return nil
}

// picture is a part that is no text. Sound goes the same way, and is refused by what reads it.
func picture(data map[string]any) ([]byte, error) {
	switch data["type"] {
	case "image_url":
		url, ok := data["image_url"].(string)
		if in, is := data["image_url"].(map[string]any); is {
			url, ok = in["url"].(string)
		}
		if !ok {
			return nil, errMessage
		}
		return decodeImage(url)
	case "input_audio":
		in, ok := data["input_audio"].(map[string]any)
		if !ok {
			return nil, errors.New("invalid input_audio format")
		}
		text, ok := in["data"].(string)
		if !ok {
			return nil, errors.New("invalid input_audio format: missing data")
		}
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("invalid input_audio base64 data: %w", err)
		}
		return b, nil
	}
	return nil, errMessage
}

// decodeImage reads a picture's data URL.
func decodeImage(url string) ([]byte, error) {
	if strings.HasPrefix(url, "http://") || strings.HasPrefix(url, "https://") {
		return nil, errors.New("image URLs are not currently supported, please use base64 encoded data instead")
	}
	for _, kind := range []string{"", "image/jpeg", "image/jpg", "image/png", "image/webp"} {
		if data, ok := strings.CutPrefix(url, "data:"+kind+";base64,"); ok {
			if b, err := base64.StdEncoding.DecodeString(data); err == nil {
				return b, nil
			}
			break
		}
	}
	return nil, errors.New("invalid image input")
}

// toolName is the tool whose result a message is: the one that it names, or the one that was called
// last under its id.
func (c *chatRequest) toolName(m *wire.Message) string {
	if m.Name != "" || m.ToolCallID == "" {
		return m.Name
	}
	for i := len(c.Messages) - 1; i >= 0; i-- {
		for _, call := range c.Messages[i].ToolCalls {
			if call.ID == m.ToolCallID {
				return call.Function.Name
			}
		}
	}
	return ""
}
