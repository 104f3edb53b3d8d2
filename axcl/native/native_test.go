//go:build cgo && !fake && linux

package native

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/simcard"
	"github.com/axle-llm/axle/axmodel"
)

// simLibs are the simulated card's libraries, built once for all tests.
var simLibs simcard.Libs

// sims ask the simulated cards by kind.
var sims = map[Kind]*simhook.Sim{}

func TestMain(m *testing.M) {
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	var err error
	if simLibs, err = simcard.Build("", strings.Fields(os.Getenv("AXLE_SIM_CFLAGS"))...); err != nil {
		fmt.Fprintln(os.Stderr, "building the simulated card:", err)
		return 1
	}
	os.Setenv(EnvAXCL, simLibs.AXCL)
	os.Setenv(EnvEngine, simLibs.Engine)
	for k, path := range map[Kind]string{AXCL: simLibs.AXCL, Engine: simLibs.Sys} {
		if sims[k], err = simhook.Attach(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	code := m.Run()
	// Every handle that was made was closed, on this side and on the card's.
	live.Lock()
	defer live.Unlock()
	for h, k := range live.handles {
		fmt.Fprintf(os.Stderr, "left open: %T on %s\n", h, k)
		code = 1
	}
	for k, s := range sims {
		if c := s.Live(); c != (simhook.Counts{}) {
			fmt.Fprintf(os.Stderr, "left on the %s card: %+v\n", k, c)
			code = 1
		}
	}
	dumpCoverage()
	return code
}

var kinds = []Kind{AXCL, Engine}

// onCard runs f for each library with a locked thread and a card as configured; afterwards the card is as new, also after a fatal error.
func onCard(t *testing.T, config string, f func(t *testing.T, k Kind, sim *simhook.Sim)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			sim := sims[k]
			configure(t, sim, config)
			defer func() {
				if err := sim.Reset(); err != nil {
					t.Error(err)
				}
				revive(k)
			}()
			f(t, k, sim)
		})
	}
}

func configure(t testing.TB, sim *simhook.Sim, config string) {
	t.Helper()
	if err := sim.Configure(config); err != nil {
		t.Fatal(err)
	}
}

// revive lets an abandoned library be used again, as a new process would; the simulated card must have been reset.
func revive(k Kind) {
	libraries.Lock()
	defer libraries.Unlock()
	for _, l := range libraries.byName {
		if l.kind == k {
			l.lost = false
		}
	}
}

func open(t testing.TB, k Kind) *device {
	t.Helper()
	d, err := Open(k, 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.(*device)
}

func closeAll(t testing.TB, d axcl.Device) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func write(t testing.TB, y axcltest.Tiny) axcl.LoadSpec {
	t.Helper()
	spec, err := y.Write(t.TempDir(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// rowPass is a pass of one row in the cell after those it sees.
func rowPass(s axcl.Shape, past int) *axcl.Pass {
	p := &axcl.Pass{Hidden: axcltest.Rows(uint64(past), 1, s.Hidden), Pos: []uint32{uint32(past)}, Cell: []uint32{uint32(past)},
		SeeCells: make([]uint64, axcl.Words(s.Cells)), SeeRows: make([]uint64, 1), Want: []int{0}, Logits: make([]uint16, s.Out)}
	for c := range past {
		p.SeeCells[c/64] |= 1 << (c % 64)
	}
	return p
}

// widePass is a pass of n causal rows from cell 0.
func widePass(s axcl.Shape, n int, want ...int) *axcl.Pass {
	w := axcl.Words(n)
	p := &axcl.Pass{Hidden: axcltest.Rows(77, n, s.Hidden), SeeCells: make([]uint64, n*axcl.Words(s.Cells)), SeeRows: make([]uint64, n*w), Want: want, Logits: make([]uint16, len(want)*s.Out)}
	for r := range n {
		p.Pos, p.Cell = append(p.Pos, uint32(r)), append(p.Cell, uint32(r))
		for e := range r {
			p.SeeRows[r*w+e/64] |= 1 << (e % 64)
		}
	}
	return p
}

func TestConformance(t *testing.T) {
	for _, hazards := range []string{"default", "default,shortchunk,kv-inplace,lazy", "none"} {
		t.Run(hazards, func(t *testing.T) {
			for _, k := range kinds {
				configure(t, sims[k], "hazards="+hazards)
				for _, c := range axcltest.Checks(axcltest.Options{Open: func() (axcl.Device, error) { return Open(k, 0) }}) {
					t.Run(string(k)+"/"+c.Name, func(t *testing.T) { c.Run(t) })
				}
				if left := sims[k].Left(); left != (simhook.Counts{}) {
					t.Errorf("%s: the library had to clear up %+v", k, left)
				}
				if err := sims[k].Reset(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestAbilities: a card that lacks one ability is found to lack that one, and only that.
func TestAbilities(t *testing.T) {
	all := axcltest.Abilities{Chunk: true, Mixed: true, Scatter: true, Place: true}
	for hazard, want := range map[string]func(a *axcltest.Abilities){
		"default":         func(a *axcltest.Abilities) {},
		"positions-first": func(a *axcltest.Abilities) { a.Mixed = false },
		"mask-shared":     func(a *axcltest.Abilities) { a.Mixed = false },
		"cells-ordered":   func(a *axcltest.Abilities) { a.Scatter, a.Mixed = false, false }, // others' cells lie in between
		"kv-inplace":      func(a *axcltest.Abilities) { a.Place = false },
	} {
		t.Run(hazard, func(t *testing.T) {
			onCard(t, "hazards=default,"+hazard, func(t *testing.T, k Kind, _ *simhook.Sim) {
				d := open(t, k)
				defer closeAll(t, d)
				m, err := d.Load(context.Background(), write(t, axcltest.DefaultTiny()))
				if err != nil {
					t.Fatal(err)
				}
				expected := all
				want(&expected)
				got, lacks, err := axcltest.Try(m, func(token uint64) []uint16 { return axcltest.Rows(token, 1, m.Shape().Hidden) })
				if err != nil || got != expected {
					t.Errorf("%+v, want %+v (%v, %v)", got, expected, lacks, err)
				}
			})
		})
	}
}

// TestOneCall: a pass is one call into C, and allocates at most once.
func TestOneCall(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		m, err := d.Load(context.Background(), write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		for name, p := range map[string]*axcl.Pass{"decode": rowPass(m.Shape(), 5), "prefill": widePass(m.Shape(), 13, 3, 12)} {
			p.Argmax, p.HiddenOut, p.Timing = make([]int32, len(p.Want)), make([]uint16, len(p.Hidden)), &axcl.Timing{}
			before := runtime.NumCgoCall()
			const runs = 20
			allocs := testing.AllocsPerRun(runs, func() {
				if err := m.Run(p); err != nil {
					t.Error(err)
				}
			})
			if n := runtime.NumCgoCall() - before; n != runs+1 { // AllocsPerRun warms up once
				t.Errorf("%s: %d calls into C for %d passes", name, n, runs+1)
			}
			if allocs > 1 {
				t.Errorf("%s: %v allocations a pass", name, allocs)
			}
		}
	})
}

// TestCallsPerToken holds the numbers that make the host's share small: 3 × layers + 8 calls a token, at most 4 of them over PCIe, also
// where rows are copied; and with the argmax nothing but an index comes down.
func TestCallsPerToken(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		y := axcltest.DefaultTiny()
		y.Layers = 5
		spec := write(t, y)
		for _, copies := range []bool{false, true} {
			spec.NoInPlace = copies
			d := open(t, k)
			m, err := d.Load(context.Background(), spec)
			if err != nil {
				t.Fatal(err)
			}
			if m.Shape().Place == copies {
				t.Errorf("rows are placed: %v", m.Shape().Place)
			}
			if err := m.Run(rowPass(m.Shape(), 5)); err != nil { // the first fills the mask
				t.Fatal(err)
			}
			for _, greedy := range []bool{false, true} {
				p := rowPass(m.Shape(), 6)
				p.Timing = &axcl.Timing{}
				if greedy {
					p.Logits, p.Argmax = nil, make([]int32, 1)
				}
				calls, crossings := sim.Calls(""), sim.Crossings()
				if err := m.Run(p); err != nil {
					t.Fatal(err)
				}
				calls, crossings = sim.Calls("")-calls, sim.Crossings()-crossings
				limit := uint64(3*y.Layers + 8)
				if k == Engine { // keeping a cache in step is two calls an upload, three a copy
					limit += 4 + uint64(copyCalls(copies)*y.Layers)
				}
				if calls > limit || k == AXCL && crossings > 4 {
					t.Errorf("copies %v, greedy %v: %d calls, %d over PCIe; want at most %d and 4", copies, greedy, calls, crossings, limit)
				}
				if uint64(p.Timing.Calls) != calls {
					t.Errorf("Timing counts %d calls, the library %d", p.Timing.Calls, calls)
				}
			}
			closeAll(t, d)
		}
	})
}

func copyCalls(copies bool) int {
	if copies {
		return 6
	}
	return 0
}

// TestMergedCopies: rows in consecutive cells go home in one copy of K and one of V a layer.
func TestMergedCopies(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("on board the copies are the CPU's own, the library does not see them")
		}
		y := axcltest.DefaultTiny()
		d := open(t, k)
		defer closeAll(t, d)
		m, err := d.Load(context.Background(), write(t, y))
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			cells []uint32
			runs  int
		}{{[]uint32{4, 5, 6, 7}, 1}, {[]uint32{9, 8, 7, 6}, 4}, {[]uint32{0, 1, 20, 21}, 2}, {[]uint32{30}, 1}} {
			p := widePass(m.Shape(), len(tt.cells))
			p.Cell = tt.cells
			before := sim.Calls("axclrtMemcpyAsync")
			if err := m.Run(p); err != nil {
				t.Fatal(err)
			}
			if len(tt.cells) == 1 {
				continue // the decode group places it
			}
			copies := int(sim.Calls("axclrtMemcpyAsync")-before) - 2            // rows and positions
			if copies != 2*y.Layers*tt.runs && copies != 2*y.Layers*tt.runs+1 { // and the mask, where it changed
				t.Errorf("cells %v: %d copies, want %d", tt.cells, copies, 2*y.Layers*tt.runs)
			}
		}
	})
}

// TestMaskUpload: only what changed of the mask is sent.
func TestMaskUpload(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	onCard(t, "trace="+trace, func(t *testing.T, k Kind, _ *simhook.Sim) {
		if k == Engine {
			t.Skip("uploads are the CPU's own")
		}
		d := open(t, k)
		m, err := d.Load(context.Background(), write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		for past := range 6 {
			if err := m.Run(rowPass(m.Shape(), past)); err != nil {
				t.Fatal(err)
			}
		}
		closeAll(t, d)
		b, err := os.ReadFile(trace)
		if err != nil {
			t.Fatal(err)
		}
		// Of the six passes the first sends the whole mask; each other differs in one column of two bytes.
		if n := strings.Count(string(b), " count=2 kind=1"); n < 5 {
			t.Errorf("%d transfers of one column, want 5; trace:\n%s", n, head(string(b)))
		}
	})
}

func head(s string) string { return s[:min(len(s), 2000)] }

// TestThread: another thread is told so, and nothing happens.
func TestThread(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		d := open(t, k)
		m, err := d.Load(context.Background(), write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		n, err := d.LoadNet(write(t, axcltest.DefaultTiny()).Head)
		if err != nil {
			t.Fatal(err)
		}
		calls := sim.Calls("")
		in := map[string][]byte{n.Inputs(0)[0].Name: make([]byte, n.Inputs(0)[0].Size)}
		done := make(chan []error)
		go func() {
			runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
			_, infoErr := d.Info()
			_, loadErr := d.Load(context.Background(), write(t, axcltest.DefaultTiny()))
			_, netErr := d.LoadNet(write(t, axcltest.DefaultTiny()).Head)
			done <- []error{infoErr, loadErr, netErr, m.Run(rowPass(m.Shape(), 1)), n.Run(0, in, nil), n.Close(), m.Close(), d.Close()}
		}()
		for i, err := range <-done {
			if !errors.Is(err, axcl.ErrThread) {
				t.Errorf("call %d from another thread: %v", i, err)
			}
		}
		if after := sim.Calls(""); after != calls {
			t.Errorf("%d calls reached the library", after-calls)
		}
		closeAll(t, d)
	})
}

// TestHang: a card that does not answer costs the time-out once; after that nothing is asked of it, and closing does not wait.
func TestHang(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("on-board runs are synchronous: who calls them watches the clock")
		}
		d := open(t, k)
		spec := write(t, axcltest.DefaultTiny())
		spec.Timeout = 50 * time.Millisecond
		m, err := d.Load(context.Background(), spec)
		if err != nil {
			t.Fatal(err)
		}
		configure(t, sim, "fault=ExecuteAsync:1:hang")
		err = m.Run(rowPass(m.Shape(), 0))
		if !errors.Is(err, axcl.ErrTimeout) || !axcl.Fatal(err) {
			t.Fatalf("a hanging pass gave %v", err)
		}
		calls := sim.Calls("")
		if err := m.Run(rowPass(m.Shape(), 0)); !errors.Is(err, axcl.ErrLost) || !strings.Contains(err.Error(), "SynchronizeStreamWithTimeout") {
			t.Errorf("the next pass gave %v", err)
		}
		if _, err := d.Info(); !errors.Is(err, axcl.ErrLost) {
			t.Errorf("info gave %v", err)
		}
		if _, err := d.Load(context.Background(), spec); !errors.Is(err, axcl.ErrLost) {
			t.Errorf("load gave %v", err)
		}
		if _, err := d.LoadNet(spec.Head); !errors.Is(err, axcl.ErrLost) {
			t.Errorf("load net gave %v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if _, err := Open(k, 0); !errors.Is(err, axcl.ErrLost) || !strings.Contains(err.Error(), "restart the program") {
			t.Errorf("opening again gave %v", err)
		}
		if after := sim.Calls(""); after != calls {
			t.Errorf("%d calls reached a library that hangs", after-calls)
		}
	})
}

// TestLoadFails: a layer that fails to load is named with its file and code, everything of its model is unloaded, other models go on; where
// the card is out of step it is lost, but only after that.
func TestLoadFails(t *testing.T) {
	for _, tt := range []struct {
		code  uint32
		fatal bool
	}{{0x80300701, false}, {0x80300707, false}, {0x80300709, true}} {
		onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
			if k == Engine {
				t.Skip("its codes are not the vendor's AXCL scheme")
			}
			d := open(t, k)
			first, err := d.Load(context.Background(), write(t, axcltest.DefaultTiny()))
			if err != nil {
				t.Fatal(err)
			}
			before, spec := sim.Live(), write(t, axcltest.DefaultTiny())
			configure(t, sim, fmt.Sprintf("fault=LoadFromFile:1:0x%08x", tt.code))
			_, err = d.Load(context.Background(), spec)
			configure(t, sim, "")
			var e *axcl.Error
			if !errors.As(err, &e) || e.Op != "axclrtEngineLoadFromFile" || e.Layer != 1 || e.Code != tt.code || e.Path != spec.Layers[1] || axcl.Fatal(err) != tt.fatal {
				t.Fatalf("%v", err)
			}
			if after := sim.Live(); after != before {
				t.Errorf("alive before %+v, after %+v", before, after)
			}
			if err := first.Run(rowPass(first.Shape(), 2)); tt.fatal != errors.Is(err, axcl.ErrLost) || !tt.fatal && err != nil {
				t.Errorf("the other model: %v", err)
			}
			closeAll(t, d)
		})
	}
}

// TestRetry: after a pass that failed anywhere, but not for good, the same pass gives what it should: no state of the failed one is kept.
func TestRetry(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		m, err := d.Load(context.Background(), write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		good := func(past int) []uint16 {
			p := rowPass(m.Shape(), past)
			if err := m.Run(p); err != nil {
				t.Fatal(err)
			}
			return p.Logits
		}
		var want [][]uint16
		for past := range 6 {
			want = append(want, good(past))
		}
		for call := 0; ; call++ {
			good(1)
			configure(t, sim, fmt.Sprintf("fault=*:%d:0x80300706", call))
			err := m.Run(rowPass(m.Shape(), 5)) // another mask, another cell
			configure(t, sim, "")
			for _, past := range []int{5, 2, 5} {
				if got := good(past); !slices.Equal(got, want[past]) {
					t.Fatalf("after a fault in call %d of a pass, row %d differs", call, past)
				}
			}
			if err == nil {
				if call < 10 {
					t.Errorf("a pass has only %d calls", call)
				}
				return
			}
		}
	})
}

// TestRounding: float32 logits are rounded to the nearest bf16, ties to even, as axcl.BFloat16 does.
func TestRounding(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		y := axcltest.DefaultTiny()
		y.HeadFlags = axmodel.FlagF32
		spec := write(t, y)
		m, err := d.Load(context.Background(), spec)
		if err != nil {
			t.Fatal(err)
		}
		p := rowPass(m.Shape(), 0)
		p.HiddenOut = make([]uint16, m.Shape().Hidden)
		if err := m.Run(p); err != nil {
			t.Fatal(err)
		}
		n, err := d.LoadNet(spec.Head)
		if err != nil {
			t.Fatal(err)
		}
		in, out := make([]byte, n.Inputs(0)[0].Size), make([]byte, n.Outputs(0)[0].Size)
		for i, v := range p.HiddenOut {
			binary.LittleEndian.PutUint16(in[i*2:], v)
		}
		if err := n.Run(0, map[string][]byte{n.Inputs(0)[0].Name: in}, map[string][]byte{n.Outputs(0)[0].Name: out}); err != nil {
			t.Fatal(err)
		}
		for i, got := range p.Logits {
			if f := math.Float32frombits(binary.LittleEndian.Uint32(out[i*4:])); got != axcl.BFloat16(f) {
				t.Errorf("logit %d, %v: %04x, not %04x", i, f, got, axcl.BFloat16(f))
			}
		}
	})
}

// TestTies: the lowest of equal logits, on the card and here.
func TestTies(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		for _, flags := range []uint32{0, axmodel.FlagF32, axmodel.FlagArgmax} {
			y := axcltest.DefaultTiny()
			y.HeadFlags = flags
			m, err := d.Load(context.Background(), write(t, y))
			if err != nil {
				t.Fatal(err)
			}
			p := rowPass(m.Shape(), 0)
			clear(p.Hidden) // nothing in, nothing out: every logit is 0
			p.Argmax = []int32{-1}
			if err := m.Run(p); err != nil {
				t.Fatal(err)
			}
			if p.Argmax[0] != 0 || p.Logits[7] != 0 {
				t.Errorf("flags %d: the largest of zeros is %d", flags, p.Argmax[0])
			}
		}
	})
}

// TestLinkGone: an error while the card is off the bus is a lost card, whatever its code.
func TestLinkGone(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("no link")
		}
		d := open(t, k)
		m, err := d.Load(context.Background(), write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		d.sys = t.TempDir()
		vendor := filepath.Join(d.sys, "vendor")
		for _, tt := range []struct {
			id   string
			lost bool
		}{{"0x1f4b\n", false}, {"0xffff\n", true}} {
			if err := os.WriteFile(vendor, []byte(tt.id), 0o600); err != nil {
				t.Fatal(err)
			}
			configure(t, sim, "fault=ExecuteAsync:1:0x8030070c")
			err = m.Run(rowPass(m.Shape(), 0))
			var e *axcl.Error
			if !errors.As(err, &e) || e.Layer != 1 || e.Code != 0x8030070c || errors.Is(err, axcl.ErrLost) != tt.lost {
				t.Errorf("vendor %q: %v", tt.id, err)
			}
		}
		if err := d.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// TestFatalAgrees: C and Go draw the same line between a failed call and a lost card.
func TestFatalAgrees(t *testing.T) {
	check := func(code uint32) {
		if c, g := fatal(code), axcl.Fatal(&axcl.Error{Code: code}); c != g {
			t.Errorf("0x%08x: C says %v, Go says %v", code, c, g)
		}
	}
	for module := range uint32(4) {
		for sub := range uint32(16) {
			for id := range uint32(256) {
				check(0x80300000 | module<<24 | sub<<8 | id)
			}
		}
	}
	for _, code := range []uint32{1, 0xffffffff, 0x80060101, 0x8030ff01, 0x90300701, 0x80310701} {
		check(code)
	}
}

// compile makes C into a library that can be opened in place of the vendor's.
func compile(t *testing.T, name, code string) string {
	t.Helper()
	dir := t.TempDir()
	src, out := filepath.Join(dir, "lib.c"), filepath.Join(dir, name)
	if err := os.WriteFile(src, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := exec.Command("gcc", "-shared", "-fPIC", "-o", out, src).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return out
}

// TestNoLibrary: each way in which a library can be wrong has one clear error.
func TestNoLibrary(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, axcl string
		say        []string
	}{
		{"no file", filepath.Join(dir, "none.so"), []string{"none.so does not exist", EnvAXCL}},
		{"an empty folder", dir, []string{"libaxcl_rt.so does not exist"}},
		{"a text", text, []string{"text.so"}},
		{"a missing function", compile(t, "libaxcl_rt.so", "int axclInit(const char *p) { return !!p; }\nint axclFinalize(void) { return 0; }"), []string{"no function axclrt", "libaxcl_rt.so"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(EnvAXCL, tt.axcl)
			for range 2 {
				d, err := Open(AXCL, 0)
				if d != nil || !errors.Is(err, axcl.ErrNoDevice) {
					t.Fatalf("%v, %v", d, err)
				}
				for _, s := range tt.say {
					if !strings.Contains(err.Error(), s) {
						t.Errorf("%v does not say %q", err, s)
					}
				}
				if f := Look(AXCL); f.Err == nil || f.Library != "" {
					t.Errorf("%+v", f)
				}
			}
		})
	}
	t.Run("half of the engine", func(t *testing.T) {
		lib := compile(t, "libax_engine.so", "int AX_ENGINE_Init(void *a) { return !!a; }")
		t.Setenv(EnvEngine, lib)
		if _, err := Open(Engine, 0); !errors.Is(err, axcl.ErrNoDevice) || !strings.Contains(err.Error(), "libax_sys.so") {
			t.Errorf("without libax_sys.so: %v", err)
		}
		sys := filepath.Join(filepath.Dir(lib), "libax_sys.so")
		b, err := os.ReadFile(simLibs.Sys)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(sys, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Engine, 0); !errors.Is(err, axcl.ErrNoDevice) || !strings.Contains(err.Error(), "no function AX_ENGINE_") {
			t.Errorf("without functions: %v", err)
		}
		if err := os.Remove(lib); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Engine, 0); !errors.Is(err, axcl.ErrNoDevice) {
			t.Errorf("without the engine: %v", err)
		}
	})
}

// TestOptional: a library without the newer calls works, and says what it lacks.
func TestOptional(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, k := range kinds {
		if f := Look(k); f.Err != nil || len(f.Missing) != 0 {
			t.Errorf("%+v", f)
		}
	}
	old, err := simcard.Build("", "-DAXSIM_WITHOUT_WORKER", "-DaxclSetLogLevel=axsim_absent_a", "-DaxclrtGetFullVersion=axsim_absent_b", "-DaxclrtGetSocName=axsim_absent_c")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvAXCL, old.AXCL)
	d := open(t, AXCL)
	defer closeAll(t, d)
	i, err := d.Info()
	want := "axclSetLogLevel axclrtGetFullVersion axclrtGetSocName axclrtTransferFile axclrtExecWorker axclrtWorkerSend axclrtWorkerRecv axclrtKillWorker"
	if err != nil || strings.Join(i.Missing, " ") != want || i.Version != "3.10.2" || i.Name != "" {
		t.Errorf("%v, version %q, name %q, missing %v", err, i.Version, i.Name, i.Missing)
	}
	m, err := d.Load(context.Background(), write(t, axcltest.DefaultTiny()))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(rowPass(m.Shape(), 3)); err != nil {
		t.Error(err)
	}
}

// TestDevices: cards are numbered from 0, found by bus number too, opened once each, and share a library's beginning and end.
func TestDevices(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sim := sims[AXCL]
	configure(t, sim, "devices=bus:3,9")
	defer func() {
		if err := sim.Reset(); err != nil {
			t.Error(err)
		}
	}()
	first := open(t, AXCL)
	for _, index := range []int{0, 3} {
		if _, err := Open(AXCL, index); !errors.Is(err, axcl.ErrNoDevice) || !strings.Contains(err.Error(), "already open") {
			t.Errorf("opening %d again: %v", index, err)
		}
	}
	for _, index := range []int{2, -1, 100} {
		if _, err := Open(AXCL, index); !errors.Is(err, axcl.ErrNoDevice) || !strings.Contains(err.Error(), "the library lists 2") {
			t.Errorf("card %d: %v", index, err)
		}
	}
	second, err := Open(AXCL, 9) // a bus number
	if err != nil {
		t.Fatal(err)
	}
	a, err1 := first.Info()
	b, err2 := second.Info()
	if err1 != nil || err2 != nil || a.ID != "axcl:0" || b.ID != "axcl:1" || a.Bus == b.Bus {
		t.Errorf("%+v, %+v, %v, %v", a, b, err1, err2)
	}
	if f := Look(AXCL); f.Err != nil || len(f.Devices) != 2 || !f.Simulated || f.Version == "" {
		t.Errorf("%+v", f)
	}
	if n := sim.Calls("axclInit"); n != 1 {
		t.Errorf("%d times initialised", n)
	}
	closeAll(t, first)
	if _, err := second.Info(); err != nil {
		t.Errorf("the second card after the first was closed: %v", err)
	}
	if n := sim.Calls("axclFinalize"); n != 0 {
		t.Errorf("finalised while a card is open")
	}
	closeAll(t, second)
	if n := sim.Calls("axclFinalize"); n != 1 {
		t.Errorf("%d times finalised", n)
	}
	configure(t, sim, "devices=0")
	if _, err := Open(AXCL, 0); !errors.Is(err, axcl.ErrNoDevice) || !strings.Contains(err.Error(), "sees no card") {
		t.Errorf("without cards: %v", err)
	}
	if f := Look(AXCL); !errors.Is(f.Err, axcl.ErrNoDevice) || f.Library == "" || f.Version == "" {
		t.Errorf("without cards: %+v", f)
	}
	configure(t, sim, "devices=none")
	if _, err := Open(AXCL, 0); !errors.Is(err, axcl.ErrNoDevice) || !strings.Contains(err.Error(), "(0x8030010b): /dev/axcl_host is missing") {
		t.Errorf("without a driver: %v", err)
	}
	if f := Look(AXCL); !errors.Is(f.Err, axcl.ErrNoDevice) || f.Version == "" {
		t.Errorf("without a driver: %+v", f)
	}
}

// TestEngineTaken: where the process has initialised the engine already, opening goes on and leaves it initialised.
func TestEngineTaken(t *testing.T) {
	onCard(t, "fault=EngineInit:0:0x80300706;AxEngineInit:0:0x80060110", func(t *testing.T, k Kind, sim *simhook.Sim) {
		_, err := Open(k, 0)
		var e *axcl.Error
		if !errors.As(err, &e) || !strings.Contains(e.Op, "Init") {
			t.Fatalf("an engine that cannot be initialised gave %v", err)
		}
		revive(k)
	})
}

// TestNoMemory: a model that does not fit says so, with what was free, and leaves nothing.
func TestNoMemory(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sim := sims[AXCL]
	configure(t, sim, "cmm=20")
	defer func() {
		if err := sim.Reset(); err != nil {
			t.Error(err)
		}
	}()
	d := open(t, AXCL)
	y := axcltest.DefaultTiny()
	y.Groups = []axmodel.SoftGroup{{Rows: 1, Cells: 1 << 17, Cache: 1 << 17}}
	_, err := d.Load(context.Background(), write(t, y))
	var e *axcl.Error
	if !errors.Is(err, axcl.ErrMemory) || axcl.Fatal(err) || !errors.As(err, &e) || !strings.Contains(e.Note, "MiB of card memory were free") {
		t.Errorf("%v", err)
	}
	y.Groups = nil
	if _, err := d.Load(context.Background(), write(t, y)); err != nil {
		t.Errorf("a small model afterwards: %v", err)
	}
	closeAll(t, d)
}

func TestTemperature(t *testing.T) {
	for in, want := range map[int32]float64{52: 52, 999: 999, 52345: 52.345, 0: 0, -3: -3, -5000: -5} {
		if got := degrees(in); got != want {
			t.Errorf("degrees(%d) = %v, want %v", in, got, want)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, unit := range []string{"degree", "milli"} {
		configure(t, sims[AXCL], "temperature=61\ntemperature_unit="+unit)
		d := open(t, AXCL)
		if i, err := d.Info(); err != nil || math.Abs(i.Temperature-61) > 0.5 {
			t.Errorf("%s: %v °C, %v", unit, i.Temperature, err)
		}
		closeAll(t, d)
	}
	if err := sims[AXCL].Reset(); err != nil {
		t.Error(err)
	}
}

func TestBoard(t *testing.T) {
	i := axcl.Info{Temperature: math.NaN()}
	board(fstest.MapFS{
		"proc/ax_proc/mem_cmm_info":               {Data: []byte("---CMM_USE_INFO:\n total size=7340032KB(7168MB),used=23552KB(23MB + 0KB),remain=7316480KB(7145MB + 0KB),partition_number=1,block_number=23\n")},
		"proc/ax_proc/uid":                        {Data: []byte("ax_uid: 0x4c0\n")},
		"sys/class/thermal/thermal_zone0/temp":    {Data: []byte("51500\n")},
		"sys/class/thermal/thermal_zone1/temp":    {Data: []byte("58250\n")},
		"sys/class/thermal/thermal_zone2/temp":    {Data: []byte("what\n")},
		"sys/class/thermal/cooling_device0/state": {Data: []byte("1\n")},
	}, &i)
	if i.TotalCMM != 7340032<<10 || i.FreeCMM != 7316480<<10 || i.Temperature != 58.25 {
		t.Errorf("%+v", i)
	}
	i = axcl.Info{Temperature: math.NaN()}
	board(fstest.MapFS{}, &i)
	if i.TotalCMM != 0 || !math.IsNaN(i.Temperature) {
		t.Errorf("from nothing: %+v", i)
	}
}
