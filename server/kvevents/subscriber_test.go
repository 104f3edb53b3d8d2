package kvevents

import (
	"encoding/binary"
	"math"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/axle-llm/axle/internal/zmtp"
	"github.com/axle-llm/axle/prefix"
)

// TestSubscriber: a subscriber knows what is on another server's disk: what was there before it
// came, what comes and goes, and nothing once that server is gone, until there is one again.
func TestSubscriber(t *testing.T) {
	on := func(s *Subscriber, n prefix.Name) func() bool { return func() bool { return s.On(n) } }
	not := func(s *Subscriber, n prefix.Name) func() bool { return func() bool { return !s.On(n) } }
	chain := prefix.New([]byte("s"), 1, []string{"m"})
	a, b, c := chain.Next(nil, []int32{1}), chain.Next(nil, []int32{2}), chain.Next(nil, []int32{3})

	events, replay := listener(t), listener(t)
	p := New(events, replay, Options{Node: "n"})
	f := p.Open("m")
	f.Stored("disk", "a key", a, nil, []int32{1})
	f.Stored("card", "", b, nil, []int32{2})
	p.flush()
	told := make(chan error, 8)
	s := Subscribe(events.Addr().String(), replay.Addr().String(), func(err error) { told <- err })
	defer s.Close()
	if err := <-told; err != nil || !s.Live() {
		t.Fatalf("it does not connect: %v", err)
	}
	if !s.On(a) || s.On(b) || s.On(c) {
		t.Errorf("on disk is a alone: %v %v %v", s.On(a), s.On(b), s.On(c))
	}
	f.Stored("disk", "", c, &a, []int32{3})
	until(t, "c is told", on(s, c))
	p.Gone(a)
	until(t, "a is gone", not(s, a))
	for i := range int32(2000) { // more than one message: some may come before the subscription
		f.Stored("disk", "", chain.Next(nil, []int32{100 + i}), nil, []int32{100 + i})
		if i%100 == 0 {
			p.flush()
		}
	}
	until(t, "all are told", on(s, chain.Next(nil, []int32{2099})))

	at, again := events.Addr().String(), replay.Addr().String()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err == nil || s.Live() || s.On(c) {
		t.Errorf("the publisher is gone: %v, it still knows c: %v", err, s.On(c))
	}
	events, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	if replay, err = net.Listen("tcp", again); err != nil {
		t.Fatal(err)
	}
	p = New(events, replay, Options{Node: "n"})
	defer p.Close()
	p.Open("m").Stored("disk", "", b, nil, []int32{2})
	if err := <-told; err != nil {
		t.Errorf("it does not connect again: %v", err)
	}
	until(t, "b is told", on(s, b))
	if s.On(c) {
		t.Error("what the process before had is still known")
	}
}

// TestSubscriberGap: where a number is missing, what was missed is asked for.
func TestSubscriberGap(t *testing.T) {
	event := func(n byte) []byte { return batch([][]byte{stored(&block{name: uint64(n), first: true}, "DISK")}) }
	pub := zmtp.NewPub(listener(t), zmtp.Options{})
	defer pub.Close()
	var last atomic.Int64
	router := zmtp.NewRouter(listener(t), zmtp.Options{}, func(request [][]byte) (reply [][][]byte, err error) {
		for n := binary.BigEndian.Uint64(request[0]); n <= uint64(last.Load()); n++ {
			reply = append(reply, [][]byte{[]byte("kv@n@m"), number(n), event(byte(n))})
		}
		return append(reply, [][]byte{{}, number(math.MaxUint64), {}}), nil
	})
	defer router.Close()
	s := Subscribe(pub.Addr().String(), router.Addr().String(), nil)
	defer s.Close()
	until(t, "it is live", s.Live)
	until(t, "it has subscribed", func() bool { return pub.Subscriptions() == 1 })
	last.Store(3)
	pub.Send([]byte("kv@n@m"), number(3), event(3)) // 1 and 2 were lost
	for n := range byte(4) {
		until(t, "all are known", func() bool { return s.On(prefix.Name{7: n}) })
	}
}

func TestNoSubscriber(t *testing.T) {
	var s *Subscriber
	if s.Close(); s.Live() {
		t.Error("nil is live")
	}
}

// TestUnpack: payloads as other publishers write them, and such as none may write.
func TestUnpack(t *testing.T) {
	a := prefix.Name{0, 0, 0, 0, 0, 0, 0, 5}
	block := func(medium string) []byte {
		return stored(&block{name: 5, first: true, tokens: []int32{1, 2, 300_000}}, medium)
	}
	deep := strings.Repeat("\x91", 100) + "\x01"
	for _, tt := range []struct {
		name    string
		payload []byte
		on      bool
		says    string
	}{
		{"stored", batch([][]byte{block("DISK")}), true, ""},
		{"stored elsewhere", batch([][]byte{block("GPU")}), false, ""},
		{"cleared", batch([][]byte{block("DISK"), cleared}), false, ""},
		{"removed", batch([][]byte{block("DISK"), removed(5, "DISK")}), false, ""},
		{"removed elsewhere", batch([][]byte{block("DISK"), removed(5, "CPU")}), true, ""},
		{"an event that is not known", batch([][]byte{[]byte("\x92\xa3new\x81\x01\xc4\x02ab"), block("DISK")}), true, ""},
		{"names in bytes", []byte("\x92\x01\x91\x97\xabBlockStored\x92\xc4\x01\x05\x05\xc0\x90\x03\xc0\xa4DISK"), true, ""},
		{"no medium", []byte("\x92\x01\x91\x97\xabBlockStored\x91\x05\xc0\x90\x03\xc0\xc0"), false, ""},
		{"empty", nil, false, "cut off"},
		{"no array", []byte("\xa5hello"), false, "where an array should begin"},
		{"no events", []byte("\x91\x01"), false, "without events"},
		{"four thousand million events", []byte("\x92\x01\xdd\xff\xff\xff\xff\x90"), false, "cut off"},
		{"a text of four thousand million", []byte("\x92\x01\x91\x92\xdb\xff\xff\xff\xffx"), false, "cut off"},
		{"deep", append([]byte("\x92"), deep...), false, "within each other"},
		{"cut off", batch([][]byte{block("DISK")})[:30], false, "cut off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Subscriber{known: map[uint64]struct{}{}}
			err := s.apply(tt.payload)
			if tt.says == "" && (err != nil || s.On(a) != tt.on) ||
				tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("%v, want %q; on disk: %v", err, tt.says, s.On(a))
			}
		})
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add(batch([][]byte{stored(&block{name: 5, tokens: []int32{1}}, "DISK"), removed(5, "DISK"), cleared}))
	f.Add([]byte("\x92\x01\xdf\xff\xff\xff\xff\x90"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := &Subscriber{known: map[uint64]struct{}{}}
		_ = s.apply(b)
		if len(s.known) > len(b) {
			t.Errorf("%d names from %d bytes", len(s.known), len(b))
		}
	})
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// until asks again and again; the test's own time limit ends it.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for !is() {
		if t.Context().Err() != nil {
			t.Fatalf("never: %s", what)
		}
		runtime.Gosched()
	}
}
