package request

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
)

// Lines is the content type of streams of Ollama's API.
const Lines = "application/x-ndjson"

// Reply writes one answer. It knows whether anything was sent, so that errors take the form that is
// still possible.
type Reply struct {
	x       *Exchange
	started bool
	holds   bool // something was written that was not sent
}

// Reply begins the answer.
func (x *Exchange) Reply() *Reply {
	return &Reply{x: x}
}

// deadline lets the next write take so long and no longer: a reader that takes nothing for that
// time is cut off. One that was set a moment ago, a thirty-second of that time at most, serves
// again: to move it for each token would cost as much as the token's JSON.
func (r *Reply) deadline() {
	now, most := time.Now(), r.x.shared.WriteTimeout
	if now.Sub(r.x.armed) > most/32 {
		r.x.armed = now
		//rule:T8 ./server TestWriteDeadline now.Add(most) => time.Time{}
		_ = r.x.response.SetWriteDeadline(now.Add(most))
	}
}

// Part sends the next part of a stream at once, and what Hold kept before it.
func (r *Reply) Part(kind string, b []byte) error {
	if err := r.Hold(kind, b); err != nil {
		return err
	}
	return r.Send()
}

// Send sends what Hold kept.
func (r *Reply) Send() error {
	if !r.holds {
		return nil
	}
	r.holds = false
	ranked.None() // a client takes its time
	r.deadline()
	return r.x.response.Flush()
}

// Hold takes the next part of a stream, which goes out with the next Send, or sooner where there is
// much of it.
func (r *Reply) Hold(kind string, b []byte) error {
	if !r.started {
		r.started = true
		h := r.x.Writer.Header()
		h.Set("Content-Type", kind)
		if kind != Lines {
			h.Set("Cache-Control", "no-cache")
			if h.Get("Connection") == "" {
				h.Set("Connection", "keep-alive")
			}
		}
		r.x.Writer.WriteHeader(http.StatusOK)
	}
	ranked.None() // a client takes its time
	r.deadline()
	r.holds = true
	_, err := r.x.Writer.Write(b)
	return err
}

// Whole sends a complete body.
func (r *Reply) Whole(code int, kind string, b []byte) {
	ranked.None() // as in Part
	r.started = true
	h := r.x.Writer.Header()
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	if s := retryAfter(code); s != "" {
		h.Set("Retry-After", s)
	}
	r.deadline()
	r.x.Writer.WriteHeader(code)
	_, _ = r.x.Writer.Write(b)
}

// pourAt is how much of a body is written at once; one that is shorter is sent whole.
const pourAt = 32 << 10

// Pour sends a body that f writes, as it is written. An error after the first bytes went out breaks
// the connection off: what came is not whole.
func (r *Reply) Pour(kind string, f func(io.Writer) error) error {
	p := &pouring{r: r, kind: kind}
	switch err := f(p); {
	case p.err != nil:
		return fmt.Errorf("writing to the client: %w", errors.Join(context.Canceled, p.err))
	case err != nil && r.started:
		panic(http.ErrAbortHandler)
	case err != nil:
		return err
	case !r.started:
		r.Whole(http.StatusOK, kind, p.b)
	case p.flush() != nil:
		return fmt.Errorf("writing to the client: %w", errors.Join(context.Canceled, p.err))
	}
	return nil
}

// pouring is the writer of a body that is sent in pieces.
type pouring struct {
	r    *Reply
	kind string
	b    []byte
	err  error // of the connection
}

func (p *pouring) Write(b []byte) (int, error) {
	p.b = append(p.b, b...)
	if len(p.b) < pourAt {
		return len(b), nil
	}
	return len(b), p.flush()
}

func (p *pouring) flush() error {
	if p.err == nil {
		if !p.r.started {
			p.r.started = true
			p.r.x.Writer.Header().Set("Content-Type", p.kind)
			p.r.x.Writer.WriteHeader(http.StatusOK)
		}
		ranked.None() // as in Part
		p.r.deadline()
		_, p.err = p.r.x.Writer.Write(p.b)
		p.b = p.b[:0]
	}
	return p.err
}

// JSON sends v as a native answer.
func (r *Reply) JSON(code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	r.Whole(code, JSON, b)
}

// fail ends an answer with an error, in the form that is still possible.
func (r *Reply) fail(code int, failed, broken func(int, string) []byte, kind, text string) {
	if code == statusClientGone {
		r.x.Status(statusClientGone) // for the log
		return
	}
	if !r.started {
		r.Whole(code, kind, failed(code, text))
		return
	}
	b := broken(code, text)
	if len(b) == 0 {
		panic(http.ErrAbortHandler)
	}
	r.deadline()
	if _, err := r.x.Writer.Write(b); err == nil {
		_ = r.x.response.Flush()
	}
}
