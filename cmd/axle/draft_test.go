//go:build !scripted

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
)

// TestDraftAtStart: a draft model that cannot guess for its model ends serve at its start with exit
// code 2, before a card is opened; one whose model is not there yet is looked at by itself.
func TestDraftAtStart(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"big", "other"} {
		from := filepath.Join(dir, "from-"+name)
		if err := os.Mkdir(from, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := axmodeltest.RandomCheckpoint(from, "qwen3", 5); err != nil {
			t.Fatal(err)
		}
		words := filepath.Join(from, "tokenizer.json")
		b, err := os.ReadFile(words)
		if err != nil {
			t.Fatal(err)
		}
		for _, swap := range [][2]string{{`"A":`, `"swap":`}, {`"B":`, `"A":`}, {`"swap":`, `"B":`}} { // two tokens change places
			if name == "other" {
				b = []byte(strings.Replace(string(b), swap[0], swap[1], 1))
			}
		}
		if err := os.WriteFile(words, b, 0o600); err != nil {
			t.Fatal(err)
		}
		o := compile.Options{From: from, Out: filepath.Join(dir, name), Context: 63, Chunk: 16, History: []int{0, 16}, Name: name}
		if _, err := compile.Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ model, draft, want string }{
		{"big", "big", ""},
		{"big", "other", "cannot draft: its token"},
		{"big", "nothing", "the draft model: "},
		{"absent", "other", ""},
		{"absent", "nothing", "the draft model: "},
		{"big", "=big", ""},
		{"absent", "=big", ""},
		{"big", "=small:1b", "axle pull small:1b"},
		{"big", "=no name", "the draft model: "},
	} {
		draft, named := strings.CutPrefix(c.draft, "=") // a name in the store, else a folder
		if !named {
			draft = filepath.Join(dir, draft)
		}
		m, err := newMachine(machineOptions{device: "axcl:99", models: filepath.Join(dir, "store"),
			paths:  []string{filepath.Join(dir, "big")},
			drafts: map[string]string{c.model: draft}, log: zap.NewNop()})
		var exit *exitError
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "--draft "+c.model+"=") || !errors.As(err, &exit) || exit.code != 2) {
			t.Errorf("%s for %s: %v, want %q", c.draft, c.model, err, c.want)
		}
		if err == nil {
			if err := m.close(); err != nil {
				t.Error(err)
			}
		}
	}
}
