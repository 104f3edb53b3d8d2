package audio

import (
	"errors"
	"io"
	"math/bits"
)

// flac decodes the format of RFC 9639. It is ours since it is small, and the one for Go prints a
// line for each frame of 24 kHz, and knows neither 32 bits nor frames that leave their sample size
// to the header.
type flac struct {
	bitReader
	rate, channels, depth int
	total, done           int64   // samples; total is 0 where the file does not say
	sub                   []int64 // of the frame: channel by channel
	out                   []float32
}

func openFLAC(in *input) (source, Info, int64, error) {
	f := &flac{bitReader: bitReader{in: in}}
	fail := func(err error) (source, Info, int64, error) { return nil, Info{}, 0, err }
	if err := in.skip(4); err != nil {
		return fail(damaged("flac", "%w", err))
	}
	for first := true; ; first = false {
		last, kind, size := f.take(1), f.take(7), int64(f.take(24))
		if first {
			if kind != 0 || size < 34 {
				return fail(damaged("flac", "it does not begin with its header"))
			}
			f.take(32) // the least and largest block
			f.take(48) // and frame
			f.rate, f.channels, f.depth = int(f.take(20)), int(f.take(3))+1, int(f.take(5))+1
			f.total = int64(f.take(36))
			size -= 18
		}
		if f.err == nil {
			f.err = in.skip(size)
		}
		if f.err != nil {
			return fail(damaged("flac", "it ends in its header"))
		}
		if last == 1 {
			break
		}
	}
	return f, Info{"flac", f.rate, f.channels}, f.total, nil
}

func (f *flac) next() ([]float32, error) {
	if f.total > 0 && f.done >= f.total {
		return nil, io.EOF // tags may follow
	}
	if _, err := f.in.Peek(1); errors.Is(err, io.EOF) {
		if f.total > 0 {
			return nil, damaged("flac", "it ends after %d of %d samples", f.done, f.total)
		}
		return nil, io.EOF
	}
	n, err := f.frame()
	switch {
	case f.err != nil: // the rest of the frame was read from nothing
		return nil, damaged("flac", "it ends in a frame")
	case err != nil:
		return nil, err
	}
	if cap(f.out) < n {
		f.out = make([]float32, n)
	}
	out := f.out[:n]
	scale := 1 / (float64(f.channels) * float64(int64(1)<<(f.depth-1)))
	for i := range out {
		var sum int64
		for c := range f.channels {
			sum += f.sub[c*n+i]
		}
		out[i] = float32(float64(sum) * scale)
	}
	f.done += int64(n)
	if f.total > 0 && f.done > f.total {
		out = out[:n-int(f.done-f.total)]
	}
	return out, nil
}

// How the two channels of a frame are stored.
const (
	flacLeftSide  = 8
	flacSideRight = 9
	flacMidSide   = 10
)

// frame reads one into sub, and says how many samples a channel has.
func (f *flac) frame() (int, error) {
	f.crc8, f.crc16 = 0, 0
	if f.take(15) != 0x7ffc {
		return 0, damaged("flac", "no frame where one should be")
	}
	f.take(1) // whether blocks differ in size
	size, rate, layout, depth := f.take(4), f.take(4), int(f.take(4)), f.take(3)
	reserved := f.take(1)
	lead := bits.LeadingZeros8(^uint8(f.take(8))) // of the frame's number, as in UTF-8
	for range lead - 1 {
		f.take(8)
	}
	n := 0
	switch {
	case size == 0:
	case size == 1:
		n = 192
	case size < 6:
		n = 576 << (size - 2)
	case size < 8:
		n = int(f.take(uint(size-5)*8)) + 1
	default:
		n = 256 << (size - 8)
	}
	hz := [...]int{f.rate, 88200, 176400, 192000, 8000, 16000, 22050, 24000, 32000, 44100, 48000, 96000, 0, 0, 0, 0}[rate]
	switch rate {
	case 12:
		hz = int(f.take(8)) * 1000
	case 13:
		hz = int(f.take(16))
	case 14:
		hz = int(f.take(16)) * 10
	}
	deep := [...]int{f.depth, 8, 12, 0, 16, 20, 24, 32}[depth]
	channels := layout + 1
	if layout >= flacLeftSide {
		channels = 2
	}
	sum := f.crc8
	if uint8(f.take(8)) != sum {
		return 0, damaged("flac", "a frame's header has the wrong checksum")
	}
	switch {
	case n == 0 || layout > flacMidSide || reserved != 0 || lead == 1 || lead == 8:
		return 0, damaged("flac", "a frame's header makes no sense")
	case hz != f.rate || channels != f.channels || deep != f.depth:
		return 0, unsupported("flac", "its rate, channels or bits change from %d, %d, %d to %d, %d, %d", f.rate, f.channels, f.depth,
			hz, channels, deep)
	}
	if cap(f.sub) < n*channels {
		f.sub = make([]int64, n*channels)
	}
	f.sub = f.sub[:n*channels]
	for c := range channels {
		wide := uint(deep)
		if layout == flacSideRight && c == 0 || (layout == flacLeftSide || layout == flacMidSide) && c == 1 {
			wide++
		}
		if err := f.subframe(f.sub[c*n:][:n], wide); err != nil {
			return 0, err
		}
	}
	f.n = 0 // up to the next byte
	want := f.crc16
	if uint16(f.take(16)) != want {
		return 0, damaged("flac", "a frame has the wrong checksum")
	}
	if layout >= flacLeftSide {
		unpair(f.sub[:n], f.sub[n:], layout)
	}
	return n, nil
}

// unpair makes left and right of what is stored.
func unpair(a, b []int64, layout int) {
	for i, x := range a {
		switch y := b[i]; layout {
		case flacLeftSide:
			b[i] = x - y
		case flacSideRight:
			a[i] = x + y
		case flacMidSide:
			x = x<<1 | y&1
			a[i], b[i] = (x+y)>>1, (x-y)>>1
		}
	}
}

// subframe reads a channel of a frame.
func (f *flac) subframe(out []int64, wide uint) error {
	if f.take(1) != 0 {
		return damaged("flac", "a subframe's header makes no sense")
	}
	kind := int(f.take(6))
	wasted := uint(0)
	if f.take(1) == 1 {
		wasted = uint(f.unary()) + 1
	}
	if wasted >= wide {
		return damaged("flac", "a subframe of %d bits wastes %d", wide, wasted)
	}
	wide -= wasted
	order := 0
	switch {
	case kind == 0:
		x := f.signed(wide)
		for i := range out {
			out[i] = x
		}
	case kind == 1:
		for i := range out {
			out[i] = f.signed(wide)
		}
	case kind >= 8 && kind <= 12:
		order = kind - 8
	case kind >= 32:
		order = kind - 31
	default:
		return damaged("flac", "a subframe of kind %d", kind)
	}
	if kind > 1 {
		if order > len(out) {
			return damaged("flac", "a subframe of %d samples is predicted from %d", len(out), order)
		}
		for i := range order {
			out[i] = f.signed(wide)
		}
		factors, shift := flacFixed[min(order, 4)], uint(0)
		if kind >= 32 {
			precise := uint(f.take(4)) + 1
			s := f.signed(5)
			if precise == 16 || s < 0 {
				return damaged("flac", "a subframe's prediction makes no sense")
			}
			shift = uint(s)
			var own [32]int64
			for i := range order {
				own[i] = f.signed(precise)
			}
			factors = own[:order]
		}
		if err := f.residual(out, order); err != nil {
			return err
		}
		for i := order; i < len(out); i++ {
			var sum int64
			for j, c := range factors {
				sum += c * out[i-1-j]
			}
			out[i] += sum >> shift
		}
	}
	if wasted > 0 {
		for i := range out {
			out[i] <<= wasted
		}
	}
	return nil
}

// flacFixed are the factors of the predictors that need no factors in the file.
var flacFixed = [5][]int64{{}, {1}, {2, -1}, {3, -3, 1}, {4, -6, 4, -1}}

// residual reads what the prediction is off by, into out after its first order samples.
func (f *flac) residual(out []int64, order int) error {
	method, split := f.take(2), f.take(4)
	if method > 1 {
		return damaged("flac", "a residual of kind %d", method)
	}
	width := uint(4 + method)
	each := len(out) >> split
	if each<<split != len(out) || each < order {
		return damaged("flac", "%d samples in %d parts", len(out), 1<<split)
	}
	at := order
	for part := range 1 << split {
		k := uint(f.take(width))
		end := (part + 1) * each
		if k == 1<<width-1 {
			wide := uint(f.take(5))
			for ; at < end; at++ {
				out[at] = f.signed(wide)
			}
			continue
		}
		for ; at < end; at++ {
			x := f.unary()<<k | f.take(k)
			out[at] = int64(x>>1) ^ -int64(x&1)
		}
		if f.err != nil {
			return nil // which next looks at
		}
	}
	return nil
}

// bitReader reads bits, the highest of a byte first. After an error everything is 0.
type bitReader struct {
	in    *input
	acc   uint64
	n     uint // how many bits of acc are still to be taken: fewer than 8
	crc8  uint8
	crc16 uint16
	err   error
}

// take reads up to 48 bits.
func (b *bitReader) take(k uint) uint64 {
	for b.n < k {
		c, err := b.in.ReadByte()
		if err != nil {
			b.err, b.n = noEOF(err), 0
			return 0
		}
		b.crc8 = crc8Table[b.crc8^c]
		b.crc16 = b.crc16<<8 ^ crc16Table[byte(b.crc16>>8)^c]
		b.acc = b.acc<<8 | uint64(c)
		b.n += 8
	}
	b.n -= k
	return b.acc >> b.n & (1<<k - 1)
}

// signed reads a number of two's complement.
func (b *bitReader) signed(k uint) int64 {
	if k == 0 {
		return 0
	}
	return int64(b.take(k)<<(64-k)) >> (64 - k)
}

// unary reads zeros up to a one.
func (b *bitReader) unary() (zeros uint64) {
	for b.err == nil {
		if b.n == 0 {
			b.take(8)
			if b.err != nil {
				break
			}
			b.n = 8
		}
		rest := b.acc & (1<<b.n - 1)
		if rest != 0 {
			lead := b.n - uint(bits.Len64(rest))
			b.n -= lead + 1
			return zeros + uint64(lead)
		}
		zeros += uint64(b.n)
		b.n = 0
	}
	return 0
}

var crc8Table, crc16Table = crcTables()

func crcTables() (t8 [256]uint8, t16 [256]uint16) {
	for i := range 256 {
		a, b := uint8(i), uint16(i)<<8
		for range 8 {
			a = a<<1 ^ a>>7*0x07
			b = b<<1 ^ b>>15*0x8005
		}
		t8[i], t16[i] = a, b
	}
	return t8, t16
}
