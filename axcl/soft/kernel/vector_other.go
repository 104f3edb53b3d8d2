//go:build !amd64 || purego

package kernel

// No assembly: the callers do all of it.

func (s Set) quantise(dst []byte, x []float32, blocks int) {
	for b := range blocks {
		quantiseGo(dst[b*blockBytes:], x[b*block:(b+1)*block])
	}
}

func (s Set) doubleF32(dst []float64, src []float32) {
	for i := range dst {
		dst[i] = float64(src[i])
	}
}

func (s Set) doubleBF16(dst []float64, src []uint16) {
	for i := range dst {
		dst[i] = float64(wide(src[i]))
	}
}

func (s Set) widen([]float32, []uint16) int              { return 0 }
func (s Set) narrow([]uint16, []float32) int             { return 0 }
func (s Set) largest(x []float32) (float32, int)         { return x[0], 0 }
func (s Set) expSum([]float32, float32) (float64, int)   { return 0, 0 }
func (s Set) scale([]float32, float32) int               { return 0 }
func (s Set) single([]float32, []float64) int            { return 0 }
func (s Set) add(_, _ []float32) int                     { return 0 }
func (s Set) rotate(_, _, _, _ []float32) int            { return 0 }
func (s Set) silu([]float32, []float32) int              { return 0 }
func (s Set) gelu([]float32, []float32) int              { return 0 }
func (s Set) squares([]float32) (float64, int)           { return 0, 0 }
func (s Set) normalise(_, _, _ []float32, _ float32) int { return 0 }
