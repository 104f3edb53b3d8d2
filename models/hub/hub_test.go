package hub_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/modelstest"
)

// T11: the token goes to the endpoint's own scheme, host and port, after any redirect; five
// redirects are followed and no more.
func TestToken(t *testing.T) {
	const home = "https://hub.example"
	file := home + "/o/m/resolve/main/f"
	chain := func(n int) map[string]string {
		m := map[string]string{}
		at := file
		for i := range n {
			next := fmt.Sprintf("%s/hop%d", home, i)
			m[at], at = next, next
		}
		return m
	}
	for _, c := range []struct {
		name     string
		moves    map[string]string
		with     []string // URLs that get the token
		without  []string
		wantFail string
	}{
		{"no redirect", nil, []string{file}, nil, ""},
		{"same host", map[string]string{file: "/other"}, []string{file, home + "/other"}, nil, ""},
		{"other host", map[string]string{file: "https://cdn.example/x"}, []string{file}, []string{"https://cdn.example/x"}, ""},
		{"and back", map[string]string{file: "https://cdn.example/x", "https://cdn.example/x": home + "/y"}, []string{file, home + "/y"},
			[]string{"https://cdn.example/x"}, ""},
		{"downgraded", map[string]string{file: "http://hub.example/x"}, []string{file}, []string{"http://hub.example/x"}, ""},
		{"other port", map[string]string{file: "https://hub.example:8443/x"}, []string{file}, []string{"https://hub.example:8443/x"}, ""},
		{"subdomain", map[string]string{file: "https://cdn.hub.example/x"}, []string{file}, []string{"https://cdn.hub.example/x"}, ""},
		{"suffix of the name", map[string]string{file: "https://evilhub.example/x"}, []string{file}, []string{"https://evilhub.example/x"},
			""},
		{"name in the path", map[string]string{file: "https://evil.example/hub.example"}, []string{file},
			[]string{"https://evil.example/hub.example"}, ""},
		{"name as a user", map[string]string{file: "https://hub.example@evil.example/x"}, []string{file},
			[]string{"https://evil.example/x"}, ""},
		{"no scheme of ours", map[string]string{file: "ftp://hub.example/x"}, []string{file}, nil, "no http address"},
		{"a file", map[string]string{file: "file:///etc/passwd"}, []string{file}, nil, "no http address"},
		{"nowhere", map[string]string{file: ""}, []string{file}, nil, "redirect to nowhere"},
		{"five", chain(5), []string{file, home + "/hop4"}, nil, ""},
		{"six", chain(6), []string{file, home + "/hop4"}, nil, "more than 5 redirects"},
		{"a loop", map[string]string{file: file}, []string{file}, nil, "more than 5 redirects"},
	} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			t.Run(fmt.Sprint(c.name, " ", code), func(t *testing.T) {
				w := &wires{sent: map[string]string{}, moves: c.moves, code: code}
				cl := &hub.Client{Endpoints: []string{home}, Token: "secret", Transport: w, Retries: 1}
				data, err := cl.Read(context.Background(), &hub.Snapshot{Repo: "o/m", Commit: "main"}, hub.File{Path: "f"}, 100)
				if c.wantFail == "" && (err != nil || string(data) != "content") || c.wantFail != "" &&
					(err == nil || !strings.Contains(err.Error(), c.wantFail)) {
					t.Errorf("%q, %v; want failure %q", data, err, c.wantFail)
				}
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("the error tells the token: %v", err)
				}
				for _, u := range c.with {
					if w.sent[u] != "Bearer secret" {
						t.Errorf("%s got %q", u, w.sent[u])
					}
				}
				for _, u := range c.without {
					if auth, ok := w.sent[u]; !ok || auth != "" {
						t.Errorf("%s got %q, %v", u, auth, ok)
					}
				}
				for u, auth := range w.sent {
					if auth != "" && !strings.HasPrefix(u, home+"/") {
						t.Errorf("%s got %q", u, auth)
					}
				}
			})
		}
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// wires answers for any host and notes who was sent a token.
type wires struct {
	mu    sync.Mutex
	sent  map[string]string // URL to Authorization
	moves map[string]string // URL to where it redirects
	code  int
}

func (w *wires) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	url := r.URL.String()
	w.sent[url] = r.Header.Get("Authorization")
	rec := httptest.NewRecorder()
	if to, ok := w.moves[url]; ok {
		rec.Header().Set("Location", to)
		rec.WriteHeader(w.code)
	} else {
		fmt.Fprint(rec, "content")
	}
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

// A mirror serves when the hub does not, and never sees the token.
func TestMirror(t *testing.T) {
	h := modelstest.NewHub()
	defer h.Close()
	data := bytes.Repeat([]byte("0123456789"), 5000)
	h.Add("o/m", map[string]modelstest.Content{"a.bin": bytes.NewReader(data)})
	var mu sync.Mutex
	var leaked []string
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if a := r.Header.Get("Authorization"); a != "" {
			leaked = append(leaked, a)
		}
		mu.Unlock()
		http.Redirect(w, r, h.URL+r.URL.String(), http.StatusTemporaryRedirect)
	}))
	defer mirror.Close()
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	c := &hub.Client{Endpoints: []string{down.URL, mirror.URL}, Token: "secret", Backoff: time.Millisecond}
	snap, err := c.Snapshot(context.Background(), "o/m", "")
	if err != nil || len(snap.Files) != 1 {
		t.Fatal(snap, err)
	}
	f := snap.Files[0]
	if f.Size != int64(len(data)) || f.Digest != sha256.Sum256(data) {
		t.Errorf("%+v", f)
	}
	out := &memory{data: make([]byte, len(data))}
	if err := c.Fetch(context.Background(), snap, f, hub.NewState(f.Size, 7000), out, func(int64) {}); err != nil ||
		!bytes.Equal(out.data, data) {
		t.Errorf("%v, equal %v", err, bytes.Equal(out.data, data))
	}
	if len(leaked) > 0 {
		t.Errorf("the mirror saw %q", leaked)
	}
}

type memory struct {
	mu   sync.Mutex
	data []byte
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return copy(m.data[off:], p), nil
}

// Each fault alone is survived, and what was there is not fetched again.
func TestFaults(t *testing.T) {
	data := bytes.Repeat([]byte("abcdefghij"), 20000)
	for f := modelstest.Cut; f <= modelstest.Away; f++ {
		if f == modelstest.Flip {
			continue // only a hash can tell: the store's tests have it
		}
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			h := modelstest.NewHub()
			defer h.Close()
			h.Add("o/m", map[string]modelstest.Content{"a.bin": bytes.NewReader(data)})
			h.SetFault(func(_ string, n int) modelstest.Fault {
				if n%2 == 0 {
					return f
				}
				return modelstest.None
			})
			// One connection: among several, one part may have every second request.
			c := &hub.Client{Endpoints: []string{h.URL}, Connections: 1, Backoff: time.Millisecond, Stall: 300 * time.Millisecond}
			snap, err := c.Snapshot(context.Background(), "o/m", "main")
			if err != nil {
				t.Fatal(err)
			}
			st := hub.NewState(int64(len(data)), 50000)
			out := &memory{data: make([]byte, len(data))}
			var n int64
			var mu sync.Mutex
			err = c.Fetch(context.Background(), snap, snap.Files[0], st, out, func(k int64) { mu.Lock(); n += k; mu.Unlock() })
			if err != nil || !bytes.Equal(out.data, data) || n != int64(len(data)) || st.Done() != n {
				t.Errorf("%v, equal %v, %d written, %d done", err, bytes.Equal(out.data, data), n, st.Done())
			}
		})
	}
}

// A hub that never gets better is given up, in bounded time and with its reason.
func TestGivesUp(t *testing.T) {
	for f, want := range map[modelstest.Fault]error{modelstest.Denied: hub.ErrDenied, modelstest.Broken: nil, modelstest.Reset: nil,
		modelstest.Stall: hub.ErrStalled} {
		h := modelstest.NewHub()
		h.Add("o/m", map[string]modelstest.Content{"a.bin": bytes.NewReader(make([]byte, 1))})
		h.SetFault(func(string, int) modelstest.Fault { return f })
		c := &hub.Client{Endpoints: []string{h.URL}, Backoff: time.Millisecond, Retries: 3, Stall: 50 * time.Millisecond}
		snap, err := c.Snapshot(context.Background(), "o/m", "main")
		if err != nil {
			t.Fatal(err)
		}
		err = c.Fetch(context.Background(), snap, snap.Files[0], hub.NewState(1, 1), &memory{data: make([]byte, 1)}, func(int64) {})
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("fault %d: %v, want %v", f, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "Signature") {
			t.Errorf("a signed link in %v", err)
		}
		if n := len(h.Requests()); n > 20 {
			t.Errorf("fault %d: %d requests", f, n)
		}
		h.Close()
	}
}

// A hub without the tree call, or without hashes in it, is served by the older answer and by asking
// for each file.
func TestOlderHubs(t *testing.T) {
	data := []byte("some content")
	sum := models.Digest(sha256.Sum256(data))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/api/models/o/m/revision/main":
			fmt.Fprint(w, `{"siblings": [{"rfilename": "a.bin"}, {"rfilename": "../evil"}, {"rfilename": "/abs"}, {"rfilename": "b.txt", "size": 5, "blobId": "0123456789012345678901234567890123456789"}]}`)
		case r.Method == http.MethodHead && strings.HasSuffix(r.URL.Path, "/resolve/main/a.bin"):
			w.Header().Set("X-Linked-Etag", `"`+sum.Hex()+`"`)
			w.Header().Set("X-Linked-Size", "12")
			w.Header().Set("Location", "https://elsewhere.example/x")
			w.WriteHeader(302)
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	c := &hub.Client{Endpoints: []string{srv.URL}, Backoff: time.Millisecond}
	snap, err := c.Snapshot(context.Background(), "o/m", "main")
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Files) != 2 || snap.Files[1].Git == "" || snap.Files[1].Size != 5 {
		t.Errorf("%+v", snap.Files)
	}
	f, err := c.Describe(context.Background(), snap, snap.Files[0])
	if err != nil || f.Digest != sum || f.Size != 12 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, bad := range []string{"", "x", "a/b/c", "../x", "o/..", "o/m?x", "o/m#x", "o/%2e"} {
		if _, err := c.Snapshot(context.Background(), bad, ""); !errors.Is(err, hub.ErrNotFound) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestState(t *testing.T) {
	for _, c := range []struct{ size, part, parts int64 }{{0, 10, 0}, {1, 10, 1}, {10, 10, 1}, {11, 10, 2}, {1 << 40, 1, 1024}} {
		s := hub.NewState(c.size, c.part)
		if int64(len(s.Parts)) > 1024 || c.parts != 1024 && int64(len(s.Parts)) != c.parts || !s.Valid(c.size) || s.Done() != 0 {
			t.Errorf("%+v: %d parts", c, len(s.Parts))
		}
	}
	for _, bad := range []*hub.State{
		{Size: 10}, {Size: 10, Parts: []hub.Part{{0, 9, 0}}}, {Size: 10, Parts: []hub.Part{{0, 5, 0}, {6, 10, 0}}},
		{Size: 10, Parts: []hub.Part{{0, 10, 11}}},
		{Size: 10, Parts: []hub.Part{{0, 10, -1}}}, {Size: 11, Parts: []hub.Part{{0, 10, 0}}},
		{Size: 10, Parts: []hub.Part{{0, 5, 0}, {5, 5, 0}, {5, 10, 0}}},
	} {
		if bad.Valid(10) {
			t.Errorf("%+v is valid", bad.Parts)
		}
	}
}

func TestNearest(t *testing.T) {
	for in, want := range map[string]string{"qwen3:8b": "qwen3:4b", "qwen2:1.5b": "qwen2.5:1.5b", "llama3.2:1b": "minicpm5:1b",
		"llama3.1:8b": "qwen2.5:7b", "smollm:360m": "smollm2:360m",
		"gemma2:2b": "gemma3:1b", "deepseek-r1:8b": "deepseek-r1:7b", "mistral": "qwen3:0.6b", "qwen3-4b-gguf": "qwen3:4b",
		"qwne3": "qwen3:0.6b", "smolm2": "smollm2:360m", "deepsek-r1": "deepseek-r1:1.5b", "gema3": "gemma3:1b",
		"whisper:large": "whisper:base", "kokro": "kokoro:82m", "zipfomer": "zipformer:zh-en", "embedder": "qwen3-embedding:0.6b"} {
		if got := hub.Nearest(in); !slices.Contains(got, want) || len(got) != 3 {
			t.Errorf("nearest to %s: %v, want %s among them", in, got, want)
		}
	}
}

// Estimated sizes come out near published ones: of Qwen3-0.6B's repository, and
// what Qwen3-4B takes of a card's memory.
func TestSize(t *testing.T) {
	for _, e := range hub.Catalogue {
		n, told := e.Size()
		if n < 90e6 || e.Kind == "" && n < 300e6 || n > 13e9 || told != (e.Download > 0) {
			t.Errorf("%s: %d, told %v", e.Name, n, told)
		}
		switch e.Download = 0; e.Name {
		case "qwen3:0.6b":
			if n, _ := e.Size(); n < 1.1e9 || n > 1.3e9 {
				t.Errorf("%s is estimated as %d, and is 1.2 GB", e.Name, n)
			}
		case "qwen3:4b":
			if n, _ := e.Size(); n < 6.2e9 || n > 7e9 {
				t.Errorf("%s is estimated as %d; it takes 6.3 GB of card memory with its cache, without embeddings", e.Name, n)
			}
		}
	}
}

func TestFromEnv(t *testing.T) {
	t.Setenv("HF_ENDPOINT", " https://a.example/ ,https://b.example,")
	t.Setenv("HF_TOKEN", " hf_x\n")
	if c := hub.FromEnv(); !slices.Equal(c.Endpoints, []string{"https://a.example", "https://b.example"}) || c.Token != "hf_x" {
		t.Errorf("%q %q", c.Endpoints, c.Token)
	}
	for env, folder := range map[string]string{
		"":                     "https://raw.githubusercontent.com/hexgrad/misaki/fba1236595f2d2bf21d414ba6e57d25256afada3/misaki/data/",
		" http://nas/misaki/ ": "http://nas/misaki/",
	} {
		t.Setenv("AXLE_DICTIONARIES", env)
		all := hub.FromEnv().Dictionaries
		if len(all) != 4 {
			t.Fatalf("%d dictionaries", len(all))
		}
		for i, name := range []string{"us_gold", "us_silver", "gb_gold", "gb_silver"} {
			f := all[i]
			if f.Path != "dictionaries/"+name+".json" || f.URL != folder+name+".json" || f.Digest.IsZero() || f.Size < 2_800_000 {
				t.Errorf("%+v", f)
			}
			if have := os.Getenv("AXLE_TEST_MISAKI"); have != "" { // the real ones
				b, err := os.ReadFile(filepath.Join(have, name+".json"))
				if err != nil || int64(len(b)) != f.Size || sha256.Sum256(b) != f.Digest {
					t.Errorf("%s is another file: %d bytes, %v", name, len(b), err)
				}
			}
		}
	}
	t.Setenv("HF_ENDPOINT", "not an address")
	c := hub.FromEnv()
	c.Retries = 1
	if _, err := c.Snapshot(context.Background(), "o/m", ""); err == nil || !strings.Contains(err.Error(), "HF_ENDPOINT") {
		t.Errorf("%v", err)
	}
}
