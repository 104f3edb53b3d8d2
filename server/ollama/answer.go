package ollama

import (
	crand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/ask"
)

// Answer turns one answer's events into response objects.
type Answer struct {
	Model string        // as the request named it
	Start time.Time     // when the request came
	Load  time.Duration // how long the model took to be there
	// Usage is the engine's account, once the answer is done.
	Usage ask.Usage
	calls int
}

// Chat is the chunk for an event.
func (a *Answer) Chat(e ask.Event, now time.Time) api.ChatResponse {
	r := api.ChatResponse{Model: a.Model, CreatedAt: now.UTC(),
		Message:  api.Message{Role: "assistant", Content: e.Text, Thinking: e.Thinking},
		Logprobs: logprobs(e.Logprobs)}
	if e.ToolCall != nil {
		r.Message.ToolCalls = []api.ToolCall{a.call(e)}
	}
	if e.Done != nil {
		r.Done, r.DoneReason, r.Metrics = true, e.Done.Reason, a.metrics(e.Done, now)
	}
	return r
}

// Generate is the chunk for an event.
func (a *Answer) Generate(e ask.Event, now time.Time) api.GenerateResponse {
	r := api.GenerateResponse{Model: a.Model, CreatedAt: now.UTC(), Response: e.Text, Thinking: e.Thinking, Logprobs: logprobs(e.Logprobs)}
	if e.ToolCall != nil {
		r.ToolCalls = []api.ToolCall{a.call(e)}
	}
	if e.Done != nil {
		r.Done, r.DoneReason, r.Metrics = true, e.Done.Reason, a.metrics(e.Done, now)
		for _, id := range e.Done.Context {
			r.Context = append(r.Context, int(id))
		}
	}
	return r
}

func (a *Answer) metrics(res *ask.Result, now time.Time) api.Metrics {
	a.Usage = res.Usage
	cached := res.Usage.Cached
	decode := res.Usage.Decode
	if decode == 0 && res.Usage.Output > 0 {
		decode = time.Microsecond // one token takes no time of its own, but clients divide by it
	}
	return api.Metrics{
		TotalDuration:         now.Sub(a.Start),
		LoadDuration:          a.Load,
		PromptEvalCount:       res.Usage.Prompt,
		PromptEvalCachedCount: &cached,
		PromptEvalDuration:    res.Usage.Prefill,
		EvalCount:             res.Usage.Output,
		EvalDuration:          decode,
	}
}

// call numbers the answer's tool calls and gives each an id.
func (a *Answer) call(e ask.Event) api.ToolCall {
	c := api.ToolCall{ID: e.ToolCall.ID, Function: api.ToolCallFunction{Index: a.calls, Name: e.ToolCall.Name}}
	a.calls++
	if c.ID == "" {
		c.ID = CallID()
	}
	if c.Function.Arguments.UnmarshalJSON(e.ToolCall.Arguments) != nil {
		c.Function.Arguments = api.NewToolCallFunctionArguments()
	}
	return c
}

// ID is a fresh id of 96 random bits, which cannot be guessed: who knows an answer's id may have
// what was kept of it.
func ID(prefix string) string {
	var b [12]byte
	_, _ = crand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}

// CallID is a fresh tool call id: call_ and eight of [a-z0-9].
func CallID() string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := []byte("call_12345678")
	for i := len("call_"); i < len(b); i++ {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}

func logprobs(in []ask.Logprob) []api.Logprob {
	if len(in) == 0 {
		return nil
	}
	out := make([]api.Logprob, len(in))
	for i, l := range in {
		out[i].TokenLogprob = tokenLogprob(l)
		for _, t := range l.Top {
			out[i].TopLogprobs = append(out[i].TopLogprobs, tokenLogprob(t))
		}
	}
	return out
}

func tokenLogprob(l ask.Logprob) api.TokenLogprob {
	t := api.TokenLogprob{Token: l.Token, Logprob: float64(l.Logprob)}
	for _, b := range l.Bytes {
		t.Bytes = append(t.Bytes, int(b))
	}
	return t
}

// ChatTotal adds chunks up to the answer of a request that does not stream.
type ChatTotal struct {
	last              api.ChatResponse
	content, thinking strings.Builder
	calls             []api.ToolCall
	logprobs          []api.Logprob
}

// Add takes the next chunk.
func (t *ChatTotal) Add(r api.ChatResponse) {
	t.content.WriteString(r.Message.Content)
	t.thinking.WriteString(r.Message.Thinking)
	t.calls = append(t.calls, r.Message.ToolCalls...)
	t.logprobs = append(t.logprobs, r.Logprobs...)
	t.last = r
}

// Whole is everything added.
func (t *ChatTotal) Whole() api.ChatResponse {
	r := t.last
	r.Message.Content, r.Message.Thinking = t.content.String(), t.thinking.String()
	r.Message.ToolCalls, r.Logprobs = t.calls, t.logprobs
	return r
}

// GenerateTotal is [ChatTotal] for bare prompts.
type GenerateTotal struct {
	last              api.GenerateResponse
	content, thinking strings.Builder
	calls             []api.ToolCall
	logprobs          []api.Logprob
}

// Add takes the next chunk.
func (t *GenerateTotal) Add(r api.GenerateResponse) {
	t.content.WriteString(r.Response)
	t.thinking.WriteString(r.Thinking)
	t.calls = append(t.calls, r.ToolCalls...)
	t.logprobs = append(t.logprobs, r.Logprobs...)
	t.last = r
}

// Whole is everything added.
func (t *GenerateTotal) Whole() api.GenerateResponse {
	r := t.last
	r.Response, r.Thinking, r.ToolCalls, r.Logprobs = t.content.String(), t.thinking.String(), t.calls, t.logprobs
	return r
}

// ErrorBody is the body of an error.
func ErrorBody(text string) []byte {
	b, _ := json.Marshal(map[string]string{"error": text})
	return b
}
