// Package axcltest tests axcl.Devices, and doubles them. [Checks] is the suite that every device
// must pass. [Faulty] plans faults, [Recorder] and [Player] record and play back, and there are
// small random models.
//
// It does not import testing, so that `axle doctor --conformance` can run the suite on a user's
// card: see TB. As with any device, a check runs on one goroutine, which it locks to its thread.
package axcltest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/axmodel"
)

// TB is the part of *testing.T that a check needs. Fatalf does not return.
type TB interface {
	Helper()
	Logf(format string, a ...any)
	Errorf(format string, a ...any)
	Fatalf(format string, a ...any)
	TempDir() string
}

// Options say what is checked.
type Options struct {
	// Open opens the device under test; each check opens and closes it.
	Open func() (axcl.Device, error)
}

// Check is one property of a device.
type Check struct {
	Name string
	Run  func(t TB)
}

// Checks are the suite for a device that computes the software card's models. Results are compared
// with the software card's.
func Checks(o Options) []Check {
	var cs []Check
	add := func(name string, f func(t TB, d axcl.Device)) {
		cs = append(cs, Check{name, func(t TB) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			d, err := o.Open()
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			defer func() {
				if err := d.Close(); err != nil && !errors.Is(err, axcl.ErrClosed) {
					t.Errorf("close: %v", err)
				}
			}()
			f(t, d)
		}})
	}
	add("info", checkInfo)
	for _, m := range models() {
		add("model/"+m.name, func(t TB, d axcl.Device) { checkModel(t, d, m.tiny) })
	}
	for _, m := range stateModels() {
		add("model/"+m.name, func(t TB, d axcl.Device) { checkModel(t, d, m.tiny) })
		add("states/"+m.name, func(t TB, d axcl.Device) { checkStates(t, d, m.tiny) })
	}
	add("no head", checkHeadless)
	add("rows copied instead of placed", func(t TB, d axcl.Device) { checkCopies(t, d, DefaultTiny()) })
	add("two models", checkTwo)
	add("cleared cells", func(t TB, d axcl.Device) { checkClear(t, d, models()) })
	add("rows saved, restored and copied", func(t TB, d axcl.Device) { checkRows(t, d, models()) })
	add("work of the host meanwhile", func(t TB, d axcl.Device) { checkMeanwhile(t, d, append(models(), stateModels()...)) })
	add("rows through the head alone", func(t TB, d axcl.Device) { checkHead(t, d, append(models(), stateModels()...)) })
	for _, m := range gemma4Models() {
		add("model/"+m.name, func(t TB, d axcl.Device) { checkModel(t, d, m.tiny) })
		add("rows copied instead of placed/"+m.name, func(t TB, d axcl.Device) { checkCopies(t, d, m.tiny) })
		add("cleared cells/"+m.name, func(t TB, d axcl.Device) { checkClear(t, d, []named{m}) })
		add("rows saved, restored and copied/"+m.name, func(t TB, d axcl.Device) { checkRows(t, d, []named{m}) })
		add("rows through the head alone/"+m.name, func(t TB, d axcl.Device) { checkHead(t, d, []named{m}) })
	}
	add("rows that are added to", checkAdd)
	add("bad passes", checkBadPasses)
	add("bad models", checkBadModels)
	add("cancelled load", checkCancel)
	add("load by files", checkLoader)
	add("net", checkNet)
	add("layer as a net", checkLayerNet)
	add("net of operations", checkGraphNet)
	add("buffers", checkBuffers)
	add("closing", checkClose)
	return cs
}

type named struct {
	name string
	tiny Tiny
}

// models cover what files may hold: names with and without the group, heads with and without
// argmax, bf16 and f32, ladders of any depth.
func models() []named {
	d := DefaultTiny()
	suffix := d
	suffix.Flags |= axmodel.FlagSuffix | axmodel.FlagQKVBias
	suffix.HeadFlags = axmodel.FlagF32
	decodes := d
	decodes.Flags, decodes.HeadFlags = axmodel.FlagGemma|axmodel.FlagNormOne, axmodel.FlagF32|axmodel.FlagArgmax
	decodes.Groups = []axmodel.SoftGroup{{Rows: 1, Cells: 40, Cache: 40}, {Rows: 1, Cells: 200, Cache: 200}, {Rows: 24, Cells: 0, Cache: 1},
		{Rows: 70, Cells: 130, Cache: 130}}
	plain := d
	plain.Groups = d.Groups[:1]
	plain.HeadFlags = 0
	plain.Layers = 3
	grid := d
	grid.Pos, grid.HeadFlags = 3, 0
	all := []named{{"qwen3, three prefill groups", d}, {"suffixed names, f32 logits", suffix}, {"two decode groups, wide rows", decodes},
		{"decode only, no argmax", plain}, {"positions of three components", grid}}
	for _, rows := range []int{2, 3, 5} {
		few := d
		few.Groups = []axmodel.SoftGroup{{Rows: 1, Cells: 96, Cache: 96}, {Rows: rows, Cells: 0, Cache: 1},
			{Rows: rows, Cells: 32, Cache: 32}}
		all = append(all, named{fmt.Sprintf("chunks of %d rows", rows), few})
	}
	return all
}

func write(t TB, y Tiny) axcl.LoadSpec {
	t.Helper()
	spec, err := y.Write(t.TempDir(), "tiny")
	if err != nil {
		t.Fatalf("making a model: %v", err)
	}
	return spec
}

func load(t TB, d axcl.Device, spec axcl.LoadSpec) axcl.Model {
	t.Helper()
	m, err := axcl.Load(context.Background(), d, spec)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return m
}

func checkInfo(t TB, d axcl.Device) {
	i, err := d.Info()
	if err != nil {
		t.Fatalf("info: %v", err)
	}
	switch {
	case i.Kind == "" || i.ID == "" || i.Version == "":
		t.Errorf("kind %q, id %q, version %q: one is missing", i.Kind, i.ID, i.Version)
	case i.FreeCMM > i.TotalCMM || i.FreeCMM < 0:
		t.Errorf("%d of %d bytes of card memory are free", i.FreeCMM, i.TotalCMM)
	case i.Temperature < -50 || i.Temperature > 150:
		t.Errorf("%v °C", i.Temperature)
	}
	t.Logf("%s %s, %s", i.Kind, i.Name, i.Version)
}

// checkModel loads the model, compares its shape with the files', and plays every script against
// the software card.
func checkModel(t TB, d axcl.Device, y Tiny) {
	spec := write(t, y)
	var seen []string
	var order, went []int
	spec.Order = func(files []int) { order = append(order, files...) }
	told := map[int]bool{}
	spec.Progress = func(file, done, total int) {
		seen = append(seen, fmt.Sprintf("%d: %d/%d", file, done, total))
		told[file] = file >= 0 && file < total
		went = append(went, file)
	}
	before, err := d.Info()
	if err != nil {
		t.Fatalf("info: %v", err)
	}
	m := load(t, d, spec)
	total := len(spec.Layers) + 1
	if len(seen) != total || len(told) != total || !strings.HasSuffix(seen[total-1], fmt.Sprintf(": %d/%d", total, total)) {
		t.Errorf("progress told %s", strings.Join(seen, " "))
	}
	if !slices.Equal(order, went) {
		t.Errorf("files went to the card as %d, not as was told: %d", went, order)
	}
	spec.Progress, spec.Order = nil, nil
	y = y.withDefaults()
	s := m.Shape()
	if s.Layers != y.Layers || s.Hidden != y.Hidden || s.KV != y.KVHeads*max(y.HD, y.Far) || s.Out != y.Vocab || s.Pos != y.Pos ||
		len(s.Groups) != len(y.Groups) || s.Bytes <= 0 {
		t.Errorf("shape %+v", s)
	}
	if s.LayerInputs != y.LayerInputs || s.Shared != y.Shared {
		t.Errorf("shape %+v, of %d layers %d share and each has layer inputs of %d values", s, y.Layers, y.Shared, y.LayerInputs)
	}
	if linear := y.linears(); s.Linear != linear || (linear > 0) != (s.State > 0) || linear > 0 && s.Slots < 1 {
		t.Errorf("shape %+v, %d layers keep a state", s, linear)
	}
	for i, g := range y.Groups {
		if s.Groups[i] != (axcl.Group{Rows: g.Rows, Cells: g.Cells}) {
			t.Errorf("group %d is %+v, the file has %+v", i, s.Groups[i], g)
		}
	}
	ref, stop := reference(t, spec)
	defer stop()
	embed := func(token uint64) []uint16 { return Rows(token, 1, s.Hidden) }
	for _, sc := range scripts(s) {
		want, err := play(ref, sc, true, embed)
		if err != nil {
			t.Fatalf("%s, on the software card: %v", sc.name, err)
		}
		got, err := play(m, sc, false, embed)
		if err != nil {
			t.Fatalf("%s: %v", sc.name, err)
		}
		if diff := differBy(got, want, y.alike()); diff != "" {
			t.Errorf("%s: %s", sc.name, diff)
		}
		measure(t, spec, s, sc, got, want)
		checkArgmax(t, sc.name, got, y.HeadFlags&axmodel.FlagF32 != 0)
	}
	checkWants(t, m, embed)
	if err := m.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := m.Close(); !errors.Is(err, axcl.ErrClosed) {
		t.Errorf("second close: %v", err)
	}
	if after, err := d.Info(); err != nil || after.FreeCMM != before.FreeCMM {
		t.Errorf("%d bytes were free before, %d after (%v)", before.FreeCMM, after.FreeCMM, err)
	}
}

// reference loads the model on a software card.
func reference(t TB, spec axcl.LoadSpec) (axcl.Model, func()) {
	t.Helper()
	d, err := soft.Open(soft.Options{})
	if err != nil {
		t.Fatalf("software card: %v", err)
	}
	return load(t, d, spec), func() { _ = d.Close() }
}

// checkArgmax: the index is the largest logit's, the lowest where several are largest. A head of
// float32 may tell apart what bf16 does not.
func checkArgmax(t TB, name string, got [][]result, f32 bool) {
	for i, pass := range got {
		for r, x := range pass {
			best := 0
			for k, v := range x.logits {
				if axcl.Float32(v) > axcl.Float32(x.logits[best]) {
					best = k
				}
			}
			if int(x.argmax) != best && !(f32 && int(x.argmax) < len(x.logits) && x.argmax >= 0 && x.logits[x.argmax] == x.logits[best]) {
				t.Errorf("%s: pass %d, row %d: argmax %d, the largest logit is %d", name, i, r, x.argmax, best)
			}
		}
	}
}

// checkWants: asking for fewer rows, for the index only, or for nothing changes nothing else.
func checkWants(t TB, m axcl.Model, embed func(uint64) []uint16) {
	s := m.Shape()
	n := min(s.MaxRows(), 12)
	full := func() *axcl.Pass {
		return build(s, prompt(50, 0, n, n, func(i int) uint32 { return uint32(i) })[0], embed)
	}
	want := full()
	if err := m.Run(want); err != nil {
		t.Fatalf("run: %v", err)
	}
	for _, rows := range [][]int{{0}, {n - 1}, upTo(n)[n/2:], {}} {
		for _, kind := range []string{"logits", "argmax", "both"} {
			p := full()
			p.Want, p.HiddenOut = rows, nil
			p.Logits, p.Argmax = nil, nil
			if kind != "argmax" {
				p.Logits = make([]uint16, len(rows)*s.Out)
			}
			if kind != "logits" {
				p.Argmax = make([]int32, len(rows))
			}
			p.Timing = &axcl.Timing{}
			if err := m.Run(p); err != nil {
				t.Fatalf("rows %v, %s: %v", rows, kind, err)
			}
			for i, r := range rows {
				if p.Argmax != nil && p.Argmax[i] != want.Argmax[r] {
					t.Errorf("rows %v, %s: argmax of row %d is %d, not %d", rows, kind, r, p.Argmax[i], want.Argmax[r])
				}
				if p.Logits == nil {
					continue
				}
				if c := Cosine(p.Logits[i*s.Out:][:s.Out], want.Logits[r*s.Out:][:s.Out]); !(c >= Same) {
					t.Errorf("rows %v, %s: logits of row %d agree to %.6f", rows, kind, r, c)
				}
			}
			if tm := p.Timing; tm.Upload < 0 || tm.Enqueue < 0 || tm.Wait < 0 || tm.Head < 0 || tm.Download < 0 || tm.Upload+tm.Enqueue+
				tm.Wait+tm.Head == 0 {
				t.Errorf("timing %+v", *tm)
			}
		}
	}
}

func checkHeadless(t TB, d axcl.Device) {
	spec := write(t, DefaultTiny())
	spec.Head = ""
	m := load(t, d, spec)
	if s := m.Shape(); s.Out != 0 || s.Argmax {
		t.Errorf("shape %+v without a head", s)
	}
	ref, stop := reference(t, spec)
	defer stop()
	embed := func(token uint64) []uint16 { return Rows(token, 1, m.Shape().Hidden) }
	sc := script{passes: prompt(10, 0, 40, 16, func(i int) uint32 { return uint32(i) })}
	want, err1 := play(ref, sc, true, embed)
	got, err2 := play(m, sc, false, embed)
	if err1 != nil || err2 != nil {
		t.Fatalf("%v, %v", err1, err2)
	}
	if diff := differ(got, want); diff != "" {
		t.Errorf("%s", diff)
	}
	measure(t, spec, m.Shape(), sc, got, want)
}

func checkCopies(t TB, d axcl.Device, y Tiny) {
	spec := write(t, y)
	ref, stop := reference(t, spec)
	defer stop()
	spec.NoInPlace = true
	m := load(t, d, spec)
	embed := func(token uint64) []uint16 { return Rows(token, 1, m.Shape().Hidden) }
	for _, sc := range scripts(m.Shape()) {
		want, err1 := play(ref, sc, true, embed)
		got, err2 := play(m, sc, false, embed)
		if err1 != nil || err2 != nil {
			t.Fatalf("%s: %v, %v", sc.name, err1, err2)
		}
		if diff := differBy(got, want, y.alike()); diff != "" {
			t.Errorf("%s: %s", sc.name, diff)
		}
		measure(t, spec, m.Shape(), sc, got, want)
	}
}

// checkTwo: models on one card do not disturb each other, and closing one leaves the other.
func checkTwo(t TB, d axcl.Device) {
	a, b := DefaultTiny(), DefaultTiny()
	b.Seed, b.Layers, b.Vocab = 2, 1, 77
	specA, specB := write(t, a), write(t, b)
	ma, mb := load(t, d, specA), load(t, d, specB)
	refA, stopA := reference(t, specA)
	defer stopA()
	refB, stopB := reference(t, specB)
	defer stopB()
	embed := func(token uint64) []uint16 { return Rows(token, 1, a.Hidden) }
	passes := prompt(10, 0, 8, 3, func(i int) uint32 { return uint32(i) })
	wantA, _ := play(refA, script{passes: passes}, true, embed)
	wantB, _ := play(refB, script{passes: passes}, true, embed)
	for i := range passes {
		if i == 2 {
			if err := mb.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
		one := script{passes: passes[i : i+1]}
		got, err := play(ma, one, false, embed)
		if err != nil {
			t.Fatalf("run: %v", err)
		}
		if diff := differ(got, wantA[i:i+1]); diff != "" {
			t.Errorf("first model, pass %d: %s", i, diff)
		}
		if i >= 2 {
			continue
		}
		if got, err = play(mb, one, false, embed); err != nil {
			t.Fatalf("run: %v", err)
		}
		if diff := differ(got, wantB[i:i+1]); diff != "" {
			t.Errorf("second model, pass %d: %s", i, diff)
		}
	}
}

// checkClear: cleared cells are zeros in every layer, whatever was there, and the others are as
// before.
func checkClear(t TB, d axcl.Device, all []named) {
	for _, y := range all {
		spec := write(t, y.tiny)
		m := load(t, d, spec)
		ref, stop := reference(t, spec)
		s := m.Shape()
		embed := func(token uint64) []uint16 { return Rows(token, 1, s.Hidden) }
		low := func(i int) uint32 { return uint32(i) }
		step := func(what string, passes [][]row) {
			want, err1 := play(ref, script{passes: passes}, true, embed)
			got, err2 := play(m, script{passes: passes}, false, embed)
			if err1 != nil || err2 != nil {
				t.Fatalf("%s, %s: %v, %v", y.name, what, err1, err2)
			}
			if diff := differ(got, want); diff != "" {
				t.Errorf("%s, %s: %s", y.name, what, diff)
			}
		}
		step("before", prompt(2000, 0, 12, s.MaxRows(), low))
		// Rows that are no numbers, which see nothing that is kept: the reference does not make
		// them.
		wide, last := min(s.MaxRows(), 3), uint32(s.Cells-1)
		bad := prompt(2100, 0, wide, wide, func(i int) uint32 { return []uint32{13, 14, last}[i] })[0]
		p := build(s, bad, embed)
		for i := range p.Hidden {
			p.Hidden[i] = 0x7fc0
		}
		if err := m.Run(p); err != nil {
			t.Fatalf("%s: rows of NaN: %v", y.name, err)
		}
		for _, clear := range [][]uint32{{13, 14, last}, {4, 6, 7}, {}} {
			if err := errors.Join(m.Clear(clear), ref.Clear(clear)); err != nil {
				t.Fatalf("%s: clear: %v", y.name, err)
			}
		}
		// The text goes on, on cells of which some are zeros now; and a row sees the cells that
		// held no numbers.
		step("after", prompt(2000, 12, 3, 1, func(i int) uint32 { return uint32(i + i/12*20) }))
		see := []uint32{2, 4, 6, 7, 13}
		if wide > 1 {
			see = append(see, 14, last)
		}
		step("zeros", [][]row{{{token: 2200, pos: 5, cell: 20, cells: see}}})
		for _, clear := range [][]uint32{{uint32(s.Cells)}, {3, 3}, {5, 4}} {
			if err := m.Clear(clear); !errors.Is(err, axcl.ErrPass) {
				t.Errorf("%s: clear of %d: %v", y.name, clear, err)
			}
		}
		stop()
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := m.Clear([]uint32{1}); !errors.Is(err, axcl.ErrClosed) {
			t.Errorf("clear after close: %v", err)
		}
	}
}

func checkBadPasses(t TB, d axcl.Device) {
	m := load(t, d, write(t, DefaultTiny()))
	s := m.Shape()
	embed := func(token uint64) []uint16 { return Rows(token, 1, s.Hidden) }
	good := func() *axcl.Pass {
		return build(s, prompt(7, 0, 3, 3, func(i int) uint32 { return uint32(i) })[0], embed)
	}
	want := good()
	if err := m.Run(want); err != nil {
		t.Fatalf("run: %v", err)
	}
	if err := m.Run(nil); !errors.Is(err, axcl.ErrPass) {
		t.Errorf("no pass: %v", err)
	}
	for i, spoil := range []func(p *axcl.Pass){
		func(p *axcl.Pass) { *p = axcl.Pass{} },
		func(p *axcl.Pass) { p.Hidden = p.Hidden[1:] },
		func(p *axcl.Pass) { p.Cell[1] = uint32(s.Cells) },
		func(p *axcl.Pass) { p.Cell[1] = p.Cell[0] },
		func(p *axcl.Pass) { p.SeeCells[0] |= 2 },
		func(p *axcl.Pass) { p.SeeRows[1] |= 4 },
		func(p *axcl.Pass) { p.Want = []int{9} },
		func(p *axcl.Pass) { p.Logits = p.Logits[1:] },
	} {
		p := good()
		spoil(p)
		if err := m.Run(p); !errors.Is(err, axcl.ErrPass) {
			t.Errorf("bad pass %d: %v", i, err)
		}
	}
	got := good()
	if err := m.Run(got); err != nil {
		t.Fatalf("a good pass after bad ones: %v", err)
	}
	if c := Cosine(got.Logits, want.Logits); !(c >= Same) {
		t.Errorf("a good pass after bad ones gives other logits, cosine %.6f", c)
	}
}
