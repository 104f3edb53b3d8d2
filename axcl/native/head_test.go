//go:build cgo && !fake && linux

package native

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axmodel"
)

// TestHeadCalls: rows through the head alone are one call into C that allocates nothing. A row is
// sent up, executed and its logits come down; as many as there is staging for, eight at the most,
// are waited for at once.
func TestHeadCalls(t *testing.T) {
	decode := axcltest.DefaultTiny()
	decode.Groups = decode.Groups[:1]
	few := decode
	few.Groups = append(slices.Clone(few.Groups), axmodel.SoftGroup{Rows: 3, Cells: 0, Cache: 1})
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		for _, tt := range []struct {
			tiny axcltest.Tiny
			most int
		}{{axcltest.DefaultTiny(), 8}, {decode, 1}, {few, 3}} {
			d := open(t, k)
			m, err := axcl.Load(context.Background(), d, write(t, tt.tiny))
			if err != nil {
				t.Fatal(err)
			}
			s := m.Shape()
			for _, n := range []int{1, 3, 8, 9, 17, axcl.HeadRows} {
				rows, logits := axcltest.Rows(5, n, s.Hidden), make([]uint16, n*s.Out)
				names := []string{"", "axclrtEngineExecuteAsync", "AX_ENGINE_RunGroupIOSync", "axclrtSynchronizeStreamWithTimeout"}
				var made [4]uint64
				for i, name := range names {
					made[i] = sim.Calls(name)
				}
				into := runtime.NumCgoCall()
				allocs := testing.AllocsPerRun(1, func() {
					if err := m.Head(rows, logits); err != nil {
						t.Error(err)
					}
				})
				crossed := runtime.NumCgoCall() - into
				const times = 2 // AllocsPerRun warms up once
				for i, name := range names {
					made[i] = (sim.Calls(name) - made[i]) / times
				}
				all, waits := uint64(n), uint64((n+tt.most-1)/tt.most)
				want := [4]uint64{3*all + waits, all, 0, waits}
				if k == Engine {
					want = [4]uint64{made[0], 0, all, 0}
				}
				if made != want {
					t.Errorf("%d rows, %d at once: %d calls of %q, not %d", n, tt.most, made, names, want)
				}
				if crossed != times || allocs != 0 {
					t.Errorf("%d rows: %d calls into C for %d, %v allocations", n, crossed, times, allocs)
				}
			}
			closeAll(t, d)
		}
	})
}

// TestHeadFails: a call for the head alone that fails is named as the head's, a task that fails
// costs these rows only, and the next rows and passes are right.
func TestHeadFails(t *testing.T) {
	//proves:D4 of rows through the head alone
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		s := m.Shape()
		pass := widePass(s, 5, 0, 1, 2, 3, 4)
		pass.HiddenOut = make([]uint16, len(pass.Hidden))
		if err := m.Run(pass); err != nil {
			t.Fatal(err)
		}
		want, got := slices.Clone(pass.Logits), make([]uint16, len(pass.Logits))
		right := func(after string) {
			t.Helper()
			clear(got)
			if err := m.Head(pass.HiddenOut, got); err != nil || !slices.Equal(got, want) {
				t.Fatalf("after %s the head alone gives other logits (%v)", after, err)
			}
			if err := m.Run(pass); err != nil || !slices.Equal(pass.Logits, want) {
				t.Fatalf("after %s a pass gives other logits (%v)", after, err)
			}
		}
		right("nothing")
		calls, late := []string{"MemcpyAsync", "ExecuteAsync"}, []string{"", ":late"}
		if k == Engine {
			calls, late = []string{"RunGroupIOSync"}, late[:1] // every call gives its own code
		}
		for _, call := range calls {
			for _, how := range late {
				n := 0
				for ; ; n++ {
					plan := fmt.Sprintf("%s:%d:0x80300703%s", call, n, how)
					configure(t, sim, "fault="+plan)
					err := m.Head(pass.HiddenOut, got)
					configure(t, sim, "")
					if err == nil {
						break
					}
					var e *axcl.Error
					if !errors.As(err, &e) || axcl.Fatal(err) || how == "" && (e.Layer != axcl.Head || e.Code != 0x80300703) ||
						how != "" && !errors.Is(err, axcl.ErrTask) {
						t.Fatalf("%s: %v", plan, err)
					}
					right(plan)
				}
				if n < 5 {
					t.Errorf("%s%s: only %d of five rows' calls failed", call, how, n)
				}
			}
		}
	})
}

// TestHeadHangs: a head that does not answer costs the time-out once, and the card.
func TestHeadHangs(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("on-board runs are synchronous: who calls them watches the clock")
		}
		d := open(t, k)
		spec := write(t, axcltest.DefaultTiny())
		spec.Timeout = 500 * time.Millisecond
		m, err := axcl.Load(context.Background(), d, spec)
		if err != nil {
			t.Fatal(err)
		}
		rows, logits := axcltest.Rows(5, 2, m.Shape().Hidden), make([]uint16, 2*m.Shape().Out)
		configure(t, sim, "fault=ExecuteAsync:1:hang")
		if err := m.Head(rows, logits); !errors.Is(err, axcl.ErrTimeout) || !axcl.Fatal(err) {
			t.Fatalf("a hanging head gave %v", err)
		}
		calls := sim.Calls("")
		if err := m.Head(rows, logits); !errors.Is(err, axcl.ErrLost) {
			t.Errorf("the next rows gave %v", err)
		}
		if err := m.Run(rowPass(m.Shape(), 0)); !errors.Is(err, axcl.ErrLost) {
			t.Errorf("a pass gave %v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if after := sim.Calls(""); after != calls {
			t.Errorf("%d calls reached a library that hangs", after-calls)
		}
	})
}
