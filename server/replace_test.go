package server_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// Where deleting is switched off nothing that is here can be replaced either: by no copy, create or
// pull, whatever the letters' case, and by no second one that begins while the first runs (promise
// T6).
func TestNoReplace(t *testing.T) {
	//proves:T6
	r := newRig(t)
	r.post("/api/create", `{"model":"mine","from":"scripted","system":"mine it is"}`)
	r.post("/api/create", `{"model":"theirs","from":"scripted","system":"theirs it is"}`)
	p := slowPuller{make(chan struct{}, 9), make(chan struct{})}
	s := server.New(local.New(r.store, local.Options{Describe: scripted.Describe}), &scripted.Loader{}, p,
		server.Options{Loopback: true, NoDelete: true})
	ts := httptest.NewServer(s.Handler())
	defer ts.Close()
	defer func() { _ = s.Close(context.Background()) }()
	at := &rig{s, t, ts.URL, r.loader, r.store}
	first := make(chan int)
	go func() { first <- at.post("/api/pull", `{"model":"new","stream":false}`).code }()
	<-p.asked
	for _, tt := range []struct {
		path, body string
		code       int
	}{
		{"/api/copy", `{"source":"theirs","destination":"mine"}`, 403},
		{"/api/copy", `{"source":"theirs","destination":"MINE:Latest"}`, 403},
		{"/api/copy", `{"source":"theirs","destination":"scripted"}`, 403},
		{"/api/create", `{"model":"mine","from":"theirs","system":"gone","stream":false}`, 403},
		{"/api/create", `{"model":"mine","from":"theirs","system":"gone"}`, 403},
		{"/api/create", `{"model":"Mine","from":"mine","system":"gone","stream":false}`, 403},
		{"/api/pull", `{"model":"mine","stream":false}`, 403},
		{"/api/create", `{"model":"new","from":"theirs","stream":false}`, 403}, // it is pulled now
		{"/api/copy", `{"source":"theirs","destination":"NEW"}`, 403},
		{"/api/pull", `{"model":"new","stream":false}`, 403},
		{"/api/create", `{"model":"other","from":"new","stream":false}`, 403},
		{"/api/copy", `{"source":"theirs","destination":"copy"}`, 200},
		{"/api/create", `{"model":"made","from":"theirs","stream":false}`, 200},
	} {
		if a := at.post(tt.path, tt.body); a.code != tt.code || tt.code == 403 && !strings.Contains(a.body, "switched off") {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, a.code, a.body)
		}
	}
	close(p.goOn)
	if code := <-first; code != 200 {
		t.Errorf("the first pull: %d", code)
	}
	if a := at.post("/api/copy", `{"source":"theirs","destination":"new"}`); a.code != 200 { // the pull of this test brought nothing
		t.Errorf("after it: %d %s", a.code, a.body)
	}
	if m := at.post("/api/show", `{"model":"mine"}`).object(t); m["system"] != "mine it is" {
		t.Errorf("mine is now %v", m["system"])
	}
	// Where deleting is allowed, so is replacing.
	if a := r.post("/api/copy", `{"source":"theirs","destination":"mine"}`); a.code != 200 {
		t.Errorf("with deleting on: %d %s", a.code, a.body)
	}
}

// A blob is taken only where pulling is, not larger than any model's file is, and a wrong one
// leaves nothing (promise T7).
func TestBlobs(t *testing.T) {
	//proves:T7
	r := newRig(t)
	blob := "a layer"
	path := fmt.Sprintf("/api/blobs/sha256:%x", sha256.Sum256([]byte(blob)))
	files := func() int {
		t.Helper()
		list, err := os.ReadDir(filepath.Join(r.store.Dir(), "blobs"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return len(list)
	}
	if a := r.post(path, blob+"x"); a.code != 400 || files() != 0 {
		t.Errorf("a wrong blob: %d %s, %d files", a.code, a.body, files())
	}
	if out := r.raw("POST " + path +
		" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 68719476737\r\n\r\n"); !strings.HasPrefix(out,
		"HTTP/1.1 413") {
		t.Errorf("a blob of more than 64 GiB: %.100q", out)
	}
	if out := r.raw("POST " + path +
		" HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\nz\r\n"); !strings.HasPrefix(out,
		"HTTP/1.1 400") || files() != 0 {
		t.Errorf("a broken blob: %.100q, %d files", out, files())
	}
	off := newRig(t, func(o *server.Options, _ *scripted.Config) { o.NoPull = true })
	if a := off.post(path, blob); a.code != 403 {
		t.Errorf("where pulling is switched off: %d %s", a.code, a.body)
	}
	if a := r.post(path, blob); a.code != 201 || files() != 1 {
		t.Errorf("a right blob: %d %s, %d files", a.code, a.body, files())
	}
}

// An upload may take longer than a body, but not come a byte at a time for ever (promise T8).
func TestSlowBlob(t *testing.T) {
	//proves:T8
	blob := strings.Repeat("x", 10<<16)
	head := fmt.Sprintf("POST /api/blobs/sha256:%x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n",
		sha256.Sum256([]byte(blob)), len(blob))
	for _, tt := range []struct {
		name  string
		step  int
		every time.Duration
		code  string
	}{
		{"steady", 1 << 16, 200 * time.Millisecond, "201"},
		{"a byte at a time", 1, 20 * time.Millisecond, "400"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, 0, func(t *testing.T, b *bubble) {
				c := b.send(t, head)
				defer c.Close()
				over := make(chan struct{})
				defer close(over)
				go func() {
					for rest := blob; len(rest) > 0; rest = rest[tt.step:] {
						if _, err := io.WriteString(c, rest[:tt.step]); err != nil {
							return
						}
						select {
						case <-over:
							return
						case <-time.After(tt.every):
						}
					}
				}()
				if got := wait(t, c); !strings.HasPrefix(got, "HTTP/1.1 "+tt.code) {
					t.Errorf("got %q, want %s", got, tt.code)
				}
			}, func(o *server.Options, _ *scripted.Config) {
				o.HeaderTimeout, o.ReadTimeout = never, 1500*time.Millisecond
			})
		})
	}
}

// slowPuller is a puller that says when it was asked and waits until it is told.
type slowPuller struct{ asked, goOn chan struct{} }

func (p slowPuller) Pull(context.Context, string, func(catalog.Progress)) error {
	p.asked <- struct{}{}
	<-p.goOn
	return nil
}
