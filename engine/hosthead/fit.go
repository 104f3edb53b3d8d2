package hosthead

import (
	"context"
	"math"
	"math/rand/v2"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
)

// pairs is how many pairs of probe rows there are: rows of ±1, and the same with all signs turned.
// More make the norm more exact, by the square root.
const pairs = 8

// Probes returns the hidden rows to send through the card's head, bf16, one after the other. A norm
// leaves a row of ±1 as it is. So its logits are sums of the table's columns, weighted by the
// norm's factors with these signs.
func Probes(hidden int) []uint16 {
	rows := make([]uint16, 2*pairs*hidden)
	for k, signs := range signs(hidden) {
		for i, s := range signs {
			v := axcl.BFloat16(s)
			rows[2*k*hidden+i], rows[(2*k+1)*hidden+i] = v, v^0x8000
		}
	}
	return rows
}

// ProbeRows is how many rows Probes returns.
const ProbeRows = 2 * pairs

func signs(hidden int) (out [pairs][]float32) {
	r := rand.New(rand.NewPCG(35, 1))
	for k := range out {
		out[k] = make([]float32, hidden)
		for i := range out[k] {
			out[k][i] = float32(1 - 2*int(r.Uint32()&1))
		}
	}
	return out
}

// Fitted is what the probes told of a head.
type Fitted struct {
	Norm []float32 // the final norm's factors, with every constant factor of the logits
	Bias []float32 // added to the logits; nil: none
}

// Most tokens that the norm is fitted to. The rest of the vocabulary tells nothing new.
const mostFitted = 16384

// every fourth token is not fitted to, and tells which of two fits is better.
const heldOut = 4

// Fit finds the factors of the final norm by least squares, from the card's logits for Probes. The
// logits are in bf16, Out for each row. Half the sum of a pair's logits is the bias, and half the
// difference belongs to the norm.
func Fit(ctx context.Context, s Source, logits []uint16) (*Fitted, error) {
	if len(logits) != ProbeRows*s.Out {
		return nil, refuse("%d logits of %d probe rows, want %d each", len(logits), ProbeRows, s.Out)
	}
	f := &Fitted{}
	odd := make([][]float32, pairs) // half the differences
	even := make([]float32, s.Out)
	biased := false
	for k := range odd {
		odd[k] = make([]float32, s.Out)
		for v := range odd[k] {
			a := uncap(axcl.Float32(logits[2*k*s.Out+v]), s.Cap)
			b := uncap(axcl.Float32(logits[(2*k+1)*s.Out+v]), s.Cap)
			odd[k][v] = (a - b) / 2
			even[v] += (a + b) / 2 / pairs
			biased = biased || a != -b
			if v < s.Tokens && !finite(odd[k][v]) {
				return nil, refuse("the card's logit of token %d for a probe row is not a number", v)
			}
		}
	}
	if biased {
		f.Bias = even
	}
	least := math.Inf(1)
	for _, r := range roundings {
		norm, residual, err := fit(ctx, s, odd, r)
		if err != nil {
			return nil, err
		}
		//rule:G27 TestFitFails false
		if residual > mostFit*mostFit { // whatever the rounding
			return nil, refuse("the table is not its matrix: %.2f of the card's logits for probe rows are not explained",
				math.Sqrt(residual))
		}
		if residual < least {
			f.Norm, least = norm, residual
		}
		if least < exactFit*exactFit {
			break
		}
	}
	return f, nil
}

// exactFit is the rest of a fit, relative to the logits, with which no other rounding can be the
// head's: not much more than what the logits lose by being bf16.
const exactFit = 0.005

// mostFit is the same with which no rounding can be the head's. Four bits leave 0.3.
const mostFit = 0.6

func finite(v float32) bool { return v-v == 0 }

// uncap undoes a cap of logits.
func uncap(y, limit float32) float32 {
	if limit <= 0 {
		return y
	}
	return limit * float32(math.Atanh(max(-0.99, min(0.99, float64(y/limit)))))
}

// fit solves the least squares with the table's rows rounded as the head's may be, and returns the
// rest that is left on held-out tokens.
func fit(ctx context.Context, s Source, odd [][]float32, how rounding) (norm []float32, residual float64, err error) {
	const chunk = 512 // tokens at a time
	n, set, signs := s.Hidden, kernel.Best(), signs(s.Hidden)
	known := min(s.Out, s.Tokens)
	stride := max(known/(mostFitted/(heldOut-1)*heldOut), 1)
	gram, right := make([]float64, n*n), make([]float64, n)
	columns, product := make([]float32, n*chunk), make([]float32, n*n)
	row := make([]float32, n)
	held := []int{}
	fitted, filled := 0, 0
	flush := func() {
		if filled == 0 {
			return
		}
		for i := range n {
			clear(columns[i*chunk+filled : (i+1)*chunk])
		}
		w := kernel.Weights{Rows: n, Cols: chunk, F32: columns}
		spread(n, kernel.Block, func(from, to int, scratch *kernel.Scratch) {
			set.Mul(product, &w, kernel.Input{F: columns}, n, from, to, scratch)
		})
		for i, v := range product {
			gram[i] += float64(v)
		}
		filled = 0
	}
	for i, v := 0, 0; v < known; i, v = i+1, v+stride {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if i%heldOut == 0 && known > heldOut {
			held = append(held, v)
			continue
		}
		ok, err := s.row(row, v)
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			continue
		}
		how.round(row)
		// A row's error is a part of its largest value, so it counts by that.
		top := float32(0)
		for _, x := range row {
			top = max(top, x, -x)
		}
		weight := 1 / (top * top)
		for j := range n {
			sum := float32(0)
			for k := range odd {
				sum += signs[k][j] * odd[k][v]
			}
			right[j] += float64(row[j] * sum * weight)
			columns[j*chunk+filled] = row[j] / top
		}
		fitted++
		if filled++; filled == chunk {
			flush()
		}
	}
	flush()
	if fitted*pairs < n {
		return nil, 0, refuse("%d tokens tell too little about a norm of %d factors", fitted, n)
	}
	for i := range n {
		for j := range n {
			sum := float32(0)
			for k := range signs {
				sum += signs[k][i] * signs[k][j]
			}
			gram[i*n+j] *= float64(sum)
		}
	}
	if !solve(gram, right, n) {
		return nil, 0, refuse("the table's rows do not tell the norm's factors apart")
	}
	norm = make([]float32, n)
	for i, v := range right {
		norm[i] = float32(v)
	}
	var rest, all float64
	for _, v := range held {
		if ok, err := s.row(row, v); err != nil || !ok {
			continue
		}
		how.round(row)
		for k := range odd {
			sum := float32(0)
			for j, x := range row {
				sum += x * norm[j] * signs[k][j]
			}
			rest += float64((sum - odd[k][v]) * (sum - odd[k][v]))
			all += float64(odd[k][v] * odd[k][v])
		}
	}
	return norm, rest / max(all, 1e-30), nil
}

// row reads a row of the table. It is not ok where there is nothing to learn from it: it holds
// zeros only, or cannot be read and belongs to no token.
func (s *Source) row(dst []float32, id int) (ok bool, err error) {
	raw := make([]uint16, s.Hidden)
	if err := s.Table.Unscaled(raw, int32(id)); err != nil && id >= s.Tokens {
		clear(dst)
		return false, nil
	} else if err != nil {
		return false, err
	}
	for i, v := range raw {
		dst[i] = axcl.Float32(v)
		ok = ok || dst[i] != 0
	}
	return ok, nil
}

// solve replaces b by the solution of the symmetric a·x = b, and reports whether there is one. Of
// a, n × n, the lower half is used, and overwritten (Cholesky).
func solve(a, b []float64, n int) bool {
	for i := range n {
		row := a[i*n : i*n+i+1]
		for j := range i + 1 {
			other := a[j*n : j*n+j+1]
			sum := row[j]
			for k, v := range other[:j] {
				sum -= row[k] * v
			}
			if j < i {
				row[j] = sum / other[j]
			} else if !(sum > 1e-9*math.Abs(a[0])) {
				return false
			} else {
				row[j] = math.Sqrt(sum)
			}
		}
	}
	for i := range n {
		for k := range i {
			b[i] -= a[i*n+k] * b[k]
		}
		b[i] /= a[i*n+i]
	}
	for i := n - 1; i >= 0; i-- {
		for k := i + 1; k < n; k++ {
			b[i] -= a[k*n+i] * b[k]
		}
		b[i] /= a[i*n+i]
	}
	return true
}
