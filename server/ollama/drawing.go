package ollama

import (
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

const maxSide = 4096 // pixels

// pictureSize is what a body of /api/generate has for models that draw. Ollama 0.14 to 0.32 had it.
type pictureSize struct {
	Width  int `json:"width"`
	Height int `json:"height"`
	Steps  int `json:"steps"`
}

// generateEncoder is an encoder that has an answer, too, where the model draws.
type generateEncoder struct {
	encoder
	r    *prompt.Request
	size pictureSize
}

// Drawing is the request as one to draw.
func (e *generateEncoder) Drawing(m prompt.Model) (prompt.Drawing, error) {
	d := &drawing{stream: e.stream, model: e.r.Model, keep: e.r.KeepAlive, size: e.size}
	switch s := e.size; {
	case strings.TrimSpace(e.r.Ask.Prompt) == "":
		return nil, body.Fail(400, "prompt is required")
	case s.Width > maxSide || s.Height > maxSide:
		return nil, body.Fail(400, "width and height must be <= %d", maxSide)
	case s.Width < 0 || s.Height < 0 || s.Steps < 0:
		return nil, body.Fail(400, "width, height and steps must not be negative")
	case len(e.r.Ask.Images) > 1:
		return nil, body.Fail(400, "the request has %d pictures: send one", len(e.r.Ask.Images))
	}
	o := prompt.DefaultOptions(sampler.Defaults())
	o.Sampling.Seed = -1
	_, err := o.Set(m.Params)
	if err == nil {
		_, err = o.Set(e.r.Options)
	}
	if err != nil {
		return nil, err
	}
	d.request = ask.DrawRequest{Prompt: e.r.Ask.Prompt, Steps: e.size.Steps, Seed: rand.Uint32()}
	switch seed := o.Sampling.Seed; {
	case seed > math.MaxUint32:
		return nil, body.Fail(400, "the seed of a picture must be at most %d, got %d", uint32(math.MaxUint32), seed)
	case seed >= 0:
		d.request.Seed = uint32(seed)
	}
	if len(e.r.Ask.Images) > 0 {
		d.request.Picture = e.r.Ask.Images[0]
	}
	return d, nil
}

// drawing is a request to draw a picture, and its answer.
type drawing struct {
	Errors
	stream  bool
	model   string
	keep    *time.Duration
	size    pictureSize
	request ask.DrawRequest
	whole   []byte
}

// drawn is a line of the answer, or all of it: Ollama's, with the seed in addition.
type drawn struct {
	Model     string    `json:"model"`
	CreatedAt time.Time `json:"created_at"`
	Response  string    `json:"response"`
	Done      bool      `json:"done"`
	Reason    string    `json:"done_reason,omitempty"`
	Completed int       `json:"completed,omitempty"`
	Total     int       `json:"total,omitempty"`
	Image     []byte    `json:"image,omitempty"`
	Seed      *uint32   `json:"seed,omitempty"`
	api.Metrics
}

func (d *drawing) Model() string             { return d.model }
func (d *drawing) KeepAlive() *time.Duration { return d.keep }
func (d *drawing) Count() int                { return 1 }
func (d *drawing) Streams() bool             { return d.stream }
func (d *drawing) Type() string              { return lines }

func (d *drawing) Request(can ask.Draws) (ask.DrawRequest, error) {
	if s := d.size; s.Width != 0 && s.Width != can.Width || s.Height != 0 && s.Height != can.Height {
		return d.request, body.Fail(400, "the model does not draw %dx%d pixels: it draws %dx%d", s.Width, s.Height, can.Width, can.Height)
	}
	return d.request, nil
}

func (d *drawing) Add(p prompt.Drawn) (b []byte, err error) {
	if !d.stream && !p.Done {
		return nil, nil
	}
	o := drawn{Model: d.model, CreatedAt: time.Now().UTC(), Completed: p.Step, Total: p.Steps}
	if p.Done {
		o.Done, o.Reason, o.Seed = true, ask.ReasonStop, &p.Seed
		o.TotalDuration, o.LoadDuration = p.Total, p.Load
		if o.Image, err = prompt.PictureFile(p.Drawing, prompt.PNG, 0); err != nil {
			return nil, err
		}
	}
	if b, err = json.Marshal(o); err == nil && !d.stream {
		d.whole = b
		return nil, nil
	}
	return append(b, '\n'), err
}

func (d *drawing) Write(w io.Writer) error {
	_, err := w.Write(d.whole)
	return err
}
