//go:build cgo && !fake && linux

package native

/*
#include <stdlib.h>
#include "native.h"
*/
import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/regular"
)

// defaultTimeout bounds a pass where LoadSpec does not.
const defaultTimeout = 60 * time.Second

type model struct {
	d      *device
	c      *C.axn_model
	shape  axcl.Shape
	memory []unsafe.Pointer // what the C structs live in
	alone  *axcl.Pass       // of a whole decoder that gives the logits of a call's last row alone: see runWhole
	last   []bool           // of a whole decoder, which groups do
	held   []*buffer        // adapters
	closed bool
	narrow bool // decode groups take one of three positions
}

// array gives the model n elements of C memory.
func array[T any](m *model, n int) *T {
	if n == 0 {
		return nil
	}
	var t T
	p := zeroed(C.size_t(n) * C.size_t(unsafe.Sizeof(t)))
	m.memory = append(m.memory, p)
	return (*T)(p)
}

func milliseconds(d time.Duration) C.int32_t {
	if d <= 0 {
		d = defaultTimeout
	}
	return C.int32_t(max(1, min(d.Milliseconds(), math.MaxInt32)))
}

// loader is a model on its way to the card.
type loader struct {
	m     *model
	spec  axcl.LoadSpec
	f     files
	order []int
	done  int      // files
	kinds []leader // of the layers so far
	free  int64    // card memory before the first file; -1: not known
	over  bool
}

// Loader implements axcl.Device.
func (d *device) Loader(spec axcl.LoadSpec) (_ axcl.Loader, err error) {
	if err := d.ready(); err != nil {
		return nil, err
	}
	if spec.Local != nil && len(spec.Local) != len(spec.Layers) {
		return nil, fmt.Errorf("axcl: %w: %d layers, %d of them said to be local or not", axcl.ErrModel, len(spec.Layers), len(spec.Local))
	}
	f, err := readFiles(spec)
	if err != nil {
		return nil, err
	}
	defer marked(descriptors()) // the first pinned memory opens a node
	m := &model{d: d}
	m.c = array[C.axn_model](m, 1)
	c := m.c
	c.card = d.c
	layers := max(f.shape.Layers, len(spec.Layers)) // a whole decoder has fewer files than layers, or one more than one
	c.layers = C.uint32_t(f.shape.Layers)
	c.layer = array[C.axn_module](m, layers)
	c.k = array[C.axn_mem](m, layers)
	c.v = array[C.axn_mem](m, layers)
	m.shape = f.shape
	if slices.Contains(spec.Local, true) {
		m.shape.Local, c.local = true, array[C.bool](m, len(spec.Layers))
		copy(unsafe.Slice((*bool)(c.local), len(spec.Layers)), spec.Local)
	}
	c.k_new = array[C.axn_mem](m, layers)
	c.v_new = array[C.axn_mem](m, layers)
	c.head_argmax = -1
	m.layOut(&f)
	if f.whole != nil {
		m.layOutWhole(&f, len(spec.Layers))
	}
	c.timeout_ms = milliseconds(spec.Timeout)
	born(m, d.lib.kind)
	d.open = append(d.open, m)
	l := &loader{m: m, spec: spec, f: f, order: f.order()}
	if l.free, err = d.freeMemory(); err != nil {
		return nil, l.fail(err)
	}
	return l, nil
}

// Order implements axcl.Loader.
func (l *loader) Order() []int { return l.order }

// Next implements axcl.Loader.
func (l *loader) Next(ctx context.Context) (done bool, err error) {
	if l.over || l.m.closed {
		return false, axcl.ErrClosed
	}
	if err = ctx.Err(); err == nil {
		err = l.m.d.ready() // other work on the card may have lost it
	}
	if err == nil {
		defer marked(descriptors())
		if done = l.done == len(l.order); done {
			err = l.finish()
		} else {
			err = l.file(l.order[l.done])
			l.done++
		}
	}
	if err != nil {
		return false, l.fail(err)
	}
	l.over = done
	return done, nil
}

// file loads one.
func (l *loader) file(i int) error {
	switch {
	case l.f.whole != nil:
		return l.m.loadWhole(i, l.spec.Layers[i], l.f)
	case i == len(l.spec.Layers):
		return l.m.loadHead(l.spec.Head, l.f)
	}
	return l.m.loadLayer(i, &l.kinds, l.spec.Layers, l.f)
}

// finish makes room for what the model keeps, binds it, and looks whether new rows can be bound in
// place.
func (l *loader) finish() error {
	m, c := l.m, l.m.c
	if m.d.lib.kind == Engine {
		c.pinned = unsafe.Pointer(array[byte](m, int(C.axn_host_need(c))))
	}
	if err := m.d.wrap(C.axn_bind(c), ""); err != nil {
		return err
	}
	if !l.spec.NoInPlace {
		if err := m.d.wrap(C.axn_probe(c), l.spec.Layers[0]); err != nil {
			return err
		}
	}
	if err := l.adapters(); err != nil {
		return err
	}
	m.shape.Place = bool(c.place) || c.whole == 0
	m.shape.Bytes = l.f.weights + m.buffers()
	return nil
}

// fail releases all of it.
func (l *loader) fail(err error) error {
	l.over = true
	//rule:D2 TestLoadFails worse(err, l.m.abandon()) => err
	err = l.m.d.noteMemory(worse(err, l.m.abandon()), l.free)
	l.m.d.giveUp(err)
	return err
}

// Model implements axcl.Loader.
func (l *loader) Model() axcl.Model {
	if l.done < len(l.order) || !l.over || l.m.closed {
		return nil
	}
	return l.m
}

// Close implements axcl.Loader.
func (l *loader) Close() error {
	if l.over || l.m.closed {
		return axcl.ErrClosed
	}
	if C.axn_thread() != l.m.d.c.owner {
		return axcl.ErrThread
	}
	l.over = true
	err := l.m.abandon()
	l.m.d.giveUp(err)
	return err
}

func (m *model) module(i int) *C.axn_module {
	return &unsafe.Slice(m.c.layer, max(m.c.layers, m.c.decoder.files))[i]
}

// kind is what layers have in common whose tensors are alike: that they keep a state, or how long
// their rows of K are and whether these are another layer's.
type kind struct {
	linear, shares bool
	width          int
}

// leader is the layer of a kind that was loaded first, which the others are held against.
type leader struct {
	kind
	layer   int
	tensors []C.axn_tensor
	parts   []C.axn_parts // of one that keeps no state
}

func (m *model) loadLayer(i int, kinds *[]leader, layers []string, f files) error {
	k := kind{f.all.Linear[i], f.all.Shares(i), f.all.Widths[i]}
	at := slices.IndexFunc(*kinds, func(l leader) bool { return l.kind == k })
	if at < 0 {
		l, err := m.loadFirst(i, k, layers[i], f)
		if err != nil {
			return err
		}
		at, *kinds = len(*kinds), append(*kinds, l)
	} else if err := m.loadLike(i, (*kinds)[at].layer, (*kinds)[at].tensors, layers); err != nil {
		return err
	}
	groups := int(m.c.groups)
	copy(unsafe.Slice(m.c.parts, int(m.c.layers)*groups)[i*groups:], (*kinds)[at].parts)
	m.copyAdapterSlots(i, (*kinds)[at].layer)
	return nil
}

// loadFirst loads layer i, which says where the tensors of its kind are.
func (m *model) loadFirst(i int, k kind, path string, f files) (leader, error) {
	l, mod := leader{kind: k, layer: i}, m.module(i)
	err := m.d.loadFile(mod, i, path)
	if err == nil {
		l.tensors, err = m.d.describe(mod, i, path)
	}
	switch {
	case err != nil:
	case k.linear:
		err = m.layState(mod, l.tensors, f, path)
	default:
		l.parts, err = m.lay(i, mod, l.tensors, f, path)
	}
	return l, err
}

// mostNamed is how many inputs and outputs an execute on a card can name up to AXCL 3.10: its
// request is one message of 1024 bytes, and the card drops a longer one without an answer. With
// AXCL 3.16 a Zipformer's encoder was seen to run, which has mostSeen.
const mostNamed, mostSeen = 50, 72

// checkNamed says whether a card answers an execute of the module.
func (d *device) checkNamed(mod *C.axn_module, path string) error {
	if mod.ins+mod.outs <= mostNamed {
		return nil
	}
	var i C.axn_info
	if err := d.inform(-1, &i); err != nil {
		return err
	}
	most, newer := C.uint32_t(mostNamed), fmt.Sprintf(", or for one of up to %d AXCL 3.16", mostSeen)
	if i.release[0] > 3 || i.release[0] == 3 && i.release[1] >= 16 {
		most, newer = mostSeen, ""
	}
	if mod.ins+mod.outs <= most {
		return nil
	}
	return fmt.Errorf("axcl: %w: %s has %d inputs and %d outputs, and with AXCL %d.%d a card answers no execute of more than "+
		"%d together: use a package of a file a layer%s", axcl.ErrModel, path, mod.ins, mod.outs, i.release[0], i.release[1], most, newer)
}

// loadFile loads one file; on board the library wants its bytes.
func (d *device) loadFile(mod *C.axn_module, layer int, path string) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	if d.lib.kind == AXCL {
		err := d.wrap(C.axn_load(d.c, mod, C.int32_t(layer), name, nil, 0), path)
		if err == nil {
			err = d.checkNamed(mod, path)
		}
		return err
	}
	data, err := mapFile(path)
	if err != nil {
		return fmt.Errorf("axcl: %w: %s: %w", axcl.ErrModel, path, err)
	}
	defer unix.Munmap(data)
	return d.wrap(C.axn_load(d.c, mod, C.int32_t(layer), name, unsafe.Pointer(&data[0]), C.size_t(len(data))), path)
}

func mapFile(path string) ([]byte, error) {
	f, err := regular.OpenPath(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() < 1 || st.Size() > math.MaxUint32 {
		return nil, fmt.Errorf("%d bytes cannot be given to the library", st.Size())
	}
	return unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
}

// describe lists a loaded module's tensors, group by group, inputs before outputs.
func (d *device) describe(mod *C.axn_module, layer int, path string) ([]C.axn_tensor, error) {
	n := int(mod.groups) * int(mod.ins+mod.outs)
	p := (*C.axn_tensor)(zeroed(C.size_t(n) * C.sizeof_axn_tensor))
	defer C.free(unsafe.Pointer(p))
	if err := d.wrap(C.axn_describe(d.c, mod, C.int32_t(layer), p), path); err != nil {
		return nil, err
	}
	return append([]C.axn_tensor(nil), unsafe.Slice(p, n)...), nil
}

// loadLike loads layer i and checks it on the card against layer one, which is there.
func (m *model) loadLike(i, one int, first []C.axn_tensor, layers []string) error {
	mod, l0 := m.module(i), m.module(one)
	if err := m.d.loadFile(mod, i, layers[i]); err != nil {
		return err
	}
	if mod.groups != l0.groups || mod.ins != l0.ins || mod.outs != l0.outs {
		return fmt.Errorf("axcl: %w: %s has %d shape groups of %d inputs and %d outputs, %s has %d of %d and %d", axcl.ErrModel,
			layers[i], mod.groups, mod.ins, mod.outs, layers[one], l0.groups, l0.ins, l0.outs)
	}
	rc := C.axn_same(m.d.c, mod, C.int32_t(i), &first[0])
	if rc == C.AXN_MODEL {
		t := first[m.d.c.err.slot]
		return fmt.Errorf("axcl: %w: tensor %q differs between %s and %s", axcl.ErrModel, C.GoString(&t.name[0]), layers[one], layers[i])
	}
	return m.d.wrap(rc, layers[i])
}

// buffers is what the model's own buffers take on the card.
func (m *model) buffers() int64 {
	c := m.c
	n := int64(0)
	add := func(b C.axn_mem) {
		if b.at != nil {
			n += int64(b.size)
		}
	}
	for i := range unsafe.Slice(c.k, c.layers) {
		add(unsafe.Slice(c.k, c.layers)[i])
		add(unsafe.Slice(c.v, c.layers)[i])
		add(unsafe.Slice(c.k_new, c.layers)[i])
		add(unsafe.Slice(c.v_new, c.layers)[i])
	}
	for _, g := range unsafe.Slice(c.group, c.masks) {
		add(g.mask_dev)
	}
	for _, b := range m.sharedMems() {
		add(b)
	}
	add(c.lora.zero)
	for _, b := range m.held {
		n += int64(b.size)
	}
	s := &c.state
	for i := range unsafe.Slice(s.k, s.layers*s.slots) {
		add(unsafe.Slice(s.k, s.layers*s.slots)[i])
		add(unsafe.Slice(s.v, s.layers*s.slots)[i])
	}
	for _, b := range []C.axn_mem{s.zero_k, s.zero_v, s.indices, s.mask, s.row_in, s.row_out, s.row_pos} {
		add(b)
	}
	for _, b := range []C.axn_mem{c.turn[0], c.turn[1], c.indices, c.k_out, c.v_out, c.head_in, c.logits, c.argmax, c.decoder.k_new,
		c.decoder.v_new, c.decoder.out} {
		add(b)
	}
	return n
}

// freeMemory is the card's free CMM before a load, to be told when the load runs out of it; -1
// where the library does not say, or not in time.
func (d *device) freeMemory() (int64, error) {
	if d.lib.kind != AXCL {
		return -1, nil
	}
	var i C.axn_info
	if err := d.inform(d.id, &i); errors.Is(err, axcl.ErrLate) {
		return -1, nil
	} else if err != nil {
		return 0, err
	}
	return int64(i.props.free_cmm) << 10, nil
}

func (d *device) noteMemory(err error, free int64) error {
	var e *axcl.Error
	if free >= 0 && errors.Is(err, axcl.ErrMemory) && errors.As(err, &e) && e.Note == "" {
		e.Note = fmt.Sprintf("%d MiB of card memory were free before loading; memory of a process that died stays taken until the "+
			"driver notices", free>>20)
	}
	return err
}

// Shape implements axcl.Model.
func (m *model) Shape() axcl.Shape { return m.shape }

// Run implements axcl.Model by axn_run: one call into C, nothing allocated.
func (m *model) Run(p *axcl.Pass) error {
	if m.alone != nil {
		return m.runWhole(p)
	}
	return m.run(p)
}

// groupFor is the group that a pass runs on. A picture's row has three positions, and a decode
// group may take only one. Then the row goes through a prefill group, though it comes alone.
func (m *model) groupFor(p *axcl.Pass) (int, error) {
	rows, reach := p.Rows(), p.Reach(m.shape)
	//rule:G21 TestOraclePictures m.narrow => false
	if m.narrow && rows == 1 && (p.Pos[1] != p.Pos[0] || p.Pos[2] != p.Pos[0]) {
		g := m.shape.GroupFor(2, reach)
		if g < 0 {
			return g, fmt.Errorf("%w: a row with positions %v needs a prefill group, and none sees %d cells", axcl.ErrPass, p.Pos, reach)
		}
		return g, nil
	}
	return m.shape.GroupFor(rows, reach), nil
}

func (m *model) run(p *axcl.Pass) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.d.ready(); err != nil {
		return err
	}
	if err := p.Check(m.shape); err != nil {
		return err
	}
	rows := p.Rows()
	group, err := m.groupFor(p)
	if err != nil {
		return err
	}
	localCells, localRows := p.LocalCells, p.LocalRows
	if localCells == nil {
		localCells, localRows = p.SeeCells, p.SeeRows
	}
	from, to := p.From, p.To
	if m.shape.State == 0 {
		from, to = 0, 0
	}
	rc := C.axn_run(m.c, C.axn_pass{
		group: C.uint32_t(group), rows: C.uint32_t(rows),
		hidden: (*C.uint16_t)(unsafe.SliceData(p.Hidden)), layer_inputs: (*C.uint16_t)(unsafe.SliceData(p.LayerInputs)),
		pos: (*C.uint32_t)(unsafe.SliceData(p.Pos)), cell: (*C.uint32_t)(unsafe.SliceData(p.Cell)),
		cell_words: C.uint32_t(axcl.Words(m.shape.Cells)),
		see_cells:  (*C.uint64_t)(unsafe.SliceData(p.SeeCells)), see_rows: (*C.uint64_t)(unsafe.SliceData(p.SeeRows)),
		local_cells: (*C.uint64_t)(unsafe.SliceData(localCells)), local_rows: (*C.uint64_t)(unsafe.SliceData(localRows)),
		add: (*C.axn_add)(unsafe.Pointer(unsafe.SliceData(p.Add))), adds: C.uint32_t(len(p.Add)),
		added: (*C.uint16_t)(unsafe.SliceData(p.Added)),
		want:  (*C.int64_t)(unsafe.Pointer(unsafe.SliceData(p.Want))), wanted: C.uint32_t(len(p.Want)),
		logits: (*C.uint16_t)(unsafe.SliceData(p.Logits)), argmax: (*C.int32_t)(unsafe.SliceData(p.Argmax)),
		hidden_out: (*C.uint16_t)(unsafe.SliceData(p.HiddenOut)),
		unfinished: C.bool(p.Meanwhile != nil),
		adapter:    C.uint32_t(p.Adapter),
		slots:      C.axn_slots{from: C.uint32_t(from), to: C.uint32_t(to), single: C.bool(p.Single)},
	})
	if rc == C.AXN_OK && p.Meanwhile != nil {
		p.Meanwhile()
		rc = C.axn_finish(m.c)
	}
	if rc != C.AXN_OK {
		return m.d.settle(m.d.wrap(rc, ""), m.c.timeout_ms)
	}
	if t := p.Timing; t != nil {
		c := &m.c.time
		*t = axcl.Timing{Upload: time.Duration(c.upload), Enqueue: time.Duration(c.enqueue), Wait: time.Duration(c.wait),
			Head: time.Duration(c.head), Download: time.Duration(c.download), Calls: int(c.calls)}
	}
	return nil
}

// Head implements axcl.Model by axn_head.
func (m *model) Head(rows, logits []uint16) error {
	return m.transfer(func() error { return m.shape.CheckHead(len(rows), len(logits)) }, len(rows), func() C.int {
		return C.axn_head(m.c, (*C.uint16_t)(unsafe.SliceData(rows)), C.uint32_t(len(rows)/m.shape.Hidden),
			(*C.uint16_t)(unsafe.SliceData(logits)))
	})
}

// Clear implements axcl.Model by axn_clear.
func (m *model) Clear(cells []uint32) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.d.ready(); err != nil {
		return err
	}
	if err := m.shape.CheckCells(cells); err != nil || len(cells) == 0 {
		return err
	}
	rc := C.axn_clear(m.c, (*C.uint32_t)(unsafe.SliceData(cells)), C.uint32_t(len(cells)))
	if rc != C.AXN_OK {
		return m.d.settle(m.d.wrap(rc, ""), m.c.timeout_ms)
	}
	return nil
}

// settle waits, after a call that failed, for what was queued before it, so that nothing on the
// card uses our memory any more. A card that does not come to rest is the greater trouble.
func (d *device) settle(err error, ms C.int32_t) error {
	if axcl.Fatal(err) {
		return err
	}
	return worse(err, d.wrap(C.axn_drain(d.c, ms), ""))
}

// giveUp abandons a card that the error says is lost: of a load out of step it is told only after
// everything was unloaded.
func (d *device) giveUp(err error) {
	if axcl.Fatal(err) && d.lost == nil {
		d.lost, d.c.lost = err, true
	}
}

// worse adds to an error what went wrong in clearing up after it, where that cost the card.
func worse(err, then error) error {
	if axcl.Fatal(then) && !axcl.Fatal(err) {
		return fmt.Errorf("%w; then %w", err, then)
	}
	return err
}

// abandon closes a model that did not come to be.
func (m *model) abandon() error {
	var drain error
	if m.d.lost == nil {
		drain = m.d.wrap(C.axn_drain(m.d.c, m.c.timeout_ms), "")
	}
	return errors.Join(drain, m.Close())
}

// Close implements axcl.Model. It goes on past errors and returns the first.
func (m *model) Close() error {
	if m.closed {
		return axcl.ErrClosed
	}
	if C.axn_thread() != m.d.c.owner {
		return axcl.ErrThread
	}
	m.closed = true
	m.d.forget(m)
	var err error
	if m.d.lost == nil {
		err = m.d.wrap(C.axn_close(m.c), "")
	}
	for _, b := range m.held {
		err = cmp.Or(err, b.Close())
	}
	for _, p := range m.memory {
		C.free(p)
	}
	m.c, m.memory, m.held = nil, nil, nil
	died(m)
	return err
}
