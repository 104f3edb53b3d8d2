package tokenizer

import (
	"errors"
	"fmt"
)

// Error is a tokenizer file that cannot be used: it is damaged, hostile, or asks for something this
// package does not do.
type Error struct {
	File string // the file, as it was named to Open
	What string // what is wrong with it
	Err  error  // the cause, or nil
}

func (e *Error) Error() string {
	s := "tokenizer: "
	if e.File != "" {
		s += e.File + ": "
	}
	s += e.What
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// ErrUnsupported is in the chain of errors about files that are sound but use a part of the format
// that is not implemented.
var ErrUnsupported = errors.New("not supported")

// ErrSlow ends an encoding in which the file's own split pattern, one without a scanner of its own,
// takes too long on the text at hand.
var ErrSlow = errors.New("tokenizer: the split pattern takes too long on this text")

// ErrGrows ends an encoding in which the file's own normalizers make many times more of the text
// than it is.
var ErrGrows = errors.New("tokenizer: the file's rules make too much of this text: use the tokenizer the model was published with, or " +
	"send less at once")

// badf makes an Error without a file; Open adds it.
func badf(format string, a ...any) error { return &Error{What: fmt.Sprintf(format, a...)} }

func unsupportedf(format string, a ...any) error {
	return &Error{What: fmt.Sprintf(format, a...), Err: ErrUnsupported}
}

// inFile names the file in an error made by badf or wraps any other one.
func inFile(name string, err error) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) && e.File == "" {
		e.File = name
		return e
	}
	return &Error{File: name, What: "cannot be read", Err: err}
}
