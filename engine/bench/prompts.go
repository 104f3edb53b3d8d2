package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Story is what prompts are made of: plain words.
const Story = "the quick brown fox jumps over a lazy dog while seven small boats drift past an old stone harbour and nobody counts them "

// mostWords is how much text is tried for a prompt's tokens.
const mostWords = 64 << 20

// Words makes prompts of a real model's words through its template and tokenizer, cut to exactly n
// tokens, no two clients' alike from the first word on, nor those of an earlier call of Words,
// which memory or disk may still have; for [Meter].Prompt.
func Words(m *engine.Model) func(n, client, turn int) (Prompt, error) {
	first := rand.IntN(1 << 30)
	return func(n, client, turn int) (p Prompt, err error) {
		for size := n*4 + 64; ; size *= 2 {
			text := fmt.Sprintf("Story %d of client %d: ", first+turn, client) + strings.Repeat(Story, size/len(Story)+1)
			at := time.Now()
			rendered, err := m.Render(context.Background(), engine.Request{Messages: []chat.Message{{Role: "user", Content: text}}})
			if err != nil {
				return p, err
			}
			p.Template = time.Since(at)
			at = time.Now()
			if p.IDs, err = m.Tokenize(rendered); err != nil {
				return p, err
			}
			p.Tokenize = time.Since(at)
			if len(p.IDs) >= n {
				p.IDs = p.IDs[:n]
				return p, nil
			}
			if size > mostWords {
				return p, fmt.Errorf("the tokenizer gives %d tokens for %d characters", len(p.IDs), size)
			}
		}
	}
}
