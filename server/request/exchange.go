// Package request is one request and its answer, whatever they are about. It reads the body within
// its limits and weighs it, writes the answer with deadlines, and reports a failure in whatever
// form is still possible. It is the one place where errors become statuses.
//
// An [Exchange] belongs to the goroutine that handles its request, and to none once the handler has
// returned. [Shared] is used from any goroutine; nothing has to be closed.
package request

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"go.uber.org/zap"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// Shared is what all exchanges have together. Its fields are set before the first one and not
// changed.
type Shared struct {
	ReadTimeout  time.Duration // longest a request's body may take
	WriteTimeout time.Duration // longest one write may take
	LogPrompts   bool          // prompts, and errors that quote them, may be in the log
	Log          *zap.Logger   // never nil
	OnFailure    func(error)   // told why each request failed that did; never nil
	Dialects     []prompt.Dialect

	large atomic.Int64 // bytes of large requests held
}

// Large is how many bytes large requests hold now.
func (s *Shared) Large() int64 { return s.large.Load() }

// Exchange is one request and its answer.
type Exchange struct {
	*gin.Context
	Log      Line // what its line in the log says
	shared   *Shared
	dialect  *prompt.Dialect
	held     held
	response *http.ResponseController
	writer   writer
	armed    time.Time // when the write deadline was set last
	began    time.Time
}

// writer is the router's, which knows its exchange: cheaper than the map that a gin.Context keeps
// values in.
type writer struct {
	gin.ResponseWriter
	x *Exchange
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Line is what the log line of a request says of it beyond the request itself.
type Line struct {
	Model  string // its name; "": none was found
	Error  string // "": none
	Status int    // 0: the one that was sent
}

// Begin makes the exchange of a request, whose write deadline has just been set. Where dialect is
// nil it is the one of the request's path. Call Exchange.End when it is answered.
func (s *Shared) Begin(c *gin.Context, dialect *prompt.Dialect) *Exchange {
	if dialect == nil {
		dialect = DialectOf(s.Dialects, c.Request.URL.Path)
	}
	now := time.Now()
	x := &Exchange{Context: c, shared: s, dialect: dialect, armed: now, began: now}
	x.writer = writer{c.Writer, x}
	c.Writer = &x.writer
	x.response = http.NewResponseController(c.Writer)
	return x
}

// Of is the exchange that Begin made.
func Of(c *gin.Context) *Exchange { return c.Writer.(*writer).x }

// Handler is f as the router calls it.
func Handler(f func(*Exchange)) gin.HandlerFunc { return func(c *gin.Context) { f(Of(c)) } }

// Try is f as the router calls it. An error of f ends the request; f has sent nothing then.
func Try(f func(*Exchange) error) gin.HandlerFunc {
	return Handler(func(x *Exchange) {
		if err := f(x); err != nil {
			x.Fail(err)
		}
	})
}

// End gives back what the exchange holds of the room that all have together.
func (x *Exchange) End() {
	x.shared.large.Add(-x.held.room)
	x.held.room = 0
}

// Reads lets the body be read until the request's context ends, as it is now. Call over before the
// handler returns: the next request has this connection.
func (x *Exchange) Reads() (over func()) {
	var cut sync.WaitGroup
	cut.Add(1)
	stop := context.AfterFunc(x.Ctx(), func() {
		defer cut.Done()
		_ = x.response.SetReadDeadline(time.Now())
	})
	return func() {
		if !stop() {
			cut.Wait()
		}
	}
}

// Duplex lets the answer begin before the body has been read. The connection ends with it: net/http
// cannot take another request where the end of a body comes after its answer.
func (x *Exchange) Duplex() {
	_ = x.response.EnableFullDuplex()
	x.Header("Connection", "close")
}

// basic is the dialect of a server that has none.
var basic = prompt.Dialect{ErrorType: JSON, Error: func(_ error, _ int, text string) []byte { return body.ErrorJSON(text) }}

// DialectOf is the dialect whose paths this one is of: the one with the longest beginning.
func DialectOf(all []prompt.Dialect, path string) (of *prompt.Dialect) {
	for i := range all {
		if d := &all[i]; strings.HasPrefix(path, d.Under) && (of == nil || len(d.Under) > len(of.Under)) {
			of = d
		}
	}
	return cmp.Or(of, &basic)
}

// Began is when the request came.
func (x *Exchange) Began() time.Time { return x.began }

// Ctx is the request's context: it ends with the client, the grace of an orderly end, or an owner
// who ends the answer from elsewhere.
func (x *Exchange) Ctx() context.Context { return x.Request.Context() }

// Who is the key that the request came with; nil: the server has none, or the request needed none.
func (x *Exchange) Who() *access.Key { return Who(x.Ctx()) }

// Owner is what the request's key leaves behind belongs to; "": it came with none.
func (x *Exchange) Owner() string { return OwnerOf(x.Ctx()) }

// Fail ends a request that has sent nothing with an error, in the path's form.
func (x *Exchange) Fail(err error) {
	code, text := x.noteFailure(err)
	form := func(status int, text string) []byte { return x.dialect.Error(err, status, text) }
	x.Reply().fail(code, form, form, x.dialect.ErrorType, text)
}

// noteFailure keeps why a request failed for its log line, and says what to tell the client.
func (x *Exchange) noteFailure(err error) (code int, text string) {
	err = Ended(x.Ctx(), err)
	code, text = Status(err)
	x.Log.Error, x.Log.Status = x.shared.Told(err), code
	var le *access.LimitError
	if errors.As(err, &le) && le.After > 0 {
		x.Header("Retry-After", strconv.Itoa(int(math.Ceil(le.After.Seconds()))))
	}
	x.shared.OnFailure(err)
	return code, text
}

// Answer runs f and tells its error in that form. A panic in f is an error too.
func (x *Exchange) Answer(form Form, f func(*Reply) error) {
	r := x.Reply()
	if err := x.shared.Caught(func() error { return f(r) }); err != nil {
		code, text := x.noteFailure(err)
		r.fail(code, form.ErrorBody, form.ErrorEnd, form.WholeType(), text)
	}
}

// Caught runs an answer and turns a panic in it into an error of the answer: never a stream that
// ends as if all were well.
func (s *Shared) Caught(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("panic in an answer", zap.Any("panic", p), zap.Stack("stack"))
			err = Error(http.StatusInternalServerError, "an error was encountered while running the model: internal error")
		}
	}()
	return f()
}

// Why an answer was ended that its client still waits for.
var (
	ErrDrained = errors.New("the server is shutting down")       // the grace is over
	ErrEnded   = errors.New("the answer was ended by its owner") // from elsewhere
)

// Ended is what to tell of err: that we ended the work, or its owner did from elsewhere, where it
// was not the client.
func Ended(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), ErrEnded) && !errors.Is(err, axcl.ErrLost) {
		return Error(http.StatusConflict, ErrEnded.Error())
	}
	if errors.Is(context.Cause(ctx), ErrDrained) && !errors.Is(err, axcl.ErrLost) {
		return ask.ErrDraining
	}
	return err
}

type keyOf struct{}

// WithKey notes in ctx which key a request came with.
func WithKey(ctx context.Context, k *access.Key) context.Context {
	return context.WithValue(ctx, keyOf{}, k)
}

// Who is the key that a request came with, or nil.
func Who(ctx context.Context) *access.Key {
	k, _ := ctx.Value(keyOf{}).(*access.Key)
	return k
}

// OwnerOf is what the things of a request's key belong to; cached text is shared only within one
// owner. "": it came with no key.
func OwnerOf(ctx context.Context) string {
	if k := Who(ctx); k != nil {
		return k.Owner
	}
	return ""
}
