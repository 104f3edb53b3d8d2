package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"text/tabwriter"

	"golang.org/x/term"

	"github.com/axle-llm/axle/internal/plain"
)

// Columns is how wide what is written to w may be: its terminal's columns, else those of the
// variable COLUMNS, else 80.
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

// Is says whether what is written to w is seen in a terminal.
func Is(w io.Writer) bool {
	f, ok := plain.Raw(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Screen says how wide the terminal is that w writes to; ok is false where it is none, or one that
// cannot draw a line anew.
func Screen(w io.Writer) (width int, ok bool) {
	if !Is(w) || os.Getenv("TERM") == "dumb" {
		return 80, false
	}
	if n := Columns(w); n > 20 {
		return n, true
	}
	return 80, true
}

// Rows prints rows with columns four spaces apart, as Ollama does.
func Rows(w io.Writer, indent string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 4, ' ', 0)
	for _, r := range rows {
		fmt.Fprint(t, indent)
		for _, cell := range r {
			fmt.Fprint(t, plain.Line(cell), "\t")
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}
