package body

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Failure is an error with the status and text that a client sees, and what of that a log may hold.
type Failure struct {
	Status      int
	Text, plain string
}

// Fail is an error with the status and text that a client sees. Arguments that may be a client's
// words, which are all but numbers and [Ours], are left out of what [Failure.Plain] gives.
func Fail(status int, format string, args ...any) error {
	bare := make([]any, len(args))
	for i, a := range args {
		bare[i] = plain(a)
	}
	return &Failure{status, fmt.Sprintf(format, args...), fmt.Sprintf(format, bare...)}
}

// Bad is err as a mistake in a request, unless it is a [Failure] already.
func Bad(err error) error {
	if err == nil || errors.As(err, new(*Failure)) {
		return err
	}
	return Fail(400, "%s", err)
}

// ErrorJSON is the body of an error where a dialect has no other form.
func ErrorJSON(text string) []byte {
	b, _ := json.Marshal(map[string]string{"error": text})
	return b
}

// Error is the text that a client sees.
func (f *Failure) Error() string { return f.Text }

// Plain is the text without what a client sent.
func (f *Failure) Plain() string { return f.plain }

// Ours is a text that is ours, an option's name for one.
type Ours string

const left = Ours("…")

func plain(a any) any {
	switch t := a.(type) {
	case nil, bool, Ours, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64, float32, float64:
		return a
	case error:
		return Kind(t)
	}
	return left
}

// Kind is what kind of error err is, told without any text that it may quote from a client.
func Kind(err error) Ours {
	var ut *json.UnmarshalTypeError
	var se *json.SyntaxError
	var f *Failure
	switch {
	case errors.As(err, &f):
		return Ours(f.plain)
	case errors.As(err, &ut): // its value may be a number as it was sent
		what, _, _ := strings.Cut(ut.Value, " ")
		return Ours(fmt.Sprintf("json: cannot unmarshal %s into %s.%s of type %v", what, ut.Struct, ut.Field, ut.Type))
	case errors.As(err, &se):
		return Ours(fmt.Sprintf("json: not valid at byte %d", se.Offset))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Ours(io.ErrUnexpectedEOF.Error())
	}
	var types []string
	for err != nil {
		types = append(types, strings.TrimPrefix(fmt.Sprintf("%T", err), "*"))
		switch t := err.(type) { //nolint:errorlint // each link of the chain is looked at
		case interface{ Unwrap() error }:
			err = t.Unwrap()
		case interface{ Unwrap() []error }:
			all := t.Unwrap()
			err = all[len(all)-1] // the cause stands last
		default:
			err = nil
		}
	}
	return Ours(strings.Join(types, ": "))
}
