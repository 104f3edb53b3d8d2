package exchange

import (
	"net/http"

	"github.com/axle-llm/axle/server/loaded"
	"github.com/axle-llm/axle/server/ollama"
)

// held is what a request holds of the room that all have together, what it needs, and how many bytes of text that was weighed with.
type held struct {
	room, need int64
	text       int
	coded      bool // more of it may turn out to be text
}

// room makes the request hold n bytes of the room that all have together, until End gives them back. What any request
// may cost is free. Who needs more than there is now is told to come again, and who needs more than there ever is, that.
func (x *Exchange) room(n int64) error {
	h := &x.held
	h.need = n
	if n <= freeCost && h.room == 0 {
		return nil
	}
	if n > maxLarge {
		return ollama.Fail(http.StatusRequestEntityTooLarge,
			"the request takes %d MiB of memory, and all requests together have %d MiB: send less at once", n>>20, maxLarge>>20)
	}
	if x.shared.large.Add(n-h.room) > maxLarge && n > h.room {
		x.shared.large.Add(h.room - n)
		return Error(http.StatusServiceUnavailable, loaded.ErrQueueFull.Error())
	}
	h.room = n
	return nil
}

// more makes the request hold n bytes besides.
func (x *Exchange) more(n int64) error { return x.room(x.held.need + n) }

// weighDecoded takes room for what a request holds beyond what its body was weighed with: text that might have been an image's, and the
// automaton that a format becomes, which package grammar keeps below 64 MiB. More text than any context holds is refused.
func (x *Exchange) weighDecoded(p ollama.Prompt) error {
	if h := &x.held; h.coded {
		text := p.Text()
		if text > ollama.MaxText {
			return ollama.TextTooLong()
		}
		if extra := text - h.text; extra > 0 {
			h.text = text
			if err := x.more(int64(extra) * ollama.TextCost); err != nil {
				return err
			}
		}
	}
	if n := min(1024*int64(len(p.Common().Format)), 64<<20); n > freeCost {
		return x.more(n)
	}
	return nil
}

// VectorRoom takes room for so many vectors, and refuses more of them than half of all the room is for.
func (x *Exchange) VectorRoom(inputs, hidden int) error {
	each := int64(hidden)*4 + 256 // 32-bit numbers, and what a queued text is kept in
	if most := maxLarge / 2 / each; int64(inputs) > most {
		return ollama.Fail(http.StatusRequestEntityTooLarge,
			"%d inputs give %d vectors of %d numbers, more than the server holds at once: send at most %d in a request",
			inputs, inputs, hidden, most)
	}
	return x.more(int64(inputs) * each)
}

// How much text a reranking reads at most, and what stands around each document.
const (
	rerankText   = 64 << 20
	rerankAround = 512
	rerankAhead  = 64 // prompts that are there at a time
)

// RerankRoom takes room for so many documents, of text bytes in all and longest at most, that are each read with a query, and refuses more
// of them than are read for one request.
func (x *Exchange) RerankRoom(documents, text, longest, query int) error {
	each := int64(query + rerankAround)
	if most := (rerankText - int64(text)) / each; int64(documents) > most {
		return ollama.Fail(http.StatusRequestEntityTooLarge,
			"%d documents, each read with a query of %d bytes, are more text than a request may have read: send at most %d in a request, "+
				"or a shorter query", documents, query, most)
	}
	return x.more(min(int64(documents), rerankAhead)*(each+int64(longest))*ollama.TextCost + int64(documents)*256)
}
