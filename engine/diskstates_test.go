package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/rows"
)

// twenty is a prompt of twenty tokens.
var twenty = []int32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}

// TestStatesAcrossRestarts (T17): a snapshot and its rows come back from disk together or not at
// all, to who has their key; whatever of the files is damaged or gone, the tokens are the same, and
// what cannot be had is evaluated.
func TestStatesAcrossRestarts(t *testing.T) {
	//proves:G20 of a model with states, where a snapshot and its rows come back together or not at all
	job := greedy(slices.Concat(twenty, twenty, twenty[:3]), 4)
	job.IgnoreStop = true
	want, _, err := run(onFake(t, withStates(2), OpenOptions{CardOptions: still}), job)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	whole := map[string][]byte{}
	restore := func() {
		for name, b := range whole {
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	each := func(which func(string) bool, change func([]byte) []byte) func() {
		return func() {
			for name, b := range whole {
				if which(name) {
					if err := os.WriteFile(name, change(bytes.Clone(b)), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	state := func(name string) bool { return strings.HasSuffix(name, ".state") }
	block := func(name string) bool { return len(filepath.Base(name)) == 64 }
	flip := func(at func(n int) int) func([]byte) []byte {
		return func(b []byte) []byte { b[at(len(b))] ^= 4; return b }
	}
	for i, c := range []struct {
		name   string
		key    string
		cached int
		change func()
	}{
		{"the first time", "ann", 0, nil},
		{"after a restart", "ann", 35, nil},
		{"another key", "bob", 0, nil},
		{"no key", "", 0, nil},
		{"a state's head", "ann", 0, each(state, flip(func(int) int { return 3 }))},
		{"a state's rows", "ann", 0, each(state, flip(func(n int) int { return n / 2 }))},
		{"a state's bytes", "ann", 0, each(state, flip(func(n int) int { return n - 36 }))},
		{"a state's sum", "ann", 0, each(state, flip(func(n int) int { return n - 1 }))},
		{"a state cut short", "ann", 0, each(state, func(b []byte) []byte { return b[:len(b)-1] })},
		{"a state with nothing in it", "ann", 0, each(state, func([]byte) []byte { return nil })},
		{"a damaged block", "ann", 0, each(block, flip(func(n int) int { return n / 2 }))},
		{"no blocks", "ann", 0, func() {
			for name := range whole {
				if block(name) {
					if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
				}
			}
		}},
		{"all of it again", "ann", 35, restore},
	} {
		if c.change != nil {
			c.change()
		}
		b := onDisk(t, withStates(3), openRows(t, rows.Options{Dir: dir}), time.Second)
		job.Key = c.key
		out, end, err := run(b, job)
		if err != nil || !slices.Equal(out, want) {
			t.Errorf("%s: %v, %v; without a disk %v", c.name, out, err, want)
		}
		if end.Usage.Cached != c.cached {
			t.Errorf("%s: %d tokens of the prompt were cached, not %d", c.name, end.Usage.Cached, c.cached)
		}
		st := b.Stats().Disk
		if !st.On || (st.In > uint64(st.Hits)*uint64(b.m.shape.RowBytes())) != (c.cached > 0) {
			t.Errorf("%s: the account of the disk is %+v", c.name, st)
		}
		settleDisk(t, b)
		if out := b.Stats().Disk.Out; i == 0 && out == 0 || c.name == "after a restart" && out > 0 {
			t.Errorf("%s: %d bytes went to the disk", c.name, out)
		}
		clean(t, b)
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if i == 0 {
			files, _ := filepath.Glob(filepath.Join(dir, "*", "*"))
			if !slices.ContainsFunc(files, state) || !slices.ContainsFunc(files, block) {
				t.Fatalf("on disk are %q", files)
			}
			for _, name := range files {
				if whole[name], err = os.ReadFile(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestStatesRestartedTurns: a chat of twelve turns whose server is started anew before each of them
// says what it says without a disk, and evaluates at most a chunk and what is new, with thinking,
// which is cut out of the history, and without.
func TestStatesRestartedTurns(t *testing.T) {
	//proves:G20 twelve turns
	for _, thinks := range []bool{true, false} {
		dir := t.TempDir()
		alone := onFake(t, longStates(8), OpenOptions{CardOptions: still})
		turns(t, thinks, func(job Job) ([]int32, Token) {
			want, _, err := run(alone, job)
			if err != nil {
				t.Fatal(err)
			}
			b := onDisk(t, longStates(8), openRows(t, rows.Options{Dir: dir}), time.Second)
			out, last, err := run(b, job)
			if err != nil || !slices.Equal(out, want) {
				t.Fatalf("%v, %v; without a disk %v", out, err, want)
			}
			settleDisk(t, b)
			clean(t, b)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			return out, last
		})
	}
}

// TestStatesSameOnDisk (G12): over random edits of conversations, with restarts, on disks with room
// for all of it and for little, with a tier in memory between and few slots, the tokens are those
// without.
func TestStatesSameOnDisk(t *testing.T) {
	//proves:G12 300 edits over a disk
	n := 300
	if testing.Short() || lane.Race {
		n = 30
	}
	n = editsOr(n)
	truth := onFake(t, withStates(2), OpenOptions{CardOptions: still})
	jobs, want := edits(29, n, fakeVocab, 96, truthOn(t, truth))
	for _, c := range []struct {
		name  string
		slots int
		state int
		size  int64
		ram   int64
	}{{"much room", 20, 8, 1 << 30, 0}, {"few slots", 2, 8, 1 << 30, 0}, {"little room", 3, 8, 32 << 10, 0},
		{"memory too", 3, 8, 1 << 30, 6 << 10}, {"in pieces", 3, axcl.PieceBytes + 8, 60 << 20, 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // one computes while another waits for its disk
			n, step, dir := n, 20, t.TempDir()
			if c.state > 8 {
				n, step = min(n, 12), 6
			}
			restart := func() *cardBackend {
				f := withStates(c.slots)
				f.shape.State = c.state
				b := onDisk(t, f, openRows(t, rows.Options{Dir: dir, Size: c.size}), time.Second)
				if c.ram > 0 {
					err := b.card.Do(context.Background(), func(axcl.Device) error { return b.m.openRAM(NewMemory(c.ram)) })
					if err != nil {
						t.Fatal(err)
					}
				}
				return b
			}
			shut := func(b *cardBackend) (back int64) {
				back = settleDisk(t, b)
				clean(t, b)
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				return back
			}
			for i := 0; i < n; i += step {
				b := restart()
				var wg sync.WaitGroup
				for w := range 4 { // some at a time, in order, and some of them once more
					wg.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(i), uint64(w)))
						for j := i + w; j < min(i+step, n); j += 4 {
							for _, j := range []int{j, rng.IntN(j + 1)} {
								if out, _, err := run(b, jobs[j]); err != nil || !slices.Equal(out, want[j]) {
									t.Errorf("job %d, prompt %v: %v %v, alone %v", j, jobs[j].IDs, out, err, want[j])
								}
							}
						}
					})
				}
				wg.Wait()
				shut(b)
			}
			// What a crowd leaves on disk is as it falls: a state may be gone before the card is
			// idle. Who is alone finds his again.
			job := greedy(slices.Concat(twenty, twenty, twenty[:3]), 4)
			job.Key = "alone"
			first, _, err := run(truth, job)
			if err != nil {
				t.Fatal(err)
			}
			for again := range 2 {
				b := restart()
				if out, _, err := run(b, job); err != nil || !slices.Equal(out, first) {
					t.Errorf("%v %v, without a disk %v", out, err, first)
				}
				if back := shut(b); again == 1 && back == 0 {
					t.Error("no row came back from disk")
				}
			}
		})
	}
}

// TestStatesOnDiskFaults: a call that fails on the way of a state, there or back, costs the request
// nothing and leaves no slot behind; and neither does who leaves while his state comes.
func TestStatesOnDiskFaults(t *testing.T) {
	job := greedy(slices.Concat(twenty, twenty, twenty[:3]), 4)
	job.IgnoreStop = true
	want, _, err := run(onFake(t, withStates(2), OpenOptions{CardOptions: still}), job)
	if err != nil {
		t.Fatal(err)
	}
	big := func() *fake { f := withStates(3); f.shape.State = axcl.PieceBytes + 8; return f }
	dir := t.TempDir()
	b := onDisk(t, big(), openRows(t, rows.Options{Dir: dir}), time.Second)
	if _, _, err := run(b, job); err != nil {
		t.Fatal(err)
	}
	settleDisk(t, b)
	mild := &axcl.Error{Op: "axclrtMemcpyAsync", Code: 0x80300703}
	ways := map[bool]int{true: 2, false: 1} // what goes, goes when the answer is out
	for _, in := range []bool{true, false} {
		for nth, more := 1, true; more; nth++ {
			t.Run(fmt.Sprint("in: ", in, ", call ", nth), func(t *testing.T) {
				from := dir
				if !in {
					from = t.TempDir()
				}
				for _, leaves := range []bool{false, true}[:ways[in]] {
					f, n := big(), 0
					b := onDisk(t, f, openRows(t, rows.Options{Dir: from}), time.Second)
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					if err := b.card.Do(context.Background(), func(axcl.Device) error {
						f.copy = func(into bool) error {
							if into == in {
								if n++; n == nth {
									if leaves {
										cancel()
										return nil
									}
									return mild
								}
							}
							return nil
						}
						return nil
					}); err != nil {
						t.Fatal(err)
					}
					var out []int32
					for tok, err := range b.Complete(ctx, job) {
						if err != nil && !(leaves && errors.Is(err, context.Canceled)) {
							t.Fatal(err)
						}
						if err == nil && tok.Final == "" {
							out = append(out, tok.ID)
						}
					}
					if !leaves && !slices.Equal(out, want) {
						t.Errorf("%v, want %v", out, want)
					}
					settleDisk(t, b)
					if out, _, err := run(b, job); err != nil || !slices.Equal(out, want) {
						t.Errorf("again: %v, %v", out, err)
					}
					settleDisk(t, b)
					clean(t, b)
					more = more && n >= nth
				}
			})
			runtime.Gosched()
		}
	}
}

// TestStatesPackageOnDisk: a compiled checkpoint whose layers keep states, on the software card:
// after a restart the next turn of a conversation evaluates at most a chunk and what is new; the
// tokens are those without a disk, in a dozen of edited conversations too.
func TestStatesPackageOnDisk(t *testing.T) { statesOnDisk(t, openSoft, editsOr(12)) } //proves:G20

// statesOnDisk is TestStatesPackageOnDisk on a device.
func statesOnDisk(t *testing.T, open func() (axcl.Device, string, error), n int) {
	dir := compiled(t, "qwen3_5")
	var jobs []Job
	var want [][]int32
	var answer []int32
	first := greedy(slices.Concat(twenty, twenty), 12)
	first.IgnoreStop = true
	next := first
	t.Run("alone", func(t *testing.T) {
		_, alone := load(t, dir, open, OpenOptions{Parallel: 1, CardOptions: still})
		truth := truthOn(t, alone)
		answer = truth(first)
		next.IDs = slices.Concat(first.IDs, answer, []int32{7, 9, 11, 13})
		jobs, want = edits(31, n, axmodeltest.Vocab, 95, truth)
		jobs = append([]Job{first, next}, jobs...)
		want = append([][]int32{answer, truth(next)}, want...)
	})
	at := t.TempDir()
	for i := range jobs { // a server each, but for the edits: one every six
		if i > 2 && (i-2)%6 != 0 {
			continue
		}
		t.Run(fmt.Sprint("from ", i), func(t *testing.T) {
			var now atomic.Int64
			o := OpenOptions{CardOptions: still, Rows: openRows(t, rows.Options{Dir: at})}
			o.CardOptions.Clock = func() time.Duration { return time.Duration(now.Load()) }
			_, b := load(t, dir, func() (axcl.Device, string, error) {
				d, why, err := open()
				return &dear{d, &now}, why, err
			}, o)
			to := i + 1
			if i >= 2 {
				to = min(i+6, len(jobs))
			}
			for j, job := range jobs[i:to] {
				out, last, err := run(b, job)
				if err != nil || !slices.Equal(out, want[i+j]) {
					t.Errorf("job %d: %v %v, alone %v", i+j, out, err, want[i+j])
				}
				if did := last.Usage.Prompt - last.Usage.Cached; i == 1 && did > 16+len(answer)+4 {
					t.Errorf("%d of %d rows are evaluated", did, last.Usage.Prompt)
				}
			}
			if back := settleDisk(t, b); i == 1 && (back == 0 || b.Stats().Disk.In <= uint64(int(back)*b.m.shape.RowBytes())) {
				t.Errorf("%d rows came back, %+v", back, b.Stats().Disk)
			}
			clean(t, b)
		})
	}
}
