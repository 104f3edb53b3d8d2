package index

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// File is a file that was given to be searched.
type File struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Purpose string `json:"purpose"`
	Bytes   int64  `json:"bytes"`
	Created int64  `json:"created"` // in seconds since 1970, as all times here
}

// Collection is a list of files that are searched together.
type Collection struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Created  int64             `json:"created"`
	Active   int64             `json:"active"`
	Days     int               `json:"days,omitempty"` // after which it goes, counted from its last use; 0: it stays
	Metadata map[string]string `json:"metadata,omitempty"`
}

// Expires is when the collection goes; 0: never.
func (c Collection) Expires() int64 {
	if c.Days == 0 {
		return 0
	}
	return c.Active + int64(c.Days)*24*60*60
}

// Status is how far a file of a collection is.
type Status string

// The statuses, in OpenAI's words.
const (
	InProgress Status = "in_progress"
	Completed  Status = "completed"
	Failed     Status = "failed"
)

// Entry is a file in a collection.
type Entry struct {
	File       string         `json:"file"`
	Created    int64          `json:"created"`
	Status     Status         `json:"status"`
	Code       string         `json:"code,omitempty"` // why it failed
	Message    string         `json:"message,omitempty"`
	Attributes map[string]any `json:"attributes,omitempty"` // texts, numbers and booleans
	Cutting    Cutting        `json:"cutting"`
	Passages   int            `json:"passages"`
	Bytes      int64          `json:"bytes"`           // on disk, the file not counted
	Model      string         `json:"model,omitempty"` // that made the vectors; "": there are none
}

func (e *Entry) copy() Entry {
	c := *e
	c.Attributes = maps.Clone(e.Attributes)
	return c
}

// Counts are how many files of a collection have which status.
type Counts struct{ InProgress, Completed, Failed int }

// Errors of a Library.
var (
	ErrNotFound = errors.New("index: not found")
	ErrFull     = errors.New("index: full")      // a limit of the owner's, or of the disk
	ErrTooLarge = errors.New("index: too large") // a file beyond its limit
	ErrClosed   = errors.New("index: closed")
)

// FullError says which limit was reached. It is ErrFull.
type FullError struct{ Text string }

func (e *FullError) Error() string        { return e.Text }
func (e *FullError) Is(target error) bool { return target == ErrFull }

func full(format string, args ...any) error { return &FullError{fmt.Sprintf(format, args...)} }

// Limits are how much is kept. The zero value of each is its default.
type Limits struct {
	Bytes       int64 // on disk, of one owner; 0: 2 GiB
	File        int64 // of a file; 0: 64 MiB
	Files       int   // of one owner; 0: 10,000
	Collections int   // of one owner; 0: 1,000
	Memory      int64 // of indexes that are kept in memory, of all owners; 0: 32 MiB
}

func (l Limits) filled() Limits {
	for _, f := range []struct {
		at  *int64
		def int64
	}{{&l.Bytes, 2 << 30}, {&l.File, 64 << 20}, {&l.Memory, 32 << 20}} {
		if *f.at <= 0 {
			*f.at = f.def
		}
	}
	if l.Files <= 0 {
		l.Files = 10_000
	}
	if l.Collections <= 0 {
		l.Collections = 1000
	}
	return l
}

// newest orders a list by time, the newest first.
func newest[T any](list []T, at func(T) (int64, string)) []T {
	slices.SortFunc(list, func(a, b T) int {
		at1, id1 := at(a)
		at2, id2 := at(b)
		switch {
		case at1 != at2:
			return int(min(max(at2-at1, -1), 1))
		case id1 < id2:
			return -1
		}
		return 1
	})
	return list
}
