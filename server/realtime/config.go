package realtime

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/axle-llm/axle/server/body"
)

// config is what a session is set to, and how it is told to the client.
type config struct {
	Type   string `json:"type"`
	Object string `json:"object"`
	ID     string `json:"id"`
	*talk         // nil: speech is written down, and nothing is answered
	Audio  struct {
		Input  input   `json:"input"`
		Output *output `json:"output,omitempty"` // nil as talk is
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
	// Of a conversation: a turn is answered, and ends an answer that is being made.
	Answers    yes `json:"create_response,omitzero"`
	Interrupts yes `json:"interrupt_response,omitzero"`
}

// yes is a setting that is true where nothing is said: "", "true" or "false".
type yes string

func (y yes) is() bool { return y != "false" }

func (y yes) MarshalJSON() ([]byte, error) { return []byte(y), nil }

func (y *yes) UnmarshalJSON(b []byte) error {
	switch *y = yes(b); *y {
	case "true", "false":
	case "null":
		*y = ""
	default:
		return body.Fail(400, "%q is neither true nor false", clip(string(b)))
	}
	return nil
}

const (
	transcribes = "transcription"
	converses   = "realtime"

	transcriptionObject = "realtime.transcription_session"

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

var serverVAD = turnDetection{Type: "server_vad", Threshold: 0.5, Prefix: 300, Silence: 500}

// fresh is what a session begins with.
func fresh(id, hears string) (c config) {
	c.Type, c.Object, c.ID = transcribes, transcriptionObject, id
	vad := serverVAD
	c.Audio.Input = input{Format: format{pcm, pcmRate}, Transcription: &transcription{Model: hears}, TurnDetection: &vad}
	return c
}

// conversation is c as a conversation, with what one begins with.
func (c config) conversation(model, voice string) config {
	c.Type, c.Object = converses, "realtime.session"
	c.talk = &talk{Model: model, Modalities: []string{sounds}, Tools: []json.RawMessage{}, ToolChoice: json.RawMessage(`"auto"`)}
	if t := c.Audio.Input.TurnDetection; t != nil {
		answered := *t
		answered.Answers, answered.Interrupts = "true", "true"
		c.Audio.Input.TurnDetection = &answered
	}
	c.Audio.Output = &output{Format: format{pcm, pcmRate}, Voice: voiceName(voice), Speed: 1}
	return c
}

// with is c with what a session.update changes: what it does not name stays, and of what it names
// the fields that it does not name. It does not change the type.
func (c config) with(session json.RawMessage) (config, error) {
	var update struct {
		Audio struct {
			Input struct {
				Format        *format         `json:"format"`
				Transcription json.RawMessage `json:"transcription"`
				TurnDetection json.RawMessage `json:"turn_detection"`
			} `json:"input"`
			Output json.RawMessage `json:"output"`
		} `json:"audio"`
	}
	if err := into("session", session, &update); err != nil {
		return c, err
	}
	if c.talk != nil {
		next, err := c.talk.with("session", session)
		if err != nil {
			return c, err
		}
		out, err := c.Audio.Output.with(update.Audio.Output)
		if err != nil {
			return c, err
		}
		c.talk, c.Audio.Output = &next, &out
	}
	in := &c.Audio.Input
	if f := update.Audio.Input.Format; f != nil {
		var err error
		if in.Format, err = f.checked(); err != nil {
			return c, err
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
	if in.TurnDetection != nil {
		t := new(*in.TurnDetection)
		in.TurnDetection = t
		if t.Answers, t.Interrupts = cmp.Or(t.Answers, "true"), cmp.Or(t.Interrupts, "true"); c.talk == nil {
			t.Answers, t.Interrupts = "", ""
		}
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

// checked is a format as it is told.
func (f format) checked() (format, error) {
	switch rate := f.rate(); {
	case rate == 0:
		return f, body.Fail(400, "a format of the type %q: audio/pcm, audio/pcmu and audio/pcma are possible", clip(f.Type))
	case f.Rate != 0 && f.Rate != rate:
		return f, body.Fail(400, "%s at %d samples a second: it has %d", f.Type, f.Rate, rate)
	case f.Type == pcm:
		return format{pcm, pcmRate}, nil
	}
	return format{Type: f.Type}, nil
}

// rate is how many samples a second the format has; 0: it is none.
func (f format) rate() int {
	switch f.Type {
	case pcm:
		return pcmRate
	case muLaw, aLaw:
		return phoneRate
	}
	return 0
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
		if ours := new(body.Failure); errors.As(err, &ours) {
			return ours
		}
		return body.Fail(400, "%s cannot be read: %s", body.Ours(what), clip(err.Error()))
	}
	return nil
}

// clip is the beginning of a client's words, for an error.
func clip(s string) string { return s[:min(len(s), maxTold)] }
