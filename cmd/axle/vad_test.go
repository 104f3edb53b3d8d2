package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVADFile: what is no net that finds speech ends the start, and says why; without a name there
// is none.
func TestVADFile(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int64{"wrong": 1000, "large": maxVAD + 1} {
		f, err := os.Create(filepath.Join(dir, name))
		if err == nil {
			err = f.Truncate(size)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	for name, want := range map[string]string{"none": "no such file", "wrong": "serve: --vad " + filepath.Join(dir, "wrong") + ": vad: ",
		"large": "has more than 64 MiB", "": "is a directory"} {
		if m, err := readVAD(filepath.Join(dir, name)); m != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if m, err := readVAD(""); m != nil || err != nil {
		t.Errorf("without a name: %v", err)
	}
}
