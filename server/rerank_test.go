package server_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/lane"
)

// Documents are ranked over both routes and both kinds of models: the best first, as many as asked
// for, with their texts where asked for, and the scores say what they are.
func TestRerank(t *testing.T) {
	lane.NoRace(t)
	r := newRig(t)
	for _, path := range []string{"/v1/rerank", "/api/rerank"} {
		a := r.post(path, `{"model":"scripted","query":"red green blue","documents":["grey",{"text":"blue and red"},"green"],"top_n":2,`+
			`"return_documents":true}`)
		want := `{"model":"scripted","results":[{"index":1,"relevance_score":0.7310585786300049,"document":{"text":"blue and red"}},` +
			`{"index":2,"relevance_score":0.5,"document":{"text":"green"}}],"scoring":"yes_no","usage":{"prompt_tokens":`
		if a.code != 200 || !strings.HasPrefix(a.body, want) || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
		a = r.post(path, `{"model":"scripted-embed","query":"red","documents":["grey","red"],"keep_alive":-1}`)
		o := a.object(t)
		results, _ := o["results"].([]any)
		if a.code != 200 || o["scoring"] != "cosine" || len(results) != 2 || strings.Contains(a.body, `"document"`) {
			t.Fatalf("%s: %d %s", path, a.code, a.body)
		}
		first, second := results[0].(map[string]any), results[1].(map[string]any)
		if first["index"] != 1.0 || first["relevance_score"].(float64) < 0.9999 || second["relevance_score"].(float64) >= 0.9999 {
			t.Errorf("%s: %s", path, a.body)
		}
		for body, said := range map[string]string{
			`{}`:                                                           "query is required",
			`{"model":"scripted","query":" "}`:                             "query is required",
			`{"model":"scripted","query":"x"}`:                             "documents is required",
			`{"query":"x","documents":["y"]}`:                              "model is required",
			`{"query":{"text":"x"}}`:                                       "query",
			`{"query":"x","documents":"y"}`:                                "documents must be a list",
			`{"query":"x","documents":["y",1]}`:                            "documents[1] must be a text",
			`{"query":"x","documents":[{"a":1}]}`:                          "documents[0] must be a text",
			`{"query":"x","documents":[null]}`:                             "documents[0] must be a text",
			`{"model":"scripted","query":"x","documents":["y"],"top_n":0}`: "top_n must be at least 1",
			`{"model":"scripted","query":"x","documents":["y"],"options":{"temperature":-1}}`:      "temperature",
			`{"model":"scripted","query":"x","documents":["` + strings.Repeat("y ", 1<<19) + `"]}`: "too large",
		} {
			if a := r.post(path, body); a.code < 400 || a.code >= 500 || !strings.Contains(a.body, said) {
				t.Errorf("%s %.80s: %d %.200s, want %q", path, body, a.code, a.body, said)
			}
		}
		if a := r.post(path, `{"model":"unknown","query":"x","documents":["y"]}`); a.code != 404 {
			t.Errorf("%s: %d %s", path, a.code, a.body)
		}
		if a := r.post(path, `{"model":"scripted","query":"x","documents":["`+strings.Repeat("y ", 5000)+`"],"truncate":false}`); a.code !=
			400 || !strings.Contains(a.body, "exceeds the context length") {
			t.Errorf("%s: a document that does not fit: %d %s", path, a.code, a.body)
		}
		if a := r.post(path, `{"model":"scripted","query":"x","documents":["`+strings.Repeat("y ", 5000)+`"]}`); a.code != 200 ||
			a.header.Get("Axle-Truncated") == "" {
			t.Errorf("%s: a document that is cut: %d %v %.200s", path, a.code, a.header, a.body)
		}
	}
}

// A reranking is weighed by its documents times its query before any prompt is made of them.
func TestRerankWeighed(t *testing.T) {
	r := newRig(t)
	ask := func(documents, query int) answer {
		return r.post("/v1/rerank", fmt.Sprintf(`{"model":"scripted-embed","query":%q,"documents":["a"%s]}`, strings.Repeat("q ", query/2),
			strings.Repeat(`,"a"`, documents-1)))
	}
	if a := ask(10_000, 100_000); a.code != 413 || !strings.Contains(a.body, "send at most 667") {
		t.Errorf("10,000 documents for a query of 100,000 bytes: %d %.300s", a.code, a.body)
	}
	if a := ask(2000, 100); a.code != 200 || strings.Count(a.body, `"index"`) != 2000 {
		t.Errorf("2000 documents: %d %.200s", a.code, a.body)
	}
	// Three announced bodies leave less than such a query takes.
	head := fmt.Sprintf("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n{%s", 32<<20, strings.Repeat(" ", 2<<20))
	for range 3 {
		defer r.dial(head).Close()
	}
	for end := time.Now().Add(patience); r.Room() < 3*64<<20 && time.Now().Before(end); <-time.After(time.Millisecond) {
	}
	if a := ask(64, 100_000); a.code != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("without room: %d %.200s", a.code, a.body)
	}
	if a := ask(10, 100); a.code != 200 {
		t.Errorf("a small one without room: %d %.200s", a.code, a.body)
	}
}
