//go:build !amd64 || purego

package kernel

// Here is no assembly for the functions of a row: vector says that it takes none of their values.

func (s Set) vector(int) int { return 0 }

func quantiseAsm(*byte, *float32, int)                {}
func doubleF32(*float64, *float32, int)               {}
func doubleBF16(*float64, *uint16, int)               {}
func widenBF16(*float32, *uint16, int)                {}
func narrowAsm(*uint16, *float32, int)                {}
func scaleAsm(*float32, int, float32)                 {}
func singleAsm(*float32, *float64, int)               {}
func addAsm(_, _ *float32, _ int)                     {}
func rotateAsm(_, _, _, _ *float32, _ int)            {}
func siluAsm(_, _ *float32, _ int)                    {}
func geluAsm(_, _ *float32, _ int)                    {}
func normaliseAsm(_, _, _ *float32, _ int, _ float32) {}
func largestAsm(*float32, int) float32                { return 0 }
func expSumAsm(*float32, int, float32) float64        { return 0 }
func squaresAsm(*float32, int) float64                { return 0 }
