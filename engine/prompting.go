package engine

import (
	"context"
	"runtime"
	"sync"

	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// prompting is the line in which large prompts wait to be rendered and encoded. They have turns by
// key, and a limited part of the memory: a template can make tens of megabytes from a few, which
// stay in memory until they are ids. The whole process shares it.
var prompting = sync.OnceValue(func() *fair.Line { return fair.New(runtime.GOMAXPROCS(0), budget.Get().Templates) })

const (
	plainPrompt = 64 << 10 // bytes of text up to which a prompt with the model's own template does not wait
	promptCost  = 16       // bytes of memory for each byte of text, until it is ids
)

// promptInTurn is prompt, in which large prompts wait for their turn. If ctx ends while it waits,
// the error is ctx's cause.
func (m *Model) promptInTurn(ctx context.Context, r *Request, isChat bool, line *fair.Line, cut *Cut) (
	ids []int32, ps []chat.Piece, images [][]byte, err error,
) {
	err = inTurn(ctx, r, line, func() error {
		ids, ps, images, err = m.prompt(ctx, r, isChat, cut)
		return err
	})
	return ids, ps, images, err
}

// inTurn calls render once it is the request's turn, which a small prompt need not wait for.
func inTurn(ctx context.Context, r *Request, line *fair.Line, render func() error) error {
	n := textOf(r)
	if n <= plainPrompt && r.Template.Text == "" {
		return render()
	}
	takes := n * promptCost
	if r.Template.Text != "" { // how much it makes of the text is unknown
		takes = budget.Get().Templates
	}
	//rule:T16 TestPromptTurns r.Key => "much"
	if err := line.Take(ctx, r.Key, takes, n); err != nil {
		return err
	}
	defer func() {
		line.Done(r.Key, n, n)
		line.Free(takes)
	}()
	return render()
}

// textOf returns how many bytes of text a request brings.
func textOf(r *Request) int64 {
	n := len(r.Prompt) + len(r.System) + len(r.Suffix)
	for i := range r.Messages {
		n += len(r.Messages[i].Content) + len(r.Messages[i].Thinking)
		for _, c := range r.Messages[i].ToolCalls {
			n += len(c.Name) + 16*len(c.Arguments)
		}
	}
	for _, t := range r.Tools {
		n += len(t.Parameters) + len(t.Schema) + len(t.Description)
	}
	for _, v := range r.Kwargs {
		n += len(v)
	}
	return int64(n)
}
