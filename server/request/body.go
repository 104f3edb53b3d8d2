package request

import (
	"io"
	"net/http"
	"time"

	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/prompt"
)

// Limits of a request (promise T7).
const (
	MaxBody      = body.Max // where images can be
	MaxSmallBody = 1 << 20
	freeCost     = 1 << 20         // what any request may cost
	DrainTime    = 2 * time.Second // how long the rest of a refused body is read
)

// Read takes a request's body in: it reads at most limit bytes of it, weighs them and decodes them.
// A request for more room than there is now is told to come again.
func Read[T any](x *Exchange, limit int64, decode func([]byte) (T, error)) (req T, err error) {
	b, err := x.body(limit)
	if err == nil {
		req, err = decode(b)
	}
	return req, err
}

// ReadPrompt is Read of a dialect's route: what comes of the body is weighed again where that can
// be more than it seemed.
func (x *Exchange) ReadPrompt(to prompt.Route) (r *prompt.Request, enc prompt.Encoder, err error) {
	limit := int64(MaxBody)
	if to.Small {
		limit = MaxSmallBody
	}
	b, err := x.body(limit)
	if err == nil {
		r, enc, err = to.Read(x, b)
	}
	if err == nil {
		err = x.weighDecoded(r)
	}
	return r, enc, err
}

// ReadVectors is Read of a request for vectors. Only pictures may make its body large.
func (x *Exchange) ReadVectors(decode func([]byte) (*prompt.Vectors, error)) (*prompt.Vectors, error) {
	b, err := x.body(MaxBody)
	if err != nil {
		return nil, err
	}
	v, err := decode(b)
	switch {
	case err != nil:
		return nil, err
	//rule:T7 ./server TestLimits false
	case v.Text() > MaxSmallBody || len(b) > MaxSmallBody && len(v.Images()) == 0:
		return nil, TooLarge(MaxSmallBody)
	}
	return v, x.weighText(v.Text())
}

// body reads a body within the read deadline, and weighs it. Compressed bodies are refused: a few
// bytes could stand for gigabytes.
func (x *Exchange) body(limit int64) ([]byte, error) {
	//rule:T7 ./server TestLimits != "" && enc != "identity" => == "never"
	if enc := x.GetHeader("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, Error(http.StatusUnsupportedMediaType, "request bodies must not be compressed")
	}
	rc := x.response
	end := time.Now().Add(x.shared.ReadTimeout)
	_ = rc.SetReadDeadline(end)
	if err := x.Request.Context().Err(); err != nil { // after the deadline was set: see server.work
		return nil, err
	}
	b, err := x.read(x.Request.Body, x.Request.ContentLength, limit)
	if err != nil {
		x.Drain(end)
		return nil, err
	}
	_ = rc.SetReadDeadline(time.Time{})
	return b, x.Weigh(b, limit <= MaxSmallBody)
}

// Weigh takes room for what a body costs once it is decoded. Where no image can be, no text is one.
func (x *Exchange) Weigh(b []byte, noImages bool) error {
	w, err := body.Weigh(b)
	if err != nil {
		return err
	}
	if noImages {
		//rule:T7 ./server TestWeighedAgain drop
		w.Text += w.Coded
	}
	if w.Text > body.MaxText {
		return body.TextTooLong()
	}
	x.held.text, x.held.coded = w.Text, !noImages && w.Coded > 0
	//rule:T7 ./server TestMemoryBounded x.room(w.Cost()) => nil
	return x.room(w.Cost())
}

// held is what a request holds of the room that all have together, what it needs, and how many
// bytes of text that was weighed with.
type held struct {
	room, need int64
	text       int
	coded      bool // more of it may turn out to be text
}

// room makes the request hold n bytes of the room that all have together, until End gives them
// back. What any request may cost is free. Who needs more than there is now is told to come again,
// and who needs more than there ever is, that.
func (x *Exchange) room(n int64) error {
	h := &x.held
	h.need = n
	if n <= freeCost && h.room == 0 {
		return nil
	}
	most := budget.Get().Requests
	if n > most {
		return body.Fail(http.StatusRequestEntityTooLarge,
			"the request takes %d MiB of memory, and all requests together have %d MiB: send less at once", n>>20, most>>20)
	}
	//rule:T7 ./server TestLargeBodies false
	if x.shared.large.Add(n-h.room) > most && n > h.room {
		x.shared.large.Add(h.room - n)
		return Error(http.StatusServiceUnavailable, pool.ErrQueueFull.Error())
	}
	h.room = n
	return nil
}

// Reserve makes the request hold n bytes in all of the room that all have together, until End, for
// what is no body: the sound of a session, for one.
func (x *Exchange) Reserve(n int64) error { return x.room(n) }

// more makes the request hold n bytes more.
func (x *Exchange) more(n int64) error { return x.room(x.held.need + n) }

// weighDecoded takes room for what a request holds beyond what its body was weighed with: text that
// might have been an image's, and the automaton that a format becomes, which package grammar keeps
// below 64 MiB. More text than any context holds is refused.
func (x *Exchange) weighDecoded(r *prompt.Request) error {
	if x.held.coded {
		if err := x.weighText(r.Text()); err != nil {
			return err
		}
	}
	if n := min(1024*int64(len(r.Format)), 64<<20); n > freeCost {
		return x.more(n)
	}
	return nil
}

// weighText takes room for as much text, where the body was weighed with less.
func (x *Exchange) weighText(text int) error {
	h := &x.held
	if text > body.MaxText {
		return body.TextTooLong()
	}
	//rule:T7 ./server TestWeighedAgain ; h.coded => ; false && h.coded
	if extra := text - h.text; h.coded && extra > 0 {
		h.text = text
		return x.more(int64(extra) * body.TextCost)
	}
	return nil
}

// Drain reads what is left of a refused body, if that is little and comes soon, and no later than
// end: most clients send all before they read, and to those that find the connection closed the
// refusal is lost. Who asks before sending (Expect) has sent nothing. Unless all came, the deadline
// stays as it is, for net/http reads on before it answers, and the connection ends with the answer.
func (x *Exchange) Drain(end time.Time) {
	rc := x.response
	if x.GetHeader("Expect") == "" && x.Request.Context().Err() == nil {
		if soon := time.Now().Add(DrainTime); soon.Before(end) {
			end = soon
		}
		_ = rc.SetReadDeadline(end)
		if n, err := io.CopyN(io.Discard, x.Request.Body, 2*MaxBody); n < 2*MaxBody && err == io.EOF {
			//nolint:errorlint // as io.CopyN has it
			_ = rc.SetReadDeadline(time.Time{})
			return
		}
	}
	x.Header("Connection", "close")
}

// read reads n bytes, or where n is negative all there are. The first mebibyte is read as it comes;
// for more, room is taken before any of it is read. A client has to send what it announced before
// memory is there for it.
func (x *Exchange) read(from io.Reader, n, limit int64) ([]byte, error) {
	if n > limit {
		return nil, TooLarge(limit)
	}
	known := n >= 0
	if !known {
		n = limit
	}
	var b []byte
	for {
		if len(b) == cap(b) {
			if int64(len(b)) > n { // the byte too many
				return nil, TooLarge(limit)
			}
			next := min(max(int64(2*cap(b)), 8<<10), n+1)
			if next > MaxSmallBody+1 && x.held.room == 0 {
				if err := x.room(2 * n); err != nil { // the old half and the new whole, while it grows
					return nil, err
				}
			}
			b = append(make([]byte, 0, next), b...)
		}
		k, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+k]
		switch {
		case err == io.EOF && int64(len(b)) > limit:
			return nil, TooLarge(limit)
		case err == io.EOF: //nolint:errorlint // as io.ReadAll has it
			_ = x.Request.Body.Close() // so that net/http need not look whether more comes
			return b, nil
		case err != nil:
			return nil, Error(http.StatusBadRequest, err.Error())
		}
	}
}

// TooLarge is a body beyond its limit.
func TooLarge(limit int64) error {
	return body.Fail(http.StatusRequestEntityTooLarge, "the request body is too large: the limit is %d MiB", limit>>20)
}

// Decode reads a small body, which holds no image, into what it is to be.
func (x *Exchange) Decode(to any) error {
	b, err := x.body(MaxSmallBody)
	if err != nil {
		return err
	}
	return body.Decode(b, to)
}
