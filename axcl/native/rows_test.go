//go:build cgo && !fake && linux

package native

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
)

// TestRowsCalls: a save, a restore and a copy are one call into C that allocates nothing, a copy of
// K and one of V a layer for every run, and one synchronisation; on board a cache is kept in step
// for each.
func TestRowsCalls(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		y := axcltest.DefaultTiny()
		y.Layers = 3
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, write(t, y))
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			cells, other []uint32
		}{{[]uint32{4, 5, 6, 7}, []uint32{50, 51, 52, 53}}, {[]uint32{9, 8, 7}, []uint32{50, 51, 52}},
			{[]uint32{0, 1, 20, 21, 22}, []uint32{50, 51, 52, 53, 54}}, {[]uint32{95}, []uint32{0}}} {
			rows := make([]byte, len(tt.cells)*m.Shape().RowBytes())
			for _, c := range []struct {
				name  string
				call  func() error
				runs  int
				board int // calls for a run on board
			}{
				{"save", func() error { return m.Save(tt.cells, rows) }, axcl.Runs(tt.cells), 1},
				{"restore", func() error { return m.Restore(tt.cells, rows) }, axcl.Runs(tt.cells), 2},
				{"copy", func() error { return m.Copy(tt.other, tt.cells) }, axcl.Runs(tt.cells, tt.other), 3},
			} {
				calls, into := sim.Calls(""), runtime.NumCgoCall()
				const runs = 8
				allocs := testing.AllocsPerRun(runs, func() {
					if err := c.call(); err != nil {
						t.Error(err)
					}
				})
				crossed := runtime.NumCgoCall() - into
				want := uint64(2*y.Layers*c.runs + 1)
				if k == Engine {
					want = uint64(2 * y.Layers * c.runs * c.board)
				}
				if n := (sim.Calls("") - calls) / (runs + 1); n != want { // AllocsPerRun warms up once
					t.Errorf("%s of %d: %d calls, not %d", c.name, tt.cells, n, want)
				}
				if crossed != runs+1 {
					t.Errorf("%s of %d: %d calls into C for %d", c.name, tt.cells, crossed, runs+1)
				}
				if allocs != 0 {
					t.Errorf("%s of %d: %v allocations", c.name, tt.cells, allocs)
				}
			}
		}
	})
}

// TestRowsFail: a copy that fails is named with its layer; the card goes on, and other cells are as
// they were.
func TestRowsFail(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		n := m.Shape().RowBytes()
		first, got := bytes.Repeat([]byte{1, 2, 3, 4}, n/4), make([]byte, n)
		if err := m.Restore([]uint32{5}, first); err != nil {
			t.Fatal(err)
		}
		op, each := "MemcpyAsync", 1
		if k == Engine {
			op, each = "MinvalidateCache", 1
		}
		for name, call := range map[string]func() error{
			"save": func() error { return m.Save([]uint32{5}, got) }, "restore": func() error { return m.Restore([]uint32{6}, first) },
			"copy": func() error { return m.Copy([]uint32{7}, []uint32{5}) },
		} {
			nth := 2 * each // the K of layer 1
			if k == Engine && name == "copy" {
				nth = 4 // it reads and writes
			}
			configure(t, sim, fmt.Sprintf("fault=%s:%d:0x80300703", op, nth))
			var e *axcl.Error
			if err := call(); !errors.As(err, &e) || axcl.Fatal(err) || e.Layer != 1 || e.Code != 0x80300703 {
				t.Errorf("%s: %v", name, err)
			}
			configure(t, sim, "")
			if err := m.Save([]uint32{5}, got); err != nil || !bytes.Equal(got, first) {
				t.Errorf("after a failed %s: another cell has changed (%v)", name, err)
			}
		}
	})
}

// TestRowsHang: a copy that never ends costs the time-out, and the card.
func TestRowsHang(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("on board the copies are this processor's own")
		}
		d := open(t, k)
		spec := write(t, axcltest.DefaultTiny())
		spec.Timeout = 300 * time.Millisecond
		m, err := axcl.Load(context.Background(), d, spec)
		if err != nil {
			t.Fatal(err)
		}
		row := make([]byte, m.Shape().RowBytes())
		configure(t, sim, "fault=MemcpyAsync:1:hang")
		if err := m.Save([]uint32{5}, row); !errors.Is(err, axcl.ErrTimeout) || !axcl.Fatal(err) {
			t.Fatalf("a copy that hangs gave %v", err)
		}
		calls := sim.Calls("")
		if err := m.Restore([]uint32{5}, row); !errors.Is(err, axcl.ErrLost) {
			t.Errorf("the next gave %v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if after := sim.Calls(""); after != calls {
			t.Errorf("%d calls reached a library that hangs", after-calls)
		}
	})
}

// TestRowsPriced: on the virtual clock rows take the link's time: 500 MB/s up, 820 down from pinned
// memory, and a copy on the card costs its round trip.
func TestRowsPriced(t *testing.T) {
	onCard(t, "profile=pi5\nclock=virtual", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("there is no link on board")
		}
		y := axcltest.DefaultTiny()
		y.Layers, y.KVHeads, y.Heads, y.HD = 2, 8, 8, 128
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, write(t, y))
		if err != nil {
			t.Fatal(err)
		}
		const n = 40
		var cells, other []uint32
		for c := range uint32(n) {
			cells, other = append(cells, c), append(other, n+c)
		}
		rows := make([]byte, n*m.Shape().RowBytes())
		took := func(call func() error) time.Duration {
			at := sim.Clock()
			if err := call(); err != nil {
				t.Fatal(err)
			}
			return time.Duration(sim.Clock() - at)
		}
		copies := time.Duration(2 * y.Layers)
		for _, tt := range []struct {
			name  string
			call  func() error
			fixed time.Duration // of a copy
			rate  float64
		}{
			{"save", func() error { return m.Save(cells, rows) }, 30 * time.Microsecond, 820e6},
			{"restore", func() error { return m.Restore(cells, rows) }, 30 * time.Microsecond, 500e6},
			{"copy", func() error { return m.Copy(other, cells) }, 200 * time.Microsecond, 10e9},
		} {
			want := copies*tt.fixed + time.Duration(float64(len(rows))/tt.rate*1e9)
			if got := took(tt.call); got < want || got > want+want/10+100*time.Microsecond {
				t.Errorf("%s of %d bytes took %v, the profile says %v", tt.name, len(rows), got, want)
			}
		}
	})
}
