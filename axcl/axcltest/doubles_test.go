package axcltest

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
)

func TestTape(t *testing.T) {
	spec, err := DefaultTiny().Write(t.TempDir(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	rec := Record(openSoft(t))
	want := session(rec, spec)
	var file bytes.Buffer
	if err := rec.Tape.Save(&file); err != nil {
		t.Fatal(err)
	}
	again, err := ReadTape(&file)
	if err != nil {
		t.Fatal(err)
	}
	for name, tape := range map[string]*Tape{"as recorded": &rec.Tape, "saved and read": again} {
		p := Play(tape)
		if got := session(p, spec); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the player gave\n%v, the device\n%v", name, got, want)
		}
		if p.Left() != 0 {
			t.Errorf("%s: %d events are left", name, p.Left())
		}
	}
	// Another order, other data and more calls than the tape has are all noticed.
	for name, call := range map[string]func(d axcl.Device){
		"order": func(d axcl.Device) { _ = d.Close() },
		"spec":  func(d axcl.Device) { _, _ = d.Info(); _, _ = axcl.Load(context.Background(), d, axcl.LoadSpec{}) },
		"data": func(d axcl.Device) {
			_, _ = d.Info()
			m, _ := axcl.Load(context.Background(), d, spec)
			_ = m.Run(&axcl.Pass{})
		},
		"rows": func(d axcl.Device) {
			_, _ = d.Info()
			p := d.(*Player)
			for p.tape.Events[p.at].Op != OpRestore {
				p.at++
			}
			_ = (&playedModel{p: p}).Restore([]uint32{7, 8}, make([]byte, 2*DefaultTiny().Layers*2*2*2*16))
		},
		"head": func(d axcl.Device) {
			p := d.(*Player)
			for p.tape.Events[p.at].Op != OpHead {
				p.at++
			}
			s := DefaultTiny()
			_ = (&playedModel{p: p, id: 1}).Head(Rows(8, 3, s.Hidden), make([]uint16, 3*s.Vocab))
		},
	} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(r.(string), "the tape has") {
					t.Errorf("%s: recovered %v", name, r)
				}
			}()
			call(Play(&rec.Tape))
		}()
	}
	defer func() {
		if r := recover(); r == nil || !strings.Contains(r.(string), "is over") {
			t.Errorf("recovered %v", r)
		}
	}()
	_, _ = Play(&Tape{}).Info()
}

func TestFaulty(t *testing.T) {
	spec, err := DefaultTiny().Write(t.TempDir(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	f := NewFaulty(openSoft(t))
	m, err := axcl.Load(context.Background(), f, spec)
	if err != nil {
		t.Fatal(err)
	}
	s := m.Shape()
	run := func() (*axcl.Pass, error) {
		p := build(s, prompt(1, 0, 2, 2, func(i int) uint32 { return uint32(i) })[0],
			func(tok uint64) []uint16 { return Rows(tok, 1, s.Hidden) })
		return p, m.Run(p)
	}
	good, err := run()
	if err != nil {
		t.Fatal(err)
	}
	boom := &axcl.Error{Op: "axclrtEngineExecuteAsync", Layer: 1, Code: 0x8030070c}
	f.Plan(Fault{Op: OpRun, N: 1, Err: boom}, Fault{Op: OpRun, N: 3, Wrong: true}, Fault{Op: OpInfo, N: 1, Sticky: true, Err: axcl.ErrLost})
	for i := range 5 {
		p, err := run()
		if (i == 1) != (err == boom) {
			t.Errorf("run %d: %v", i, err)
		}
		if i != 1 && (i == 3) == reflect.DeepEqual(p.Logits, good.Logits) {
			t.Errorf("run %d: damaged %v", i, i == 3)
		}
		_, err = f.Info()
		if (i >= 1) != errors.Is(err, axcl.ErrLost) {
			t.Errorf("info %d: %v", i, err)
		}
	}
	if f.Injected() != 6 || f.Calls(OpRun) != 5 || f.Calls("") != 10 {
		t.Errorf("%d injected of %d runs, %d calls", f.Injected(), f.Calls(OpRun), f.Calls(""))
	}
	right, logits := make([]uint16, s.Out), make([]uint16, s.Out)
	f.Plan(Fault{Op: OpHead, N: 1, Wrong: true}, Fault{Op: OpHead, N: 2, Err: boom})
	if err := m.Head(good.HiddenOut[:s.Hidden], right); err != nil || !slices.Equal(right, good.Logits[:s.Out]) {
		t.Errorf("the head alone gives other logits than the pass (%v)", err)
	}
	if err := m.Head(good.HiddenOut[:s.Hidden], logits); err != nil || slices.Equal(right, logits) {
		t.Errorf("logits of the head alone are not damaged (%v)", err)
	}
	if err := m.Head(good.HiddenOut[:s.Hidden], logits); err != boom {
		t.Errorf("the head alone: %v", err)
	}
	rows, same := make([]byte, s.RowBytes()), make([]byte, s.RowBytes())
	f.Plan(Fault{Op: OpSave, N: 1, Wrong: true}, Fault{Op: OpSave, N: 2, Err: boom}, Fault{Op: OpRestore, N: 0, Err: boom},
		Fault{Op: OpCopy, N: 0, Err: boom}, Fault{Op: OpClear, N: 0, Err: boom})
	if err := m.Save([]uint32{1}, rows); err != nil {
		t.Error(err)
	}
	if err := m.Save([]uint32{1}, same); err != nil || bytes.Equal(rows, same) {
		t.Errorf("saved rows are not damaged (%v)", err)
	}
	for what, call := range map[string]func() error{
		"save": func() error { return m.Save([]uint32{1}, same) }, "restore": func() error { return m.Restore([]uint32{1}, same) },
		"copy": func() error { return m.Copy([]uint32{1}, []uint32{2}) }, "clear": func() error { return m.Clear([]uint32{1}) },
	} {
		if err := call(); err != boom {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := errors.Join(m.Restore([]uint32{3}, rows), m.Copy([]uint32{4}, []uint32{3}), m.Save([]uint32{4}, same)); err != nil ||
		!bytes.Equal(rows, same) {
		t.Errorf("after the faults: %v", err)
	}
	hang := make(chan struct{})
	f.Plan(Fault{N: 0, Hang: hang})
	done := make(chan error)
	go func() {
		_, err := run()
		done <- err
	}()
	select {
	case err := <-done:
		t.Errorf("a hanging run came back: %v", err)
	default:
	}
	close(hang)
	if err := <-done; !errors.Is(err, axcl.ErrTimeout) {
		t.Errorf("after the hang: %v", err)
	}
	f.Plan(Fault{Op: OpClose, Err: boom}, Fault{Op: OpCloseModel, Err: boom}, Fault{Op: OpLoad, Err: axcl.ErrMemory},
		Fault{Op: OpLoadNet, Err: axcl.ErrMemory})
	if _, err := axcl.Load(context.Background(), f, spec); err != axcl.ErrMemory {
		t.Error(err)
	}
	if _, err := f.LoadNet(spec.Head); err != axcl.ErrMemory {
		t.Error(err)
	}
	f.Plan(Fault{Op: OpNewBuffer, Err: axcl.ErrMemory}, Fault{Op: OpRead, Wrong: true}, Fault{Op: OpRead, N: 1, Err: boom},
		Fault{Op: OpWrite, Err: boom}, Fault{Op: OpCloseBuf, Err: boom}, Fault{Op: OpClose, Err: boom}, Fault{Op: OpCloseModel, Err: boom})
	if _, err := f.NewBuffer(8); err != axcl.ErrMemory {
		t.Error(err)
	}
	buf, err := f.NewBuffer(2)
	if err != nil {
		t.Fatal(err)
	}
	wrong := make([]byte, 2)
	if err := buf.Read(0, wrong); err != nil || wrong[0] == 0 {
		t.Errorf("read %x, %v, which was to be damaged", wrong, err)
	}
	for _, err := range []error{buf.Read(0, wrong), buf.Write(0, wrong), buf.Close()} {
		if !errors.Is(err, boom) {
			t.Error(err)
		}
	}
	if err := m.Close(); !errors.Is(err, boom) {
		t.Error(err)
	}
	if err := f.Close(); !errors.Is(err, boom) {
		t.Error(err)
	}
	if err := f.Close(); !errors.Is(err, axcl.ErrClosed) {
		t.Errorf("the device was not closed: %v", err)
	}
}

func openSoft(t *testing.T) axcl.Device {
	t.Helper()
	d, err := soft.Open(soft.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// session makes the calls that the tests of the doubles need, and collects what they give.
func session(d axcl.Device, spec axcl.LoadSpec) (results []any) {
	keep := func(a ...any) { results = append(results, a...) }
	_, err := d.Info()
	keep(err != nil)
	m, err := axcl.Load(context.Background(), d, spec)
	if err != nil {
		return append(results, err.Error(), errors.Is(err, axcl.ErrModel))
	}
	s := m.Shape()
	keep(s)
	for i := range 3 {
		p := build(s, prompt(uint64(i), 0, 1+i, 4, func(i int) uint32 { return uint32(i) })[0],
			func(tok uint64) []uint16 { return Rows(tok, 1, s.Hidden) })
		keep(m.Run(p), p.Logits, p.Argmax, p.HiddenOut)
	}
	rows := make([]byte, 2*s.RowBytes())
	keep(m.Save([]uint32{0, 1}, rows), rows, m.Restore([]uint32{7, 8}, rows), m.Copy([]uint32{20, 21}, []uint32{1, 7}),
		m.Clear([]uint32{1}))
	logits := make([]uint16, 3*s.Out)
	keep(m.Head(Rows(7, 3, s.Hidden), logits), logits)
	err = m.Head(Rows(7, 1, s.Hidden), nil)
	keep(err.Error(), errors.Is(err, axcl.ErrPass))
	err = m.Copy([]uint32{1}, []uint32{1})
	keep(err.Error(), errors.Is(err, axcl.ErrPass))
	bad := &axcl.Pass{}
	err = m.Run(bad)
	keep(err.Error(), errors.Is(err, axcl.ErrPass), errors.Is(err, axcl.ErrLost))
	_, err = d.LoadNet("nowhere.axmodel")
	keep(errors.Is(err, axcl.ErrModel))
	n, err := d.LoadNet(spec.Head)
	if err != nil {
		return append(results, err)
	}
	out := map[string][]byte{"output": make([]byte, n.Outputs(0)[0].Size)}
	keep(n.Run(0, map[string][]byte{"input": make([]byte, n.Inputs(0)[0].Size)}, out), out)
	from, err := d.NewBuffer(n.Inputs(0)[0].Size)
	to, err2 := d.NewBuffer(n.Outputs(0)[0].Size)
	if err := errors.Join(err, err2); err != nil {
		return append(results, err)
	}
	_, err = d.NewBuffer(0)
	keep(errors.Is(err, axcl.ErrPass), from.Size(), to.Size(), from.Write(2, []byte{1, 63}), n.Bind(0, "input", from),
		n.Bind(0, "output", to), n.Run(0, nil, nil))
	got := make([]byte, to.Size())
	keep(to.Read(0, got), got, errors.Is(n.Bind(0, "nothing", nil), axcl.ErrPass), n.Bind(0, "output", nil), from.Close(), to.Close())
	keep(n.Close(), m.Close(), d.Close())
	return results
}

func TestLLM8850(t *testing.T) {
	s := LLM8850().Shape
	if g := s.GroupFor(1, s.Cells); g != 0 {
		t.Errorf("a row runs on group %d", g)
	}
	if g := s.GroupFor(128, 1024); g < 0 || s.Groups[g].Cells != 1024 {
		t.Errorf("a chunk runs on group %d", g)
	}
}
