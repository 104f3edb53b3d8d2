package audio

import (
	"crypto/md5"
	"fmt"
	"math/bits"
)

// flacBlock is how many samples a frame has; flacSplit says into how many parts, as a power of two,
// its residual is split.
const (
	flacBlock = 4096
	flacSplit = 4
)

// AppendFLAC appends a flac file of mono samples of 16 bits, rounded as [AppendPCM] does. It panics
// if rate is not from 1 to 655,350.
func AppendFLAC(dst []byte, samples []float32, rate int) []byte {
	checkFLACRate(rate)
	dst = streamInfo(dst, rate, len(samples), md5.Sum(AppendPCM(nil, samples)))
	return (&FLAC{rate: rate, begun: true}).Append(dst, samples, true)
}

// A FLAC writes a flac file of samples that come in pieces, as [AppendFLAC] does one whose samples
// are all there. The file says neither how many samples it has nor their sum, for which the format
// has a value. It belongs to one goroutine.
type FLAC struct {
	rate  int
	begun bool      // the head is written
	rest  []float32 // fewer than a frame has
	next  int       // the frame's number
}

// NewFLAC begins a file. It panics if rate is not from 1 to 655,350.
func NewFLAC(rate int) *FLAC {
	checkFLACRate(rate)
	return &FLAC{rate: rate}
}

// Append appends what can be written of the file with these samples behind those before. A frame
// that is not full is kept for the next call, unless this is the last.
func (f *FLAC) Append(dst []byte, samples []float32, last bool) []byte {
	if !f.begun {
		f.begun = true
		dst = streamInfo(dst, f.rate, 0, [md5.Size]byte{})
	}
	if len(f.rest) > 0 {
		samples = append(f.rest, samples...)
	}
	w := bitWriter{b: dst}
	var block [flacBlock]int64
	for len(samples) >= flacBlock || last && len(samples) > 0 {
		n := min(flacBlock, len(samples))
		for i, x := range samples[:n] {
			block[i] = int64(pcm16(x))
		}
		samples = samples[n:]
		w.frame(block[:n], f.next)
		f.next++
	}
	f.rest = append([]float32(nil), samples...)
	return w.b
}

func checkFLACRate(rate int) {
	if rate < 1 || rate > 655350 {
		panic(fmt.Sprintf("audio: a flac of %d samples a second", rate))
	}
}

// streamInfo appends what is before the frames. No samples, and a sum of zeros, are those that are
// not known.
func streamInfo(dst []byte, rate, samples int, sum [md5.Size]byte) []byte {
	w := bitWriter{b: append(dst, "fLaC"...)}
	w.put(0x80000022, 32) // the last block before sound, 34 bytes
	w.put(flacBlock<<16|flacBlock, 32)
	w.put(0, 48)                                // sizes of frames: unknown
	w.put(uint64(rate)<<12|(16-1)<<4, 20+3+5+4) // one channel, 16 bits, and the number's highest bits
	w.put(uint64(samples), 32)
	return append(w.b, sum[:]...)
}

// frame writes one channel's samples.
func (w *bitWriter) frame(s []int64, number int) {
	start := len(w.b)
	w.put(0xfff8, 16)
	w.put(0x7008, 16) // the block's size follows in 16 bits; the rate is the file's
	w.number(uint32(number))
	w.put(uint64(len(s)-1), 16)
	var c8 uint8
	for _, x := range w.b[start:] {
		c8 = crc8Table[c8^x]
	}
	w.put(uint64(c8), 8)
	w.subframe(s)
	if w.n > 0 {
		w.put(0, 8-w.n)
	}
	var c16 uint16
	for _, x := range w.b[start:] {
		c16 = c16<<8 ^ crc16Table[byte(c16>>8)^x]
	}
	w.put(uint64(c16), 16)
}

// number writes as UTF-8 does, which goes on to 36 bits here.
func (w *bitWriter) number(x uint32) {
	if x < 0x80 {
		w.put(uint64(x), 8)
		return
	}
	more := (bits.Len32(x) - 2) / 5 // bytes after the first, which has 6 − more bits
	w.put(uint64(0xff<<(7-more)&0xff)|uint64(x>>(6*more)), 8)
	for more--; more >= 0; more-- {
		w.put(uint64(0x80|x>>(6*more)&0x3f), 8)
	}
}

// subframe writes the smallest of what the fixed predictors give, and the samples as they are.
func (w *bitWriter) subframe(s []int64) {
	split := min(flacSplit, bits.TrailingZeros(uint(len(s))))
	var rest [5][]uint64 // what each predictor is off by, folded to be positive
	best, least := -1, 16*len(s)
	for order := range min(5, len(s)) {
		if len(s)>>split < order {
			continue
		}
		r := make([]uint64, 0, len(s))
		for i := order; i < len(s); i++ {
			d := s[i]
			for j, c := range flacFixed[order] {
				d -= c * s[i-1-j]
			}
			r = append(r, uint64(d<<1^d>>63))
		}
		rest[order] = r
		size := 6 + 16*order
		for part := range 1 << split {
			p := residualPart(r, len(s), order, split, part)
			k := riceParameter(p)
			size += 4 + len(p)*(1+int(k))
			for _, x := range p {
				size += int(x >> k)
			}
		}
		if size < least {
			best, least = order, size
		}
	}
	if best < 0 {
		w.put(1<<1, 8)
		for _, x := range s {
			w.put(uint64(uint16(x)), 16)
		}
		return
	}
	w.put(uint64(8+best)<<1, 8)
	for _, x := range s[:best] {
		w.put(uint64(uint16(x)), 16)
	}
	w.put(uint64(split), 2+4)
	for part := range 1 << split {
		p := residualPart(rest[best], len(s), best, split, part)
		k := riceParameter(p)
		w.put(uint64(k), 4)
		for _, x := range p {
			for q := x >> k; q > 0; {
				zeros := min(q, 32)
				w.put(0, uint(zeros))
				q -= zeros
			}
			w.put(1<<k|x&(1<<k-1), k+1)
		}
	}
}

// residualPart is a part of a residual of a block of n samples: the first lacks the order samples
// that are predicted from.
func residualPart(r []uint64, n, order, split, part int) []uint64 {
	each := n >> split
	return r[max(0, part*each-order) : (part+1)*each-order]
}

// riceParameter is how many low bits are stored as they are: near the mean's.
func riceParameter(p []uint64) uint {
	var sum uint64
	for _, x := range p {
		sum += x
	}
	if len(p) == 0 {
		return 0
	}
	return uint(min(14, max(0, bits.Len64(sum/uint64(len(p)))-1)))
}

// bitWriter appends bits, the highest of a byte first.
type bitWriter struct {
	b   []byte
	acc uint64
	n   uint // bits of acc that are not in b yet: fewer than 8
}

// put writes the low k bits of x, up to 48.
func (w *bitWriter) put(x uint64, k uint) {
	w.acc = w.acc<<k | x
	for w.n += k; w.n >= 8; w.n -= 8 {
		w.b = append(w.b, byte(w.acc>>(w.n-8)))
	}
}
