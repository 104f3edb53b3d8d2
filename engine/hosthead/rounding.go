package hosthead

import (
	"math"

	"github.com/axle-llm/axle/axmodel"
)

// rounding is a way in which a compiler may have rounded the head's matrix. The zero rounding
// leaves rows as they are.
type rounding struct {
	bits  int // of an integer; one scale for a row, if kind is 0
	kind  axmodel.DType
	group int // values with a scale of their own
}

var int8Row = rounding{bits: 8}

// roundings are those that are known, the likeliest first.
var roundings = []rounding{{}, int8Row, {8, axmodel.Int8Groups, 128}, {8, axmodel.Int8Groups, 32}, {bits: 4},
	{4, axmodel.Int4Groups, 128}, {4, axmodel.Int4Groups, 32}}

// round replaces the values by what the rounding leaves of them. Values that it cannot keep stay.
func (r rounding) round(row []float32) {
	switch {
	case r.kind != 0:
		_ = r.kind.Round(row, r.group)
	case r.bits != 0:
		top := float32(0)
		for _, v := range row {
			top = max(top, v, -v)
		}
		step := float64(top) / float64(int(1)<<(r.bits-1)-1)
		for i, v := range row {
			if step > 0 {
				row[i] = float32(math.RoundToEven(float64(v)/step) * step)
			}
		}
	}
}
