package axcltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"

	"github.com/axle-llm/axle/axcl"
)

// Event is one call on a tape: what was asked, as a short text and a hash of the data, and what
// came back.
type Event struct {
	Op    Op                 `json:"op"`
	ID    int                `json:"id,omitempty"` // the model or net, by order of loading; 0 for the device
	Ask   string             `json:"ask,omitempty"`
	Sum   uint64             `json:"sum,omitempty"`
	Err   *tapeError         `json:"err,omitempty"`
	Info  *axcl.Info         `json:"-"` // not on a saved tape: NaN has no JSON
	Shape *axcl.Shape        `json:"shape,omitempty"`
	Nets  [][2][]axcl.Tensor `json:"nets,omitempty"` // inputs and outputs of each group

	Logits, HiddenOut []uint16          `json:",omitempty"`
	Argmax            []int32           `json:",omitempty"`
	Out               map[string][]byte `json:",omitempty"`
	Rows              []byte            `json:",omitempty"`
}

// tapeError keeps what errors.Is and errors.As find in an error of a device.
type tapeError struct {
	Text  string      `json:"text"`
	Code  *axcl.Error `json:"code,omitempty"`
	Kinds []int       `json:"kinds,omitempty"` // in sentinels
}

var sentinels = []error{axcl.ErrNoDevice, axcl.ErrLost, axcl.ErrMemory, axcl.ErrTimeout, axcl.ErrModel, axcl.ErrClosed, axcl.ErrPass,
	axcl.ErrThread, context.Canceled, context.DeadlineExceeded, axcl.ErrTask}

func keepError(err error) *tapeError {
	if err == nil {
		return nil
	}
	t := &tapeError{Text: err.Error()}
	var e *axcl.Error
	if errors.As(err, &e) {
		c := *e
		c.Kind = nil
		t.Code = &c
	}
	for i, s := range sentinels {
		if errors.Is(err, s) {
			t.Kinds = append(t.Kinds, i)
		}
	}
	return t
}

func (t *tapeError) Error() string { return t.Text }

func (t *tapeError) Is(target error) bool {
	return slices.ContainsFunc(t.Kinds, func(k int) bool { return sentinels[k] == target })
}

func (t *tapeError) As(target any) bool {
	p, ok := target.(**axcl.Error)
	if ok && t.Code != nil {
		*p = t.Code
	}
	return ok && t.Code != nil
}

// err avoids a typed nil.
func (t *tapeError) err() error {
	if t == nil {
		return nil
	}
	return t
}

// Tape is what a Recorder wrote and a Player plays.
type Tape struct{ Events []Event }

// Save writes the tape as JSON, one event a line; ReadTape reads it again.
func (t *Tape) Save(w io.Writer) error {
	enc := json.NewEncoder(w)
	for i := range t.Events {
		if err := enc.Encode(&t.Events[i]); err != nil {
			return fmt.Errorf("axcltest: saving a tape: %w", err)
		}
	}
	return nil
}

// ReadTape reads what Save wrote.
func ReadTape(r io.Reader) (*Tape, error) {
	t := &Tape{}
	dec := json.NewDecoder(r)
	for {
		var e Event
		if err := dec.Decode(&e); err == io.EOF {
			return t, nil
		} else if err != nil {
			return nil, fmt.Errorf("axcltest: reading a tape: %w", err)
		}
		t.Events = append(t.Events, e)
	}
}

// Recorder wraps a device and keeps every call on Tape.
type Recorder struct {
	d      axcl.Device
	Tape   Tape
	loaded int
}

var _ axcl.Device = (*Recorder)(nil)

// Record wraps d; the wrapper's Close closes d.
func Record(d axcl.Device) *Recorder { return &Recorder{d: d} }

func (r *Recorder) add(e Event) { r.Tape.Events = append(r.Tape.Events, e) }

// Info implements axcl.Device.
func (r *Recorder) Info() (axcl.Info, error) {
	i, err := r.d.Info()
	r.add(Event{Op: OpInfo, Err: keepError(err), Info: &i})
	return i, err
}

// Loader implements axcl.Device. A load is one event of the tape, when it ends.
func (r *Recorder) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	l, err := r.d.Loader(spec)
	if err != nil {
		r.add(Event{Op: OpLoad, Ask: askLoad(spec), Err: keepError(err)})
		return nil, err
	}
	return &recordedLoader{Loader: l, r: r, spec: spec}, nil
}

type recordedLoader struct {
	axcl.Loader
	r     *Recorder
	spec  axcl.LoadSpec
	model axcl.Model
}

func (l *recordedLoader) Next(ctx context.Context) (bool, error) {
	done, err := l.Loader.Next(ctx)
	if !done && err == nil {
		return false, nil
	}
	e := Event{Op: OpLoad, Ask: askLoad(l.spec), Err: keepError(err)}
	if err == nil {
		l.r.loaded++
		s := l.Loader.Model().Shape()
		e.ID, e.Shape = l.r.loaded, &s
		l.model = &recordedModel{l.Loader.Model(), l.r, l.r.loaded}
	}
	l.r.add(e)
	return done, err
}

func (l *recordedLoader) Model() axcl.Model { return l.model }

func askLoad(s axcl.LoadSpec) string {
	return fmt.Sprintf("%d layers, head %t, copies %t", len(s.Layers), s.Head != "", s.NoInPlace)
}

// LoadNet implements axcl.Device.
func (r *Recorder) LoadNet(path string) (axcl.Net, error) {
	n, err := r.d.LoadNet(path)
	e := Event{Op: OpLoadNet, Err: keepError(err)}
	if err != nil {
		r.add(e)
		return nil, err
	}
	r.loaded++
	e.ID = r.loaded
	for g := range n.Groups() {
		e.Nets = append(e.Nets, [2][]axcl.Tensor{n.Inputs(g), n.Outputs(g)})
	}
	r.add(e)
	return &recordedNet{n, r, r.loaded}, nil
}

// Close implements axcl.Device.
func (r *Recorder) Close() error {
	err := r.d.Close()
	r.add(Event{Op: OpClose, Err: keepError(err)})
	return err
}

type recordedModel struct {
	axcl.Model
	r  *Recorder
	id int
}

func (m *recordedModel) Run(p *axcl.Pass) error {
	err := m.Model.Run(p)
	e := Event{Op: OpRun, ID: m.id, Ask: askRun(p), Sum: sumPass(p), Err: keepError(err)}
	if err == nil {
		e.Logits, e.Argmax, e.HiddenOut = slices.Clone(p.Logits), slices.Clone(p.Argmax), slices.Clone(p.HiddenOut)
	}
	m.r.add(e)
	return err
}

func (m *recordedModel) Head(rows, logits []uint16) error {
	err := m.Model.Head(rows, logits)
	e := Event{Op: OpHead, ID: m.id, Ask: askHead(rows, logits), Sum: sumHead(rows), Err: keepError(err)}
	if err == nil {
		e.Logits = slices.Clone(logits)
	}
	m.r.add(e)
	return err
}

func (m *recordedModel) Clear(cells []uint32) error {
	err := m.Model.Clear(cells)
	m.r.add(Event{Op: OpClear, ID: m.id, Ask: fmt.Sprint("cells ", cells), Err: keepError(err)})
	return err
}

func (m *recordedModel) Save(cells []uint32, to []byte) error {
	err := m.Model.Save(cells, to)
	e := Event{Op: OpSave, ID: m.id, Ask: askRows(cells, len(to)), Err: keepError(err)}
	if err == nil {
		e.Rows = slices.Clone(to)
	}
	m.r.add(e)
	return err
}

func (m *recordedModel) Restore(cells []uint32, from []byte) error {
	err := m.Model.Restore(cells, from)
	m.r.add(Event{Op: OpRestore, ID: m.id, Ask: askRows(cells, len(from)), Sum: sumRows(from), Err: keepError(err)})
	return err
}

func (m *recordedModel) Copy(to, from []uint32) error {
	err := m.Model.Copy(to, from)
	m.r.add(Event{Op: OpCopy, ID: m.id, Ask: askCopy(to, from), Err: keepError(err)})
	return err
}

func (m *recordedModel) SaveState(slot uint32, at int, to []byte) error {
	err := m.Model.SaveState(slot, at, to)
	e := Event{Op: OpSaveState, ID: m.id, Ask: askState(slot, at, len(to)), Err: keepError(err)}
	if err == nil {
		e.Rows = slices.Clone(to)
	}
	m.r.add(e)
	return err
}

func (m *recordedModel) RestoreState(slot uint32, at int, from []byte) error {
	err := m.Model.RestoreState(slot, at, from)
	m.r.add(Event{Op: OpRestoreState, ID: m.id, Ask: askState(slot, at, len(from)), Sum: sumRows(from), Err: keepError(err)})
	return err
}

func askHead(rows, logits []uint16) string {
	return fmt.Sprintf("%d values for the head, room for %d", len(rows), len(logits))
}

func sumHead(rows []uint16) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, rows)
	return h.Sum64()
}

func askState(slot uint32, at, bytes int) string {
	return fmt.Sprintf("slot %d, %d bytes from %d", slot, bytes, at)
}

func askRows(cells []uint32, bytes int) string {
	return fmt.Sprintf("cells %d, %d bytes", cells, bytes)
}

func askCopy(to, from []uint32) string { return fmt.Sprintf("cells %d to %d", from, to) }

func sumRows(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}

func askRun(p *axcl.Pass) string {
	s := fmt.Sprintf("%d rows, %d wanted", p.Rows(), len(p.Want))
	if p.From != 0 || p.To != 0 {
		s += fmt.Sprintf(", slot %d to %d, singly %t", p.From, p.To, p.Single)
	}
	return s
}

// sumPass covers everything a pass asks.
func sumPass(p *axcl.Pass) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, p.Hidden, p.Pos, p.Cell, p.SeeCells, p.SeeRows, p.Want, p.Logits != nil, p.Argmax != nil, p.HiddenOut != nil)
	if len(p.Add) > 0 {
		fmt.Fprint(h, p.Add, p.Added)
	}
	return h.Sum64()
}

func (m *recordedModel) Close() error {
	err := m.Model.Close()
	m.r.add(Event{Op: OpCloseModel, ID: m.id, Err: keepError(err)})
	return err
}

type recordedNet struct {
	axcl.Net
	r  *Recorder
	id int
}

func (n *recordedNet) Run(group int, in, out map[string][]byte) error {
	err := n.Net.Run(group, in, out)
	e := Event{Op: OpNetRun, ID: n.id, Ask: fmt.Sprintf("group %d", group), Sum: sumNet(in, out), Err: keepError(err)}
	if err == nil {
		e.Out = map[string][]byte{}
		for k, v := range out {
			e.Out[k] = slices.Clone(v)
		}
	}
	n.r.add(e)
	return err
}

func sumNet(in, out map[string][]byte) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, in, slices.Sorted(maps.Keys(out)))
	return h.Sum64()
}

func (n *recordedNet) Close() error {
	err := n.Net.Close()
	n.r.add(Event{Op: OpCloseNet, ID: n.id, Err: keepError(err)})
	return err
}

// Player is a device that answers calls as a tape has them: the same calls, in the same order.
// Another call, or the same with other data, panics: a test that goes on after it would test
// nothing.
type Player struct {
	tape *Tape
	at   int
}

var _ axcl.Device = (*Player)(nil)

// Play makes a device of a tape.
func Play(t *Tape) *Player { return &Player{tape: t} }

// Left is how many calls of the tape were not made; a test that plays a tape ends by requiring
// none.
func (p *Player) Left() int { return len(p.tape.Events) - p.at }

func (p *Player) next(op Op, id int, ask string, sum uint64) *Event {
	if p.at == len(p.tape.Events) {
		panic(fmt.Sprintf("axcltest: the tape is over, %s of %d was called (%s)", op, id, ask))
	}
	e := &p.tape.Events[p.at]
	if e.Op != op || id != 0 && e.ID != id || e.Ask != ask || e.Sum != sum {
		panic(fmt.Sprintf("axcltest: call %d is %s of %d (%s, data %016x), the tape has %s of %d (%s, data %016x)", p.at, op, id, ask, sum,
			e.Op, e.ID, e.Ask, e.Sum))
	}
	p.at++
	return e
}

// Info implements axcl.Device.
func (p *Player) Info() (axcl.Info, error) {
	e := p.next(OpInfo, 0, "", 0)
	if e.Info == nil {
		return axcl.Info{Kind: "tape"}, e.Err.err()
	}
	return *e.Info, e.Err.err()
}

// Loader implements axcl.Device.
func (p *Player) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	order := make([]int, len(spec.Layers))
	for i := range order {
		order[i] = i
	}
	if spec.Head != "" {
		order = append(order, len(order))
	}
	return LoadSteps(order, func(_ context.Context, n int) (axcl.Model, error) {
		if n < len(order) {
			return nil, nil
		}
		e := p.next(OpLoad, 0, askLoad(spec), 0)
		if e.Err != nil {
			return nil, e.Err
		}
		return &playedModel{p, e.ID, *e.Shape}, nil
	}), nil
}

// LoadNet implements axcl.Device.
func (p *Player) LoadNet(string) (axcl.Net, error) {
	e := p.next(OpLoadNet, 0, "", 0)
	if e.Err != nil {
		return nil, e.Err
	}
	return &playedNet{p, e.ID, e.Nets}, nil
}

// Close implements axcl.Device.
func (p *Player) Close() error { return p.next(OpClose, 0, "", 0).Err.err() }

type playedModel struct {
	p     *Player
	id    int
	shape axcl.Shape
}

func (m *playedModel) Shape() axcl.Shape { return m.shape }

func (m *playedModel) Run(p *axcl.Pass) error {
	e := m.p.next(OpRun, m.id, askRun(p), sumPass(p))
	copy(p.Logits, e.Logits)
	copy(p.Argmax, e.Argmax)
	copy(p.HiddenOut, e.HiddenOut)
	if err := e.Err.err(); err != nil || p.Meanwhile == nil {
		return err
	}
	p.Meanwhile()
	return nil
}

func (m *playedModel) Head(rows, logits []uint16) error {
	e := m.p.next(OpHead, m.id, askHead(rows, logits), sumHead(rows))
	copy(logits, e.Logits)
	return e.Err.err()
}

func (m *playedModel) Clear(cells []uint32) error {
	return m.p.next(OpClear, m.id, fmt.Sprint("cells ", cells), 0).Err.err()
}

func (m *playedModel) Save(cells []uint32, to []byte) error {
	e := m.p.next(OpSave, m.id, askRows(cells, len(to)), 0)
	copy(to, e.Rows)
	return e.Err.err()
}

func (m *playedModel) Restore(cells []uint32, from []byte) error {
	return m.p.next(OpRestore, m.id, askRows(cells, len(from)), sumRows(from)).Err.err()
}

func (m *playedModel) Copy(to, from []uint32) error {
	return m.p.next(OpCopy, m.id, askCopy(to, from), 0).Err.err()
}

func (m *playedModel) SaveState(slot uint32, at int, to []byte) error {
	e := m.p.next(OpSaveState, m.id, askState(slot, at, len(to)), 0)
	copy(to, e.Rows)
	return e.Err.err()
}

func (m *playedModel) RestoreState(slot uint32, at int, from []byte) error {
	return m.p.next(OpRestoreState, m.id, askState(slot, at, len(from)), sumRows(from)).Err.err()
}

func (m *playedModel) Close() error { return m.p.next(OpCloseModel, m.id, "", 0).Err.err() }

type playedNet struct {
	p    *Player
	id   int
	nets [][2][]axcl.Tensor
}

func (n *playedNet) Groups() int                     { return len(n.nets) }
func (n *playedNet) Inputs(group int) []axcl.Tensor  { return n.nets[group][0] }
func (n *playedNet) Outputs(group int) []axcl.Tensor { return n.nets[group][1] }

func (n *playedNet) Run(group int, in, out map[string][]byte) error {
	e := n.p.next(OpNetRun, n.id, fmt.Sprintf("group %d", group), sumNet(in, out))
	for k, v := range out {
		copy(v, e.Out[k])
	}
	return e.Err.err()
}

func (n *playedNet) Close() error { return n.p.next(OpCloseNet, n.id, "", 0).Err.err() }
