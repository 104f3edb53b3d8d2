package wyoming

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"time"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/server/body"
)

const (
	hearRate  = 16000     // samples a second that recognisers hear
	maxSound  = time.Hour // of one sound
	block     = 4 << 10
	blocks    = 128 // of a sound that came, and were not heard yet
	mostBytes = 2 << 30
)

// format is that of samples.
type format struct {
	Rate     int `json:"rate"`
	Width    int `json:"width"` // bytes
	Channels int `json:"channels"`
}

// check refuses what cannot be turned into what recognisers hear.
func (f format) check() error {
	switch {
	case f.Rate < audio.MinRate || f.Rate > audio.MaxRate:
		return body.Fail(400, "a rate of %d samples a second: send from %d to %d", f.Rate, audio.MinRate, audio.MaxRate)
	case f.Width < 1 || f.Width > 4:
		return body.Fail(400, "samples of %d bytes: send 1, 2, 3 or 4", f.Width)
	case f.Channels < 1 || f.Channels > 32:
		return body.Fail(400, "%d channels: send from 1 to 32", f.Channels)
	}
	return nil
}

// wav is the head of a wav file of that format whose length is not known. The samples behind it are
// then mixed, and brought to the right rate, as those of any file are.
func (f format) wav() []byte {
	const open = 1<<32 - 1
	frame := f.Width * f.Channels
	b := append(binary.LittleEndian.AppendUint32([]byte("RIFF"), open), "WAVEfmt "...)
	b = binary.LittleEndian.AppendUint32(b, 16)
	b = binary.LittleEndian.AppendUint16(b, 1) // PCM
	b = binary.LittleEndian.AppendUint16(b, uint16(f.Channels))
	b = binary.LittleEndian.AppendUint32(b, uint32(f.Rate))
	b = binary.LittleEndian.AppendUint32(b, uint32(f.Rate*frame))
	b = binary.LittleEndian.AppendUint16(b, uint16(frame))
	b = binary.LittleEndian.AppendUint16(b, uint16(8*f.Width))
	return binary.LittleEndian.AppendUint32(append(b, "data"...), open)
}

// sound is one that comes in pieces: a bounded pipe from the connection to who hears it.
type sound struct {
	format format
	ctx    context.Context // ends when nobody hears it any more
	came   chan []byte
	now    []byte        // of came, what was not read yet
	wav    *audio.Reader // nil: not opened yet
}

func newSound(ctx context.Context, f format) *sound {
	return &sound{format: f, ctx: ctx, came: make(chan []byte, blocks)}
}

// write adds a piece, which it keeps. It waits while too much was not heard yet, until nobody hears
// the sound any more.
func (s *sound) write(piece []byte) error {
	select {
	case s.came <- piece:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// end says that all samples have come.
func (s *sound) end() { close(s.came) }

// drain passes over what still comes, until all samples have, or the sound's context ends.
func (s *sound) drain() {
	for {
		select {
		case _, more := <-s.came:
			if !more {
				return
			}
		case <-s.ctx.Done():
			return
		}
	}
}

// pieces are the sound's bytes.
type pieces struct{ *sound }

func (p pieces) Read(b []byte) (int, error) {
	for len(p.now) == 0 {
		if err := context.Cause(p.ctx); err != nil {
			return 0, err
		}
		select {
		case piece, more := <-p.came:
			if !more {
				return 0, io.EOF
			}
			p.now = piece
		case <-p.ctx.Done():
		}
	}
	n := copy(b, p.now)
	p.now = p.now[n:]
	return n, nil
}

// Read implements ask.Sound.
func (s *sound) Read(samples []float32) (n int, err error) {
	if s.wav == nil {
		from := io.MultiReader(bytes.NewReader(s.format.wav()), pieces{s})
		if s.wav, err = audio.NewReader(from, hearRate, audio.Limits{Bytes: mostBytes, Duration: maxSound}); err != nil {
			return 0, err
		}
	}
	return s.wav.Read(samples)
}
