package audio

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"time"
)

// What a sound is refused for. Every error of [NewReader], [Reader.Read] and [Decode] wraps one of
// them, or the error of the reader that they read from.
var (
	// what it is instead follows, where it is known
	ErrFormat      = errors.New("no sound that is read here (wav, flac, mp3, ogg vorbis or ogg opus)")
	ErrLimit       = errors.New("sound over a limit")
	ErrUnsupported = errors.New("sound of an unsupported kind")
	ErrDamaged     = errors.New("damaged sound")
)

// wayOut ends an error about a file that another program can turn into one that is read.
const wayOut = "convert it, for example with: ffmpeg -i IN -ar 16000 -ac 1 out.wav"

// The rates, in samples a second, that are read and resampled.
const (
	MinRate = 8000
	MaxRate = 192000
)

// maxChannels bounds what is mixed, and so the buffers of decoders.
const maxChannels = 32

// Limits bound what is read. A zero field is the default.
type Limits struct {
	Bytes    int64         // of the file: 1 GiB
	Duration time.Duration // of the sound: 1 hour
}

func (l Limits) orDefault() Limits {
	return Limits{Bytes: cmp.Or(l.Bytes, 1<<30), Duration: cmp.Or(l.Duration, time.Hour)}
}

// Info is what a file says of its sound.
type Info struct {
	Format   string // wav, flac, mp3, vorbis or opus
	Rate     int    // samples a second in the file; Opus always has 48,000
	Channels int
}

// source decodes one format. The next block, mono at the file's rate, is valid until the next call;
// it may be empty. The error is io.EOF after the last.
type source interface {
	next() ([]float32, error)
}

// Reader reads a sound block by block.
type Reader struct {
	info   Info
	in     *input
	src    source
	limits Limits
	left   int64 // samples of the file that may still come
	change *Resampler
	ready  []float32 // to be taken
	room   []float32 // what the resampler writes to
	err    error
}

// NewReader reads the beginning of a file, up to its first sound. Read then gives samples at rate,
// from [MinRate] to [MaxRate], or at the file's own rate if it is 0. Memory stays within a few MiB
// whatever the length. The file is read no further than its sound goes, but for a buffer. It fails
// with an error that wraps
//
//   - [ErrFormat] where r has no sound of a format that is read,
//   - [ErrLimit] where one of limits is passed,
//   - [ErrUnsupported] where the format has such a thing and we do not read it,
//   - [ErrDamaged] where bytes are wrong or missing,
//   - r's own error, if it has one but io.EOF.
func NewReader(r io.Reader, rate int, limits Limits) (*Reader, error) {
	if rate != 0 && (rate < MinRate || rate > MaxRate) {
		return nil, fmt.Errorf("audio: a rate of %d was asked for: it must be from %d to %d, or 0 for the file's", rate, MinRate, MaxRate)
	}
	limits = limits.orDefault()
	a := &Reader{limits: limits, in: newInput(r, limits.Bytes)}
	var claim int64
	err := a.guarded(func() (err error) {
		a.src, a.info, claim, err = open(a.in)
		return err
	})
	if err != nil {
		return nil, err
	}
	switch {
	case a.info.Channels < 1:
		return nil, fmt.Errorf("audio: %w: a %s of %d channels", ErrDamaged, a.info.Format, a.info.Channels)
	case a.info.Channels > maxChannels:
		return nil, fmt.Errorf("audio: %w: %d channels, at most %d are read: %s", ErrUnsupported, a.info.Channels, maxChannels, wayOut)
	case a.info.Rate < MinRate || a.info.Rate > MaxRate:
		return nil, fmt.Errorf("audio: %w: %d samples a second, from %d to %d are read: %s", ErrUnsupported, a.info.Rate,
			MinRate, MaxRate, wayOut)
	}
	a.left = int64(limits.Duration.Seconds() * float64(a.info.Rate))
	//rule:T7 TestLimits false
	if claim > a.left {
		return nil, a.tooLong()
	}
	if rate != 0 && rate != a.info.Rate {
		if a.change, err = NewResampler(a.info.Rate, rate); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Info is what the file says of its sound; of a chain of streams, what the first says.
func (a *Reader) Info() Info { return a.info }

// Read gives up to len(p) samples. It gives at least one, or an error, which is io.EOF after the
// last and one of [NewReader]'s otherwise. It blocks as the reader does that it reads from.
func (a *Reader) Read(p []float32) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(a.ready) == 0 {
		if a.err != nil {
			return 0, a.err
		}
		a.fill()
	}
	n := copy(p, a.ready)
	a.ready = a.ready[n:]
	return n, nil
}

// fill makes the next block ready, and sets err after the last.
func (a *Reader) fill() {
	var block []float32
	a.ready = nil
	a.err = a.guarded(func() (err error) {
		block, err = a.src.next()
		return err
	})
	if a.err == nil {
		//rule:T7 TestBombs false
		if a.left -= int64(len(block)); a.left < 0 {
			a.err = a.tooLong()
		}
	}
	switch {
	case a.err == nil:
		numbers(block)
		a.ready = block
		if a.change != nil {
			a.room = a.change.Append(a.room[:0], block)
			a.ready = a.room
		}
	case errors.Is(a.err, io.EOF) && a.change != nil:
		a.room = a.change.Flush(a.room[:0])
		a.ready = a.room
	}
}

// guarded calls f, which decodes. Some decoders are other people's: what makes one of them panic is
// damage, and not the end of a server. What the reader underneath failed with is believed first.
func (a *Reader) guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("audio: %w: its decoder gave up: %v", ErrDamaged, r)
		}
		if under := a.in.err(); err != nil && under != nil {
			err = fmt.Errorf("audio: %w", under)
		}
	}()
	return f()
}

func (a *Reader) tooLong() error {
	return fmt.Errorf("audio: %w: it is longer than the limit of %v", ErrLimit, a.limits.Duration)
}

// numbers makes every sample a number that sums of a few thousand keep finite.
func numbers(block []float32) {
	for i, x := range block {
		if !(x >= -1<<16 && x <= 1<<16) {
			block[i] = 0
		}
	}
}

// Decode reads a whole sound: [NewReader]'s samples in one slice. The slice has four bytes a
// sample, 230 MB for an hour at 16 kHz; it grows as sound is decoded, whatever the header claims.
func Decode(data []byte, rate int, limits Limits) ([]float32, Info, error) {
	r, err := NewReader(bytes.NewReader(data), rate, limits)
	if err != nil {
		return nil, Info{}, err
	}
	var all []float32
	for r.err == nil {
		r.fill()
		all = append(all, r.ready...)
	}
	if !errors.Is(r.err, io.EOF) {
		return nil, Info{}, r.err
	}
	return all, r.info, nil
}

func damaged(format, what string, a ...any) error {
	return fmt.Errorf("audio: %w: %s: "+what, append([]any{ErrDamaged, format}, a...)...)
}

func unsupported(format, what string, a ...any) error {
	return fmt.Errorf("audio: %w: %s: "+what+": "+wayOut, append([]any{ErrUnsupported, format}, a...)...)
}
