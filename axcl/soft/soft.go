// Package soft is a card in pure Go: an axcl.Device that computes the software card's models
// (docs/axmodel-format.md) with the vendor's tensor contract. It is the device where there is no
// card, and the reference that the native code is tested against.
//
// As every Device it belongs to one goroutine. It computes on a few goroutines of its own, which
// end with Close. Weights are mapped, not read: replacing a model's file by rename is safe while it
// is open, shortening it in place is not. A row's result does not depend on which rows share its
// pass, nor (but for float64's rounding) on the cells its context lies in.
package soft

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// Options of a software card. The zero value is a card of all processors and no limit.
type Options struct {
	Threads int   // goroutines that compute; 0 means GOMAXPROCS
	CMM     int64 // bytes that models and their caches may take; 0 means no limit but the host's memory
	System  fs.FS // where proc and sys are, which tell the host's memory; nil for the system's own

	// Kernels is the set to compute with, by its name in Available, "go" for the plain one; empty
	// means the best for this processor.
	Kernels string
}

// Device is a software card.
type Device struct {
	options Options
	pool    *pool
	set     kernel.Set
	used    int64
	open    []interface{ Close() error } // models and nets
	closed  bool
	lost    bool
}

var _ axcl.Device = (*Device)(nil)

// Open makes a card. It fails with axcl.ErrNoDevice only for options that make no sense, or kernels
// that this processor cannot run.
func Open(o Options) (*Device, error) {
	if o.Threads < 0 || o.Threads > 1024 || o.CMM < 0 {
		return nil, fmt.Errorf("axcl: software card of %d threads and %d bytes: %w", o.Threads, o.CMM, axcl.ErrNoDevice)
	}
	if o.Threads == 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.System == nil {
		o.System = os.DirFS("/")
	}
	set, err := kernel.Parse(o.Kernels)
	if err != nil {
		return nil, fmt.Errorf("axcl: software card: %w: %w", axcl.ErrNoDevice, err)
	}
	return &Device{options: o, pool: newPool(o.Threads), set: set}, nil
}

// Kernels names the set that the card computes with.
func (d *Device) Kernels() string { return d.set.String() }

func (d *Device) state() error {
	switch {
	case d.closed:
		return fmt.Errorf("axcl: software card: %w", axcl.ErrClosed)
	case d.lost:
		return fmt.Errorf("axcl: software card, after a time-out: %w", axcl.ErrLost)
	}
	return nil
}

// Info implements axcl.Device.
func (d *Device) Info() (axcl.Info, error) {
	if err := d.state(); err != nil {
		return axcl.Info{}, err
	}
	i := axcl.Info{Kind: "soft", Name: runtime.GOARCH + " " + d.set.String(), ID: "soft", Version: runtime.Version(),
		Temperature: math.NaN(), NPULoad: math.NaN(), CPULoad: math.NaN(), Host: true}
	i.TotalMem, i.FreeMem = hostMemory(d.options.System)
	if d.options.CMM > 0 {
		i.TotalCMM, i.FreeCMM = d.options.CMM, d.options.CMM-d.used
	}
	return i, nil
}

// take accounts for n bytes of card memory. What is not to be allocated is mapped. Go ends a
// process that is refused memory, so take refuses what the host does not have.
func (d *Device) take(n, allocate int64) error {
	//rule:D3 TestMoreThanTheHost > free => < 0
	if _, free := hostMemory(d.options.System); free > 0 && allocate > free {
		return fmt.Errorf("axcl: software card: %w: the model takes %d bytes of this machine's memory, %d are free", axcl.ErrMemory,
			allocate, free)
	}
	if d.options.CMM > 0 && n > d.options.CMM-d.used {
		return fmt.Errorf("axcl: software card: %w: the model takes %d bytes, %d of %d are free", axcl.ErrMemory, n, d.options.CMM-d.used,
			d.options.CMM)
	}
	d.used += n
	heap.Add(allocate)
	return nil
}

func (d *Device) drop(c interface{ Close() error }, bytes, allocated int64) {
	d.used -= bytes
	heap.Add(-allocated)
	d.open = slices.DeleteFunc(d.open, func(o interface{ Close() error }) bool { return o == c })
}

// Close implements axcl.Device.
func (d *Device) Close() error {
	if d.closed {
		return axcl.ErrClosed
	}
	for len(d.open) > 0 {
		_ = d.open[len(d.open)-1].Close()
	}
	d.closed = true
	d.pool.close()
	return nil
}

// Loader implements axcl.Device.
func (d *Device) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	if err := d.state(); err != nil {
		return nil, err
	}
	if len(spec.Layers) == 0 {
		return nil, fmt.Errorf("axcl: software card: %w: no layers", axcl.ErrModel)
	}
	if spec.Source != nil && len(spec.Source) != len(spec.Layers) {
		return nil, fmt.Errorf("axcl: software card: %w: %d layers, of %d of them is said whose K and V they use", axcl.ErrModel,
			len(spec.Layers), len(spec.Source))
	}
	m := &Model{device: d, timeout: spec.Timeout}
	if m.timeout <= 0 {
		m.timeout = time.Minute
	}
	l := &loader{m: m, spec: spec, order: make([]int, len(spec.Layers))}
	if spec.Head != "" {
		l.order = append(l.order, 0)
	}
	for i := range l.order {
		l.order[i] = i
	}
	d.open = append(d.open, m)
	return l, nil
}

// Model is a language model on a software card.
type Model struct {
	device  *Device
	timeout time.Duration
	shape   axcl.Shape
	layers  []*layer
	more    []*stack      // of a whole decoder's other files than the first, whose layers and head are the model's
	places  []int         // of a whole decoder, which file each group is in
	caches  [][2][]uint16 // K and V of each layer that keeps rows, cells × its KV
	keeps   []int         // of each layer, which of caches it writes, or reads
	source  []int         // of each layer, whose K and V it uses; nil: its own
	states  states
	head    *head
	ropes   []*rope
	taken   int64
	heap    int64 // of it what was allocated, and rooms to compute in
	closed  bool

	engine   *engine
	see      sight
	together int         // rows whose attention is computed together at the most
	near     sight       // of local layers
	local    []bool      // which those are; nil: none
	hidden   [2][]uint16 // the layers' input and output, turn about
	at       int         // which of them the last layer wrote
	want     []int
	wanted   func(r int) []uint16
}

// takeRoom accounts for what was read, and makes caches, states and room to compute in. k is what a
// layer's first state takes.
func (m *Model) takeRoom(weights int64, k int) error {
	var need size
	for _, l := range m.layers {
		need.grow(l, m.shape.MaxRows(), m.shape.Cells)
		if l.Kind == axmodel.Layer { // the same in all of them, or the least
			if n := together(l); m.together == 0 || n < m.together {
				m.together = n
			}
		}
	}
	cache := int64(m.shape.Cells)*int64(m.shape.RowBytes()) + m.states.bytes(m.shape)
	m.shape.Bytes = weights + cache
	allocate := cache + need.bytes(m.device.pool.n) + 4*int64(need.rows)*int64(m.shape.Hidden)
	if m.head != nil {
		allocate += m.head.bytes()
	}
	if err := m.device.take(m.shape.Bytes, allocate); err != nil {
		return err
	}
	m.taken, m.heap = m.shape.Bytes, allocate
	m.states.make(m.shape)
	m.states.k = k
	for i, l := range m.layers {
		switch n := m.shape.Cells * l.KVHeads * l.HeadDim; {
		case l.Kind == axmodel.Linear:
			m.keeps = append(m.keeps, -1)
		case l.shares():
			m.keeps = append(m.keeps, m.keeps[m.source[i]])
		default:
			m.keeps = append(m.keeps, len(m.caches))
			m.caches = append(m.caches, [2][]uint16{make([]uint16, n), make([]uint16, n)})
		}
	}
	m.engine = newEngine(m.device.pool, m.device.set, need)
	for i := range m.hidden {
		m.hidden[i] = make([]uint16, need.rows*m.shape.Hidden)
	}
	m.wanted = func(r int) []uint16 { return m.hidden[m.at][m.want[r]*m.shape.Hidden:][:m.shape.Hidden] }
	return nil
}

// share gives layers that rotate alike one table.
func (m *Model) share(l *layer) {
	for _, r := range m.ropes {
		if r.magnitude == l.rope.magnitude && slices.Equal(r.freq, l.rope.freq) && slices.Equal(r.axis, l.rope.axis) {
			l.rope = r
			return
		}
	}
	m.ropes = append(m.ropes, l.rope)
}

// Shape implements axcl.Model.
func (m *Model) Shape() axcl.Shape { return m.shape }

// Close implements axcl.Model.
func (m *Model) Close() error {
	if m.closed {
		return axcl.ErrClosed
	}
	m.release()
	m.device.drop(m, m.taken, m.heap)
	return nil
}

func (m *Model) release() {
	m.closed = true
	for _, l := range m.layers {
		l.unmap()
	}
	if m.head != nil {
		m.head.unmap()
	}
	for _, s := range m.more {
		s.head.unmap()
	}
	m.more, m.layers, m.head, m.caches, m.engine, m.states = nil, nil, nil, nil, nil, states{}
}

// Run implements axcl.Model.
func (m *Model) Run(p *axcl.Pass) error {
	if err := m.ready(); err != nil {
		return err
	}
	if err := p.Check(m.shape); err != nil {
		return err
	}
	start := time.Now()
	n, hidden := p.Rows(), m.shape.Hidden
	most := m.together
	//rule:G13 ./axcl/axcltest TestSoft$ p.SeeRows => make([]uint64, len(p.SeeRows))
	look(&m.see, n, most, p.SeeCells, p.SeeRows)
	if m.shape.Local && p.LocalCells != nil {
		look(&m.near, n, most, p.LocalCells, p.LocalRows)
	}
	for _, r := range m.ropes {
		r.filled = false
	}
	copy(m.hidden[0], p.Hidden)
	m.at = 0
	added := 0
	upload := time.Now()
	from, to := m.states.begin(p)
	stack, head := m.stack(p)
	for i, l := range stack {
		if time.Since(start) > m.timeout {
			m.device.lost = true
			return &axcl.Error{Op: "soft.Run", Layer: i, Code: 0x80300383, Kind: axcl.ErrTimeout}
		}
		if l.Kind == axmodel.Linear {
			bytes := m.shape.State / m.shape.Linear
			m.runLinear(l, n, from[:bytes], to[:bytes])
			from, to = from[bytes:], to[bytes:]
		} else {
			see := &m.see
			if p.LocalCells != nil && m.local != nil && m.local[i] {
				see = &m.near
			}
			cache, kv := m.caches[m.keeps[i]], l.KVHeads*l.HeadDim
			kb, vb := m.engine.kb, m.engine.vb
			if l.shares() { // the rows are where their own layer has kept them
				for r, c := range p.Cell {
					copy(kb[r*kv:][:kv], cache[0][int(c)*kv:])
					copy(vb[r*kv:][:kv], cache[1][int(c)*kv:])
				}
			}
			if m.engine.with = nil; p.Adapter > 0 {
				m.engine.with = l.adapters[p.Adapter-1]
			}
			m.engine.setLayerInputs(p.LayerInputs, n, i, m.shape)
			m.engine.run(l, n, m.hidden[1-m.at], m.hidden[m.at], p.Pos, cache[0], cache[1], see)
			m.at = 1 - m.at
			for r, c := range p.Cell {
				copy(cache[0][int(c)*kv:][:kv], kb[r*kv:])
				copy(cache[1][int(c)*kv:][:kv], vb[r*kv:])
			}
		}
		for ; added < len(p.Add) && int(p.Add[added].Layer) == i; added++ {
			row := m.hidden[m.at][int(p.Add[added].Row)*hidden:][:hidden]
			for k, v := range p.Added[added*hidden:][:hidden] {
				row[k] = axcl.Sum(row[k], v)
			}
		}
	}
	m.states.done(p)
	layers := time.Now()
	if p.HiddenOut != nil {
		copy(p.HiddenOut, m.hidden[m.at][:n*hidden])
	}
	if m.want = p.Want; len(m.want) > 0 {
		head.give(len(m.want), m.wanted, p.Logits, p.Argmax)
	}
	m.want = nil
	if p.Meanwhile != nil {
		p.Meanwhile()
	}
	if p.Timing != nil {
		*p.Timing = axcl.Timing{Upload: upload.Sub(start), Wait: layers.Sub(upload), Head: time.Since(layers)}
	}
	return nil
}

// Clear implements axcl.Model.
func (m *Model) Clear(cells []uint32) error {
	if err := m.ready(); err != nil {
		return err
	}
	if err := m.shape.CheckCells(cells); err != nil {
		return err
	}
	for _, cache := range m.caches {
		kv := len(cache[0]) / m.shape.Cells
		for _, c := range cells {
			clear(cache[0][int(c)*kv:][:kv])
			clear(cache[1][int(c)*kv:][:kv])
		}
	}
	return nil
}

// look lists what each row sees, once for all layers.
func look(s *sight, n, most int, cells, rows []uint64) {
	s.reset()
	cw, rw := len(cells)/n, len(rows)/n
	for r := range n {
		s.cells = appendBits(s.cells, cells[r*cw:(r+1)*cw])
		s.rows = append(appendBits(s.rows, rows[r*rw:(r+1)*rw]), int32(r))
		s.endRow(most)
	}
}
