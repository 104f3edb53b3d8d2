package kernel

// Spin runs this many rounds of the instruction that products of bf16 weights end in, on registers
// alone, and gives how many multiplications of a weight with a value of a row that many
// instructions do in such products: what one processor can do at most. It is 0 for plain Go, which
// has no such instruction.
func (s Set) Spin(rounds int) int {
	if s == Go || rounds <= 0 {
		return 0
	}
	return rounds * s.spin(rounds)
}

// Read loads b from memory and keeps nothing of it, but for what plain Go needs to have read it: so
// fast can weights be had at most.
func (s Set) Read(b []byte) (kept byte) {
	if n := len(b) &^ 255; s != Go && n > 0 {
		s.read(&b[0], n)
		b = b[n:]
	}
	for _, v := range b {
		kept ^= v
	}
	return kept
}
