package speech

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/audio/vad"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// SoundPrompt is a prompt with a piece of sound in it.
type SoundPrompt struct {
	IDs         []int32 // with a placeholder for each row of the sound
	Sound       []byte  // samples as float32, least byte first
	Limit       int     // the most tokens of the answer
	Temperature float64
	Key         string // as in ask.TranscribeRequest
}

// SoundAnswer is what a language model says of it.
type SoundAnswer struct {
	IDs     []int32 // without the one that ends the answer
	Logprob float64 // the sum of the tokens' log probabilities
}

// Say gives the answer to a prompt.
type Say func(ctx context.Context, p SoundPrompt) (SoundAnswer, error)

// QwenASR writes down what is said with a language model that hears.
type QwenASR struct {
	p       *models.QwenASR
	name    string
	hears   *models.Hearing
	words   *tokenizer.Tokenizer
	context int
	say     Say
}

// NewQwenASR returns a recogniser that asks the package's language model by say. name is the
// model's in errors, and context is how many tokens prompt and answer may have. Errors are those of
// the package's tokenizer.
func NewQwenASR(p *models.QwenASR, name string, context int, say Say) (*QwenASR, error) {
	hears, err := p.Text.Hearing()
	if err != nil {
		return nil, err
	}
	words, err := p.Text.Tokenizer()
	return &QwenASR{p, name, hears, words, context, say}, err
}

// An answer has at most the tokens that say the language, and for each second of speech twice as
// many as a fast speaker says. A model that repeats itself is cut off there.
const (
	qwenLeast  = 32
	qwenSecond = 20
	qwenRows   = 2 * 13 // of the shortest pieces: two seconds
)

// Transcribe cuts the sound where it is quiet, into pieces that the encoder and the prompt have
// room for, and yields a segment for each in which something is said. It reads no more of the sound
// than the next piece. Silent pieces are left out. r.Prompt stands before the sound, where the
// model looks for words that it may hear. Errors: ask.ErrRequest for a language that the model does
// not know, a translation, or a prompt that leaves no room; the sound's; Say's; ctx's.
func (q *QwenASR) Transcribe(ctx context.Context, r ask.TranscribeRequest) iter.Seq2[ask.Segment, error] {
	return func(yield func(ask.Segment, error) bool) {
		longest, err := q.longest(ctx, r)
		if err != nil {
			yield(ask.Segment{}, err)
			return
		}
		for piece, err := range pieces(ctx, r.Sound, longest) {
			var s ask.Segment
			if err == nil && !piece.Silent {
				s, err = q.recognise(ctx, r, piece)
			}
			if err != nil {
				yield(ask.Segment{}, err)
				return
			}
			if s.Text != "" && !yield(s, nil) {
				return
			}
		}
	}
}

// longest returns how many samples a piece may have, or why the request cannot be answered.
func (q *QwenASR) longest(ctx context.Context, r ask.TranscribeRequest) (int, error) {
	_, known := q.p.Language(r.Language)
	if err := refusal(r, q.name, known, q.p.Info().Languages); err != nil {
		return 0, err
	}
	ids, err := q.prompt(ctx, r, 0)
	if err != nil {
		return 0, err
	}
	// Rows of sound, and the prompt's rows behind them, go through prefill groups. The shortest
	// answer must have room too.
	most := min(q.p.Info().Prefill, q.context-qwenLeast-qwenSecond*qwenRows/13)
	rows := min(most-len(ids), q.hears.Rows)
	if rows < qwenRows {
		return 0, fmt.Errorf("%w: the prompt has %d tokens, and %s takes at most %d beside speech: give it fewer words",
			ask.ErrRequest, len(ids), q.name, most-qwenRows)
	}
	return models.SoundFrames(rows) * features.SampleRate / 100, nil
}

// prompt returns the ids of a prompt about sound of that many rows.
func (q *QwenASR) prompt(ctx context.Context, r ask.TranscribeRequest, rows int) ([]int32, error) {
	question := "<|im_end|>\n<|im_start|>user\n" + models.SoundBegins + strings.Repeat(models.SoundRow, rows) + models.SoundEnds +
		"<|im_end|>\n<|im_start|>assistant\n"
	if language, _ := q.p.Language(r.Language); language != "" {
		question += "language " + language + models.TextBegins
	}
	ids, err := chat.EncodeContext(ctx, q.words, []chat.Piece{{Text: "<|im_start|>system\n", Control: true},
		{Text: strings.TrimSpace(r.Prompt)}, {Text: question, Control: true}})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ask.ErrRequest, err)
	}
	return ids, err
}

// recognise returns what is said in a piece. Its text is empty where nothing is.
func (q *QwenASR) recognise(ctx context.Context, r ask.TranscribeRequest, piece vad.Piece) (s ask.Segment, err error) {
	if len(piece.Samples) <= 200 { // the features reflect as many at both ends
		return s, nil
	}
	rows := models.SoundRows(len(piece.Samples) * 100 / features.SampleRate)
	p := SoundPrompt{Sound: make([]byte, 0, 4*len(piece.Samples)), Temperature: r.Temperature, Key: r.Key,
		Limit: qwenLeast + qwenSecond*len(piece.Samples)/SampleRate}
	for _, x := range piece.Samples {
		p.Sound = binary.LittleEndian.AppendUint32(p.Sound, math.Float32bits(x))
	}
	if p.IDs, err = q.prompt(ctx, r, rows); err != nil {
		return s, err
	}
	a, err := q.say(ctx, p)
	if err != nil {
		return s, err
	}
	s.Language, s.Text, s.Tokens = q.read(a.IDs, r.Language)
	s.Start, s.End = at(piece.Start), at(piece.Start+len(piece.Samples))
	s.Seek, s.Temperature = s.Start, r.Temperature
	if len(a.IDs) > 0 {
		s.Logprob = a.Logprob / float64(len(a.IDs))
	}
	return s, nil
}

// read takes an answer apart: `language English<asr_text>Hello.` The model says None where it hears
// no speech. asked is the language that it was told to hear, and then does not say.
func (q *QwenASR) read(ids []int32, asked string) (language, text string, tokens []int32) {
	end := slices.Index(ids, q.hears.Text)
	tokens = ids[end+1:]
	text = strings.TrimSpace(q.words.Decode(tokens, true))
	name := ""
	if end > 0 {
		name, _, _ = strings.Cut(q.words.Decode(ids[:end], true), ",") // it may say several
		name = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(name), "language"))
	} else {
		name, _ = q.p.Language(asked)
	}
	if strings.EqualFold(name, "None") {
		return "", "", nil
	}
	for code, known := range models.QwenLanguages {
		if strings.EqualFold(name, known) {
			language = code
		}
	}
	return language, text, tokens
}
