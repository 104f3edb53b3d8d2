package benchmark

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/models/rows"
)

// This file measures conversations that move to another machine, on the simulated card's virtual
// clock: the network is modelled too.

const (
	gigabit   = 117e6                  // bytes a second that 1 GbE carries
	roundTrip = 500 * time.Microsecond // of a question and its answer over it, with HTTP
	hostDisk  = 64 << 30               // bytes that a machine's folder may take
)

// moved measures each conversation's next turn at another machine: without rows, and with those
// that come over the network.
func (r *measuredCard) moved(ctx context.Context, f *Options, name string, said *bench.Talking,
	again func(kept string) func(*stage) error) (err error) {
	dir, err := os.MkdirTemp(f.Talks.Dir, "axle-bench-hosts-")
	if err != nil {
		return fmt.Errorf("--hosts: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	secret := slices.Repeat([]byte("axle bench "), 4) // it protects nothing: rows of a benchmark
	open := func(at string, from rows.Blobs) (*rows.Disk, error) {
		d, err := rows.Open(rows.Options{Dir: filepath.Join(dir, at), Size: hostDisk, Secret: secret, Remote: from})
		if err != nil {
			return nil, fmt.Errorf("--hosts: %w", err)
		}
		return d, nil
	}
	one, err := open("one", nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, one.Close()) }()
	err = r.with(ctx, f, name, engine.OpenOptions{Rows: one}, func(s *stage) error { return s.meter.Repeat(ctx, said) })
	if err != nil {
		return err
	}
	if err := r.with(ctx, f, name, engine.OpenOptions{}, again(bench.KeptNowhere)); err != nil {
		return err
	}
	two, err := open("two", &wire{from: one, clock: r.clock, until: r.host.WaitUntil})
	if err != nil {
		return err
	}
	err = r.with(ctx, f, name, engine.OpenOptions{Rows: two}, again(bench.KeptOther))
	return errors.Join(err, two.Close())
}

// wire is another machine's folder behind a network, on a virtual clock.
type wire struct {
	from  *rows.Disk
	clock func() time.Duration
	until func(time.Duration)

	mu   sync.Mutex
	free time.Duration // when the last file was through
	last time.Duration // how long it took
}

// takes lets the time pass that the bytes need. Who reads a text asks for the next file as soon
// as it has one. There is one clock for all: that the card's calls have moved it on meanwhile does
// not mean that the next file was asked for later.
func (w *wire) takes(bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	begin := w.clock()
	if bytes > 0 && begin-w.free < w.last {
		begin = w.free
	}
	w.last = roundTrip + time.Duration(float64(bytes)/gigabit*1e9)
	w.free = begin + w.last
	w.until(w.free)
}

// Name implements rows.Blobs.
func (w *wire) Name() string { return "other machine" }

// Get implements rows.Blobs.
func (w *wire) Get(_ context.Context, name string, most int64) ([]byte, error) {
	data, err := w.from.Sealed(name)
	w.takes(len(data))
	if err == nil && int64(len(data)) > most {
		return nil, fs.ErrNotExist
	}
	return data, err
}

// Has implements rows.Blobs: as peers do, with a question for each file that it looks at.
func (w *wire) Has(_ context.Context, names []string) (int, error) {
	return rows.Gallop(len(names), func(i int) (bool, error) {
		w.takes(0)
		return w.from.Has(names[i:i+1]) == 1, nil
	})
}

// Put implements rows.Blobs. Nothing is handed over in a benchmark.
func (w *wire) Put(context.Context, string, []byte) error { return errors.ErrUnsupported }
