package server_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// What vectors take is weighed before they are made: more than there is room for now may come
// again, more than there ever is may not.
func TestVectorsWeighed(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	r := newRig(t, func(_ *server.Options, c *scripted.Config) { c.Info.Hidden = 1024 })
	ask := func(path string, n int) answer {
		return r.post(path, `{"model":"scripted-embed","input":["a"`+strings.Repeat(`,"a"`, n-1)+`]}`)
	}
	for _, path := range []string{"/api/embed", "/v1/embeddings"} {
		if a := ask(path, 60_000); a.code != 413 || !strings.Contains(a.body, "60000 inputs") || !strings.Contains(a.body, "send at most") {
			t.Errorf("%s: 60,000 inputs: %d %.200s", path, a.code, a.body)
		}
		a := ask(path, 2000)
		if a.code != 200 || strings.Count(a.body, "],")+strings.Count(a.body, "]}") < 2000 || !json.Valid([]byte(a.body)) {
			t.Errorf("%s: 2000 inputs: %d, %d bytes", path, a.code, len(a.body))
		}
		if n := len(a.header["Content-Length"]); n != 0 {
			t.Errorf("%s: an answer of %d bytes was made whole", path, len(a.body))
		}
	}
	// Two announced bodies leave 64 MiB: enough for a body of 14,000 inputs, and too little for its
	// vectors too.
	head := fmt.Sprintf("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n{%s", 32<<20, strings.Repeat(" ", 2<<20))
	for range 2 {
		defer r.dial(head).Close()
	}
	for end := time.Now().Add(patience); r.Room() < 2*64<<20 && time.Now().Before(end); <-time.After(time.Millisecond) {
	}
	if a := ask("/api/embed", 14_000); a.code != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("without room: %d %.200s", a.code, a.body)
	}
	if a := ask("/api/embed", 100); a.code != 200 {
		t.Errorf("a small one without room: %d %.200s", a.code, a.body)
	}
}

// Text that may be an image's by its letters is weighed as text once it turns out to be some; where
// no image can be, at once.
func TestWeighedAgain(t *testing.T) {
	r := newRig(t)
	head := fmt.Sprintf("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n{%s", 32<<20, strings.Repeat(" ", 2<<20))
	for range 2 {
		defer r.dial(head).Close()
	}
	for end := time.Now().Add(patience); r.Room() < 2*64<<20 && time.Now().Before(end); <-time.After(time.Millisecond) {
	}
	letters := strings.Repeat("abcd", 1<<20-100) // 76 MiB as text, 12 as an image
	for path, body := range map[string]string{
		"/api/generate":             `{"model":"scripted","prompt":"` + letters + `","stream":false}`,
		"/api/chat":                 chatBody("scripted-chat", letters, `,"stream":false`),
		"/v1/messages":              chatBody("scripted-chat", letters, `,"max_tokens":5`),
		"/v1/messages/count_tokens": chatBody("scripted-chat", letters, ``),
	} {
		if a := r.post(path, body); a.code != 503 {
			t.Errorf("%s: %d %.200s", path, a.code, a.body)
		}
	}
	image := api.ImageData(strings.Repeat("x", 2<<20))
	b, _ := json.Marshal(image)
	if a := r.post("/api/generate", `{"model":"scripted-vision","prompt":"[[say:x]]","stream":false,"images":[`+string(b)+`]}`); a.code !=
		200 {
		t.Errorf("an image: %d %.200s", a.code, a.body)
	}
	if room := r.Room(); room != 2*64<<20 {
		t.Errorf("%d bytes of room are held", room)
	}
	text := strings.Repeat("a", 1<<20-200)
	// Now there are 10 MiB left: enough for a mebibyte of an image's letters, and too little for as
	// much text.
	defer r.dial(strings.Replace(head, strconv.Itoa(32<<20), strconv.Itoa(27<<20), 1)).Close()
	for end := time.Now().Add(patience); r.Room() < (2*64+54)<<20 && time.Now().Before(end); <-time.After(time.Millisecond) {
	}
	for path, field := range map[string]string{"/api/embed": "input", "/api/embeddings": "prompt", "/v1/embeddings": "input",
		"/v1/completions": "prompt"} {
		if a := r.post(path, `{"model":"scripted-embed","`+field+`":"`+text+`"}`); a.code != 503 {
			t.Errorf("%s: %d %.200s", path, a.code, a.body)
		}
	}
}
