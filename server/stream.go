package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/axle-llm/axle/internal/ranked"
)

// encoder turns one answer's responses into bytes, in a dialect. R is what the dialect's answers are made of. It belongs to one answer.
type encoder[R any] interface {
	// Streams says whether the request wants the answer in parts, and Type what kind of stream that is.
	Streams() bool
	Type() string
	// Chunk is the bytes for the next part.
	Chunk(R) ([]byte, error)
	// Whole is the body of an answer that does not stream.
	Whole(R) ([]byte, error)
	// WholeType is that body's content type.
	WholeType() string
	// Failed is the body of an error before the first part; Broken what a stream that fails later ends with.
	Failed(status int, text string) []byte
	Broken(status int, text string) []byte
}

// reply writes one answer. It knows whether anything was sent, so that errors take the form that is still possible.
type reply struct {
	c       *gin.Context
	rc      *http.ResponseController
	timeout time.Duration
	started bool
}

func (s *Server) reply(c *gin.Context) *reply {
	return &reply{c: c, rc: http.NewResponseController(c.Writer), timeout: s.o.WriteTimeout}
}

// deadline lets the next write take so long and no longer: a reader that takes nothing for that time is cut off.
func (r *reply) deadline() { _ = r.rc.SetWriteDeadline(time.Now().Add(r.timeout)) }

// part sends the next part of a stream at once.
func (r *reply) part(kind string, b []byte) error {
	if !r.started {
		r.started = true
		h := r.c.Writer.Header()
		h.Set("Content-Type", kind)
		if kind != typeNDJSON {
			h.Set("Cache-Control", "no-cache")
			h.Set("Connection", "keep-alive")
		}
		r.c.Writer.WriteHeader(http.StatusOK)
	}
	ranked.None() // a client takes its time
	r.deadline()
	if _, err := r.c.Writer.Write(b); err != nil {
		return err
	}
	return r.rc.Flush()
}

// whole sends a complete body.
func (r *reply) whole(code int, kind string, b []byte) {
	ranked.None() // as in part
	r.started = true
	h := r.c.Writer.Header()
	if kind != "" {
		h.Set("Content-Type", kind)
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	if s := retryAfter(code); s != "" {
		h.Set("Retry-After", s)
	}
	r.deadline()
	r.c.Writer.WriteHeader(code)
	_, _ = r.c.Writer.Write(b)
}

// pourAt is how much of a body is written at once; one that is shorter is sent whole.
const pourAt = 32 << 10

// pour sends a body that f writes, as it is written. An error after the first bytes went out breaks the connection off: what came is not whole.
func (r *reply) pour(kind string, f func(io.Writer) error) error {
	p := &pouring{r: r, kind: kind}
	switch err := f(p); {
	case p.err != nil:
		return fmt.Errorf("writing to the client: %w", errors.Join(context.Canceled, p.err))
	case err != nil && r.started:
		panic(http.ErrAbortHandler)
	case err != nil:
		return err
	case !r.started:
		r.whole(http.StatusOK, kind, p.b)
	case p.flush() != nil:
		return fmt.Errorf("writing to the client: %w", errors.Join(context.Canceled, p.err))
	}
	return nil
}

// pouring is the writer of a body that is sent in pieces.
type pouring struct {
	r    *reply
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
			p.r.c.Writer.Header().Set("Content-Type", p.kind)
			p.r.c.Writer.WriteHeader(http.StatusOK)
		}
		ranked.None() // as in part
		p.r.deadline()
		_, p.err = p.r.c.Writer.Write(p.b)
		p.b = p.b[:0]
	}
	return p.err
}

// json sends v as a native answer.
func (r *reply) json(code int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	r.whole(code, jsonNative, b)
}

// fail ends an answer with an error, in the form that is still possible.
func (r *reply) fail(code int, failed, broken func(int, string) []byte, kind, text string) {
	if code == statusClientGone {
		r.c.Status(statusClientGone) // for the log
		return
	}
	if !r.started {
		r.whole(code, kind, failed(code, text))
		return
	}
	r.deadline()
	if b := broken(code, text); len(b) > 0 {
		if _, err := r.c.Writer.Write(b); err == nil {
			_ = r.rc.Flush()
		}
	}
}
