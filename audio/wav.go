package audio

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
)

// The formats of a wav.
const (
	wavPCM        = 1
	wavFloat      = 3
	wavALaw       = 6
	wavMuLaw      = 7
	wavExtensible = 0xfffe
)

// wavOpen is the least size that is not believed: programs that write to a pipe do not know the
// size yet, and say something near 2³¹ or 2³² (sox, arecord, ffmpeg).
const wavOpen = 0x7fff0000

type wav struct {
	in       *input
	channels int
	size     int                    // bytes of a sample
	value    func(b []byte) float64 // of one sample
	left     int64                  // bytes of sound; −1: all that follow
	raw      []byte
	out      []float32
}

func openWAV(in *input) (source, Info, int64, error) {
	fail := func(err error) (source, Info, int64, error) { return nil, Info{}, 0, err }
	var head [12]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return fail(damaged("wav", "it ends in its header"))
	}
	total := int64(binary.LittleEndian.Uint32(head[4:])) + 8 // of the file, as it claims
	wide := string(head[:4]) != "RIFF"
	var wideSize int64
	w := &wav{in: in}
	info := Info{Format: "wav"}
	for at := int64(12); ; {
		var chunk [8]byte
		if _, err := io.ReadFull(in, chunk[:]); err != nil {
			return fail(damaged("wav", "it ends before its sound"))
		}
		at += 8
		size := int64(binary.LittleEndian.Uint32(chunk[4:]))
		padded := size + size&1
		switch name := string(chunk[:4]); {
		case name == "data" && w.size == 0:
			return fail(damaged("wav", "its sound stands before its format"))
		case name == "data":
			switch {
			case wide && size == 1<<32-1 && wideSize > 0:
				w.left = wideSize
			case size >= wavOpen, size == 0 && (total <= at || total >= wavOpen):
				w.left = -1
			default:
				w.left = size
			}
			if rest := in.rest(); rest >= 0 && w.left > rest {
				w.left = rest
			}
			return w, info, max(0, w.left) / int64(w.channels*w.size), nil
		case name == "fmt " || name == "ds64" && wide:
			b := make([]byte, min(size, 40))
			if _, err := io.ReadFull(in, b); err != nil {
				return fail(damaged("wav", "it ends in its header"))
			}
			if name == "ds64" {
				if len(b) < 16 || binary.LittleEndian.Uint64(b[8:]) > 1<<62 {
					return fail(damaged("wav", "the chunk that has its size is wrong"))
				}
				wideSize = int64(binary.LittleEndian.Uint64(b[8:]))
			} else if err := w.format(b, &info); err != nil {
				return fail(err)
			}
			at += int64(len(b))
			padded -= int64(len(b))
			fallthrough
		default:
			if err := in.skip(padded); err != nil {
				return fail(damaged("wav", "its chunk %q is larger than the file", name))
			}
			at += padded
		}
	}
}

// format reads the chunk that says what samples are.
func (w *wav) format(b []byte, info *Info) error {
	if len(b) < 16 {
		return damaged("wav", "its format has %d bytes", len(b))
	}
	u16 := func(at int) int { return int(binary.LittleEndian.Uint16(b[at:])) }
	kind, channels, align, bits := u16(0), u16(2), u16(12), u16(14)
	rate := binary.LittleEndian.Uint32(b[4:])
	if kind == wavExtensible {
		// The rest of the 16 bytes says that the first two are a format of this table.
		if len(b) < 40 || string(b[26:40]) != "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71" {
			return unsupported("wav", "of a format with a name of its own")
		}
		kind = u16(24)
	}
	info.Rate, info.Channels = int(min(rate, 1<<31-1)), channels
	if channels == 0 {
		return damaged("wav", "it has 0 channels")
	}
	w.channels, w.size = channels, (bits+7)/8
	le := binary.LittleEndian
	switch {
	case kind == wavPCM && w.size == 1:
		w.value = func(b []byte) float64 { return (float64(b[0]) - 128) / (1 << 7) }
	case kind == wavPCM && w.size == 2:
		w.value = func(b []byte) float64 { return float64(int16(le.Uint16(b))) / (1 << 15) }
	case kind == wavPCM && w.size == 3:
		w.value = func(b []byte) float64 {
			return float64(int32(uint32(b[0])<<8|uint32(b[1])<<16|uint32(b[2])<<24)) / (1 << 31)
		}
	case kind == wavPCM && w.size == 4:
		w.value = func(b []byte) float64 { return float64(int32(le.Uint32(b))) / (1 << 31) }
	case kind == wavFloat && bits == 32:
		w.value = func(b []byte) float64 { return float64(math.Float32frombits(le.Uint32(b))) }
	case kind == wavFloat && bits == 64:
		w.value = func(b []byte) float64 { return math.Float64frombits(le.Uint64(b)) }
	case kind == wavALaw && bits == 8:
		w.value = func(b []byte) float64 { return ALaw(b[0]) }
	case kind == wavMuLaw && bits == 8:
		w.value = func(b []byte) float64 { return MuLaw(b[0]) }
	default:
		return unsupported("wav", "of format %d with %d bits (PCM of 8 to 32 bits, float of 32 or 64, A-law and µ-law are read)",
			kind, bits)
	}
	if align != channels*w.size {
		return damaged("wav", "%d bytes hold %d channels of %d bits", align, channels, bits)
	}
	return nil
}

func (w *wav) next() ([]float32, error) {
	frame := w.channels * w.size
	if w.raw == nil {
		w.raw = make([]byte, max(1, 16<<10/frame)*frame)
		w.out = make([]float32, len(w.raw)/frame)
	}
	raw := w.raw
	if w.left >= 0 {
		raw = raw[:min(int64(len(raw)), w.left)]
	}
	n, err := io.ReadAtLeast(w.in, raw, min(frame, len(raw))) // what has come: the rest may not be spoken yet
	if over := n % frame; err == nil && over > 0 && n < len(raw) {
		var k int
		k, err = io.ReadFull(w.in, raw[n:min(n+frame-over, len(raw))])
		n += k
	}
	if w.left >= 0 {
		w.left -= int64(n)
	}
	if n /= frame; n == 0 { // what is left of a frame that was cut is no sound
		return nil, ended(err)
	}
	for i := range n {
		var sum float64
		for c := range w.channels {
			sum += w.value(raw[i*frame+c*w.size:])
		}
		w.out[i] = float32(sum / float64(w.channels))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil // the next call finds it again
	}
	return w.out[:n], err
}

// ended is io.EOF for what ends, however it does, and err otherwise.
func ended(err error) error {
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// ALaw expands a byte of the A-law of ITU-T G.711, in which telephones speak.
func ALaw(b byte) float64 {
	b ^= 0x55
	exp, v := int(b>>4&7), float64(b&15)*2+1
	if exp > 0 {
		v = math.Ldexp(v+32, exp-1)
	}
	if b&0x80 == 0 {
		v = -v
	}
	return v / (1 << 12)
}

// MuLaw expands a byte of the µ-law of ITU-T G.711.
func MuLaw(b byte) float64 {
	b = ^b
	v := math.Ldexp(float64(b&15)*2+33, int(b>>4&7)) - 33
	if b&0x80 != 0 {
		v = -v
	}
	return v / (1 << 13)
}
