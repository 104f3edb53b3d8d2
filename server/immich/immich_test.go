package immich

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/server/body"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRead: Immich's entries are read, and what is not served or not whole has an error that says
// so.
func TestRead(t *testing.T) {
	for _, tt := range []struct {
		entries string
		want    Tasks
		code    int
		text    string
	}{
		{`{"clip":{"textual":{"modelName":"ViT-B-32__openai","options":{"language":"en"}}}}`, Tasks{Clip: &Clip{Model: "ViT-B-32__openai"}},
			0, ""},
		{`{"clip":{"visual":{"modelName":"ViT-B-32__openai"}}}`, Tasks{Clip: &Clip{"ViT-B-32__openai", true}}, 0, ""},
		{`{"facial-recognition":{"detection":{"modelName":"buffalo_l","options":{"minScore":0.034}},"recognition":{"modelName":"buffalo_l"}}}`,
			Tasks{Face: &Face{"buffalo_l", 0.034}}, 0, ""},
		{`{"facial-recognition":{"recognition":{"modelName":"buffalo_l"},"detection":{"modelName":"buffalo_l","options":null}},
			"clip":{"visual":{"modelName":"a"}}}`, Tasks{&Clip{"a", true}, &Face{"buffalo_l", usualScore}}, 0, ""},
		{``, Tasks{}, 422, "entries is not what is asked for"},
		{`[]`, Tasks{}, 422, "entries is not what is asked for"},
		{`{"clip":[]}`, Tasks{}, 422, "entries is not what is asked for"},
		{`{}`, Tasks{}, 422, "entries asks for nothing"},
		{`null`, Tasks{}, 422, "entries asks for nothing"},
		{`{"clip":{}}`, Tasks{}, 422, "clip has 0 parts"},
		{`{"clip":{"visual":{"modelName":"a"},"textual":{"modelName":"a"}}}`, Tasks{}, 422, "clip has 2 parts"},
		{`{"clip":{"tactile":{"modelName":"a"}}}`, Tasks{}, 422, "must be textual or visual"},
		{`{"clip":{"visual":null}}`, Tasks{}, 422, "visual of clip has no modelName"},
		{`{"clip":{"visual":{"modelName":"` + strings.Repeat("x", 257) + `"}}}`, Tasks{}, 422, "a modelName has more than 256 bytes"},
		{`{"facial-recognition":{"detection":{"modelName":"a"}}}`, Tasks{}, 422, "both of them"},
		{`{"facial-recognition":{"detection":{"modelName":"a"},"recognition":{"modelName":"a"},"x":{"modelName":"a"}}}`, Tasks{}, 422,
			"both of them"},
		{`{"facial-recognition":{"detection":{"modelName":"a","options":{"minScore":1.5}},"recognition":{"modelName":"a"}}}`, Tasks{}, 422,
			"minScore must be between 0 and 1"},
		{`{"ocr":{"detection":{"modelName":"PP-OCRv5_mobile","options":{"minScore":0.5,"maxResolution":736}},
			"recognition":{"modelName":"PP-OCRv5_mobile","options":{"minScore":0.8}}}}`, Tasks{}, 501, `the task "ocr" is not served`},
		{`{"clip":{"visual":{"modelName":"a"}},"ocr":{}}`, Tasks{}, 501, `the task "ocr" is not served`},
	} {
		got, err := Read(tt.entries)
		var f *body.Failure
		switch {
		case tt.code == 0 && (err != nil || !same(got, tt.want)):
			t.Errorf("%.80s: %+v %v", tt.entries, got, err)
		case tt.code != 0 && (!errors.As(err, &f) || f.Status != tt.code || !strings.Contains(f.Text, tt.text) || !same(got, Tasks{})):
			t.Errorf("%.80s: %+v %v, want %d %s", tt.entries, got, err, tt.code, tt.text)
		}
	}
}

// TestBody: an answer has the vector as text that is JSON, sizes only with a picture, and an empty
// list where there are no faces.
func TestBody(t *testing.T) {
	f := ask.Face{Score: 0.875, X0: 1.4, Y0: -2.6, X1: 30, Y1: 40.5, Vector: []float32{0.1, -2, 1e-9}}
	for _, tt := range []struct {
		a    Answer
		want string
	}{
		{Answer{Clip: []float32{0.1, -0.25, 3}}, `{"clip":"[0.1,-0.25,3]"}`},
		{Answer{Clip: []float32{1}, Width: 1024, Height: 768}, `{"clip":"[1]","imageHeight":768,"imageWidth":1024}`},
		{Answer{Faces: []ask.Face{f}, Found: true, Width: 2, Height: 1}, `{"facial-recognition":[{"boundingBox":{"x1":1,"y1":-3,"x2":30,"y2":41},` +
			`"embedding":"[0.1,-2,1e-9]","score":0.875}],"imageHeight":1,"imageWidth":2}`},
		{Answer{Found: true, Width: 2, Height: 1}, `{"facial-recognition":[],"imageHeight":1,"imageWidth":2}`},
	} {
		if b, err := tt.a.Body(); err != nil || string(b) != tt.want {
			t.Errorf("%s %v, want %s", b, err, tt.want)
		}
	}
	nan := []float32{float32(math.NaN())}
	for _, a := range []Answer{{Clip: nan}, {Found: true, Faces: []ask.Face{{Vector: nan}}}} {
		if b, err := a.Body(); err == nil {
			t.Errorf("a NaN became %s", b)
		}
	}
	if b := Dialect().Error(errors.New("x"), 400, `no "image"`); string(b) != `{"detail":"no \"image\""}` {
		t.Errorf("%s", b)
	}
}

// TestMatch: the same name is meant before a similar one, and a similar one before none.
func TestMatch(t *testing.T) {
	installed := []string{"clip-cn:vit-l14", "jina-clip-v2:latest", "cnclip_vit_l14_336px:latest", "clip_vit_l14_336px:latest",
		"ViT-B-32__openai:latest", "buffalo_l:latest"}
	for asked, want := range map[string]string{
		"ViT-L-14-336__openai":   "clip_vit_l14_336px:latest",
		"ViT-L-14-336__axera":    "clip_vit_l14_336px:latest",
		"ViT-L-14__openai":       "clip_vit_l14_336px:latest",
		"ViT-L-14-336-CN__axera": "cnclip_vit_l14_336px:latest",
		"vit-b-32__OPENAI":       "ViT-B-32__openai:latest",
		"jina-clip-v2":           "jina-clip-v2:latest",
		"buffalo_l":              "buffalo_l:latest",
		"buffalo_l__axera":       "buffalo_l:latest",
		"buffalo_m":              "",
		"ViT-SO400M-16__webli":   "",
		"":                       "",
		"__":                     "",
		"2":                      "",
		"../../etc/passwd":       "",
		strings.Repeat("a1", 99): "",
	} {
		got := ""
		if i := Match(asked, installed); i >= 0 {
			got = installed[i]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", asked, got, want)
		}
	}
	if !slices.Equal(words("ViT-L-14-336px.Å9"), []string{"vit", "l", "14", "336", "px", "å", "9"}) {
		t.Errorf("%q", words("ViT-L-14-336px.Å9"))
	}
}

// FuzzRead: whatever entries holds, the answer is tasks or an error with a status, within limits.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"clip":{"visual":{"modelName":"ViT-B-32__openai","options":{}}}}`))
	f.Add([]byte(`{"facial-recognition":{"detection":{"modelName":"b","options":{"minScore":0.7}},"recognition":{"modelName":"b"}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() {
			tasks, err := Read(string(b))
			var fail *body.Failure
			if err != nil && (!errors.As(err, &fail) || fail.Status < 400 || fail.Text == "") {
				t.Errorf("an error without a status: %v", err)
			}
			if err == nil && tasks.Clip == nil && tasks.Face == nil {
				t.Error("neither tasks nor an error")
			}
			if c := tasks.Clip; c != nil {
				Match(c.Model, []string{c.Model, "clip"})
			}
		})
	})
}

func same(a, b Tasks) bool {
	return (a.Clip == nil) == (b.Clip == nil) && (a.Face == nil) == (b.Face == nil) && (a.Clip == nil || *a.Clip == *b.Clip) &&
		(a.Face == nil || *a.Face == *b.Face)
}
