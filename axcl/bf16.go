package axcl

import "github.com/axle-llm/axle/internal/bf16"

// Float32 is the value of a bf16.
func Float32(v uint16) float32 { return bf16.Float32(v) }

// BFloat16 rounds to the nearest bf16, ties to even; NaN stays NaN.
func BFloat16(f float32) uint16 { return bf16.Round(f) }
