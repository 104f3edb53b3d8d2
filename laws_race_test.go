package axle

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUninstrumented: a package that the race lane compiles without instrumentation uses no
// synchronisation but mutexes and wait groups. Atomics and generic types that have them, such as
// sync.Map, would hide from the race detector what they order, there and in other packages.
func TestUninstrumented(t *testing.T) {
	b, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^ARITHMETIC := (.+)$`).FindSubmatch(b)
	if m == nil {
		t.Fatal("the Makefile has no ARITHMETIC")
	}
	atomics := regexp.MustCompile(`"sync/atomic"|\bsync\.(Map|Once\w*|Pool|Cond)\b`)
	for _, dir := range strings.Fields(string(m[1])) {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(src), "\n") {
				if code, _, _ := strings.Cut(line, "//"); atomics.MatchString(code) {
					t.Errorf("%s:%d uses %s, and the race lane does not instrument it", name, i+1, atomics.FindString(code))
				}
			}
		}
	}
}
