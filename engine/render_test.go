package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestRenderFails: a template without an end is the request's fault, one that found no room is told
// to come again, and both end with their request.
func TestRenderFails(t *testing.T) {
	m := New(&parrot{say: "x"}, Options{})
	for err, want := range map[error]error{chat.ErrBudget: ErrRequest, chat.ErrRoom: ErrBusy} {
		r := Request{Messages: []chat.Message{{Role: "user", Content: "q"}}, Template: stubborn{err}}
		if _, _, got := collect(m.Chat(t.Context(), r)); !errors.Is(got, want) || !errors.Is(got, err) {
			t.Errorf("%v: %v", err, got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, got := m.Count(ctx, r); !errors.Is(got, context.Canceled) {
			t.Errorf("cancelled: %v", got)
		}
	}
}

// stubborn is a template that fails as it is told, or with its context.
type stubborn struct{ err error }

func (s stubborn) Render(ctx context.Context, _ chat.Conversation) ([]chat.Piece, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("chat: %w", s.err)
}

func (s stubborn) Generate(ctx context.Context, _, _, _ string, _ chat.Think) ([]chat.Piece, error) {
	return s.Render(ctx, chat.Conversation{})
}

func (stubborn) Capabilities() chat.Capabilities { return chat.Capabilities{} }

func (stubborn) Source() string { return "" }

func (stubborn) Family() string { return "plain" }
