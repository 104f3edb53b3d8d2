package sound

import (
	"crypto/md5"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"github.com/axle-llm/axle/audio"
)

// Formats are those that an Encoder writes.
var Formats = []string{"wav", "flac", "pcm"}

// Encoder writes samples in a format.
type Encoder struct {
	W      io.Writer
	Format string // of Formats

	samples int
	begun   bool
	flac    *audio.FLAC
	sum     hash.Hash // of a flac's samples
}

// Add writes samples as a server sends them: raw PCM of 16 bits, so pcm has an even number of
// bytes.
func (e *Encoder) Add(pcm []byte, rate int) error {
	return e.add(pcm, rate, false)
}

func (e *Encoder) add(pcm []byte, rate int, last bool) error {
	var b []byte
	switch e.Format {
	case "wav":
		if !e.begun {
			b = audio.AppendWAVHeader(nil, rate, -1)
		}
		b = append(b, pcm...)
	case "flac":
		if e.flac == nil {
			e.flac, e.sum = audio.NewFLAC(rate), md5.New()
		}
		samples := make([]float32, len(pcm)/2)
		for i := range samples {
			samples[i] = float32(int16(binary.LittleEndian.Uint16(pcm[2*i:]))) / (1 << 15)
		}
		b = e.flac.Append(nil, samples, last)
		_, _ = e.sum.Write(pcm) // never fails
	case "pcm":
		b = pcm
	default:
		return fmt.Errorf("sound: no %q is written", e.Format)
	}
	e.begun = true
	e.samples += len(pcm) / 2
	_, err := e.W.Write(b)
	return err
}

// End writes what was held back. Where the file can be written at, its beginning then says how long
// it is.
func (e *Encoder) End(rate int, at io.WriterAt) error {
	if err := e.add(nil, rate, true); err != nil || at == nil {
		return err
	}
	var err error
	switch e.Format {
	case "wav":
		_, err = at.WriteAt(audio.AppendWAVHeader(nil, rate, e.samples), 0)
	case "flac":
		const place = 22 // the lower 32 of the 36 bits of the number of samples, then their sum
		_, err = at.WriteAt(e.sum.Sum(binary.BigEndian.AppendUint32(nil, uint32(e.samples))), place)
	}
	return err
}
