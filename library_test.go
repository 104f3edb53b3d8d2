package axle

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/lane"
)

// TestLibraryDocs: the programs in docs/library.md are whole and compile against the library as it
// is.
func TestLibraryDocs(t *testing.T) {
	lane.Slow(t)
	b, err := os.ReadFile("docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(b), "```go\n")[1:]
	if len(blocks) < 3 {
		t.Fatalf("only %d programs", len(blocks))
	}
	for _, block := range blocks {
		program, _, ok := strings.Cut(block, "```")
		if !ok || !strings.HasPrefix(program, "package main\n") {
			t.Fatalf("no whole program: %.40q", block)
		}
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		// vet type-checks, and does not link; -mod=readonly keeps it from looking for anything that
		// is not here.
		if out, err := exec.Command("go", "vet", "-mod=readonly", file).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		if out, err := exec.Command("gofmt", "-l", file).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("not as gofmt has it: %v %s", err, out)
		}
	}
}
