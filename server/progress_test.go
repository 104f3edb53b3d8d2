package server_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// A client that reads nothing does not hold up the work whose progress it asked for, and gets all
// of it in the end: how far each file is, in order.
func TestSlowProgressReader(t *testing.T) {
	//proves:T8
	r := newRig(t)
	p := &chatty{make(chan struct{})}
	s := server.New(local.New(r.store, local.Options{Describe: scripted.Describe}), &scripted.Loader{}, p,
		server.Options{Loopback: true, WriteTimeout: time.Hour})
	ts := httptest.NewUnstartedServer(s.Handler())
	ts.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10)
		return ctx
	}
	ts.Start()
	defer func() {
		ts.CloseClientConnections()
		ts.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	at := &rig{s, t, ts.URL, r.loader, r.store}
	c := at.dial("POST /api/pull HTTP/1.0\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n{\"model\":\"x\"}")
	defer c.Close()
	select {
	case <-p.through:
	case <-time.After(patience):
		t.Fatal("the work waits for a client that does not read")
	}
	_ = c.(*net.TCPConn).SetReadBuffer(1 << 20) // it makes haste now
	_ = c.SetDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(c)
	_, body, _ := strings.Cut(string(b), "\r\n\r\n")
	lines := answer{body: body}.lines(t)
	done := map[string]float64{}
	for _, l := range lines {
		if d, ok := l["digest"].(string); ok {
			if n := l["completed"].(float64); n < done[d] {
				t.Errorf("%s goes back from %v to %v", d, done[d], n)
			} else {
				done[d] = n
			}
		}
	}
	if err != nil || len(lines) < 5 || lines[0]["status"] != "pulling manifest" || lines[len(lines)-1]["status"] != "success" ||
		done["d0"] != 20_000 || done["d1"] != 20_000 || done["d2"] != 20_000 {
		t.Errorf("%d lines, %v, %v: %.500s", len(lines), done, err, body)
	}
}

// chatty reports far more than a connection holds, from several goroutines, and says when it is
// through.
type chatty struct{ through chan struct{} }

func (p *chatty) Pull(_ context.Context, _ string, status func(catalog.Progress)) error {
	const each = 20_000
	status(catalog.Progress{Status: "pulling manifest"})
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for n := range each {
				status(catalog.Progress{Status: "pulling", Digest: fmt.Sprint("d", i), Total: each, Completed: int64(n + 1)})
			}
		})
	}
	wg.Wait()
	status(catalog.Progress{Status: "success"})
	close(p.through)
	return nil
}
