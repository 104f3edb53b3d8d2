package speech

import (
	"context"
	"encoding/binary"
	"iter"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/audio/vad"
	"github.com/axle-llm/axle/models"
)

// SenseVoiceNet is the net of a SenseVoice. It is one request's from Turn to the call of done.
type SenseVoiceNet interface {
	Turn(ctx context.Context) (done func(), err error)
	// Call calls the net: in has all inputs, and out is filled.
	Call(ctx context.Context, in, out map[string][]byte) error
}

// SenseVoice writes down what is said with a package's net. Its buffers are, like the net, those of
// the request whose turn it is: the logits alone are 26 MB.
type SenseVoice struct {
	p      *models.SenseVoice
	in     map[string][]byte
	logits []byte
}

// NewSenseVoice returns a package's recogniser.
func NewSenseVoice(p *models.SenseVoice) *SenseVoice {
	s := &SenseVoice{p: p, in: map[string][]byte{}, logits: make([]byte, p.Logits.Size)}
	s.in[p.Speech.Name] = make([]byte, p.Speech.Size)
	if p.Mask.Name != "" {
		s.in[p.Mask.Name] = make([]byte, p.Mask.Size)
	}
	return s
}

// What the prompt has beside the language: the model is to find emotion and event, and to write
// numbers and punctuation.
var sensePrompt = [...]int32{1, 2, 14}

const (
	senseRow  = 60 * time.Millisecond // of an output row
	senseHead = 4                     // output rows before those of speech
)

// Transcribe cuts the sound where it is quiet, into pieces that the net takes in one call, and
// yields the segments of each as it is recognised. It reads no more of the sound than the next
// piece. Silent pieces are left out. Errors: ask.ErrRequest for a language that the model does not
// know, or a translation; the sound's; the net's; ctx's; ErrNonsense.
func (s *SenseVoice) Transcribe(ctx context.Context, net SenseVoiceNet, r ask.TranscribeRequest) iter.Seq2[ask.Segment, error] {
	return func(yield func(ask.Segment, error) bool) {
		language, known := s.p.Language(r.Language)
		if err := refusal(r, s.p.Name, known, s.p.Info().Languages); err != nil {
			yield(ask.Segment{}, err)
			return
		}
		c := &senseCall{SenseVoice: s, net: net, language: language, fbank: features.NewFbank(features.SenseVoice)}
		for piece, err := range pieces(ctx, r.Sound, c.longest()) {
			var found []ask.Segment
			if err == nil && !piece.Silent {
				found, err = c.recognise(ctx, piece)
			}
			if err != nil {
				yield(ask.Segment{}, err)
				return
			}
			for _, seg := range found {
				if !yield(seg, nil) {
					return
				}
			}
		}
	}
}

// senseCall is one transcription.
type senseCall struct {
	*SenseVoice
	net      SenseVoiceNet
	language int32
	fbank    *features.Fbank
	frames   []float32
	rows     []float32
	count    int // rows of speech
}

// longest is how many samples the net's rows hold: a row has six new frames, and the first frame a
// whole window.
func (c *senseCall) longest() int { return 400 + 160*(6*c.p.Rows-1) }

// recognise calls the net with a piece.
func (c *senseCall) recognise(ctx context.Context, piece vad.Piece) ([]ask.Segment, error) {
	c.frames = c.fbank.Finish(c.fbank.Append(c.frames[:0], piece.Samples))
	c.rows = features.AppendLFR(c.rows[:0], c.frames)
	if c.p.CMVN != nil {
		if err := c.p.CMVN.Apply(c.rows); err != nil {
			return nil, err
		}
	}
	c.count = len(c.rows) / features.LFRWidth
	if c.count == 0 {
		return nil, nil // shorter than a window
	}
	done, err := c.net.Turn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	c.fill()
	if err := c.net.Call(ctx, c.in, map[string][]byte{c.p.Logits.Name: c.logits}); err != nil {
		return nil, err
	}
	return c.segments(at(piece.Start), at(piece.Start+len(piece.Samples)))
}

// fill puts the rows and the prompt into the net's inputs.
func (c *senseCall) fill() {
	speech := c.in[c.p.Speech.Name]
	for i, x := range c.rows {
		binary.LittleEndian.PutUint32(speech[4*i:], math.Float32bits(x))
	}
	clear(speech[4*len(c.rows):])
	spoken := binary.LittleEndian.AppendUint32(nil, uint32(c.language))
	if mask := c.in[c.p.Mask.Name]; mask != nil {
		clear(mask)
		for i := range c.count + senseHead {
			mask[4*i] = 1
		}
	} else {
		for _, n := range sensePrompt {
			spoken = binary.LittleEndian.AppendUint32(spoken, uint32(n))
		}
	}
	c.in[c.p.Spoken.Name] = spoken
}

// best is likeliest of an output row.
func (c *senseCall) best(row int) (id int32, logprob float64, err error) {
	width := 4 * c.p.Logits.Shape[2]
	return likeliest(c.logits[width*row:][:width])
}

// segments returns what the last call recognised of a piece, cut at the ends of sentences. Error:
// ErrNonsense.
func (c *senseCall) segments(start, end time.Duration) (all []ask.Segment, err error) {
	var about [senseHead]string
	for i := range about {
		id, _, err := c.best(i)
		if err != nil {
			return nil, err
		}
		about[i] = special(c.p.Tokens[id])
	}
	var tokens []heard
	last := int32(blank)
	for i := range c.count {
		id, logprob, err := c.best(senseHead + i)
		switch {
		case err != nil:
			return nil, err
		case id == last && id != blank:
			tokens[len(tokens)-1].to = i
		case id != blank:
			tokens = append(tokens, heard{id, i, i, logprob})
		}
		last = id
	}
	for len(tokens) > 0 {
		n := c.sentence(tokens)
		seg := segment(c.p.Tokens, tokens[:n], senseRow, start, end)
		seg.Language, seg.Emotion, seg.Event = about[0], about[1], about[2]
		if seg.Language == "nospeech" {
			seg.Language = ""
		}
		if tokens = tokens[n:]; seg.Text != "" {
			all = append(all, seg)
		}
	}
	return all, nil
}

// sentence returns how many tokens the first sentence has.
func (c *senseCall) sentence(tokens []heard) int {
	for i, t := range tokens {
		if text := c.p.Tokens[t.id]; text != "" {
			if end, _ := utf8.DecodeLastRuneInString(text); strings.ContainsRune(".?!。？！", end) {
				return i + 1
			}
		}
	}
	return len(tokens)
}
