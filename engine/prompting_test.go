package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestPromptTurns (T16): large prompts are made by turns of their keys, and so are those with
// templates that the request brings; a small one waits for none, and a request that leaves while
// it waits takes no turn.
func TestPromptTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := fair.New(1, 0)
		m := New(wordy{}, Options{Name: "m"})
		if err := line.Take(t.Context(), "busy", 0, 1); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var done []string
		var wg sync.WaitGroup
		ask := func(ctx context.Context, key string, n int) {
			wg.Go(func() {
				r := &Request{Prompt: strings.Repeat("x", n), Key: key, NumCtx: 1 << 30}
				_, _, _, err := m.promptInTurn(ctx, r, false, line, new(Cut))
				mu.Lock()
				defer mu.Unlock()
				done = append(done, fmt.Sprintf("%s %d %v", key, n, err))
			})
			synctest.Wait()
		}
		for range 5 {
			ask(t.Context(), "much", 2<<20)
		}
		ask(t.Context(), "other", 1<<20)
		ctx, leave := context.WithCancel(t.Context())
		ask(ctx, "gone", 1<<20)
		leave()
		synctest.Wait()
		ask(t.Context(), "small", 100)
		if got := strings.Join(done, ", "); got != "gone 1048576 context canceled, small 100 <nil>" {
			t.Errorf("without a turn: %s", got)
		}
		line.Done("busy", 1, 1)
		wg.Wait()
		if len(done) != 8 || !strings.HasPrefix(done[2], "other") && !strings.HasPrefix(done[3], "other") {
			t.Errorf("another key's prompt came after more than one of the first's: %q", done)
		}
		if n := textOf(&Request{Prompt: "ab", System: "c", Messages: []chat.Message{{Content: "de", Thinking: "f"}}}); n != 6 {
			t.Errorf("%d bytes of text", n)
		}
	})
}

// wordy is a backend whose tokens are a text's bytes.
type wordy struct{ Backend }

func (wordy) Info() Info { return Info{Name: "m", Context: 1 << 30, Vocab: 256} }

func (wordy) Encode(_ context.Context, ps []chat.Piece, _ bool) (dst []int32, err error) {
	for _, p := range ps {
		dst = append(dst, make([]int32, len(p.Text))...)
	}
	return dst, nil
}
