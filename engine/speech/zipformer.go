package speech

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"math"
	"strings"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/models"
)

// ZipformerNets are the nets of a Zipformer as one transcription uses them: they keep the states of
// its utterance.
type ZipformerNets interface {
	// Step waits for the transcription's turn, and calls f once with the nets. f waits for nothing.
	Step(ctx context.Context, f func(ZipformerCalls) error) error
}

// ZipformerCalls are the calls of a step.
type ZipformerCalls interface {
	// Hear calls the encoder, which fills the rows. The first call of an utterance begins without
	// what was heard before.
	Hear(first bool, frames, rows []byte) error
	// Say fills the logits of a row after the last two symbols.
	Say(last [2]int32, row, logits []byte) error
}

// Zipformer writes down what is said while it is said, with a package's nets.
type Zipformer struct {
	p    *models.Zipformer
	nets ZipformerNets
}

// NewZipformer returns a recogniser that calls the package's nets.
func NewZipformer(p *models.Zipformer, nets ZipformerNets) *Zipformer { return &Zipformer{p, nets} }

const (
	zipformerFrame = 10 * time.Millisecond
	zipformerRow   = 4 * zipformerFrame
	zipformerBlock = SampleRate / 10     // samples that are read at a time
	zipformerTail  = SampleRate * 3 / 10 // zeros behind the sound

	// An utterance ends after rows without a symbol, more of them where there was none before, or
	// when it is this long.
	zipformerPause = 1200 * time.Millisecond
	zipformerQuiet = 2400 * time.Millisecond
	zipformerMost  = 20 * time.Second
)

// Transcribe yields each utterance when a pause ends it or it has become long, and with r.Partial
// what was understood of it so far, after each call that understood more. It reads the sound as it
// comes. Errors: ask.ErrRequest for a language that the model does not know, or a translation; the
// sound's; the nets'; ctx's; ErrNonsense.
func (z *Zipformer) Transcribe(ctx context.Context, r ask.TranscribeRequest) iter.Seq2[ask.Segment, error] {
	return func(yield func(ask.Segment, error) bool) {
		if err := refusal(r, z.p.Name, z.p.Knows(r.Language), z.p.Info().Languages); err != nil {
			yield(ask.Segment{}, err)
			return
		}
		c := newZipformerCall(z)
		for {
			for c.ready() {
				s, err := c.step(ctx, r.Partial)
				if err != nil {
					yield(ask.Segment{}, err)
					return
				}
				if s.Text != "" && !yield(s, nil) {
					return
				}
			}
			if c.ended {
				if s := c.finish(); s.Text != "" {
					yield(s, nil)
				}
				return
			}
			if err := c.read(ctx, r.Sound); err != nil {
				yield(ask.Segment{}, err)
				return
			}
		}
	}
}

// zipformerCall is one transcription.
type zipformerCall struct {
	*Zipformer
	fbank   *features.Fbank
	block   []float32
	samples int  // read so far
	ended   bool // there are no more
	frames  []float32
	at      int // the number of the first of frames

	in, rows, logits []byte

	// The utterance.
	first  int // its first frame
	count  int // rows
	blanks int // rows since the last symbol
	last   [2]int32
	said   []heard // symbols that are text
	told   int     // of said, in the last segment
}

func newZipformerCall(z *Zipformer) *zipformerCall {
	return &zipformerCall{Zipformer: z, fbank: features.NewFbank(features.Zipformer), block: make([]float32, zipformerBlock),
		in: make([]byte, z.p.Frames.Size), rows: make([]byte, z.p.Rows.Size), logits: make([]byte, z.p.Logits.Size)}
}

// read takes what comes next of the sound. Zeros come behind its end, until the encoder's calls
// have taken all of it and zipformerTail zeros: a symbol is said some rows after its sound.
func (c *zipformerCall) read(ctx context.Context, sound ask.Sound) error {
	n, err := readSound(ctx, sound, c.block)
	c.frames = c.fbank.Append(c.frames, c.block[:n])
	c.samples += n
	if !errors.Is(err, io.EOF) {
		return err
	}
	if c.ended = true; c.samples == 0 {
		return nil
	}
	frame := SampleRate / int(time.Second/zipformerFrame)
	left := (c.samples+zipformerTail+frame/2)/frame - c.at - (c.p.Frames.Shape[1] - c.p.Step)
	more := (c.p.Step - left%c.p.Step) % c.p.Step
	c.frames = c.fbank.Append(c.frames, make([]float32, zipformerTail+frame*more))
	c.frames = c.fbank.Finish(c.frames)
	return nil
}

// ready says whether there are frames for a call.
func (c *zipformerCall) ready() bool { return 4*len(c.frames) >= len(c.in) }

// step calls the encoder, and says the symbols of its rows. It returns the utterance if it ended,
// or if partial is set and more of it was said; else a segment without text.
func (c *zipformerCall) step(ctx context.Context, partial bool) (s ask.Segment, err error) {
	for i := range len(c.in) / 4 {
		binary.LittleEndian.PutUint32(c.in[4*i:], math.Float32bits(c.frames[i]))
	}
	if err := c.nets.Step(ctx, c.search); err != nil {
		return s, err
	}
	c.frames = c.frames[:copy(c.frames, c.frames[c.p.Step*features.FbankBins:])]
	c.at += c.p.Step
	pause := time.Duration(c.blanks) * zipformerRow
	if pause >= zipformerQuiet || pause >= zipformerPause && c.blanks < c.count ||
		time.Duration(c.count)*zipformerRow >= zipformerMost {
		return c.finish(), nil
	}
	if partial && len(c.said) > c.told {
		s = c.segment()
		s.Partial, c.told = true, len(c.said)
	}
	return s, nil
}

// search is greedy search: at most one symbol a row.
func (c *zipformerCall) search(nets ZipformerCalls) error {
	if err := nets.Hear(c.count == 0, c.in, c.rows); err != nil {
		return err
	}
	size := 4 * c.p.Rows.Shape[2]
	for at := 0; at < len(c.rows); at += size {
		if err := nets.Say(c.last, c.rows[at:][:size], c.logits); err != nil {
			return err
		}
		id, logprob, err := likeliest(c.logits)
		if err != nil {
			return err
		}
		if c.blanks++; id != blank {
			c.blanks, c.last = 0, [2]int32{c.last[1], id}
			if symbol := c.p.Symbols[id]; !strings.HasPrefix(symbol, "<") || !strings.HasSuffix(symbol, ">") {
				c.said = append(c.said, heard{id, c.count, c.count, logprob})
			}
		}
		c.count++
	}
	return nil
}

// segment is what was said of the utterance so far.
func (c *zipformerCall) segment() ask.Segment {
	end := at(c.samples)
	s := segment(c.p.Symbols, c.said, zipformerRow, time.Duration(c.first)*zipformerFrame, end)
	s.Language = c.p.Speaks(s.Text)
	return s
}

// finish ends the utterance: the next one begins with the next call.
func (c *zipformerCall) finish() ask.Segment {
	s := c.segment()
	c.first, c.count, c.blanks, c.last, c.said, c.told = c.at, 0, 0, [2]int32{}, c.said[:0], 0
	return s
}
