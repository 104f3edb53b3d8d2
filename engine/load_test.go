package engine

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models"
)

func TestSoftMemory(t *testing.T) {
	//proves:D2
	testMemory(t, func(string) func() (axcl.Device, string, error) { return openSoft })
}

// testMemory loads a model beside another, in each way that goes wrong.
func testMemory(t *testing.T, device func(config string) func() (axcl.Device, string, error)) {
	dir := compiled(t, "qwen3")
	card, err := OpenCard(device(""), CardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	ctx := context.Background()
	first, err := Open(ctx, dir, OpenOptions{Card: card})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	free := func() (n int64) {
		if err := card.Do(ctx, func(d axcl.Device) error {
			info, err := d.Info()
			n = info.FreeCMM
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := free()
	cancelled, cancel := context.WithCancel(ctx)
	var seen []int
	_, err = Open(cancelled, dir, OpenOptions{Card: card, Progress: func(p Progress) {
		if seen = append(seen, p.Done); p.Done == 2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) || !slices.Equal(seen, []int{0, 1, 2}) {
		t.Errorf("cancelled at the second file: %v after %v", err, seen)
	}
	if now := free(); now != before {
		t.Errorf("a cancelled load: %d bytes were free, %d are", before, now)
	}
	// The same package, its third layer replaced after it was checked: by a head.
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.CopyFS(broken, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	layers, _ := filepath.Glob(filepath.Join(broken, "*_l2_*"))
	if len(layers) != 1 {
		t.Fatal(layers)
	}
	second, err := Open(ctx, broken, OpenOptions{Card: card, Progress: func(p Progress) {
		if p.Done == 1 {
			if err := os.Rename(filepath.Join(broken, "m_post.axmodel"), layers[0]); err != nil {
				t.Error(err)
			}
		}
	}})
	if err == nil {
		second.Close()
		t.Fatal("a damaged layer was loaded")
	}
	if !strings.Contains(err.Error(), filepath.Base(layers[0])) {
		t.Errorf("the error does not name the file: %v", err)
	}
	if now := free(); now != before {
		t.Errorf("a failed load: %d bytes were free, %d are", before, now)
	}
	if out, _, err := run(first.b, greedy([]int32{1, 2, 3}, 4)); err != nil || len(out) == 0 {
		t.Errorf("the model beside it: %v %v", out, err)
	}
}

// TestProgress: each file of a load is told of, with the time the rest will take by the bytes that
// are left.
func TestProgress(t *testing.T) {
	var now atomic.Int64
	card, err := OpenCard(openSoft, CardOptions{Clock: func() time.Duration { return time.Duration(now.Add(int64(time.Second))) }})
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	var seen []Progress
	m, err := Open(context.Background(), compiled(t, "qwen3"),
		OpenOptions{Card: card, Name: "it", Progress: func(p Progress) { seen = append(seen, p) }})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if first := seen[0]; first.Model != "it" || first.Done != 0 || first.Bytes != 0 || first.File != "" || first.Needs <= first.Of ||
		first.Free <= 0 {
		t.Errorf("at the beginning %+v", first)
	}
	if seen = seen[1:]; len(seen) != m.Info().Layers+1 {
		t.Fatalf("%d steps for %d layers and the head", len(seen), m.Info().Layers)
	}
	for i, p := range seen {
		if p.Model != "it" || p.Done != i+1 || p.Total != len(seen) || p.Of != seen[0].Of || !strings.HasSuffix(p.File, ".axmodel") {
			t.Errorf("step %d: %+v", i, p)
		}
		if i > 0 && (p.Bytes <= seen[i-1].Bytes || p.Elapsed <= seen[i-1].Elapsed || p.File == seen[i-1].File) {
			t.Errorf("step %d: %+v after %+v", i, p, seen[i-1])
		}
		if want := float64(p.Elapsed) / float64(p.Bytes) * float64(p.Of-p.Bytes); p.Elapsed <= 0 ||
			math.Abs(float64(p.Left)-want) > float64(time.Microsecond) {
			t.Errorf("step %d: %v left, want %v", i, p.Left, time.Duration(want))
		}
	}
	if last := seen[len(seen)-1]; last.Left != 0 || last.Bytes != last.Of {
		t.Errorf("at the end %+v", last)
	}
}

// TestNoRoom (D3): a model that does not fit is refused with both numbers before its first file is
// touched; a host may make room, once.
func TestNoRoom(t *testing.T) {
	dir := compiled(t, "qwen3")
	ctx := context.Background()
	card, err := OpenCard(func() (axcl.Device, string, error) {
		d, err := soft.Open(soft.Options{Threads: 1, CMM: 1 << 20})
		return d, "test", err
	}, CardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	var idle []*Model
	for {
		m, err := Open(ctx, dir, OpenOptions{Card: card})
		if err != nil {
			var me *MemoryError
			if !errors.As(err, &me) || !errors.Is(err, axcl.ErrMemory) || me.Need <= me.Free || me.Free <= 0 {
				t.Fatalf("%v, want a MemoryError that wants more than is free", err)
			}
			break
		}
		idle = append(idle, m)
	}
	if len(idle) == 0 {
		t.Fatal("not even one fits: the test's card is too small")
	}
	asked := 0
	m, err := Open(ctx, dir, OpenOptions{Card: card, Room: func(need, free int64) bool {
		if asked++; need <= free {
			t.Errorf("asked for room for %d, %d are free", need, free)
		}
		if err := idle[0].Close(); err != nil {
			t.Error(err)
		}
		return true
	}})
	if err != nil || asked != 1 {
		t.Fatalf("%v, asked %d times", err, asked)
	}
	idle[0] = m
	if _, err := Open(ctx, dir, OpenOptions{Card: card, Room: func(int64, int64) bool { return false }}); !errors.Is(err, axcl.ErrMemory) {
		t.Errorf("nothing to unload: %v", err)
	}
	for _, m := range idle {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNever (D3): a model that would not fit on an empty card says so, beside others and without
// them; one that would fit once others have gone does not, also where what another process held is
// given back.
func TestNever(t *testing.T) {
	ctx, dir := context.Background(), compiled(t, "qwen3")
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	need := p.Memory().Load
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		cmm   int64
		never bool
	}{{need - 1, true}, {need + need/2, false}} {
		card, err := OpenCard(func() (axcl.Device, string, error) {
			d, err := soft.Open(soft.Options{Threads: 1, CMM: tt.cmm})
			return d, "test", err
		}, CardOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var me *MemoryError
		if !tt.never {
			m, err := Open(ctx, dir, OpenOptions{Card: card})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := m.Close(); err != nil || card.ours.Load() != 0 {
					t.Errorf("%v; of the closed model %d bytes are held", err, card.ours.Load())
				}
				_ = card.Close()
			}()
		} else {
			defer card.Close()
		}
		if _, err := Open(ctx, dir, OpenOptions{Card: card}); !errors.As(err, &me) || me.Never != tt.never ||
			strings.Contains(me.Error(), "at the most") != tt.never {
			t.Errorf("on a card of %d, which need %d: %+v, %v", tt.cmm, need, me, err)
		}
		if err := card.Never("x", need); (err != nil) != tt.never {
			t.Errorf("on a card of %d, which need %d: %v", tt.cmm, need, err)
		}
	}
}

// TestHostRoom (D3): a device without memory of its own takes the machine's, and a package that
// claims more of it than is free is refused with both numbers before its first file is touched.
func TestHostRoom(t *testing.T) {
	//proves:D3 in software against this machine's memory, its control groups' limits among it
	dir := t.TempDir()
	if err := axmodel.WriteShape(dir, axmodel.Shape{Name: "qwen3", Layers: 64, Hidden: 64, Heads: 8, KVHeads: 8, HeadDim: 128,
		Intermediate: 96, Vocab: 1000,
		Context: 1 << 20, LayerBytes: 1000, HeadBytes: 1000}); err != nil {
		t.Fatal(err)
	}
	machine := fstest.MapFS{"proc/meminfo": {Data: []byte("MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n")}}
	for _, joined := range []bool{false, true} {
		one := func() (axcl.Device, string, error) {
			d, err := soft.Open(soft.Options{Threads: 1, System: machine})
			return d, "test", err
		}
		card, err := OpenCard(one, CardOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := []*Card{card}
		if joined {
			other, err := OpenCard(one, CardOptions{})
			if err != nil {
				t.Fatal(err)
			}
			both, err := OpenCard(func() (axcl.Device, string, error) {
				d, err := Join(all[0], other)
				return d, "test", err
			}, CardOptions{})
			if err != nil {
				t.Fatal(err)
			}
			all, card = []*Card{both, all[0], other}, both
		}
		_, err = Open(context.Background(), dir, OpenOptions{Card: card})
		var me *MemoryError
		if !errors.As(err, &me) || !me.Host || me.Need < 270e9 || me.Free != 8<<30 || !errors.Is(err, axcl.ErrMemory) ||
			!strings.Contains(err.Error(), "this machine's memory") {
			t.Errorf("274 GB on a machine of 16: %v", err)
		}
		closeCards(all)
	}
}
