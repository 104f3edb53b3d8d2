package server

import (
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
)

// limitListener accepts a number of connections at once; the next waits in the kernel's queue. Of
// one address it accepts fewer, so that no client takes all places; who has too many is told so and
// cut off. This machine's own connections are a proxy's, as like as not: they are not counted.
type limitListener struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once

	each int    // most connections of one client
	told string // what a client that has too many is told
	mu   ranked.Mutex[ranked.Conns]
	has  map[netip.Addr]int
}

func newLimitListener(ln net.Listener, n, each int, told string) net.Listener {
	return &limitListener{Listener: ln, places: make(chan struct{}, n), closed: make(chan struct{}), each: each, told: told,
		has: map[netip.Addr]int{}}
}

func (l *limitListener) Accept() (net.Conn, error) {
	for {
		select {
		case l.places <- struct{}{}:
		case <-l.closed:
			return nil, net.ErrClosed
		}
		c, err := l.Listener.Accept()
		if err != nil {
			<-l.places
			return nil, err
		}
		who := client(c.RemoteAddr())
		if l.enter(who) {
			return &limitConn{Conn: c, free: func() { l.leave(who); <-l.places }}, nil
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = io.WriteString(c, l.told)
		_ = c.Close()
		<-l.places
	}
}

const tooMany = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n" +
	"Content-Length: 49\r\n\r\n" +
	`{"error":"too many connections from one address"}`

// client is the address that connections are counted by, of IPv6 the network of one home; the zero
// address for those that are not counted.
func client(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil || ap.Addr().Unmap().IsLoopback() {
		return netip.Addr{}
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			ip = p.Addr()
		}
	}
	return ip
}

// enter takes a place for a client, if it may have one more.
func (l *limitListener) enter(who netip.Addr) bool {
	if !who.IsValid() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has[who] >= l.each {
		return false
	}
	l.has[who]++
	return true
}

func (l *limitListener) leave(who netip.Addr) {
	if !who.IsValid() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.has[who]--; l.has[who] == 0 {
		delete(l.has, who)
	}
}

func (l *limitListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type limitConn struct {
	net.Conn
	once sync.Once
	free func()
}

func (c *limitConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.free)
	return err
}
