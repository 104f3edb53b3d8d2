package request

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/pool"
)

// because is an httpError whose text is another error's, which may quote what a client sent.
type because struct {
	*httpError
	cause error
}

// Because is an error with that status whose text is its cause's.
func Because(code int, cause error) error {
	return &because{&httpError{code, cause.Error()}, cause}
}

// Unwrap is the cause, for who looks for what kind of error it is, after the status.
func (b *because) Unwrap() []error { return []error{b.httpError, b.cause} }

// Told is an error as the log has it. What a client sent, a part of a prompt or a key in the wrong
// field, is in no log unless prompts are asked for: errors that can quote it are told by their
// kind. The client itself has the whole text.
func (s *Shared) Told(err error) string {
	if s.LogPrompts {
		return Clip(err.Error())
	}
	//rule:T14 ./server TestLog plainly(err) => err.Error()
	return Clip(plainly(err))
}

func plainly(err error) string {
	var b *because
	var f *body.Failure
	var he *httpError
	switch {
	case errors.As(err, &b):
		return plainly(b.cause)
	case errors.As(err, &f):
		//rule:T14 ./server TestLogWords f.Plain() => f.Error()
		return f.Plain()
	case errors.As(err, &he):
		return he.text
	case ofMachine(err):
		return err.Error()
	case errors.Is(err, store.ErrNotFound):
		return store.ErrNotFound.Error()
	case errors.Is(err, ask.ErrRequest):
		return ask.ErrRequest.Error() + ": " + string(body.Kind(err))
	}
	return string(body.Kind(err))
}

// ofMachine says whether an error is about the card, the disk, the network, a package or the server
// itself: no text of a request is in it.
func ofMachine(err error) bool {
	for _, known := range []error{context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF, pool.ErrQueueFull, ErrNoEnd,
		ask.ErrBusy, ask.ErrDraining,
		ask.ErrClosed, ask.ErrWrong, axcl.ErrLost, axcl.ErrMemory, axcl.ErrNoDevice, store.ErrReadOnly, store.ErrMismatch,
		store.ErrSpace} {
		if errors.Is(err, known) {
			return true
		}
	}
	return errors.As(err, new(*access.LimitError)) || errors.As(err, new(*axcl.Error)) || errors.As(err, new(*ask.ContextError)) ||
		errors.As(err, new(*ask.MemoryError)) ||
		errors.As(err, new(*ask.FewerError)) || errors.As(err, new(*models.Error)) || errors.As(err, new(*hub.Error)) ||
		errors.As(err, new(*fs.PathError)) || errors.As(err, new(*os.LinkError)) || errors.As(err, new(*net.OpError))
}

// ErrNoEnd is an engine that stops without saying why.
var ErrNoEnd = errors.New("the answer ended without its end")

// Clip shortens what a client wrote to what a log line may hold of it.
func Clip(s string) string {
	const most = 1024
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
