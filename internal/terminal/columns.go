package terminal

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"github.com/axle-llm/axle/internal/plain"
)

// Columns is how wide what is written to w may be: its terminal's columns, else those of the variable COLUMNS, else 80.
func Columns(w io.Writer) int {
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

// TabsFor is a writer of text and tables for a person, as wide as w allows.
func TabsFor(w io.Writer) *Tabs { return NewTabs(w, Columns(w), false) }
