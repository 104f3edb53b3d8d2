//go:build cgo && !fake && linux

package native

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
)

func TestConformance(t *testing.T) {
	//proves:G13
	quirks := []string{"strict", "strict,shortchunk,kv-inplace,lazy", "strict,message,eintr", "strict,properties",
		"strict,-latch,-rawcode,-nomem,-inherit", "none"}
	if lane.Race {
		quirks = quirks[:1] // what a card gets wrong changes numbers, not which goroutine touches what
	}
	if asanEnabled {
		quirks = quirks[:2] // a card that forgives is sent what a strict one is
	}
	for _, hazards := range quirks {
		t.Run(hazards, func(t *testing.T) {
			for _, k := range kinds {
				configure(t, sims[k], "hazards="+hazards)
				for i, c := range axcltest.Checks(axcltest.Options{Open: func() (axcl.Device, error) { return Open(k, 0) }}) {
					if hazards == "strict,properties" && i%8 != 0 {
						continue // each open takes a fifth of a second of waiting, and asks the same
					}
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

// TestUnlisted: positions and mask of layers that keep a state, where the library does not count
// them among the inputs.
func TestUnlisted(t *testing.T) {
	lane.NoRace(t)
	configure(t, sims[AXCL], "hazards=strict,unlisted")
	for _, c := range axcltest.Checks(axcltest.Options{Open: func() (axcl.Device, error) { return Open(AXCL, 0) }}) {
		if strings.HasPrefix(c.Name, "states") {
			t.Run(c.Name, func(t *testing.T) { c.Run(t) })
		}
	}
}

// TestAbilities: a card that lacks one ability is found to lack that one, and only that.
func TestAbilities(t *testing.T) {
	all := axcltest.Abilities{Wide: true, Chunk: true, Mixed: true, Scatter: true, Place: true}
	for hazard, want := range map[string]func(a *axcltest.Abilities){
		"strict":          func(a *axcltest.Abilities) {},
		"positions-first": func(a *axcltest.Abilities) { a.Mixed = false },
		"mask-shared":     func(a *axcltest.Abilities) { a.Mixed = false },
		"cells-ordered":   func(a *axcltest.Abilities) { a.Scatter, a.Mixed = false, false }, // others' cells lie in between
		"kv-inplace":      func(a *axcltest.Abilities) { a.Place = false },
	} {
		t.Run(hazard, func(t *testing.T) {
			onCard(t, "hazards=strict,"+hazard, func(t *testing.T, k Kind, _ *simhook.Sim) {
				d := open(t, k)
				defer closeAll(t, d)
				m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
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

// TestStateAbilities: what a card does with layers that keep a state is found, and what follows
// where it gets a chunk wrong.
func TestStateAbilities(t *testing.T) {
	right := axcltest.Abilities{Wide: true, Chunk: true, Scatter: true, Place: true, States: true, Kept: true}
	wrong := right
	wrong.Chunk, wrong.Stepped = false, true
	for hazard, want := range map[string]axcltest.Abilities{"strict": right, "state-padding": wrong} {
		onCard(t, "hazards=strict,"+hazard, func(t *testing.T, k Kind, _ *simhook.Sim) {
			d := open(t, k)
			defer closeAll(t, d)
			m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultStates()))
			if err != nil {
				t.Fatal(err)
			}
			got, lacks, err := axcltest.Try(m, func(token uint64) []uint16 { return axcltest.Rows(token, 1, m.Shape().Hidden) })
			if err != nil || got != want {
				t.Errorf("%s: %+v, want %+v (%v, %v)", hazard, got, want, lacks, err)
			}
		})
	}
}

// TestOneCall: a pass is one call into C, and allocates at most once, where layers keep a state, or
// use the K and V of others, too.
func TestOneCall(t *testing.T) {
	//proves:G4
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
		if err != nil {
			t.Fatal(err)
		}
		passes := map[string]*axcl.Pass{"decode": rowPass(m.Shape(), 5), "prefill": widePass(m.Shape(), 13, 3, 12)}
		shared, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultGemma4()))
		if err != nil {
			t.Fatal(err)
		}
		spec := write(t, axcltest.DefaultStates())
		spec.Slots = 2
		states, err := axcl.Load(context.Background(), d, spec)
		if err != nil {
			t.Fatal(err)
		}
		of := map[*axcl.Pass]axcl.Model{}
		for name, p := range map[string]*axcl.Pass{"K and V shared": rowPass(shared.Shape(), 5),
			"K and V shared, a chunk": widePass(shared.Shape(), 13, 3)} {
			passes[name], of[p] = p, shared
		}
		for name, slots := range map[string][2]uint32{"states in place": {1, 1}, "from slot to slot": {1, 2}} {
			p := rowPass(states.Shape(), 5)
			p.From, p.To = slots[0], slots[1]
			passes[name], of[p] = p, states
		}
		for name, single := range map[string]bool{"states, a chunk": false, "states, a chunk one by one": true} {
			p := widePass(states.Shape(), 13, 3, 12)
			p.To, p.Single = 1, single
			passes[name], of[p] = p, states
		}
		for name, p := range passes {
			m := m
			if of[p] != nil {
				m = of[p]
			}
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

// TestCallsPerToken holds the numbers that make the host's share small: 3 × layers + 8 calls a
// token, at most 4 of them over PCIe, also where rows are copied; and with the argmax nothing but
// an index comes down.
func TestCallsPerToken(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		y := axcltest.DefaultTiny()
		y.Layers = 5
		spec := write(t, y)
		for _, copies := range []bool{false, true} {
			spec.NoInPlace = copies
			d := open(t, k)
			m, err := axcl.Load(context.Background(), d, spec)
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

// TestMergedCopies: rows in consecutive cells go home in one copy of K and one of V a layer.
func TestMergedCopies(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if k == Engine {
			t.Skip("on board the copies are the CPU's own, the library does not see them")
		}
		y := axcltest.DefaultTiny()
		d := open(t, k)
		defer closeAll(t, d)
		m, err := axcl.Load(context.Background(), d, write(t, y))
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
		m, err := axcl.Load(context.Background(), d, write(t, axcltest.DefaultTiny()))
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
		// Of the six passes the first sends the whole mask; each other differs in one column of two
		// bytes.
		if n := strings.Count(string(b), " count=2 kind=1"); n < 5 {
			t.Errorf("%d transfers of one column, want 5; trace:\n%s", n, head(string(b)))
		}
	})
}

// TestRounding: float32 logits are rounded to the nearest bf16, ties to even, as axcl.BFloat16
// does.
func TestRounding(t *testing.T) {
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		y := axcltest.DefaultTiny()
		y.HeadFlags = axmodel.FlagF32
		spec := write(t, y)
		m, err := axcl.Load(context.Background(), d, spec)
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
			m, err := axcl.Load(context.Background(), d, write(t, y))
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

// TestDevices: cards are numbered from 0, found by bus number too, opened once each, and share a
// library's beginning and end.
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
	if _, err := Open(AXCL, 0); !errors.Is(err, axcl.ErrNoDevice) ||
		!strings.Contains(err.Error(), "(0x8030010b): /dev/axcl_host is missing") {
		t.Errorf("without a driver: %v", err)
	}
	if f := Look(AXCL); !errors.Is(f.Err, axcl.ErrNoDevice) || f.Version == "" {
		t.Errorf("without a driver: %+v", f)
	}
}

// TestUnopened: which node is not there, or not for this user, is said where the library only says
// that something could not be opened.
func TestUnopened(t *testing.T) {
	//proves:D1
	dev := t.TempDir()
	say := func(want ...string) {
		t.Helper()
		got := unopened(dev)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%q does not say %q", got, w)
			}
		}
		if len(want) == 0 && got != "" {
			t.Errorf("%q", got)
		}
	}
	say("/axcl_host is missing: the driver is not loaded")
	for i, n := range axcl.Nodes() {
		if n.Several {
			continue
		}
		if i > 0 {
			say("/"+n.Name+" is missing", n.For)
		}
		if err := os.WriteFile(filepath.Join(dev, n.Name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	say()
	if os.Getuid() == 0 {
		t.Log("root may open everything: what others may not is not tried")
		return
	}
	if err := os.WriteFile(filepath.Join(dev, "p2p"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	say("/p2p cannot be opened by this user", "several cards")
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
		"proc/ax_proc/mem_cmm_info": {Data: []byte("---CMM_USE_INFO:\n total size=7340032KB(7168MB),used=23552KB(23MB + " +
			"0KB),remain=7316480KB(7145MB + 0KB),partition_number=1,block_number=23\n")},
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
