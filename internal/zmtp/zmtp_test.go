package zmtp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPub: a subscriber of another implementation gets the messages of its topics, all frames, in
// order, and none of others.
func TestPub(t *testing.T) {
	pub := NewPub(listener(t), Options{})
	defer pub.Close()
	sub := zmq4.NewSub(t.Context(), quiet)
	defer sub.Close()
	if err := sub.Dial("tcp://" + pub.Addr().String()); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"a", "b"} {
		if err := sub.SetOption(zmq4.OptionSubscribe, topic); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "two subscriptions", func() bool { return pub.Subscriptions() == 2 })
	big := bytes.Repeat([]byte("x"), 70_000)
	for i := range 200 {
		pub.Send([]byte("c"), []byte("not wanted"))
		pub.Send([]byte("ab"), []byte{byte(i)}, big[:i*350])
		pub.Send([]byte("b"))
	}
	for i := range 200 {
		got, err := sub.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if f := got.Frames; len(f) != 3 || string(f[0]) != "ab" || f[1][0] != byte(i) || !bytes.Equal(f[2], big[:i*350]) {
			t.Fatalf("message %d: %d frames", i, len(f))
		}
		if got, err = sub.Recv(); err != nil || len(got.Frames) != 1 || string(got.Frames[0]) != "b" {
			t.Fatalf("%v %v", got, err)
		}
	}
	if err := sub.SetOption(zmq4.OptionUnsubscribe, "a"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one subscription", func() bool { return pub.Subscriptions() == 1 })
	if err := errors.Join(sub.Close(), pub.Close()); err != nil {
		t.Error(err)
	}
	if err := pub.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
}

// TestRouter: each of several peers gets the reply to its own request, with the empty frame where
// it sent one.
func TestRouter(t *testing.T) {
	r := NewRouter(listener(t), Options{}, func(request [][]byte) (reply [][][]byte, err error) {
		for i := range 3 {
			reply = append(reply, [][]byte{[]byte(fmt.Sprint(i)), request[0]})
		}
		return reply, nil
	})
	defer r.Close()
	at := "tcp://" + r.Addr().String()
	var peers sync.WaitGroup
	for n := range 3 {
		peers.Go(func() {
			s, before := zmq4.NewDealer(t.Context(), quiet), n
			if n == 2 {
				s, before = zmq4.NewReq(t.Context(), quiet), 0 // which puts its frame there itself
			}
			defer s.Close()
			if err := s.Dial(at); err != nil {
				t.Error(err)
				return
			}
			var frames [][]byte
			for range before {
				frames = append(frames, []byte{})
			}
			if err := s.SendMulti(zmq4.NewMsgFrom(append(frames, fmt.Append(nil, "from ", n))...)); err != nil {
				t.Error(err)
				return
			}
			for i := range 3 {
				got, err := s.Recv()
				if f := got.Frames; err != nil || len(f) != before+2 || string(f[before]) != fmt.Sprint(i) ||
					string(f[before+1]) != fmt.Sprint("from ", n) {
					t.Errorf("peer %d: %q, %v", n, got.Frames, err)
				}
				if n == 2 {
					break // a REQ takes one reply
				}
			}
		})
	}
	peers.Wait()
}

// TestHostile: who does not keep to the protocol, or to its limits, is cut off, is told of, and
// disturbs no one else.
func TestHostile(t *testing.T) {
	said := make(chan string, 100)
	pub := NewPub(listener(t), Options{Refused: func(_ string, err error) { said <- fmt.Sprint(err) }})
	defer pub.Close()
	sub := zmq4.NewSub(t.Context(), quiet)
	defer sub.Close()
	if err := sub.Dial("tcp://" + pub.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if err := sub.SetOption(zmq4.OptionSubscribe, ""); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a subscription", func() bool { return pub.Subscriptions() == 1 })
	sound := func(kind string) []byte { return append(greeting(), appendFrame(nil, command, ready(kind))...) }
	old := greeting()
	old[10] = 2
	curve := greeting()
	copy(curve[12:], "CURVE")
	huge := binary.BigEndian.AppendUint64([]byte{long}, 1<<40)
	var topics, parts []byte
	for range 65 {
		topics = append(topics, encoded([]byte{1, 'x'})...)
		parts = appendFrame(parts, more, []byte{1})
	}
	for _, tt := range []struct {
		sends []byte
		says  string
	}{
		{[]byte(strings.Repeat("GET / HTTP/1.1\r\n", 9)), "does not speak ZeroMQ"},
		{old, "version 2"}, {curve, `mechanism "CURVE"`},
		{append(greeting(), encoded([]byte("hello"))...), "before READY"},
		{append(greeting(), appendFrame(nil, command, []byte("\x05HELLO"))...), "is not READY"},
		{append(greeting(), appendFrame(nil, command, []byte("\x05READY\x0bSocket"))...), "cut off"},
		{append(greeting(), appendFrame(nil, command, []byte("\x05READY\x01x\xff\xff\xff\xff"))...), "cut off"},
		{sound("PULL"), `type "PULL"; SUB, XSUB are served`},
		{append(sound("SUB"), huge...), "a frame of 1099511627776 bytes"},
		{append(sound("SUB"), 0x80, 1, 1), "flags 0x80"},
		{append(sound("SUB"), encoded([]byte("hello"))...), "no subscription"},
		{append(sound("SUB"), topics...), "more than 64 topics"},
		{append(sound("SUB"), parts...), "more than 8 frames"},
		{sound("SUB")[:70], "EOF"},
	} {
		c := dial(t, pub.ln)
		if _, err := c.Write(tt.sends); err != nil {
			t.Fatal(err)
		}
		if tt.says == "EOF" {
			_ = c.(*net.TCPConn).CloseWrite()
		}
		_, _ = io.Copy(io.Discard, c) // until it is cut off
		if got := <-said; !strings.Contains(got, tt.says) {
			t.Errorf("%q: %s, want %s", clip(tt.sends), got, tt.says)
		}
		_ = c.Close()
	}
	// One that does not read loses its connection; the sound one gets everything.
	deaf := dial(t, pub.ln)
	defer deaf.Close()
	if _, err := deaf.Write(append(sound("SUB"), encoded([]byte{1})...)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "two subscriptions", func() bool { return pub.Subscriptions() == 2 })
	body, sent := make([]byte, 256<<10), 0
	for ; pub.Subscriptions() == 2; sent++ {
		pub.Send([]byte("t"), binary.BigEndian.AppendUint32(nil, uint32(sent)), body)
		got, err := sub.Recv()
		if err != nil || binary.BigEndian.Uint32(got.Frames[1]) != uint32(sent) {
			t.Fatalf("message %d: %v", sent, err)
		}
		if sent > 4000 {
			t.Fatal("the peer that does not read is still there")
		}
	}
	// More peers than there may be: the last is cut off.
	var all []net.Conn
	for range mostPeers {
		all = append(all, dial(t, pub.ln))
	}
	eventually(t, "the refusal", func() bool { return len(said) > 0 && strings.Contains(drain(said), "peers already") })
	for _, c := range all {
		_ = c.Close()
	}
}

// TestHeartbeat: a peer's PING is answered, although this version of the protocol has none.
func TestHeartbeat(t *testing.T) {
	pub := NewPub(listener(t), Options{})
	defer pub.Close()
	c := dial(t, pub.ln)
	defer c.Close()
	if _, err := c.Write(append(greeting(), append(appendFrame(nil, command, ready("SUB")),
		appendFrame(nil, command, []byte("\x04PING\x00\x0ahow are you"))...)...)); err != nil {
		t.Fatal(err)
	}
	want := slices.Concat(greeting(), appendFrame(nil, command, ready("PUB")), appendFrame(nil, command, []byte("\x04PONGhow are you")))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
}

// TestAllow: who may not connect is cut off before a byte is read or sent.
func TestAllow(t *testing.T) {
	said := make(chan string, 10)
	pub := NewPub(listener(t), Options{Allow: func(a netip.Addr) bool { return !a.IsLoopback() },
		Refused: func(_ string, err error) { said <- err.Error() }})
	defer pub.Close()
	c := dial(t, pub.ln)
	defer c.Close()
	if n, err := io.Copy(io.Discard, c); n != 0 {
		t.Errorf("%d bytes were sent, %v", n, err)
	}
	if got := <-said; !strings.Contains(got, "may not connect") {
		t.Error(got)
	}
}

// FuzzPeer: whatever a peer sends, the socket reads no more than its limits, and ends.
func FuzzPeer(f *testing.F) {
	f.Add(append(greeting(), appendFrame(nil, command, ready("SUB"))...))
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, sends []byte) {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = theirs.Write(sends)
			_ = theirs.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		pub := &Pub{socket{kind: "PUB", peers: []string{"SUB"}, conns: map[*peer]struct{}{}}}
		pub.take = pub.subscribe
		p := &peer{conn: ours, out: make(chan struct{}, 1)}
		pub.run.Go(func() { pub.serve(p) })
		pub.run.Wait()
		if len(p.topics) > mostTopics {
			t.Errorf("%d topics", len(p.topics))
		}
	})
}

var quiet = zmq4.WithLogger(log.New(io.Discard, "", 0))

func listener(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func dial(t *testing.T, ln net.Listener) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(context.Background(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

func drain(c chan string) (all string) {
	for len(c) > 0 {
		all += <-c + "\n"
	}
	return all
}

func clip(b []byte) []byte { return b[:min(len(b), 100)] }
