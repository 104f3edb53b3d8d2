package conversation

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/cmd/internal/client"
)

// What is set is what was written: quotes hold a value with blanks together, and stay where they
// are part of it.
func TestSet(t *testing.T) {
	_, talk, screen := listening(t)
	for _, tt := range []struct{ line, system, stop string }{
		{`/set system You are "brief"`, `You are "brief"`, "<nil>"},
		{`/set system "brief"`, `brief`, "<nil>"},
		{`/set system "a" and "b"`, `"a" and "b"`, "<nil>"},
		{`/set system`, `"a" and "b"`, "<nil>"},
		{`/set parameter stop "### User"`, `"a" and "b"`, `["### User"]`},
		{`/set parameter stop "a\nb" c "d" "e`, `"a" and "b"`, `["a\nb" "c" "d" "\"e"]`},
		{`/set parameter stop </s> [END]`, `"a" and "b"`, `["</s>" "[END]"]`},
	} {
		if _, err := talk.command(t.Context(), nil, tt.line); err != nil {
			t.Fatal(err)
		}
		stop := "<nil>"
		if v := talk.options["stop"]; v != nil {
			stop = fmt.Sprintf("%q", v)
		}
		if talk.system != tt.system || stop != tt.stop {
			t.Errorf("%s: system %s, stop %s, want %s and %s; screen %q", tt.line, talk.system, stop, tt.system, tt.stop, screen)
		}
	}
}

// All turns of a conversation say that they are, with an id of its own, from the request
// on that loads the model. What begins anew has a new one.
func TestSession(t *testing.T) {
	l, talk, _ := listening(t)
	l.answers = []string{`{"message":{"role":"assistant","content":"a"},"done":true}`}
	l.generated = []string{`{"response":"a","done":true}`}
	ctx := t.Context()
	command := func(line string) func() error {
		return func() error { _, err := talk.command(ctx, nil, line); return err }
	}
	answer := func() error { return talk.answer(ctx, "q") }
	for i, do := range []func() error{
		func() error { return talk.prepare(ctx, true) }, answer, answer,
		command("/clear"), answer, answer,
		command("/load other"), answer,
	} {
		if err := do(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	_, another, _ := listening(t)
	if err := another.once(ctx, "q"); err != nil || another.session == talk.session {
		t.Error("two conversations have one id")
	}
	same := []int{0, 0, 0, 1, 1, 2, 2}
	if len(l.sessions) != len(same) {
		t.Fatalf("%d requests: %q", len(l.sessions), l.sessions)
	}
	for i, a := range l.sessions {
		if len(a) < 16 {
			t.Errorf("request %d: the id %q", i, a)
		}
		for j, b := range l.sessions {
			if (a == b) != (same[i] == same[j]) {
				t.Errorf("requests %d and %d: %q and %q", i, j, a, b)
			}
		}
	}
}

// The server puts a model's MESSAGE turns before the conversation: the terminal sends them no
// second time, and saves them.
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

// paper is what was printed.
type paper struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// listener is a server that keeps what it is asked, and answers chats with the lines it is given.
type listener struct {
	chat    api.ChatRequest
	create  api.CreateRequest
	answers []string
	screen  paper
	hang    func() // called after them, and nothing more comes

	generated []string
	sessions  []string // of the requests that belong to a conversation
}

// listening starts one and gives a conversation with it, and what is on its screen.
func listening(t *testing.T) (*listener, *Talk, *paper) {
	t.Helper()
	l := &listener{generated: []string{`{"done":true}`}}
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
		_ = json.NewEncoder(w).Encode(api.ShowResponse{Messages: []api.Message{{Role: "user", Content: "hi"},
			{Role: "assistant", Content: "hello"}}})
	})
	mux.HandleFunc("/api/generate", func(w http.ResponseWriter, r *http.Request) {
		l.sessions = append(l.sessions, r.Header.Get(client.SessionHeader))
		_, _ = w.Write([]byte(strings.Join(append(l.generated, ""), "\n")))
	})
	mux.HandleFunc("/api/create", keep(&l.create, func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"status":"success"}` + "\n")) }))
	mux.HandleFunc("/api/chat", func(w http.ResponseWriter, r *http.Request) {
		l.chat = api.ChatRequest{}
		l.sessions = append(l.sessions, r.Header.Get(client.SessionHeader))
		keep(&l.chat, func(w http.ResponseWriter) {
			for _, a := range l.answers {
				_, _ = w.Write([]byte(a + "\n"))
			}
			if l.hang != nil {
				_ = http.NewResponseController(w).Flush()
				for len(l.answers) > 0 && l.screen.String() == "" {
					runtime.Gosched()
				}
				l.hang()
				<-r.Context().Done()
			}
		})(w, r)
	})
	ts := httptest.NewServer(mux)
	t.Cleanup(ts.Close)
	base, err := url.Parse(ts.URL)
	if err != nil {
		t.Fatal(err)
	}
	screen := &l.screen
	return l, &Talk{Conn: client.New(base, ""), Model: "m", Out: screen, Errw: screen, colour: true, options: map[string]any{}},
		screen
}

// told are messages in a few words.
func told(msgs []api.Message) string {
	var s []string
	for _, m := range msgs {
		s = append(s, m.Role+" "+m.Content)
	}
	return strings.Join(s, ", ")
}

// What ends an answer before its end leaves no colour behind, no empty turn, and is told.
func TestAnswerBreaksOff(t *testing.T) {
	thinking, part := `{"message":{"role":"assistant","thinking":"hm"}}`, `{"message":{"role":"assistant","content":"a"}}`
	for _, tt := range []struct {
		name    string
		answers []string
		stop    bool // by Ctrl-C
		screen  string
		fails   string
		kept    string
	}{
		{"error in the thinking", []string{thinking, `{"error":"no card"}`}, false, "Thinking...\n\x1b[90mhm\x1b[0m\n", "no card", ""},
		{"end in the thinking", []string{thinking}, false, "Thinking...\n\x1b[90mhm\x1b[0m\n", "broke off", ""},
		{"end in the answer", []string{thinking, part}, false, "Thinking...\n\x1b[90mhm\x1b[0m\n...done thinking.\n\na\n", "broke off", ""},
		{"Ctrl-C in the thinking", []string{thinking}, true, "Thinking...\n\x1b[90mhm\x1b[0m\n\n", "", ""},
		{"Ctrl-C in the answer", []string{part}, true, "a\n\n", "", "user q, assistant a"},
		{"Ctrl-C before it", nil, true, "\n\n", "", ""},
		{"an empty answer", []string{`{"done":true}`}, false, "\n", "", "user q, assistant "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, talk, screen := listening(t)
			l.answers, talk.NoMarkdown = tt.answers, true
			if tt.stop {
				l.hang = func() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) }
			}
			err := talk.answer(t.Context(), "q")
			if (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("error: %v", err)
			}
			if got := screen.String(); got != tt.screen {
				t.Errorf("screen %q, want %q", got, tt.screen)
			}
			if got := told(talk.messages); got != tt.kept {
				t.Errorf("kept: %s, want %s", got, tt.kept)
			}
		})
	}
	l, talk, screen := listening(t)
	l.generated = []string{`{"thinking":"hm"}`}
	if err := talk.once(t.Context(), "q"); !errors.Is(err, client.ErrBrokeOff) || !strings.HasSuffix(screen.String(), "hm\x1b[0m\n") {
		t.Errorf("one answer: %v, %q", err, screen)
	}
}
