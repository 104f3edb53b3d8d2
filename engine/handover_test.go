package engine

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/models/rows"
)

// TestHandover: a model that is about to be closed hands over every whole block of every text that
// is on the card or in memory, to disk and to the place behind it; the next machine, with a folder
// of its own, continues each of them, and says the same.
func TestHandover(t *testing.T) {
	//proves:D19 every block, on the card or in memory
	dir := t.TempDir()
	secret := bytes.Repeat([]byte{3}, 32)
	store := &heap{kept: map[string][]byte{}}
	d := openRows(t, rows.Options{Dir: filepath.Join(dir, "a"), Secret: secret, Remote: store})
	medium := &gate{Medium: disk{d}}
	medium.shut.Store(true) // the idle card saves nothing
	var now atomic.Int64
	f := newFake()
	f.run = func(int) error { now.Add(int64(time.Second)); return nil }
	o := OpenOptions{CardOptions: still, Medium: medium, CacheRAM: NewMemory(1 << 20)}
	o.CardOptions.Clock = func() time.Duration { return time.Duration(now.Load()) }
	b := onFake(t, f, o)
	jobs := jobsFor(11, 12, fakeVocab, 60)
	var said [][]int32
	for i := range jobs {
		jobs[i].Key, jobs[i].Limit = []string{"ann", "ben"}[i%2], 9
		for len(jobs[i].IDs) < 40 {
			jobs[i].IDs = append(jobs[i].IDs, jobs[i].IDs...)
		}
		jobs[i].IDs = jobs[i].IDs[:40]
		out, _, err := run(b, jobs[i])
		if err != nil {
			t.Fatal(err)
		}
		said = append(said, out)
	}
	medium.shut.Store(false)
	n, err := b.Handover(context.Background())
	if err != nil || n.Saved < 12 || n.Sent < n.Saved {
		t.Errorf("%+v, %v", n, err)
	}
	texts := append(cache.Texts(b.m.cells), b.m.ram.Texts()...)
	whole := 0
	for _, x := range texts {
		space := d.Space(rows.Owner{Package: "a digest", Card: b.m.diskTier.owner.Card, Key: x.Key, Row: b.m.diskTier.owner.Row})
		keys := space.Keys(spelled(x.IDs))
		if found := space.Find(keys); found != len(keys) || space.FindFar(context.Background(), keys, 0) != len(keys) {
			t.Errorf("%d of %d blocks of a text are on disk", found, len(keys))
		}
		whole += len(keys)
	}
	if len(texts) < 12 || whole < 40 {
		t.Errorf("%d texts, %d blocks: the test shows nothing", len(texts), whole)
	}
	again, err := b.Handover(context.Background())
	if err != nil || again.Saved != 0 || again.Sent != 0 {
		t.Errorf("a second time: %+v, %v", again, err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		secret []byte
		spoil  func([]byte) []byte
		come   bool
	}{
		"another machine": {secret, nil, true},
		"another secret":  {bytes.Repeat([]byte{4}, 32), nil, false},
		"tampered with":   {secret, func(b []byte) []byte { b = slices.Clone(b); b[len(b)/2] ^= 4; return b }, false},
		"cut":             {secret, func(b []byte) []byte { return b[:len(b)-9] }, false},
		"gone":            {secret, func([]byte) []byte { return nil }, false},
	} {
		store.spoil = c.spoil
		to := openRows(t, rows.Options{Dir: filepath.Join(dir, name), Secret: c.secret, Remote: store})
		b := onDisk(t, newFake(), to, time.Second)
		come := uint64(0)
		for i, job := range jobs {
			out, _, err := run(b, job)
			if err != nil || !slices.Equal(out, said[i]) {
				t.Errorf("%s: %v, %v; said %v", name, out, err, said[i])
			}
			settleDisk(t, b)
			clean(t, b)
		}
		if come = b.Stats().Far.Hits; come > 100 != c.come || come > 0 != c.come {
			t.Errorf("%s: %d rows came", name, come)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// gate is a medium that is off while it is shut.
type gate struct {
	cache.Medium
	shut atomic.Bool
}

func (g *gate) Off() bool   { return g.shut.Load() || g.Medium.Off() }
func (g *gate) Far() string { return g.Medium.(disk).Far() }

// heap is a place behind a disk, in a map.
type heap struct {
	mu    sync.Mutex
	kept  map[string][]byte
	spoil func([]byte) []byte // what it gives instead; nil: what it has
}

func (h *heap) Name() string { return "heap" }

func (h *heap) Get(_ context.Context, name string, most int64) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	b, ok := h.kept[name]
	if ok && h.spoil != nil {
		b = h.spoil(b)
	}
	if b == nil {
		return nil, fs.ErrNotExist
	}
	if int64(len(b)) > most {
		return nil, errors.New("too large")
	}
	return b, nil
}

func (h *heap) Put(_ context.Context, name string, data []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept[name] = data
	return nil
}

func (h *heap) Has(_ context.Context, names []string) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n < len(names) && h.kept[names[n]] != nil {
		n++
	}
	return n, nil
}
