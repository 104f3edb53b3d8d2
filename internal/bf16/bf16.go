// Package bf16 converts between float32 and bf16, the upper half of a float32. It is the one place
// that rounds, below everything that computes or stores bf16: cards, their kernels, and packages.
//
// Functions are safe for concurrent use. Nothing here holds a resource.
package bf16

import "math"

// Float32 is the value of a bf16.
func Float32(v uint16) float32 { return math.Float32frombits(uint32(v) << 16) }

// Round rounds to the nearest bf16, ties to even; NaN stays NaN.
func Round(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
