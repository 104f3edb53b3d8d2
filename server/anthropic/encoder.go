package anthropic

import (
	"encoding/json"
	"fmt"

	wire "github.com/ollama/ollama/anthropic"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
)

// Dialect is Anthropic's API.
func Dialect() prompt.Dialect {
	return prompt.Dialect{Under: "/v1/messages", ErrorType: "application/json",
		Error: func(_ error, status int, text string) []byte { return ErrorBody(status, text) },
		Routes: []prompt.Route{
			{Path: "/v1/messages", Role: access.Ask, Read: decode},
			{Path: "/v1/messages/count_tokens", Role: access.Ask, Read: decodeCount, Tokens: count},
		}}
}

// encoder writes a message.
type encoder struct {
	id     string
	stream bool
	conv   *wire.StreamConverter
}

// newEncoder makes an encoder for the answer to r.
func newEncoder(r *wire.MessagesRequest) *encoder {
	id := wire.GenerateMessageID()
	return &encoder{id: id, stream: r.Stream, conv: wire.NewStreamConverter(id, r.Model, wire.EstimateInputTokens(*r))}
}

func (e *encoder) Streams() bool     { return e.stream }
func (e *encoder) Type() string      { return "text/event-stream" }
func (e *encoder) WholeType() string { return "application/json" }

// Chunk gives the events for a part.
func (e *encoder) Chunk(p prompt.Part) ([]byte, error) {
	var out []byte
	for _, ev := range e.conv.Process(ollamatype.Chat(p)) {
		b, err := json.Marshal(ev.Data)
		if err != nil {
			return nil, err
		}
		out = fmt.Appendf(out, "event: %s\ndata: %s\n\n", ev.Event, b)
	}
	return out, nil
}

// Whole is the body of an answer in one piece.
func (e *encoder) Whole(p prompt.Part) ([]byte, error) {
	resp := wire.ToMessagesResponse(e.id, ollamatype.Chat(p))
	if resp.Content == nil {
		resp.Content = []wire.ContentBlock{}
	}
	return line(resp)
}

func line(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(b, '\n'), err
}

// ErrorBody is the body of an error.
func ErrorBody(status int, text string) []byte {
	b, _ := line(wire.NewError(status, text))
	return b
}

func (e *encoder) ErrorBody(status int, text string) []byte { return ErrorBody(status, text) }

// ErrorEnd is Anthropic's own error event, which its clients raise. (Ollama only ends the stream,
// which reads like a cut connection.)
func (e *encoder) ErrorEnd(status int, text string) []byte {
	b, _ := json.Marshal(wire.StreamErrorEvent{Type: "error", Error: wire.NewError(status, text).Error})
	return fmt.Appendf(nil, "event: error\ndata: %s\n\n", b)
}

// count is the body of an answer to count_tokens.
func count(t prompt.Tokens) ([]byte, error) {
	return line(wire.CountTokensResponse{InputTokens: len(t.IDs)})
}
