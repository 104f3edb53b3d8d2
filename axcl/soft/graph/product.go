package graph

import (
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
)

// matmul is a [… M, K] by b: blocks of b's columns are the parts. The kernels take b turned, column
// after column.
func (p *Plan) matmul() {
	ad, bd := p.shape(0), p.shape(1)
	turned := p.node.Attrs[0] == 1
	m, k := ad[len(ad)-2], ad[len(ad)-1]
	n := bd[len(bd)-1]
	if turned {
		n = bd[len(bd)-2]
	}
	w := p.turned(1, product(bd[:len(bd)-2]), k, n, turned)
	a, _ := p.operand(0)
	bias, _ := p.operand(2)
	batch := p.dims()[:len(p.dims())-2]
	as, bs := batches(batch, ad[:len(ad)-2]), batches(batch, bd[:len(bd)-2])
	y := p.result(0)
	if len(bs) > 1 && onlyZero(bs) { // one b for all: rows of all batches are rows of one product
		if !onlyZero(as) && len(as)*m*k == product(ad) {
			m, as, bs = m*len(as), as[:1], bs[:1]
		}
	}
	p.rows = max(p.rows, m)
	blocks := (n + kernel.Block - 1) / kernel.Block
	p.do(len(as)*blocks, m*k*kernel.Block, func(worker, i int) {
		at, block := i/blocks, i%blocks
		from := block * kernel.Block
		to := min(from+kernel.Block, n)
		weights := w.at(bs[at], n, k)
		in := kernel.Input{F: a.f[as[at]*m*k:][:m*k]}
		dst := y.f[at*m*n:][:m*n]
		p.set.Mul(dst, &weights, in, m, from, to, p.scrap[worker])
		if bias.f != nil {
			for r := range m {
				p.set.Add(dst[r*n+from:r*n+to], bias.f[from:to])
			}
		}
	})
}

// columns is a matrix, or several, whose columns lie one after the other.
type columns struct {
	f    []float32
	b    []uint16
	bf16 bool
}

func (c columns) at(i, rows, cols int) kernel.Weights {
	w := kernel.Weights{Rows: rows, Cols: cols}
	if c.bf16 {
		w.BF16 = c.b[i*rows*cols:][:rows*cols]
	} else {
		w.F32 = c.f[i*rows*cols:][:rows*cols]
	}
	return w
}

// turned gives operand i, n matrices of k × cols, so that each column lies in one.
func (p *Plan) turned(i, n, k, cols int, already bool) columns {
	if already {
		if l := p.of[p.node.In[i]]; l.constant >= 0 && p.g.Constants[l.constant].Type == axcl.BF16 {
			c := p.g.Constants[l.constant]
			return columns{b: view[uint16](p.weights.file, c.Offset, l.n), bf16: true}
		}
		x, _ := p.operand(i)
		return columns{f: x.f}
	}
	x, _ := p.operand(i)
	turn := func(dst []float32, from, to int) { // of all columns of all matrices
		for c := from; c < to; c++ {
			src := x.f[c/cols*k*cols+c%cols:]
			for r, row := 0, dst[c*k:(c+1)*k]; r < k; r++ {
				row[r] = src[r*cols]
			}
		}
	}
	if p.constant(i) {
		return columns{f: p.keep(n*k*cols, func(dst []float32) { turn(dst, 0, n*cols) })}
	}
	dst := p.space(n * k * cols)
	p.rowsOf(n*cols, k, 1, func(_, from, to int) { turn(dst, from, to) })
	return columns{f: dst}
}

// batches says of each of the batch's matrices which of an operand's it is, whose own batch has
// these dimensions.
func batches(batch, own []int) []int {
	out := make([]int, product(batch))
	st := strides(own)
	for i := range out {
		rest := i
		for k := len(batch) - 1; k >= 0; k-- {
			if j := k - len(batch) + len(own); j >= 0 && own[j] > 1 {
				out[i] += rest % batch[k] * st[j]
			}
			rest /= batch[k]
		}
	}
	return out
}

func onlyZero(a []int) bool {
	for _, v := range a {
		if v != 0 {
			return false
		}
	}
	return true
}

// queries is how many rows of a head attend at a time.
const queries = 32

// attention packs each head's keys and values, and then takes queries block by block.
func (p *Plan) attention() {
	q, qd := p.operand(0)
	k, kd := p.operand(1)
	v, vd := p.operand(2)
	mask, md := p.operand(3)
	heads, scale := int(p.node.Attrs[0]), p.node.Float(1)
	b, m, s := qd[0], qd[1], kd[1]
	wide, out := qd[2], vd[2]
	d, e := wide/heads, out/heads
	y := p.result(0)
	keys, values := p.space(b*heads*s*d), p.space(b*heads*s*e)
	p.do(b*heads, s*(d+e), func(_, i int) {
		at, head := i/heads, i%heads
		to, turned := keys[i*s*d:][:s*d], values[i*s*e:][:s*e]
		for r := range s {
			copy(to[r*d:(r+1)*d], k.f[(at*s+r)*wide+head*d:])
			for c, x := range v.f[(at*s+r)*out+head*e:][:e] {
				turned[c*s+r] = x
			}
		}
	})
	var ms [4]int // how far apart the mask's values are along batch, head, query and key
	for i, st := range strides(md) {
		if md[i] > 1 {
			ms[4-len(md)+i] = st
		}
	}
	p.rows = max(p.rows, queries)
	qs, scores, sums := p.own(queries*d), p.own(queries*s), p.own(queries*e)
	blocks := (m + queries - 1) / queries
	p.do(b*heads*blocks, queries*s*(d+e), func(worker, i int) {
		head, from := i/blocks, i%blocks*queries
		n := min(queries, m-from)
		at, h := head/heads, head%heads
		query, score, sum := qs(worker), scores(worker), sums(worker)
		for r := range n {
			row := query[r*d : (r+1)*d]
			copy(row, q.f[(at*m+from+r)*wide+h*d:])
			p.set.Scale(row, scale)
		}
		w := kernel.Weights{Rows: s, Cols: d, F32: keys[head*s*d:][:s*d]}
		p.set.Mul(score, &w, kernel.Input{F: query[:n*d]}, n, 0, s, p.scrap[worker])
		for r := range n {
			row := score[r*s : (r+1)*s]
			if mask.f != nil {
				add := mask.f[at*ms[0]+h*ms[1]+(from+r)*ms[2]:]
				if ms[3] == 1 || s == 1 {
					p.set.Add(row, add[:s])
				} else {
					for c := range row {
						row[c] += add[0]
					}
				}
			}
			p.set.Softmax(row)
		}
		w = kernel.Weights{Rows: e, Cols: s, F32: values[head*s*e:][:s*e]}
		p.set.Mul(sum, &w, kernel.Input{F: score[:n*s]}, n, 0, e, p.scrap[worker])
		for r := range n {
			copy(y.f[(at*m+from+r)*out+h*e:][:e], sum[r*e:])
		}
	})
}

// lstm multiplies all rows with the inputs' weights, and then goes through time, each direction on
// its own.
func (p *Plan) lstm() {
	x, xd := p.operand(0)
	w, _ := p.operand(1)
	r, rd := p.operand(2)
	bias, _ := p.operand(3)
	h0, _ := p.operand(4)
	c0, _ := p.operand(5)
	n, t, in, dirs, h := xd[0], xd[1], xd[2], rd[0], rd[2]
	y, hn, cn := p.result(0), p.result(1), p.result(2)
	rows := n * t
	p.rows = max(p.rows, rows)
	gates := p.space(dirs * rows * 4 * h)
	blocks := (4*h + kernel.Block - 1) / kernel.Block
	p.do(dirs*blocks, rows*in*kernel.Block, func(worker, i int) {
		dir, from := i/blocks, i%blocks*kernel.Block
		to := min(from+kernel.Block, 4*h)
		m := kernel.Weights{Rows: 4 * h, Cols: in, F32: w.f[dir*4*h*in:][:4*h*in]}
		dst := gates[dir*rows*4*h:][:rows*4*h]
		p.set.Mul(dst, &m, kernel.Input{F: x.f}, rows, from, to, p.scrap[worker])
		if bias.f != nil {
			for k := range rows {
				p.set.Add(dst[k*4*h+from:k*4*h+to], bias.f[dir*4*h+from:dir*4*h+to])
			}
		}
	})
	sums := p.own(n * 4 * h)
	p.do(dirs, rows*4*h*h, func(worker, dir int) {
		state, cell, sum := hn.f[dir*n*h:][:n*h], cn.f[dir*n*h:][:n*h], sums(worker)
		begin(state, h0.f, dir)
		begin(cell, c0.f, dir)
		m := kernel.Weights{Rows: 4 * h, Cols: h, F32: r.f[dir*4*h*h:][:4*h*h]}
		for step := range t {
			at := step
			if dir == 1 {
				at = t - 1 - step
			}
			p.set.Mul(sum, &m, kernel.Input{F: state}, n, 0, 4*h, p.scrap[worker])
			for i := range n {
				g, s := gates[(dir*rows+i*t+at)*4*h:][:4*h], sum[i*4*h:][:4*h]
				for k := range h {
					c := sigmoid(g[h+k]+s[h+k])*cell[i*h+k] + sigmoid(g[k]+s[k])*tanh(g[2*h+k]+s[2*h+k])
					cell[i*h+k] = c
					state[i*h+k] = sigmoid(g[3*h+k]+s[3*h+k]) * tanh(c)
				}
				copy(y.f[(i*t+at)*dirs*h+dir*h:][:h], state[i*h:])
			}
		}
	})
}

// begin is where a direction's state begins: zeros where none is given.
func begin(state, given []float32, dir int) {
	if given == nil {
		clear(state)
		return
	}
	copy(state, given[dir*len(state):])
}
