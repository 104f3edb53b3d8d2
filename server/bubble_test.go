package server_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// inBubble runs a test of the server's deadlines on a clock of its own, which stands while anything
// computes: a busy machine is not late for any of them. Connections are pipes, since a socket that
// waits for the kernel would stop that clock.
func inBubble(t *testing.T, grace time.Duration, f func(t *testing.T, b *bubble), change ...func(*server.Options, *scripted.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := assembled(t, change...)
		r.url = "http://localhost"
		b := &bubble{rig: r, pipes: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}, done: make(chan error, 1)}
		ctx, cancel := context.WithCancel(context.Background())
		b.stop = cancel
		b.client = b.another()
		go func() { b.done <- r.Serve(ctx, b.pipes, grace); close(b.done) }()
		defer func() {
			cancel()
			b.client.CloseIdleConnections()
			if err := <-b.done; err != nil { // nil, too, where the test has read it
				t.Error(err)
			}
		}()
		f(t, b)
	})
}

// bubble is a server inside a synctest bubble.
type bubble struct {
	*rig
	pipes  *pipes
	client *http.Client
	stop   func()
	done   chan error // what Serve gave, once; then it is closed
}

// another is a client with one connection of its own.
func (b *bubble) another() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return b.pipes.dial() }}}
}

// send writes a request's bytes and no more, and gives the connection.
func (b *bubble) send(t *testing.T, text string) net.Conn {
	t.Helper()
	c, err := b.pipes.dial()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return c
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
