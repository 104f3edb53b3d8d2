package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/pictures"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer/chat"
	"github.com/axle-llm/axle/vision"
)

// This file evaluates prompts with pictures without the scheduler and its caches. The probes of a
// model with an encoder compare its answers with the results.

// shown is a prompt that is evaluated by hand.
type shown struct {
	ids  []int32
	rows []*pictures.Rows
	cuts []int // the ends of its passes
}

// shown reads a prompt's pictures, and calls the encoder for each, even if it is known. first is
// how many rows the first pass has. 0 means as many as the others have: the rows of the narrowest
// prefill group.
func (e *eyesight) shown(ctx context.Context, msgs []chat.Message, first int) (s shown, err error) {
	ids, images, err := e.prompt(ctx, msgs)
	if err != nil {
		return s, err
	}
	s.ids = ids
	for _, data := range images {
		made, err := e.l.pictures.encoder.enc.(*pictures.Encoder).Prepare(data, vision.Limits{})
		if err != nil {
			return s, err
		}
		err = e.l.card.Do(ctx, func(axcl.Device) error {
			for made.Rows() == nil {
				if err := e.l.card.Watched(0, func() error { return e.l.pictures.encoder.enc.(*pictures.Encoder).Step(made) }); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return s, err
		}
		s.rows = append(s.rows, made.Rows())
	}
	step := max(e.l.minWide, 1)
	if first %= step; first > 0 {
		s.cuts = append(s.cuts, min(first, len(ids)))
	}
	for at := first; at < len(ids); {
		n := min(step, len(ids)-at)
		if e.l.shape.GroupFor(n, at) < 0 {
			n = 1 // beyond what wide passes see
		}
		at += n
		s.cuts = append(s.cuts, at)
	}
	return s, nil
}

// blind returns the prompt without the rows that are added between layers.
func (s shown) blind() shown {
	s.rows = slices.Clone(s.rows)
	for i, r := range s.rows {
		bare := *r
		bare.Deep = nil
		s.rows[i] = &bare
	}
	return s
}

// byHand evaluates prompts. The n-th passes of all prompts are one pass. It returns the logits
// after each prompt.
func (e *eyesight) byHand(ctx context.Context, each ...shown) (out [][]float32, err error) {
	err = e.l.card.Do(ctx, func(axcl.Device) error {
		e.l.reap()
		if len(e.l.running) > 0 {
			return fmt.Errorf("%w: the model is probed and asked at once", ErrBusy)
		}
		e.l.distrust()
		out, err = e.l.byHand(e.v, each)
		return err
	})
	return out, err
}

func (m *core) byHand(v *models.Vision, each []shown) ([][]float32, error) {
	slot, back, ok := m.scratch()
	if !ok {
		return nil, errNoCells
	}
	defer back()
	pos, cells := make([][]uint32, len(each)), make([][]int32, len(each))
	passes := 0
	for i, s := range each {
		var err error
		if pos[i], err = placed(v, m.shape.Pos, s); err != nil {
			return nil, err
		}
		if cells[i], ok = m.cells.Take(nil, len(s.ids), 0, false); !ok {
			return nil, &ContextError{Have: len(s.ids), Max: m.shape.Cells}
		}
		defer m.cells.Give(cells[i]...)
		passes = max(passes, len(s.cuts))
	}
	out, put := make([][]float32, len(each)), make([]int, len(each))
	for n := range passes {
		p := &axcl.Pass{}
		var rows []pictures.Placed
		var ends []int // for each of the pass's Want, the prompt that ends there
		type span struct{ from, n, row int }
		spans := make([]span, len(each))
		total := 0
		for i, s := range each {
			if n < len(s.cuts) {
				from := 0
				if n > 0 {
					from = s.cuts[n-1]
				}
				spans[i] = span{from, s.cuts[n] - from, total}
				total += spans[i].n
			}
		}
		cw, rw := axcl.Words(m.shape.Cells), axcl.Words(total)
		p.Hidden, p.SeeCells = make([]uint16, total*m.shape.Hidden), make([]uint64, total*cw)
		p.SeeRows = make([]uint64, total*rw)
		for i, s := range each {
			for k := range spans[i].n {
				r, at := spans[i].row+k, spans[i].from+k
				if s.ids[at] == v.Placeholder && len(s.rows) > 0 {
					rows = append(rows, pictures.Placed{Row: r, From: s.rows[put[i]/v.Rows], N: put[i] % v.Rows})
					put[i]++
				} else if err := m.embed.Row(p.Hidden[r*m.shape.Hidden:(r+1)*m.shape.Hidden], s.ids[at]); err != nil {
					return nil, err
				}
				p.Pos = append(p.Pos, pos[i][at*m.shape.Pos:(at+1)*m.shape.Pos]...)
				p.Cell = append(p.Cell, uint32(cells[i][at]))
				for _, c := range cells[i][:spans[i].from] {
					p.SeeCells[r*cw+int(c)/64] |= 1 << (c % 64)
				}
				for e := spans[i].row; e < r; e++ {
					p.SeeRows[r*rw+e/64] |= 1 << (e % 64)
				}
				if at == len(s.ids)-1 {
					p.Want, ends = append(p.Want, r), append(ends, i)
				}
			}
		}
		pictures.Place(p, m.shape.Hidden, rows)
		if m.sequent(p, slot, slot); n == 0 {
			p.From = 0
		}
		if p.Logits = make([]uint16, len(p.Want)*m.shape.Out); len(p.Want) == 0 {
			p.Logits, p.HiddenOut = nil, make([]uint16, total*m.shape.Hidden)
		}
		if err := m.card.Run(m.model, p, time.Minute); err != nil {
			return nil, err
		}
		for k, i := range ends {
			for _, l := range p.Logits[k*m.shape.Out : (k+1)*m.shape.Out] {
				out[i] = append(out[i], axcl.Float32(l))
			}
		}
	}
	return out, nil
}

// placed returns the positions of a prompt's rows.
func placed(v *models.Vision, of int, s shown) ([]uint32, error) {
	var spans []pictures.Span
	if v.MRope {
		n := 0
		for i, id := range s.ids {
			if id == v.Placeholder && len(s.rows) > 0 {
				if n%v.Rows == 0 {
					spans = append(spans, pictures.Span{At: i, Rows: s.rows[n/v.Rows]})
				}
				n++
			}
		}
	}
	pos, _, err := pictures.Positions(len(s.ids), 0, spans, of)
	return pos, err
}
