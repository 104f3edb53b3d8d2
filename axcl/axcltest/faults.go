package axcltest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/axle-llm/axle/axcl"
)

// Op names a call of a device, its models or its nets, for fault plans and tapes.
type Op string

// The calls.
const (
	OpInfo    Op = "Info"
	OpLoad    Op = "Load"
	OpLoadNet Op = "LoadNet"
	OpRun     Op = "Run" // of a model
	OpHead    Op = "Head"
	OpClear   Op = "Clear"
	OpSave    Op = "Save"
	OpRestore Op = "Restore"
	OpCopy    Op = "Copy"

	OpSaveState    Op = "SaveState"
	OpRestoreState Op = "RestoreState"

	OpNewBuffer Op = "NewBuffer"
	OpWrite     Op = "Buffer.Write"
	OpRead      Op = "Buffer.Read"

	OpNetRun     Op = "Net.Run"
	OpBind       Op = "Net.Bind"
	OpCloseModel Op = "Model.Close"
	OpCloseNet   Op = "Net.Close"
	OpCloseBuf   Op = "Buffer.Close"
	OpClose      Op = "Close"
)

// Fault is one line of a plan: what happens at call number N, from 0, of Op. An empty Op counts
// every call.
type Fault struct {
	Op     Op
	N      int
	Sticky bool // and at every later one

	Err   error           // the call does nothing and gives this; closing calls do their work first
	Hang  <-chan struct{} // the call blocks until this is closed, then goes on; a pass that hung gives ErrTimeout
	Wrong bool            // logits, indices and hidden states, or a byte of what Save, SaveState or Read gives, are silently damaged
}

// Faulty wraps a device so that calls fail as planned. Injected and Calls may be read from any
// goroutine; the device is used as any other.
type Faulty struct {
	d    axcl.Device
	mu   sync.Mutex
	plan []Fault
	seen map[Op]int
	all  int
	hits int
}

var _ axcl.Device = (*Faulty)(nil)

// NewFaulty wraps d. The wrapper's Close closes d.
func NewFaulty(d axcl.Device, plan ...Fault) *Faulty {
	return &Faulty{d: d, plan: plan, seen: map[Op]int{}}
}

// Plan replaces the plan and starts counting again.
func (f *Faulty) Plan(plan ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan, f.seen, f.all, f.hits = plan, map[Op]int{}, 0, 0
}

// Calls is how many calls of op there were since the plan began; of all for an empty op.
func (f *Faulty) Calls(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if op == "" {
		return f.all
	}
	return f.seen[op]
}

// Injected is how many calls met a fault since the plan began.
func (f *Faulty) Injected() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// next counts a call and gives its fault.
func (f *Faulty) next(op Op) Fault {
	f.mu.Lock()
	n, all := f.seen[op], f.all
	f.seen[op]++
	f.all++
	var hit Fault
	for _, x := range f.plan {
		at := n
		if x.Op == "" {
			at = all
		} else if x.Op != op {
			continue
		}
		if at == x.N || x.Sticky && at > x.N {
			hit = x
			f.hits++
			break
		}
	}
	f.mu.Unlock()
	if hit.Hang != nil {
		<-hit.Hang
	}
	return hit
}

// Info implements axcl.Device.
func (f *Faulty) Info() (axcl.Info, error) {
	if x := f.next(OpInfo); x.Err != nil {
		return axcl.Info{}, x.Err
	}
	return f.d.Info()
}

// Loader implements axcl.Device. A load is one call, which fails as it begins.
func (f *Faulty) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	if x := f.next(OpLoad); x.Err != nil {
		return nil, x.Err
	}
	l, err := f.d.Loader(spec)
	return LoadAs(l, err, func(m axcl.Model) axcl.Model { return &faultyModel{m, f} })
}

// LoadNet implements axcl.Device.
func (f *Faulty) LoadNet(path string) (axcl.Net, error) {
	if x := f.next(OpLoadNet); x.Err != nil {
		return nil, x.Err
	}
	n, err := f.d.LoadNet(path)
	if err != nil {
		return nil, err
	}
	return &faultyNet{n, f}, nil
}

// NewBuffer implements axcl.Device.
func (f *Faulty) NewBuffer(size int) (axcl.Buffer, error) {
	if x := f.next(OpNewBuffer); x.Err != nil {
		return nil, x.Err
	}
	b, err := f.d.NewBuffer(size)
	if err != nil {
		return nil, err
	}
	return &faultyBuffer{b, f}, nil
}

// Close implements axcl.Device.
func (f *Faulty) Close() error {
	x := f.next(OpClose)
	return errors.Join(x.Err, f.d.Close())
}

type faultyModel struct {
	axcl.Model
	f *Faulty
}

func (m *faultyModel) Run(p *axcl.Pass) error {
	x := m.f.next(OpRun)
	switch {
	case x.Err != nil:
		return x.Err
	case x.Hang != nil:
		return fmt.Errorf("axcl: planned hang: %w", axcl.ErrTimeout)
	}
	err := m.Model.Run(p)
	if x.Wrong {
		damage(p)
	}
	return err
}

func (m *faultyModel) Head(rows, logits []uint16) error {
	x, err := m.copyFault(OpHead)
	if err != nil {
		return err
	}
	if err = m.Model.Head(rows, logits); x.Wrong {
		damage(&axcl.Pass{Logits: logits})
	}
	return err
}

func (m *faultyModel) Clear(cells []uint32) error {
	if x := m.f.next(OpClear); x.Err != nil {
		return x.Err
	}
	return m.Model.Clear(cells)
}

// copyFault is what the plan says of a call that saves, restores or copies, or runs the head alone.
func (m *faultyModel) copyFault(op Op) (Fault, error) {
	x := m.f.next(op)
	if x.Err == nil && x.Hang != nil {
		x.Err = fmt.Errorf("axcl: planned hang: %w", axcl.ErrTimeout)
	}
	return x, x.Err
}

func (m *faultyModel) Save(cells []uint32, to []byte) error {
	x, err := m.copyFault(OpSave)
	if err != nil {
		return err
	}
	if err = m.Model.Save(cells, to); x.Wrong && len(to) > 0 {
		to[len(to)/2] ^= 0x55
	}
	return err
}

func (m *faultyModel) Restore(cells []uint32, from []byte) error {
	if _, err := m.copyFault(OpRestore); err != nil {
		return err
	}
	return m.Model.Restore(cells, from)
}

func (m *faultyModel) Copy(to, from []uint32) error {
	if _, err := m.copyFault(OpCopy); err != nil {
		return err
	}
	return m.Model.Copy(to, from)
}

func (m *faultyModel) SaveState(slot uint32, at int, to []byte) error {
	x, err := m.copyFault(OpSaveState)
	if err != nil {
		return err
	}
	if err = m.Model.SaveState(slot, at, to); x.Wrong && len(to) > 0 {
		to[len(to)/2] ^= 0x55
	}
	return err
}

func (m *faultyModel) RestoreState(slot uint32, at int, from []byte) error {
	if _, err := m.copyFault(OpRestoreState); err != nil {
		return err
	}
	return m.Model.RestoreState(slot, at, from)
}

// damage makes results that no model gives: every logit alike, the indices off by one.
func damage(p *axcl.Pass) {
	for i := range p.Logits {
		p.Logits[i] = 0x3f80
	}
	for i := range p.Argmax {
		p.Argmax[i] ^= 1
	}
	for i := range p.HiddenOut {
		p.HiddenOut[i] ^= 0x8000
	}
}

func (m *faultyModel) Close() error {
	x := m.f.next(OpCloseModel)
	return errors.Join(x.Err, m.Model.Close())
}

type faultyNet struct {
	axcl.Net
	f *Faulty
}

func (n *faultyNet) Bind(group int, tensor string, b axcl.Buffer) error {
	if x, ok := b.(*faultyBuffer); ok {
		b = x.Buffer
	}
	return n.Net.Bind(group, tensor, b)
}

func (n *faultyNet) Run(group int, in, out map[string][]byte) error {
	if x := n.f.next(OpNetRun); x.Err != nil {
		return x.Err
	}
	return n.Net.Run(group, in, out)
}

func (n *faultyNet) Close() error {
	x := n.f.next(OpCloseNet)
	return errors.Join(x.Err, n.Net.Close())
}

type faultyBuffer struct {
	axcl.Buffer
	f *Faulty
}

func (b *faultyBuffer) Write(at int, from []byte) error {
	if x := b.f.next(OpWrite); x.Err != nil {
		return x.Err
	}
	return b.Buffer.Write(at, from)
}

func (b *faultyBuffer) Read(at int, to []byte) error {
	x := b.f.next(OpRead)
	if x.Err != nil {
		return x.Err
	}
	err := b.Buffer.Read(at, to)
	if x.Wrong && len(to) > 0 {
		to[0] ^= 1
	}
	return err
}

func (b *faultyBuffer) Close() error {
	x := b.f.next(OpCloseBuf)
	return errors.Join(x.Err, b.Buffer.Close())
}
