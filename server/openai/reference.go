package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/server/ollama"
)

// Item is an item of an answer of /v1/responses, as a later request may name it.
type Item struct {
	ID   string
	JSON []byte
}

// Refer puts items in the place of the references to them in the input of a request to /v1/responses. find gives an item; each may be named
// once, so that a body grows by no more than what is kept. A body without references is given back as it is. Errors: a body that is empty
// or no object, an item that is not there (404), or is named twice.
func Refer(b []byte, find func(id string) ([]byte, bool)) ([]byte, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, Control(ollama.Fail(400, "missing request body"))
	}
	if !bytes.Contains(b, []byte("item_reference")) {
		return b, nil
	}
	if err := ollama.Check(b); err != nil {
		return nil, err
	}
	var req map[string]json.RawMessage
	var input []json.RawMessage
	if err := decode(b, &req); err != nil {
		return nil, err
	}
	if json.Unmarshal(req["input"], &input) != nil {
		return b, nil // a text that has the word
	}
	named := map[string]bool{}
	for i, raw := range input {
		var ref struct{ Type, ID string }
		if json.Unmarshal(raw, &ref) != nil || ref.Type != "item_reference" {
			continue
		}
		item, ok := find(ref.ID)
		switch {
		case ref.ID == "":
			return nil, ollama.Fail(400, "input[%d]: an item_reference needs an id", i)
		case named[ref.ID]:
			return nil, ollama.Fail(400, "input[%d]: item '%s' is named twice", i, ref.ID)
		case !ok:
			return nil, ollama.Fail(404,
				"input[%d]: item '%s' not found: the items of the last answers are kept for ten minutes, those of a request with "+
					"\"store\": false not at all; "+
					"send the item itself", i, ref.ID)
		}
		named[ref.ID], input[i] = true, item
	}
	if len(named) == 0 {
		return b, nil
	}
	var err error
	if req["input"], err = json.Marshal(input); err == nil {
		b, err = json.Marshal(req)
	}
	return b, bad(err)
}

// unguessed is an id that nobody guesses: who knows an item's id may have the item.
func unguessed(prefix string) string { return fmt.Sprintf("%s%d", prefix, rand.Uint64()) }

// rename gives the items of an event ids that nobody guesses, where Ollama's conversion gave them six digits.
func (e *ResponsesEncoder) rename(ev wire.ResponsesStreamEvent) {
	data, ok := ev.Data.(map[string]any)
	if !ok {
		return
	}
	item, _ := data["item"].(map[string]any)
	if id, _ := item["id"].(string); ev.Event == "response.output_item.added" && !strings.HasPrefix(id, "msg_") {
		prefix, _, _ := strings.Cut(id, "_")
		e.ids[id] = unguessed(prefix + "_")
	}
	for m, key := range map[*map[string]any]string{&data: "item_id", &item: "id"} {
		if old, _ := (*m)[key].(string); e.ids[old] != "" {
			(*m)[key] = e.ids[old]
		}
	}
	if ev.Event == "response.output_item.done" && item != nil {
		e.done = append(e.done, item)
	}
	e.over = e.over || ev.Event == "response.completed"
}

// Items are those of an answer that has come to its end, none where the request did not want them kept.
func (e *ResponsesEncoder) Items() (out []Item) {
	if !e.over || e.forget {
		return nil
	}
	for _, item := range e.done {
		b, err := json.Marshal(item)
		var of struct{ ID string }
		if err == nil && json.Unmarshal(b, &of) == nil && of.ID != "" {
			out = append(out, Item{of.ID, b})
		}
	}
	return out
}
