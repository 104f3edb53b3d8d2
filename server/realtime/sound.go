package realtime

import (
	"io"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/audio/vad"
	"github.com/axle-llm/axle/server/body"
)

const (
	hearRate = vad.SampleRate
	ms       = hearRate / 1000
	maxHeld  = 10 * 60 * hearRate // samples of a session that are not written down yet
	maxTurn  = 5 * 60 * hearRate  // samples after which a turn that somebody goes on speaking in ends
	minTurn  = 100 * ms           // samples of a turn that a client ends
	before   = 100 * ms           // samples that are kept during silence, beside the padding
)

// stream turns the bytes of a format into samples, as they come.
type stream struct {
	format    format
	resampler *audio.Resampler
	odd       []byte // the first half of a sample
	scratch   []float32
}

func newStream(f format) (*stream, error) {
	r, err := audio.NewResampler(f.rate(), hearRate)
	return &stream{format: f, resampler: r}, err
}

// most is how many samples b can become.
func (s *stream) most(b []byte) int {
	if s.format.Type == pcm {
		return len(b)/2*hearRate/pcmRate + 2
	}
	return len(b)*hearRate/phoneRate + 2
}

// samples are those of b, and of what came before as far as they wait for it.
func (s *stream) samples(b []byte) []float32 {
	in := s.scratch[:0]
	switch s.format.Type {
	case pcm:
		if len(s.odd) > 0 && len(b) > 0 {
			in = append(in, pcm16(s.odd[0], b[0]))
			s.odd, b = nil, b[1:]
		}
		for ; len(b) > 1; b = b[2:] {
			in = append(in, pcm16(b[0], b[1]))
		}
		s.odd = append(s.odd, b...)
	case muLaw:
		for _, x := range b {
			in = append(in, float32(audio.MuLaw(x)))
		}
	case aLaw:
		for _, x := range b {
			in = append(in, float32(audio.ALaw(x)))
		}
	}
	s.scratch = in[:0]
	if cap(in) > 1<<16 { // one large piece is no reason to keep its room
		s.scratch = nil
	}
	return s.resampler.Append(nil, in)
}

// rest is what waits for more sound.
func (s *stream) rest() []float32 {
	s.odd = nil
	return s.resampler.Flush(nil)
}

func pcm16(low, high byte) float32 {
	return float32(int16(uint16(low)|uint16(high)<<8)) / (1 << 15)
}

// buffer is the sound that came and is of no turn yet.
type buffer struct {
	held  []int16
	first int64 // the number of held's first sample, in the session
}

func (b *buffer) end() int64 { return b.first + int64(len(b.held)) }

func (b *buffer) add(samples []float32) {
	for _, x := range samples {
		b.held = append(b.held, int16(min(max(x*(1<<15), -1<<15), 1<<15-1)))
	}
}

// forget drops what is before a sample.
func (b *buffer) forget(to int64) {
	if n := to - b.first; n > 0 {
		n = min(n, int64(len(b.held)))
		b.held = b.held[:copy(b.held, b.held[n:])]
		b.first += n
	}
}

// take gives away all there is, from a sample on.
func (b *buffer) take(from int64) []int16 {
	b.forget(from)
	out := b.held
	b.first += int64(len(out))
	b.held = nil
	return out
}

// turn is the sound of a turn. It implements ask.Sound.
type turn struct{ left []int16 }

func (t *turn) Read(samples []float32) (int, error) {
	n := min(len(samples), len(t.left))
	for i, x := range t.left[:n] {
		samples[i] = float32(x) / (1 << 15)
	}
	if t.left = t.left[n:]; n == 0 && len(samples) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// detector finds the turns in a session's sound.
type detector struct {
	listener *vad.Listener
	first    int64 // the number of its first sample, in the session
	prefix   int64
	item     string // of the turn that goes on; "": none does
	paused   bool   // that turn is, and was not heard early since
	from     int64  // where that turn begins
}

func newDetector(t turnDetection, speech Speech, first int64) (*detector, error) {
	silence := t.Silence * ms
	l, err := vad.NewListener(speech, vad.Options{Speech: max(float32(t.Threshold), 0.01), Stop: min(pause, silence), End: silence})
	if err != nil {
		return nil, body.Bad(err)
	}
	return &detector{listener: l, first: first, prefix: int64(t.Prefix) * ms}, nil
}
