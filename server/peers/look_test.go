package peers

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestLook: each peer that has the secret tells what it does; of the others a word says why not.
func TestLook(t *testing.T) {
	var asked atomic.Int64
	gone := saying(t, 200, "")
	gone.Close()
	p := looking(t, Options{Secret: secret}, telling(t, secret, "board-2", &asked), telling(t, other, "board-3", &asked), gone,
		saying(t, 200, "<html>"), saying(t, 200, "{}"), saying(t, 200, `{"node":"a b","version":"1"}`), saying(t, 500, "no"),
		saying(t, 404, "404 page not found"), saying(t, 200, `{"version":"`+strings.Repeat("x", mostTold)+`"}`))
	seen, err := p.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var words []string
	for _, s := range seen {
		words = append(words, s.Error)
		if s.Address == "" || (s.Error == "") != (s.Why == "") || s.Error != "" && s.Version != "" {
			t.Errorf("%+v", s)
		}
	}
	if want := []string{"", Refused, Unreached, Wrong, Wrong, Wrong, Wrong, Refused, Wrong}; !slices.Equal(words, want) {
		t.Errorf("%q, want %q", words, want)
	}
	if s := seen[0]; s.Node != "board-2" || s.Running != 2 || len(s.Models) != 1 || len(s.Cards) != 1 || s.Cards[0].Memory != 7<<30 {
		t.Errorf("%+v", s)
	}
}

// TestLookRarely: however many ask, peers are asked once in two seconds; and one that is gone keeps
// its name.
func TestLookRarely(t *testing.T) {
	var asked, after atomic.Int64
	begin := time.Now()
	ts := telling(t, secret, "board-2", &asked)
	p := looking(t, Options{Secret: secret, Now: func() time.Time { return begin.Add(time.Duration(after.Load())) }}, ts)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if seen, err := p.Look(t.Context()); err != nil || len(seen) != 1 || seen[0].Node != "board-2" {
				t.Errorf("%+v, %v", seen, err)
			}
		})
	}
	all.Wait()
	after.Store(int64(lookOften) - 1)
	_, err := p.Look(t.Context())
	if n := asked.Load(); n != 1 || err != nil {
		t.Errorf("it was asked %d times, %v", n, err)
	}
	after.Store(int64(lookOften))
	_, err = p.Look(t.Context())
	if n := asked.Load(); n != 2 || err != nil {
		t.Errorf("it was asked %d times two seconds later, %v", n, err)
	}
	ts.Close()
	after.Store(int64(2 * lookOften))
	if seen, err := p.Look(t.Context()); err != nil || seen[0].Error != Unreached || seen[0].Node != "board-2" || seen[0].Running != 0 {
		t.Errorf("once it is gone: %+v, %v", seen, err)
	}
}

// TestLookLate: a peer that does not answer is waited for as long as is allowed, and who goes away
// does not wait for it.
func TestLookLate(t *testing.T) {
	ts := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(ts.Close)
	p := looking(t, Options{Secret: secret}, ts)
	p.looks.limit = time.Millisecond
	if seen, err := p.Look(t.Context()); err != nil || seen[0].Error != Late && seen[0].Error != Unreached {
		t.Errorf("%+v, %v", seen, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	<-p.looks.turn
	if _, err := p.Look(gone); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone away: %v", err)
	}
	p.looks.turn <- struct{}{}
}

// TestTellSealed: who has not the secret learns nothing, and the summary is not even made.
func TestTellSealed(t *testing.T) {
	s := NewServer(nil, ServerOptions{Secret: secret})
	for _, key := range [][]byte{nil, other} {
		r := httptest.NewRequest("GET", "http://board-1/rows", nil)
		if key != nil {
			newSealer(key).seal(r, time.Now())
		}
		w := httptest.NewRecorder()
		if err := s.Tell(w, r, func() Summary { t.Error("it is made"); return Summary{} }); err == nil || w.Code != 401 {
			t.Errorf("%d %v", w.Code, err)
		}
	}
}

// telling is a server that tells peers a summary, and counts how often it is asked.
func telling(t *testing.T, secret []byte, node string, asked *atomic.Int64) *httptest.Server {
	s := NewServer(nil, ServerOptions{Secret: secret})
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_ = s.Tell(w, r, func() Summary {
			return Summary{Node: node, Version: "0.2.0", Status: "ok", Running: 2, Models: []string{"qwen3:0.6b"},
				Cards: []SummaryCard{{Name: "AX650N", State: "ready", Memory: 7 << 30}}}
		})
	}))
	t.Cleanup(ts.Close)
	return ts
}

// saying is a server that answers everything alike.
func saying(t *testing.T, status int, text string) *httptest.Server {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(ts.Close)
	return ts
}

func looking(t *testing.T, o Options, at ...*httptest.Server) *Peers {
	var addrs []string
	for _, ts := range at {
		addrs = append(addrs, ts.URL)
	}
	p, err := New(addrs, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}
