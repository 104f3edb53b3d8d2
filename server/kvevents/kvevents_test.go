package kvevents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/ugorji/go/codec"
	"go.uber.org/goleak"

	"github.com/axle-llm/axle/prefix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEvents: events have vLLM's form, to the field. They are read with another implementation of
// ZeroMQ and another of msgpack.
func TestEvents(t *testing.T) {
	p := startWith(t, Options{Node: "board-1", byHand: true})
	s := subscribe(t, p)
	f := p.Open("mine:latest")
	chain := prefix.New([]byte("s"), 3, nil)
	ids := []int32{7, 300, 70_000, 1, 2, 3}
	names := chain.Blocks(ids, nil)
	f.Stored("card", "", names[0], nil, ids[:3])
	f.Stored("card", "", names[1], &names[0], ids[3:])
	f.Stored("memory", "", names[0], nil, ids[:3])
	f.Stored("disk", "", names[0], nil, ids[:3])
	p.flush()
	first := uint64(1) // behind the one that says that all is gone
	one := []any{"BlockStored", []any{short(names[0])}, nil, []any{uint64(7), uint64(300), uint64(70_000)}, uint64(3), nil, "GPU", nil, nil}
	with := func(medium string) []any { e := slices.Clone(one); e[6] = medium; return e }
	got := s.message(t)
	if got.topic != "kv@board-1@mine" || got.number != first {
		t.Errorf("%s %d", got.topic, got.number)
	}
	same(t, got.events, [][]any{one, with("CPU"), with("DISK"),
		{"BlockStored", []any{short(names[1])}, short(names[0]), []any{uint64(1), uint64(2), uint64(3)}, uint64(3), nil, "GPU", nil, nil}})
	f.Removed("memory", names[0])
	p.Gone(names[0])
	f.Removed("memory", names[1]) // was never there
	p.flush()
	same(t, s.message(t).events, [][]any{{"BlockRemoved", []any{short(names[0])}, "CPU"}, {"BlockRemoved", []any{short(names[0])}, "DISK"}})
	// What came and went is not told, nor what two copies have and one loses.
	g := p.Open("mine")
	g.Stored("card", "", names[0], nil, ids[:3])
	f.Stored("memory", "", names[1], &names[0], ids[3:])
	f.Removed("memory", names[1])
	p.flush()
	g.Close()
	p.flush()
	// A key's blocks have its salt, the first one alone.
	h := p.Open("mine")
	keyed := prefix.New([]byte("s"), 3, []string{"ann"}).Blocks(ids, nil)
	h.Stored("card", "ann", keyed[0], nil, ids[:3])
	h.Stored("card", "ann", keyed[1], &keyed[0], ids[3:])
	p.flush()
	got = s.message(t)
	if got.number != first+2 {
		t.Errorf("%d messages for nothing", got.number-first-2)
	}
	salt := got.events[0][8].([]any)[0].([]any)[0].(string)
	if len(salt) != 24 || strings.Contains(salt, "ann") || fmt.Sprint(got.events[1][8]) != "[<nil>]" {
		t.Errorf("%v and %v", got.events[0][8], got.events[1][8])
	}
	h.Close()
	f.Close()
	p.flush()
	if got = s.message(t); len(got.events) != 4 || len(p.blocks) != 0 || len(p.dirty) != 0 {
		t.Errorf("%v; %d blocks are left", got.events, len(p.blocks))
	}
}

// TestReplay: whatever a subscriber missed, and from wherever it asks again, what it then knows is
// what there is: with few messages missing, with many, from the beginning, and after a restart. Its
// numbers have no gap.
func TestReplay(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := start(t)
	live := subscribe(t, p)
	feeds := []*Feed{p.Open("a"), p.Open("b"), p.Open("a")}
	has := make([]map[int32]bool, len(feeds))
	for i := range has {
		has[i] = map[int32]bool{}
	}
	change := func() {
		i, id := rng.IntN(len(feeds)), rng.Int32N(40)
		of := prefix.New([]byte("s"), 1, []string{feeds[i].model})
		name := of.Next(nil, []int32{id})
		if has[i][id] = !has[i][id]; has[i][id] {
			feeds[i].Stored("card", "", name, nil, []int32{id})
		} else {
			feeds[i].Removed("card", name)
		}
	}
	want := func() map[string]bool {
		all := map[string]bool{}
		for i, f := range feeds {
			for id, is := range has[i] {
				if is {
					all[fmt.Sprint(f.model, " ", id, " GPU")] = true
				}
			}
		}
		return all
	}
	s := &state{is: map[string]bool{}, names: map[uint64]string{}, next: 0}
	var stream []received
	for range 3000 { // so that the first messages are forgotten
		change()
		p.flush()
		p.out.Lock()
		next := p.next
		p.out.Unlock()
		for uint64(len(stream)) < next-1 {
			stream = append(stream, live.message(t))
		}
	}
	newest := p.next - 1
	if p.kept[0].number == 0 {
		t.Fatal("nothing was forgotten")
	}
	for _, from := range []uint64{0, 1, 17, p.kept[0].number - 1, p.kept[0].number, newest - 5, newest} {
		s := &state{is: map[string]bool{"of long ago": true}, names: map[uint64]string{}}
		list := replayed(t, p, from)
		if list[0].number != from || list[len(list)-1].number != newest || uint64(len(list)) != newest-from+1 {
			t.Fatalf("from %d: numbers %d to %d, %d of them", from, list[0].number, list[len(list)-1].number, len(list))
		}
		if from >= p.kept[0].number { // these are the messages themselves
			continue
		}
		for _, m := range list {
			s.apply(t, m)
		}
		if !maps.Equal(s.is, want()) {
			t.Errorf("from %d: %d blocks, there are %d", from, len(s.is), len(want()))
		}
	}
	// The live stream, with gaps that are replayed.
	for n, m := range stream {
		if n != len(stream)-1 && (n%7 == 3 || n > 100 && n < 1500) {
			continue // lost on the way
		}
		if m.number > s.next {
			for _, old := range replayed(t, p, s.next) {
				s.apply(t, old)
			}
		} else if m.number == s.next {
			s.apply(t, m)
		}
	}
	if !maps.Equal(s.is, want()) || s.next != newest+1 {
		t.Errorf("%d blocks at message %d, there are %d at %d", len(s.is), s.next, len(want()), newest)
	}
	if list := replayed(t, p, newest+1); len(list) != 0 {
		t.Errorf("%d messages that do not exist yet", len(list))
	}
	// After a restart all that was known is gone: the numbers begin anew, with that event.
	again := start(t)
	list := replayed(t, again, 0)
	if len(list) != 1 || list[0].number != 0 || fmt.Sprint(list[0].events) != "[[AllBlocksCleared]]" {
		t.Fatalf("%+v", list)
	}
	if s.apply(t, list[0]); len(s.is) != 0 {
		t.Errorf("%d blocks", len(s.is))
	}
	// However many numbers there were, a replay has a limit.
	p.out.Lock()
	p.next = 1 << 40
	p.publish("a", nil)
	p.kept = p.kept[len(p.kept)-1:]
	p.out.Unlock()
	if list, err := p.replay([][]byte{make([]byte, 8)}); err != nil || len(list) != mostFilled+1 {
		t.Errorf("%d messages, %v", len(list), err)
	}
}

// TestAskedAtOnce: who asks for missed messages before there is a publisher learns that nothing is
// there.
func TestAskedAtOnce(t *testing.T) {
	for range 20 {
		var lns [2]net.Listener
		for i := range lns {
			var err error
			if lns[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
		}
		c, err := net.Dial("tcp", lns[1].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		greeting := make([]byte, 64)
		greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
		copy(greeting[12:], "NULL")
		const request = "\x04\x1c\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER" + "\x01\x00" + "\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00"
		if _, err := c.Write(append(greeting, request...)); err != nil {
			t.Fatal(err)
		}
		p := New(lns[0], lns[1], Options{Node: "board-1"})
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		var got []byte
		for b := make([]byte, 1024); err == nil && !strings.Contains(string(got), "AllBlocksCleared"); {
			n := 0
			n, err = c.Read(b)
			got = append(got, b[:n]...)
		}
		if err := errors.Join(err, c.Close(), p.Close()); err != nil {
			t.Errorf("%q: %v", got, err)
		}
	}
}

// TestBadRequests: a request for a replay that is none ends the connection.
func TestBadRequests(t *testing.T) {
	p := start(t)
	for _, request := range [][][]byte{{{}}, {{1, 2, 3}}, {make([]byte, 9)}, {make([]byte, 8), make([]byte, 8)}} {
		if reply, err := p.replay(request); err == nil || reply != nil {
			t.Errorf("%v was answered", request)
		}
	}
}

// TestAllowed: this machine may connect, and what is on the list.
func TestAllowed(t *testing.T) {
	p := start(t)
	p.o.Allowed = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::7/128")}
	for addr, want := range map[string]bool{"127.0.0.1": true, "::1": true, "10.1.200.3": true, "fd00::7": true, "10.2.0.1": false,
		"fd00::8": false, "192.168.1.1": false} {
		if p.Allows(netip.MustParseAddr(addr)) != want {
			t.Errorf("%s: %v", addr, !want)
		}
	}
}

// TestMsgpack: numbers, lists and strings at the borders of their forms.
func TestMsgpack(t *testing.T) {
	for _, n := range []uint64{0, 127, 128, 255, 256, 65535, 65536, 1<<32 - 1, 1 << 32, 1<<64 - 1} {
		var got uint64
		decode(t, appendUint(nil, n), &got)
		if got != n {
			t.Errorf("%d became %d", n, got)
		}
	}
	for _, n := range []int{0, 15, 16, 65535, 65536} {
		b := appendArray(nil, n)
		for range n {
			b = appendNil(b)
		}
		var got []any
		if decode(t, b, &got); len(got) != n {
			t.Errorf("a list of %d became %d", n, len(got))
		}
	}
	for _, n := range []int{0, 31, 32, 255} {
		var got string
		if decode(t, appendString(nil, strings.Repeat("x", n)), &got); len(got) != n {
			t.Errorf("a string of %d became %d", n, len(got))
		}
	}
	var f float64
	if decode(t, appendFloat(nil, -1.5e300), &f); f != -1.5e300 {
		t.Error(f)
	}
}

// state is what a subscriber knows.
type state struct {
	is    map[string]bool
	names map[uint64]string
	next  uint64
}

func (s *state) apply(t *testing.T, m received) {
	t.Helper()
	s.next = m.number + 1
	model := m.topic[strings.LastIndex(m.topic, "@")+1:]
	for _, e := range m.events {
		switch e[0] {
		case "AllBlocksCleared":
			clear(s.is)
		case "BlockStored":
			name := e[1].([]any)[0].(uint64)
			s.names[name] = fmt.Sprint(model, " ", e[3].([]any)[0])
			s.is[s.names[name]+" "+e[6].(string)] = true
		case "BlockRemoved":
			delete(s.is, s.names[e[1].([]any)[0].(uint64)]+" "+e[2].(string))
		default:
			t.Fatalf("%v", e)
		}
	}
}

func start(t *testing.T) *Publisher { t.Helper(); return startWith(t, Options{Node: "board-1"}) }

func startWith(t *testing.T, o Options) *Publisher {
	t.Helper()
	var lns [2]net.Listener
	for i := range lns {
		var err error
		if lns[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	p := New(lns[0], lns[1], o)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// subscriber reads messages.
type subscriber struct{ zmq4.Socket }

var quiet = zmq4.WithLogger(log.New(io.Discard, "", 0))

// subscribe subscribes, and waits until that is so.
func subscribe(t *testing.T, p *Publisher) subscriber {
	t.Helper()
	s := subscriber{zmq4.NewSub(t.Context(), quiet)}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Dial("tcp://" + p.pub.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if err := s.SetOption(zmq4.OptionSubscribe, "kv@"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); p.pub.Subscriptions() == 0; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no subscription")
		}
	}
	return s
}

type received struct {
	topic  string
	number uint64
	events [][]any
}

func (s subscriber) message(t *testing.T) received {
	t.Helper()
	m, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, m.Frames)
}

func parsed(t *testing.T, frames [][]byte) received {
	t.Helper()
	if len(frames) != 3 || len(frames[1]) != 8 {
		t.Fatalf("%q", frames)
	}
	var payload []any
	decode(t, frames[2], &payload)
	at, ok := payload[0].(float64)
	if !ok || len(payload) != 3 || payload[2] != uint64(0) || time.Since(time.UnixMicro(int64(at*1e6))).Abs() > time.Hour {
		t.Fatalf("%v", payload)
	}
	r := received{topic: string(frames[0]), number: binary.BigEndian.Uint64(frames[1])}
	for _, e := range payload[1].([]any) {
		r.events = append(r.events, e.([]any))
	}
	return r
}

// replayed asks for the messages from a number on, as vLLM's subscribers do.
func replayed(t *testing.T, p *Publisher, from uint64) (all []received) {
	t.Helper()
	s := zmq4.NewDealer(t.Context(), quiet)
	defer s.Close()
	if err := s.Dial("tcp://" + p.router.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if err := s.SendMulti(zmq4.NewMsgFrom([]byte{}, number(from))); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Frames) != 4 || len(m.Frames[0]) != 0 {
			t.Fatalf("%q", m.Frames)
		}
		if len(m.Frames[3]) == 0 {
			if int64(binary.BigEndian.Uint64(m.Frames[2])) != -1 {
				t.Errorf("the end has the number %x", m.Frames[2])
			}
			return all
		}
		all = append(all, parsed(t, m.Frames[1:]))
	}
}

func decode(t *testing.T, b []byte, v any) {
	t.Helper()
	h := new(codec.MsgpackHandle)
	h.RawToString = true
	h.SignedInteger = false
	d := codec.NewDecoderBytes(b, h)
	if err := d.Decode(v); err != nil || d.NumBytesRead() != len(b) {
		t.Fatalf("%v, %d of %d bytes were read", err, d.NumBytesRead(), len(b))
	}
	*asAny(v) = unsigned(*asAny(v))
}

func asAny(v any) *any {
	if list, ok := v.(*[]any); ok {
		for i := range *list {
			(*list)[i] = unsigned((*list)[i])
		}
	}
	return new(any)
}

// unsigned makes the reader's small signed numbers what larger ones are.
func unsigned(v any) any {
	switch v := v.(type) {
	case int64:
		return uint64(v)
	case []any:
		for i := range v {
			v[i] = unsigned(v[i])
		}
	}
	return v
}

func same(t *testing.T, got, want [][]any) {
	t.Helper()
	if g, w := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want); g != w {
		t.Errorf("%s\nwant\n%s", g, w)
	}
}
