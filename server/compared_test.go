package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/scripted"
)

// TestComparedIsTold (D6): while a model is not loaded because the card gives other answers than it
// should, /health warns of it; once it is loaded it does not. Of a loaded model that was never
// compared, /health and show say so.
func TestComparedIsTold(t *testing.T) {
	st, err := store.Open(store.Options{Dir: t.TempDir(), Builtin: scripted.Builtin()})
	if err != nil {
		t.Fatal(err)
	}
	l := &doubted{}
	l.refuses.Store(true)
	s := server.New(local.New(st, local.Options{Describe: scripted.Describe}), l, nil,
		server.Options{Loopback: true, KeepAlive: pool.Forever})
	ts := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ts.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	get := func(path, body string) (int, string) {
		t.Helper()
		method := http.MethodPost
		if body == "" {
			method = http.MethodGet
		}
		req, err := http.NewRequestWithContext(t.Context(), method, ts.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		return resp.StatusCode, string(b)
	}
	const load = `{"model":"scripted","stream":false}`
	if code, said := get("/health", ""); code != 200 || strings.Contains(said, "warnings") {
		t.Errorf("at first: %d %s", code, said)
	}
	for range 2 {
		if code, said := get("/api/generate", load); code != 500 || !strings.Contains(said, "other answers") {
			t.Errorf("refused: %d %s", code, said)
		}
	}
	if code, said := get("/health", ""); code != 200 || strings.Count(said, "scripted:latest is not loaded: ") != 1 ||
		!strings.Contains(said, `"warnings":[`) || !strings.Contains(said, "2 of 8") {
		t.Errorf("while it is refused: %d %s", code, said)
	}
	// What is said of one that is deleted goes with it.
	if code, said := get("/api/copy", `{"source":"scripted","destination":"other"}`); code != 200 {
		t.Fatalf("copy: %d %s", code, said)
	}
	if code, said := get("/api/generate", `{"model":"other","stream":false}`); code != 500 {
		t.Errorf("the copy: %d %s", code, said)
	}
	if _, said := get("/health", ""); !strings.Contains(said, "other:latest is not loaded: ") {
		t.Errorf("while the copy is refused: %s", said)
	}
	del, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, ts.URL+"/api/delete", strings.NewReader(`{"model":"other"}`))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(del); err != nil || resp.StatusCode != 200 || resp.Body.Close() != nil {
		t.Fatalf("delete: %v, %v", resp, err)
	}
	if _, said := get("/health", ""); strings.Contains(said, "other:latest") || !strings.Contains(said, "scripted:latest is not loaded: ") {
		t.Errorf("once the copy is deleted: %s", said)
	}
	if _, said := get("/api/show", load); strings.Contains(said, "axle.compared") {
		t.Errorf("show of one that is not loaded: %s", said)
	}
	l.refuses.Store(false)
	if code, said := get("/api/generate", load); code != 200 {
		t.Fatalf("%d %s", code, said)
	}
	if code, said := get("/health", ""); code != 200 || strings.Contains(said, "warnings") ||
		!strings.Contains(said, ask.NeverCompared) {
		t.Errorf("once it is loaded: %d %s", code, said)
	}
	if code, said := get("/api/show", load); code != 200 || !strings.Contains(said, `"axle.compared":"never"`) {
		t.Errorf("show: %d %s", code, said)
	}
}

// doubted loads models that were never compared, or none.
type doubted struct{ refuses atomic.Bool }

func (l *doubted) Load(_ context.Context, e *catalog.Entry) (ask.Model, error) {
	if l.refuses.Load() {
		return nil, fmt.Errorf("%w: 2 of 8", engine.ErrWrong)
	}
	return engine.New(neverCompared{scripted.New(scripted.Config{Info: ask.Info{Name: e.Name.String()}})}, engine.Options{}), nil
}

type neverCompared struct{ *scripted.Backend }

func (b neverCompared) Stats() ask.Stats {
	st := b.Backend.Stats()
	st.Compared = ask.ComparedNever
	return st
}
