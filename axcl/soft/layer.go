package soft

import (
	"math"
	"slices"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// layer is a decoder layer's weights.
type layer struct {
	*file
	in, post, preMLP, postMLP []float32 // norms
	qNorm, kNorm              []float32
	qBias, kBias, vBias       []float32
	q, k, v, o                matrix
	gate, up, down            matrix
	rope                      *rope
}

// rope is a table of rotations, shared by the layers that turn alike; filled once a pass.
type rope struct {
	freq      []float32
	magnitude float32
	cos, sin  []float32 // rows × len(freq)
	filled    bool
}

func newLayer(f *file) *layer {
	return &layer{
		file: f, in: f.norm("input_norm"), post: f.norm("post_norm"), preMLP: f.norm("pre_mlp_norm"), postMLP: f.norm("post_mlp_norm"),
		qNorm: f.norm("q_norm"), kNorm: f.norm("k_norm"), qBias: f.vector("q_bias"), kBias: f.vector("k_bias"), vBias: f.vector("v_bias"),
		q: f.matrix("q"), k: f.matrix("k"), v: f.matrix("v"), o: f.matrix("o"), gate: f.matrix("gate"), up: f.matrix("up"), down: f.matrix("down"),
		rope: &rope{freq: f.vector("inv_freq"), magnitude: f.Magnitude},
	}
}

// sight is what the rows of a call see: for row r the cache rows Cells[CellAt[r]:CellAt[r+1]] and, of this call, Rows[RowAt[r]:RowAt[r+1]],
// itself among them. The scores' addends lie beside them, or are nil where all are zero.
type sight struct {
	cells, rows     []int32
	cellAdd, rowAdd []float32
	cellAt, rowAt   []int32
}

func (s *sight) reset() {
	s.cells, s.rows, s.cellAdd, s.rowAdd = s.cells[:0], s.rows[:0], s.cellAdd[:0], s.rowAdd[:0]
	s.cellAt, s.rowAt = append(s.cellAt[:0], 0), append(s.rowAt[:0], 0)
}

func (s *sight) endRow() {
	s.cellAt, s.rowAt = append(s.cellAt, int32(len(s.cells))), append(s.rowAt, int32(len(s.rows)))
}

// product is one matrix product of a phase: dst = w · src for every row.
type product struct {
	w        *matrix
	dst, src []float32
	blocks   int // tasks it is cut into, of step rows of w each
	step     int
}

// engine computes layers and heads on a pool. Its memory is made once for the most rows and the largest layer; a call allocates nothing.
type engine struct {
	pool *pool

	// the call at hand
	l      *layer
	n      int
	pos    []uint32
	see    *sight
	kc, vc []uint16 // the layer's cache

	x, a, q, k, v, att, gate, up []float32
	kb, vb                       []uint16 // the call's K and V
	score                        [][]float32
	sum                          [][]float64
	products                     []product

	norm1, rows, attend, residual, active, finish, blocks func(worker, i int)
}

// size is what an engine must hold.
type size struct {
	rows, hidden, q, kv, inter, seen, rep, hd int
}

func (s *size) grow(l *layer, rows, cells int) {
	s.rows, s.hidden, s.q, s.kv = max(s.rows, rows), max(s.hidden, l.Hidden), max(s.q, l.Heads*l.HeadDim), max(s.kv, l.KVHeads*l.HeadDim)
	s.inter, s.seen, s.rep, s.hd = max(s.inter, l.Intermediate), max(s.seen, cells+rows), max(s.rep, l.Heads/l.KVHeads), max(s.hd, l.HeadDim)
}

// bytes is what newEngine allocates for a pool of so many.
func (s *size) bytes(threads int) int64 {
	rows, n := int64(s.rows), int64(threads)
	return 4*(rows*int64(2*s.hidden+s.q+3*s.kv+max(s.q, s.hidden)+2*s.inter)+3*int64(s.hd)) + n*int64(s.rep)*int64(4*s.seen+8*s.hd)
}

func newEngine(p *pool, s size) *engine {
	f := func(n int) []float32 { return make([]float32, s.rows*n) }
	e := &engine{pool: p, x: f(s.hidden), a: f(s.hidden), q: make([]float32, s.rows*s.q+3*s.hd), k: f(s.kv), v: f(s.kv), att: f(max(s.q, s.hidden)), gate: f(s.inter), up: f(s.inter),
		kb: make([]uint16, s.rows*s.kv), vb: make([]uint16, s.rows*s.kv), products: make([]product, 0, 3)}
	for range p.n {
		e.score = append(e.score, make([]float32, s.rep*s.seen))
		e.sum = append(e.sum, make([]float64, s.rep*s.hd))
	}
	e.norm1, e.rows, e.attend, e.residual, e.active, e.finish, e.blocks = e.doNorm, e.doRow, e.doAttend, e.doResidual, e.doActive, e.doFinish, e.doBlock
	return e
}

// multiply runs products side by side.
func (e *engine) multiply(ps ...product) {
	total, work := 0, 0
	e.products = e.products[:0]
	for _, p := range ps {
		p.step = min(max(1<<14/p.w.cols, 4), 64)
		p.blocks = (p.w.rows + p.step - 1) / p.step
		total += p.blocks
		work += p.w.rows * p.w.cols
		e.products = append(e.products, p)
	}
	e.pool.each(total, work*e.n/total+1, e.blocks)
}

func (e *engine) doBlock(_, i int) {
	for k := range e.products {
		p := &e.products[k]
		if i < p.blocks {
			p.w.mul(p.dst, p.src, e.n, i*p.step, min((i+1)*p.step, p.w.rows))
			return
		}
		i -= p.blocks
	}
}

// run computes one layer for n rows: in and out are n × hidden, kc and vc the cache, whose rows see names. The call's own K and V are left in
// e.kb and e.vb.
func (e *engine) run(l *layer, n int, out, in []uint16, pos []uint32, kc, vc []uint16, see *sight) {
	e.l, e.n, e.pos, e.kc, e.vc, e.see = l, n, pos, kc, vc, see
	h, d, r := l.Hidden, l.KVHeads*l.HeadDim, l.rope
	if l.Flags&axmodel.FlagHollow != 0 {
		copy(out, in[:n*h])
		clear(e.kb[:n*d])
		clear(e.vb[:n*d])
		return
	}
	for i, v := range in[:n*h] {
		e.x[i] = axcl.Float32(v)
	}
	if half := len(r.freq); !r.filled && half > 0 {
		r.cos, r.sin = slices.Grow(r.cos[:0], n*half)[:n*half], slices.Grow(r.sin[:0], n*half)[:n*half]
		for i := range n * half {
			s, c := math.Sincos(float64(float32(pos[i/half]) * r.freq[i%half]))
			r.cos[i], r.sin[i] = float32(c)*r.magnitude, float32(s)*r.magnitude
		}
		r.filled = true
	}
	e.pool.each(n, h, e.norm1)
	e.multiply(product{w: &l.q, dst: e.q, src: e.a}, product{w: &l.k, dst: e.k, src: e.a}, product{w: &l.v, dst: e.v, src: e.a})
	e.pool.each(n, l.Heads*l.HeadDim, e.rows)
	e.pool.each(n*l.KVHeads, l.Heads/l.KVHeads*l.HeadDim*(1+(len(see.cells)+len(see.rows))/n), e.attend)
	e.multiply(product{w: &l.o, dst: e.a, src: e.att})
	e.pool.each(n, h, e.residual)
	e.multiply(product{w: &l.gate, dst: e.gate, src: e.a}, product{w: &l.up, dst: e.up, src: e.a})
	e.pool.each(n, l.Intermediate*4, e.active)
	e.multiply(product{w: &l.down, dst: e.a, src: e.gate})
	e.pool.each(n, h, e.finish)
	for i, v := range e.x[:n*h] {
		out[i] = axcl.BFloat16(v)
	}
}

func (e *engine) row(b []float32, r, n int) []float32 { return b[r*n : (r+1)*n] }

func (e *engine) doNorm(_, r int) {
	h := e.l.Hidden
	rmsNorm(e.row(e.a, r, h), e.row(e.x, r, h), e.l.in, e.l.Eps)
}

// doRow adds biases, normalises and rotates one row's q and k, and rounds k and v to what a later call will read.
func (e *engine) doRow(_, r int) {
	l := e.l
	hd, d := l.HeadDim, l.KVHeads*l.HeadDim
	q, k, v := e.row(e.q, r, l.Heads*hd), e.row(e.k, r, d), e.row(e.v, r, d)
	add(q, l.qBias)
	add(k, l.kBias)
	add(v, l.vBias)
	for i := 0; i < len(q); i += hd {
		l.turn(q[i:i+hd], l.qNorm, r)
	}
	for i := 0; i < len(k); i += hd {
		l.turn(k[i:i+hd], l.kNorm, r)
	}
	for i := range d {
		e.kb[r*d+i], e.vb[r*d+i] = axcl.BFloat16(k[i]), axcl.BFloat16(v[i])
	}
}

// turn normalises a head, where the model does, and rotates its first part by row r's position.
func (l *layer) turn(x, norm []float32, r int) {
	if norm != nil {
		rmsNorm(x, x, norm, l.Eps)
	}
	half := len(l.rope.freq)
	cos, sin := l.rope.cos[r*half:], l.rope.sin[r*half:]
	for i := range half {
		a, b := x[i], x[i+half]
		x[i], x[i+half] = a*cos[i]-b*sin[i], b*cos[i]+a*sin[i]
	}
}

func add(x, y []float32) {
	for i, v := range y {
		x[i] += v
	}
}

// doAttend computes one row's attention for the heads that share one head of K and V.
func (e *engine) doAttend(worker, i int) {
	l, s := e.l, e.see
	r, g := i/l.KVHeads, i%l.KVHeads
	hd, rep := l.HeadDim, l.Heads/l.KVHeads
	from := (r*l.Heads + g*rep) * hd
	q := e.q[from : from+(rep+3)*hd] // three heads more than there are, for keys
	cells, rows := s.cells[s.cellAt[r]:s.cellAt[r+1]], s.rows[s.rowAt[r]:s.rowAt[r+1]]
	seen := len(cells) + len(rows)
	score := e.score[worker][:rep*seen]
	e.keys(score, q, cells, e.kc, g, seen)
	e.keys(score[len(cells):], q, rows, e.kb, g, seen)
	for h := range rep {
		sc := score[h*seen : (h+1)*seen]
		if s.cellAdd != nil {
			add(sc[:len(cells)], s.cellAdd[s.cellAt[r]:s.cellAt[r+1]])
			add(sc[len(cells):], s.rowAdd[s.rowAt[r]:s.rowAt[r+1]])
		}
		softmax(sc)
	}
	sum := e.sum[worker][:rep*hd]
	clear(sum)
	e.values(sum, score, cells, e.vc, g, seen)
	e.values(sum, score[len(cells):], rows, e.vb, g, seen)
	out := e.att[from : from+rep*hd]
	for i, v := range sum {
		out[i] = float32(v)
	}
}

// keys sets score[h·seen + j] to the scaled product of query head h with the row of k that list[j] names. Four heads are taken at a time, the
// last ones with heads that are not theirs, whose results are dropped: that is faster than one by one.
func (e *engine) keys(score, q []float32, list []int32, k []uint16, g, seen int) {
	hd, d, rep, scale := e.l.HeadDim, e.l.KVHeads*e.l.HeadDim, e.l.Heads/e.l.KVHeads, e.l.Scale
	var four [4]float32
	for j, row := range list {
		key := k[int(row)*d+g*hd:][:hd]
		if rep == 1 {
			score[j] = scale * dotBF16(key, q)
			continue
		}
		for h := 0; h < rep; h += 4 {
			dot4BF16(&four, key, q[h*hd:], hd)
			for m := range min(4, rep-h) {
				score[(h+m)*seen+j] = scale * four[m]
			}
		}
	}
}

// values adds to each head's sum the rows of v that list names, weighted by score.
func (e *engine) values(sum []float64, score []float32, list []int32, v []uint16, g, seen int) {
	hd, d, rep := e.l.HeadDim, e.l.KVHeads*e.l.HeadDim, e.l.Heads/e.l.KVHeads
	for j, row := range list {
		val := v[int(row)*d+g*hd:][:hd]
		for h := range rep {
			if p := score[h*seen+j]; p != 0 {
				axpyBF16(sum[h*hd:(h+1)*hd], float64(p), val)
			}
		}
	}
}

func softmax(x []float32) {
	top, total := float32(math.Inf(-1)), 0.0
	for _, v := range x {
		top = max(top, v)
	}
	for j, v := range x {
		x[j] = exp32(v - top)
		total += float64(x[j])
	}
	for i := range x {
		x[i] = float32(float64(x[i]) / total)
	}
}

// doResidual adds the attention's result to x and normalises for the MLP.
func (e *engine) doResidual(_, r int) {
	l, h := e.l, e.l.Hidden
	x, a := e.row(e.x, r, h), e.row(e.a, r, h)
	if l.Flags&axmodel.FlagGemma == 0 {
		add(x, a)
		rmsNorm(a, x, l.post, l.Eps)
		return
	}
	rmsNorm(a, a, l.post, l.Eps)
	add(x, a)
	rmsNorm(a, x, l.preMLP, l.Eps)
}

func (e *engine) doActive(_, r int) {
	gate, up := e.row(e.gate, r, e.l.Intermediate), e.row(e.up, r, e.l.Intermediate)
	f := silu
	if e.l.Activation == axmodel.GELU {
		f = gelu
	}
	for i, v := range gate {
		gate[i] = f(v) * up[i]
	}
}

func (e *engine) doFinish(_, r int) {
	l, h := e.l, e.l.Hidden
	x, a := e.row(e.x, r, h), e.row(e.a, r, h)
	if l.Flags&axmodel.FlagGemma != 0 {
		rmsNorm(a, a, l.postMLP, l.Eps)
	}
	add(x, a)
}
