package pictures

import (
	"fmt"

	"github.com/axle-llm/axle/axcl"
)

// Span says that a prompt's rows from At on are a picture's, all of them.
type Span struct {
	At   int
	Rows *Rows
}

// Positions are those of a prompt of n rows that begins at position start, with as many components
// of each row as the model takes (1 or 3), and the position of what comes next. A row's place in
// the cache is not its position: on a grid all of a picture's rows lie within its longer side. It
// fails where spans overlap, leave the prompt or do not ascend, and where a grid needs three
// components.
func Positions(n int, start uint32, spans []Span, of int) (pos []uint32, next uint32, err error) {
	if of != 1 && of != 3 {
		return nil, 0, fmt.Errorf("pictures: positions of %d components", of)
	}
	pos, next = make([]uint32, 0, n*of), start
	put := func(t, h, w uint32) {
		if pos = append(pos, t); of == 3 {
			pos = append(pos, h, w)
		}
	}
	row := 0
	text := func(to int) {
		for ; row < to; row++ {
			put(next, next, next)
			next++
		}
	}
	for _, s := range spans {
		r := s.Rows
		if s.At < row || s.At > n-r.N {
			return nil, 0, fmt.Errorf("pictures: a picture of %d rows at row %d of %d, %d of them laid out", r.N, s.At, n, row)
		}
		text(s.At)
		if r.Across == 0 {
			text(s.At + r.N)
			continue
		}
		if of != 3 || r.Across*r.Down != r.N {
			return nil, 0, fmt.Errorf("pictures: %d rows on a grid of %d×%d, and positions of %d components", r.N, r.Across, r.Down, of)
		}
		for y := range uint32(r.Down) {
			for x := range uint32(r.Across) {
				put(next, next+y, next+x)
			}
		}
		row, next = row+r.N, next+uint32(max(r.Across, r.Down))
	}
	text(n)
	return pos, next, nil
}

// Placed says that row Row of a pass is row N of a picture's.
type Placed struct {
	Row  int
	From *Rows
	N    int
}

// Place puts pictures' rows into a pass in place of embeddings, and lists what is added to them
// between layers; rows ascend. The pass's Add and Added are made anew in the room they have.
func Place(p *axcl.Pass, hidden int, rows []Placed) {
	p.Add, p.Added = p.Add[:0], p.Added[:0]
	layers := 0
	for _, r := range rows {
		copy(p.Hidden[r.Row*hidden:(r.Row+1)*hidden], r.From.Hidden[r.N*hidden:])
		layers = max(layers, len(r.From.Deep))
	}
	for l := range layers {
		for _, r := range rows {
			if l < len(r.From.Deep) {
				p.Add = append(p.Add, axcl.Addition{Layer: uint32(l), Row: uint32(r.Row)})
				p.Added = append(p.Added, r.From.Deep[l][r.N*hidden:(r.N+1)*hidden]...)
			}
		}
	}
}
