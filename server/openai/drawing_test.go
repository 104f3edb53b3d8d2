package openai

import (
	"errors"
	"testing"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// FuzzDrawing: whatever a body or a field of a form holds, what is asked of a model is within its
// limits, or refused with a status and a text.
func FuzzDrawing(f *testing.F) {
	//proves:T3
	for _, s := range []string{`{}`, `{"prompt":"a","n":10,"size":"512x384","seed":4294967295,"steps":1000,"guidance":50,"strength":1}`,
		`{"prompt":"a","n":-1,"size":"auto","partial_images":4,"stream":true,"output_format":"webp"}`,
		`{"prompt":"a","partial_images":2}`,
		`{"prompt":"a","image":"AAAA","strength":1e-300}`, `{"prompt":"a","image":["data:image/png;base64,AAAA"],"mask":""}`,
		`{"prompt":"a","size":"0x0"}`, `{"prompt":"a","size":"x","output_compression":100,"response_format":"url"}`} {
		f.Add([]byte(s), "n", "3")
	}
	for _, v := range [][2]string{{"size", "512x384"}, {"seed", "-1"}, {"strength", "NaN"}, {"guidance", "1e400"}, {"stream", "1"},
		{"steps", "0x10"}, {"mask", ""}, {"output_format", "jpeg"}, {"partial_images", ""}, {"n", "99999999999999999999"}} {
		f.Add([]byte(`{}`), v[0], v[1])
	}
	f.Fuzz(func(t *testing.T, b []byte, name, value string) {
		fuzzguard.Check(t, len(b)+len(name)+len(value), func() {
			if body.Check(b) == nil {
				d, err := DecodeDrawing(b)
				sound(t, d, err)
				d, err = DecodeEdit(b)
				sound(t, d, err)
			}
			d := NewEdit()
			err := errors.Join(d.Set("prompt", "a"), d.Set(name, value))
			if err == nil {
				err = d.Check([]byte{1})
			}
			sound(t, d, err)
		})
	})
}

// sound is a request that is refused as it should be, or within its limits.
func sound(t *testing.T, d prompt.Drawing, err error) {
	t.Helper()
	can := ask.Draws{Width: 512, Height: 384}
	var r ask.DrawRequest
	if err == nil {
		r, err = d.Request(can)
	}
	var f *body.Failure
	switch {
	case err != nil:
		if !errors.As(err, &f) || f.Status != 400 || f.Text == "" {
			t.Errorf("%v", err)
		}
	case d.Count() < 1 || d.Count() > maxDrawings, r.Partial < 0 || r.Partial > maxPartial,
		r.Partial > 0 && !d.Streams(), !(r.Guidance >= 0 && r.Guidance <= maxGuidance),
		!(r.Strength >= 0 && r.Strength <= 1), r.Steps < 0 || r.Steps > 1000, r.Prompt == "", r.Width != 0 || r.Height != 0:
		t.Errorf("%d of %+v", d.Count(), r)
	}
}
