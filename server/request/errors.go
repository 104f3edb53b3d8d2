package request

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/sampler/grammar"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Content types of whole answers.
const (
	JSON   = "application/json; charset=utf-8" // of Ollama's API
	JSONV1 = "application/json"                // of the others
)

const statusClientGone = 499 // it is not sent; the log has it

// TooLong is Ollama's text for a prompt that does not fit.
const TooLong = "the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the context " +
	"length in settings, or use a model with a longer context length"

// Status is the one place where an error of the engine, the host or the store becomes an HTTP
// status and a text.
func Status(err error) (code int, text string) {
	var f *body.Failure
	var ce *ask.ContextError
	var me *models.Error
	var he *httpError
	var pe *ask.PictureError
	var le *access.LimitError
	switch {
	case errors.As(err, &le):
		return http.StatusTooManyRequests, le.Text
	case errors.As(err, &he):
		return he.code, he.text
	case errors.As(err, &f):
		return f.Status, f.Text
	case errors.Is(err, context.Canceled):
		return statusClientGone, "request canceled"
	case errors.As(err, &ce):
		return http.StatusBadRequest, fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it",
			ce.Have, ce.Max)
	case errors.Is(err, chat.ErrRoom):
		return http.StatusServiceUnavailable, chat.ErrRoom.Error()
	case errors.Is(err, grammar.ErrRoom):
		return http.StatusServiceUnavailable, grammar.ErrRoom.Error()
	case errors.Is(err, ask.ErrBusy), errors.Is(err, pool.ErrQueueFull):
		return http.StatusServiceUnavailable, pool.ErrQueueFull.Error()
	case errors.Is(err, ask.ErrDraining):
		return http.StatusServiceUnavailable, "the server is shutting down"
	case errors.As(err, new(*ask.FewerError)):
		return http.StatusServiceUnavailable, err.Error()
	case errors.Is(err, axcl.ErrLost):
		return http.StatusServiceUnavailable, "the card was lost: " + err.Error()
	case errors.As(err, &pe) && pe.WebP: // as Ollama, which makes another format of those itself
		return http.StatusInternalServerError, "decode WebP image: " + pe.Err.Error()
	case errors.As(err, &pe):
		return http.StatusBadRequest, fmt.Sprintf("Failed to load image or audio file: picture %d: %v", pe.Index+1, pe.Err)
	case errors.Is(err, ask.ErrRequest), errors.Is(err, ask.ErrUnsupported):
		return http.StatusBadRequest, strings.TrimPrefix(strings.TrimPrefix(err.Error(), ask.ErrRequest.Error()+": "), "engine: ")
	case errors.As(err, new(*ask.TemplateError)):
		return http.StatusInternalServerError, err.Error()
	case errors.Is(err, models.ErrName):
		return http.StatusBadRequest, models.ErrName.Error()
	case errors.Is(err, store.ErrTaken), errors.Is(err, models.ErrKind):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, store.ErrReadOnly):
		return http.StatusForbidden, err.Error()
	case errors.Is(err, axcl.ErrMemory), errors.As(err, &me), errors.Is(err, fs.ErrNotExist), errors.Is(err, store.ErrNotFound),
		errors.Is(err, axcl.ErrNoDevice), errors.Is(err, context.DeadlineExceeded):
		return http.StatusInternalServerError, err.Error()
	}
	return http.StatusInternalServerError, "an error was encountered while running the model: " + err.Error()
}

// httpError is an error of the request itself, with its status.
type httpError struct {
	code int
	text string
}

func (e *httpError) Error() string { return e.text }

// Error is an error of the request itself, in our own words, with its status.
func Error(code int, text string) error { return &httpError{code, text} }

// Forbidden is a request that the key may not make; what is what may not be done: "this", for one.
func Forbidden(what string) error {
	return Error(http.StatusForbidden,
		what+" needs a key of the role admin: role=admin in the server's file of keys, or axle key add --role admin")
}

// Own says whether an error was made by Error or Because, so that its status is known.
func Own(err error) bool { return errors.As(err, new(*httpError)) }

// retryAfter is the Retry-After of an overloaded or ending server, in seconds; empty for other
// statuses.
func retryAfter(code int) string {
	if code == http.StatusServiceUnavailable {
		return "1"
	}
	return ""
}
