package audio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	mp3lib "github.com/hajimehoshi/go-mp3"
)

// mp3Delay is how many samples a decoder of layer III is late.
const mp3Delay = 529

// mp3 hands frames to the decoder one by one. The decoder by itself gives up at the first frame
// that it cannot decode, decodes noise where a stream was cut, believes the size of tags, and
// counts a byte too few in some frames of 22,050 Hz.
type mp3 struct {
	in        *input
	first     mp3Header
	synced    bool
	frame     []byte
	dec       *mp3lib.Decoder // nil: the next frame begins anew
	feed      bytes.Buffer    // what dec reads
	held      int             // bytes of main data of earlier frames that dec has
	reservoir []byte          // for 22,050 Hz: the last of these
	tail      int             // and how many of them dec has
	good, bad int             // frames: all good ones, and bad ones in a row
	skip      int64           // samples that are still to be dropped
	left      int64           // samples before the padding; −1: there is none to come
	padding   int64           // samples of it
	raw       []byte
	out       []float32
}

type mp3Header struct {
	version  int // 1, 2, or 25 for 2.5
	layer    int
	rate     int
	channels int
	size     int // bytes of the frame
	checked  int // bytes of its checksum
	side     int // bytes of its side information
	samples  int
}

// readMP3Header reads a frame's first four bytes. Of a layer other than III only the version, the
// layer and the rate are known then.
func readMP3Header(b []byte) (h mp3Header, ok bool) {
	x := binary.BigEndian.Uint32(b)
	version, layer, speed, rate := x>>19&3, x>>17&3, x>>12&15, x>>10&3
	if x>>21 != 0x7ff || version == 1 || layer == 0 || speed == 0 || speed == 15 || rate == 3 || x&3 == 2 {
		return h, false
	}
	h = mp3Header{version: [4]int{25, 0, 2, 1}[version], layer: 4 - int(layer), rate: [3]int{44100, 48000, 32000}[rate],
		channels: 2, checked: 2 * int(1-x>>16&1), side: 32, samples: 1152}
	kbits := [...]int{0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320}[speed]
	if x>>6&3 == 3 {
		h.channels, h.side = 1, 17
	}
	if h.version != 1 {
		kbits = [...]int{0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}[speed]
		h.rate /= 2
		h.samples = 576
		h.side = [3]int{0, 9, 17}[h.channels]
	}
	if h.version == 25 {
		h.rate /= 2
	}
	h.size = h.samples/8*kbits*1000/h.rate + int(x>>9&1)
	return h, h.layer != 3 || h.size >= 4+h.checked+h.side
}

// like says that two frames may be of one stream.
func (h mp3Header) like(o mp3Header) bool {
	return h.version == o.version && h.layer == o.layer && h.rate == o.rate
}

func openMP3(in *input, tagged bool) (source, Info, int64, error) {
	m := &mp3{in: in, left: -1}
	fail := func(err error) (source, Info, int64, error) { return nil, Info{}, 0, err }
	h, ok := m.nextFrame()
	if !ok {
		if tagged {
			return fail(damaged("mp3", "no frame follows its ID3 tag"))
		}
		return fail(fmt.Errorf("audio: %w", ErrFormat))
	}
	if h.version == 25 {
		return fail(unsupported("mp3", "MPEG 2.5 at %d samples a second", h.rate))
	}
	info := Info{"mp3", h.rate, h.channels}
	claim, isHeader := m.readTag(h)
	if isHeader {
		m.frame = nil
	}
	return m, info, claim, nil
}

// readTag looks whether the first frame is no sound but a description, as LAME and others write it.
func (m *mp3) readTag(h mp3Header) (claim int64, found bool) {
	is := func(b []byte, names ...string) bool { return len(b) >= 8 && slices.Contains(names, string(b[:4])) }
	if f := m.frame; len(f) > 36 && is(f[36:], "VBRI") {
		return 0, true
	}
	b := m.frame[4+h.side:] // LAME leaves no room for a checksum here, even where frames have one
	if !is(b, "Xing", "Info") {
		if b = b[h.checked:]; !is(b, "Xing", "Info") {
			return 0, false
		}
	}
	flags := binary.BigEndian.Uint32(b[4:])
	b = b[8:]
	frames := int64(0)
	for i, n := range []int{4, 4, 100, 4} { // frames, bytes, a table, quality
		if flags>>i&1 == 0 {
			continue
		}
		if len(b) < n {
			return 0, true
		}
		if i == 0 {
			frames = int64(binary.BigEndian.Uint32(b))
		}
		b = b[n:]
	}
	claim = frames * int64(h.samples)
	if len(b) < 24 || string(b[:4]) != "LAME" && string(b[:3]) != "Lav" {
		return claim, true
	}
	delay, padding := int64(b[21])<<4|int64(b[22])>>4, int64(b[22]&15)<<8|int64(b[23])
	m.skip = delay + mp3Delay
	if rest := claim - delay - padding; frames > 0 && rest > 0 {
		m.left, m.padding = rest, max(0, padding-mp3Delay)
		claim = rest
	}
	return claim, true
}

// nextFrame finds the next frame and copies it to m.frame. After what is no frame, one must be
// followed by another, or by the end.
func (m *mp3) nextFrame() (mp3Header, bool) {
	for {
		b, _ := m.in.Peek(4)
		if len(b) < 4 {
			return mp3Header{}, false
		}
		h, ok := readMP3Header(b)
		if ok && h.layer == 3 && (m.first.rate == 0 || h.like(m.first)) {
			b, _ = m.in.Peek(h.size + 4)
			if !m.synced && len(b) == h.size+4 {
				next, valid := readMP3Header(b[h.size:])
				ok = valid && next.like(h)
			}
			if ok && len(b) < h.size { // it was cut
				return h, false
			}
			if ok {
				m.frame = append(m.frame[:0], b[:h.size]...)
				_, _ = m.in.Discard(h.size)
				m.synced = true
				if m.first.rate == 0 {
					m.first = h
				}
				return h, true
			}
		}
		m.synced = false
		b, _ = m.in.Peek(m.in.Buffered())
		n := bytes.IndexByte(b[1:], 0xff)
		if n < 0 {
			n = len(b) - 1
		}
		_, _ = m.in.Discard(n + 1)
	}
}

func (m *mp3) next() ([]float32, error) {
	h, ok := m.first, len(m.frame) > 0
	if !ok {
		h, ok = m.nextFrame()
	}
	if !ok {
		if m.good == 0 {
			return nil, damaged("mp3", "none of its frames can be decoded")
		}
		return nil, io.EOF
	}
	if cap(m.raw) < h.samples*4 {
		m.raw, m.out = make([]byte, h.samples*4), make([]float32, h.samples)
	}
	raw, out := m.raw[:h.samples*4], m.out[:h.samples]
	if err := m.decode(h, raw); err != nil {
		// Players go on with silence. So does what comes from a radio, or was cut and joined.
		clear(raw)
		m.dec, m.held, m.reservoir, m.tail = nil, 0, m.reservoir[:0], 0
		if m.bad++; m.bad > 16 {
			return nil, damaged("mp3", "%d frames in a row cannot be decoded: %w", m.bad, err)
		}
	} else {
		m.good++
		m.bad = 0
	}
	m.frame = m.frame[:0]
	for i := range out {
		left, right := int16(binary.LittleEndian.Uint16(raw[i*4:])), int16(binary.LittleEndian.Uint16(raw[i*4+2:]))
		out[i] = float32(int(left)+int(right)) / (1 << 16)
	}
	drop := min(m.skip, int64(len(out)))
	m.skip -= drop
	out = out[drop:]
	if m.left >= 0 {
		m.left -= int64(len(out))
		if over := -m.left; over >= 0 { // the padding begins; another file may be joined behind it
			out = out[:int64(len(out))-over]
			m.left, m.skip = -1, max(0, m.padding-over)
		}
	}
	return out, nil
}

// decode decodes m.frame: two channels of 16 bits.
func (m *mp3) decode(h mp3Header, raw []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("its decoder gave up: %v", r)
		}
	}()
	m.feed.Reset()
	m.feed.Write(m.prepare(h))
	if m.dec == nil {
		if m.dec, err = mp3lib.NewDecoder(&m.feed); err != nil {
			return err
		}
	}
	_, err = io.ReadFull(m.dec, raw)
	return err
}

// prepare makes the frame one that the decoder can decode.
func (m *mp3) prepare(h mp3Header) []byte {
	side := m.frame[4+h.checked:][:h.side]
	main := m.frame[4+h.checked+h.side:]
	begin := int(side[0]) // how far back its main data begin
	if h.version == 1 {
		begin = begin<<1 | int(side[1]>>7)
	}
	if begin > m.held { // they were before the stream was cut
		begin = m.held
		clear(side)
		side[0] = byte(begin)
		if h.version == 1 {
			side[0], side[1] = byte(begin>>1), byte(begin<<7)
		}
	}
	m.held = begin + len(main)
	if h.rate != 22050 {
		return m.frame
	}
	// The decoder loses a byte of some of these: they get a frame of 160 kbit/s. At its beginning
	// stands what it needs, at its end the last of all main data, which the next frame may need.
	m.reservoir = append(m.reservoir[:copy(m.reservoir, m.reservoir[len(m.reservoir)-begin:])], main...)
	need, short := 0, false // bits
	for c := range h.channels {
		at := 8 + h.channels + c*63 // after 1 or 2 bits without a meaning
		need += bitsAt(side, at, 12)
		short = short || bitsAt(side, at+38, 3) == 1<<2|2
	}
	data := m.reservoir
	if begin > m.tail {
		begin = 0
	} else {
		data = main
	}
	need = max(0, (need+7)/8-begin)
	size, rate := 522, byte(0)
	if need > size-4-h.side && !short { // one at 16 kHz is larger, and has the same long blocks
		size, rate = 720, 2<<2
	}
	f := make([]byte, size)
	copy(f, m.frame[:4])
	f[1] |= 1          // no checksum
	f[2] = 0xe0 | rate // 160 kbit/s, no padding
	copy(f[4:], side)
	f[4] = byte(begin)
	room := f[4+h.side:]
	copy(room, data)
	m.tail = min(255, len(m.reservoir), max(0, len(room)-need))
	copy(room[len(room)-m.tail:], m.reservoir[len(m.reservoir)-m.tail:])
	return f
}

// bitsAt reads n bits, the highest of a byte first.
func bitsAt(b []byte, at, n int) (v int) {
	for i := at; i < at+n; i++ {
		v = v<<1 | int(b[i/8]>>(7-i%8)&1)
	}
	return v
}
