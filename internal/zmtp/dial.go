package zmtp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

const (
	mostSent    = 32 << 20 // bytes of a message that a publisher sends
	mostReplies = 1 << 17  // messages of one answer
	replyTime   = 10 * time.Second
)

// Sub is a connection to a socket that publishes. One goroutine calls Receive; Close may be called
// from any other, and ends it.
type Sub struct {
	conn net.Conn
	r    *bufio.Reader
}

// DialSub connects to a PUB socket, and subscribes to the topics that begin with topic. The
// connection does not outlive ctx's deadline until the handshake is over; afterwards ctx means
// nothing.
func DialSub(ctx context.Context, addr, topic string) (*Sub, error) {
	s, err := connect(ctx, addr, "SUB", "PUB", "XPUB")
	if err != nil {
		return nil, err
	}
	_ = s.conn.SetDeadline(time.Now().Add(handshakeTime))
	if _, err := s.conn.Write(appendFrame(nil, 0, append([]byte{1}, topic...))); err != nil {
		return nil, errors.Join(err, s.conn.Close())
	}
	_ = s.conn.SetDeadline(time.Time{})
	return s, nil
}

// Receive waits for a message, and returns its frames. An error ends the connection.
func (s *Sub) Receive() ([][]byte, error) { return s.message() }

// Close ends the connection.
func (s *Sub) Close() error { return s.conn.Close() }

// Ask sends a request to a ROUTER socket, and gives each message of the answer to take, until that
// returns false or an error. A message that does not come within ten seconds is an error.
func Ask(ctx context.Context, addr string, request []byte, take func(frames [][]byte) (more bool, err error)) error {
	s, err := connect(ctx, addr, "DEALER", "ROUTER", "REP")
	if err != nil {
		return err
	}
	defer s.conn.Close()
	defer context.AfterFunc(ctx, func() { _ = s.conn.Close() })()
	if _, err := s.conn.Write(encoded(nil, request)); err != nil {
		return err
	}
	for range mostReplies {
		_ = s.conn.SetDeadline(time.Now().Add(replyTime))
		frames, err := s.message()
		if err != nil {
			return err
		}
		if len(frames[0]) == 0 {
			frames = frames[1:] // the request's own, which ends an address
		}
		if more, err := take(frames); err != nil || !more {
			return err
		}
	}
	return fmt.Errorf("zmtp: an answer of more than %d messages", mostReplies)
}

// connect connects as a socket of a kind to one of the peer's kinds.
func connect(ctx context.Context, addr, kind string, peers ...string) (*Sub, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &Sub{conn, bufio.NewReader(conn)}
	end := time.Now().Add(handshakeTime)
	if at, ok := ctx.Deadline(); ok && at.Before(end) {
		end = at
	}
	_ = conn.SetDeadline(end)
	if err := s.greet(kind, peers); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return s, nil
}

func (s *Sub) greet(kind string, peers []string) error {
	if _, err := s.conn.Write(append(greeting(), appendFrame(nil, command, ready(kind))...)); err != nil {
		return err
	}
	if err := readGreeting(s.r); err != nil {
		return err
	}
	flags, body, err := readFrame(s.r, mostFrame)
	if err != nil {
		return err
	}
	if flags&command == 0 {
		return errors.New("zmtp: the peer sends a message before READY")
	}
	got, err := readReady(body)
	if err != nil {
		return err
	}
	if slices.Contains(peers, got) {
		return nil
	}
	return fmt.Errorf("zmtp: the peer is a socket of the type %q, not %s", got, peers[0])
}

// message reads the frames of a message. Commands between them mean nothing to who only listens.
func (s *Sub) message() (frames [][]byte, err error) {
	size := 0
	for {
		flags, body, err := readFrame(s.r, mostSent-size)
		switch {
		case err != nil:
			return nil, err
		case flags&command != 0:
			continue
		case len(frames) == mostFrames:
			return nil, fmt.Errorf("zmtp: a message of more than %d frames", mostFrames)
		}
		size += len(body)
		if frames = append(frames, body); flags&more == 0 {
			return frames, nil
		}
	}
}
