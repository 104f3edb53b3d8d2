package soft

import (
	"math"
	"slices"

	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
)

// layer is a decoder layer's weights.
type layer struct {
	*file
	in, post, preMLP, postMLP []float32 // norms
	qNorm, kNorm              []float32
	qBias, kBias, vBias       []float32
	q, k, v, o                kernel.Weights
	gate, up, down            kernel.Weights
	rope                      *rope
	linear                    *linear   // of a layer with a state, which has none of q, k, v, their norms and biases
	per                       *perLayer // of one that has layer inputs
	adapters                  []adapter // of the model's, what this layer takes of each
}

// rope is a table of rotations, shared by the layers that turn alike; filled once a pass.
type rope struct {
	freq      []float32
	axis      []uint8 // which of a row's positions each frequency takes; nil: the only one
	magnitude float32
	cos, sin  []float32 // rows × len(freq)
	filled    bool
}

// axes reads rope_axis; open has checked it.
func axes(f *file) (all []uint8) {
	for _, v := range f.vector("rope_axis") {
		all = append(all, uint8(v))
	}
	return all
}

func newLayer(f *file) *layer {
	l := &layer{
		file: f, in: f.norm("input_norm"), post: f.norm("post_norm"), preMLP: f.norm("pre_mlp_norm"), postMLP: f.norm("post_mlp_norm"),
		qNorm: f.norm("q_norm"), kNorm: f.norm("k_norm"), qBias: f.vector("q_bias"), kBias: f.vector("k_bias"), vBias: f.vector("v_bias"),
		q: f.matrix("q"), k: f.matrix("k"), v: f.matrix("v"), o: f.matrix("o"), gate: f.matrix("gate"), up: f.matrix("up"),
		down: f.matrix("down"),
		rope: &rope{freq: f.vector("inv_freq"), axis: axes(f), magnitude: f.Magnitude},
	}
	if f.Kind == axmodel.Linear {
		l.linear = newLinear(f)
	}
	if f.Kind == axmodel.Layer && f.Flags&axmodel.FlagGemma4 != 0 {
		l.per = newPerLayer(f)
	}
	return l
}

// gated says whether q is twice as wide, and half of it a gate.
func (l *layer) gated() bool { return l.Flags&axmodel.FlagGate != 0 }

// shares says whether the layer uses another's K and V.
func (l *layer) shares() bool { return l.Flags&axmodel.FlagShares != 0 }

// sight is what the rows of a call see: for row r the cache rows Cells[CellAt[r]:CellAt[r+1]] and,
// of this call, Rows[RowAt[r]:RowAt[r+1]], itself among them. The scores' addends lie beside them,
// or are nil where all are zero. Rows of a run see the same cells, and of this call's rows each
// what the one before it sees and perhaps more: their attention is computed together.
type sight struct {
	cells, rows     []int32
	cellAdd, rowAdd []float32
	cellAt, rowAt   []int32
	runs            []run
	lengths         []int32 // of each row's list of rows
}

// run is n rows from first on.
type run struct{ first, n int32 }

func (s *sight) reset() {
	s.cells, s.rows, s.cellAdd, s.rowAdd = s.cells[:0], s.rows[:0], s.cellAdd[:0], s.rowAdd[:0]
	s.cellAt, s.rowAt = append(s.cellAt[:0], 0), append(s.rowAt[:0], 0)
	s.runs, s.lengths = s.runs[:0], s.lengths[:0]
}

// endRow ends a row's lists. It joins the run of the row before where the lists allow it, and that
// has fewer than most rows.
func (s *sight) endRow(most int) {
	s.cellAt, s.rowAt = append(s.cellAt, int32(len(s.cells))), append(s.rowAt, int32(len(s.rows)))
	r := int32(len(s.lengths))
	s.lengths = append(s.lengths, s.rowAt[r+1]-s.rowAt[r])
	if last := len(s.runs) - 1; last >= 0 && int(s.runs[last].n) < most && s.follows(r) {
		s.runs[last].n++
		return
	}
	s.runs = append(s.runs, run{r, 1})
}

// follows says whether row r sees the cells of the row before it, and that row's rows before
// others.
func (s *sight) follows(r int32) bool {
	cells, rows := s.of(r)
	before, fewer := s.of(r - 1)
	return len(rows) >= len(fewer) && slices.Equal(cells, before) && slices.Equal(rows[:len(fewer)], fewer)
}

// of is what row r sees.
func (s *sight) of(r int32) (cells, rows []int32) {
	return s.cells[s.cellAt[r]:s.cellAt[r+1]], s.rows[s.rowAt[r]:s.rowAt[r+1]]
}

// product is one matrix product of a phase: dst = w · src for every row.
type product struct {
	w      *kernel.Weights
	dst    []float32
	blocks int // tasks it is cut into, of step rows of w each
	step   int
}

// engine computes layers and heads on a pool. Its memory is made once for the most rows and the
// largest layer; a call allocates nothing.
type engine struct {
	pool *pool
	set  kernel.Set

	// the call at hand
	l      *layer
	n      int
	pos    []uint32
	see    *sight
	out    []uint16
	raw    []uint16
	kc, vc []uint16 // the layer's cache

	x, a, q, k, v, att, gate, up []float32
	qg                           []float32 // queries and gates, as they are multiplied
	kb, vb                       []uint16  // the call's K and V
	lin                          mixing    // the same of layers with a state
	per, inputs                  []float32 // of layers that have layer inputs: what is made of them, and they
	with                         adapter   // the call's; empty: none
	work                         []workroom
	products                     []product
	in                           kernel.Input
	q8                           []byte // an input for weights that are quantised
	cols                         int    // of the input
	together, turns              int    // rows of a task, and tasks for all rows

	begin, rows, attend, residual, active, finish, blocks, round, convolve, recall, layerInput, end func(worker, i int)
}

// workroom is what a worker computes attention in.
type workroom struct {
	*kernel.Scratch
	q, score []float32
	sum      []float64
	s        []float32 // a head's state
}

// heads is how many rows' heads one task of attention takes at the most, but for those of one row,
// which are never parted.
const heads = 24

// together is how many rows that is at the most.
func together(l *layer) int {
	if l.linear != nil {
		return 1
	}
	return max(heads*l.KVHeads/l.Heads, 1)
}

// size is what an engine must hold.
type size struct {
	rows, hidden, q, kv, inter, seen, rep, hd int
	quantised                                 int // columns of the widest matrix that is quantised
	gated                                     int // queries and gates of a row
	inputs                                    int // of a row of layer inputs
	linearSize
}

func (s *size) grow(l *layer, rows, cells int) {
	s.rows, s.hidden, s.inter = max(s.rows, rows), max(s.hidden, l.Hidden), max(s.inter, l.Intermediate)
	weights := []*kernel.Weights{&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down}
	if l.linear != nil {
		s.growLinear(l)
		weights = append(weights, &l.linear.qkv, &l.linear.z, &l.linear.a, &l.linear.b)
	} else {
		s.q, s.kv = max(s.q, l.Heads*l.HeadDim), max(s.kv, l.KVHeads*l.HeadDim)
		s.seen, s.rep, s.hd = max(s.seen, cells+rows), max(s.rep, l.Heads/l.KVHeads), max(s.hd, l.HeadDim)
		if l.gated() {
			s.gated = max(s.gated, 2*l.Heads*l.HeadDim)
		}
		if l.per != nil {
			s.inputs = max(s.inputs, l.Out)
			weights = append(weights, &l.per.gate, &l.per.proj)
		}
	}
	for _, w := range weights {
		if w.Quantised() {
			s.quantised = max(s.quantised, w.Cols)
		}
	}
}

// heads is how many heads a worker's room is for.
func (s *size) heads() int { return max(heads, s.rep) }

// bytes is what newEngine allocates for a pool of this many.
func (s *size) bytes(threads int) int64 {
	rows, h := int64(s.rows), int64(s.heads())
	return rows*int64(kernel.QuantisedBytes(s.quantised)) +
		4*rows*int64(2*s.hidden+s.q+s.gated+2*s.inputs+3*s.kv+max(s.q, s.hidden)+2*s.inter) + s.linearBytes(rows, threads) +
		int64(threads)*(h*int64(4*s.seen+12*s.hd)+kernel.ScratchBytes(s.rows, int(h), s.hd))
}

func newEngine(p *pool, set kernel.Set, s size) *engine {
	f := func(n int) []float32 { return make([]float32, s.rows*n) }
	e := &engine{pool: p, set: set, x: f(s.hidden), a: f(s.hidden), q: f(s.q), k: f(s.kv), v: f(s.kv), att: f(max(s.q, s.hidden)),
		gate: f(s.inter), up: f(s.inter), qg: f(s.gated), lin: newMixing(s), per: f(s.inputs), inputs: f(s.inputs),
		kb: make([]uint16, s.rows*s.kv), vb: make([]uint16, s.rows*s.kv), products: make([]product, 0, 4),
		q8: make([]byte, s.rows*kernel.QuantisedBytes(s.quantised))}
	for range p.n {
		h := s.heads()
		e.work = append(e.work, workroom{Scratch: kernel.NewScratch(s.rows, h, s.hd), q: make([]float32, h*s.hd),
			score: make([]float32, h*s.seen), sum: make([]float64, h*s.hd),
			s: make([]float32, s.state)})
	}
	e.begin, e.rows, e.attend, e.residual, e.active, e.finish, e.blocks, e.round = e.doBegin, e.doRow, e.doAttend, e.doResidual,
		e.doActive, e.doFinish, e.doBlock, e.doRound
	e.convolve, e.recall, e.layerInput, e.end = e.doConvolve, e.doRecall, e.doLayerInput, e.doEnd
	return e
}

// multiply runs products of the same input side by side.
func (e *engine) multiply(src []float32, ps ...product) {
	e.in.F, e.cols = src, ps[0].w.Cols
	total, work := 0, 0
	e.products = e.products[:0]
	if slices.ContainsFunc(ps, func(p product) bool { return p.w.Quantised() }) {
		e.in.Q = e.q8
		e.pool.each(e.n, e.cols, e.round)
	}
	for _, p := range ps {
		p.step = step(p.w, e.n)
		p.blocks = (p.w.Rows + p.step - 1) / p.step
		total += p.blocks
		work += p.w.Rows * p.w.Cols
		e.products = append(e.products, p)
	}
	// More workers than blocks share the rows, too.
	e.together, e.turns = e.n, 1
	if e.n >= 48 && total < 4*e.pool.n {
		e.turns = min((4*e.pool.n+total-1)/total, e.n/24)
		e.together = (e.n + e.turns - 1) / e.turns
		e.turns = (e.n + e.together - 1) / e.together
	}
	e.pool.each(total*e.turns, work*e.n/(total*e.turns)+1, e.blocks)
}

// step is how many rows of a matrix make a task for n rows of input: some ten kilobytes to read at
// least, and whole eights, as integers are multiplied. Many rows of input are read once for each
// task, so that one takes as many rows of weights as are unpacked together.
func step(w *kernel.Weights, n int) int {
	if n >= kernel.Together {
		return kernel.Block
	}
	return min(max(1<<14/w.Cols&^7, 8), kernel.Block)
}

func (e *engine) doBlock(worker, i int) {
	r := i % e.turns * e.together
	i /= e.turns
	n := min(e.together, e.n-r)
	for k := range e.products {
		p := &e.products[k]
		if i < p.blocks {
			e.set.Mul(p.dst[r*p.w.Rows:], p.w, e.in.From(r, p.w.Cols), n, i*p.step, min((i+1)*p.step, p.w.Rows), e.work[worker].Scratch)
			return
		}
		i -= p.blocks
	}
}

// doRound makes one row of an input ready for weights that are quantised.
func (e *engine) doRound(_, r int) {
	n := kernel.QuantisedBytes(e.cols)
	e.set.Quantise(e.in.Q[r*n:(r+1)*n], e.in.F[r*e.cols:(r+1)*e.cols])
}

// run computes one layer for n rows: in and out are n × hidden, kc and vc the cache, whose rows see
// names. The call's own K and V are left in e.kb and e.vb; where the layer shares another's they
// are there already. Its layer inputs are in e.inputs.
func (e *engine) run(l *layer, n int, out, in []uint16, pos []uint32, kc, vc []uint16, see *sight) {
	e.l, e.n, e.pos, e.kc, e.vc, e.see, e.out, e.raw = l, n, pos, kc, vc, see, out, in
	h, d, r := l.Hidden, l.KVHeads*l.HeadDim, l.rope
	if l.Flags&axmodel.FlagShapeOnly != 0 {
		copy(out, in[:n*h])
		clear(e.kb[:n*d])
		clear(e.vb[:n*d])
		return
	}
	if half := len(r.freq); !r.filled && half > 0 {
		r.cos, r.sin = slices.Grow(r.cos[:0], n*half)[:n*half], slices.Grow(r.sin[:0], n*half)[:n*half]
		of := len(pos) / n
		for i := range n * half {
			at := i / half * of
			if r.axis != nil {
				at += int(r.axis[i%half])
			}
			s, c := math.Sincos(float64(float32(pos[at]) * r.freq[i%half]))
			r.cos[i], r.sin[i] = float32(c)*r.magnitude, float32(s)*r.magnitude
		}
		r.filled = true
	}
	e.pool.each(n, 2*h, e.begin)
	queries := e.q
	if l.gated() {
		queries = e.qg
	}
	if l.shares() {
		e.multiply(e.a, product{w: &l.q, dst: queries})
	} else {
		e.multiply(e.a, product{w: &l.q, dst: queries}, product{w: &l.k, dst: e.k}, product{w: &l.v, dst: e.v})
	}
	e.adapt(0, e.a, queries)
	e.adapt(1, e.a, e.k)
	e.adapt(2, e.a, e.v)
	e.pool.each(n, 4*l.Heads*l.HeadDim, e.rows)
	e.pool.each(len(see.runs)*l.KVHeads, l.Heads/l.KVHeads*l.HeadDim*(1+(len(see.cells)+len(see.rows))/len(see.runs)), e.attend)
	e.multiply(e.att, product{w: &l.o, dst: e.a})
	e.adapt(3, e.att, e.a)
	e.mlp()
}

// mlp ends a layer: e.a is what its attention adds, or the state that it has instead.
func (e *engine) mlp() {
	l, n, h := e.l, e.n, e.l.Hidden
	e.pool.each(n, 2*h, e.residual)
	e.multiply(e.a, product{w: &l.gate, dst: e.gate}, product{w: &l.up, dst: e.up})
	e.adapt(4, e.a, e.gate)
	e.adapt(5, e.a, e.up)
	e.pool.each(n, l.Intermediate*4, e.active)
	e.multiply(e.gate, product{w: &l.down, dst: e.a})
	e.adapt(6, e.gate, e.a)
	e.pool.each(n, 2*h, e.finish)
	if l.per != nil {
		e.addLayerInputs()
	}
}

func (e *engine) row(x []float32, r, n int) []float32 { return x[r*n : (r+1)*n] }

func (e *engine) doBegin(_, r int) {
	h := e.l.Hidden
	x := e.row(e.x, r, h)
	e.set.Widen(x, e.raw[r*h:(r+1)*h])
	e.set.RMSNorm(e.row(e.a, r, h), x, e.l.in, e.l.Eps)
}

// doRow adds biases, normalises and rotates one row's q and k, and rounds k and v to what a later
// call will read.
func (e *engine) doRow(_, r int) {
	l := e.l
	hd, d := l.HeadDim, l.KVHeads*l.HeadDim
	q, k, v := e.row(e.q, r, l.Heads*hd), e.row(e.k, r, d), e.row(e.v, r, d)
	if l.gated() { // the gates stay where they are
		both := e.row(e.qg, r, 2*l.Heads*hd)
		for i := 0; i < len(q); i += hd {
			copy(q[i:i+hd], both[2*i:])
		}
	}
	e.set.Add(q, l.qBias)
	for i := 0; i < len(q); i += hd {
		e.turn(q[i:i+hd], l.qNorm, r)
	}
	if l.shares() {
		return
	}
	e.set.Add(k, l.kBias)
	e.set.Add(v, l.vBias)
	for i := 0; i < len(k); i += hd {
		e.turn(k[i:i+hd], l.kNorm, r)
	}
	if l.per != nil {
		for i := 0; i < len(v); i += hd {
			e.set.RMSNorm(v[i:i+hd], v[i:i+hd], l.per.ones, l.Eps)
		}
	}
	e.set.Narrow(e.kb[r*d:(r+1)*d], k)
	e.set.Narrow(e.vb[r*d:(r+1)*d], v)
}

// turn normalises a head, where the model does, and rotates its first part by row r's position.
func (e *engine) turn(x, norm []float32, r int) {
	l := e.l
	if norm != nil {
		e.set.RMSNorm(x, x, norm, l.Eps)
	}
	half := len(l.rope.freq)
	cos, sin := l.rope.cos[r*half:][:half], l.rope.sin[r*half:][:half]
	e.set.Rotate(x[:half], x[half:][:half], cos, sin)
}

// doAttend computes the attention of a run's rows for the heads that share one head of K and V. The
// last row of a run sees what the others see and more: scores are computed for all of them as if
// they saw as much, and a row uses its part of them.
func (e *engine) doAttend(worker, i int) {
	l, s, room := e.l, e.see, &e.work[worker]
	turn, g := s.runs[i/l.KVHeads], i%l.KVHeads
	hd, d, rep := l.HeadDim, l.KVHeads*l.HeadDim, l.Heads/l.KVHeads
	first, rows := int(turn.first), int(turn.n)
	cells, mates := s.of(turn.first + turn.n - 1)
	seen, n := len(cells)+len(mates), rows*rep
	q, score, sum := room.q[:n*hd], room.score[:n*seen], room.sum[:n*hd]
	for r := range rows {
		copy(q[r*rep*hd:], e.q[((first+r)*l.Heads+g*rep)*hd:][:rep*hd])
	}
	e.set.Scale(q, l.Scale)
	e.set.Scores(score, seen, e.kc, d, g*hd, cells, q, n, hd, room.Scratch)
	e.set.Scores(score[len(cells):], seen, e.kb, d, g*hd, mates, q, n, hd, room.Scratch)
	for h := range n {
		r := first + h/rep
		sc := score[h*seen:][:len(cells)+int(s.lengths[r])]
		if s.cellAdd != nil {
			e.set.Add(sc[:len(cells)], s.cellAdd[s.cellAt[r]:s.cellAt[r+1]])
			e.set.Add(sc[len(cells):], s.rowAdd[s.rowAt[r]:s.rowAt[r+1]])
		}
		e.set.Softmax(sc)
	}
	clear(sum)
	lengths := s.lengths[first : first+rows]
	e.set.Values(sum, score, seen, e.vc, d, g*hd, cells, nil, rep, n, hd, room.Scratch)
	e.set.Values(sum, score[len(cells):], seen, e.vb, d, g*hd, mates, lengths, rep, n, hd, room.Scratch)
	for r := range rows {
		out := e.att[((first+r)*l.Heads+g*rep)*hd:][:rep*hd]
		e.set.Single(out, sum[r*rep*hd:])
		if l.gated() {
			both := e.qg[2*((first+r)*l.Heads+g*rep)*hd:][:2*rep*hd]
			for i := range out {
				out[i] *= sigmoid(both[i/hd*2*hd+hd+i%hd])
			}
		}
	}
}

// doResidual adds the attention's result to x and normalises for the MLP.
func (e *engine) doResidual(_, r int) {
	l, h := e.l, e.l.Hidden
	x, a := e.row(e.x, r, h), e.row(e.a, r, h)
	if l.Flags&axmodel.FlagGemma == 0 {
		e.set.Add(x, a)
		e.set.RMSNorm(a, x, l.post, l.Eps)
		return
	}
	e.set.RMSNorm(a, a, l.post, l.Eps)
	e.set.Add(x, a)
	e.set.RMSNorm(a, x, l.preMLP, l.Eps)
}

func (e *engine) doActive(_, r int) {
	gate, up := e.row(e.gate, r, e.l.Intermediate), e.row(e.up, r, e.l.Intermediate)
	if e.l.Activation == axmodel.GELU {
		e.set.GELU(gate, up)
	} else {
		e.set.SiLU(gate, up)
	}
}

func (e *engine) doFinish(_, r int) {
	l, h := e.l, e.l.Hidden
	x, a := e.row(e.x, r, h), e.row(e.a, r, h)
	if l.Flags&axmodel.FlagGemma != 0 {
		e.set.RMSNorm(a, a, l.postMLP, l.Eps)
	}
	e.set.Add(x, a)
	if l.per == nil {
		e.set.Narrow(e.out[r*h:(r+1)*h], x)
	}
}
