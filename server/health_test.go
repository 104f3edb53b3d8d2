package server_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// TestNoDevice (D1): a server whose device is not there says so to supervisors, with the sentence
// that helps, until it is there. Who has no key of a server with keys hears that it cannot answer,
// and nothing of this machine's files.
func TestNoDevice(t *testing.T) {
	old := newRig(t)
	const key, path = "secret-of-ann", "/usr/lib/axcl/libaxcl_rt.so"
	l := &failing{}
	s := server.New(local.New(old.store, local.Options{Describe: scripted.Describe}), l, nil,
		server.Options{Loopback: true, Keys: newKeys("ann", key)})
	ts := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		ts.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r := &rig{s, t, ts.URL, &l.Loader, old.store}
	ann := []string{"X-Api-Key", key}
	look := func(when string, code int, status string, told bool) {
		t.Helper()
		for _, with := range [][]string{nil, ann} {
			a := r.do("GET", "/health", "", with...)
			h := a.object(t)
			if a.code != code || h["status"] != status {
				t.Errorf("%s, key %v: %d %s", when, with != nil, a.code, a.body)
			}
			if got := strings.Contains(a.body, path); got != (told && with != nil) {
				t.Errorf("%s, key %v: %s", when, with != nil, a.body)
			}
		}
		a := r.do("GET", "/metrics", "", ann...)
		if a.code != code || strings.Contains(a.body, "axle_ready 1\n") != (code == 200) ||
			strings.HasPrefix(a.body, "# axcl: "+path+" is missing: install it\n") != told {
			t.Errorf("%s: metrics: %d %.300s", when, a.code, a.body)
		}
	}
	l.opening.Store(true)
	look("while it is opened", 503, "starting", false)
	l.opening.Store(false)
	look("once it is open", 200, "ok", false)
	why := errors.New("axcl: " + path + " is missing:\ninstall it")
	l.why.Store(&why)
	look("without a device", 503, "no device", true)
	l.why.Store(nil)
	look("with one", 200, "ok", false)
	s.SetLost(why)
	look("lost", 503, "lost", true)
}

// failing is a loader whose device is not there.
type failing struct {
	scripted.Loader
	why     atomic.Pointer[error]
	opening atomic.Bool
}

func (f *failing) Opening() bool { return f.opening.Load() }

func (f *failing) Failed() error {
	if p := f.why.Load(); p != nil {
		return *p
	}
	return nil
}
