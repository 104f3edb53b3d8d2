//go:build !scripted

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/cmd/internal/conversation"
	"github.com/axle-llm/axle/models/store"
)

// OLLAMA_NOPRUNE and OLLAMA_NOHISTORY are read as Ollama reads them: any word but one for no means
// yes, and AXLE_… wins.
func TestSwitches(t *testing.T) {
	for _, tt := range []struct {
		axle, ollama string
		on           bool
	}{
		{"", "", false}, {"", "1", true}, {"", "yes", true}, {"", `"yes"`, true}, {"", " true ", true}, {"", "0", false},
		{"", "False", false},
		{"0", "yes", false}, {"on", "0", true}, {" ", "on", true},
	} {
		dir := t.TempDir()
		left := filepath.Join(dir, "blobs", "tmp-left")
		if err := os.MkdirAll(filepath.Dir(left), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		if old := time.Now().Add(-2 * leftTime); os.Chtimes(left, old, old) != nil {
			t.Fatal("no time can be set")
		}
		st, err := store.Open(store.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("HOME", dir)
		for _, name := range []string{"NOPRUNE", "NOHISTORY"} {
			t.Setenv("AXLE_"+name, tt.axle)
			t.Setenv("OLLAMA_"+name, tt.ollama)
		}
		s, err := readSettings(os.Getenv, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !s.runsOn.noPrune {
			prune(st, zap.NewNop())
		}
		conversation.OpenHistory().Add("said")
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = os.Stat(left)
		_, herr := os.Stat(filepath.Join(dir, ".axle", "history"))
		if kept, silent := err == nil, herr != nil; kept != tt.on || silent != tt.on {
			t.Errorf("%q, %q: pulls kept %t, history off %t, want %t", tt.axle, tt.ollama, kept, silent, tt.on)
		}
	}
}
