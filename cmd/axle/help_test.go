package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/terminal"
)

// TestHelpFits: the help of every command of ours fits 80 columns, has an example, and says of each
// flag what it does.
func TestHelpFits(t *testing.T) {
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		var b bytes.Buffer
		c.SetOut(&b)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if w := terminal.Width(strings.TrimRight(line, "\n")); w > 80 && len(strings.Fields(line)) > 2 {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), w, line)
			}
		}
		if p := c.Parent(); p != nil && !p.HasParent() && !c.Hidden && c.GroupID == "" {
			t.Errorf("%s is in no group of groups.go", c.CommandPath())
		}
		if c.HasParent() && !c.Hidden && (c.Example == "" || c.Long == "") {
			t.Errorf("%s: no example, or no text", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			if sub.Name() != "completion" && sub.Name() != "help" { // cobra's
				all(sub)
			}
		}
	}
	all(newRootCmd())
}
