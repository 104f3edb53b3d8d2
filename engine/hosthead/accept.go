package hosthead

import (
	"math"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft/kernel"
)

// LeastRows is how many real rows Accept needs.
const LeastRows = 16

// The limits of Accept. A tied head in bf16 leaves 0.0025 of the logits' deviation, and one in 8
// bits as much as rounding the table's rows does, 0.01 to 0.02. A head of another matrix leaves 1.
const (
	mostRest  = 1.5   // times what the rounding leaves
	leastRest = 0.006 // always allowed
	mostCubic = 0.02  // the cubic term at the largest logit, relative to the linear one
	mostToken = 0.5   // of one token's logits over all rows, in deviations of the logits
	perRest   = 12    // or as many times what all leave
	looked    = 4096  // tokens that the first three are taken from
	flat      = 0.9   // of the cap: logits beyond are rounded too roughly to undo it
)

// Report is how near a head on the host is to the card's.
type Report struct {
	Rest  float64 // of the logits' deviation, that the host's logits leave
	Limit float64
	Bits  int // the rounding that explains the card's logits best: 0, 8 or 4 bits
	Cubic float64
	Token float64 // the worst token's rest
	Worst int     // and which it is
}

// Accept compares the head with the card's logits, bf16, for real hidden rows, bf16. It returns a
// *Refusal if the two do not compute the same but for rounding.
func (h *Head) Accept(rows [][]uint16, logits []uint16) (Report, error) {
	var rep Report
	s := &h.s
	known := min(s.Out, s.Tokens)
	if len(rows) < LeastRows || len(logits) != len(rows)*s.Out {
		return rep, refuse("%d rows with %d logits are too few to compare", len(rows), len(logits))
	}
	card := make([]float32, len(logits))
	h.set.Widen(card, logits)
	for i, v := range card {
		if id := i % s.Out; id < known && !finite(v) {
			return rep, refuse("the card's logit of token %d is not a number", id)
		}
	}
	rep, err := h.compare(rows, card)
	if err != nil {
		return rep, err
	}
	// Every token, by the file's own weights.
	out := make([]uint16, len(logits))
	if err := h.Run(rows, out, nil); err != nil {
		return rep, err
	}
	var mean, square float64
	n := float64(len(rows) * known)
	for r := range rows {
		for _, v := range card[r*s.Out:][:known] {
			mean += float64(v) / n
			square += float64(v) * float64(v) / n
		}
	}
	deviation := math.Sqrt(max(square-mean*mean, 1e-30))
	for id := range known {
		sum := 0.0
		for r := range rows {
			d := float64(axcl.Float32(out[r*s.Out+id]) - card[r*s.Out+id])
			sum += d * d
		}
		if rest := math.Sqrt(sum/float64(len(rows))) / deviation; rest > rep.Token || math.IsNaN(rest) {
			rep.Token, rep.Worst = rest, id
		}
	}
	//rule:G27 TestRefused false
	if !(rep.Token <= max(mostToken, perRest*rep.Rest)) {
		return rep, refuse("row %d of the table is not the card's: its logits are off by %.2f of their deviation", rep.Worst,
			rep.Token)
	}
	return rep, nil
}

// compare holds the table and the norm against the card's logits on some of the tokens.
func (h *Head) compare(rows [][]uint16, card []float32) (rep Report, err error) {
	s := &h.s
	known := min(s.Out, s.Tokens)
	x := make([]float32, len(rows)*s.Hidden)
	for r, row := range rows {
		at := x[r*s.Hidden:][:s.Hidden]
		h.set.Widen(at, row)
		h.set.RMSNorm(at, at, h.norm, s.Eps)
	}
	stride := max(known/looked, 1)
	count := (known + stride - 1) / stride
	// z are the logits of the table with each rounding, count × rows.
	z := make([][]float32, len(roundings))
	for k := range z {
		z[k] = make([]float32, count*len(rows))
	}
	errs := make([]error, count)
	spread(count, 32, func(from, to int, _ *kernel.Scratch) {
		plain, row := make([]float32, s.Hidden), make([]float32, s.Hidden)
		for i := from; i < to; i++ {
			if _, errs[i] = s.row(plain, i*stride); errs[i] != nil {
				return
			}
			for k, how := range roundings {
				copy(row, plain)
				how.round(row)
				for r := range rows {
					var sum float32
					for j, v := range x[r*s.Hidden:][:s.Hidden] {
						sum += v * row[j]
					}
					z[k][i*len(rows)+r] = sum
				}
			}
		}
	})
	for _, e := range errs {
		if e != nil {
			return rep, e
		}
	}
	// y are the card's logits, without cap and bias. Where the cap has flattened one, it tells
	// nothing.
	y := make([]float32, count*len(rows))
	var mean, square float64
	for i := range count {
		for r := range rows {
			at, v := i*len(rows)+r, card[r*s.Out+i*stride]
			if s.Cap > 0 && !(max(v, -v) < flat*s.Cap) {
				for k := range z {
					z[k][at] = 0
				}
				continue
			}
			y[at] = uncap(v, s.Cap)
			if h.bias != nil {
				y[at] -= h.bias[i*stride]
			}
			mean, square = mean+float64(y[at]), square+float64(y[at])*float64(y[at])
		}
	}
	n := float64(len(y))
	deviation := math.Sqrt(max(square/n-mean/n*mean/n, 1e-30))
	rest := func(a, b []float32) float64 {
		sum := 0.0
		for i, v := range a {
			d := float64(v - b[i])
			sum += d * d
		}
		return math.Sqrt(sum/n) / deviation
	}
	rep.Rest, rep.Limit = rest(y, z[0]), leastRest
	best, least := 0, rep.Rest
	for k, how := range roundings[1:] {
		predicted, own := rest(z[0], z[k+1]), rest(y, z[k+1])
		// Eight bits may have been rounded in another way. Four are so rough that another matrix
		// could hide behind them, so their own rounding must explain most of it.
		if how == int8Row || own < predicted/2 {
			rep.Limit = max(rep.Limit, mostRest*predicted)
		}
		if own < least {
			best, least = k+1, own
		}
	}
	rep.Bits = roundings[best].bits
	//rule:G27 TestRefused false
	if !(rep.Rest <= rep.Limit) {
		return rep, refuse("the table is not its matrix, or it computes something else: the card's logits are off by %.3f of "+
			"their deviation, and rounding explains %.3f", rep.Rest, rep.Limit)
	}
	// y = a·z + b·z³ by least squares.
	var zz, zzzz, z6, yz, yz3, top float64
	for i, v := range z[best] {
		q := float64(v) * float64(v)
		zz, zzzz, z6 = zz+q, zzzz+q*q, z6+q*q*q
		yz, yz3 = yz+float64(y[i])*float64(v), yz3+float64(y[i])*float64(v)*q
		top = max(top, q)
	}
	if det := zz*z6 - zzzz*zzzz; det > 0 {
		a, b := (yz*z6-yz3*zzzz)/det, (yz3*zz-yz*zzzz)/det
		rep.Cubic = math.Abs(b/a) * top
	}
	//rule:G27 TestRefused false
	if rep.Cubic > mostCubic {
		return rep, refuse("its logits bend: they are capped in a way that the configuration does not name (the cubic term is %.3f)",
			rep.Cubic)
	}
	return rep, nil
}
