package engine

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/engine/hosthead"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/vision"
)

// OpenShape loads a shape-only model onto a card: it has a real model's shapes, and no weights. Its
// output means nothing, but passes cost what the real model's would. Its files are written into
// dir, which must be an empty folder. The caller closes the backend. It has no tokenizer, so only
// Complete, Embed, Stats, Info and Close may be called. Errors: the file system's, and as [Open].
func OpenShape(ctx context.Context, c *Card, dir string, s axmodel.Shape, o OpenOptions) (Backend, error) {
	s.NoEmbeddings = true
	if err := axmodel.WriteShape(dir, s); err != nil {
		return nil, err
	}
	layers, head := axmodel.Files(dir, s.Name, s.Chunk, s.Layers)
	state := int64(0)
	for i := range s.Layers {
		state += s.StateBytes(i)
	}
	b := &cardBackend{card: c, sampling: sampler.Defaults(), closer: func() error { return nil },
		info: Info{Name: s.Name, Context: s.Context, Vocab: s.Vocab,
			Hidden: s.Hidden, Layers: s.Layers}}
	files := append(layers[:len(layers):len(layers)], head)
	err := c.InPieces(ctx, func(dev axcl.Device, pause func() error) error {
		loader, err := dev.Loader(axcl.LoadSpec{Layers: layers, Head: head, Timeout: o.Timeout, Slots: models.SlotsFor(state)})
		if err != nil {
			return err
		}
		size := func(n int) int64 {
			if files[loader.Order()[n]] == head {
				return s.HeadBytes
			}
			return s.LayerBytes
		}
		model, err := c.files(ctx, loader, c.Pace(max(s.LayerBytes, s.HeadBytes)), size, func(int) {}, pause)
		if err != nil {
			return err
		}
		b.m = newLM(c, model, shapeRows{}, nil, nil, o)
		if err := b.m.readyShape(ctx, dev, dir, s, o); err != nil {
			return errors.Join(err, b.m.heads.close(), c.Unload(model))
		}
		b.m.count(func(*Stats) {})
		c.Attach(b.m, 1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// readyShape is ready for a model without weights.
func (m *lm) readyShape(ctx context.Context, dev axcl.Device, dir string, s axmodel.Shape, o OpenOptions) (err error) {
	// Rows of a shape-only model do not influence each other, so there is nothing to prove: the
	// software cards can do all of it.
	m.proven = Proven{Chunk: true, Mixed: m.shape.State == 0, Scatter: true, Kept: m.shape.State > 0}
	if o.Proven != nil {
		m.proven = *o.Proven
	}
	if err := m.prover.measure(ctx); err != nil {
		return err
	}
	if err := m.openDisk(mediumOf(o), "shape "+s.Name, s.Name); err != nil {
		return err
	}
	if why := m.heads.barred(); why != "" {
		m.heads.without(why)
	} else {
		h := shapeHead{Shape: s}
		if m.card.o.Host == nil {
			if h.work, err = hosthead.Blank(s.Hidden, s.Vocab); err != nil {
				return err
			}
		}
		m.heads.use(h)
	}
	if err := m.openRAM(o.CacheRAM); err != nil || s.Sight == nil {
		return err
	}
	sees, err := shapeSight(dir, s)
	if err == nil {
		m.pictures.encoder, err = m.pictures.openEncoder(dev, sees, "shape "+s.Name)
	}
	return err
}

// shapeSight returns a shape-only model's Vision, as its encoder's file describes it.
func shapeSight(dir string, s axmodel.Shape) (*models.Vision, error) {
	path := filepath.Join(dir, s.EncoderFile())
	m, err := axmodel.ReadFile(path)
	if err != nil {
		return nil, err
	}
	g, rows := &m.Groups[0], s.Sight.Rows()
	v := &models.Vision{Family: "shape", File: s.EncoderFile(), Path: path, Weights: s.Sight.Bytes, Input: g.Inputs[0],
		Output: g.Outputs[0], Deep: g.Outputs[1:], PerCall: rows, Rows: rows, MRope: true, Across: s.Sight.Across / s.Sight.Merge,
		Down: s.Sight.Down / s.Sight.Merge, Placeholder: s.Placeholder()}
	v.Layout, err = vision.ReadLayout(v.Input.Shape, vision.U8, vision.Hints{Rows: rows})
	return v, err
}

// shapeHead gives the logits of a model without weights, and does the work of one with 8-bit
// weights.
type shapeHead struct {
	axmodel.Shape
	work *hosthead.Head // nil: the work is only claimed, for CardOptions.Host
}

func (h shapeHead) Run(rows [][]uint16, logits []uint16, argmax []int32) error {
	if h.work != nil {
		if err := h.work.Run(rows, logits, argmax); err != nil {
			return err
		}
	}
	for i, row := range rows {
		next := axmodel.ShapeNext(row, h.Vocab, h.Period)
		if logits != nil {
			y := logits[i*h.Vocab : (i+1)*h.Vocab]
			clear(y)
			y[(next+1)%h.Vocab], y[next] = axcl.BFloat16(8), axcl.BFloat16(16)
		}
		if argmax != nil {
			argmax[i] = int32(next)
		}
	}
	return nil
}

func (h shapeHead) Work(n int) (bytes, products int64) { return hosthead.Work(h.Hidden, h.Vocab, n) }
func (h shapeHead) Close() error {
	if h.work == nil {
		return nil
	}
	return h.work.Close()
}

type shapeRows struct{}

func (shapeRows) Row(dst []uint16, id int32) error {
	axmodel.ShapeRow(dst, id)
	return nil
}
