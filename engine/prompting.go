package engine

import (
	"context"
	"runtime"
	"sync"

	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// prompting is where large prompts are rendered and encoded, by turns of their keys, and within a
// part of the memory: a template makes tens of megabytes of a few, and all of it lies there until
// it is ids. It is the whole process's.
var prompting = sync.OnceValue(func() *fair.Line { return fair.New(runtime.GOMAXPROCS(0), budget.Get().Templates) })

const (
	plainPrompt = 64 << 10 // bytes of text up to which a prompt is made at once, with the model's own template
	promptCost  = 16       // bytes of memory a byte of text takes on its way
)

// promptInTurn is prompt, for which a large one waits. The error is ctx's cause where its request
// has gone.
func (m *Model) promptInTurn(ctx context.Context, r *Request, isChat bool, line *fair.Line, cut *Cut) (
	ids []int32, ps []chat.Piece, images [][]byte, err error,
) {
	n := textOf(r)
	if n <= plainPrompt && r.Template.Text == "" {
		return m.prompt(ctx, r, isChat, cut)
	}
	takes := n * promptCost
	if r.Template.Text != "" { // what it makes of it is unknown
		takes = budget.Get().Templates
	}
	//rule:T16 TestPromptTurns r.Key => "much"
	if err := line.Take(ctx, r.Key, takes, n); err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		line.Done(r.Key, n, n)
		line.Free(takes)
	}()
	return m.prompt(ctx, r, isChat, cut)
}

// textOf is how many bytes of text a request brings.
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
