package audio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFLACFrames: frames by hand, of what encoders write seldom. A frame has four samples of 16
// bits.
func TestFLACFrames(t *testing.T) {
	left, right := []int64{1000, -2000, 32767, -32768}, []int64{-999, -2000, -32768, 32767}
	both := []int64{1, -4000, -1, -1} // their sums
	raw := func(w *bitWriter, k uint, values ...int64) {
		for _, x := range values {
			w.put(uint64(x)&(1<<k-1), k)
		}
	}
	verbatim := func(w *bitWriter, k uint, values []int64) {
		w.put(1<<1, 8)
		raw(w, k, values...)
	}
	side := make([]int64, 4)
	for i := range side {
		side[i] = left[i] - right[i]
	}
	for _, c := range []struct {
		name   string
		layout uint32
		write  func(w *bitWriter)
		want   []int64 // sums of the channels
		says   string
	}{
		{"left and right", 1, func(w *bitWriter) { verbatim(w, 16, left); verbatim(w, 16, right) }, both, ""},
		{"left and side", flacLeftSide, func(w *bitWriter) { verbatim(w, 16, left); verbatim(w, 17, side) }, both, ""},
		{"side and right", flacSideRight, func(w *bitWriter) { verbatim(w, 17, side); verbatim(w, 16, right) }, both, ""},
		{"middle and side", flacMidSide, func(w *bitWriter) {
			verbatim(w, 16, []int64{0, -2000, -1, -1})
			verbatim(w, 17, side)
		}, both, ""},
		{"wasted bits", 0, func(w *bitWriter) {
			w.put(1<<1|1, 8)
			w.put(1, 3) // three of them
			raw(w, 13, 1, -1, 4095, -4096)
		}, []int64{8, -8, 32760, -32768}, ""},
		{"a residual as it is", 0, func(w *bitWriter) {
			w.put(9<<1, 8) // order 1
			raw(w, 16, 100)
			w.put(0, 6)
			w.put(15<<5|6, 9)
			raw(w, 6, -32, 31, 5)
		}, []int64{100, 68, 99, 104}, ""},
		{"a residual of no bits", 0, func(w *bitWriter) {
			w.put(9<<1, 8)
			raw(w, 16, 100)
			w.put(0, 6)
			w.put(15<<5, 9)
		}, []int64{100, 100, 100, 100}, ""},
		{"parameters of five bits", 0, func(w *bitWriter) {
			w.put(8<<1, 8)
			w.put(1<<4, 6)
			w.put(16, 5)
			raw(w, 17, 1<<16|6, 1<<16|7, 1<<16, 1<<16|65535)
		}, []int64{3, -4, 0, -32768}, ""},
		{"a prediction of its own", 0, func(w *bitWriter) {
			w.put(33<<1, 8) // order 2
			raw(w, 16, 40, 50)
			w.put(4, 4) // factors of five bits
			w.put(2, 5) // over four
			raw(w, 5, 8, -4)
			w.put(0, 6)
			w.put(0, 4)
			raw(w, 1, 1, 1)
		}, []int64{40, 50, 60, 70}, ""},
		{"all bits wasted", 0, func(w *bitWriter) { w.put(1<<1|1, 8); w.put(1, 16) }, nil, "16 bits wastes 16"},
		{"a first bit", 0, func(w *bitWriter) { w.put(0x82, 8) }, nil, "subframe's header"},
		{"a reserved kind", 0, func(w *bitWriter) { w.put(13<<1, 8) }, nil, "kind 13"},
		{"an order of 5 for 4 samples", 0, func(w *bitWriter) { w.put(36<<1, 8) }, nil, "predicted from 5"},
		{"factors of 16 bits", 0, func(w *bitWriter) { w.put(32<<1, 8); w.put(0, 16); w.put(15<<5, 9) }, nil, "prediction"},
		{"a shift to the left", 0, func(w *bitWriter) { w.put(32<<1, 8); w.put(0, 16); w.put(16, 9) }, nil, "prediction"},
		{"a reserved residual", 0, func(w *bitWriter) { w.put(8<<1, 8); w.put(2<<4, 6) }, nil, "residual of kind 2"},
		{"more parts than samples", 0, func(w *bitWriter) { w.put(8<<1, 8); w.put(3, 6) }, nil, "4 samples in 8 parts"},
		{"parts shorter than the order", 0, func(w *bitWriter) { w.put(11<<1, 8); w.put(0, 48); w.put(1, 6) }, nil, "4 samples in 2 parts"},
	} {
		channels := 1
		if c.layout > 0 {
			channels = 2
		}
		w := bitWriter{b: flacHead(8000, channels, 16, 0)}
		start := len(w.b)
		w.flacFrame(c.layout, 0, 4)
		c.write(&w)
		w.flacEnd(start)
		got, _, err := Decode(w.b, 0, Limits{})
		if c.says != "" {
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		var want []float32
		for _, x := range c.want {
			want = append(want, float32(x)/float32(channels<<15))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, want)
		}
		for at, says := range map[int]string{start + 4: "header has the wrong checksum", len(w.b) - 1: "frame has the wrong checksum"} {
			w.b[at] ^= 1
			_, _, err := Decode(w.b, 0, Limits{})
			if w.b[at] ^= 1; !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), says) {
				t.Errorf("%s, byte %d changed: %v", c.name, at, err)
			}
		}
	}
}

// TestFLACKinds: frames of all depths, pairs, sizes, predictions and residuals hold the samples
// that an encoder of this test's own put there.
func TestFLACKinds(t *testing.T) {
	depths, layouts := []int{8, 12, 16, 20, 24, 32}, []int{0, 1, 2, 7, flacLeftSide, flacSideRight, flacMidSide}
	var e flacCoder
	for i := range 39 * len(depths) * len(layouts) { // 39 kinds of subframes
		e.rng = rand.New(rand.NewPCG(uint64(i), 1))
		e.depth, e.layout, e.kind = depths[i/39/len(layouts)], layouts[i/39%len(layouts)], i%39
		e.w = bitWriter{}
		var want []float32
		n := 0
		for range 1 + e.rng.IntN(3) {
			want = append(want, e.frame(n)...)
			n = len(want)
		}
		channels := e.layout + 1
		if e.layout >= flacLeftSide {
			channels = 2
		}
		total := uint64(n) * e.rng.Uint64N(2)
		file := append(flacHead(8000, channels, e.depth, total), e.w.b...)
		got, _, err := Decode(file, 0, Limits{})
		if err != nil || !slices.Equal(got, want) {
			at := 0
			for at < min(n, len(got)) && got[at] == want[at] {
				at++
			}
			t.Errorf("%d: %d bits, layout %d, kind %d: %d samples of %d are right, %v", i, e.depth, e.layout, e.kind, at, n, err)
		}
	}
	for kind, n := range e.did {
		if n < 20 {
			t.Errorf("%s: %d times", kind, n)
		}
	}
	if len(e.did) != 39+9 {
		t.Errorf("these were tested: %v", e.did)
	}
}

// flacCoder writes frames of random sounds, as the format's text says and not as our encoder does.
type flacCoder struct {
	rng                 *rand.Rand
	w                   bitWriter
	depth, layout, kind int
	did                 map[string]int // how often something was written
}

func (e *flacCoder) note(what string) {
	if e.did == nil {
		e.did = map[string]int{}
	}
	e.did[what]++
}

// frame writes one that begins at a sample, and returns the mean of its channels.
func (e *flacCoder) frame(at int) (want []float32) {
	sizes := []struct{ code, n int }{{1, 192}, {2, 576}, {3, 1152}, {8, 256}, {9, 512},
		{6, 33 + e.rng.IntN(224)}, {7, 33 + e.rng.IntN(700)}}
	size := sizes[e.rng.IntN(len(sizes))]
	channels := e.sound(size.n)
	for i := range size.n {
		sum := int64(0)
		for _, c := range channels {
			sum += c[i]
		}
		want = append(want, float32(float64(sum)/float64(len(channels))/math.Exp2(float64(e.depth-1))))
	}
	start, w := len(e.w.b), &e.w
	w.put(0x3ffe<<1, 15)
	if e.rng.IntN(2) == 0 {
		e.note("blocks of different sizes")
		w.put(1, 1)
		at += int(e.rng.Int64N(1 << 35)) // as of a stream that began long ago
	} else {
		w.put(0, 1)
		at = e.rng.IntN(1 << 31)
	}
	rate := []int{0, 4, 12, 13, 14}[e.rng.IntN(5)]
	w.put(uint64(size.code), 4)
	w.put(uint64(rate), 4)
	w.put(uint64(e.layout), 4)
	w.put(uint64(map[int]int{8: 1, 12: 2, 16: 4, 20: 5, 24: 6, 32: 7}[e.depth]*e.rng.IntN(2)), 3)
	w.put(0, 1)
	if at < 0x80 {
		w.put(uint64(at), 8)
	} else {
		more := 1
		for at>>(5*more+6) > 0 && more < 6 {
			more++
		}
		w.put(uint64(0xfe<<(6-more)&0xff|at>>(6*more)), 8)
		for more--; more >= 0; more-- {
			w.put(uint64(0x80|at>>(6*more)&0x3f), 8)
		}
	}
	switch size.code {
	case 6:
		w.put(uint64(size.n-1), 8)
	case 7:
		w.put(uint64(size.n-1), 16)
	}
	switch rate {
	case 12:
		w.put(8, 8)
	case 13:
		w.put(8000, 16)
	case 14:
		w.put(800, 16)
	}
	var c8 uint8
	for _, x := range w.b[start:] {
		c8 = crc8Table[c8^x]
	}
	w.put(uint64(c8), 8)
	wide := []int{e.depth, e.depth}
	if e.layout >= flacLeftSide {
		l, r := channels[0], channels[1]
		side, middle := make([]int64, size.n), make([]int64, size.n)
		for i := range side {
			side[i], middle[i] = l[i]-r[i], (l[i]+r[i])>>1
		}
		switch e.layout {
		case flacLeftSide:
			channels, wide[1] = [][]int64{l, side}, e.depth+1
		case flacSideRight:
			channels, wide[0] = [][]int64{side, r}, e.depth+1
		case flacMidSide:
			channels, wide[1] = [][]int64{middle, side}, e.depth+1
		}
	}
	for i, c := range channels {
		e.subframe(c, wide[i%2])
	}
	w.flacEnd(start)
	return want
}

// sound is channels that are like each other. What its predictions are off by has fewer than 32
// bits, as the format wants it.
func (e *flacCoder) sound(n int) (channels [][]int64) {
	count := min(e.layout+1, 8)
	if e.layout >= flacLeftSide {
		count = 2
	}
	low := 0
	if e.rng.IntN(3) == 0 {
		low = 1 + e.rng.IntN(5)
	}
	full := math.Exp2(float64(e.depth - 1))
	step, level := e.rng.Float64()/50, 0.2*e.rng.Float64()
	for c := range count {
		s := make([]int64, n)
		for i := range s {
			switch x := level*math.Sin(step*float64(i)) + 1e-3*(e.rng.Float64()-0.5); {
			case e.kind == 0:
				s[i] = int64(0.9 * full * (0.5 - float64(c%2)))
			case e.kind == 1: // the loudest that there is, the channels against each other
				s[i] = int64(full) - 1
				if (i+c)%2 == 0 {
					s[i] = -int64(full)
				}
				s[i] ^= e.rng.Int64N(4)
			default:
				s[i] = int64(full * x)
			}
			s[i] = s[i] >> low << low
		}
		channels = append(channels, s)
	}
	return channels
}

// subframe writes a channel: constant, as it is, predicted by one of five rules, or by factors of
// its own for one to 32 samples before.
func (e *flacCoder) subframe(s []int64, wide int) {
	raw := func(x int64, k int) { e.w.put(uint64(x)&(1<<k-1), uint(k)) }
	all := int64(0)
	for _, x := range s {
		all |= x
	}
	wasted := 0
	if all != 0 && e.rng.IntN(3) > 0 {
		wasted = min(bits.TrailingZeros64(uint64(all)), wide-1)
	}
	s = slices.Clone(s)
	for i := range s {
		s[i] >>= wasted
	}
	wide -= wasted
	code, order := e.kind, 0
	if e.kind >= 2 && e.kind < 7 {
		code, order = e.kind+6, e.kind-2
	} else if e.kind >= 7 {
		code, order = e.kind+25, e.kind-6
	}
	e.note(fmt.Sprint("kind ", e.kind))
	e.w.put(uint64(code), 7)
	if wasted > 0 {
		e.note("wasted bits")
		e.w.put(1, 1)
		e.w.put(1, uint(wasted))
	} else {
		e.w.put(0, 1)
	}
	switch e.kind {
	case 0:
		raw(s[0], wide)
		return
	case 1:
		for _, x := range s {
			raw(x, wide)
		}
		return
	}
	for _, x := range s[:order] {
		raw(x, wide)
	}
	rest := slices.Clone(s)
	if e.kind < 7 {
		for range order { // differences of differences
			for i := len(rest) - 1; i > 0; i-- {
				rest[i] -= rest[i-1]
			}
		}
	} else {
		precise, shift := 1+e.rng.IntN(15), e.rng.IntN(16)
		factors := make([]int64, order)
		if precise == 1 {
			factors[order-1] = -1
		} else {
			shift = max(shift, precise-2)
			for i := range factors { // few of each: the sum is to be small
				factors[i] = e.rng.Int64N(1+1<<max(0, precise-7)) - 1<<max(0, precise-8)
			}
			factors[[]int{0, order - 1}[e.rng.IntN(2)]] = 1<<(precise-2) - e.rng.Int64N(2)
		}
		raw(int64(precise-1), 4)
		raw(int64(shift), 5)
		for _, x := range factors {
			raw(x, precise)
		}
		for i := order; i < len(s); i++ {
			sum := int64(0)
			for j, x := range factors {
				sum += x * s[i-1-j]
			}
			rest[i] -= sum >> shift
		}
	}
	e.residual(rest, order)
}

// residual writes what predictions are off by, in parts with parameters of their own.
func (e *flacCoder) residual(rest []int64, order int) {
	n, split := len(rest), 0
	for most := e.rng.IntN(7); split < most && n>>(split+1)<<(split+1) == n && n>>(split+1) >= order; {
		split++
	}
	if split > 0 {
		e.note("parts")
	}
	method := e.rng.IntN(2)
	for _, x := range rest[order:] {
		if x >= 1<<20 || x < -1<<20 {
			method = 1 // the other has parameters up to 14
		}
	}
	e.note(fmt.Sprint("method ", method))
	e.w.put(uint64(method), 2)
	e.w.put(uint64(split), 4)
	for part := range 1 << split {
		values := rest[max(order, part*(n>>split)) : (part+1)*(n>>split)]
		wide, sum := 0, uint64(0)
		for _, x := range values {
			if x != 0 {
				wide = max(wide, 1+bits.Len64(uint64(x^x>>63)))
			}
			sum += uint64(max(x, -x))
		}
		if e.rng.IntN(4) == 0 && wide < 32 {
			e.note("as it is")
			if wide == 0 {
				e.note("of no bits")
			}
			e.w.put(uint64(16<<method-1), uint(4+method))
			e.w.put(uint64(wide), 5)
			for _, x := range values {
				e.w.put(uint64(x)&(1<<wide-1), uint(wide))
			}
			continue
		}
		k := 0
		if len(values) > 0 {
			k = min(bits.Len64(sum/uint64(len(values))), 14+16*method)
		}
		if k > 14 {
			e.note("a large parameter")
		}
		if k == 0 {
			e.note("a parameter of 0")
		}
		e.w.put(uint64(k), uint(4+method))
		for _, x := range values {
			folded := uint64(2 * x)
			if x < 0 {
				folded = uint64(-2*x - 1)
			}
			for range folded >> k {
				e.w.put(0, 1)
			}
			e.w.put(1, 1)
			e.w.put(folded&(1<<k-1), uint(k))
		}
	}
}

// TestFLACTotal: what the last frame has beyond the header's number of samples is left out.
func TestFLACTotal(t *testing.T) {
	s := tone(10, 8000, 440, 0.5)
	file := AppendFLAC(nil, s, 8000)
	whole, _, err := Decode(file, 0, Limits{})
	if err != nil || len(whole) != 10 {
		t.Fatal(len(whole), err)
	}
	binary.BigEndian.PutUint32(file[22:], 7)
	if got, _, err := Decode(file, 0, Limits{}); err != nil || !slices.Equal(got, whole[:7]) {
		t.Errorf("%v, %v; want %v", got, err, whole[:7])
	}
}

// TestFLACRate: a frame may name the file's rate, and no other.
func TestFLACRate(t *testing.T) {
	for code, ok := range map[byte]bool{4: true, 5: false} { // 8 and 16 kHz
		w := bitWriter{b: flacHead(8000, 1, 16, 0)}
		start := len(w.b)
		w.flacFrame(0, 0, 4)
		head := w.b[start:]
		head[2] |= code
		head[len(head)-1] = 0
		for _, x := range head[:len(head)-1] {
			head[len(head)-1] = crc8Table[head[len(head)-1]^x]
		}
		w.put(0, 24) // a constant
		w.flacEnd(start)
		_, _, err := Decode(w.b, 0, Limits{})
		if ok && err != nil || !ok && !errors.Is(err, ErrUnsupported) {
			t.Errorf("rate %d: %v", code, err)
		}
	}
}

// TestFLACNumber: numbers of frames are written as UTF-8 writes runes.
func TestFLACNumber(t *testing.T) {
	for _, x := range []rune{0, 0x7f, 0x80, 1023, 1024, 0x7ff, 0x800, 0xffff, 0x10000, utf8.MaxRune} {
		var w bitWriter
		if w.number(uint32(x)); !slices.Equal(w.b, utf8.AppendRune(nil, x)) {
			t.Errorf("%#x: % x", x, w.b)
		}
	}
}

// flacEnd fills up a frame's last byte and writes its checksum.
func (w *bitWriter) flacEnd(start int) {
	if w.n > 0 {
		w.put(0, 8-w.n)
	}
	var c16 uint16
	for _, x := range w.b[start:] {
		c16 = c16<<8 ^ crc16Table[byte(c16>>8)^x]
	}
	w.put(uint64(c16), 16)
}
