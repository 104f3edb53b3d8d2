package anthropic

import (
	"encoding/json"
	"fmt"

	wire "github.com/ollama/ollama/anthropic"
	"github.com/ollama/ollama/api"
)

// Encoder writes a message.
type Encoder struct {
	id     string
	stream bool
	conv   *wire.StreamConverter
}

// NewEncoder makes an encoder for the answer to r.
func NewEncoder(r *Request) *Encoder {
	id := wire.GenerateMessageID()
	return &Encoder{id: id, stream: r.Stream, conv: wire.NewStreamConverter(id, r.Model, wire.EstimateInputTokens(r.MessagesRequest))}
}

func (e *Encoder) Streams() bool     { return e.stream }
func (e *Encoder) Type() string      { return "text/event-stream" }
func (e *Encoder) WholeType() string { return "application/json" }

// Chunk gives the events for a part.
func (e *Encoder) Chunk(r api.ChatResponse) ([]byte, error) {
	var out []byte
	for _, ev := range e.conv.Process(r) {
		b, err := json.Marshal(ev.Data)
		if err != nil {
			return nil, err
		}
		out = fmt.Appendf(out, "event: %s\ndata: %s\n\n", ev.Event, b)
	}
	return out, nil
}

// Whole is the body of an answer in one piece.
func (e *Encoder) Whole(r api.ChatResponse) ([]byte, error) {
	resp := wire.ToMessagesResponse(e.id, r)
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

func (e *Encoder) ErrorBody(status int, text string) []byte { return ErrorBody(status, text) }

// ErrorEnd is Anthropic's own error event, which its clients raise. (Ollama only ends the stream,
// which reads like a cut connection.)
func (e *Encoder) ErrorEnd(status int, text string) []byte {
	b, _ := json.Marshal(wire.StreamErrorEvent{Type: "error", Error: wire.NewError(status, text).Error})
	return fmt.Appendf(nil, "event: error\ndata: %s\n\n", b)
}

// Count is the body of an answer to count_tokens.
func Count(n int) []byte {
	b, _ := line(wire.CountTokensResponse{InputTokens: n})
	return b
}
