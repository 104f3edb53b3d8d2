package main

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg"
	"image/png"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/server/scripted"
)

// TestDraw: pictures are written to files and pipes in the form that the name says, their seeds are
// printed, and what is wrong is told.
func TestDraw(t *testing.T) {
	scriptedServer(t)
	t.Chdir(t.TempDir())
	var from bytes.Buffer
	if err := png.Encode(&from, image.NewGray(image.Rect(0, 0, 9, 7))); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"from.png": from.Bytes(), "empty.png": nil, "large.png": make([]byte, maxSource+1)} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		args   string
		format string
		want   []engine.DrawRequest
		files  []string
	}{
		{"-o a.png --seed 7 a red fox", "png", []engine.DrawRequest{{Prompt: "a red fox", Seed: 7}}, []string{"a.png"}},
		{"-o b --seed 7 -m scripted-drawing --steps 2 --size 512x384 --negative dogs --guidance 2.5 a fox", "png",
			[]engine.DrawRequest{{Prompt: "a fox", Seed: 7, Steps: 2, Negative: "dogs", Guidance: 2.5}}, []string{"b"}},
		{"-o c.JPG --seed 0 a fox", "jpeg", []engine.DrawRequest{{Prompt: "a fox"}}, []string{"c.JPG"}},
		{"-o d.v1.png --seed 4294967295 -n 2 a fox", "png", []engine.DrawRequest{{Prompt: "a fox", Seed: 1<<32 - 1}, {Prompt: "a fox"}},
			[]string{"d.v1-1.png", "d.v1-2.png"}},
		{"-o e.png --seed 7 --from from.png --strength 0.5 a fox", "png",
			[]engine.DrawRequest{{Prompt: "a fox", Seed: 7, Strength: 0.5, Picture: from.Bytes()}}, []string{"e.png"}},
		{"-o - --seed 7 a fox", "png", []engine.DrawRequest{{Prompt: "a fox", Seed: 7}}, nil},
	} {
		out, errOut, err := axle(t, "", append([]string{"draw"}, strings.Fields(tt.args)...)...)
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		told, all := out, []string{out}
		if tt.files == nil {
			told = errOut
		} else if all = nil; errOut != "" {
			t.Errorf("%s: %q on the error output", tt.args, errOut)
		}
		want := ""
		for i, name := range tt.files {
			all = append(all, string(must(t, func() ([]byte, error) { return os.ReadFile(name) })))
			want += fmt.Sprintf("%s: 512x384, seed %d\n", name, tt.want[i].Seed)
		}
		if tt.files == nil {
			want = "512x384, seed 7\n"
		}
		if told != want {
			t.Errorf("%s: told %q, want %q", tt.args, told, want)
		}
		for i, file := range all {
			img, format, err := image.Decode(strings.NewReader(file))
			if err != nil || format != tt.format {
				t.Errorf("%s: %s %v", tt.args, format, err)
				continue
			}
			pixels := scripted.Drawn(tt.want[i], true)
			r, _, _, _ := img.At(0, 0).RGBA()
			if d := int(r>>8) - int(pixels[0]); d > 3 || d < -3 || d != 0 && format == "png" {
				t.Errorf("%s: picture %d is another: off by %d", tt.args, i, d)
			}
		}
	}
	out, _, err := axle(t, "", "draw", "-o", "f.png", "x")
	again, _, err2 := axle(t, "", "draw", "-o", "f.png", "x")
	if err != nil || err2 != nil || out == again {
		t.Errorf("two pictures without a seed: %q and %q, %v %v", out, again, err, err2)
	}
	for _, c := range []struct{ args, want string }{
		{"x", "where to? name a file with -o"},
		{"-o x.png", "requires at least 1 arg"},
		{"-o x.webp x", "-o x.webp: axle writes png and jpeg"},
		{"-o x.png -n 0 x", "--number must be between 1 and 10, got 0"},
		{"-o x.png -n 11 x", "--number must be between 1 and 10, got 11"},
		{"-o - -n 2 x", "several pictures do not go to standard output"},
		{"-o x.png --seed -1 x", "--seed must be between 0 and 4294967295"},
		{"-o x.png --seed 4294967296 x", "--seed must be between 0 and 4294967295"},
		{"-o x.png --steps 0 x", "--steps must be at least 1"},
		{"-o x.png --steps 3 x", "steps must be one of [1 2 4], got 3"},
		{"-o x.png --guidance 0 x", "--guidance must be above 0"},
		{"-o x.png --strength 0.5 x", "name one with --from"},
		{"-o x.png --from from.png --strength NaN x", "--strength must be above 0"},
		{"-o x.png --from no.png x", "no such file"},
		{"-o x.png --from empty.png x", "empty.png is empty"},
		{"-o x.png --from large.png x", "large.png has more than 23 MiB"},
		{"-o x.png --size 1024x1024 x", "it draws 512x384"},
		{"-o no/x.png x", "no such file"},
		{"-o x.png -m nope x", "model 'nope' not found"},
		{"-o x.png -m scripted x", "does not draw pictures"},
		{"-o x.png [[crash]]", "unexpected EOF"},
		{"-o x.png \xff", "no text in UTF-8"},
	} {
		if _, _, err := axle(t, "", append([]string{"draw"}, strings.Fields(c.args)...)...); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.args, err, c.want)
		}
	}
	if _, _, err := axle(t, "", "draw", "-o", "x.png", " "); err == nil || !strings.Contains(err.Error(), "there is no text to draw") {
		t.Error(err)
	}
	if _, _, err := axle(t, "", "run", "scripted-drawing", "x"); err == nil || !strings.Contains(err.Error(), "'axle draw' writes one") {
		t.Errorf("run: %v", err)
	}
	if _, err := os.Stat("x.png"); !os.IsNotExist(err) {
		t.Errorf("half a file is left behind: %v", err)
	}
}

// TestDrawBreaksOff: pictures that came are told, and one that did not is a failure.
func TestDrawBreaksOff(t *testing.T) {
	for _, tt := range []struct{ name, body, want string }{
		{"whole", "event: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"b64_json\":\"AA==\"}\n\n" +
			"data: {\"type\":\"image_generation.completed\",\"b64_json\":\"AA==\",\"index\":1}\n\n", ""},
		{"half", "data: {\"type\":\"image_generation.completed\",\"b64_json\":\"AA==\"}\n\n", client.ErrBrokeOff.Error()},
		{"no picture", "data: {\"type\":\"image_generation.completed\"}\n\n", "there is no picture in it"},
		{"no JSON", "data: {\n\n", "the answer is not as it should be"},
		{"an error", "data: {\"error\":{\"message\":\"the card was lost\"}}\n\n", "the card was lost"},
	} {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(tt.body)) }))
		conn := client.New(must(t, func() (*url.URL, error) { return url.Parse(ts.URL) }), "")
		err := client.Error(conn.Draw(t.Context(), client.Drawing{N: 2, Prompt: "x"}, func(client.Drawn) error { return nil }))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		ts.Close()
	}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("data: {\"type\":\"image_generation.progress\",\"step\":1,\"steps\":2}\n\n"))
	}))
	defer ts.Close()
	conn := client.New(must(t, func() (*url.URL, error) { return url.Parse(ts.URL) }), "")
	stop := errors.New("stop")
	if err := conn.Draw(t.Context(), client.Drawing{Prompt: "x"}, func(d client.Drawn) error {
		if d.Step != 1 || d.Steps != 2 {
			t.Errorf("%+v", d)
		}
		return stop
	}); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// TestDrawView: in a terminal there is one line, drawn anew, and taken away.
func TestDrawView(t *testing.T) {
	var b bytes.Buffer
	v := newDrawView(&b, 2)
	v.tty, v.width = true, 80
	v.step(client.Drawn{Step: 1, Steps: 4, Index: 1})
	v.end()
	want := "\r\x1b[Kdrawing picture 2 of 2, step 1 of 4  [" + strings.Repeat("#", 10) + strings.Repeat(" ", 30) + "]\r\x1b[K"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	b.Reset()
	v.tty = false
	v.step(client.Drawn{Step: 1, Steps: 4})
	v.end()
	if b.String() != "" {
		t.Errorf("in a pipe, at once: %q", b.String())
	}
}
