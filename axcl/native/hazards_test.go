//go:build cgo && !fake && linux

package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
)

// TestEveryWidePassAwaited: the rows of each wide pass, not only of the first, go home after its
// layers have computed them, whether a row of it is wanted or not, and however long its layers
// take.
func TestEveryWidePassAwaited(t *testing.T) {
	//proves:G13
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		spec := write(t, axcltest.DefaultTiny())
		m, err := axcl.Load(context.Background(), d, spec)
		if err != nil {
			t.Fatal(err)
		}
		run := func(p *axcl.Pass) {
			t.Helper()
			if err := m.Run(p); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range [][]int{nil, {4}, {0, 4}} {
			first, second := widePass(m.Shape(), 5, want...), widePass(m.Shape(), 5, want...)
			second.Hidden = axcltest.Rows(99, 5, m.Shape().Hidden)
			for i := range second.Cell {
				second.Cell[i] += 8
			}
			rows, exact := make([]byte, 5*m.Shape().RowBytes()), make([]byte, 5*m.Shape().RowBytes())
			save := func(to []byte) {
				t.Helper()
				if err := m.Save(second.Cell, to); err != nil {
					t.Fatal(err)
				}
			}
			for r, cell := range second.Cell { // one by one, each waited for
				row := rowPass(m.Shape(), int(cell))
				row.Hidden, row.Pos = second.Hidden[r*m.Shape().Hidden:][:m.Shape().Hidden], second.Pos[r:r+1]
				row.SeeCells[0] = 1<<cell - 1<<second.Cell[0]
				run(row)
			}
			save(exact)
			run(first)
			if err := m.Clear(second.Cell); err != nil {
				t.Fatal(err)
			}
			configure(t, sim, "fault=Execute:*:slow:5ms")
			run(second)
			configure(t, sim, "")
			if save(rows); !bytes.Equal(rows, exact) {
				t.Errorf("%d rows wanted: the second wide pass left other rows in the cache than the layers computed", len(want))
			}
		}
	})
}

// TestTaskFails: a task that fails on the card, in whichever stream, is told of by a code of no
// scheme when it is waited for. It costs the pass, not the card, and the next one is right, though
// what was queued behind the task was skipped.
func TestTaskFails(t *testing.T) {
	//proves:D4 what fails behind the call that queued it
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("on board every call gives its own code")
		}
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		wide, row := widePass(m.Shape(), 5, 3, 4), rowPass(m.Shape(), 5)
		right := func() []uint16 {
			t.Helper()
			for _, p := range []*axcl.Pass{wide, row} {
				if err := m.Run(p); err != nil {
					t.Fatal(err)
				}
			}
			return slices.Concat(wide.Logits, row.Logits)
		}
		want := right()
		// Every asynchronous call of a wide pass, and of a row's: what is sent up, executes, what
		// comes down, rows that go to their cells. Those of meanwhile go while the host works.
		meanwhile := widePass(m.Shape(), 5)
		meanwhile.HiddenOut, meanwhile.Meanwhile = make([]uint16, len(meanwhile.Hidden)), func() {}
		for _, p := range []*axcl.Pass{wide, row, meanwhile} {
			for _, call := range []string{"MemcpyAsync", "ExecuteAsync"} {
				n := 0
				for ; ; n++ {
					configure(t, sim, fmt.Sprintf("fault=%s:%d:0x8030070c:late", call, n))
					err := m.Run(p)
					configure(t, sim, "")
					if err == nil {
						break
					}
					var e *axcl.Error
					if !errors.Is(err, axcl.ErrTask) || axcl.Fatal(err) || errors.Is(err, axcl.ErrLost) || !errors.As(err, &e) ||
						e.Code != 0xffffffff || !strings.Contains(err.Error(), "a task on the card failed (0xffffffff)") {
						t.Fatalf("%s %d of a pass of %d rows: %v", call, n, p.Rows(), err)
					}
					if got := right(); !slices.Equal(got, want) {
						t.Fatalf("after %s %d of a pass of %d rows failed, the next passes differ", call, n, p.Rows())
					}
				}
				if got := right(); !slices.Equal(got, want) { // nothing that failed is left for another pass
					t.Errorf("after a pass of %d rows that did not fail, the next passes differ", p.Rows())
				}
				if n < 2 {
					t.Errorf("a pass of %d rows has %d tasks of %s", p.Rows(), n, call)
				}
			}
		}
		// A call that fails at once while a task before it has failed too; and both streams' tasks.
		for _, plan := range []string{"ExecuteAsync:0:0xffffffff:late;ExecuteAsync:1:0x8030070c", "MemcpyAsync:*:0xffffffff:late"} {
			configure(t, sim, "fault="+plan)
			if err := m.Run(wide); err == nil || axcl.Fatal(err) {
				t.Errorf("%s: %v", plan, err)
			}
			configure(t, sim, "")
			if got := right(); !slices.Equal(got, want) {
				t.Errorf("after %s the next passes differ", plan)
			}
		}
	})
}

// TestHostCopiesOneStream: all copies between host and card are queued on one stream of the card,
// since it keeps one descriptor for those of a process; the second stream has copies within the
// card only.
func TestHostCopiesOneStream(t *testing.T) {
	//proves:G13
	trace := filepath.Join(t.TempDir(), "trace")
	onCard(t, "trace="+trace, func(t *testing.T, k Kind, _ *simhook.Sim) {
		if k == Engine {
			t.Skip("the board has no streams")
		}
		for _, y := range []axcltest.Tiny{axcltest.DefaultTiny(), axcltest.DefaultStates(), axcltest.DefaultGemma4()} {
			if err := os.RemoveAll(trace); err != nil {
				t.Fatal(err)
			}
			d := open(t, k)
			everyCopy(t, d, y)
			closeAll(t, d)
			text, err := os.ReadFile(trace)
			if err != nil {
				t.Fatal(err)
			}
			host, card := map[string]int{}, map[string]int{}
			for _, f := range regexp.MustCompile(`axclrtMemcpy(Async)?\(.* kind=(\d)(?: stream=(\S+))?\)`).FindAllStringSubmatch(string(text), -1) {
				if f[2] == "3" {
					card[f[3]]++
				} else {
					host[f[3]]++
				}
			}
			if len(host) != 1 || host[""] > 0 || len(card) != 2 {
				t.Errorf("copies with the host went to %v, within the card to %v: want one stream, and it and another", host, card)
			}
		}
	})
}

// TestPages: a model runs alike on machines with pages of 4, 16 and 64 KiB.
func TestPages(t *testing.T) {
	want := map[Kind][]uint16{}
	for _, kib := range []int{4, 16, 64} {
		onCard(t, fmt.Sprintf("page=%d", kib<<10), func(t *testing.T, k Kind, _ *simhook.Sim) {
			d := open(t, k)
			defer closeAll(t, d)
			m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
			if err != nil {
				t.Fatal(err)
			}
			var got []uint16
			for _, p := range []*axcl.Pass{widePass(m.Shape(), 5, 4), rowPass(m.Shape(), 5)} {
				if err := m.Run(p); err != nil {
					t.Fatal(err)
				}
				got = append(got, p.Logits...)
			}
			if want[k] == nil {
				want[k] = got
			} else if !slices.Equal(got, want[k]) {
				t.Errorf("pages of %d KiB give other logits than pages of 4", kib)
			}
		})
	}
}

// everyCopy makes a device copy in every way it has.
func everyCopy(t *testing.T, d axcl.Device, y axcltest.Tiny) {
	t.Helper()
	spec := write(t, y)
	if y.Interval > 0 {
		spec.Slots = 2
	}
	m, err := axcl.Load(context.Background(), d, spec)
	if err != nil {
		t.Fatal(err)
	}
	n, err := d.LoadNet(spec.Head)
	if err != nil {
		t.Fatal(err)
	}
	s := m.Shape()
	wide := widePass(s, 5, 4)
	wide.HiddenOut = make([]uint16, len(wide.Hidden))
	if s.State > 0 {
		wide.From, wide.To = 0, 1
	}
	row := rowPass(s, 5)
	if s.State > 0 {
		row.From, row.To = 1, 1
	}
	in, out := n.Inputs(0)[0], n.Outputs(0)[0]
	rows := make([]byte, 2*s.RowBytes())
	calls := []func() error{
		func() error { return m.Run(wide) },
		func() error { return m.Run(row) },
		func() error { return m.Save([]uint32{1, 3}, rows) },
		func() error { return m.Restore([]uint32{7, 8}, rows) },
		func() error { return m.Copy([]uint32{9}, []uint32{1}) },
		func() error { return m.Clear([]uint32{9}) },
		func() error { return m.Head(wide.Hidden, make([]uint16, 5*s.Out)) },
		func() error {
			return n.Run(0, map[string][]byte{in.Name: make([]byte, in.Size)}, map[string][]byte{out.Name: make([]byte, out.Size)})
		},
	}
	if s.State > 0 {
		state := make([]byte, s.State)
		calls = append(calls, func() error { return m.SaveState(1, 0, state) }, func() error { return m.RestoreState(2, 0, state) })
	}
	for i, f := range calls {
		if err := f(); err != nil {
			t.Fatal(fmt.Errorf("call %d: %w", i, err))
		}
	}
}
