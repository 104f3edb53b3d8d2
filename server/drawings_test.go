package server_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

const (
	generations = "/v1/images/generations"
	edits       = "/v1/images/edits"
	end         = "--x--\r\n"
)

// TestDrawings: a picture is drawn as it was asked for, with its seed, and each way to ask wrongly
// has one error.
func TestDrawings(t *testing.T) {
	//proves:T3
	r := newRig(t)
	for _, tt := range []struct {
		name, body string
		want       []ask.DrawRequest
		jpeg       bool
	}{
		{"as Open WebUI asks", `{"model":"scripted-drawing","prompt":"a cat","n":1,"size":"512x384","response_format":"b64_json","seed":7}`,
			[]ask.DrawRequest{{Prompt: "a cat", Seed: 7}}, false},
		{"several", `{"prompt":"a cat","n":3,"seed":4294967295}`,
			[]ask.DrawRequest{{Prompt: "a cat", Seed: 1<<32 - 1}, {Prompt: "a cat"}, {Prompt: "a cat", Seed: 1}}, false},
		{"all there is", `{"prompt":"a cat","negative_prompt":"a dog","guidance":3.5,"steps":2,"seed":1,"size":"auto","quality":"high",
			"style":"vivid","background":"transparent","user":"me","moderation":"low","response_format":"url","partial_images":2}`,
			[]ask.DrawRequest{{Prompt: "a cat", Negative: "a dog", Guidance: 3.5, Steps: 2, Seed: 1}}, false},
		{"a jpeg", `{"prompt":"a cat","seed":3,"output_format":"jpeg","output_compression":80}`,
			[]ask.DrawRequest{{Prompt: "a cat", Seed: 3}}, true},
		{"nothing but nulls", `{"prompt":"a cat","seed":-1,"n":null,"size":null,"steps":null,"stream":null,"guidance":null}`,
			[]ask.DrawRequest{{Prompt: "a cat"}}, false},
	} {
		a := r.post(generations, tt.body)
		got := drawn(t, a)
		if a.code != 200 || len(got.Data) != len(tt.want) || got.Size != "512x384" || got.Created == 0 {
			t.Errorf("%s: %d %.300s", tt.name, a.code, a.body)
			continue
		}
		for i, d := range got.Data {
			if tt.name == "nothing but nulls" {
				tt.want[i].Seed = d.Seed
			}
			samePicture(t, tt.name, d.B64, tt.want[i], tt.jpeg)
			if d.Seed != tt.want[i].Seed {
				t.Errorf("%s: picture %d has the seed %d", tt.name, i, d.Seed)
			}
		}
		if u := got.Usage; u.Output != 32*24*len(tt.want) || u.Input != 5 || u.Total != u.Input+u.Output {
			t.Errorf("%s: usage %+v", tt.name, u)
		}
	}
	for compression, quality := range map[string]int{"0": 1, "20": 20, "null": 90} {
		got := drawn(t, r.post(generations, `{"prompt":"x","seed":3,"output_format":"jpeg","output_compression":`+compression+`}`))
		img := image.NewRGBA(image.Rect(0, 0, scripted.Draws.Width, scripted.Draws.Height))
		for i, c := range scripted.Drawn(ask.DrawRequest{Prompt: "x", Seed: 3}, true) {
			img.Pix[i/3*4+i%3] = c
		}
		var want bytes.Buffer
		if err := jpeg.Encode(&want, img, &jpeg.Options{Quality: quality}); err != nil || !bytes.Equal(got.Data[0].B64, want.Bytes()) {
			t.Errorf("a compression of %s: %d bytes, want %d, %v", compression, len(got.Data[0].B64), want.Len(), err)
		}
	}
	if a, b := drawn(t, r.post(generations, `{"prompt":"x"}`)), drawn(t, r.post(generations, `{"prompt":"x"}`)); a.Data[0].Seed ==
		b.Data[0].Seed {
		t.Error("two pictures without a seed have one seed")
	}
	for body, want := range map[string]string{
		`{"model":"scripted-drawing"}`:                            "prompt is required",
		`{"prompt":" "}`:                                          "prompt is required",
		`{"prompt":"` + strings.Repeat("é", 32001) + `"}`:         "prompt has 32001 characters: at most 32000",
		`{"prompt":"x","n":0}`:                                    "n must be between 1 and 10, got 0",
		`{"prompt":"x","n":11}`:                                   "n must be between 1 and 10, got 11",
		`{"prompt":"x","n":1.5}`:                                  "cannot unmarshal number 1.5",
		`{"prompt":"x","size":"1024x1024"}`:                       "size 1024x1024 is not one that the model draws: it draws 512x384",
		`{"prompt":"x","size":"384x512"}`:                         "it draws 512x384",
		`{"prompt":"x","size":"big"}`:                             `size must be WIDTHxHEIGHT, or auto, got \"big\"`,
		`{"prompt":"x","size":"-1x-1"}`:                           "size must be WIDTHxHEIGHT",
		`{"prompt":"x","size":"99999999999999999999x1"}`:          "size must be WIDTHxHEIGHT",
		`{"prompt":"x","response_format":"gif"}`:                  "response_format must be b64_json",
		`{"prompt":"x","output_format":"webp"}`:                   "output_format webp is not supported: axle writes png and jpeg",
		`{"prompt":"x","output_format":"gif"}`:                    "output_format must be png or jpeg",
		`{"prompt":"x","output_compression":101}`:                 "output_compression must be between 0 and 100",
		`{"prompt":"x","partial_images":4}`:                       "partial_images must be between 0 and 3",
		`{"prompt":"x","seed":4294967296}`:                        "seed must be between 0 and 4294967295",
		`{"prompt":"x","seed":-2}`:                                "seed must be between 0",
		`{"prompt":"x","steps":0}`:                                "steps must be between 1",
		`{"prompt":"x","steps":3}`:                                "steps must be one of [1 2 4], got 3",
		`{"prompt":"x","guidance":0}`:                             "guidance must be above 0",
		`{"prompt":"x","guidance":1e300}`:                         "guidance must be above 0 and at most 50",
		`{"prompt":"x","strength":0.5}`:                           "send one to /v1/images/edits",
		`{"prompt":"x","model":"scripted-chat"}`:                  "scripted-chat:latest does not draw pictures",
		`{"prompt":"x[[err:400:it is not drawn]]"}`:               "it is not drawn",
		`{"prompt":"x[[err:400:it is not drawn]]","stream":true}`: "it is not drawn",
		``: "missing request body",
	} {
		if a := r.post(generations, body); a.code != 400 || !strings.Contains(a.body, want) || !strings.Contains(a.body, `"error":{`) {
			t.Errorf("%.60s: %d %s, want %s", body, a.code, a.body, want)
		}
	}
	if a := r.post(generations, `{"prompt":"x","model":"nope"}`); a.code != 404 {
		t.Errorf("an unknown model: %d", a.code)
	}
	if a := r.post(generations, `{"prompt":"x[[crash]]"}`); a.code != 500 || !strings.Contains(a.body, "unexpected EOF") {
		t.Errorf("a crash: %d %s", a.code, a.body)
	}
	for path, body := range map[string]string{"/api/chat": chatBody("scripted-drawing", "x", ""),
		"/v1/chat/completions": chatBody("scripted-drawing", "x", ""), "/v1/completions": `{"model":"scripted-drawing","prompt":"x"}`} {
		if a := r.post(path, body); a.code != 400 || !strings.Contains(a.body, "it draws pictures, see /v1/images/generations") {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
	}
	if a := r.post("/api/show", `{"model":"scripted-drawing"}`); !strings.Contains(a.body, `"capabilities":["image"]`) {
		t.Errorf("shown: %s", a.body)
	}
	if a := r.do("GET", "/metrics", ""); !strings.Contains(a.body, "axle_drawing_seconds_count 12\n") {
		t.Errorf("metrics: %s", linesWith(a.body, "axle_drawing"))
	}
}

// TestDrawingStream: a stream has the pictures on the way, as many as were asked for, and the
// picture last; with progress, each step.
func TestDrawingStream(t *testing.T) {
	r := newRig(t)
	form := field("prompt", "a cat") + field("stream", "true") + field("partial_images", "3") + field("seed", "5") +
		pictureField("image", drawnPNG(8, 8)) + end
	for _, tt := range []struct {
		name string
		a    answer
		want string
	}{
		{"the picture alone", r.post(generations, `{"prompt":"a cat","stream":true,"seed":5}`), "completed"},
		{"on the way", r.post(generations, `{"prompt":"a cat","stream":true,"seed":5,"partial_images":2}`),
			"partial_image 0, partial_image 1, completed"},
		{"each step", r.post(generations, `{"prompt":"a cat","stream":true,"seed":5,"steps":2,"partial_images":1,"progress":true}`),
			"progress 1/2, partial_image 0, progress 2/2, completed"},
		{"several", r.post(generations, `{"prompt":"a cat","stream":true,"seed":5,"n":2,"partial_images":1}`),
			"partial_image 0, completed, partial_image 0 of 1, completed of 1"},
		{"an edit", r.do("POST", edits, form, "Content-Type", formKind), "partial_image 0, partial_image 1, partial_image 2, completed"},
	} {
		if kind := tt.a.header.Get("Content-Type"); tt.a.code != 200 || kind != "text/event-stream" {
			t.Errorf("%s: %d %s %.200s", tt.name, tt.a.code, kind, tt.a.body)
			continue
		}
		var got []string
		for _, e := range events(t, tt.a.body) {
			kind, what, _ := strings.Cut(e.Type, ".")
			if e.Type != e.name || kind != map[bool]string{true: "image_edit", false: "image_generation"}[tt.name == "an edit"] {
				t.Errorf("%s: the event %q says it is %q", tt.name, e.name, e.Type)
			}
			switch {
			case what == "progress":
				what += fmt.Sprintf(" %d/%d", e.Step, e.Steps)
			case e.Partial != nil:
				what += fmt.Sprint(" ", *e.Partial)
				fallthrough
			default:
				if e.Size != "512x384" || e.Format != "png" || e.Quality != "auto" || e.Background != "opaque" || e.Created == 0 {
					t.Errorf("%s: %+v", tt.name, e)
				}
			}
			if e.Seed != 5+uint32(e.Index) {
				t.Errorf("%s: the seed of picture %d is %d", tt.name, e.Index, e.Seed)
			}
			if strings.HasPrefix(what, "completed") && (e.Usage == nil || e.Usage.Output != 768) {
				t.Errorf("%s: usage %+v", tt.name, e.Usage)
			}
			if e.Index > 0 {
				what += fmt.Sprint(" of ", e.Index)
			}
			got = append(got, what)
		}
		if s := strings.Join(got, ", "); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, s, tt.want)
		}
	}
	a := r.post(generations, `{"prompt":"a cat[[crash]]","stream":true,"partial_images":3}`)
	if all := strings.Split(strings.TrimSpace(a.body), "\n\n"); a.code != 200 || len(all) != 2 ||
		!strings.HasPrefix(all[1], `data: {"error":{"message":"an error was encountered`) {
		t.Errorf("a crash on the way: %d %.200s … %s", a.code, a.body, all[len(all)-1])
	}
}

// TestDrawingEdits: a picture is made of one in a form or in base64.
func TestDrawingEdits(t *testing.T) {
	//proves:T7
	r := newRig(t)
	from := drawnPNG(40, 20)
	picture := pictureField("image", from)
	coded := base64.StdEncoding.EncodeToString([]byte(from))
	want := ask.DrawRequest{Prompt: "a cat", Seed: 7, Picture: []byte(from)}
	strong := want
	strong.Strength, strong.Steps, strong.Negative, strong.Guidance = 0.25, 2, "a dog", 2.5
	base := field("prompt", "a cat") + field("seed", "7")
	for _, tt := range []struct {
		name, body string
		json       bool
		want       ask.DrawRequest
	}{
		{"as Open WebUI asks", field("model", "scripted-drawing") + base + field("n", "1") + field("size", "512x384") +
			field("response_format", "b64_json") + picture + end, false, want},
		{"a list of one", base + pictureField("image[]", from) + end, false, want},
		{"the picture first", picture + base + end, false, want},
		{"all there is", base + field("strength", "0.25") + field("steps", "2") + field("negative_prompt", "a dog") +
			field("guidance", "2.5") + field("input_fidelity", "high") + field("n", "") + picture + end, false, strong},
		{"as Ollama asked", `{"model":"scripted-drawing","prompt":"a cat","seed":7,"image":"` + coded + `"}`, true, want},
		{"a data URL in a list", `{"prompt":"a cat","seed":7,"image":["data:image/png;base64,` + coded + `"]}`, true, want},
	} {
		kind := formKind
		if tt.json {
			kind = "application/json"
		}
		a := r.do("POST", edits, tt.body, "Content-Type", kind)
		if a.code != 200 {
			t.Errorf("%s: %d %s", tt.name, a.code, a.body)
			continue
		}
		got := drawn(t, a)
		samePicture(t, tt.name, got.Data[0].B64, tt.want, false)
		if got.Usage.Details.Image != 768 {
			t.Errorf("%s: usage %+v", tt.name, got.Usage)
		}
	}
	for _, tt := range []struct {
		name, body, want string
		code             int
	}{
		{"no picture", base + end, "image is required", 400},
		{"no prompt", picture + end, "prompt is required", 400},
		{"two pictures", base + pictureField("image[]", from) + pictureField("image[]", from) + end, "the form has two pictures", 400},
		{"a mask", base + pictureField("mask", from) + picture + end, "mask is not supported", 400},
		{"a mask behind it", base + picture + pictureField("mask", strings.Repeat(from, 3000)) + end, "mask is not supported", 400},
		{"no picture at all", base + pictureField("image", "hello") + end, "the picture cannot be read", 400},
		{"an empty one", base + pictureField("image", "") + end, "the picture cannot be read", 400},
		{"a number", base + field("steps", "two") + picture + end, `steps must be a whole number, got \"two\"`, 400},
		{"no strength", base + field("strength", "0") + picture + end, "strength must be above 0 and at most 1, got 0", 400},
		{"not a strength", base + field("strength", "NaN") + picture + end, "strength must be above 0", 400},
		{"much strength", base + field("strength", "1.01") + picture + end, "at most 1, got 1.01", 400},
		{"guidance", base + field("guidance", "x") + picture + end, "guidance must be a number", 400},
		{"stream", base + field("stream", "yes") + picture + end, "stream must be true or false", 400},
		{"a long field", base + field("user", strings.Repeat("x", 128<<10+1)) + picture + end, "user has more than 128 KiB", 400},
		{"much before it", strings.Repeat(field("user", strings.Repeat("x", 100<<10)), 3) + picture + end, "256 KiB before", 400},
		{"many fields", strings.Repeat(field("user", ""), 33) + picture + end, "the form has more than 32 fields", 400},
		{"cut off", base + picture, "failed to parse multipart form", 400},
		{"too large", base + pictureField("image", strings.Repeat("x", 32<<20+1)) + end, "the picture has more than 32 MiB", 413},
	} {
		if a := r.do("POST", edits, tt.body, "Content-Type", formKind); a.code != tt.code || !strings.Contains(a.body, tt.want) ||
			!strings.Contains(a.body, `"error":{`) {
			t.Errorf("%s: %d %.300s, want %d %s", tt.name, a.code, a.body, tt.code, tt.want)
		}
	}
	for body, want := range map[string]string{
		`{"prompt":"x"}`:                              "image is required",
		`{"prompt":"x","image":""}`:                   "image is required",
		`{"prompt":"x","image":[]}`:                   "image is required",
		`{"prompt":"x","image":["AA","AA"]}`:          "the request has 2 pictures: send one",
		`{"prompt":"x","image":"*"}`:                  "image is no base64",
		`{"prompt":"x","image":7}`:                    "image must be a picture in base64",
		`{"prompt":"x","image":"AAAA"}`:               "the picture cannot be read",
		`{"prompt":"x","image":"AAAA","mask":"AAAA"}`: "mask is not supported",
		`{"image":"` + coded + `"}`:                   "prompt is required",
	} {
		if a := r.post(edits, body); a.code != 400 || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want %s", body, a.code, a.body, want)
		}
	}
}

// TestDrawingGenerate: /api/generate draws where the model does, as Ollama's did.
func TestDrawingGenerate(t *testing.T) {
	r := newRig(t)
	const path = "/api/generate"
	a := r.post(path, `{"model":"scripted-drawing","prompt":"a cat","width":512,"height":384,"steps":2,"options":{"seed":7}}`)
	lines := a.lines(t)
	if a.code != 200 || a.header.Get("Content-Type") != "application/x-ndjson" || len(lines) != 3 {
		t.Fatalf("%d %.300s", a.code, a.body)
	}
	if l := lines[1]; l["done"] != false || l["completed"] != 2.0 || l["image"] != nil {
		t.Errorf("the second line: %v", l)
	}
	if l := lines[0]; l["model"] != "scripted-drawing" || l["done"] != false || l["completed"] != 1.0 || l["total"] != 2.0 ||
		l["image"] != nil {
		t.Errorf("the first line: %v", l)
	}
	last := lines[2]
	image, _ := last["image"].(string)
	delete(last, "image")
	if last["done"] != true || last["done_reason"] != "stop" || last["completed"] != 2.0 || last["seed"] != 7.0 ||
		last["total_duration"] == nil {
		t.Errorf("the last line: %v", last)
	}
	b, err := base64.StdEncoding.DecodeString(image)
	if err != nil {
		t.Fatal(err)
	}
	samePicture(t, "streamed", b, ask.DrawRequest{Prompt: "a cat", Steps: 2, Seed: 7}, false)

	from := drawnPNG(8, 8)
	a = r.post(path, `{"model":"scripted-drawing","prompt":"a cat","stream":false,"images":["`+
		base64.StdEncoding.EncodeToString([]byte(from))+`"]}`)
	whole := a.object(t)
	image, _ = whole["image"].(string)
	b, _ = base64.StdEncoding.DecodeString(image)
	seed, _ := whole["seed"].(float64)
	if a.code != 200 || whole["done"] != true {
		t.Errorf("%d %.300s", a.code, a.body)
	}
	samePicture(t, "whole", b, ask.DrawRequest{Prompt: "a cat", Seed: uint32(seed), Picture: []byte(from)}, false)

	if a := r.post(path, `{"model":"scripted-drawing"}`); a.code != 200 || !strings.Contains(a.body, `"done_reason":"load"`) {
		t.Errorf("loaded: %d %s", a.code, a.body)
	}
	if a := r.post(path, `{"model":"scripted-drawing","keep_alive":0}`); a.code != 200 || !strings.Contains(a.body, `"unload"`) {
		t.Errorf("unloaded: %d %s", a.code, a.body)
	}
	for body, want := range map[string]string{
		`"prompt":" "`:                               "prompt is required",
		`"prompt":"x","width":4097`:                  "width and height must be <= 4096",
		`"prompt":"x","width":512,"height":512`:      "the model does not draw 512x512 pixels: it draws 512x384",
		`"prompt":"x","steps":-1`:                    "width, height and steps must not be negative",
		`"prompt":"x","steps":3`:                     "steps must be one of [1 2 4], got 3",
		`"prompt":"x","options":{"seed":4294967296}`: "the seed of a picture must be at most 4294967295",
		`"prompt":"x","images":["AAAA","AAAA"]`:      "the request has 2 pictures: send one",
		`"prompt":"x","images":["AAAA"]`:             "the picture cannot be read",
		`"prompt":"x[[err:400:it is not drawn]]"`:    "it is not drawn",
	} {
		if a := r.post(path, `{"model":"scripted-drawing",`+body+`}`); a.code != 400 || !strings.Contains(a.errText(t), want) {
			t.Errorf("%s: %d %s, want %s", body, a.code, a.body, want)
		}
	}
	a = r.post(path, `{"model":"scripted-drawing","prompt":"a cat[[crash]]"}`)
	if l := a.lines(t); a.code != 200 || len(l) != 2 || l[1]["error"] == nil {
		t.Errorf("a crash on the way: %d %s", a.code, a.body)
	}
	if a := r.post(path, `{"model":"scripted","prompt":"[[say:x]]","width":512,"stream":false}`); !strings.Contains(a.body, `"response":"x"`) {
		t.Errorf("a model that writes: %s", a.body)
	}
}

// TestDrawingKeys: each picture that is drawn, and the one that it is made of, counts against the
// pictures of a key, and the engine knows whose it is.
func TestDrawingKeys(t *testing.T) {
	//proves:T6
	var mu sync.Mutex
	asked := map[string]int{}
	r := newRig(t, func(o *server.Options, c *scripted.Config) {
		o.Keys = access.New(access.Line{Name: "three", Key: "secret-of-three", Role: access.Ask, Limits: access.Limits{Pictures: 3}},
			access.Line{Name: "free", Key: "secret-of-free", Role: access.Ask})
		c.Asked = func(key string) { mu.Lock(); asked[key]++; mu.Unlock() }
	})
	three := []string{"Authorization", "Bearer secret-of-three"}
	edit := field("prompt", "x") + pictureField("image", drawnPNG(8, 8)) + end
	bad := field("prompt", "x") + pictureField("image", "no picture") + end
	for _, tt := range []struct {
		name string
		a    answer
		code int
	}{
		{"without a key", r.post(generations, `{"prompt":"x"}`), 401},
		{"four of three", r.post(generations, `{"prompt":"x","n":4}`, three...), 429},
		// What is refused takes nothing.
		{"another size", r.post(generations, `{"prompt":"x","n":3,"size":"64x64"}`, three...), 400},
		{"other steps", r.post(generations, `{"prompt":"x","n":3,"steps":3,"stream":true}`, three...), 400},
		{"no picture", r.do("POST", edits, bad, append(three, "Content-Type", formKind)...), 400},
		{"an unload, which is not a matter of this key", r.post("/api/generate", `{"model":"scripted-drawing","prompt":"x","keep_alive":0,"images":["AA=="]}`,
			three...), 403},
		{"one", r.post(generations, `{"prompt":"x"}`, three...), 200},
		{"an edit", r.do("POST", edits, edit, append(three, "Content-Type", formKind)...), 200},
		{"one too many", r.post("/api/generate", `{"model":"scripted-drawing","prompt":"x","stream":false}`, three...), 429},
		{"of another", r.post(generations, `{"prompt":"x","n":4}`, "Authorization", "Bearer secret-of-free"), 200},
	} {
		if tt.a.code != tt.code {
			t.Errorf("%s: %d %.200s, want %d", tt.name, tt.a.code, tt.a.body, tt.code)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) != 2 || asked[""] != 0 {
		t.Errorf("asked for %v", asked)
	}
}

// TestDrawingLeaves: a drawing whose client leaves ends, whether it streams or not. Until then it
// holds room: ten pictures that are kept, or one that is sent with those on the way to it.
func TestDrawingLeaves(t *testing.T) {
	r := newRig(t)
	for stream, each := range map[string]int{"true": 4*2 + 7 + 3*3, "false": 4*10 + 7} {
		ctx, leave := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, "POST", r.url+generations,
			strings.NewReader(`{"prompt":"x[[delay:200000]]","n":10,"partial_images":3,"stream":`+stream+`}`))
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan error)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			over <- err
		}()
		running := func(want int) func() bool {
			return func() bool {
				all := r.loader.Backends()
				return len(all) > 0 && all[0].Stats().Running == want
			}
		}
		r.wait("the first step", running(1))
		if got, least := r.Room(), int64(each*scripted.Draws.Width*scripted.Draws.Height); got < least {
			t.Errorf("stream %s: %d bytes are held, want %d", stream, got, least)
		}
		leave()
		<-over
		r.wait("its end", running(0))
		r.wait("nothing is left", func() bool { return r.Active() == 0 && r.Room() == 0 })
	}
	r.wait("that its client left is known", func() bool {
		return strings.Contains(r.do("GET", "/metrics", "").body, `axle_requests_total{route="`+generations+`",status="499"} 2`+"\n")
	})
}

// TestDrawingNoEnd: a model that stops without a picture is a failure, whether it was to stream or
// not.
func TestDrawingNoEnd(t *testing.T) {
	old := newRig(t)
	s := server.New(local.New(old.store, local.Options{Describe: scripted.Describe}), silent{old.loader}, nil,
		server.Options{Loopback: true})
	ts := httptest.NewServer(s.Handler())
	defer ts.Close()
	r := &rig{s, t, ts.URL, old.loader, old.store}
	for body, code := range map[string]int{`{"prompt":"x"}`: 500, `{"prompt":"x","stream":true}`: 500,
		`{"prompt":"x","stream":true,"progress":true}`: 200} {
		if a := r.post(generations, body); a.code != code || !strings.Contains(a.body, "the answer ended without its end") {
			t.Errorf("%s: %d %s", body, a.code, a.body)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// silent loads models that draw a step and no picture.
type silent struct{ *scripted.Loader }

type silentModel struct{ ask.Model }

func (l silent) Load(ctx context.Context, e *catalog.Entry) (ask.Model, error) {
	m, err := l.Loader.Load(ctx, e)
	return silentModel{m}, err
}

func (silentModel) Draw(context.Context, ask.DrawRequest) iter.Seq2[ask.Drawing, error] {
	return func(yield func(ask.Drawing, error) bool) { yield(ask.Drawing{Step: 1, Steps: 2}, nil) }
}

// drawnBody is the body of an answer.
type drawnBody struct {
	Created int64
	Size    string
	Data    []struct {
		B64  []byte `json:"b64_json"`
		Seed uint32
	}
	Usage drawnUsage
}

type drawnUsage struct {
	Input   int `json:"input_tokens"`
	Output  int `json:"output_tokens"`
	Total   int `json:"total_tokens"`
	Details struct {
		Image int `json:"image_tokens"`
	} `json:"input_tokens_details"`
}

func drawn(t *testing.T, a answer) (d drawnBody) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &d); err != nil {
		t.Fatalf("%v in %.200s", err, a.body)
	}
	return d
}

// samePicture wants a file to show what the scripted model draws for a request.
func samePicture(t *testing.T, name string, file []byte, r ask.DrawRequest, isJPEG bool) {
	t.Helper()
	decode, near := png.Decode, 0
	if isJPEG {
		decode, near = jpeg.Decode, 3
	}
	got, err := decode(bytes.NewReader(file))
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	want := scripted.Drawn(r, true)
	w := scripted.Draws.Width
	if got.Bounds() != image.Rect(0, 0, w, scripted.Draws.Height) {
		t.Errorf("%s: %v", name, got.Bounds())
		return
	}
	for _, at := range []image.Point{{}, {w - 1, 0}, {w / 2, 100}, {w / 4, scripted.Draws.Height / 2}, {w - 1, scripted.Draws.Height - 1}} {
		red, green, blue, _ := got.At(at.X, at.Y).RGBA()
		for i, c := range []uint32{red, green, blue} {
			if d := int(c>>8) - int(want[3*(at.Y*w+at.X)+i]); d > near || d < -near {
				t.Errorf("%s: another picture than was asked for: colour %d at %v is off by %d", name, i, at, d)
				return
			}
		}
	}
}

// drawnEvent is one of a stream.
type drawnEvent struct {
	name, Type, Size, Quality, Background string
	Step, Steps, Index                    int
	Seed                                  uint32
	Created                               int64  `json:"created_at"`
	Format                                string `json:"output_format"`
	Partial                               *int   `json:"partial_image_index"`
	Usage                                 *drawnUsage
}

func events(t *testing.T, stream string) (all []drawnEvent) {
	t.Helper()
	for part := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(part, "\ndata: ")
		e := drawnEvent{name: strings.TrimPrefix(name, "event: ")}
		if err := json.Unmarshal([]byte(data), &e); !ok || err != nil {
			t.Errorf("%v in %.100q", err, part)
		}
		all = append(all, e)
	}
	return all
}

func linesWith(text, what string) (out string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, what) {
			out += line
		}
	}
	return out
}
