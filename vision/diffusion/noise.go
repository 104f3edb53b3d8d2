package diffusion

import "math"

// block is how many values are made normal together.
const block = 16

// Noise is torch's generator on a CPU: the same seed gives the same normal numbers, as long as they
// are asked for in the same portions. The zero Noise is not usable.
type Noise struct {
	state [624]uint32 // of MT19937
	at    int
}

// NewNoise begins with a seed.
func NewNoise(seed uint32) *Noise {
	n := &Noise{at: 624}
	n.state[0] = seed
	for i := range uint32(623) {
		last := n.state[i]
		n.state[i+1] = 1812433253*(last^last>>30) + i + 1
	}
	return n
}

func (n *Noise) next() uint32 {
	s := &n.state
	if n.at == len(s) {
		for i := range s {
			y := s[i]&(1<<31) | s[(i+1)%624]&(1<<31-1)
			s[i] = s[(i+397)%624] ^ y>>1 ^ -(y&1)&0x9908b0df
		}
		n.at = 0
	}
	y := s[n.at]
	n.at++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (n *Noise) uniform(dst []float32) {
	for i := range dst {
		dst[i] = float32(n.next()&(1<<24-1)) / (1 << 24)
	}
}

// Fill fills dst, which has 16 values or more, as torch.randn fills a tensor of so many: with
// uniform numbers first, of which each block of 16 is made normal. Where 16 does not divide their
// number the last 16 are drawn anew. It panics where there are fewer: torch makes those otherwise.
func (n *Noise) Fill(dst []float32) {
	if len(dst) < block {
		panic("diffusion: fewer than 16 normal numbers")
	}
	n.uniform(dst)
	whole := len(dst) / block * block
	for at := 0; at < whole; at += block {
		normal(dst[at : at+block])
	}
	if whole < len(dst) {
		last := dst[len(dst)-block:]
		n.uniform(last)
		normal(last)
	}
}

// normal is the Box–Muller transform, rounded where torch rounds to float32.
func normal(v []float32) {
	for i := range block / 2 {
		u, w := 1-v[i], v[i+block/2]
		r := math.Sqrt(float64(-2 * float32(math.Log(float64(u)))))
		sin, cos := math.Sincos(float64(float32(2*math.Pi) * w))
		v[i], v[i+block/2] = float32(r*cos), float32(r*sin)
	}
}
