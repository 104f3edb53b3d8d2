package plan

import (
	"fmt"
	"io"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/rows"
)

// This file plans where a model's rows are kept: on the card, in memory of the machine that it is
// in, and on its disk.

// Keep says where rows may be kept outside the card. The zero Keep: nowhere, told for conversations
// of 1,024 tokens.
type Keep struct {
	Memory int64 // bytes of the machine's memory
	Disk   int64 // bytes
	Tokens int   // of a conversation; 0: 1,024, or the model's context where that is smaller
}

// Kept is what one place keeps. Conversations are whole ones, with the model alone there.
type Kept struct {
	Place         string        `json:"place"` // card, memory, disk
	Bytes         int64         `json:"bytes"`
	Rows          int64         `json:"rows"`
	Conversations int64         `json:"conversations"`
	Back          time.Duration `json:"back_ns,omitempty"` // until one of them is on the card again
}

// diskRate is what a disk is taken to read, in bytes a second, until it is known: as the engine has
// it.
const diskRate = 40e6

// keep tells what each place keeps; first is how long a prompt of n tokens takes.
func (r *Report) keep(m Model, p *profiles.Profile, keep Keep, first func(n int) time.Duration) {
	tokens := min(keep.Tokens, m.Context-1)
	if tokens <= 0 {
		tokens = min(1024, m.Context-1)
	}
	if m.Row == 0 || tokens < 1 {
		return
	}
	r.Row, r.Conversation, r.Evaluate = m.Row, tokens, first(tokens)
	add := func(place string, bytes, rows int64, back time.Duration) {
		k := Kept{Place: place, Bytes: bytes, Rows: rows, Conversations: rows / int64(tokens)}
		if k.Conversations > 0 {
			k.Back = back
		}
		r.Kept = append(r.Kept, k)
	}
	add("card", int64(m.Context)*int64(m.Row), int64(m.Context), 0)
	if m.State > 0 {
		// A conversation is of use with the state after it only, and takes both.
		r.Kept[0].Conversations = min(r.Kept[0].Conversations, int64(m.Slots))
	}
	each := int64(tokens)*int64(m.Row) + m.State
	there := p.Copies["h2d-pinned"].Time(m.State)
	whole := func(rows, bytes int64) int64 {
		if m.State > 0 {
			rows = bytes / each * int64(tokens)
		}
		return rows
	}
	piece := axcl.PieceCells(axcl.Shape{Layers: m.Cached, KV: m.Row / 4 / m.Cached, Cells: m.Context})
	if keep.Memory > 0 {
		rows, piece := engine.RowsIn(keep.Memory, m.Row, piece)
		add("memory", keep.Memory, whole(int64(rows), keep.Memory), there+overLink(m, p, tokens, piece))
	}
	if keep.Disk > 0 {
		read := time.Duration(float64(each) / diskRate * 1e9)
		add("disk", keep.Disk, whole(rows.Fit(keep.Disk, m.Row), keep.Disk), max(read, there+overLink(m, p, tokens, piece)))
	}
}

// overLink is how long rows take to the card, in pieces of this many: K and V of each layer go by
// themselves.
func overLink(m Model, p *profiles.Profile, tokens, piece int) (t time.Duration) {
	up := p.Copies["h2d-pinned"]
	for ; tokens > 0 && piece > 0; tokens -= piece {
		t += time.Duration(2*m.Cached)*up.Time(int64(min(piece, tokens)*m.Row/m.Cached/2)) + p.Sync
	}
	return t
}

func (r *Report) writeKept(w io.Writer) {
	if len(r.Kept) == 0 {
		return
	}
	fmt.Fprintf(w, "\nkept, %s a token\trows\tconversations of %d\tback after\t\n", models.HumanBytes(int64(r.Row)), r.Conversation)
	for _, k := range r.Kept {
		back := "at once"
		switch {
		case k.Conversations == 0:
			back = "-"
		case k.Place != "card":
			back = fmt.Sprintf("%v instead of %v", k.Back.Round(time.Millisecond), r.Evaluate.Round(time.Millisecond))
			if k.Back >= r.Evaluate {
				back = fmt.Sprintf("%v: evaluating takes %v, and is done", k.Back.Round(time.Millisecond),
					r.Evaluate.Round(time.Millisecond))
			}
		}
		fmt.Fprintf(w, "%s, %s\t%d\t%d\t%s\t\n", k.Place, models.HumanBytes(k.Bytes), k.Rows, k.Conversations, back)
	}
	if r.State > 0 {
		fmt.Fprintf(w, "Layers with a state: each takes %s more for it; the card has room for %d sequences and snapshots.\n",
			models.HumanBytes(r.State), r.Slots)
	}
	if r.Kept[len(r.Kept)-1].Place == "disk" {
		fmt.Fprintf(w, "A disk is taken to read %.0f MB/s.\n", diskRate/1e6)
	}
}
