package hub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A listing that no repository has is refused at once, whatever is wrong with it, and takes no more
// memory than what is kept of one.
func TestListingLimits(t *testing.T) {
	entry := func(i int) string { return fmt.Sprintf(`{"type":"file","path":"f%d","size":1},`, i) }
	many := func(n int, entry func(int) string) string {
		var b strings.Builder
		b.WriteString("[")
		for i := range n {
			b.WriteString(entry(i))
		}
		return b.String() + `{"type":"directory","path":"d"}]`
	}
	for name, tree := range map[string]string{
		"twice":              `[{"path":"a.axmodel","size":1},{"path":"b"},{"path":"a.axmodel","size":2}]`,
		"too many files":     many(maxFiles+1, entry),
		"too many folders":   many(maxEntries+1, func(int) string { return `{"type":"directory","path":"a"},` }),
		"too many bytes":     "[" + strings.Repeat(" ", maxListing) + "]",
		"too long names":     many(5000, func(i int) string { return fmt.Sprintf(`{"path":"%d%s"},`, i, strings.Repeat("a", 1000)) }),
		"one name, too long": `[{"path":"` + strings.Repeat("a", maxListing) + `"}]`,
		"less than nothing":  `[{"path":"a","size":-1}]`,
	} {
		t.Run(name, func(t *testing.T) {
			for what, a := range map[string]answers{
				"tree":     {"/api/models/o/m/tree/main": tree},
				"siblings": {"/api/models/o/m/revision/main": `{"siblings":` + strings.ReplaceAll(tree, `"path"`, `"rfilename"`) + `}`},
			} {
				if what == "siblings" && name == "too many bytes" {
					continue // white space only
				}
				c := &Client{Endpoints: []string{"https://hub.example"}, Transport: a, Backoff: time.Hour}
				var before, after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&before)
				_, err := c.Snapshot(context.Background(), "o/m", "")
				runtime.ReadMemStats(&after)
				if !errors.Is(err, ErrListing) {
					t.Errorf("%s: %v", what, err)
				}
				if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 128 {
					// of all that was ever made: three times the listing's own text, its request's
					// included
					t.Errorf("%s: %d MiB", what, n)
				}
			}
		})
	}
	c := &Client{Endpoints: []string{"https://hub.example"}, Transport: answers{"/api/models/o/m/tree/main": many(10_000, entry)}}
	if s, err := c.Snapshot(context.Background(), "o/m", ""); err != nil || len(s.Files) != 10_000 {
		t.Errorf("a long one: %v", err)
	}
	c = &Client{Endpoints: []string{"https://hub.example"},
		Transport: answers{"/api/models/o/m/revision/main": `{"siblings":[{"rfilename":"a"}]}`}}
	if s, err := c.Snapshot(context.Background(), "o/m", ""); err != nil || len(s.Files) != 1 {
		t.Errorf("siblings: %+v, %v", s, err)
	}
}

// answers is a hub of canned answers by path; what is missing is not found.
type answers map[string]string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	if body, ok := a[r.URL.Path]; !ok {
		rec.WriteHeader(http.StatusNotFound)
	} else if to, ok := strings.CutPrefix(body, "-> "); ok {
		rec.Header().Set("Location", to)
		rec.WriteHeader(http.StatusFound)
	} else {
		_, _ = rec.WriteString(body)
	}
	resp := rec.Result()
	resp.Request = r
	return resp, nil
}

// A redirect leads to an address of this machine or network only where the hub is there itself.
func TestNear(t *testing.T) {
	for _, c := range []struct {
		hub, to string
		ok      bool
	}{
		{"https://hub.example", "https://cdn.example/x", true},
		{"https://hub.example", "http://127.0.0.1:11434/api/delete", false},
		{"https://hub.example", "http://127.1/x", true}, // no address to us: resolved, and looked at when it is dialled
		{"https://hub.example", "http://localhost/x", false},
		{"https://hub.example", "http://LOCALHOST./x", false},
		{"https://hub.example", "http://nas.local/x", false},
		{"https://hub.example", "http://metadata.google.internal/x", false},
		{"https://hub.example", "http://10.0.0.1/x", false},
		{"https://hub.example", "http://172.16.9.9/x", false},
		{"https://hub.example", "http://192.168.1.1/x", false},
		{"https://hub.example", "http://169.254.169.254/latest/meta-data", false},
		{"https://hub.example", "http://100.100.100.200/x", false},
		{"https://hub.example", "http://0.0.0.0/x", false},
		{"https://hub.example", "http://[::1]/x", false},
		{"https://hub.example", "http://[::]/x", false},
		{"https://hub.example", "http://[fe80::1%25eth0]/x", false},
		{"https://hub.example", "http://[fd00::1]/x", false},
		{"https://hub.example", "http://[::ffff:192.168.1.1]/x", false},
		{"https://hub.example", "http://[2606:4700::1]/x", true},
		{"https://hub.example", "http://8.8.8.8/x", true},
		{"http://192.168.1.5:8080", "http://192.168.1.6/x", true},
		{"http://localhost:8080", "http://127.0.0.1:9/x", true},
		{"http://[::1]", "http://10.0.0.1/x", true},
	} {
		cl := &Client{Endpoints: []string{c.hub}, Transport: answers{"/o/m/resolve/main/f": "-> " + c.to, "/x": "content",
			"/api/delete": "content", "/latest/meta-data": "content"}, Backoff: time.Hour}
		b, err := cl.Read(context.Background(), &Snapshot{Repo: "o/m", Commit: "main"}, File{Path: "f"}, 100)
		if c.ok && string(b) != "content" || !c.ok && !errors.Is(err, ErrNear) {
			t.Errorf("%s to %s: %q, %v", c.hub, c.to, b, err)
		}
	}
}

// A name tells nothing of where it leads: the address is looked at as it is dialled.
func TestNearDial(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c := new(Client)
	try := func(r *route) error {
		conn, err := dial(context.WithValue(context.Background(), routeKey{}, r), "tcp", ln.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := try(&route{c: c, from: "far", redirected: true}); !errors.Is(err, ErrNear) {
		t.Errorf("a redirect from afar: %v", err)
	}
	if err := try(&route{c: c, from: "near"}); err != nil {
		t.Errorf("a hub that is near: %v", err)
	}
	if err := try(&route{c: c, from: "near", redirected: true}); err != nil {
		t.Errorf("its redirect: %v", err)
	}
	if err := try(&route{c: c, from: "far", redirected: true}); !errors.Is(err, ErrNear) {
		t.Errorf("a redirect from afar, again: %v", err)
	}
}
