package kernel

import (
	"encoding/binary"
	"math"
	"runtime"
)

// The plain kernels: the reference for all others, and what runs where there are none. A product
// that must not be fused with the sum it is added to is converted to float32 first, which Go's
// rules ask a compiler to respect.

func mulFloatGo(dst []float32, w *Weights, x []float32, n, from, to int) {
	for o := from; o < to; o++ {
		for r := range n {
			in := x[r*w.Cols : (r+1)*w.Cols]
			at := w.at(o, 0)
			switch {
			case w.Fours != nil:
				dst[r*w.Rows+o] = dotBF16Go(w.Fours[at:], in, fourLine)
			case w.BF16 != nil:
				dst[r*w.Rows+o] = dotBF16Go(w.BF16[at:], in, line)
			default:
				dst[r*w.Rows+o] = dotF32Go(w.F32[at:at+w.Cols], in)
			}
		}
	}
}

// The dot products leave what is left of a step of eight to their caller.

// dotBF16Go takes a row whose lines are pitch values apart.
func dotBF16Go(w []uint16, x []float32, pitch int) float32 {
	var a, b, c, d, e, f, g, h float32
	for i := 0; i+8 <= len(x); i += 8 {
		v, y := w[i/line*pitch+i%line:][:8:8], x[i:i+8:i+8]
		a += wide(v[0]) * y[0]
		b += wide(v[1]) * y[1]
		c += wide(v[2]) * y[2]
		d += wide(v[3]) * y[3]
		e += wide(v[4]) * y[4]
		f += wide(v[5]) * y[5]
		g += wide(v[6]) * y[6]
		h += wide(v[7]) * y[7]
	}
	return ((a + b) + (c + d)) + ((e + f) + (g + h))
}

func dotF32Go(w []float32, x []float32) float32 {
	var a, b, c, d, e, f, g, h float32
	for i := 0; i+8 <= len(w); i += 8 {
		v, y := w[i:i+8:i+8], x[i:i+8:i+8]
		a += v[0] * y[0]
		b += v[1] * y[1]
		c += v[2] * y[2]
		d += v[3] * y[3]
		e += v[4] * y[4]
		f += v[5] * y[5]
		g += v[6] * y[6]
		h += v[7] * y[7]
	}
	return ((a + b) + (c + d)) + ((e + f) + (g + h))
}

func mulQuantisedGo(dst []float32, w *Weights, x []byte, n, from, to int) {
	nb := blocks(w.Cols)
	var v [block]int8
	for o := from; o < to; o++ {
		for r := range n {
			var lanes [8]float32
			in := x[r*nb*blockBytes:]
			for b := range nb {
				w.unpack(&v, o, b)
				q, at := in[b*blockBytes:(b+1)*blockBytes], block
				if w.Q8 != nil {
					at = fineScale
				}
				scale := w.scale(o, b) * math.Float32frombits(binary.LittleEndian.Uint32(q[at:]))
				for l := range lanes {
					var sum int32
					for i := 4 * l; i < 4*l+4; i++ {
						y := int32(int8(q[i]))
						if w.Q8 != nil {
							y = int32(fineValue(q, i))
						}
						sum += int32(v[i]) * y
					}
					lanes[l] += float32(float32(sum) * scale)
				}
			}
			dst[r*w.Rows+o] = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))
		}
	}
}

// unpack gives the values of row o's block b.
func (w *Weights) unpack(v *[block]int8, o, b int) {
	at := (o/eight*blocks(w.Cols)+b)*block*eight + o%eight*4
	for i := range v {
		if w.Q8 != nil {
			v[i] = int8(w.Q8[at+i/4*32+i%4])
			continue
		}
		x := w.Q4[at/2+o%eight*2+i%16/4*32+i%4] >> (i / 16 * 4)
		v[i] = int8(x&15) - 8
	}
}

// quantiseGo rounds one block to sixteen bits, and these to eight.
func quantiseGo(dst []byte, x []float32) {
	top := float32(0)
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v))))
	}
	inverse := finest / top
	if !(inverse < float32(math.Inf(1))) {
		inverse = 0
	}
	for i, v := range x {
		y := math.RoundToEven(float64(float32(v * inverse)))
		if y != y { // what is no number makes the scale none, and so the result
			y = 0
		}
		setFine(dst, i, int16(y))
	}
	scale := top / finest
	binary.LittleEndian.PutUint32(dst[block:], math.Float32bits(256*scale))
	binary.LittleEndian.PutUint32(dst[fineScale:], math.Float32bits(scale))
}

// setFine writes value i, which is v; fineValue reads it. On arm64, which multiplies bytes, the
// values of eight bits and what they leave of the sixteen, as bytes with a sign each; elsewhere,
// where pairs of words are multiplied, both even values of four before both odd ones, which is how
// bytes of weights become words.
func setFine(b []byte, i int, v int16) {
	b[i] = byte((v + 128) >> 8)
	if runtime.GOARCH == "arm64" {
		b[fine+i] = byte(v)
		return
	}
	binary.LittleEndian.PutUint16(b[fineWord(i):], uint16(v))
}

func fineValue(b []byte, i int) int16 {
	if runtime.GOARCH == "arm64" {
		return int16(int8(b[i]))<<8 + int16(int8(b[fine+i]))
	}
	return int16(binary.LittleEndian.Uint16(b[fineWord(i):]))
}

func fineWord(i int) int { return fine + 2*(i&^3|i&1<<1|i>>1&1) }

func keysGo(dst []float32, stride int, keys []uint16, keyStride, count int, q []float32, n, hd int) {
	for j := range count {
		for i := range n {
			dst[i*stride+j] = dotBF16Go(keys[j*keyStride:j*keyStride+hd], q[i*hd:(i+1)*hd], line)
		}
	}
}

func valuesGo(sum, p, v []float64, cells, n, hd, from int) {
	for i := range n {
		y := sum[i*hd : (i+1)*hd]
		for c := range cells {
			f, row := p[i*cellTile+c], v[c*hd:(c+1)*hd]
			for k := from; k < hd; k++ {
				y[k] += float64(f * row[k])
			}
		}
	}
}
