package openai

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// maxSpeech is how many characters a text may have that is spoken, as with OpenAI.
const maxSpeech = 4096

// Speech is a request to speak a text, and its answer. It implements [prompt.Speaking]. It belongs
// to one goroutine.
type Speech struct {
	model   string
	request ask.SpeakRequest
	format  string // wav, pcm or flac
	events  bool

	begun   bool // a part of the answer was made
	flac    *audio.FLAC
	samples int
}

// voice is a name, or an object with one.
type voice string

func (v *voice) UnmarshalJSON(b []byte) error {
	var custom struct{ ID string }
	if json.Unmarshal(b, (*string)(v)) == nil {
		return nil
	}
	if json.Unmarshal(b, &custom) != nil {
		return errors.New("voice must be a name, or an object with an id")
	}
	*v = voice(custom.ID)
	return nil
}

// DecodeSpeech reads the body of /v1/audio/speech. Fields that mean nothing here are left out.
func DecodeSpeech(b []byte) (prompt.Speaking, error) {
	var r struct {
		Model  string   `json:"model"`
		Input  string   `json:"input"`
		Voice  voice    `json:"voice"`
		Format string   `json:"response_format"`
		Speed  *float64 `json:"speed"`
		Stream string   `json:"stream_format"`
	}
	if err := body.Decode(b, &r); err != nil {
		return nil, err
	}
	s := &Speech{model: r.Model, format: r.Format, request: ask.SpeakRequest{Text: r.Input, Voice: string(r.Voice), Speed: 1}}
	if strings.TrimSpace(r.Input) == "" {
		return nil, body.Fail(400, "input is required: the text to speak")
	}
	if n := utf8.RuneCountInString(r.Input); n > maxSpeech {
		return nil, body.Fail(400, "input has %d characters: at most %d are spoken at once", n, maxSpeech)
	}
	switch s.format {
	case "":
		s.format = "wav"
	case "wav", "pcm", "flac":
	default:
		return nil, body.Fail(400, "response_format must be wav, pcm or flac, got %q", r.Format)
	}
	if r.Speed != nil {
		if s.request.Speed = *r.Speed; *r.Speed < 0.25 || *r.Speed > 4 {
			return nil, body.Fail(400, "speed must be between 0.25 and 4, got %v", *r.Speed)
		}
	}
	switch r.Stream {
	case "", "audio":
	case "sse":
		s.events = true
	default:
		return nil, body.Fail(400, "stream_format must be audio or sse, got %q", r.Stream)
	}
	return s, nil
}

// Model is the name of the model that is to speak.
func (s *Speech) Model() string { return s.model }

// Request is what is asked of a model with these voices.
func (s *Speech) Request(voices []ask.Voice) (ask.SpeakRequest, error) {
	r := s.request
	if r.Voice == "" {
		return r, nil
	}
	if r.Voice = OwnVoice(r.Voice, voices); r.Voice == "" {
		names := make([]string, len(voices))
		for i, v := range voices {
			names[i] = v.Name
		}
		return r, body.Fail(400, "voice %q is not known: the model has %s", s.request.Voice, strings.Join(names, ", "))
	}
	return r, nil
}

// openAIVoices are the names of OpenAI's voices. Clients send them unasked, so each has to stand
// for a voice of the model's.
var openAIVoices = [...]string{"alloy", "ash", "ballad", "coral", "echo", "fable", "nova", "onyx", "sage", "shimmer", "verse",
	"marin", "cedar"}

// OwnVoice is the model's voice of that name. One of OpenAI's is the voice with that name behind a
// _ in its own, if there is one, as af_alloy is; else, by its place in OpenAI's list, one of the
// voices that speak the language of the first. "": there is none.
func OwnVoice(name string, voices []ask.Voice) string {
	for _, v := range voices {
		if strings.EqualFold(v.Name, name) {
			return v.Name
		}
	}
	at := slices.Index(openAIVoices[:], strings.ToLower(name))
	if at < 0 || len(voices) == 0 {
		return ""
	}
	var same []string
	first, _, _ := strings.Cut(voices[0].Language, "-")
	for _, v := range voices {
		if strings.HasSuffix(v.Name, "_"+openAIVoices[at]) {
			return v.Name
		}
		if l, _, _ := strings.Cut(v.Language, "-"); l == first {
			same = append(same, v.Name)
		}
	}
	return same[at%len(same)]
}

// Add makes the next part of the answer. A wav that is made as it comes does not say how long it
// is, as OpenAI's do not; one whose sound is all there says it, since some players go by that.
func (s *Speech) Add(samples []float32, rate int, last bool) (b []byte, err error) {
	switch s.format {
	case "wav":
		if !s.begun {
			n := -1
			if last {
				n = len(samples)
			}
			b = audio.AppendWAVHeader(b, rate, n)
		}
		b = audio.AppendPCM(b, samples)
	case "pcm":
		b = audio.AppendPCM(b, samples)
	case "flac":
		if last && !s.begun {
			b = audio.AppendFLAC(b, samples, rate)
			break
		}
		if s.flac == nil {
			s.flac = audio.NewFLAC(rate)
		}
		b = s.flac.Append(b, samples, last)
	}
	s.begun = true
	s.samples += len(samples)
	if !s.events {
		return b, nil
	}
	var all []byte
	if len(b) > 0 {
		if all, err = event(map[string]any{"type": "speech.audio.delta", "audio": b}); err != nil {
			return nil, err
		}
	}
	if last {
		in, out := utf8.RuneCountInString(s.request.Text), (20*s.samples+rate-1)/rate
		b, err = event(map[string]any{"type": "speech.audio.done",
			"usage": map[string]int{"input_tokens": in, "output_tokens": out, "total_tokens": in + out}})
		all = append(all, b...)
	}
	return all, err
}

// Type is the content type of the answer.
func (s *Speech) Type() string {
	if s.events {
		return stream
	}
	return "audio/" + s.format
}

// ErrorBody, ErrorEnd and WholeType are how errors are told. A sound has no place for one.
func (s *Speech) ErrorBody(status int, text string) []byte { return ErrorBody(status, text) }

func (s *Speech) ErrorEnd(status int, text string) []byte {
	if !s.events {
		return nil
	}
	b, _ := event(wire.NewError(status, text))
	return b
}

func (s *Speech) WholeType() string { return whole }
