package zmtp

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	mostPeers     = 16
	mostFrame     = 4 << 10 // bytes of what a peer sends: a topic, or a request
	mostFrames    = 8       // of a message
	mostTopics    = 64      // that a peer subscribes to
	mostWaiting   = 1024    // messages that wait for a peer, and
	mostBytes     = 16 << 20
	handshakeTime = 5 * time.Second
	writeTime     = 10 * time.Second
)

// Options of a socket.
type Options struct {
	// Allow says which addresses may connect; nil: all. Others are cut off before a byte is read.
	Allow func(netip.Addr) bool
	// Refused, if not nil, is told why a peer lost its connection or did not get one.
	Refused func(peer string, err error)
}

// socket listens, and has peers.
type socket struct {
	o     Options
	kind  string
	peers []string // the kinds of sockets it talks to
	take  func(p *peer, message [][]byte) error
	ln    net.Listener

	mu     sync.Mutex
	conns  map[*peer]struct{} // since their handshake began
	closed bool
	run    sync.WaitGroup
}

// peer is a connection after its handshake.
type peer struct {
	conn   net.Conn
	topics [][]byte // guarded by socket.mu

	out   chan struct{} // something is to be written
	queue [][]byte      // guarded by socket.mu, like
	bytes int
	over  bool
}

// start accepts peers from ln.
func (s *socket) start(ln net.Listener) {
	s.ln, s.conns = ln, map[*peer]struct{}{}
	s.run.Go(s.accept)
}

// Close ends the socket. A second Close returns net.ErrClosed.
func (s *socket) Close() error {
	err := s.ln.Close()
	s.mu.Lock()
	s.closed = true
	for p := range s.conns {
		_ = p.conn.Close()
	}
	s.mu.Unlock()
	s.run.Wait()
	return err
}

// Addr is where the socket listens.
func (s *socket) Addr() net.Addr { return s.ln.Addr() }

func (s *socket) accept() {
	for {
		conn, err := s.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			s.refused("", err)
			<-time.After(50 * time.Millisecond) // too many open files, for one: others may close some
			continue
		}
		p := &peer{conn: conn, out: make(chan struct{}, 1)}
		if err := s.admit(p); err != nil {
			_ = conn.Close()
			s.refused(conn.RemoteAddr().String(), err)
			continue
		}
		s.run.Go(func() { s.serve(p) })
	}
}

func (s *socket) refused(peer string, err error) {
	if s.o.Refused != nil {
		s.o.Refused(peer, err)
	}
}

// admit says whether a peer may connect, and counts it.
func (s *socket) admit(p *peer) error {
	if s.o.Allow != nil {
		a, err := netip.ParseAddrPort(p.conn.RemoteAddr().String())
		if err != nil || !s.o.Allow(a.Addr().Unmap()) {
			return errors.New("zmtp: this address may not connect")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return net.ErrClosed
	case len(s.conns) >= mostPeers:
		return fmt.Errorf("zmtp: there are %d peers already", mostPeers)
	}
	s.conns[p] = struct{}{}
	return nil
}

// serve talks to a peer until either side ends it.
func (s *socket) serve(p *peer) {
	err := s.talk(p)
	s.mu.Lock()
	delete(s.conns, p)
	p.over = true
	p.queue = nil
	closed := s.closed
	s.mu.Unlock()
	_ = p.conn.Close()
	select {
	case p.out <- struct{}{}:
	default:
	}
	if !closed {
		s.refused(p.conn.RemoteAddr().String(), err)
	}
}

func (s *socket) talk(p *peer) error {
	_ = p.conn.SetDeadline(time.Now().Add(handshakeTime))
	if _, err := p.conn.Write(slices.Concat(greeting(), appendFrame(nil, command, ready(s.kind)))); err != nil {
		return err
	}
	r := bufio.NewReader(p.conn)
	if err := readGreeting(r); err != nil {
		return err
	}
	flags, body, err := readFrame(r, mostFrame)
	if err != nil {
		return err
	}
	if flags&command == 0 {
		return errors.New("zmtp: the peer sends a message before READY")
	}
	kind, err := readReady(body)
	if err != nil {
		return err
	}
	if !slices.Contains(s.peers, kind) {
		return fmt.Errorf("zmtp: the peer is a socket of the type %q; %s are served", kind, strings.Join(s.peers, ", "))
	}
	_ = p.conn.SetDeadline(time.Time{})
	s.run.Go(func() { s.write(p) })
	var message [][]byte
	for {
		flags, body, err := readFrame(r, mostFrame)
		switch {
		case err != nil:
			return err
		case flags&command != 0:
			s.command(p, body)
			continue
		case len(message) == mostFrames:
			return fmt.Errorf("zmtp: a message of more than %d frames", mostFrames)
		}
		if message = append(message, body); flags&more != 0 {
			continue
		}
		if err := s.take(p, message); err != nil {
			return err
		}
		message = nil
	}
}

// command answers a heartbeat, which some peers send although 3.0 does not know it. What else a
// command says is of no use to a publisher.
func (s *socket) command(p *peer, body []byte) {
	ping, ok := cutPrefix(body, "\x04PING")
	if !ok || len(ping) < 2 || len(ping) > 2+16 { // how long it counts, and what it is to be answered with
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send(p, appendFrame(nil, command, append([]byte("\x04PONG"), ping[2:]...)))
}

// send puts a message in a peer's queue. A peer that has too much in it already loses its
// connection, so that it learns that it has missed something. s.mu is held.
func (s *socket) send(p *peer, message []byte) {
	if p.over {
		return
	}
	if len(p.queue) >= mostWaiting || p.bytes+len(message) > mostBytes {
		p.over, p.queue = true, nil
		_ = p.conn.Close()
		return
	}
	p.queue, p.bytes = append(p.queue, message), p.bytes+len(message)
	select {
	case p.out <- struct{}{}:
	default:
	}
}

// write writes what is in a peer's queue.
func (s *socket) write(p *peer) {
	for range p.out {
		for {
			s.mu.Lock()
			queue, over := p.queue, p.over
			p.queue = nil
			s.mu.Unlock()
			if over {
				return
			}
			if len(queue) == 0 {
				break
			}
			for _, m := range queue {
				_ = p.conn.SetWriteDeadline(time.Now().Add(writeTime))
				if _, err := p.conn.Write(m); err != nil {
					_ = p.conn.Close() // its reader ends, and removes it
					return
				}
				s.mu.Lock()
				p.bytes -= len(m)
				s.mu.Unlock()
			}
		}
	}
}
