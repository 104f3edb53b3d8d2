//go:build cgo && !fake && linux

package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/simcard"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
)

// TestThread: another thread is told so, and nothing happens.
func TestThread(t *testing.T) {
	//proves:D16
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		d := open(t, k)
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		n, err := d.LoadNet(write(t, axcltest.DefaultTiny()).Head)
		if err != nil {
			t.Fatal(err)
		}
		calls := sim.Calls("")
		in := map[string][]byte{n.Inputs(0)[0].Name: make([]byte, n.Inputs(0)[0].Size)}
		row := make([]byte, m.Shape().RowBytes())
		done := make(chan []error)
		go func() {
			runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
			_, infoErr := d.Info()
			_, loadErr := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
			_, netErr := d.LoadNet(write(t, axcltest.DefaultTiny()).Head)
			done <- []error{infoErr, loadErr, netErr, m.Run(rowPass(m.Shape(), 1)), m.Clear([]uint32{1}), m.Save([]uint32{1}, row),
				m.Restore([]uint32{1}, row), m.Copy([]uint32{1}, []uint32{2}),
				m.Head(make([]uint16, m.Shape().Hidden), make([]uint16, m.Shape().Out)), n.Run(0, in, nil), n.Close(), m.Close(), d.Close()}
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

// TestHang: a card that does not answer costs the time-out once; after that nothing is asked of it,
// and closing does not wait.
func TestHang(t *testing.T) {
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
		configure(t, sim, "fault=ExecuteAsync:1:hang")
		err = m.Run(rowPass(m.Shape(), 0))
		if !errors.Is(err, axcl.ErrTimeout) || !axcl.Fatal(err) {
			t.Fatalf("a hanging pass gave %v", err)
		}
		calls := sim.Calls("")
		if err := m.Run(rowPass(m.Shape(), 0)); !errors.Is(err, axcl.ErrLost) ||
			!strings.Contains(err.Error(), "SynchronizeStreamWithTimeout") {
			t.Errorf("the next pass gave %v", err)
		}
		if _, err := d.Info(); !errors.Is(err, axcl.ErrLost) {
			t.Errorf("info gave %v", err)
		}
		if _, err := axcl.Load(context.Background(), d, spec); !errors.Is(err, axcl.ErrLost) {
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

// TestLoadFails: a layer that fails to load is named with its file and code, everything of its
// model is unloaded, other models go on; where the card is out of step it is lost, but only after
// that.
func TestLoadFails(t *testing.T) {
	for _, tt := range []struct {
		code  uint32
		fatal bool
		kind  error
	}{{0x80300701, false, nil}, {0x80300703, false, axcl.ErrModel}, {0x80300704, false, axcl.ErrModel},
		{0x80300707, false, axcl.ErrMemory}, {0x80300709, true, axcl.ErrLost}} {
		onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
			if k == Engine {
				t.Skip("its codes are not the vendor's AXCL scheme")
			}
			d := open(t, k)
			first, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
			if err != nil {
				t.Fatal(err)
			}
			before, spec := sim.Live(), write(t, axcltest.DefaultTiny())
			configure(t, sim, fmt.Sprintf("fault=LoadFromFile:1:0x%08x", tt.code))
			_, err = axcl.Load(context.Background(), d, spec)
			configure(t, sim, "")
			var e *axcl.Error
			if !errors.As(err, &e) || e.Op != "axclrtEngineLoadFromFile" || e.Layer != 1 || e.Code != tt.code || e.Path != spec.Layers[1] ||
				axcl.Fatal(err) != tt.fatal || tt.kind != nil && !errors.Is(err, tt.kind) {
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

// TestNoID: a load that succeeds and gives no id has not opened the file.
func TestNoID(t *testing.T) {
	//proves:D5
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("its models are given as bytes")
		}
		d := open(t, k)
		defer closeAll(t, d)
		spec := write(t, axcltest.DefaultTiny())
		configure(t, sim, "fault=LoadFromFile:1:nothing")
		_, err := axcl.Load(context.Background(), d, spec)
		if !errors.Is(err, axcl.ErrModel) || axcl.Fatal(err) ||
			!strings.Contains(err.Error(), "the library could not open "+spec.Layers[1]) {
			t.Fatalf("%v", err)
		}
		configure(t, sim, "")
		if _, err := axcl.Load(context.Background(), d, spec); err != nil {
			t.Errorf("the next load: %v", err)
		}
	})
}

// TestTooOld: a runtime that refuses asynchronous executes is named as what it is, and the card is
// given back in order.
func TestTooOld(t *testing.T) {
	//proves:D5
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("it runs everything synchronously")
		}
		d := open(t, k)
		configure(t, sim, "fault=ExecuteAsync:*:4")
		_, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
		if !errors.Is(err, axcl.ErrTooOld) || axcl.Fatal(err) || !strings.Contains(err.Error(), "too old: 3.6 or later") {
			t.Fatalf("%v", err)
		}
		configure(t, sim, "")
		closeAll(t, d)
		if c := sim.Left(); c != (simhook.Counts{}) {
			t.Errorf("left behind: %+v", c)
		}
	})
}

// TestLateInfo: a card that does not tell its state in time can be opened, and loads and runs.
func TestLateInfo(t *testing.T) {
	//proves:D4
	onCard(t, "fault=GetDeviceProperties:*:0x80300405", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("its state is the kernel's")
		}
		d := open(t, k)
		defer closeAll(t, d)
		if i, err := d.Info(); !errors.Is(err, axcl.ErrLate) || axcl.Fatal(err) || i.ID != "axcl:0" {
			t.Errorf("info gave %+v, %v", i, err)
		}
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Run(rowPass(m.Shape(), 3)); err != nil {
			t.Error(err)
		}
		configure(t, sim, "fault=GetDeviceProperties:*:0x8030040c")
		if _, err := d.Info(); !axcl.Fatal(err) {
			t.Errorf("a card that is offline gave %v", err)
		}
	})
}

// TestRetry: after a pass that failed anywhere, but not for good, the same pass gives what it
// should: no state of the failed one is kept.
func TestRetry(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
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

// TestLinkGone: an error while the card is off the bus is a lost card, whatever its code.
func TestLinkGone(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("no link")
		}
		d := open(t, k)
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		sys := t.TempDir()
		d.sys.Store(&sys)
		for _, tt := range []struct {
			file, is string
			lost     bool
		}{{"vendor", "0x1f4b\n", false}, {"config", "\x4b\x1f\x50\x06", false}, {"config", "\xff\xff\xff\xff", true}} {
			if err := os.WriteFile(filepath.Join(sys, tt.file), []byte(tt.is), 0o600); err != nil {
				t.Fatal(err)
			}
			if d.Gone() != tt.lost {
				t.Errorf("%s %q: gone is not %v", tt.file, tt.is, tt.lost)
			}
			configure(t, sim, "fault=ExecuteAsync:1:0x8030070c")
			err = m.Run(rowPass(m.Shape(), 0))
			var e *axcl.Error
			if !errors.As(err, &e) || e.Layer != 1 || e.Code != 0x8030070c || errors.Is(err, axcl.ErrLost) != tt.lost {
				t.Errorf("%s %q: %v", tt.file, tt.is, err)
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
	for code := range uint32(0x20) {
		check(code)
	}
	for _, code := range []uint32{0xffffffff, 0x80060101, 0x8030ff01, 0x90300701, 0x80310701} {
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
	if b, err := exec.Command(compiler(), "-shared", "-fPIC", "-o", out, src).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return out
}

// TestNoLibrary: each way in which a library can be wrong has one clear error.
func TestNoLibrary(t *testing.T) {
	//proves:D1
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
		{"a missing function", compile(t, "libaxcl_rt.so", "int axclInit(const char *p) { return !!p; }\nint axclFinalize(void) "+
			"{ return 0; }"), []string{"no function axclrt", "libaxcl_rt.so"}},
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
		if err := os.WriteFile(lib, []byte("no library"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Engine, 0); !errors.Is(err, axcl.ErrNoDevice) ||
			!strings.Contains(err.Error(), "libax_engine.so: file too short") {
			t.Errorf("an engine that is none: %v", err)
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
	lane.NoRace(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, k := range kinds {
		if f := Look(k); f.Err != nil || len(f.Missing) != 0 {
			t.Errorf("%+v", f)
		}
	}
	old, err := simcard.Build("", "-DAXSIM_WITHOUT_WORKER", "-DaxclSetLogLevel=axsim_absent_a", "-DaxclrtGetFullVersion=axsim_absent_b",
		"-DaxclrtGetSocName=axsim_absent_c")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(EnvAXCL, old.AXCL)
	d := open(t, AXCL)
	defer closeAll(t, d)
	i, err := d.Info()
	want := "axclSetLogLevel axclrtGetFullVersion axclrtGetSocName axclrtTransferFile axclrtExecWorker axclrtWorkerSend axclrtWorkerRecv " +
		"axclrtKillWorker"
	if err != nil || strings.Join(i.Missing, " ") != want || i.Version != "3.10.2" || i.Name != "" {
		t.Errorf("%v, version %q, name %q, missing %v", err, i.Version, i.Name, i.Missing)
	}
	m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(rowPass(m.Shape(), 3)); err != nil {
		t.Error(err)
	}
}

// TestEngineTaken: where the process has initialised the engine already, opening goes on and leaves
// it initialised.
func TestEngineTaken(t *testing.T) {
	//proves:D15
	onCard(t, "fault=EngineInit:0:0x80300706;AxEngineInit:0:0x80060110", func(t *testing.T, k Kind, sim *simhook.Sim) {
		_, err := Open(k, 0)
		var e *axcl.Error
		if !errors.As(err, &e) || !strings.Contains(e.Op, "Init") {
			t.Fatalf("an engine that cannot be initialised gave %v", err)
		}
		revive(k)
	})
}

// TestNoMemory: a model that does not fit says so, with what was free, and leaves nothing: whether
// its buffers, its file or the model itself finds no room, and whichever code that has. The same
// code from an execute means no such thing.
func TestNoMemory(t *testing.T) {
	//proves:D3
	cache := axcltest.DefaultTiny()
	cache.Groups = []axmodel.SoftGroup{{Rows: 1, Cells: 1 << 17, Cache: 1 << 17}}
	for hazards, tt := range map[string]struct{ memory, engine uint32 }{
		"strict": {0x8030050c, 0x8030070c}, "strict,-nomem": {0x80300507, 0x80300707},
	} {
		onCard(t, "cmm=20\nhazards="+hazards, func(t *testing.T, k Kind, sim *simhook.Sim) {
			if k == Engine {
				t.Skip("its codes do not tell")
			}
			d := open(t, k)
			defer closeAll(t, d)
			before := sim.Live()
			for _, c := range []struct {
				name, op string
				y        axcltest.Tiny
				code     uint32
			}{
				{"its cache", "axclrtMalloc", cache, tt.memory},
				{"the largest file", "axclrtEngineLoadFromFile", axcltest.Tiny{ShapeOnly: true, Weights: 3 << 20}, 0},
				{"a layer", "axclrtEngineLoadFromFile", axcltest.Tiny{ShapeOnly: true, Weights: 1200 << 10}, tt.engine},
			} {
				_, err := axcl.Load(context.Background(), d, write(t, c.y))
				var e *axcl.Error
				if !errors.Is(err, axcl.ErrMemory) || axcl.Fatal(err) || !errors.As(err, &e) ||
					!strings.Contains(e.Note, "MiB of card memory were free") || e.Op != c.op || c.code != 0 && e.Code != c.code ||
					hazards == "strict" && !strings.Contains(err.Error(), ": out of card memory (0x") {
					t.Errorf("no room for %s: %v", c.name, err)
				}
				if after := sim.Live(); after != before {
					t.Errorf("no room for %s: left on the card: %+v", c.name, after)
				}
			}
			m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
			if err != nil {
				t.Fatalf("a small model afterwards: %v", err)
			}
			configure(t, sim, "fault=ExecuteAsync:0:0x8030070c")
			if err := m.Run(rowPass(m.Shape(), 0)); err == nil || errors.Is(err, axcl.ErrMemory) || axcl.Fatal(err) ||
				!strings.Contains(err.Error(), "engine: execute failed") {
				t.Errorf("an execute that failed: %v", err)
			}
		})
	}
}

// TestLoadOrder: the library holds a file beside the model while it loads it, so the largest is
// loaded first, the head before layers of its size.
func TestLoadOrder(t *testing.T) {
	tiny := func(y axcltest.Tiny) axcl.LoadSpec {
		y.Layers = 3
		return write(t, y)
	}
	mixed := tiny(axcltest.Tiny{ShapeOnly: true, Weights: 1 << 20, HeadWeights: 1 << 19})
	mixed.Layers[1] = tiny(axcltest.Tiny{ShapeOnly: true, Weights: 2 << 20}).Layers[1]
	mixed.Layers[2] = tiny(axcltest.Tiny{ShapeOnly: true, Weights: 3 << 20}).Layers[2]
	for _, tt := range []struct {
		name string
		spec axcl.LoadSpec
		want []int
	}{
		{"a large head", tiny(axcltest.Tiny{Vocab: 4096}), []int{3, 0, 1, 2}},
		{"a small head", tiny(axcltest.Tiny{}), []int{0, 1, 2, 3}},
		{"a head like the layers", tiny(axcltest.Tiny{ShapeOnly: true, Weights: 1 << 20, HeadWeights: 1 << 20}), []int{3, 0, 1, 2}},
		{"layers that differ", mixed, []int{2, 1, 0, 3}},
	} {
		onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
			var got []int
			tt.spec.Progress = func(file, done, total int) {
				if got = append(got, file); done != len(got) || total != 4 {
					t.Errorf("%s: file %d is %d of %d, after %v", tt.name, file, done, total, got)
				}
			}
			d := open(t, k)
			defer closeAll(t, d)
			m, err := axcl.Load(context.Background(), d, tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Run(widePass(m.Shape(), 9, 8)); err != nil {
				t.Error(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s: loaded in the order %v, want %v", tt.name, got, tt.want)
			}
		})
	}
}
