package soft

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// TestMoreThanTheHost: a model of headers that claims more than the machine has is refused before
// anything is allocated; a Go runtime that is refused memory would end the process.
func TestMoreThanTheHost(t *testing.T) {
	dir := t.TempDir()
	shape := axmodel.Shape{Name: "qwen3", Layers: 64, Hidden: 64, Heads: 8, KVHeads: 8, HeadDim: 128, Intermediate: 96, Vocab: 1000,
		Context:    1 << 20,
		LayerBytes: 1000, HeadBytes: 1000, NoEmbeddings: true}
	if err := axmodel.WriteShape(dir, shape); err != nil {
		t.Fatal(err)
	}
	var spec axcl.LoadSpec
	spec.Layers, spec.Head = axmodel.Files(dir, shape.Name, shape.Chunk, shape.Layers)
	d, err := Open(Options{Threads: 1, System: system("16777216", "8388608", nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if i, err := d.Info(); err != nil || !i.Host || i.TotalMem != 16<<30 || i.FreeMem != 8<<30 || i.TotalCMM != 0 {
		t.Errorf("%+v, %v", i, err)
	}
	before := heap.Load()
	if _, err := axcl.Load(context.Background(), d, spec); !errors.Is(err, axcl.ErrMemory) ||
		!strings.Contains(err.Error(), "this machine's memory") {
		t.Errorf("274 GB on 8: %v", err)
	}
	if now := heap.Load(); now != before {
		t.Errorf("%d bytes are counted as taken after a load that was refused", now-before)
	}
	spec.Layers = spec.Layers[:1] // 4 GiB of cache: never touched
	m, err := axcl.Load(context.Background(), d, spec)
	if err != nil {
		t.Fatal(err)
	}
	// The kernel calls them available still: who has no 8 GiB any more is told so.
	if i, err := d.Info(); err != nil || i.FreeMem > 4<<30 {
		t.Errorf("%d bytes are free beside 4 GiB that are promised, %v", i.FreeMem, err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if now := heap.Load(); now != before {
		t.Errorf("%d bytes are counted as taken after the close", now-before)
	}
}

// system is a machine of this many MiB, with further files.
func system(total, free string, more map[string]string) fstest.MapFS {
	m := fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: " + total + " kB\nMemFree: 1 kB\nMemAvailable: " + free + " kB\n")}}
	for name, text := range more {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}
