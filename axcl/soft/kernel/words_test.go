package kernel

import (
	"debug/elf"
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the words that the assembler gives into the files")

// Every instruction that is written as a number is the one that stands beside it, as an assembler
// that knows it says.
func TestWords(t *testing.T) {
	as, err := exec.LookPath("aarch64-linux-gnu-as")
	if err != nil {
		t.Skip("no assembler for arm64 is here: apt-get install binutils-aarch64-linux-gnu")
	}
	word := regexp.MustCompile(`WORD\s+\$0x([0-9a-f]{8})(?:\s*(?:/\*|//)\s*([^*\n]*[^*\s]))?`)
	files, err := filepath.Glob("*_arm64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		found := word.FindAllSubmatch(text, -1)
		source := strings.Builder{}
		for _, m := range found {
			if len(m[2]) == 0 {
				t.Fatalf("%s: nothing says what %s is", name, m[1])
			}
			fmt.Fprintf(&source, "%s\n", m[2])
		}
		object := filepath.Join(t.TempDir(), "words.o")
		run := exec.CommandContext(t.Context(), as, "-march=armv8.2-a+dotprod", "-o", object, "-")
		run.Stdin = strings.NewReader(source.String())
		if out, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
		code := section(t, object)
		if len(code) != 4*len(found) {
			t.Fatalf("%s: %d bytes of %d words", name, len(code), len(found))
		}
		i := 0
		right := word.ReplaceAllFunc(text, func(old []byte) []byte {
			was, want := string(found[i][1]), fmt.Sprintf("%08x", binary.LittleEndian.Uint32(code[4*i:]))
			if was != want && !*update {
				t.Errorf("%s: %s is %s, not %s", name, found[i][2], want, was)
			}
			i++
			return []byte(strings.Replace(string(old), was, want, 1))
		})
		if *update {
			if err := os.WriteFile(name, right, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// section is the code of an object file.
func section(t *testing.T, name string) []byte {
	t.Helper()
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	code, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	return code
}
