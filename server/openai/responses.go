package openai

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
)

// responses is the body of /v1/responses. Its fields are read once each; what it refers to has been
// put into its input.
type responses struct {
	wire.ResponsesRequest
	extra
	fields map[string]json.RawMessage
	items  []json.RawMessage // of its input
	tools  []tool
	refers reference
}

// tool is a tool as the body has it: Ollama's type keeps some keywords of its schema only.
type tool struct {
	Type         string          `json:"type"`
	Name         string          `json:"name"`
	Description  *string         `json:"description"`
	Strict       *bool           `json:"strict"`
	Parameters   json.RawMessage `json:"parameters"`
	Execution    string          `json:"execution"`
	DeferLoading *bool           `json:"defer_loading"`
	Tools        []tool          `json:"tools"`
}

func (t *tool) wire() (wire.ResponsesTool, error) {
	out := wire.ResponsesTool{Type: t.Type, Name: t.Name, Description: t.Description, Strict: t.Strict, Execution: t.Execution,
		DeferLoading: t.DeferLoading}
	if len(t.Parameters) > 0 {
		if err := json.Unmarshal(t.Parameters, &out.Parameters); err != nil {
			return out, err
		}
	}
	for i := range t.Tools {
		in, err := t.Tools[i].wire()
		if err != nil {
			return out, err
		}
		out.Tools = append(out.Tools, in)
	}
	return out, nil
}

// readResponses reads a body of /v1/responses as far as its input and its tools, and puts in what
// it refers to. The errors are those of [Control], or say what of the references is wrong.
func readResponses(b []byte, kept Kept) (*responses, error) {
	r := new(responses)
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, Control(body.Fail(400, "missing request body"))
	}
	if err := json.Unmarshal(b, &r.fields); err != nil {
		return nil, Control(fmt.Errorf("invalid Responses request: %w", err))
	}
	if err := r.refer(kept, len(b)); err != nil {
		return nil, err
	}
	return r, Control(r.read())
}

// read reads the model, the input and the tools.
func (r *responses) read() error {
	if raw, ok := r.fields["model"]; !ok || json.Unmarshal(raw, &r.Model) != nil || strings.TrimSpace(r.Model) == "" {
		return errors.New("model is required")
	}
	if raw := r.fields["stream"]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &r.Stream); err != nil {
			return fmt.Errorf("invalid stream value: %w", err)
		}
	}
	if raw := r.fields["tools"]; len(raw) > 0 {
		if err := json.Unmarshal(raw, &r.tools); err != nil {
			return fmt.Errorf("invalid tools: %w", err)
		}
	}
	for i := range r.tools {
		if r.tools[i].Type == "mcp" {
			return body.Fail(400, "tools of type mcp are not run here, and no server_url is connected to: offer a server's tools as "+
				"functions; GET /api/axle/tools/SERVER lists them and POST calls one")
		}
		t, err := r.tools[i].wire()
		if err != nil {
			return fmt.Errorf("invalid tools: %w", err)
		}
		r.Tools = append(r.Tools, t)
	}
	switch raw := r.fields["input"]; {
	case r.items != nil:
	case len(raw) == 0 || string(raw) == "null":
		return errors.New("input is required")
	case json.Unmarshal(raw, &r.Input.Text) == nil:
	default:
		return json.Unmarshal(raw, &r.Input) // which says what is wrong with it
	}
	return nil
}

// has says whether an item of the input is of a type.
func (r *responses) has(kind string) bool {
	return slices.ContainsFunc(r.items, func(raw json.RawMessage) bool { return itemType(raw) == kind })
}

func itemType(raw json.RawMessage) string {
	var of struct{ Type string }
	if json.Unmarshal(raw, &of) != nil {
		return ""
	}
	return of.Type
}

// body is the body with what it refers to.
func (r *responses) body() ([]byte, error) {
	if r.items != nil {
		var err error
		if r.fields["input"], err = json.Marshal(r.items); err != nil {
			return nil, err
		}
	}
	return json.Marshal(r.fields)
}

// expand opens the summaries that a compaction left in the input.
func (r *responses) expand() (*responses, error) {
	if !r.has("compaction") {
		return r, nil
	}
	b, err := r.body()
	if err != nil {
		return nil, err
	}
	if b, _, err = wire.ExpandResponsesCompactionInput(b); err != nil {
		return nil, Control(err)
	}
	open, err := readResponses(b, nothing{})
	if err == nil {
		open.refers = r.refers
	}
	return open, err
}

// rest reads the other fields.
func (r *responses) rest() error {
	fields := map[string]any{"background": &r.Background, "conversation": &r.Conversation, "include": &r.Include,
		"instructions": &r.Instructions, "max_output_tokens": &r.MaxOutputTokens, "reasoning": &r.Reasoning, "think": &r.Think,
		"temperature": &r.Temperature, "text": &r.Text, "top_p": &r.TopP, "truncation": &r.Truncation,
		"tool_choice": &r.ToolChoice, "store": &r.Store, "parallel_tool_calls": &r.ParallelToolCalls}
	for key, to := range fields {
		raw := r.fields[key]
		if len(raw) == 0 {
			continue
		}
		err := json.Unmarshal(raw, to)
		var te *json.UnmarshalTypeError
		if errors.As(err, &te) {
			te.Field = strings.TrimSuffix(key+"."+te.Field, ".")
			if te.Struct == "" {
				te.Struct = "ResponsesRequest"
			}
		}
		if err != nil {
			return body.Fail(400, "%s", err)
		}
	}
	if r.items == nil {
		return nil
	}
	raw, err := json.Marshal(r.items)
	if err == nil {
		err = json.Unmarshal(raw, &r.Input)
	}
	return body.Bad(err)
}

// request is what the body asks. A search that the server would have to run is not offered to the
// model: there is no such service here, and a request is an answer's worth without it.
func (r *responses) request() (*prompt.Request, error) {
	asked := r.ResponsesRequest
	asked.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(t wire.ResponsesTool) bool { return t.Type == "web_search" })
	m := &marks{nonce: rand.Text()}
	asked.Input.Items = m.put(asked.Input.Items)
	native, err := wire.FromResponsesRequest(asked)
	if err != nil {
		return nil, err
	}
	out := &prompt.Request{Model: native.Model, Unnamed: prompt.ErrUnnamed, Chat: true, Options: native.Options, Format: native.Format,
		Assumes: r.Temperature == nil, Loads: len(native.Messages) == 0}
	if r.Text != nil && r.Text.Format != nil {
		if r.Text.Format.Type == "json_object" { // Ollama's conversion passes it over
			if out.Format, err = jsonObject("text.format", r.Text.Format.Schema); err != nil {
				return nil, err
			}
		}
		out.Ask.Format.Strict = r.Text.Format.Strict != nil && *r.Text.Format.Strict
	}
	for _, msg := range native.Messages {
		said := ollamatype.Message(msg)
		if said.Role = strings.ToLower(said.Role); said.Role == "developer" {
			said.Role = "system"
		}
		m.take(&said)
		out.Ask.Messages = append(out.Ask.Messages, said)
	}
	schemas := map[string]*tool{}
	for i := range r.tools {
		if t := &r.tools[i]; t.Type == "function" && len(t.Parameters) > 0 && t.Parameters[0] == '{' {
			schemas[t.Name] = t
		}
	}
	for _, t := range native.Tools {
		offered := ollamatype.Tool(t, nil)
		if s := schemas[offered.Name]; s != nil {
			offered.Schema, offered.Strict = s.Parameters, s.Strict != nil && *s.Strict
		}
		out.Ask.Tools = append(out.Ask.Tools, offered)
	}
	out.Ask.Truncate, out.Ask.Shift = true, true
	out.Ask.Think, out.ThinkError = ollamatype.Think(native.Think)
	out.Ask.SerialTools = r.ParallelToolCalls != nil && !*r.ParallelToolCalls
	out.Ask.ToolChoice, err = toolChoice(r.ToolChoice, out.Ask.Tools)
	return out, err
}

// marks keep the places of pictures while Ollama's conversion runs, which takes the texts and the
// pictures of a content apart. Where a content has more than a picture, a random text, which no
// client can have written, stands before each picture.
type marks struct {
	nonce string
	set   bool
}

// put gives the items with their marks.
func (m *marks) put(items []wire.ResponsesInputItem) []wire.ResponsesInputItem {
	out := slices.Clone(items)
	for i, item := range out {
		switch v := item.(type) {
		case wire.ResponsesInputMessage:
			v.Content = m.content(v.Content)
			out[i] = v
		case wire.ResponsesFunctionCallOutput:
			v.OutputItems = m.content(v.OutputItems)
			out[i] = v
		}
	}
	return out
}

func (m *marks) content(in []wire.ResponsesContent) (out []wire.ResponsesContent) {
	if len(in) < 2 {
		return in
	}
	for _, c := range in {
		if v, ok := c.(wire.ResponsesImageContent); ok && v.ImageURL != "" { // those named by file are left out
			m.set = true
			out = append(out, wire.ResponsesTextContent{Type: "input_text", Text: m.nonce})
		}
		out = append(out, c)
	}
	return out
}

// take takes the marks out of a message's content, and makes its parts of them.
func (m *marks) take(msg *ask.Message) {
	if !m.set || !strings.Contains(msg.Content, m.nonce) {
		return
	}
	for i, text := range strings.Split(msg.Content, m.nonce) {
		if i > 0 {
			msg.Parts = append(msg.Parts, ask.Part{Image: true})
		}
		if text != "" {
			msg.Parts = append(msg.Parts, ask.Part{Text: text})
		}
	}
	msg.Content = strings.ReplaceAll(msg.Content, m.nonce, "")
}

// readResponses decodes the body of /v1/responses: an answer is asked for, or a compaction.
func (a *API) readResponses(from prompt.From, b []byte) (*prompt.Request, prompt.Encoder, error) {
	r, err := a.referred(from, b)
	if err != nil {
		return nil, nil, err
	}
	if r.has("compaction_trigger") {
		whole, err := r.body()
		if err != nil {
			return nil, nil, err
		}
		plan, asked, err := wire.PrepareTriggeredCompaction(whole)
		switch {
		case err != nil:
			return nil, nil, Control(err)
		case asked:
			return newCompaction(plan, true)
		}
	}
	q, r, err := r.decode()
	if err != nil {
		return nil, nil, err
	}
	e := newResponsesEncoder(r)
	e.keepFor = func(items []Item, t *Turn) { a.items.keep(from.Owner(), items, t) }
	return q, e, nil
}

// decode is the rest of the way to a request.
func (r *responses) decode() (*prompt.Request, *responses, error) {
	r, err := r.expand()
	if err != nil {
		return nil, nil, err
	}
	if err = r.rest(); err != nil {
		return nil, nil, err
	}
	q, err := r.request()
	return q, r, body.Bad(err)
}

// responsesEncoder writes a response. keepFor, when set, is told once of an answer that is to be
// kept, before its last bytes go out, so that a client that has them may refer to it.
type responsesEncoder struct {
	form
	keepFor  func(items []Item, t *Turn)
	refers   reference
	req      wire.ResponsesRequest
	id, item string
	conv     *wire.ResponsesStreamConverter
	seq      int

	ids          map[string]string // those of Ollama's conversion, and what stands for them
	done         []any             // items that are complete
	over, forget bool
	kept         bool
}

// newResponsesEncoder makes an encoder for the answer to r.
func newResponsesEncoder(r *responses) *responsesEncoder {
	e := &responsesEncoder{form: form{r.Stream != nil && *r.Stream}, refers: r.refers, req: r.ResponsesRequest, id: body.ID("resp_"),
		item: body.ID("msg_"), ids: map[string]string{}, forget: r.Store != nil && !*r.Store}
	e.conv = wire.NewResponsesStreamConverter(e.id, e.item, r.Model, r.ResponsesRequest)
	return e
}

// Chunk gives the events for a part.
func (e *responsesEncoder) Chunk(p prompt.Part) ([]byte, error) {
	var out []byte
	var events []wire.ResponsesStreamEvent
	if len(p.Calls) > 0 { // text before a call is an item of its own, closed before the call's begins
		events = e.conv.FinishMessageItem()
	}
	for _, ev := range append(events, e.conv.Process(ollamatype.Chat(p))...) {
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
func (e *responsesEncoder) Whole(p prompt.Part) ([]byte, error) {
	resp := wire.ToResponse(e.req.Model, e.id, e.item, ollamatype.Chat(p), e.req)
	resp.CompletedAt = new(time.Now().Unix())
	if e.refers.previous != "" {
		resp.PreviousResponseID = &e.refers.previous
	}
	for _, item := range resp.Output {
		e.done = append(e.done, item)
	}
	e.over = true
	e.keep()
	return line(resp)
}

// ErrorEnd is the event that ends a response which failed.
func (e *responsesEncoder) ErrorEnd(_ int, text string) []byte {
	b, _ := named("response.failed", map[string]any{"type": "response.failed", "sequence_number": e.seq, "response": map[string]any{
		"id": e.id, "object": "response", "created_at": time.Now().Unix(), "status": "failed", "model": e.req.Model, "output": []any{},
		"error": map[string]any{"code": "server_error", "message": text}}})
	return b
}
