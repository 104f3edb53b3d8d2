package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/terminal"
)

// TestHelpFits: the help of every command fits 80 and 60 columns, and no word of it is lost.
func TestHelpFits(t *testing.T) {
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		var b bytes.Buffer
		c.SetOut(&b)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		help := b.String()
		for _, columns := range []int{80, 60} {
			fit := fitHelp(help, columns)
			if !slices.Equal(strings.Fields(fit), strings.Fields(help)) {
				t.Errorf("%s, %d columns: words were lost", c.CommandPath(), columns)
			}
			for line := range strings.Lines(fit) {
				if w := terminal.Width(strings.TrimRight(line, "\n")); w > columns && len(strings.Fields(line)) > 2 {
					t.Errorf("%s: %d of %d columns: %s", c.CommandPath(), w, columns, line)
				}
			}
		}
		for _, sub := range c.Commands() {
			all(sub)
		}
	}
	all(newRootCmd())
}

// Further lines of a description stand under its first one, and a paragraph's lines are joined
// where they have to be broken.
func TestFitHelp(t *testing.T) {
	in := "Answer all that comes, as it was written by hand in\nlines of its own.\n\nFlags:\n  -x, --long   how long\n"
	want := "Answer all that comes, as it was\nwritten by hand in lines of its own.\n\nFlags:\n  -x, --long   how long\n"
	if got := fitHelp(in, 38); got != want {
		t.Errorf("%s", got)
	}
	if got := fitHelp(in, 60); got != in {
		t.Errorf("what fits was changed:\n%s", got)
	}
	if got := fitHelp("  -x, --long string   one two three four five six\n", 42); got !=
		"  -x, --long string   one two three four\n                      five six\n" {
		t.Errorf("%q", got)
	}
}
