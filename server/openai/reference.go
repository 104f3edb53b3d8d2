package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// Item is an item of an answer of /v1/responses, as a later request may name it.
type Item struct {
	ID   string
	JSON []byte
}

const previousID = "previous_response_id"

// Turn is what a request of /v1/responses and its answer add to a conversation.
type Turn struct {
	ID       string // of the answer
	Previous string // the answer that the request followed; "": none
	JSON     []byte // the items of both, a list
}

// Kept gives what earlier answers left behind.
type Kept interface {
	// Item is an item of an answer.
	Item(id string) ([]byte, bool)
	// Conversation is what was said up to and with an answer, the oldest first: a list of items for
	// each turn.
	Conversation(id string) (turns [][]byte, ok bool)
}

// nothing is kept.
type nothing struct{}

func (nothing) Item(string) ([]byte, bool)           { return nil, false }
func (nothing) Conversation(string) ([][]byte, bool) { return nil, false }

// reference is what a body of /v1/responses refers to, and what it brings itself.
type reference struct {
	previous string            // the answer that it follows; "": none
	own      []json.RawMessage // the items that the request brings itself
	whole    bool              // own is all of them
	grown    bool              // the body is no longer the one that came
}

// refer puts in what a request to /v1/responses refers to: items in the place of their references,
// each at most once, and before its input the conversation with the previous response that it
// names, so that a body grows by no more than what is kept. Of a body of more than a mebibyte
// nothing is kept. Errors: an item or a response that is not there (404), an item that is
// named twice.
func (r *responses) refer(kept Kept, size int) error {
	var previous *string
	if raw := r.fields[previousID]; raw != nil && json.Unmarshal(raw, &previous) != nil {
		return &ParamError{body.Fail(400, "previous_response_id must be the id of a response, a text"), previousID, ""}
	}
	if previous != nil {
		r.refers.previous = *previous
	}
	items, isList := inputItems(r.fields["input"])
	if len(r.fields["input"]) == 0 && r.refers.previous != "" {
		items = []json.RawMessage{}
	}
	if items == nil {
		return nil // what it is instead is told later
	}
	if isList {
		r.items = items
		changed, err := referItems(items, kept)
		if err != nil {
			return err
		}
		r.refers.grown = changed
	}
	if size <= tooMuchItem || r.refers.grown || r.refers.previous != "" {
		r.refers.own, r.refers.whole = items, true
	}
	if r.refers.previous == "" {
		return nil
	}
	turns, ok := kept.Conversation(r.refers.previous)
	if !ok {
		return &ParamError{body.Fail(404, "Previous response with id '%.100s' not found: the last answers are kept for ten "+
			"minutes, as long as there is room for them, those of a request with \"store\": false not at all; send the conversation "+
			"itself", r.refers.previous), previousID, "previous_response_not_found"}
	}
	var before []json.RawMessage
	for _, turn := range turns {
		var said []json.RawMessage
		if err := json.Unmarshal(turn, &said); err != nil {
			return fmt.Errorf("openai: a turn that was kept: %w", err)
		}
		before = append(before, said...)
	}
	r.items, r.refers.grown = append(before, items...), true
	delete(r.fields, previousID)
	return nil
}

// referred reads a body and weighs it again where it has grown by what it refers to.
func (a *API) referred(from prompt.From, b []byte) (*responses, error) {
	r, err := readResponses(b, keysItems{&a.items, from.Owner()})
	if err != nil || !r.refers.grown {
		return r, err
	}
	whole, err := r.body()
	switch {
	case err != nil:
		return nil, err
	case len(whole) > body.Max && len(whole) > len(b):
		return nil, body.Fail(413, "the request body is too large with what it refers to: the limit is %d MiB", body.Max>>20)
	}
	return r, from.Weigh(whole, false)
}

// inputItems are the items of a request's input; a text is a message of the user's. nil: it is
// neither.
func inputItems(raw json.RawMessage) (items []json.RawMessage, isList bool) {
	var text string
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, false
	case json.Unmarshal(raw, &items) == nil && items != nil:
		return items, true
	case json.Unmarshal(raw, &text) != nil:
		return nil, false
	}
	message, err := json.Marshal(map[string]string{"type": "message", "role": "user", "content": text})
	if err != nil {
		return nil, false
	}
	return []json.RawMessage{message}, false
}

// referItems puts items in the place of references to them.
func referItems(items []json.RawMessage, kept Kept) (changed bool, err error) {
	named := map[string]bool{}
	for i, raw := range items {
		if !bytes.Contains(raw, []byte("item_reference")) {
			continue
		}
		var ref struct{ Type, ID string }
		if json.Unmarshal(raw, &ref) != nil || ref.Type != "item_reference" {
			continue
		}
		item, ok := kept.Item(ref.ID)
		switch {
		case ref.ID == "":
			return false, body.Fail(400, "input[%d]: an item_reference needs an id", i)
		case named[ref.ID]:
			return false, body.Fail(400, "input[%d]: item '%s' is named twice", i, ref.ID)
		case !ok:
			return false, body.Fail(404,
				"input[%d]: item '%s' not found: the items of the last answers are kept for ten minutes, those of a request with "+
					"\"store\": false not at all; "+
					"send the item itself", i, ref.ID)
		}
		named[ref.ID], items[i], changed = true, item, true
	}
	return changed, nil
}

// ParamError is an error that one parameter of a request is to blame for, as OpenAI tells it. It
// stands around what a client is told.
type ParamError struct {
	err         error
	Param, Code string
}

func (e *ParamError) Error() string { return e.err.Error() }
func (e *ParamError) Unwrap() error { return e.err }

// Body is the body of the error.
func (e *ParamError) Body(status int, text string) []byte {
	w := wire.NewError(status, text)
	w.Error.Type, w.Error.Param = "invalid_request_error", e.Param
	if e.Code != "" {
		w.Error.Code = &e.Code
	}
	b, _ := line(w)
	return b
}

// rename gives the items of an event ids that cannot be guessed, where Ollama's conversion gave
// them six digits.
func (e *responsesEncoder) rename(ev wire.ResponsesStreamEvent) {
	data, ok := ev.Data.(map[string]any)
	if !ok {
		return
	}
	item, _ := data["item"].(map[string]any)
	if id, _ := item["id"].(string); ev.Event == "response.output_item.added" && !strings.HasPrefix(id, "msg_") {
		prefix, _, _ := strings.Cut(id, "_")
		e.ids[id] = body.ID(prefix + "_")
	}
	for m, key := range map[*map[string]any]string{&data: "item_id", &item: "id"} {
		if old, _ := (*m)[key].(string); e.ids[old] != "" {
			(*m)[key] = e.ids[old]
		}
	}
	if response, ok := data["response"].(map[string]any); ok && e.refers.previous != "" {
		response[previousID] = e.refers.previous
	}
	if ev.Event == "response.output_item.done" && item != nil {
		e.done = append(e.done, item)
	}
	e.over = e.over || ev.Event == "response.completed"
}

// keep tells the API of an answer that has come to its end, unless the request did
// not want it kept.
func (e *responsesEncoder) keep() {
	if !e.over || e.forget || e.kept || e.keepFor == nil {
		return
	}
	e.kept = true
	e.keepFor(e.items(), e.turn())
}

func (e *responsesEncoder) items() (out []Item) {
	for _, item := range e.done {
		b, err := json.Marshal(item)
		var of struct{ ID string }
		if err == nil && json.Unmarshal(b, &of) == nil && of.ID != "" {
			out = append(out, Item{of.ID, b})
		}
	}
	return out
}

// turn is what the request and its answer add to a conversation; nil where the request brought more
// than is kept.
func (e *responsesEncoder) turn() *Turn {
	if !e.refers.whole {
		return nil
	}
	all := slices.Clip(e.refers.own)
	for _, item := range e.done {
		raw, err := json.Marshal(item)
		if err != nil {
			return nil
		}
		all = append(all, raw)
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return &Turn{ID: e.id, Previous: e.refers.previous, JSON: raw}
}
