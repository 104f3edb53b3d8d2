package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ollama/ollama/api"
)

// listener is a server that keeps what it is asked, and answers chats with the lines it is given.
type listener struct {
	chat    api.ChatRequest
	create  api.CreateRequest
	answers []string
}

// listening starts one and gives a conversation with it, and what is on its screen.
func listening(t *testing.T) (*listener, *talk, *bytes.Buffer) {
	t.Helper()
	l := &listener{}
	mux := http.NewServeMux()
	keep := func(into any, answer func(http.ResponseWriter)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if err := json.NewDecoder(r.Body).Decode(into); err != nil {
				t.Error(err)
			}
			answer(w)
		}
	}
	mux.HandleFunc("/api/show", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.ShowResponse{Messages: []api.Message{{Role: "user", Content: "hi"}, {Role: "assistant", Content: "hello"}}})
	})
	mux.HandleFunc("/api/generate", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"done":true}` + "\n")) })
	mux.HandleFunc("/api/create", keep(&l.create, func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"status":"success"}` + "\n")) }))
	mux.HandleFunc("/api/chat", func(w http.ResponseWriter, r *http.Request) {
		l.chat = api.ChatRequest{}
		keep(&l.chat, func(w http.ResponseWriter) {
			_, _ = w.Write([]byte(strings.Join(l.answers, "\n") + "\n"))
		})(w, r)
	})
	ts := httptest.NewServer(mux)
	t.Cleanup(ts.Close)
	base, err := url.Parse(ts.URL)
	if err != nil {
		t.Fatal(err)
	}
	var screen bytes.Buffer
	return l, &talk{conn: &connection{Client: api.NewClient(base, ts.Client())}, model: "m", out: &screen, errw: &screen, colour: true, options: map[string]any{}}, &screen
}

// told are messages in a few words.
func told(msgs []api.Message) string {
	var s []string
	for _, m := range msgs {
		s = append(s, m.Role+" "+m.Content)
	}
	return strings.Join(s, ", ")
}

// The server puts a model's MESSAGE turns before the conversation: the terminal sends them no second time, and saves them.
func TestModelsOwnTurns(t *testing.T) {
	l, talk, _ := listening(t)
	l.answers = []string{`{"message":{"role":"assistant","content":"a"},"done":true}`}
	if err := talk.prepare(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if err := talk.answer(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	if got := told(l.chat.Messages); got != "user q" {
		t.Errorf("sent: %s", got)
	}
	for _, tt := range []struct{ first, want string }{
		{"/?", "user hi, assistant hello, user q, assistant a"},
		{"/clear", "user hi, assistant hello"},
		{"/load other", "user hi, assistant hello"},
	} {
		for _, line := range []string{tt.first, "/save kept"} {
			if _, err := talk.command(t.Context(), nil, line); err != nil {
				t.Fatal(err)
			}
		}
		if got := told(l.create.Messages); got != tt.want {
			t.Errorf("saved after %s: %s, want %s", tt.first, got, tt.want)
		}
	}
}
