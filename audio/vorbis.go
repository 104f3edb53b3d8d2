package audio

import (
	"math"
	"math/bits"

	"github.com/jfreymuth/vorbis"
)

// vorbisStream decodes the packets of Vorbis I.
type vorbisStream struct {
	dec vorbis.Decoder
	say Info
	buf []float32
}

func (s *vorbisStream) info() Info   { return s.say }
func (*vorbisStream) preSkip() int64 { return 0 }

func (s *vorbisStream) header(p []byte) (bool, error) {
	if len(p) < 7 || string(p[1:7]) != "vorbis" {
		return false, damaged("vorbis", "no header where one should be")
	}
	switch kind := p[0]; {
	case kind == 1 && s.say.Rate == 0:
		if len(p) < 30 || p[28]&15 > p[28]>>4 || p[28]&15 < 6 || p[28]>>4 > 13 || p[11] == 0 {
			return false, damaged("vorbis", "its first header makes no sense")
		}
		if p[11] > maxChannels {
			return false, unsupported("vorbis", "%d channels, at most %d are read", p[11], maxChannels)
		}
		if err := s.dec.ReadHeader(p); err != nil {
			return false, damaged("vorbis", "its first header: %w", err)
		}
		s.say = Info{"vorbis", max(1, s.dec.SampleRate()), s.dec.Channels()}
	case kind == 3: // comments: the decoder would believe their number
	case kind == 5 && s.say.Rate != 0:
		if err := checkVorbisBooks(p[7:]); err != nil {
			return false, err
		}
		if err := s.dec.ReadHeader(p); err != nil && s.say.Channels > 2 {
			// The decoder does not know the tables that encoders make for a channel of low effects.
			return false, unsupported("vorbis", "tables for %d channels", s.say.Channels)
		} else if err != nil {
			return false, damaged("vorbis", "its tables: %w", err)
		}
		s.buf = make([]float32, s.dec.BufferSize())
		return true, nil
	default:
		return false, damaged("vorbis", "a header of kind %d where none should be", kind)
	}
	return false, nil
}

func (s *vorbisStream) decode(dst []float32, p []byte) ([]float32, error) {
	if len(p) == 0 || p[0]&1 != 0 { // the specification passes over packets that are not sound
		return dst, nil
	}
	out, err := s.dec.DecodeInto(p, s.buf)
	if err != nil {
		return dst, damaged("vorbis", "%w", err)
	}
	return mix(dst, out, s.say.Channels, 1), nil
}

// What the code books of a stream may have together. libvorbis makes books of 15,000 entries and
// 60,000 values.
const (
	vorbisEntries = 1 << 16
	vorbisValues  = 1 << 19
)

// checkVorbisBooks reads the code books of a setup header as the decoder will. The decoder
// allocates what a book claims, and never returns from a book whose code is not complete.
func checkVorbisBooks(p []byte) error {
	r := lsbReader{p: p}
	entries, values := 0, 0
	for range r.take(8) + 1 {
		if r.take(24) != 0x564342 {
			return damaged("vorbis", "no code book where one should be")
		}
		dim, n := int(r.take(16)), int(r.take(24))
		//rule:T7 TestHostileSounds false
		if entries += n; entries > vorbisEntries || dim*n > vorbisValues {
			return unsupported("vorbis", "code books of more than %d entries or %d values", vorbisEntries, vorbisValues)
		}
		used, space := 0, uint64(0) // what the codes take of 2³²
		if r.take(1) == 0 {
			sparse := r.take(1) == 1
			for range n {
				if !sparse || r.take(1) == 1 {
					used++
					space += 1 << (31 - r.take(5))
				}
			}
		} else {
			for length := int(r.take(5)) + 1; used < n; length++ {
				k := int(r.take(uint(bits.Len(uint(n - used)))))
				if length > 32 || used+k > n {
					return damaged("vorbis", "a code book makes no sense")
				}
				used += k
				space += uint64(k) << (32 - length)
			}
		}
		if n < 2 || dim == 0 || space != 1<<32 && used != 1 || space > 1<<32 {
			return damaged("vorbis", "the codes of a book of %d entries are not complete", n)
		}
		switch kind := r.take(4); kind {
		case 0:
		case 1, 2:
			r.take(32)
			r.take(32)
			wide := r.take(4) + 1
			r.take(1)
			count := dim * n
			if kind == 1 {
				count = vorbisRoot(n, dim)
				if count != int(math.Floor(math.Pow(float64(n), 1/float64(dim)))) {
					return unsupported("vorbis", "a code book of %d entries of %d values", n, dim)
				}
			}
			if values += dim * n; values > vorbisValues {
				return unsupported("vorbis", "code books of more than %d values", vorbisValues)
			}
			r.skip(uint64(count) * wide)
		default:
			return damaged("vorbis", "a code book of kind %d", kind)
		}
		if r.short {
			return damaged("vorbis", "its code books are cut")
		}
	}
	return nil
}

// vorbisRoot is the largest number whose power of dim is n or less.
func vorbisRoot(n, dim int) int {
	for root := 1; ; root++ {
		power := 1
		for i := 0; i < dim && power <= n && root > 0; i++ {
			power *= root + 1
		}
		if power > n {
			return root
		}
	}
}

// lsbReader reads bits, the lowest of a byte first; zeros where there are no more.
type lsbReader struct {
	p     []byte
	at    uint64 // bits
	short bool
}

func (r *lsbReader) take(k uint) (v uint64) {
	for i := range k {
		if r.at/8 >= uint64(len(r.p)) {
			r.short = true
			return 0
		}
		v |= uint64(r.p[r.at/8]>>(r.at%8)&1) << i
		r.at++
	}
	return v
}

func (r *lsbReader) skip(n uint64) {
	r.at += n
	r.short = r.short || r.at > uint64(len(r.p))*8
}
