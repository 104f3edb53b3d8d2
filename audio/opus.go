package audio

import (
	"encoding/binary"
	"math"

	"github.com/pion/opus"
)

// opusStream decodes packets as RFC 7845 puts them into Ogg.
type opusStream struct {
	dec      opus.Decoder
	channels int
	skip     int64
	gain     float32
	buf      []float32
}

// opusRate is what every Opus stream is decoded at, whatever it was made from.
const opusRate = 48000

func (s *opusStream) info() Info     { return Info{"opus", opusRate, s.channels} }
func (s *opusStream) preSkip() int64 { return s.skip }

func (s *opusStream) header(p []byte) (bool, error) {
	if s.buf != nil {
		if len(p) < 8 || string(p[:8]) != "OpusTags" {
			return false, damaged("opus", "no comments after the header")
		}
		return true, nil
	}
	if len(p) < 19 || p[9] == 0 {
		return false, damaged("opus", "its header makes no sense")
	}
	if p[8] > 15 {
		return false, unsupported("opus", "of version %d", p[8])
	}
	s.channels = int(p[9])
	if p[18] != 0 || s.channels > 2 {
		return false, unsupported("opus", "%d channels of mapping family %d: one or two of family 0 are read", s.channels, p[18])
	}
	s.skip = int64(binary.LittleEndian.Uint16(p[10:]))
	s.gain = float32(math.Pow(10, float64(int16(binary.LittleEndian.Uint16(p[16:])))/(20*256)))
	var err error
	if s.dec, err = opus.NewDecoderWithOutput(opusRate, s.channels); err != nil {
		return false, damaged("opus", "%w", err)
	}
	s.buf = make([]float32, opusRate*120/1000*s.channels) // the longest packet
	return false, nil
}

func (s *opusStream) decode(dst []float32, p []byte) ([]float32, error) {
	if len(p) == 0 {
		return dst, nil
	}
	n, err := s.dec.DecodeToFloat32(p, s.buf)
	if err != nil {
		return dst, damaged("opus", "%w", err)
	}
	return mix(dst, s.buf[:n*s.channels], s.channels, s.gain), nil
}

// mix appends the mean of interleaved channels, times gain.
func mix(dst, in []float32, channels int, gain float32) []float32 {
	gain /= float32(channels)
	for ; len(in) >= channels; in = in[channels:] {
		var sum float32
		for _, x := range in[:channels] {
			sum += x
		}
		dst = append(dst, sum*gain)
	}
	return dst
}
