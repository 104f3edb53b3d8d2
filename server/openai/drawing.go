package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	wire "github.com/ollama/ollama/openai"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// What a drawing may be asked for.
const (
	maxDrawings    = 10
	maxPartial     = 3
	maxDrawingText = 32000 // characters, as with OpenAI; a model takes what it can of them
	maxGuidance    = 50
	usualQuality   = 90 // of a JPEG
	tokenSide      = 16 // pixels: a token of usage is a square of them
)

// Drawing is a request to draw pictures, and its answer. It implements [prompt.DrawingForm]. It
// belongs to one goroutine.
type Drawing struct {
	f       drawingFields
	edit    bool
	picture []byte // to start from
	seed    uint32
	width   int // of the pictures
	height  int

	shown int // pictures on the way to the one that is being drawn
	files []file
}

// file is a picture that is done.
type file struct {
	data []byte
	seed uint32
}

// drawingFields are the fields of a body or a form. Those that mean nothing here are left out.
type drawingFields struct {
	Prompt         string   `json:"prompt"`
	Model          string   `json:"model"`
	N              *int64   `json:"n"`
	Size           string   `json:"size"`
	ResponseFormat string   `json:"response_format"`
	OutputFormat   string   `json:"output_format"`
	Compression    *int64   `json:"output_compression"`
	Stream         bool     `json:"stream"`
	Partial        *int64   `json:"partial_images"`
	Seed           *int64   `json:"seed"`
	Steps          *int64   `json:"steps"`
	Negative       string   `json:"negative_prompt"`
	Guidance       *float64 `json:"guidance"`
	Strength       *float64 `json:"strength"`
	Progress       bool     `json:"progress"`
	Image          pictures `json:"image"`
	Mask           any      `json:"mask"`
}

// pictures are one in base64, or in a data URL, or a list of them.
type pictures []string

func (p *pictures) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		if *p = nil; one != "" {
			*p = pictures{one}
		}
		return nil
	}
	if json.Unmarshal(b, (*[]string)(p)) != nil {
		return errors.New("image must be a picture in base64, or a list of one")
	}
	return nil
}

// DecodeDrawing reads the body of /v1/images/generations.
func DecodeDrawing(b []byte) (prompt.Drawing, error) {
	d := new(Drawing)
	if err := body.Decode(b, &d.f); err != nil {
		return nil, err
	}
	return d, d.check()
}

// DecodeEdit reads a body of /v1/images/edits that is no form, as Ollama has them.
func DecodeEdit(b []byte) (prompt.Drawing, error) {
	d := &Drawing{edit: true}
	if err := body.Decode(b, &d.f); err != nil {
		return nil, err
	}
	if d.f.Mask != nil {
		return nil, ErrMask
	}
	switch n := len(d.f.Image); {
	case n == 0:
		return nil, body.Fail(400, "image is required")
	case n > 1:
		return nil, body.Fail(400, "the request has %d pictures: send one", n)
	}
	text := d.f.Image[0]
	if strings.HasPrefix(text, "data:") {
		_, text, _ = strings.Cut(text, ",")
	}
	picture, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, body.Fail(400, "image is no base64: %s", err)
	}
	d.f.Image = nil
	return d, d.Check(picture)
}

// NewEdit returns an edit without fields.
func NewEdit() prompt.DrawingForm { return &Drawing{edit: true} }

// ErrMask is why an edit with a mask is refused.
var ErrMask = body.Fail(400, "mask is not supported: a whole picture is drawn anew, and strength says how much of it may change")

// Set takes a field of the form. An error names the field.
func (d *Drawing) Set(name, value string) (err error) {
	f := &d.f
	switch name {
	case "prompt":
		f.Prompt = value
	case "model":
		f.Model = value
	case "size":
		f.Size = value
	case "response_format":
		f.ResponseFormat = value
	case "output_format":
		f.OutputFormat = value
	case "negative_prompt":
		f.Negative = value
	case "n":
		f.N, err = whole64(value)
	case "output_compression":
		f.Compression, err = whole64(value)
	case "partial_images":
		f.Partial, err = whole64(value)
	case "seed":
		f.Seed, err = whole64(value)
	case "steps":
		f.Steps, err = whole64(value)
	case "guidance":
		f.Guidance, err = real64(value)
	case "strength":
		f.Strength, err = real64(value)
	case "stream":
		f.Stream, err = strconv.ParseBool(cmp.Or(value, "false"))
	case "progress":
		f.Progress, err = strconv.ParseBool(cmp.Or(value, "false"))
	}
	switch {
	case err == nil:
		return nil
	case name == "stream", name == "progress":
		return body.Fail(400, "%s must be true or false, got %q", body.Ours(name), value)
	case name == "guidance", name == "strength":
		return body.Fail(400, "%s must be a number, got %q", body.Ours(name), value)
	}
	return body.Fail(400, "%s must be a whole number, got %q", body.Ours(name), value)
}

// whole64 and real64 read a number of a form; nil: there is none.
func whole64(value string) (*int64, error) {
	if value == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return &n, err
}

func real64(value string) (*float64, error) {
	if value == "" {
		return nil, nil
	}
	v, err := strconv.ParseFloat(value, 64)
	return &v, err
}

// Check takes the picture to start from, and says what is wrong with the fields.
func (d *Drawing) Check(picture []byte) error {
	d.picture = picture
	return d.check()
}

// check says what is wrong with the fields, whatever model is to draw.
func (d *Drawing) check() error {
	f := &d.f
	in := func(name body.Ours, n *int64, least, most int64) error {
		if n != nil && (*n < least || *n > most) {
			return body.Fail(400, "%s must be between %d and %d, got %d", name, least, most, *n)
		}
		return nil
	}
	switch n := utf8.RuneCountInString(f.Prompt); {
	case strings.TrimSpace(f.Prompt) == "":
		return body.Fail(400, "prompt is required")
	case n > maxDrawingText:
		return body.Fail(400, "prompt has %d characters: at most %d are taken", n, maxDrawingText)
	}
	switch f.ResponseFormat {
	case "", "b64_json", "url": // of a URL there is nothing to serve: the answer has the picture itself
	default:
		return body.Fail(400, "response_format must be b64_json, got %q", f.ResponseFormat)
	}
	switch f.OutputFormat {
	case "":
		f.OutputFormat = prompt.PNG
	case prompt.PNG, prompt.JPEG:
	case "webp":
		return body.Fail(400, "output_format webp is not supported: axle writes png and jpeg")
	default:
		return body.Fail(400, "output_format must be png or jpeg, got %q", f.OutputFormat)
	}
	if _, _, err := sizeOf(f.Size); err != nil {
		return err
	}
	if f.Seed != nil && *f.Seed == -1 { // as none
		f.Seed = nil
	}
	if f.Seed == nil {
		d.seed = rand.Uint32()
	} else {
		d.seed = uint32(*f.Seed)
	}
	switch {
	case f.Guidance != nil && !(*f.Guidance > 0 && *f.Guidance <= maxGuidance):
		return body.Fail(400, "guidance must be above 0 and at most %d, got %g", maxGuidance, *f.Guidance)
	case f.Strength != nil && !(*f.Strength > 0 && *f.Strength <= 1):
		return body.Fail(400, "strength must be above 0 and at most 1, got %g", *f.Strength)
	case f.Strength != nil && !d.edit:
		return body.Fail(400, "strength is how much of a picture may change: send one to /v1/images/edits")
	}
	return errors.Join(in("n", f.N, 1, maxDrawings), in("partial_images", f.Partial, 0, maxPartial),
		in("output_compression", f.Compression, 0, 100), in("seed", f.Seed, 0, math.MaxUint32), in("steps", f.Steps, 1, 1000))
}

// sizeOf reads a size; zeros: the model's own.
func sizeOf(s string) (width, height int, err error) {
	if s == "" || s == "auto" {
		return 0, 0, nil
	}
	w, h, ok := strings.Cut(s, "x")
	width, werr := strconv.Atoi(w)
	height, herr := strconv.Atoi(h)
	if !ok || werr != nil || herr != nil || width <= 0 || height <= 0 {
		return 0, 0, body.Fail(400, "size must be WIDTHxHEIGHT, or auto, got %q", s)
	}
	return width, height, nil
}

// Model, KeepAlive and Count implement [prompt.Drawing].
func (d *Drawing) Model() string { return d.f.Model }

func (*Drawing) KeepAlive() *time.Duration { return nil }

func (d *Drawing) Count() int { return int(orZero(d.f.N, 1)) }

func orZero[T any](p *T, none T) T {
	if p == nil {
		return none
	}
	return *p
}

// Request is what is asked of a model.
func (d *Drawing) Request(can ask.Draws) (ask.DrawRequest, error) {
	f := &d.f
	r := ask.DrawRequest{Prompt: f.Prompt, Negative: f.Negative, Picture: d.picture, Strength: orZero(f.Strength, 0),
		Steps: int(orZero(f.Steps, 0)), Guidance: orZero(f.Guidance, 0), Seed: d.seed}
	if f.Stream {
		r.Partial = int(orZero(f.Partial, 0))
	}
	w, h, _ := sizeOf(f.Size)
	if w != 0 && (w != can.Width || h != can.Height) {
		return r, body.Fail(400, "size %dx%d is not one that the model draws: it draws %dx%d", w, h, can.Width, can.Height)
	}
	d.width, d.height = can.Width, can.Height
	return r, nil
}

// Streams, Type, WholeType and ErrorBody are those of the API.
func (d *Drawing) Streams() bool                          { return d.f.Stream }
func (*Drawing) Type() string                             { return stream }
func (*Drawing) WholeType() string                        { return whole }
func (*Drawing) ErrorBody(status int, text string) []byte { return ErrorBody(status, text) }

func (*Drawing) ErrorEnd(status int, text string) []byte {
	b, _ := event(wire.NewError(status, text))
	return b
}

// drawingEvent is an event of a stream: OpenAI's, with the picture's number and seed in addition.
type drawingEvent struct {
	Type       string        `json:"type"`
	Step       int           `json:"step,omitempty"`
	Steps      int           `json:"steps,omitempty"`
	B64        []byte        `json:"b64_json,omitempty"`
	Partial    *int          `json:"partial_image_index,omitempty"`
	Created    int64         `json:"created_at"`
	Size       string        `json:"size,omitempty"`
	Quality    string        `json:"quality,omitempty"`
	Background string        `json:"background,omitempty"`
	Format     string        `json:"output_format,omitempty"`
	Usage      *drawingUsage `json:"usage,omitempty"`
	Index      int           `json:"index"`
	Seed       uint32        `json:"seed"`
}

// drawingUsage is OpenAI's. A character of the prompt is a token, and so is a square of 16 by 16
// pixels: that is about what OpenAI's are.
type drawingUsage struct {
	Input   int                `json:"input_tokens"`
	Details drawingUsageInputs `json:"input_tokens_details"`
	Output  int                `json:"output_tokens"`
	Total   int                `json:"total_tokens"`
}

type drawingUsageInputs struct {
	Text  int `json:"text_tokens"`
	Image int `json:"image_tokens"`
}

func (d *Drawing) usage(n int) *drawingUsage {
	each := ((d.width + tokenSide - 1) / tokenSide) * ((d.height + tokenSide - 1) / tokenSide)
	u := &drawingUsage{Details: drawingUsageInputs{Text: utf8.RuneCountInString(d.f.Prompt)}, Output: n * each}
	if d.edit {
		u.Details.Image = each
	}
	u.Input = u.Details.Text + u.Details.Image
	u.Total = u.Input + u.Output
	return u
}

// encode makes a file of what a drawing shows.
func (d *Drawing) encode(p prompt.Drawn) ([]byte, error) {
	d.width, d.height = p.Width, p.Height
	return prompt.PictureFile(p.Drawing, d.f.OutputFormat, max(int(orZero(d.f.Compression, usualQuality)), 1))
}

// Add takes an event of a picture's making.
func (d *Drawing) Add(p prompt.Drawn) ([]byte, error) {
	var b []byte
	if p.Pixels != nil && (p.Done || d.f.Stream && d.shown < int(orZero(d.f.Partial, 0))) {
		var err error
		if b, err = d.encode(p); err != nil {
			return nil, err
		}
	}
	switch {
	case !d.f.Stream && p.Done:
		d.files = append(d.files, file{b, p.Seed})
		return nil, nil
	case !d.f.Stream:
		return nil, nil
	}
	kind := "image_generation"
	if d.edit {
		kind = "image_edit"
	}
	var out []byte
	e := drawingEvent{Type: kind + ".progress", Step: p.Step, Steps: p.Steps, Created: time.Now().Unix(), Index: p.Picture, Seed: p.Seed}
	if d.f.Progress && !p.Done { // the last step was told
		var err error
		if out, err = named(e.Type, e); err != nil {
			return nil, err
		}
	}
	if b == nil {
		return out, nil
	}
	e.Step, e.Steps = 0, 0
	e.B64, e.Size, e.Quality, e.Background, e.Format = b, d.size(), "auto", "opaque", d.f.OutputFormat
	if p.Done {
		e.Type, e.Usage, d.shown = kind+".completed", d.usage(1), 0
	} else {
		e.Type, e.Partial = kind+".partial_image", new(d.shown)
		d.shown++
	}
	last, err := named(e.Type, e)
	return append(out, last...), err
}

func (d *Drawing) size() string { return fmt.Sprintf("%dx%d", d.width, d.height) }

// Write writes the body. The pictures are turned into text as they are written.
func (d *Drawing) Write(w io.Writer) error {
	frame, err := json.Marshal(struct {
		Created    int64         `json:"created"`
		Data       []int         `json:"data"`
		Background string        `json:"background"`
		Format     string        `json:"output_format"`
		Size       string        `json:"size"`
		Usage      *drawingUsage `json:"usage"`
	}{time.Now().Unix(), []int{}, "opaque", d.f.OutputFormat, d.size(), d.usage(len(d.files))})
	if err != nil {
		return err
	}
	return body.Spread(w, frame, "data", len(d.files), func(i int) any {
		return struct {
			B64  []byte `json:"b64_json"`
			Seed uint32 `json:"seed"`
		}{d.files[i].data, d.files[i].seed}
	})
}
