package main

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
)

// columnsOf is how wide what is written to w may be: its terminal's columns, else COLUMNS, else 80.
func columnsOf(w io.Writer) int {
	if f, ok := plain.Raw(w).(*os.File); ok {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 20 && n <= 1000 {
		return n
	}
	return 80
}

// newTabs is a writer of text and tables for a person, as wide as w allows.
func newTabs(w io.Writer) *terminal.Tabs { return terminal.NewTabs(w, columnsOf(w), false) }
