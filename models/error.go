package models

import (
	"errors"
	"strings"
)

// Error says what is wrong with a package, where, and what to do about it. All that [Open] finds
// wrong comes as an *Error.
type Error struct {
	Path string // the file or folder, as the user may look it up
	What string
	Fix  string // may be empty
	Err  error  // the cause, or one of the sentinels below; may be nil
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("models: ")
	if e.Path != "" {
		b.WriteString(e.Path)
		b.WriteString(": ")
	}
	b.WriteString(e.What)
	if e.Fix != "" {
		b.WriteString("; ")
		b.WriteString(e.Fix)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Sentinels for errors.Is.
var (
	ErrNotPackage = errors.New("models: not a model package")
	ErrMissing    = errors.New("models: a file of the package is missing")
	ErrPointer    = errors.New("models: a Git LFS pointer, not the file itself")
	ErrSize       = errors.New("models: a file has the wrong size")
	ErrMismatch   = errors.New("models: parts of the package disagree")
	ErrEscape     = errors.New("models: a path leaves the package")
	ErrMalformed  = errors.New("models: malformed file")
	ErrClosed     = errors.New("models: package is closed")
	ErrName       = errors.New("invalid model name")
	ErrDigest     = errors.New("invalid digest format")
)
