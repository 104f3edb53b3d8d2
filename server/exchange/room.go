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

// FormatRoom takes room for the automaton that a request's format becomes, which package grammar keeps below 64 MiB.
func (x *Exchange) FormatRoom(format []byte) error {
	n := min(1024*int64(len(format)), 64<<20)
	if n <= freeCost {
		return nil
	}
	return x.more(n)
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

// WeighText weighs a request again once its text is decoded: before, what may be an image's was not counted as text. More of it than any
// context holds is refused.
func (x *Exchange) WeighText(n int) error {
	if err := CheckText(n); err != nil {
		return err
	}
	h := &x.held
	if n <= h.text {
		return nil
	}
	extra := n - h.text
	h.text = n
	return x.more(int64(extra) * ollama.TextCost)
}

// CheckText refuses more text than any context holds.
func CheckText(n int) error {
	if n > ollama.MaxText {
		return ollama.TextTooLong()
	}
	return nil
}
