package openai

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// Transcription is a request to write speech down, and its answer. It implements
// [prompt.Hearing]. It belongs to one goroutine.
type Transcription struct {
	model        string
	request      ask.TranscribeRequest
	format       string // json, text, srt, vtt or verbose_json; "": json
	stream       bool
	words, times bool // verbose_json has words, and segments

	segments []ask.Segment
	text     strings.Builder
	spoken   prompt.Spoken
}

// NewTranscription returns a request without fields.
func NewTranscription() prompt.Hearing { return new(Transcription) }

// NewTranslation returns one for a text in English, whatever is spoken.
func NewTranslation() prompt.Hearing {
	return &Transcription{request: ask.TranscribeRequest{Translate: true}}
}

// Model is the name of the model that is to hear.
func (t *Transcription) Model() string { return t.model }

// Request is what the fields ask of the model.
func (t *Transcription) Request() ask.TranscribeRequest {
	r := t.request
	r.Partial = t.stream
	return r
}

// Streams reports whether the answer is sent as it comes.
func (t *Transcription) Streams() bool { return t.stream }

// Set takes a field of the form. Fields that mean nothing here are left out. An error names the
// field.
func (t *Transcription) Set(name, value string) (err error) {
	switch name {
	case "model":
		t.model = value
	case "language":
		t.request.Language = strings.ToLower(strings.TrimSpace(value))
	case "prompt":
		t.request.Prompt = value
	case "response_format":
		switch value {
		case "", "json", "text", "srt", "vtt", "verbose_json":
			t.format = value
		default:
			return body.Fail(400, "response_format must be json, text, srt, vtt or verbose_json, got %q", value)
		}
	case "stream":
		if t.stream, err = strconv.ParseBool(value); err != nil {
			return body.Fail(400, "stream must be true or false, got %q", value)
		}
	case "temperature":
		f := &t.request.Temperature
		if *f, err = strconv.ParseFloat(value, 64); err != nil || !(*f >= 0 && *f <= 1) {
			return body.Fail(400, "temperature must be between 0 and 1, got %q", value)
		}
	case "timestamp_granularities[]", "timestamp_granularities":
		switch value {
		case "word":
			t.words = true
		case "segment":
			t.times = true
		default:
			return body.Fail(400, "timestamp_granularities must be word or segment, got %q", value)
		}
	}
	return nil
}

// Check says what the fields ask for that does not go together.
func (t *Transcription) Check() error {
	if t.stream && t.format != "" && t.format != "json" && t.format != "text" {
		return body.Fail(400, "a streamed answer has no %s: leave response_format out, or stream", t.format)
	}
	if (t.words || t.times) && t.format != "verbose_json" {
		return body.Fail(400, "timestamp_granularities needs the response_format verbose_json")
	}
	return nil
}

// verbose is the body of a transcription with times.
type verbose struct {
	Task     string    `json:"task"`
	Language string    `json:"language"`
	Duration float64   `json:"duration"`
	Text     string    `json:"text"`
	Segments []segment `json:"segments,omitempty"`
	Words    []word    `json:"words,omitempty"`
	Usage    *heard    `json:"usage,omitempty"`
}

// heard is how much of a sound was written down.
type heard struct {
	Type    string  `json:"type"`
	Seconds float64 `json:"seconds"`
}

type segment struct {
	ID          int     `json:"id"`
	Seek        int     `json:"seek"`
	Start       float64 `json:"start"`
	End         float64 `json:"end"`
	Text        string  `json:"text"`
	Tokens      []int32 `json:"tokens"`
	Temperature float64 `json:"temperature"`
	Logprob     float64 `json:"avg_logprob"`
	Compression float64 `json:"compression_ratio"`
	NoSpeech    float64 `json:"no_speech_prob"`
	Language    string  `json:"language,omitempty"` // axle's own, as the next two
	Emotion     string  `json:"emotion,omitempty"`
	Event       string  `json:"event,omitempty"`
}

type word struct {
	Word  string  `json:"word"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
}

// Add takes the next segment, and returns the event of a streamed answer; nil, if the segment says
// no more than its part that came before.
func (t *Transcription) Add(s ask.Segment) ([]byte, error) {
	delta := t.spoken.Add(s)
	t.text.WriteString(delta)
	if !s.Partial {
		t.segments = append(t.segments, s)
	}
	if delta == "" {
		return nil, nil
	}
	return event(map[string]string{"type": "transcript.text.delta", "delta": delta})
}

// Finish returns the whole answer, or the last event of a streamed one. length is that of the
// sound.
func (t *Transcription) Finish(length time.Duration) (b []byte, err error) {
	if t.stream {
		return event(map[string]string{"type": "transcript.text.done", "text": t.text.String()})
	}
	switch t.format {
	case "text":
		return []byte(t.text.String()), nil
	case "srt", "vtt":
		return t.subtitles(), nil
	case "verbose_json":
		return line(t.verbose(length))
	}
	return line(struct {
		wire.TranscriptionResponse
		Usage *heard `json:"usage,omitempty"`
	}{wire.TranscriptionResponse{Text: t.text.String()}, t.usage(length)})
}

// Type is the content type of the answer.
func (t *Transcription) Type() string {
	switch {
	case t.stream:
		return stream
	case t.format == "text":
		return "text/plain"
	case t.format == "srt", t.format == "vtt":
		return "text/plain; charset=utf-8"
	}
	return whole
}

// ErrorBody, ErrorEnd and WholeType are how errors are told.
func (t *Transcription) ErrorBody(status int, text string) []byte { return ErrorBody(status, text) }

func (t *Transcription) ErrorEnd(status int, text string) []byte {
	b, _ := event(wire.NewError(status, text))
	return b
}

func (t *Transcription) WholeType() string { return whole }

// usage is nil for a translation: OpenAI's answer has none.
func (t *Transcription) usage(length time.Duration) *heard {
	if t.request.Translate {
		return nil
	}
	return &heard{"duration", seconds(length)}
}

func (t *Transcription) verbose(length time.Duration) verbose {
	v := verbose{Task: "transcribe", Language: languageName(t.request.Language), Duration: seconds(length), Text: t.text.String(),
		Usage: t.usage(length)}
	if t.request.Translate {
		v.Task = "translate"
	}
	for i, s := range t.segments {
		seek, compression := s.Seek, s.Compression
		if compression == 0 { // the model has neither
			seek, compression = s.Start, 1
		}
		if v.Language == "" {
			v.Language = languageName(s.Language)
		}
		if t.times || !t.words {
			v.Segments = append(v.Segments, segment{ID: i, Seek: int(seek / (10 * time.Millisecond)), Start: seconds(s.Start),
				End: seconds(s.End), Text: s.Text, Tokens: s.Tokens, Logprob: s.Logprob, Language: s.Language, Emotion: s.Emotion,
				Event: s.Event, Temperature: s.Temperature, Compression: compression, NoSpeech: s.NoSpeech})
		}
		if t.words {
			for _, w := range s.Words {
				v.Words = append(v.Words, word{w.Text, seconds(w.Start), seconds(w.End)})
			}
		}
	}
	return v
}

func seconds(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// subtitles writes the segments as SubRip or WebVTT.
func (t *Transcription) subtitles() (b []byte) {
	point := byte(',')
	if t.format == "vtt" {
		point = '.'
		b = append(b, "WEBVTT\n\n"...)
	}
	for i, s := range t.segments {
		if t.format == "srt" {
			b = fmt.Appendf(b, "%d\n", i+1)
		}
		b = append(clock(b, s.Start, point), " --> "...)
		b = clock(b, s.End, point)
		b = fmt.Appendf(b, "\n%s\n\n", strings.ReplaceAll(s.Text, "-->", "->"))
	}
	return b
}

// clock appends a time of subtitles.
func clock(b []byte, d time.Duration, point byte) []byte {
	ms := d.Milliseconds()
	return fmt.Appendf(b, "%02d:%02d:%02d%c%03d", ms/3600000, ms/60000%60, ms/1000%60, point, ms%1000)
}

// languageName is a language's name in English, by its ISO code.
func languageName(code string) string {
	for i := range languageCodes {
		if languageCodes[i] == code {
			return languageNames[i]
		}
	}
	return code
}

var (
	languageCodes = [...]string{"en", "zh", "yue", "ja", "ko", "de", "fr", "es", "it", "pt", "ru", "nl", "pl", "tr", "ar"}
	languageNames = [...]string{"english", "chinese", "cantonese", "japanese", "korean", "german", "french", "spanish", "italian",
		"portuguese", "russian", "dutch", "polish", "turkish", "arabic"}
)
