package realtime

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"strconv"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
)

const (
	sounds = "audio" // what answers come as
	writes = "text"

	maxInstructions = 64 << 10  // bytes
	maxTools        = 256 << 10 // bytes of all
	manyTools       = 128
	slowest         = 0.25 // of a voice
	fastest         = 4    // OpenAI: 1.5
)

// talk is what a session answers with, and how that is told to the client.
type talk struct {
	Model        string            `json:"model"`
	Modalities   []string          `json:"output_modalities"` // one
	Instructions string            `json:"instructions"`
	Tools        []json.RawMessage `json:"tools"`
	ToolChoice   json.RawMessage   `json:"tool_choice"`
	MaxTokens    tokens            `json:"max_output_tokens"`
	Temperature  *float64          `json:"temperature,omitempty"` // nil: the model's. OpenAI's has none any more
	Together     yes               `json:"parallel_tool_calls,omitzero"`

	offered []ask.Tool // Tools
	choice  string     // ToolChoice
}

// size is how many bytes it takes, beside what is small.
func (t *talk) size() (n int64) {
	if t == nil {
		return 0
	}
	for _, b := range t.Tools {
		n += 2 * int64(len(b)) // as it came, and as it is offered
	}
	return n + int64(len(t.Instructions))
}

// output is how an answer sounds.
type output struct {
	Format format    `json:"format"`
	Voice  voiceName `json:"voice"` // "": there is none
	Speed  float64   `json:"speed"`
}

// tokens is a number of them; 0 is "inf".
type tokens int

func (t tokens) MarshalJSON() ([]byte, error) {
	if t == 0 {
		return []byte(`"inf"`), nil
	}
	return strconv.AppendInt(nil, int64(t), 10), nil
}

func (t *tokens) UnmarshalJSON(b []byte) error {
	if *t = 0; string(b) == `"inf"` {
		return nil
	}
	n, err := strconv.ParseInt(string(b), 10, 32)
	if err != nil || n < 1 {
		return body.Fail(400, "max_output_tokens must be a number from 1 to %d, or \"inf\"", math.MaxInt32)
	}
	*t = tokens(n)
	return nil
}

// voiceName is a name, or an object with one.
type voiceName string

func (v *voiceName) UnmarshalJSON(b []byte) error {
	var custom struct{ ID *string }
	if json.Unmarshal(b, (*string)(v)) == nil {
		return nil
	}
	if json.Unmarshal(b, &custom) != nil || custom.ID == nil {
		return body.Fail(400, "voice must be a name, or an object with an id")
	}
	*v = voiceName(*custom.ID)
	return nil
}

// speaks says whether answers are spoken.
func (t *talk) speaks() bool { return t.Modalities[0] == sounds }

// with is t with what a session or a response says.
func (t talk) with(what string, b json.RawMessage) (talk, error) {
	var update struct {
		Model        *string           `json:"model"`
		Modalities   []string          `json:"output_modalities"`
		Instructions *string           `json:"instructions"`
		Tools        []json.RawMessage `json:"tools"`
		ToolChoice   json.RawMessage   `json:"tool_choice"`
		MaxTokens    *tokens           `json:"max_output_tokens"`
		Temperature  *float64          `json:"temperature"`
		Together     yes               `json:"parallel_tool_calls"`
	}
	if err := into(what, b, &update); err != nil {
		return t, err
	}
	if update.Model != nil {
		if t.Model = *update.Model; len(t.Model) > maxName {
			return t, body.Fail(400, "model has more than %d bytes", maxName)
		}
	}
	if m := update.Modalities; m != nil {
		if len(m) != 1 || m[0] != sounds && m[0] != writes {
			return t, body.Fail(400, `output_modalities must be ["audio"] or ["text"]: audio has its text beside it`)
		}
		t.Modalities = m
	}
	if update.Instructions != nil {
		if t.Instructions = *update.Instructions; len(t.Instructions) > maxInstructions {
			return t, body.Fail(400, "instructions have more than %d KiB", maxInstructions>>10)
		}
	}
	if update.MaxTokens != nil {
		t.MaxTokens = *update.MaxTokens
	}
	t.Together = cmp.Or(update.Together, t.Together)
	if update.Temperature != nil {
		if t.Temperature = update.Temperature; !(*t.Temperature >= 0 && *t.Temperature <= 2) {
			return t, body.Fail(400, "temperature is %v: it must be from 0 to 2", *t.Temperature)
		}
	}
	if update.Tools != nil {
		if err := t.offer(update.Tools); err != nil {
			return t, err
		}
	}
	if update.ToolChoice != nil {
		t.ToolChoice, t.choice = update.ToolChoice, "" // null is the default
	}
	return t, t.choose()
}

// offer takes the tools that answers may call.
func (t *talk) offer(tools []json.RawMessage) error {
	t.Tools, t.offered = tools, nil
	size := 0
	for _, b := range tools {
		var f struct {
			Type        string          `json:"type"`
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		}
		if err := into("a tool", b, &f); err != nil {
			return err
		}
		switch size += len(b); {
		case f.Type != "function":
			return body.Fail(400, "a tool of the type %q: function is possible", clip(f.Type))
		case f.Name == "" || len(f.Name) > maxName:
			return body.Fail(400, "a tool's name must have 1 to %d bytes", maxName)
		case len(tools) > manyTools || size > maxTools:
			return body.Fail(400, "the tools are more than %d, or than %d KiB", manyTools, maxTools>>10)
		}
		if bytes.Equal(f.Parameters, []byte("null")) {
			f.Parameters = nil
		}
		t.offered = append(t.offered, ask.Tool{Type: f.Type, Name: f.Name, Description: f.Description, Parameters: f.Parameters})
	}
	return nil
}

// choose reads which tool is to be called.
func (t *talk) choose() error {
	var named struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	if json.Unmarshal(t.ToolChoice, &t.choice) != nil {
		if json.Unmarshal(t.ToolChoice, &named) != nil || named.Type != "function" {
			return body.Fail(400, `tool_choice must be "none", "auto", "required", or a function: {"type": "function", "name": …}`)
		}
		for _, f := range t.offered {
			if t.choice = f.Name; f.Name == named.Name {
				var err error
				t.ToolChoice, err = json.Marshal(named) // without what else was there
				return err
			}
		}
		return body.Fail(400, "tool_choice names %q, which is not among the tools", clip(named.Name))
	}
	switch t.choice {
	case "":
		t.choice, t.ToolChoice = "auto", json.RawMessage(`"auto"`)
	case "auto", "none":
	case "required":
		if len(t.offered) == 0 {
			return body.Fail(400, "tool_choice is \"required\", but there are no tools")
		}
	default:
		return body.Fail(400, `tool_choice must be "none", "auto", "required", or a function: {"type": "function", "name": …}`)
	}
	return nil
}

// with is o with what a session or a response says.
func (o output) with(b json.RawMessage) (output, error) {
	if b == nil {
		return o, nil
	}
	var update struct {
		Format *format    `json:"format"`
		Voice  *voiceName `json:"voice"`
		Speed  *float64   `json:"speed"`
	}
	if err := into("audio.output", b, &update); err != nil {
		return o, err
	}
	if update.Format != nil {
		var err error
		if o.Format, err = update.Format.checked(); err != nil {
			return o, err
		}
	}
	if update.Voice != nil {
		if o.Voice = *update.Voice; len(o.Voice) > maxName {
			return o, body.Fail(400, "voice has more than %d bytes", maxName)
		}
	}
	if update.Speed != nil {
		if o.Speed = *update.Speed; !(o.Speed >= slowest && o.Speed <= fastest) {
			return o, body.Fail(400, "speed is %v: it must be from %v to %v", o.Speed, slowest, fastest)
		}
	}
	return o, nil
}
