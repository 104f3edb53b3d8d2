package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/axle-llm/axle/engine"
)

// Talk is a load of conversations that take turns, as people in a house do: each begins with a
// prompt of its own, and when its turn comes adds New tokens to all that was said, and gets Output
// for them. Where they do not fit on the card together, each finds that the others have pushed it
// out. Between two turns the card has all the time that it needs to put aside what was said.
type Talk struct {
	Conversations int `json:"conversations"`
	Prompt        int `json:"prompt_tokens"`
	Turns         int `json:"turns"` // of each, after its first
	New           int `json:"new_tokens"`
	Output        int `json:"output_tokens"`
}

// Longest is how many tokens a conversation has in the end.
func (t Talk) Longest() int { return t.Prompt + t.Output + t.Turns*(t.New+t.Output) }

// String is the load's name in tables.
func (t Talk) String() string {
	return fmt.Sprintf("%d of p%d n%d, turns %d of %d", t.Conversations, t.Prompt, t.Output, t.Turns, t.New)
}

// TalkCase is a Talk, and what it took for each place where rows are kept.
type TalkCase struct {
	Talk
	Ways []TalkWay `json:"ways"`
}

// Where rows are kept in a [TalkWay].
const (
	KeptCard   = "card"                // and nowhere else
	KeptMemory = "memory"              // and on the card
	KeptNoDisk = "restart"             // nowhere: the model was loaded anew before the turn
	KeptDisk   = "restart, after disk" // the same, but before it the disk kept them

	KeptNowhere = "moved"             // nowhere: the turn is at another machine
	KeptOther   = "moved, with peers" // at the machine of the turns before, over the network
)

// TalkWay is what turns took with rows kept somewhere. Where each prompt token's row came from is
// counted: what neither the card, memory nor the disk had was evaluated.
type TalkWay struct {
	Kept   string  `json:"kept"`
	First  Sample  `json:"first_token_ms"` // of each turn that was measured
	Room   int     `json:"rows_room"`      // rows that memory has room for
	Asked  uint64  `json:"asked_tokens"`   // all prompts' together
	Card   uint64  `json:"card_rows"`
	Memory uint64  `json:"memory_rows"`
	Disk   uint64  `json:"disk_rows"`
	Far    uint64  `json:"far_rows,omitempty"` // came from another machine
	In     uint64  `json:"in_bytes"`           // onto the card
	Out    uint64  `json:"out_bytes"`
	Saved  float64 `json:"saved_seconds"` // as the engine reckons it
}

// Evaluated is how many prompt tokens were in no place.
func (w *TalkWay) Evaluated() uint64 { return w.Asked - min(w.Asked, w.Card+w.Memory+w.Disk+w.Far) }

// Sooner is how many times as soon as in w the first token came in other, by the medians; 0 where
// that cannot be told.
func (w *TalkWay) Sooner(other *TalkWay) float64 {
	if w.First.Median <= 0 || other.First.Median <= 0 {
		return 0
	}
	return w.First.Median / other.First.Median
}

// Talking is a Talk under way: all that was said so far.
type Talking struct {
	Talk
	texts [][]int32
	round int
}

// Clone is a Talking that goes its own way from here.
func (g *Talking) Clone() *Talking {
	c := *g
	c.texts = make([][]int32, len(g.texts))
	for i, t := range g.texts {
		c.texts[i] = slices.Clone(t)
	}
	return &c
}

// Begin makes the conversations' first prompts. Errors: Prompt's.
func (r *Meter) Begin(t Talk) (*Talking, error) {
	g := &Talking{Talk: t}
	r.turns++
	for c := range t.Conversations {
		p, err := r.prompt(t.Prompt, c, r.turns)
		if err != nil {
			return nil, err
		}
		g.texts = append(g.texts, slices.Clone(p.IDs))
	}
	return g, nil
}

// Repeat asks for all that was said in each conversation up to what its next turn will add, so that
// the backend has evaluated it, and waits until it is put aside. Errors: as Rounds.
func (r *Meter) Repeat(ctx context.Context, g *Talking) error {
	for _, text := range g.texts {
		one := &client{Prompt: Prompt{IDs: slices.Clone(text[:len(text)-g.New])}}
		r.run(ctx, Load{Prompt: len(one.IDs), Output: 1, Clients: 1}, []*client{one}, nil)
		r.Recorder.Take()
		if one.err != nil {
			return one.err
		}
		if err := engine.Settle(ctx, r.Backend); err != nil {
			return err
		}
	}
	return nil
}

// Rounds gives each conversation n turns, one after the other, and adds what they took to w; nil
// measures nothing. Errors: the first that a turn met, also where its context was full; ctx's.
func (r *Meter) Rounds(ctx context.Context, g *Talking, n int, w *TalkWay) error {
	before := r.Backend.Stats()
	var firsts []float64
	for range n {
		for c := range g.texts {
			one := &client{Prompt: Prompt{IDs: slices.Clone(g.texts[c])}}
			r.run(ctx, Load{Prompt: len(one.IDs), Output: g.Output, Clients: 1}, []*client{one}, nil)
			r.Recorder.Take()
			if one.err != nil {
				return one.err
			}
			if len(one.out) < g.Output {
				return fmt.Errorf("bench: conversation %d has %d tokens and got %d more, %d are wanted: its context is full", c,
					len(one.IDs), len(one.out), g.Output)
			}
			firsts = append(firsts, ms(one.first-one.begin))
			// Words of another prompt stand for what is said next.
			p, err := r.prompt(g.New, c, r.turns+1+g.round)
			if err != nil {
				return err
			}
			g.texts[c] = slices.Concat(g.texts[c], one.out, p.IDs)
			if err := engine.Settle(ctx, r.Backend); err != nil {
				return err
			}
		}
		g.round++
	}
	if w == nil {
		return nil
	}
	after := r.Backend.Stats()
	w.First = NewSample(slices.Concat(w.First.Values, firsts))
	w.Room = after.Memory.Rows
	w.Asked += after.PromptTokens - before.PromptTokens
	memory, disk := after.Memory.Hits-before.Memory.Hits, after.Disk.Hits-before.Disk.Hits
	cached, far := after.CachedTokens-before.CachedTokens, after.Far.Hits-before.Far.Hits
	w.Memory, w.Disk, w.Far, w.Card = w.Memory+memory, w.Disk+disk, w.Far+far, w.Card+cached-min(cached, memory+disk+far)
	w.In += after.Memory.In - before.Memory.In + after.Disk.In - before.Disk.In + after.Far.In - before.Far.In
	w.Out += after.Memory.Out - before.Memory.Out + after.Disk.Out - before.Disk.Out
	w.Saved += (after.Memory.Saved - before.Memory.Saved + after.Disk.Saved - before.Disk.Saved + after.Far.Saved -
		before.Far.Saved).Seconds()
	return nil
}
