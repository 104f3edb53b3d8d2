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

// system is a machine of so many MiB, with further files.
func system(total, free string, more map[string]string) fstest.MapFS {
	m := fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: " + total + " kB\nMemFree: 1 kB\nMemAvailable: " + free + " kB\n")}}
	for name, text := range more {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

// TestHostMemory: what may be taken is what the kernel calls available, or what the tightest control group above the process leaves.
func TestHostMemory(t *testing.T) {
	const mib = 1 << 20
	for name, tt := range map[string]struct {
		fs          fstest.MapFS
		total, free int64
	}{
		"nothing known": {fstest.MapFS{}, 0, 0},
		"a machine":     {system("8192", "4096", nil), 8 * mib, 4 * mib},
		"a group": {system("8192", "4096", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "3145728\n",
			"sys/fs/cgroup/a/b/memory.current": "2097152\n",
			"sys/fs/cgroup/a/b/memory.stat":    "anon 5\ninactive_file 524288\nactive_file 262144\n"}), 3 * mib, mib + 3*mib/4},
		"the group above it": {system("8192", "4096", map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "2097152\n",
			"sys/fs/cgroup/a/memory.current": "1048576\n"}), 2 * mib, mib},
		"in a container": {system("8192", "4096", map[string]string{"proc/self/cgroup": "0::/elsewhere/x\n",
			"sys/fs/cgroup/memory.max": "1048576\n", "sys/fs/cgroup/memory.current": "1\n"}), mib, mib - 1},
		"a group larger than the machine": {system("8192", "4096",
			map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "9999999999\n"}), 8 * mib, 4 * mib},
		"the older groups": {system("8192", "4096", map[string]string{"proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/a\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "2097152\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "2097152\n",
			"sys/fs/cgroup/memory/a/memory.stat":           "inactive_file 7\ntotal_inactive_file 1048576\n"}), 2 * mib, mib},
		"over its limit": {system("8192", "4096",
			map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1048576\n",
				"sys/fs/cgroup/a/memory.current": "2097152\n"}), mib, 0},
		"nonsense": {system("eight", "-1", map[string]string{"proc/self/cgroup": ":::\nx"}), 0, 0},
	} {
		if total, free := hostMemory(tt.fs); total != tt.total || free != tt.free {
			t.Errorf("%s: %d of %d, want %d of %d", name, free, total, tt.free, tt.total)
		}
	}
}

// TestMoreThanTheHost: a model of headers that claims more than the machine has is refused before anything is allocated; a Go runtime that
// is refused memory would end the process.
func TestMoreThanTheHost(t *testing.T) {
	dir := t.TempDir()
	shape := axmodel.HollowShape{Name: "qwen3", Layers: 64, Hidden: 64, Heads: 8, KVHeads: 8, HeadDim: 128, Intermediate: 96, Vocab: 1000,
		Context:    1 << 20,
		LayerBytes: 1000, HeadBytes: 1000, NoEmbeddings: true}
	if err := axmodel.WriteHollow(dir, shape); err != nil {
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
	if _, err := d.Load(context.Background(), spec); !errors.Is(err, axcl.ErrMemory) ||
		!strings.Contains(err.Error(), "this machine's memory") {
		t.Errorf("274 GB on 8: %v", err)
	}
	if now := heap.Load(); now != before {
		t.Errorf("%d bytes are counted as taken after a load that was refused", now-before)
	}
	spec.Layers = spec.Layers[:1] // 4 GiB of cache: never touched
	m, err := d.Load(context.Background(), spec)
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
