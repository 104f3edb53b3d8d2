package zmtp

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
)

// TestDialSub: messages of the topic arrive, and no others. (ZeroMQ's own publisher in Go leaves a
// goroutine behind; its subscribers are in TestPub.)
func TestDialSub(t *testing.T) {
	pub := NewPub(listener(t), Options{})
	defer pub.Close()
	s, err := DialSub(t.Context(), pub.Addr().String(), "kv@")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for pub.Subscriptions() == 0 {
		runtime.Gosched()
	}
	pub.Send([]byte("other"), []byte("not for us"))
	pub.Send([]byte("kv@a"), make([]byte, 300), nil)
	frames, err := s.Receive()
	if err != nil || len(frames) != 3 || string(frames[0]) != "kv@a" || len(frames[1]) != 300 || len(frames[2]) != 0 {
		t.Errorf("%q, %v", frames, err)
	}
}

// TestAsk: the messages of an answer come one after the other, until one is the last.
func TestAsk(t *testing.T) {
	r := NewRouter(listener(t), Options{}, func(request [][]byte) (reply [][][]byte, err error) {
		for i := range 5 {
			reply = append(reply, [][]byte{{}, []byte(fmt.Sprint(i)), request[0]})
		}
		return reply, nil
	})
	defer r.Close()
	got := ""
	err := Ask(t.Context(), r.Addr().String(), []byte("q"), func(f [][]byte) (bool, error) {
		got += fmt.Sprintf("%q", f)
		return len(f) == 3 && string(f[1]) != "3", nil
	})
	if err != nil || got != `["" "0" "q"]["" "1" "q"]["" "2" "q"]["" "3" "q"]` {
		t.Errorf("%s, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = Ask(ctx, r.Addr().String(), []byte("q"), func([][]byte) (bool, error) { cancel(); return true, nil })
	if err == nil {
		t.Error("an answer goes on though its question was taken back")
	}
}

// TestDialHostile: a publisher that does not keep to the protocol, or to its limits, is an error.
func TestDialHostile(t *testing.T) {
	huge := binary.BigEndian.AppendUint64([]byte{long}, 1<<40)
	hello := append(greeting(), appendFrame(nil, command, ready("PUB"))...)
	for _, tt := range []struct{ name, says, send string }{
		{"no ZeroMQ", "does not speak ZeroMQ", "HTTP/1.1 400 Bad Request\r\n\r\n" + strings.Repeat(" ", 64)},
		{"another kind", `the type "REP"`, string(greeting()) + string(appendFrame(nil, command, ready("REP")))},
		{"a message first", "before READY", string(greeting()) + string(appendFrame(nil, 0, []byte("x")))},
		{"a frame of a terabyte", "a frame of 1099511627776 bytes", string(hello) + string(huge)},
		{"too many frames", "more than 8 frames", string(hello) + strings.Repeat(string(appendFrame(nil, more, []byte("x"))), 9)},
		{"cut off", "EOF", string(hello) + string(appendFrame(nil, more, []byte("x")))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ln := listener(t)
			defer ln.Close()
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte(tt.send))
				_ = conn.(*net.TCPConn).CloseWrite()
				_, _ = conn.Read(make([]byte, 1024))
				_ = conn.Close()
			}()
			s, err := DialSub(t.Context(), ln.Addr().String(), "")
			if err == nil {
				_, err = s.Receive()
				_ = s.Close()
			}
			<-done
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %q", err, tt.says)
			}
		})
	}
}
