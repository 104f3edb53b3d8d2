package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/card"
)

// Join makes one device of several cards. A model loaded on it is split by layers: each card's
// share depends on its free memory, and the last card has the head too. Rows go from card to card
// through the host. The cards keep serving other tenants, and stay open when the device is closed.
// Open the device with [OpenCard]. Its worker waits for the cards' workers, never the reverse.
func Join(cards ...*Card) (axcl.Device, error) {
	if len(cards) < 2 {
		return nil, fmt.Errorf("%w: a model is split over two cards or more, not %d", ErrRequest, len(cards))
	}
	return &joined{cards: cards}, nil
}

type joined struct {
	cards   []*Card
	models  []*split
	loading []*splitLoader
	closed  bool
}

// Info adds up the cards' memory. Temperatures and loads are the highest of all cards.
func (j *joined) Info() (axcl.Info, error) {
	if j.closed {
		return axcl.Info{}, axcl.ErrClosed
	}
	sum := j.cards[0].Info()
	ids := []string{sum.ID}
	for _, c := range j.cards[1:] {
		i := c.Info()
		ids = append(ids, i.ID)
		sum.TotalCMM, sum.FreeCMM = sum.TotalCMM+i.TotalCMM, sum.FreeCMM+i.FreeCMM
		if !i.Host { // the host's memory counts once
			sum.TotalMem, sum.FreeMem = sum.TotalMem+i.TotalMem, sum.FreeMem+i.FreeMem
		}
		sum.Host = sum.Host && i.Host
		sum.Temperature = math.Max(sum.Temperature, i.Temperature)
		sum.NPULoad, sum.CPULoad = math.Max(sum.NPULoad, i.NPULoad), math.Max(sum.CPULoad, i.CPULoad)
	}
	sum.ID = strings.Join(ids, "+")
	for _, c := range j.cards {
		if err := c.Err(); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// shares divides layers into consecutive parts by the cards' free memory. Each card gets at least
// one layer.
func (j *joined) shares(layers int) ([]int, error) {
	if layers < len(j.cards) {
		return nil, fmt.Errorf("%w: %d layers cannot be split over %d cards", axcl.ErrModel, layers, len(j.cards))
	}
	free := make([]float64, len(j.cards))
	total := 0.0
	for i, c := range j.cards {
		free[i] = float64(c.Info().FreeCMM)
		total += free[i]
	}
	out := make([]int, len(j.cards))
	left := layers
	for i := range out {
		rest := len(out) - i - 1
		want := float64(layers) / float64(len(out))
		if total > 0 {
			want = float64(layers) * free[i] / total
		}
		out[i] = min(max(int(math.Round(want)), 1), left-rest)
		if rest == 0 {
			out[i] = left
		}
		left -= out[i]
	}
	return out, nil
}

// Loader implements axcl.Device: each card has a loader for its layers.
func (j *joined) Loader(spec axcl.LoadSpec) (_ axcl.Loader, err error) {
	if j.closed {
		return nil, axcl.ErrClosed
	}
	if spec.Source != nil {
		return nil, fmt.Errorf("%w: a model whose layers share K and V cannot be split over cards: take one card, or "+
			"several with a copy each", axcl.ErrModel)
	}
	shares, err := j.shares(len(spec.Layers))
	if err != nil {
		return nil, err
	}
	l := &splitLoader{m: &split{j: j}}
	j.loading = append(j.loading, l)
	done := 0
	for i, n := range shares {
		part := axcl.LoadSpec{Layers: spec.Layers[done : done+n], Timeout: spec.Timeout, NoInPlace: spec.NoInPlace, Slots: spec.Slots,
			Beside: spec.Layers}
		if i == len(shares)-1 {
			part.Head = spec.Head
		}
		for _, give := range spec.Adapters {
			first := done
			part.Adapters = append(part.Adapters, func(layer int) ([]byte, error) { return give(first + layer) })
		}
		if spec.Local != nil {
			part.Local = spec.Local[done : done+n]
		}
		l.m.lines = append(l.m.lines, j.cards[i].NewLine(1))
		var one axcl.Loader
		if err := l.m.on(context.Background(), i, card.Load, card.FileLimit, func(d axcl.Device) (err error) {
			one, err = d.Loader(part)
			return err
		}); err != nil {
			return nil, l.fail(l.named(i, done, n, err))
		}
		l.parts, l.first, l.layers = append(l.parts, one), append(l.first, done), append(l.layers, n)
		for _, f := range one.Order() {
			l.order = append(l.order, done+f)
		}
		done += n
	}
	return l, nil
}

// splitLoader loads a model onto several cards.
type splitLoader struct {
	m             *split
	parts         []axcl.Loader // one for each card
	first, layers []int         // each part's first layer in the model, and number of layers
	order         []int
	files         int // loaded so far of the current part
	over          bool
}

func (l *splitLoader) Order() []int { return l.order }

func (l *splitLoader) Model() axcl.Model {
	if len(l.m.parts) < len(l.m.j.cards) || l.m.closed {
		return nil
	}
	return l.m
}

// Next loads the current part's next file. The last file of a part also completes the part. The
// last part is completed by a separate call.
func (l *splitLoader) Next(ctx context.Context) (done bool, err error) {
	if l.over {
		return false, axcl.ErrClosed
	}
	for {
		i := len(l.m.parts)
		part, last := l.parts[i], i == len(l.parts)-1
		if err := l.m.on(ctx, i, card.Load, card.FileLimit, func(axcl.Device) (err error) {
			done, err = part.Next(ctx)
			return err
		}); err != nil {
			return false, l.fail(l.named(i, l.first[i], l.layers[i], err))
		}
		if !done {
			if l.files++; l.files == len(part.Order()) && !last {
				continue
			}
			return false, nil
		}
		l.files, l.m.parts = 0, append(l.m.parts, part.Model())
		if err := l.m.add(part.Model().Shape()); err != nil {
			return false, l.fail(err)
		}
		if last {
			l.m.j.models = append(l.m.j.models, l.m)
			l.ended()
		}
		return last, nil
	}
}

// ended removes the loader from the device's list.
func (l *splitLoader) ended() {
	l.over = true
	l.m.j.loading = slices.DeleteFunc(l.m.j.loading, func(o *splitLoader) bool { return o == l })
}

// named adds to an error which layers and card failed.
func (l *splitLoader) named(i, first, layers int, err error) error {
	return fmt.Errorf("engine: layers %d to %d, on %s: %w", first, first+layers-1, l.m.j.cards[i].Info().ID, err)
}

// fail releases everything, and returns err.
func (l *splitLoader) fail(err error) error {
	_ = l.Close()
	return err
}

func (l *splitLoader) Close() error {
	if l.over {
		return axcl.ErrClosed
	}
	l.ended()
	for i, part := range l.parts {
		if i >= len(l.m.parts) {
			_ = l.m.on(context.Background(), i, card.Turn, 0, func(axcl.Device) error { return part.Close() })
		}
	}
	return l.m.Close()
}

// LoadNet loads the net onto the first card: a single net is not split.
func (j *joined) LoadNet(path string) (axcl.Net, error) {
	if j.closed {
		return nil, axcl.ErrClosed
	}
	n := &netElsewhere{elsewhere: j.elsewhere()}
	if err := n.do(card.Load, func(d axcl.Device) (err error) {
		n.Net, err = d.LoadNet(path)
		return err
	}); err != nil {
		n.line.Close()
		return nil, err
	}
	return n, nil
}

// NewBuffer allocates memory on the first card, where nets are.
func (j *joined) NewBuffer(size int) (axcl.Buffer, error) {
	if j.closed {
		return nil, axcl.ErrClosed
	}
	b := &bufferElsewhere{elsewhere: j.elsewhere()}
	if err := b.do(card.Turn, func(d axcl.Device) (err error) {
		b.Buffer, err = d.NewBuffer(size)
		return err
	}); err != nil {
		b.line.Close()
		return nil, err
	}
	return b, nil
}

// elsewhere is an object on one of the cards that the joined device's worker uses.
type elsewhere struct {
	c      *Card
	line   *card.Line
	closed bool
}

func (j *joined) elsewhere() elsewhere { return elsewhere{c: j.cards[0], line: j.cards[0].NewLine(1)} }

// do runs f on the card's worker in its turn, watched by the watchdog.
func (e *elsewhere) do(k card.Kind, f func(d axcl.Device) error) error {
	if e.closed {
		return axcl.ErrClosed
	}
	return e.line.Do(context.Background(), k, 0, func(d axcl.Device) error {
		return e.c.Watched(card.FileLimit, func() error { return f(d) })
	})
}

func (e *elsewhere) unload(what interface{ Close() error }) error {
	if e.closed {
		return axcl.ErrClosed
	}
	e.closed = true
	defer e.line.Close()
	return e.c.Do(context.Background(), func(axcl.Device) error { return e.c.Unload(what) })
}

type netElsewhere struct {
	axcl.Net
	elsewhere
}

func (n *netElsewhere) Bind(group int, tensor string, b axcl.Buffer) error {
	if x, ok := b.(*bufferElsewhere); ok {
		b = x.Buffer
	}
	return n.Net.Bind(group, tensor, b)
}

func (n *netElsewhere) Run(group int, in, out map[string][]byte) error {
	return n.do(card.Turn, func(axcl.Device) error { return n.Net.Run(group, in, out) })
}

func (n *netElsewhere) Close() error { return n.unload(n.Net) }

type bufferElsewhere struct {
	axcl.Buffer
	elsewhere
}

func (b *bufferElsewhere) Write(at int, from []byte) error {
	return b.do(card.Turn, func(axcl.Device) error { return b.Buffer.Write(at, from) })
}

func (b *bufferElsewhere) Read(at int, to []byte) error {
	return b.do(card.Turn, func(axcl.Device) error { return b.Buffer.Read(at, to) })
}

func (b *bufferElsewhere) Close() error { return b.unload(b.Buffer) }

func (j *joined) Close() error {
	if j.closed {
		return axcl.ErrClosed
	}
	j.closed = true
	var errs []error
	for len(j.loading) > 0 {
		errs = append(errs, j.loading[0].Close())
	}
	for _, m := range j.models {
		if err := m.Close(); !errors.Is(err, axcl.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// split is a model whose layers are on several cards.
type split struct {
	j      *joined
	parts  []axcl.Model
	lines  []*card.Line // for the calls of each part, which count on its card
	shape  axcl.Shape
	hidden []uint16
	more   []axcl.Addition // of one part
	rows   []byte          // rows of one part, while they are copied
	closed bool
}

func (m *split) add(s axcl.Shape) error {
	if s.Whole {
		return fmt.Errorf("%w: a whole decoder in one file cannot be split over cards: take one card, or a package of one file a layer",
			axcl.ErrModel)
	}
	if s.LayerInputs > 0 {
		return fmt.Errorf("%w: a model whose layers have inputs of their own cannot be split over cards: take one card, or "+
			"several with a copy each", axcl.ErrModel)
	}
	if len(m.parts) == 1 {
		m.shape = s
		return nil
	}
	t := &m.shape
	if s.Hidden != t.Hidden || s.KV != t.KV || s.Cells != t.Cells || s.Pos != t.Pos || len(s.Groups) != len(t.Groups) {
		return fmt.Errorf("%w: the parts on different cards have different shapes", axcl.ErrModel)
	}
	if t.RowBytes() == 0 || s.RowBytes() > 0 && s.Piece < t.Piece {
		t.Piece = s.Piece
	}
	t.Layers += s.Layers
	t.Linear += s.Linear
	t.State += s.State
	t.Slots = max(t.Slots, s.Slots)
	t.Bytes += s.Bytes
	t.Out, t.Argmax, t.Place = s.Out, s.Argmax, t.Place && s.Place
	t.Local = t.Local || s.Local
	return nil
}

func (m *split) Shape() axcl.Shape { return m.shape }

// Run sends the rows through one card after the other.
func (m *split) Run(p *axcl.Pass) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := p.Check(m.shape); err != nil {
		return err
	}
	m.hidden = grow(m.hidden, len(p.Hidden))
	in := p.Hidden
	if p.Timing != nil {
		*p.Timing = axcl.Timing{}
	}
	first := 0
	for i, part := range m.parts {
		q := axcl.Pass{Hidden: in, Pos: p.Pos, Cell: p.Cell, SeeCells: p.SeeCells, SeeRows: p.SeeRows, LocalCells: p.LocalCells,
			LocalRows: p.LocalRows, From: p.From, To: p.To, Single: p.Single, Adapter: p.Adapter}
		if len(p.Add) > 0 {
			layers := part.Shape().Layers
			q.Add, q.Added = p.SplitAdd(m.more, first, first+layers)
			if first += layers; q.Add != nil {
				m.more = q.Add
			}
		}
		if i == len(m.parts)-1 {
			q.Want, q.Logits, q.Argmax, q.HiddenOut, q.Meanwhile = p.Want, p.Logits, p.Argmax, p.HiddenOut, p.Meanwhile
		} else {
			q.HiddenOut = m.hidden
		}
		var t axcl.Timing
		if p.Timing != nil {
			q.Timing = &t
		}
		c := m.j.cards[i]
		if err := m.lines[i].Do(context.Background(), card.Turn, 0, func(axcl.Device) error {
			return c.Run(part, &q, passLimit)
		}); err != nil {
			return err
		}
		if p.Timing != nil {
			s := p.Timing
			s.Upload, s.Enqueue, s.Wait, s.Head, s.Download = s.Upload+t.Upload, s.Enqueue+t.Enqueue, s.Wait+t.Wait, s.Head+t.Head,
				s.Download+t.Download
			s.Calls += t.Calls
		}
		in = m.hidden
	}
	return nil
}

// Head runs the head, which is on the last card.
func (m *split) Head(rows, logits []uint16) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.shape.CheckHead(len(rows), len(logits)); err != nil {
		return err
	}
	last := len(m.parts) - 1
	return m.on(context.Background(), last, card.Turn, 0, func(axcl.Device) error { return m.parts[last].Head(rows, logits) })
}

// Clear clears the cells on each card.
func (m *split) Clear(cells []uint32) error {
	if m.closed {
		return axcl.ErrClosed
	}
	return m.each(func(part axcl.Model) error { return part.Clear(cells) })
}

// each calls every part, on its card.
func (m *split) each(call func(part axcl.Model) error) error {
	for i, part := range m.parts {
		if err := m.on(context.Background(), i, card.Turn, 0, func(axcl.Device) error { return call(part) }); err != nil {
			return err
		}
	}
	return nil
}

// on runs f on card i in this model's turn, watched by the card's watchdog.
func (m *split) on(ctx context.Context, i int, k card.Kind, limit time.Duration, f func(axcl.Device) error) error {
	return m.lines[i].Do(ctx, k, 0, func(d axcl.Device) error {
		return m.j.cards[i].Watched(limit, func() error { return f(d) })
	})
}

// slices calls each for every row, with room for the part's share and the share's place in whole.
// The share begins before bytes into the row.
func (m *split) slices(part axcl.Model, before, cells int, whole []byte, each func(share, whole []byte)) {
	n, row := part.Shape().RowBytes(), m.shape.RowBytes()
	for i := range cells {
		each(m.rows[i*n:][:n], whole[i*row+before:][:n])
	}
}

// Save copies each card's share of the rows to the host.
func (m *split) Save(cells []uint32, to []byte) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.shape.CheckRows(cells, len(to)); err != nil {
		return err
	}
	before := 0
	return m.each(func(part axcl.Model) error {
		n := part.Shape().RowBytes()
		if n == 0 {
			return nil
		}
		m.rows = grow(m.rows, len(cells)*n)
		err := part.Save(cells, m.rows)
		m.slices(part, before, len(cells), to, func(share, whole []byte) { copy(whole, share) })
		before += n
		return err
	})
}

// Restore copies each card's share of the rows to the card.
func (m *split) Restore(cells []uint32, from []byte) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.shape.CheckRows(cells, len(from)); err != nil {
		return err
	}
	before := 0
	return m.each(func(part axcl.Model) error {
		n := part.Shape().RowBytes()
		if n == 0 {
			return nil
		}
		m.rows = grow(m.rows, len(cells)*n)
		m.slices(part, before, len(cells), from, func(share, whole []byte) { copy(share, whole) })
		before += n
		return part.Restore(cells, m.rows)
	})
}

// Copy copies on each card.
func (m *split) Copy(to, from []uint32) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.shape.CheckCopy(to, from); err != nil {
		return err
	}
	return m.each(func(part axcl.Model) error {
		if part.Shape().RowBytes() == 0 {
			return nil
		}
		return part.Copy(to, from)
	})
}

// SaveState copies the bytes from the cards that hold them.
func (m *split) SaveState(slot uint32, at int, to []byte) error {
	return m.state(slot, at, to, axcl.Model.SaveState)
}

// RestoreState copies to each card its share of the bytes.
func (m *split) RestoreState(slot uint32, at int, from []byte) error {
	return m.state(slot, at, from, axcl.Model.RestoreState)
}

// state calls every part with its own bytes of the range. A part's bytes lie behind those of the
// parts before it.
func (m *split) state(slot uint32, at int, bytes []byte, call func(part axcl.Model, slot uint32, at int, bytes []byte) error) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.shape.CheckState(slot, at, len(bytes)); err != nil {
		return err
	}
	before := 0
	return m.each(func(part axcl.Model) error {
		n := part.Shape().State
		from, end := max(at, before), min(at+len(bytes), before+n)
		first := before
		before += n
		if from >= end {
			return nil
		}
		return call(part, slot, from-first, bytes[from-at:end-at])
	})
}

// passLimit is the most time that a part of a pass should take. The joined device's watchdog has a
// better limit.
const passLimit = 3 * time.Second

func (m *split) Close() error {
	if m.closed {
		return axcl.ErrClosed
	}
	m.closed = true
	var errs []error
	for i, part := range m.parts {
		errs = append(errs, m.j.cards[i].Do(context.Background(), func(axcl.Device) error { return m.j.cards[i].Unload(part) }))
	}
	for _, l := range m.lines {
		l.Close()
	}
	return errors.Join(errs...)
}

// Place returns the card for a model that needs this many bytes: of the working cards with room,
// the one with the most free memory. A card that does not report its memory counts as having room,
// and comes last. Place returns nil if no card fits.
func Place(cards []*Card, need int64) *Card {
	var best *Card
	most := int64(-1)
	for _, c := range cards {
		i := c.Info()
		free := i.FreeCMM
		if i.TotalCMM == 0 {
			free = 0
		} else if free < need {
			continue
		}
		if c.Err() == nil && free > most {
			best, most = c, free
		}
	}
	return best
}
