//go:build !scripted

package main

import (
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/terminal"
)

// Whatever is printed for people fits 80 columns.
func TestTablesFit(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, args := range [][]string{
		{"plan", "qwen3-0.6b"},
		{"plan", "qwen3-4b", "--profile", "cm3588"},
		{"pull"},
		{"pull", "--list"},
	} {
		var out strings.Builder
		root := newRootCmd()
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(args)
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		for line := range strings.Lines(out.String()) {
			if terminal.Width(strings.TrimRight(line, "\n")) > 80 {
				t.Errorf("%v: wider than 80 columns: %q", args, line)
			}
		}
	}
}
