package kernel

import (
	"bytes"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The assembly in the tree is what its generator writes. The generator is a module of its own:
// where that has not been fetched, the test says so, and fetches nothing.
func TestGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the generator")
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "avo", "-o", filepath.Join(dir, "avo"), ".")
	build.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly", "GOOS=", "GOARCH=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("the generator cannot be built here (go generate ./axcl/soft/kernel fetches it): %s", out)
	}
	for name, flag := range map[string]string{"avx2_amd64": "-avx512=false", "avx512_amd64": "-avx512"} {
		run := exec.CommandContext(t.Context(), filepath.Join(dir, "avo"), flag, "-out", filepath.Join(dir, name+".s"), "-stubs",
			filepath.Join(dir, name+".go"), "-pkg", "kernel")
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, name := range []string{"avx2_amd64.s", "avx2_amd64.go", "avx512_amd64.s", "avx512_amd64.go"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".go") {
			if got, err = format.Source(got); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// The first line names the command that was run.
		_, got, _ = bytes.Cut(got, []byte("\n"))
		_, want, _ = bytes.Cut(want, []byte("\n"))
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the generator writes: go generate ./axcl/soft/kernel", name)
		}
	}
}
