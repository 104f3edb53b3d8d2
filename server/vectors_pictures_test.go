package server_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/color"
	"strings"
	"testing"

	"github.com/axle-llm/axle/server/access"
)

// TestVectorPictures: each way to send a picture gives its vector, which is that of the word for
// what it shows, and each wrong one has an error that says what is wrong.
func TestVectorPictures(t *testing.T) {
	//proves:T7 T12
	r := newRig(t)
	red, blue := colouredPNG(color.RGBA{R: 255, A: 255}), colouredPNG(color.RGBA{B: 255, A: 255})
	data := func(p string) string { return "data:image/png;base64," + p }
	const v1, own = "/v1/embeddings", "/api/embed"
	words := func(list ...string) string {
		b, _ := json.Marshal(list)
		return r.post(own, `{"model":"scripted-search","input":`+string(b)+`}`).body
	}
	for _, tt := range []struct {
		name, path, body string
		want             []string
	}{
		{"Jina's objects", v1, `"input":[{"text":"red "},{"image":"` + blue + `"},{"image":"` + data(red) + `"},"blue "]`,
			[]string{"red ", "blue ", "red ", "blue "}},
		{"a picture and a text", v1, `"input":[{"image":"` + red + `","text":"car"}]`, []string{"red car"}},
		{"one object", v1, `"input":{"image":"` + red + `"}`, []string{"red "}},
		{"parts", v1, `"input":[{"type":"image_url","image_url":{"url":"` + data(red) + `"}},{"type":"text","text":"car"}]`,
			[]string{"red ", "car"}},
		{"contents", v1, `"input":[{"content":[{"type":"text","text":"car"},{"type":"image_url","image_url":"` + data(blue) + `"}]}]`,
			[]string{"blue car"}},
		{"vLLM's messages", v1, `"messages":[{"role":"system","content":[{"type":"text","text":"Find it."}]},{"role":"user","content":[
			{"type":"image_url","image_url":{"url":"` + data(red) + `"}},{"type":"text","text":"car"}]},
			{"role":"assistant","content":[{"type":"text","text":""}]}],"encoding_format":"float"`, []string{"red car"}},
		{"a text message", v1, `"messages":[{"role":"user","content":"car"}]`, []string{"car"}},
		{"images beside inputs", own, `"input":["car","blue "],"images":["` + red + `",null]`, []string{"red car", "blue "}},
		{"images alone", own, `"images":["` + red + `","` + blue + `"]`, []string{"red ", "blue "}},
		{"an image and no text", own, `"input":"","images":["` + red + `"]`, []string{"red "}},
		{"a prompt", v1, `"input":"car","prompt_name":"query","input_type":"query"`, []string{"find car"}},
	} {
		a := r.post(tt.path, `{"model":"scripted-search",`+tt.body+`}`)
		if got, want := vectorsOf(t, a.body), vectorsOf(t, words(tt.want...)); a.code != 200 || got != want {
			t.Errorf("%s: %d %s, want %s of %q", tt.name, a.code, got, want, tt.want)
		}
	}

	message := func(role, content string) string { return `{"role":"` + role + `","content":` + content + `}` }
	part := `{"type":"image_url","image_url":{"url":"` + data(red) + `"}}`
	user := message("user", `[`+part+`]`)
	for _, tt := range []struct{ name, path, body, want string }{
		{"an address", v1, `"input":[{"image":"http://127.0.0.1/a.png"}]`, "none is fetched from an address or read from a file"},
		{"an address as a part", v1, `"messages":[` + message("user", `[{"type":"image_url","image_url":{"url":"https://a/b.png"}}]`) + `]`,
			"none is fetched from an address"},
		{"a file", v1, `"messages":[` + message("user", `[{"type":"image_url","image_url":{"url":"/etc/passwd"}}]`) + `]`,
			"none is fetched from an address or read from a file"},
		{"a file's URL", v1, `"input":[{"image":"file:///etc/passwd"}]`, "none is fetched from an address or read from a file"},
		{"a file as Jina's", v1, `"input":[{"image":"/etc/passwd"}]`, "a picture is no base64"},
		{"text data", v1, `"input":[{"image":"data:image/png,AAAA"}]`, "a data URL must have the form"},
		{"no base64", v1, `"input":[{"image":"data:image/png;base64,%%"}]`, "a picture is no base64"},
		{"no picture", v1, `"input":[{"image":"AAAA"}]`, "the picture cannot be read"},
		{"two pictures", v1, `"messages":[` + message("user", `[`+part+`,`+part+`]`) + `]`, "a vector is of one picture at most"},
		{"a video", v1, `"messages":[` + message("user", `[{"type":"video_url","video_url":{"url":"x"}}]`) + `]`, "video_url becomes no vector"},
		{"two users", v1, `"messages":[` + user + "," + user + `]`, `message 2 has the role "user"`},
		{"an answer", v1, `"messages":[` + user + "," + message("assistant", `"hello"`) + `]`, `message 2 has the role "assistant"`},
		{"a late system", v1, `"messages":[` + user + "," + message("system", `"x"`) + `]`, `message 2 has the role "system"`},
		{"a system that sees", v1, `"messages":[` + message("system", `[`+part+`]`) + "," + user + `]`, "a system message has text alone"},
		{"no user", v1, `"messages":[` + message("system", `"x"`) + `]`, "messages has no user message"},
		{"content", v1, `"messages":[` + message("user", `3`) + `]`, "what becomes a vector is a text"},
		{"both", v1, `"input":"a","messages":[` + user + `]`, "send one of them"},
		{"an empty object", v1, `"input":[{}]`, "what becomes a vector is a text"},
		{"a number", v1, `"input":[3]`, "invalid input type"},
		{"two prompts", v1, `"input":"a","prompt_name":"query","input_type":"document"`, "both name a prompt"},
		{"an unknown prompt", v1, `"input":"a","input_type":"passage"`, `has no prompt called "passage": take one of document, query`},
		{"too many images", own, `"input":["a"],"images":["` + red + `","` + red + `"]`, "there are 2 for 1 inputs"},
		{"65 pictures", own, `"images":["` + red + `"` + strings.Repeat(`,"`+red+`"`, 64) + `]`, "send at most 64"},
		{"pixels", own, `"images":["` + base64.StdEncoding.EncodeToString([]byte("GIF89a\x64\x19\x64\x19\x00\x00\x00;")) + `"]`, "the limit is 40 megapixels"},
		{"dimensions", own, `"images":["` + red + `"],"dimensions":-1`, "dimensions must not be negative"},
	} {
		if a := r.post(tt.path, `{"model":"scripted-search",`+tt.body+`}`); a.code != 400 || !strings.Contains(unquoted(t, a.body), tt.want) {
			t.Errorf("%s: %d %s, want %s", tt.name, a.code, a.body, tt.want)
		}
	}
	for _, model := range []string{"scripted-embed", "scripted-vision"} {
		if a := r.post(own, `{"model":"`+model+`","images":["`+red+`"]}`); a.code != 400 || !strings.Contains(a.body, "gives no vectors of pictures") {
			t.Errorf("%s: %d %s", model, a.code, a.body)
		}
	}
	if a := r.post("/api/show", `{"model":"scripted-search"}`); !strings.Contains(a.body, `"capabilities":["embedding","vision"]`) {
		t.Errorf("shown: %s", a.body)
	}
	// A picture makes a body large; a text does not.
	large := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 2<<20)))
	if a := r.post(own, `{"model":"scripted-search","images":["`+large+`"]}`); a.code != 400 {
		t.Errorf("2 MiB that are no picture: %d %.200s", a.code, a.body)
	}
	if a := r.post(own, `{"model":"scripted-search","input":["`+large+`"],"images":["`+red+`"]}`); a.code != 413 {
		t.Errorf("2 MiB of text beside a picture: %d %.200s", a.code, a.body)
	}
}

// TestVectorPictureKeys: the pictures of a key are counted before any of them is looked at.
func TestVectorPictureKeys(t *testing.T) {
	r := limitRig(t, access.Limits{Pictures: 3})
	ask := func(n int) answer {
		red := colouredPNG(color.White)
		return r.post("/v1/embeddings", fmt.Sprintf(`{"model":"scripted-search","input":[%s]}`,
			strings.TrimSuffix(strings.Repeat(`{"image":"`+red+`"},`, n), ",")), bearer("limited")...)
	}
	for n, want := range map[int]int{4: 429} {
		if a := ask(n); a.code != want {
			t.Errorf("%d: %d %s", n, a.code, a.body)
		}
	}
	if a := ask(2); a.code != 200 {
		t.Errorf("two: %d %s", a.code, a.body)
	}
	if a := ask(2); a.code != 429 || !strings.Contains(a.body, "3 pictures a minute") {
		t.Errorf("two more: %d %s", a.code, a.body)
	}
}

func colouredPNG(c color.Color) string { return base64.StdEncoding.EncodeToString([]byte(plainPNG(c))) }

// vectorsOf are the vectors of an answer in either dialect.
func vectorsOf(t *testing.T, b string) string {
	t.Helper()
	var a struct {
		Embeddings [][]float32
		Data       []struct {
			Embedding []float32
		}
	}
	if err := json.Unmarshal([]byte(b), &a); err != nil {
		t.Errorf("%v: %s", err, b)
	}
	for _, d := range a.Data {
		a.Embeddings = append(a.Embeddings, d.Embedding)
	}
	if len(a.Embeddings) == 0 {
		return "none: " + b
	}
	return fmt.Sprintf("%.4f", a.Embeddings)
}

// unquoted is an error's text in either dialect.
func unquoted(t *testing.T, b string) string {
	t.Helper()
	var own struct{ Error any }
	if err := json.Unmarshal([]byte(b), &own); err != nil {
		t.Errorf("%v: %s", err, b)
	}
	if in, ok := own.Error.(map[string]any); ok {
		return fmt.Sprint(in["message"])
	}
	return fmt.Sprint(own.Error)
}
