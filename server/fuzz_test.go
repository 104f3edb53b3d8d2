package server

import (
	"bytes"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/server/ollama"
)

// pictures are images of 7×5 in each format: three whole ones, and WebP's three kinds of header.
func pictures(t testing.TB) map[string][]byte {
	img := image.NewPaletted(image.Rect(0, 0, 7, 5), color.Palette{color.Black, color.White})
	out := map[string][]byte{}
	for name, encode := range map[string]func(*bytes.Buffer) error{
		"gif": func(b *bytes.Buffer) error { return gif.Encode(b, img, nil) }, "jpeg": func(b *bytes.Buffer) error { return jpeg.Encode(b, img, nil) },
		"png": func(b *bytes.Buffer) error { return png.Encode(b, img) },
	} {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		out[name] = b.Bytes()
	}
	out["lossy"] = []byte("RIFF\x16\x00\x00\x00WEBPVP8 \x0a\x00\x00\x00\x10\x02\x00\x9d\x01\x2a\x07\x00\x05\x00")
	out["lossless"] = []byte("RIFF\x16\x00\x00\x00WEBPVP8L\x0a\x00\x00\x00\x2f\x06\x00\x01\x00\x00\x00\x00\x00\x00")
	out["extended"] = []byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x10\x00\x00\x00\x06\x00\x00\x04\x00\x00")
	return out
}

// Each format's header tells its size.
func TestImageSize(t *testing.T) {
	for name, b := range pictures(t) {
		if w, h := imageSize(b); w != 7 || h != 5 {
			t.Errorf("%s: %d×%d", name, w, h)
		}
		for n := range b { // cut off anywhere
			imageSize(b[:n])
		}
	}
	if w, h := imageSize([]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x10\x00\x00\x00\xff\xff\xff\xff\xff\xff")); w != 1<<24 || h != 1<<24 {
		t.Errorf("the largest: %d×%d", w, h)
	}
}

// No bytes make the reader of images' sizes panic or take long, and no size is out of what a header can say.
func FuzzImageSize(f *testing.F) {
	for _, b := range pictures(f) {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add([]byte("GIF89a\x88\x13\x88\x13\x00\x00\x00;"))
	f.Add([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x7f\xff\xff\xff\x7f\xff\xff\xff\x08\x06\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("\xff\xd8\xff\xe0\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var w, h int
		fuzzguard.Check(t, len(b), func() { w, h = imageSize(b) })
		if w < 0 || h < 0 || w > 1<<31-1 || h > 1<<31-1 {
			t.Errorf("%d×%d", w, h)
		}
	})
}

// No body of the routes that manage models makes them panic, and whatever is refused has a status and a text.
func FuzzManage(f *testing.F) {
	for _, s := range []string{`{}`, `{"model":"m","input":["a",""],"truncate":false,"dimensions":3,"options":{"num_ctx":5},"keep_alive":"5m"}`, `{"model":"m","prompt":"x"}`,
		`{"model":"mine","from":"m:latest","system":"s","template":"{{ .Prompt }}{{ range .Messages }}{{ .Content }}{{ end }}","parameters":{"stop":["<END>"],"temperature":0.5},"messages":[{"role":"user","content":"q"}],"license":["a","b"]}`,
		`{"model":"mine","files":{"a.axmodel":"sha256:` + strings.Repeat("0", 64) + `"},"license":"x"}`, `{"name":"x","from":"../y","license":[5]}`, `{"model":"x:cloud","verbose":true}`,
		`{"source":"a","destination":"b/c:d"}`, `{"model":"registry/x:7b","insecure":true,"stream":false}`, `{"from":"x","parameters":{"num_ctx":1e400}}`, `[[[[`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzguard.Check(t, len(b), func() { manage(t, b) })
	})
}

// manage does with a body what the handlers do before they ask the store or the host.
func manage(t *testing.T, b []byte) {
	check := func(err error) {
		t.Helper()
		if err == nil {
			return
		}
		if code, text := status(err); code < 400 || code >= 500 || text == "" {
			t.Errorf("%d %q: %v", code, text, err)
		}
	}
	var create api.CreateRequest
	if err := ollama.Decode(b, &create); err == nil {
		r, err := createRequest(create)
		check(err)
		if err == nil && r.Template != nil {
			_, _ = parseTemplate(*r.Template)
		}
	} else {
		check(err)
	}
	var embed api.EmbedRequest
	if err := ollama.Decode(b, &embed); err == nil {
		_, err := ollama.Inputs(embed.Input)
		check(err)
		check(checkOptions(nil, embed.Options))
	} else {
		check(err)
	}
	var old api.EmbeddingRequest
	check(ollama.Decode(b, &old))
	var show api.ShowRequest
	check(ollama.Decode(b, &show))
	var copied api.CopyRequest
	check(ollama.Decode(b, &copied))
	var pull api.PullRequest
	if err := ollama.Decode(b, &pull); err == nil {
		invalid := ollama.Fail(http.StatusBadRequest, "invalid model name")
		_, err := ollama.ParseRef(pull.Model, invalid, invalid)
		check(err)
	} else {
		check(err)
	}
}

// A mebibyte of the worst there is, and what is just allowed, stays within the limits (promise G5).
func TestHostilePeak(t *testing.T) {
	for _, p := range [][3]string{{`{"input":[""`, `,""`, `]}`}, {`{"messages":[{}`, `,{}`, `]}`}, {`{"license":[""`, `,""`, `]}`},
		{`{"input":"`, `\u0000`, `"}`}, {`{"parameters":{"stop":["a"`, `,"a"`, `]}}`}, {`{"options":{"a":[0`, `,0`, `]}}`}} {
		most := 0 // how often a unit may come, by the parts that a body may hold
		if parts := strings.Count(p[1], `"`)/2 + strings.Count(p[1], "{") + strings.Count(p[1], "["); parts > 0 {
			most = (ollama.MaxParts - 100) / parts
		}
		for _, b := range [][]byte{fuzzguard.Fill(p[0], p[1], p[2]), []byte(p[0] + strings.Repeat(p[1], min(most, (1<<20-400)/len(p[1]))) + p[2])} {
			fuzzguard.Check(t, len(b), func() { manage(t, b) })
		}
	}
	for name, b := range map[string][]byte{"gif": fuzzguard.Fill("GIF89a\x07\x00\x05\x00\x00\x00\x00", "!\xf9\x04\x00\x00\x00\x00\x00", ""), "jpeg": fuzzguard.Fill("\xff\xd8", "\xff\xe0\x00\x02", ""),
		"png": fuzzguard.Fill("\x89PNG\r\n\x1a\n", "\x00\x00\x00\x00tEXt\x00\x00\x00\x00", ""), "webp": fuzzguard.Fill("RIFF\x16\x00\x00\x00WEBPVP8X", "\xff", "")} {
		t.Run(name, func(t *testing.T) { fuzzguard.Check(t, len(b), func() { imageSize(b) }) })
	}
}

// Whatever the Host header holds, only what the list allows is answered.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"localhost:11434", "LOCALHOST", "127.0.0.1", "[::1]:11434", "[fe80::1%25eth0]:80", "a.localhost", "box.local", "configured.example:1", "evil.example", "localhost.evil.example",
		"127.0.0.1.evil.example", "localhost.", "localhost:0", "localhost:99999", "[::1", "::1", "1:2:3", "", ":80", "ollama", "a_b", ".local", "lan", "x.lan", "a..internal", "home.arpa", "box.home.arpa", "local.evil.example", "[localhost]:80", "user@localhost", "0x7f.1", "localhost\x00.evil", "ＬＯＣＡＬＨＯＳＴ"} {
		f.Add(s)
	}
	self := "box"
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	guards := []*guard{newGuard(true, []string{"configured.example"}, nil, nil, next), newGuard(false, []string{"configured.example"}, nil, nil, next)}
	for _, g := range guards {
		g.self = self
	}
	f.Fuzz(func(t *testing.T, h string) {
		for _, g := range guards {
			var who standing
			fuzzguard.Check(t, len(h), func() { who, _ = g.host(h) })
			if who == foreign || who == address || h == "" {
				continue
			}
			name := strings.ToLower(h)
			if i := strings.LastIndexByte(name, ':'); i >= 0 {
				name = strings.Trim(name[:i], "[]")
			}
			allowed := name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost") || name == self || name == "configured.example" ||
				!strings.Contains(name, ".") || strings.HasSuffix(name, ".local") || strings.HasSuffix(name, ".internal") || strings.HasSuffix(name, ".lan") ||
				strings.HasSuffix(name, ".home.arpa")
			if !allowed {
				t.Errorf("%q is answered, loopback %v", h, g.loopback)
			}
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/api/version", nil)
			r.Host = h
			if g.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("%q: %d", h, w.Code)
			}
		}
	})
}
