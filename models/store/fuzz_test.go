package store

import (
	"context"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/models/hub"
)

// A manifest is refused or names only files that can be opened inside the package.
func FuzzManifest(f *testing.F) {
	d := "sha256:" + strings.Repeat("ab", 32)
	f.Add([]byte(`{"schemaVersion":2,"layers":[{"mediaType":"application/vnd.axle.file","digest":"` + d +
		`","size":3,"name":"a/b.axmodel"}],"axle":{"from":"x"}}`))
	f.Add([]byte(`{"schemaVersion":2,"config":{"digest":"` + d +
		`"},"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"` + d + `","size":1}]}`))
	f.Add([]byte(`{"layers":[{"mediaType":"application/vnd.axle.file","digest":"` + d +
		`","size":-1,"name":"../x"}],"axle":{"folder":"/"}}`))
	f.Add([]byte(`{"layers":null}`))
	_, c := testHub(f)
	disk := newMemDisk()
	s, err := Open(Options{Disk: disk})
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"axle/one", "axle/two"} { // as a pull writes them
		if err := s.Pull(context.Background(), name, c, nil); err != nil {
			f.Fatal(err)
		}
		data, err := readAll(disk, "manifests/registry.ollama.ai/"+name+"/latest", maxManifest)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzzguard.Check(t, len(data), func() { manifested(t, data) }) })
}

func manifested(t *testing.T, data []byte) {
	t.Helper()
	m, refs, err := parseManifest(data)
	if err != nil {
		return
	}
	if len(refs) < len(m.Layers) {
		t.Fatalf("%d references to %d layers", len(refs), len(m.Layers))
	}
	p := newPackageFS(newMemDisk(), m.files())
	err = fs.WalkDir(p, ".", func(name string, _ fs.DirEntry, err error) error {
		if !fs.ValidPath(name) {
			t.Fatalf("a file called %q", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	if m2, _, err := parseManifest(again); err != nil || len(m2.Layers) != len(m.Layers) {
		t.Fatalf("written and read back: %v", err)
	}
}

// A state that is read back is one of the file: its parts are in it, one after the other, and none
// claims more than it has.
func FuzzState(f *testing.F) {
	//proves:T10
	st := hub.NewState(1000, 300)
	st.Parts[1].Have = 7
	disk := newMemDisk()
	if err := mkdirs(disk, "blobs"); err != nil {
		f.Fatal(err)
	}
	(&Store{disk: disk}).writeState("blobs/x", st)
	data, err := readAll(disk, "blobs/x.parts", 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, int64(1000))
	f.Add([]byte(`{"size":10,"parts":[{"start":0,"end":9223372036854775807,"have":9223372036854775807}]}`), int64(10))
	f.Add([]byte(`{"size":-1,"parts":[{"start":0,"end":-1,"have":0}]}`), int64(-1))
	f.Add([]byte(`{"size":0}`), int64(0))
	f.Add([]byte(`{"size":5,"parts":[{"end":3,"have":3},{"start":2,"end":5}]}`), int64(5))
	f.Fuzz(func(t *testing.T, data []byte, size int64) {
		fuzzguard.Check(t, len(data), func() { stated(t, data, size) })
	})
}

func stated(t *testing.T, data []byte, size int64) {
	t.Helper()
	d := newMemDisk()
	d.names["x.parts"] = 0
	d.inodes = []*inode{{data: data}}
	st := (&Store{disk: d}).readState("x", size)
	if st == nil {
		return
	}
	at, have := int64(0), int64(0)
	for _, p := range st.Parts {
		if p.Start != at || p.End <= p.Start || p.Have < 0 || p.Have > p.End-p.Start || p.End > size {
			t.Fatalf("%+v of a file of %d", p, size)
		}
		at, have = p.End, have+p.Have
	}
	if at != size || st.Size != size || st.Done() != have || have > size {
		t.Fatalf("%d bytes in parts, %d of %d, of a file of %d", at, st.Done(), have, size)
	}
}

// The lines of a SHA256SUMS file name files of the package, or nothing.
func FuzzSums(f *testing.F) {
	h := strings.Repeat("0123456789abcdef", 4)
	f.Add([]byte(h + "  config.json\n" + h + " *a/b.axmodel\r\n"))
	f.Add([]byte(h + "  ../../etc/passwd\n" + h + "  /x\nno sum\n\n" + h))
	f.Add([]byte(strings.Repeat("x", 70<<10) + "\n" + h + "  after\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzguard.Check(t, len(data), func() {
			for name, d := range sums(string(data)) {
				if !fs.ValidPath(name) || path.Clean(name) != name || d.IsZero() &&
					!strings.Contains(string(data), strings.Repeat("0", 64)) {
					t.Fatalf("%q is to be %s", name, d)
				}
			}
		})
	})
}

// A mebibyte of each keeps within the limits too.
func TestHostileStoreFiles(t *testing.T) {
	//proves:G5 a mebibyte of hostile bytes each
	d := "sha256:" + strings.Repeat("ab", 32)
	for name, data := range map[string][]byte{
		"empty layers": fuzzguard.Fill(`{"layers":[{}`, `,{}`, `]}`),
		"layers":       fuzzguard.Fill(`{"layers":[{"digest":"`+d+`"}`, `,{"digest":"`+d+`"}`, `]}`),
		"one key":      fuzzguard.Fill(`{"layers":[]`, `,"layers":[]`, `}`),
		"deep":         fuzzguard.Fill(`{"layers":`, `[`, ``),
	} {
		t.Run(name, func(t *testing.T) { fuzzguard.Check(t, len(data), func() { manifested(t, data) }) })
	}
	var files strings.Builder
	files.WriteString(`{"layers":[`)
	for i := 0; files.Len() < 1<<20-200; i++ {
		fmt.Fprintf(&files, `{"mediaType":%q,"digest":%q,"name":"%x/%x/f"},`, mediaFile, d, i, i)
	}
	data := []byte(strings.TrimSuffix(files.String(), ",") + "]}")
	fuzzguard.Check(t, len(data), func() { manifested(t, data) })
	parts := fuzzguard.Fill(`{"size":10,"parts":[{}`, `,{}`, `]}`)
	fuzzguard.Check(t, len(parts), func() { stated(t, parts, math.MaxInt64) })
	line := strings.Repeat("ab", 32) + "  x\n"
	data = fuzzguard.Fill("", line, "")
	fuzzguard.Check(t, len(data), func() {
		n := 0
		for range sums(string(data)) {
			n++
		}
		if n != len(data)/len(line) {
			t.Errorf("%d sums of %d", n, len(data)/len(line))
		}
	})
}
