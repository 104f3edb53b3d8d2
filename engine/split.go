package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// Join makes one device of several cards: a model loaded on it is split by layers, each card taking its share by the memory it has free,
// the last one the head too. Rows go from card to card through the host. The cards keep serving what else is on them, and stay open when
// the device is closed. Open it with [OpenCard]: its worker waits for the cards' workers, never the other way round.
func Join(cards ...*Card) (axcl.Device, error) {
	if len(cards) < 2 {
		return nil, fmt.Errorf("%w: a model is split over two cards or more, not %d", ErrRequest, len(cards))
	}
	return &joined{cards: cards}, nil
}

type joined struct {
	cards  []*Card
	models []*split
	closed bool
}

// Info adds the cards' memory up; of temperatures and loads it is the highest.
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
		if !i.Host { // that is there once
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

// shares cuts layers into runs by the cards' free memory; each gets at least one.
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

func (j *joined) Load(ctx context.Context, spec axcl.LoadSpec) (_ axcl.Model, err error) {
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
	m := &split{j: j}
	defer func() {
		if err != nil {
			_ = m.Close()
		}
	}()
	total, done := len(spec.Layers), 0
	if spec.Head != "" {
		total++
	}
	for i, c := range j.cards {
		part := axcl.LoadSpec{Layers: spec.Layers[done : done+shares[i]], Timeout: spec.Timeout, NoInPlace: spec.NoInPlace,
			Slots: spec.Slots, Beside: spec.Layers}
		if i == len(j.cards)-1 {
			part.Head = spec.Head
		}
		if spec.Local != nil {
			part.Local = spec.Local[done : done+shares[i]]
		}
		before := done
		part.Progress = func(file, n, _ int) {
			c.enter(fileLimit)
			if spec.Progress != nil {
				spec.Progress(before+file, before+n, total)
			}
		}
		if spec.Order != nil {
			part.Order = func(files []int) {
				files = slices.Clone(files)
				for i := range files {
					files[i] += before
				}
				spec.Order(files)
			}
		}
		var model axcl.Model
		if err := c.Do(ctx, func(d axcl.Device) (err error) {
			c.enter(fileLimit)
			defer c.exit()
			model, err = d.Load(ctx, part)
			return err
		}); err != nil {
			return nil, fmt.Errorf("engine: layers %d to %d, on %s: %w", before, before+shares[i]-1, c.Info().ID, err)
		}
		m.parts = append(m.parts, model)
		done += shares[i]
		if err := m.add(model.Shape()); err != nil {
			return nil, err
		}
	}
	j.models = append(j.models, m)
	return m, nil
}

// LoadNet loads on the first card: a single model is not split.
func (j *joined) LoadNet(path string) (axcl.Net, error) {
	if j.closed {
		return nil, axcl.ErrClosed
	}
	n := &elsewhere{c: j.cards[0]}
	if err := n.do(fileLimit, func(d axcl.Device) (err error) {
		n.Net, err = d.LoadNet(path)
		return err
	}); err != nil {
		return nil, err
	}
	return n, nil
}

// elsewhere is a net on one of the cards, used from the joined device's worker.
type elsewhere struct {
	axcl.Net
	c *Card
}

// do runs f on the card's worker, under its watchdog's eye.
func (n *elsewhere) do(limit time.Duration, f func(d axcl.Device) error) error {
	err := n.c.Do(context.Background(), func(d axcl.Device) error {
		n.c.enter(limit)
		defer n.c.exit()
		return f(d)
	})
	if axcl.Fatal(err) {
		n.c.lose(err)
	}
	return err
}

func (n *elsewhere) Run(group int, in, out map[string][]byte) error {
	return n.do(fileLimit, func(axcl.Device) error { return n.Net.Run(group, in, out) })
}

func (n *elsewhere) Close() error {
	return n.do(n.c.o.Watch, func(axcl.Device) error { return n.Net.Close() })
}

func (j *joined) Close() error {
	if j.closed {
		return axcl.ErrClosed
	}
	j.closed = true
	var errs []error
	for _, m := range j.models {
		if err := m.Close(); !errors.Is(err, axcl.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// split is a model whose layers lie on several cards.
type split struct {
	j      *joined
	parts  []axcl.Model
	shape  axcl.Shape
	hidden []uint16
	more   []axcl.Addition // of one part
	rows   []byte          // of one part, as they travel
	closed bool
}

func (m *split) add(s axcl.Shape) error {
	if s.Whole {
		return fmt.Errorf("%w: a whole decoder in one file cannot be split over cards: take one card, or a package of one file a layer",
			axcl.ErrModel)
	}
	if s.Given > 0 {
		return fmt.Errorf("%w: a model whose layers are given rows besides the hidden state cannot be split over cards: take one card, or "+
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
			LocalRows: p.LocalRows, From: p.From, To: p.To, Single: p.Single}
		if len(p.Add) > 0 {
			layers := part.Shape().Layers
			q.Add, q.Added = p.SplitAdd(m.more, first, first+layers)
			if first += layers; q.Add != nil {
				m.more = q.Add
			}
		}
		if i == len(m.parts)-1 {
			q.Want, q.Logits, q.Argmax, q.HiddenOut = p.Want, p.Logits, p.Argmax, p.HiddenOut
		} else {
			q.HiddenOut = m.hidden
		}
		var t axcl.Timing
		if p.Timing != nil {
			q.Timing = &t
		}
		c := m.j.cards[i]
		if err := c.Do(context.Background(), func(axcl.Device) error { return c.run(part, &q, passLimit) }); err != nil {
			if axcl.Fatal(err) {
				c.lose(err)
			}
			return cmp.Or(err, error(axcl.ErrLost))
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

// Clear clears the cells on each card.
func (m *split) Clear(cells []uint32) error {
	if m.closed {
		return axcl.ErrClosed
	}
	return m.each(func(part axcl.Model) error { return part.Clear(cells) })
}

// each makes a call of every part, on its card.
func (m *split) each(call func(part axcl.Model) error) error {
	for i, part := range m.parts {
		c := m.j.cards[i]
		if err := c.Do(context.Background(), func(axcl.Device) error { return c.watched(func() error { return call(part) }) }); err != nil {
			if axcl.Fatal(err) {
				c.lose(err)
			}
			return cmp.Or(err, error(axcl.ErrLost))
		}
	}
	return nil
}

// slices visits the part's share of every row, which is so many bytes in front of the next parts'.
func (m *split) slices(part axcl.Model, before, cells int, whole []byte, each func(share, whole []byte)) {
	n, row := part.Shape().RowBytes(), m.shape.RowBytes()
	for i := range cells {
		each(m.rows[i*n:][:n], whole[i*row+before:][:n])
	}
}

// Save brings each card's share of the rows home.
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

// Restore gives each card its share of the rows.
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

// SaveState brings the bytes home from the cards that hold them.
func (m *split) SaveState(slot uint32, at int, to []byte) error {
	return m.state(slot, at, to, axcl.Model.SaveState)
}

// RestoreState gives each card what it holds of the bytes.
func (m *split) RestoreState(slot uint32, at int, from []byte) error {
	return m.state(slot, at, from, axcl.Model.RestoreState)
}

// state calls every part with the bytes of the range that are its own: a part's lie behind those of the parts before it.
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

// CopyState copies on each card that holds some of it.
func (m *split) CopyState(to, from uint32) error {
	if m.closed {
		return axcl.ErrClosed
	}
	if err := m.shape.CheckStateCopy(to, from); err != nil {
		return err
	}
	return m.each(func(part axcl.Model) error {
		if part.Shape().State == 0 {
			return nil
		}
		return part.CopyState(to, from)
	})
}

// passLimit is what a part of a pass should take at the very most; the watchdog of the joined device knows better.
const passLimit = 3 * time.Second

func (m *split) Close() error {
	if m.closed {
		return axcl.ErrClosed
	}
	m.closed = true
	var errs []error
	for i, part := range m.parts {
		errs = append(errs, m.j.cards[i].Do(context.Background(), func(axcl.Device) error { return m.j.cards[i].unload(part) }))
	}
	return errors.Join(errs...)
}

// Place is the card a model that needs so many bytes goes on: of those that work and have room the one with the most free memory; a card
// that does not say how much it has counts as having room, and comes last. It is nil where none fits.
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
