package openai

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/ollama/ollama/api"
	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Responses is a request of /v1/responses.
type Responses struct {
	wire.ResponsesRequest
	Native *ollama.ChatRequest
	Forget bool // its answer is not to be kept
}

// ResponsesBody is what a body of /v1/responses asks for: an answer, or a compaction. The other is
// nil.
type ResponsesBody struct {
	Responses  *Responses
	Compaction *Compaction
}

// DecodeResponsesBody reads the body of /v1/responses.
func DecodeResponsesBody(b []byte) (a *ResponsesBody, err error) {
	a = new(ResponsesBody)
	if a.Compaction, err = DecodeTriggered(b); err == nil && a.Compaction == nil {
		a.Responses, err = DecodeResponses(b)
	}
	return a, err
}

// DecodeResponses reads the body of /v1/responses. Summaries that a compaction left in the input
// are opened. A search that the server would have to run is not offered to the model: there is no
// such service here, and a request is an answer's worth without it.
func DecodeResponses(b []byte) (*Responses, error) {
	if err := ollama.Check(b); err != nil {
		return nil, err
	}
	b, _, err := wire.ExpandResponsesCompactionInput(b)
	if err != nil {
		return nil, Control(err)
	}
	r := new(Responses)
	if err := decode(b, &r.ResponsesRequest); err != nil {
		return nil, err
	}
	asked := r.ResponsesRequest
	asked.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t wire.ResponsesTool) bool { return t.Type == "web_search" })
	native, err := wire.FromResponsesRequest(asked)
	if err != nil {
		return nil, bad(err)
	}
	if r.Text != nil && r.Text.Format != nil && r.Text.Format.Type == "json_object" { // Ollama's conversion passes it over
		if native.Format, err = jsonObject("text.format", r.Text.Format.Schema); err != nil {
			return nil, err
		}
	}
	streams := r.Stream != nil && *r.Stream
	native.Stream = &streams
	for i := range native.Messages {
		if native.Messages[i].Role = strings.ToLower(native.Messages[i].Role); native.Messages[i].Role == "developer" {
			native.Messages[i].Role = "system"
		}
	}
	r.Native = &ollama.ChatRequest{ChatRequest: *native}
	r.Native.Ordered(itemLists(r.Input.Items), "")
	var x extra
	if err := decode(b, &x); err != nil {
		return nil, err
	}
	if r.Native.ToolChoice, err = toolChoice(x.ToolChoice, native.Tools); err != nil {
		return nil, err
	}
	r.Forget = x.Store != nil && !*x.Store
	if r.Text != nil && r.Text.Format != nil {
		r.Native.Strict = r.Text.Format.Strict != nil && *r.Text.Format.Strict
	}
	r.Native.Schemas = toolSchemas(b)
	r.Native.SerialTools = x.ParallelToolCalls != nil && !*x.ParallelToolCalls
	return r, nil
}

// itemLists are the contents of input items that are lists: messages, and what tools gave.
func itemLists(items []wire.ResponsesInputItem) (out []ollama.Listed) {
	for _, item := range items {
		role, content := "tool", []wire.ResponsesContent(nil)
		switch v := item.(type) {
		case wire.ResponsesInputMessage:
			if role, content = strings.ToLower(v.Role), v.Content; role == "developer" {
				role = "system"
			}
		case wire.ResponsesFunctionCallOutput:
			content = v.OutputItems
		}
		if len(content) < 2 {
			continue
		}
		l := ollama.Listed{Role: role}
		for _, c := range content {
			switch v := c.(type) {
			case wire.ResponsesTextContent:
				l.Parts = append(l.Parts, chat.Part{Text: v.Text})
			case wire.ResponsesOutputTextContent:
				l.Parts = append(l.Parts, chat.Part{Text: v.Text})
			case wire.ResponsesImageContent:
				if v.ImageURL != "" { // those named by file are left out
					l.Parts = append(l.Parts, chat.Part{Image: true})
				}
			}
		}
		out = append(out, l)
	}
	return out
}

// toolSchemas are the functions' schemas as the body has them: Ollama's conversion keeps some
// keywords only.
func toolSchemas(b []byte) map[string]ollama.ToolSchema {
	var body struct {
		Tools []struct {
			Type       string          `json:"type"`
			Name       string          `json:"name"`
			Strict     json.RawMessage `json:"strict"`
			Parameters json.RawMessage `json:"parameters"`
		} `json:"tools"`
	}
	if json.Unmarshal(b, &body) != nil {
		return nil
	}
	out := map[string]ollama.ToolSchema{}
	for _, t := range body.Tools {
		if t.Type == "function" && len(t.Parameters) > 0 && t.Parameters[0] == '{' {
			out[t.Name] = ollama.ToolSchema{Parameters: t.Parameters, Strict: string(t.Strict) == "true"}
		}
	}
	return out
}

// ResponsesEncoder writes a response. Keep, when set, is told once of an answer that is to be kept,
// before its last bytes go out, so that a client that has them may refer to it.
type ResponsesEncoder struct {
	Keep     func(items []Item, t *Turn)
	body     Body
	req      wire.ResponsesRequest
	id, item string
	stream   bool
	conv     *wire.ResponsesStreamConverter
	seq      int

	ids          map[string]string // those of Ollama's conversion, and what stands for them
	done         []any             // items that are complete
	over, forget bool
	kept         bool
}

// NewResponsesEncoder makes an encoder for the answer to r, which came in body.
func NewResponsesEncoder(r *Responses, body Body) *ResponsesEncoder {
	e := &ResponsesEncoder{body: body, req: r.ResponsesRequest, id: ollama.ID("resp_"), item: ollama.ID("msg_"), stream: *r.Native.Stream,
		ids: map[string]string{}, forget: r.Forget}
	e.conv = wire.NewResponsesStreamConverter(e.id, e.item, r.Model, r.ResponsesRequest)
	return e
}

func (e *ResponsesEncoder) Streams() bool     { return e.stream }
func (e *ResponsesEncoder) Type() string      { return stream }
func (e *ResponsesEncoder) WholeType() string { return whole }

// Chunk gives the events for a part.
func (e *ResponsesEncoder) Chunk(r api.ChatResponse) ([]byte, error) {
	var out []byte
	var events []wire.ResponsesStreamEvent
	if len(r.Message.ToolCalls) > 0 { // text before a call is an item of its own, closed before the call's begins
		events = e.conv.FinishMessageItem()
	}
	for _, ev := range append(events, e.conv.Process(r)...) {
		e.rename(ev)
		b, err := named(ev.Event, ev.Data)
		if err != nil {
			return nil, err
		}
		e.seq++
		out = append(out, b...)
	}
	e.keep()
	return out, nil
}

// Whole is the body of an answer in one piece.
func (e *ResponsesEncoder) Whole(r api.ChatResponse) ([]byte, error) {
	resp := wire.ToResponse(e.req.Model, e.id, e.item, r, e.req)
	now := time.Now().Unix()
	resp.CompletedAt = &now
	if e.body.Previous != "" {
		resp.PreviousResponseID = &e.body.Previous
	}
	for _, item := range resp.Output {
		e.done = append(e.done, item)
	}
	e.over = true
	e.keep()
	return line(resp)
}

func (e *ResponsesEncoder) ErrorBody(status int, text string) []byte { return ErrorBody(status, text) }

// ErrorEnd is the event that ends a response which failed.
func (e *ResponsesEncoder) ErrorEnd(_ int, text string) []byte {
	b, _ := named("response.failed", map[string]any{"type": "response.failed", "sequence_number": e.seq, "response": map[string]any{
		"id": e.id, "object": "response", "created_at": time.Now().Unix(), "status": "failed", "model": e.req.Model, "output": []any{},
		"error": map[string]any{"code": "server_error", "message": text}}})
	return b
}
