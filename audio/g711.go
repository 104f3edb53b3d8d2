package audio

import "math"

// AppendMuLaw appends samples as bytes of the µ-law of ITU-T G.711. What is louder than it can say
// is as loud as it can.
func AppendMuLaw(dst []byte, samples []float32) []byte {
	for _, x := range samples {
		v, sign := magnitude(x, 1<<13)
		v = min(v+33, 1<<13-1)
		exp := max(math.Ilogb(float64(v))-5, 0)
		dst = append(dst, ^(sign | byte(exp)<<4 | byte(v>>(exp+1)&15)))
	}
	return dst
}

// AppendALaw appends samples as bytes of the A-law of ITU-T G.711. What is louder than it can say
// is as loud as it can.
func AppendALaw(dst []byte, samples []float32) []byte {
	for _, x := range samples {
		v, sign := magnitude(x, 1<<12)
		v = min(v, 1<<12-1)
		exp, low := 0, v>>1
		if v >= 32 {
			exp = math.Ilogb(float64(v)) - 4
			low = v >> exp
		}
		dst = append(dst, (sign^0x80|byte(exp)<<4|byte(low&15))^0x55)
	}
	return dst
}

// magnitude is how far a sample is from silence, of full, and the bit that says that it is below.
func magnitude(x float32, full int) (v int, sign byte) {
	if math.Signbit(float64(x)) {
		x, sign = -x, 0x80
	}
	if !(x > 0) { // what is no number is silence
		return 0, sign
	}
	return int(min(float64(x), 1) * float64(full)), sign
}
