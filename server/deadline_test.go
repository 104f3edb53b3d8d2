package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// A client that stops sending is cut off, wherever it stops (promise T8): in a header, between
// requests, in a body that is read, and in one that is not, since net/http looks for its rest
// before it answers. In each case every other deadline is far away.
func TestDeadlines(t *testing.T) {
	const half = " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{"
	header := func(o *server.Options) { o.HeaderTimeout = 50 * time.Millisecond }
	unread := header // it is the header's that net/http holds such a body to
	idle := func(o *server.Options) { o.IdleTimeout = 50 * time.Millisecond }
	body := func(o *server.Options) { o.ReadTimeout = 50 * time.Millisecond }
	for _, tt := range []struct {
		name   string
		change func(*server.Options)
		send   string
		code   string // that is answered; empty: none
	}{
		{"header", header, "GET / HTTP/1.1\r\nHost: loc", ""},
		{"nothing", header, "", ""},
		{"idle", idle, "GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n", "200"},
		{"body", body, "POST /api/chat" + half, "400"},
		{"body of v1", body, "POST /v1/messages" + half, "400"},
		{"body of a form", body, "POST /v1/audio/transcriptions HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; " +
			"boundary=x\r\nContent-Length: 100\r\n\r\n--x\r\n", "400"},
		{"body of a blob", body, "POST /api/blobs/sha256:" + strings.Repeat("0", 64) + half, "400"},
		{"chunked body", body, "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{", "400"},
		{"body too large", body, "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n{", "413"},
		{"unread: health", unread, "GET /health" + half, "200"},
		{"unread: none such", unread, "POST /nope" + half, "404"},
		{"unread: wrong method", unread, "POST /api/tags" + half, "405"},
		{"unread: redirect", unread, "GET /api//tags" + half, "307"},
		{"unread: account", unread, "POST /api/me" + half, "503"},
		{"unread: compressed", unread,
			"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n{", "415"},
		{"unread: host", unread, "POST /api/chat HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 10\r\n\r\n{", "403"},
		{"unread: origin", unread, "POST /api/chat HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n" +
			"Content-Length: 10\r\n\r\n{", "403"},
		{"unread: preflight", unread, "OPTIONS /api/chat HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n" +
			"Content-Length: 10\r\n\r\n{", "204"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, 0, func(t *testing.T, b *bubble) {
				got := wait(t, b.send(t, tt.send))
				_, code, _ := strings.Cut(got, " ")
				if code, _, _ = strings.Cut(code, " "); code != tt.code {
					t.Errorf("got %q, want %q", got, tt.code)
				}
			}, func(o *server.Options, _ *scripted.Config) {
				o.HeaderTimeout, o.IdleTimeout, o.ReadTimeout = never, never, never
				tt.change(o)
			})
		})
	}
	t.Run("keys", func(t *testing.T) {
		inBubble(t, 0, func(t *testing.T, b *bubble) {
			if got := wait(t, b.send(t, "POST /api/chat"+half)); !strings.HasPrefix(got, "HTTP/1.1 401") {
				t.Errorf("got %q", got)
			}
		}, func(o *server.Options, _ *scripted.Config) {
			o.IdleTimeout, o.ReadTimeout = never, never
			header(o)
			o.Keys = newKeys("a", "secret-of-a")
		})
	})
}

const never = time.Hour // a deadline that no test meets

// wait reads until the server closes, and fails where it does not.
func wait(t testing.TB, c net.Conn) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(patience))
	b, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection stays, after %q", b)
	}
	return string(b)
}

// serve runs Serve over ln until the test's end and returns its address.
func (r *rig) serve(ln net.Listener) string {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Serve(ctx, ln, time.Millisecond) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			r.t.Error(err)
		}
	})
	return ln.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// An answer that takes longer than a body may is not ended by the body's deadline, and the
// connection is good for another.
func TestDeadlinesPast(t *testing.T) {
	inBubble(t, 0, func(t *testing.T, b *bubble) {
		for i := range 3 {
			resp, err := b.client.Post(b.url+"/api/chat", "", strings.NewReader(chatBody("scripted-chat", "[[delay:300]][[say:slow]]", "")))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || !strings.Contains(string(text), `"done":true`) {
				t.Errorf("answer %d: %s, %v", i, text, err)
			}
		}
	}, func(o *server.Options, _ *scripted.Config) {
		o.HeaderTimeout, o.ReadTimeout = 100*time.Millisecond, 100*time.Millisecond
	})
}

// far is a listener whose connections seem to come from elsewhere, the next address in turn.
type far struct {
	net.Listener
	from chan string
}

type farConn struct {
	net.Conn
	from net.Addr
}

func (l far) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a, err := net.ResolveTCPAddr("tcp", <-l.from)
	if err != nil {
		return nil, err
	}
	return farConn{c, a}, nil
}

func (c farConn) RemoteAddr() net.Addr { return c.from }

// ask sends a request and reads its status line; an empty one means that none came in time.
func askConn(t *testing.T, c net.Conn, within time.Duration) string {
	t.Helper()
	_, _ = io.WriteString(c, "GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n") // who is refused may find the connection closed
	_ = c.SetReadDeadline(time.Now().Add(within))
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v after %q", err, line)
	}
	_ = c.SetReadDeadline(time.Time{})
	return strings.TrimSpace(line)
}

// This many connections are served at once, and fewer of one address, so that one client does not
// lock the others out (promise T8).
func TestConns(t *testing.T) {
	//proves:T8
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.MaxConns, o.MaxPerClient = 4, 2 })
	ln := far{listen(t), make(chan string, 100)}
	addr := r.serve(ln)
	dial := func(from string) net.Conn {
		t.Helper()
		ln.from <- from
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	var held []net.Conn
	for _, tt := range []struct{ from, want string }{
		{"192.0.2.1:1", "200 OK"}, {"192.0.2.1:2", "200 OK"}, {"192.0.2.1:3", "503 Service Unavailable"},
		{"[::ffff:192.0.2.1]:4", "503 Service Unavailable"},
		{"192.0.2.2:1", "200 OK"},
	} {
		c := dial(tt.from)
		if got := askConn(t, c, patience); got != "HTTP/1.1 "+tt.want {
			t.Errorf("%s: got %q, want %q", tt.from, got, tt.want)
		}
		if strings.HasPrefix(tt.want, "200") {
			held = append(held, c)
		}
	}
	// One that goes makes room for another of its address.
	_ = held[0].Close()
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		if c := dial("192.0.2.1:5"); askConn(t, c, patience) == "HTTP/1.1 200 OK" {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a place that was left is not free")
		}
	}
	// With the fourth all places are taken; the fifth waits until one is free.
	if got := askConn(t, dial("[2001:db8::1]:1"), patience); got != "HTTP/1.1 200 OK" {
		t.Errorf("the fourth: %q", got)
	}
	c := dial("192.0.2.3:1")
	if got := askConn(t, c, 300*time.Millisecond); got != "" {
		t.Errorf("more than there are places: %q", got)
	}
	_ = held[1].Close()
	if got := askConn(t, c, patience); got != "HTTP/1.1 200 OK" {
		t.Errorf("after one left: %q", got)
	}
}

// A proxy on this machine may have as many connections as there are; a home's IPv6 addresses are
// one client.
func TestConnsCounted(t *testing.T) {
	//proves:T8
	for _, tt := range []struct {
		from func(i int) string
		want string
	}{
		{func(i int) string { return fmt.Sprintf("127.0.0.1:%d", i+1) }, "200 OK"},
		{func(i int) string { return fmt.Sprintf("[::1]:%d", i+1) }, "200 OK"},
		{func(i int) string { return fmt.Sprintf("192.0.2.%d:1", i) }, "200 OK"},
		{func(i int) string { return fmt.Sprintf("[2001:db8::%d]:1", i) }, "503 Service Unavailable"},
		{func(i int) string { return fmt.Sprintf("[2001:db8:0:%d::1]:1", i) }, "200 OK"},
	} {
		r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.MaxPerClient = 2 })
		ln := far{listen(t), make(chan string, 1)}
		addr := r.serve(ln)
		got := ""
		for i := range 3 {
			ln.from <- tt.from(i)
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			got = askConn(t, c, patience)
		}
		if got != "HTTP/1.1 "+tt.want {
			t.Errorf("%s: the third got %q, want %q", tt.from(2), got, tt.want)
		}
	}
}
