package realtime

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/axle-llm/axle/server/body"
)

// config is what a session is set to, and how it is told to the client.
type config struct {
	Type   string `json:"type"`
	Object string `json:"object"`
	ID     string `json:"id"`
	Audio  struct {
		Input input `json:"input"`
	} `json:"audio"`
	Include []string `json:"include"` // log probabilities are not told: null
}

// input is what is done with the sound that comes.
type input struct {
	Format         format         `json:"format"`
	NoiseReduction *struct{}      `json:"noise_reduction"` // there is none: null
	Transcription  *transcription `json:"transcription"`   // nil: nothing is written down
	TurnDetection  *turnDetection `json:"turn_detection"`  // nil: the client says when a turn is over
}

// format is the form of the samples.
type format struct {
	Type string `json:"type"`
	Rate int    `json:"rate,omitempty"`
}

type transcription struct {
	Model    string `json:"model"`
	Language string `json:"language,omitempty"`
	Prompt   string `json:"prompt,omitempty"`
}

type turnDetection struct {
	Type      string  `json:"type"`
	Threshold float64 `json:"threshold"`
	Prefix    int     `json:"prefix_padding_ms"`
	Silence   int     `json:"silence_duration_ms"`
}

const (
	pcm       = "audio/pcm"
	pcmRate   = 24000
	muLaw     = "audio/pcmu"
	aLaw      = "audio/pcma"
	phoneRate = 8000

	maxPrefix  = 10_000 // milliseconds
	maxSilence = 60_000
	maxPrompt  = 16 << 10 // bytes
	maxName    = 512
	maxTold    = 300 // bytes of a client's words in an error
)

var serverVAD = turnDetection{"server_vad", 0.5, 300, 500}

// fresh is what a session begins with.
func fresh(id, model string) (c config) {
	c.Type, c.Object, c.ID = "transcription", "realtime.transcription_session", id
	vad := serverVAD
	c.Audio.Input = input{Format: format{pcm, pcmRate}, Transcription: &transcription{Model: model}, TurnDetection: &vad}
	return c
}

// with is c with what a session.update changes: what it does not name stays, and of what it names
// the fields that it does not name.
func (c config) with(session json.RawMessage) (config, error) {
	var update struct {
		Type  string `json:"type"`
		Audio struct {
			Input struct {
				Format        *format         `json:"format"`
				Transcription json.RawMessage `json:"transcription"`
				TurnDetection json.RawMessage `json:"turn_detection"`
			} `json:"input"`
		} `json:"audio"`
	}
	if err := into("session", session, &update); err != nil {
		return c, err
	}
	if update.Type != c.Type {
		return c, body.Fail(400, "session.type is %q: a session here is of the type \"transcription\"", clip(update.Type))
	}
	in := &c.Audio.Input
	if f := update.Audio.Input.Format; f != nil {
		switch rate := map[string]int{pcm: pcmRate, muLaw: phoneRate, aLaw: phoneRate}[f.Type]; {
		case rate == 0:
			return c, body.Fail(400, "a format of the type %q: audio/pcm, audio/pcmu and audio/pcma are possible", clip(f.Type))
		case f.Rate != 0 && f.Rate != rate:
			return c, body.Fail(400, "%s at %d samples a second: it has %d", f.Type, f.Rate, rate)
		case f.Type == pcm:
			in.Format = format{pcm, pcmRate}
		default:
			in.Format = format{Type: f.Type}
		}
	}
	if err := merged("transcription", update.Audio.Input.Transcription, transcription{}, &in.Transcription); err != nil {
		return c, err
	}
	if t := in.Transcription; t != nil {
		t.Language = strings.ToLower(strings.TrimSpace(t.Language))
		switch {
		case len(t.Prompt) > maxPrompt:
			return c, body.Fail(400, "transcription.prompt has more than %d KiB", maxPrompt>>10)
		case len(t.Model) > maxName, len(t.Language) > maxName:
			return c, body.Fail(400, "transcription.model or language has more than %d bytes", maxName)
		}
	}
	if err := merged("turn_detection", update.Audio.Input.TurnDetection, serverVAD, &in.TurnDetection); err != nil {
		return c, err
	}
	if t := in.TurnDetection; t != nil {
		switch {
		case t.Type != serverVAD.Type:
			return c, body.Fail(400, "turn_detection.type is %q: server_vad is possible, or null for turn_detection", clip(t.Type))
		case !(t.Threshold >= 0 && t.Threshold <= 1):
			return c, body.Fail(400, "turn_detection.threshold is %v: it must be from 0 to 1", t.Threshold)
		case t.Prefix < 0 || t.Prefix > maxPrefix:
			return c, body.Fail(400, "turn_detection.prefix_padding_ms is %d: it must be from 0 to %d", t.Prefix, maxPrefix)
		case t.Silence < 1 || t.Silence > maxSilence:
			return c, body.Fail(400, "turn_detection.silence_duration_ms is %d: it must be from 1 to %d", t.Silence, maxSilence)
		}
	}
	return c, nil
}

// merged reads JSON into a copy of what was set, or of a default where nothing was. null sets
// nothing, and without JSON all stays.
func merged[T any](name string, b json.RawMessage, zero T, to **T) error {
	switch {
	case b == nil:
		return nil
	case bytes.Equal(b, []byte("null")):
		*to = nil
		return nil
	case *to != nil:
		zero = **to
	}
	*to = &zero
	return into(name, b, &zero)
}

// into reads the JSON of something into a struct.
func into(what string, b []byte, to any) error {
	if err := json.Unmarshal(b, to); err != nil {
		return body.Fail(400, "%s cannot be read: %s", body.Ours(what), clip(err.Error()))
	}
	return nil
}

// clip is the beginning of a client's words, for an error.
func clip(s string) string { return s[:min(len(s), maxTold)] }
