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
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/lane"
)

// TestSweep fails every call of a device's life, once and for good: each fault comes back as an
// error with the call's own name, code and layer; nothing is left on the card; after a fatal code
// nothing more is asked of the library; and the next life is as good as the first.
func TestSweep(t *testing.T) {
	//proves:D2
	//proves:G1
	lane.Slow(t)
	lane.NoRace(t)
	spec := sweepModel(t)
	for _, k := range kinds {
		t.Run(string(k), func(t *testing.T) {
			t.Parallel() // the two libraries share nothing
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			sim := sims[k]
			defer func() {
				if err := sim.Reset(); err != nil {
					t.Error(err)
				}
				revive(k)
			}()
			calls := clean(t, k, sim, spec)
			last := len(spec.Layers) - 1
			if len(calls) < 10*last || !slices.ContainsFunc(calls, func(c traced) bool { return c.layer == last }) {
				t.Fatalf("only %d calls in a life", len(calls))
			}
			bad := 0
			for i, c := range calls {
				for n, how := range []string{"", ":sticky"} {
					code := sweepCodes[(i+3*n+i/len(sweepCodes))%len(sweepCodes)]
					configure(t, sim, fmt.Sprintf("fault=*:%d:0x%08x%s", i, code, how))
					err := life(k, spec)
					why := judge(k, sim, c, i, code, how != "", len(spec.Layers), err)
					if axcl.Fatal(err) {
						if e := sim.Reset(); e != nil {
							t.Fatal(e)
						}
						revive(k)
					}
					if why != "" {
						t.Errorf("call %d, %s, layer %d, code 0x%08x%s: %s; the error: %v", i, c.name, c.layer, code, how, why, err)
						if bad++; bad > 20 {
							t.Fatal("and so on")
						}
					}
				}
				if i%64 == 0 || i == len(calls)-1 {
					configure(t, sim, "")
					if err := life(k, spec); err != nil {
						t.Fatalf("after a fault in call %d (%s): %v", i, c.name, err)
					}
				}
			}
			t.Logf("%d calls, each failed twice", len(calls))
		})
	}
}

// sweepModel is as deep as a real model and otherwise as small as one can be. Where every
// instruction is watched, six layers do: each of the others makes the same calls again.
func sweepModel(t testing.TB) axcl.LoadSpec {
	y := axcltest.Tiny{Seed: 3, Layers: 1, Hidden: 32, Heads: 2, KVHeads: 1, HD: 4, Intermediate: 4, Vocab: 40, ShapeOnly: true,
		Groups: []axmodel.SoftGroup{{Rows: 1, Cells: 12, Cache: 12}, {Rows: 4, Cells: 0, Cache: 1}}, HeadFlags: axmodel.FlagArgmax}
	spec := write(t, y)
	layers := 28
	if testing.Short() {
		layers = 6
	}
	for len(spec.Layers) < layers {
		spec.Layers = append(spec.Layers, spec.Layers[0])
	}
	return spec
}

// life is a device from open to close: a load, a prefill, a decode, copied rows, rows through the
// head alone, rows that are added to, a general model. It returns the first error, and the one that
// cost the card where that is another, and goes on to close what is open.
func life(k Kind, spec axcl.LoadSpec) (err error) {
	keep := func(e error) {
		if err == nil {
			err = e
		} else {
			err = worse(err, e)
		}
	}
	d, e := Open(k, 0)
	if e != nil {
		return e
	}
	defer func() { keep(d.Close()) }()
	m, e := axcl.Load(context.Background(), d, spec)
	if e != nil {
		return e
	}
	s := m.Shape()
	wide := widePass(s, 3, 1, 2)
	wide.HiddenOut, wide.Argmax = make([]uint16, len(wide.Hidden)), make([]int32, 2)
	if e := m.Run(wide); e != nil {
		keep(e)
		return err
	}
	one := rowPass(s, 3)
	copy(one.Hidden, wide.HiddenOut)
	if e := m.Run(one); e != nil {
		keep(e)
		return err
	}
	if e := right(s, wide, one); e != nil {
		keep(e)
		return err
	}
	if e := m.Clear([]uint32{2, 3}); e != nil {
		keep(e)
		return err
	}
	if e := copyRows(m); e != nil {
		keep(e)
		return err
	}
	if e := headAlone(m, wide); e != nil {
		keep(e)
		return err
	}
	more := withAdd(s, widePass(s, 3), 0, 2)
	more.HiddenOut, more.Meanwhile = make([]uint16, len(more.Hidden)), func() {}
	if e := m.Run(more); e != nil {
		keep(e)
		return err
	}
	if e := addedRight(s, more); e != nil {
		keep(e)
		return err
	}
	n, e := d.LoadNet(spec.Head)
	if e != nil {
		return e
	}
	in, out := n.Inputs(0)[0], n.Outputs(0)[0]
	keep(n.Run(0, map[string][]byte{in.Name: make([]byte, in.Size)}, map[string][]byte{out.Name: make([]byte, out.Size)}))
	kept(d, n, keep)
	keep(n.Close())
	return err
}

// kept runs a net from one buffer to another.
func kept(d axcl.Device, n axcl.Net, keep func(error)) {
	in, out := n.Inputs(0)[0], n.Outputs(0)[0]
	from, err := d.NewBuffer(in.Size)
	if err != nil {
		keep(err)
		return
	}
	defer func() { keep(from.Close()) }()
	to, err := d.NewBuffer(out.Size)
	if err != nil {
		keep(err)
		return
	}
	defer func() { keep(to.Close()) }()
	for _, do := range []func() error{
		func() error { return from.Write(0, make([]byte, in.Size)) },
		func() error { return n.Bind(0, in.Name, from) },
		func() error { return n.Bind(0, out.Name, to) },
		func() error { return n.Run(0, nil, nil) },
		func() error { return to.Read(0, make([]byte, out.Size)) },
	} {
		if err := do(); err != nil {
			keep(err)
			return
		}
	}
}

// headRows is how many rows a life sends through the head alone: more than go up at once.
const headRows = 5

// headAlone sends rows of the pass through the head, again and again.
func headAlone(m axcl.Model, wide *axcl.Pass) error {
	s := m.Shape()
	var rows []uint16
	for i := range headRows {
		rows = append(rows, wide.Hidden[i%wide.Rows()*s.Hidden:][:s.Hidden]...)
	}
	logits := make([]uint16, headRows*s.Out)
	if err := m.Head(rows, logits); err != nil {
		return err
	}
	for i := range headRows {
		if next := axmodel.ShapeNext(rows[i*s.Hidden:][:s.Hidden], s.Out, 0); axcl.Float32(logits[i*s.Out+next]) != 16 {
			return fmt.Errorf("row %d through the head alone: the logit of the token after it, %d, is not the largest", i, next)
		}
	}
	return nil
}

// addedRight: a model without weights gives its input and what was added to it.
func addedRight(s axcl.Shape, p *axcl.Pass) error {
	want := slices.Clone(p.Hidden)
	for i, a := range p.Add {
		for k, v := range p.Added[i*s.Hidden:][:s.Hidden] {
			at := int(a.Row)*s.Hidden + k
			want[at] = axcl.Sum(want[at], v)
		}
	}
	for i, v := range p.HiddenOut {
		if v != want[i] {
			return fmt.Errorf("hidden value %d is %04x with what was added, not %04x", i, v, want[i])
		}
	}
	return nil
}

// copyRows restores rows to cells, copies them to others, and saves these.
func copyRows(m axcl.Model) error {
	sent, got := make([]byte, 3*m.Shape().RowBytes()), make([]byte, 3*m.Shape().RowBytes())
	for i := range sent {
		sent[i] = byte(i*7) &^ 0x40 // as bf16 a number
	}
	if err := m.Restore([]uint32{4, 5, 9}, sent); err != nil {
		return err
	}
	if err := m.Copy([]uint32{0, 1, 2}, []uint32{4, 5, 9}); err != nil {
		return err
	}
	if err := m.Save([]uint32{0, 1, 2}, got); err != nil {
		return err
	}
	if !bytes.Equal(got, sent) {
		return errors.New("rows came back as others")
	}
	return nil
}

// right: a model without weights gives back its input, and the token after the one its input
// spells.
func right(s axcl.Shape, wide, one *axcl.Pass) error {
	for i, v := range wide.HiddenOut {
		if v != wide.Hidden[i] {
			return fmt.Errorf("hidden value %d is %04x, not %04x", i, v, wide.Hidden[i])
		}
	}
	check := func(hidden, logits []uint16, arg int32) error {
		next := axmodel.ShapeNext(hidden, s.Out, 0)
		if axcl.Float32(logits[next]) != 16 || arg >= 0 && int(arg) != next {
			return fmt.Errorf("after this row comes %d: its logit is %v, the argmax %d", next, axcl.Float32(logits[next]), arg)
		}
		return nil
	}
	for i, r := range wide.Want {
		if err := check(wide.Hidden[r*s.Hidden:], wide.Logits[i*s.Out:], wide.Argmax[i]); err != nil {
			return err
		}
	}
	return check(one.Hidden, one.Logits, -1)
}

// sweepCodes are at least one of each kind: failed, refused, busy, no memory, timed out, out of
// step, gone, and nothing known.
var sweepCodes = []uint32{0x8030070c, 0x80300507, 0x80300703, 0x80300706, 0x80300705, 0x8030070a, 0x80300181, 0xdeadbeef}

// quiet are calls whose failure costs nothing but a name, and is not worth a card.
var quiet = map[string]bool{"axclSetLogLevel": true, "axclrtGetFullVersion": true, "axclrtGetSocName": true, "AX_ENGINE_GetVersion": true}

// codeless are calls that cannot give a code: their failure is found by what they do give.
var codeless = regexp.MustCompile(`GetNum(In|Out)puts|SizeByIndex|NameByIndex`)

// refusable are the on-board calls whose own codes are not held against the board.
var refusable = regexp.MustCompile(`MemAlloc|CreateHandle|CreateContext|GetGroupIOInfo`)

type traced struct {
	name  string
	layer int // as the test works it out; other layers than these are not checked
}

const anyLayer = -100

// clean makes one faultless life and lists its calls, with the layer each belongs to, worked out
// from how often a call came.
func clean(t *testing.T, k Kind, sim *simhook.Sim, spec axcl.LoadSpec) []traced {
	t.Helper()
	trace := filepath.Join(t.TempDir(), "trace")
	configure(t, sim, "trace="+trace)
	if err := life(k, spec); err != nil {
		t.Fatal(err)
	}
	configure(t, sim, "")
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var calls []traced
	count := map[string]int{}
	layers := len(spec.Layers)
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.SplitN(line, " ", 4)
		if len(f) < 4 || strings.HasPrefix(line, "#") || !strings.Contains(f[3], "(") {
			continue
		}
		name, _, _ := strings.Cut(f[3], "(")
		n := count[name]
		count[name]++
		at := anyLayer
		switch name {
		case "axclrtEngineLoadFromFile", "axclrtEngineCreateContext", "axclrtEngineGetIOInfo", "axclrtEngineGetShapeGroupsCount",
			"AX_ENGINE_CreateHandleV2", "AX_ENGINE_CreateContextV2":
			if at = n - 1; n == 0 { // the largest file is loaded first
				at = axcl.Head
			} else if n > layers {
				at = axcl.NoLayer // the general model
			}
		case "axclrtEngineCreateIO":
			if at = n / 2; n >= 2*layers { // two groups a layer, two ios for the head
				at = axcl.Head
			}
			if n >= 2*layers+2 {
				at = axcl.NoLayer
			}
		case "axclrtEngineExecuteAsync", "AX_ENGINE_RunGroupIOSync":
			switch n -= 3; { // the probe runs layer 0
			case n < 0:
				at = 0
			case n < layers:
				at = n
			case n < layers+2: // two wanted rows
				at = axcl.Head
			case n < 2*layers+2:
				at = n - layers - 2
			case n < 2*layers+3+headRows: // one wanted row, and rows through the head alone
				at = axcl.Head
			case n < 3*layers+3+headRows: // with additions, nothing wanted
				at = n - 2*layers - 3 - headRows
			default:
				at = axcl.NoLayer
			}
		case "axclInit", "axclFinalize", "axclrtSetDevice", "axclrtEngineInit", "axclrtCreateStream", "axclrtResetDevice",
			"axclrtSynchronizeStreamWithTimeout":
			if at = axcl.NoLayer; strings.Contains(name, "Synchronize") && n < 8 {
				at = 0 // the probe's
			}
		}
		calls = append(calls, traced{name, at})
	}
	return calls
}

// judge says what is wrong with how a fault was handled, in the life of a model of this many
// layers; empty when nothing is.
func judge(k Kind, sim *simhook.Sim, c traced, i int, code uint32, sticky bool, layers int, err error) string {
	left := handles(k)
	if left != 0 {
		return fmt.Sprintf("%d handles are left open", left)
	}
	var e *axcl.Error
	own := axcl.Fatal(&axcl.Error{Code: code}) // the fault itself is fatal, not only what came after it
	if k == Engine && code == 0xdeadbeef && refusable.MatchString(c.name) {
		own = false
	}
	if c.name == "axclrtSynchronizeStreamWithTimeout" && code == 0xdeadbeef { // a task failed, and not the card
		own = false
	}
	late := c.name == "axclrtGetDeviceProperties" && code&0xff == 5 // a card that does not tell its state in time opens, and loads
	silent := quiet[c.name] || late || codeless.MatchString(c.name)
	if axcl.Fatal(err) {
		most := uint64(i) + 1
		if c.name == "AX_ENGINE_Init" {
			most++ // it is asked whether someone else initialised it
		}
		if c.name == "axclrtEngineLoadFromFile" && code == 0x8030070a && c.layer == axcl.NoLayer { // the model beside goes with the card
			if n := sim.Live(); n.Models > uint64(layers)+1 || n.Infos > uint64(layers)+1 {
				return fmt.Sprintf("the general model is left on the card: %+v", n)
			}
		} else if c.name == "axclrtEngineLoadFromFile" && code == 0x8030070a { // out of step: what was loaded is unloaded first
			if n := sim.Live(); n.Models+n.Infos+n.IOs+n.DeviceBlocks+n.HostBlocks != 0 && !sticky {
				return fmt.Sprintf("left on the card: %+v", n)
			}
		} else if n := sim.Calls(""); n > most && own && !silent {
			return fmt.Sprintf("%d calls were made, %d of them after the fatal one", n, n-uint64(i)-1)
		}
	} else if n, m := sim.Live(), sim.Left(); n != (simhook.Counts{}) || m != (simhook.Counts{}) {
		return fmt.Sprintf("left on the card: %+v, cleared up by the library: %+v", n, m)
	}
	switch {
	case quiet[c.name], late:
		return ""
	case err == nil:
		return "it did not surface"
	case codeless.MatchString(c.name):
		if !errors.Is(err, axcl.ErrModel) && !(sticky && errors.As(err, &e)) { // a later call had a code to give
			return "it is no model error"
		}
		return ""
	case !errors.As(err, &e):
		return "it is no *axcl.Error"
	case e.Op != c.name || e.Code != code:
		return fmt.Sprintf("it surfaced as %s with 0x%08x", e.Op, e.Code)
	case c.layer != anyLayer && e.Layer != c.layer:
		return fmt.Sprintf("it surfaced in layer %d", e.Layer)
	}
	if axcl.Fatal(err) != own && !sticky {
		return fmt.Sprintf("fatal: %v", !own)
	}
	return ""
}

// TestSweepTwo does the same with two cards on one thread, where each call first makes its card
// current: a fault in one may cost that one, never the other's models, and both can be closed.
func TestSweepTwo(t *testing.T) {
	//proves:G1
	lane.Slow(t)
	lane.NoRace(t)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	sim := sims[AXCL]
	spec := sweepModel(t)
	spec.Layers = spec.Layers[:2]
	both := func() error {
		var errs []error
		keep := func(e error) { errs = append(errs, e) }
		a, e := Open(AXCL, 0)
		if e != nil {
			return e
		}
		b, e := Open(AXCL, 1)
		if e != nil {
			return errors.Join(e, a.Close())
		}
		for _, d := range []axcl.Device{a, b} {
			_, e := d.Info()
			keep(e)
			m, e := axcl.Load(context.Background(), d, spec)
			if keep(e); e == nil {
				keep(m.Run(rowPass(m.Shape(), 3)))
			}
			n, e := d.LoadNet(spec.Head)
			if keep(e); e == nil {
				keep(n.Run(0, map[string][]byte{"input": make([]byte, n.Inputs(0)[0].Size)}, map[string][]byte{"indices": make([]byte, 4)}))
			}
		}
		keep(b.Close())
		keep(a.Close())
		return errors.Join(errs...)
	}
	configure(t, sim, "devices=2")
	if err := both(); err != nil {
		t.Fatal(err)
	}
	calls := int(sim.Calls(""))
	for i := range calls {
		for n, how := range []string{"", ":sticky"} {
			configure(t, sim, fmt.Sprintf("devices=2\nfault=*:%d:0x%08x%s", i, sweepCodes[(i+3*n+i/len(sweepCodes))%len(sweepCodes)], how))
			err := both()
			if left := handles(AXCL); left != 0 {
				t.Fatalf("call %d%s: %d handles are left open; the error: %v", i, how, left, err)
			}
			if n, m := sim.Live(), sim.Left(); err == nil && (n != (simhook.Counts{}) || m != (simhook.Counts{})) {
				t.Fatalf("call %d%s: nothing surfaced, and left on the card: %+v, %+v", i, how, n, m)
			}
			if e := sim.Reset(); e != nil {
				t.Fatal(e)
			}
			revive(AXCL)
		}
		if i%64 == 0 {
			configure(t, sim, "devices=2")
			if err := both(); err != nil {
				t.Fatalf("after a fault in call %d: %v", i, err)
			}
		}
	}
	t.Logf("%d calls", calls)
}

// handles counts a library's handles that are open.
func handles(k Kind) (n int) {
	live.Lock()
	defer live.Unlock()
	for _, of := range live.handles {
		if of == k {
			n++
		}
	}
	return n
}
