//go:build cgo && !fake && !scripted && linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/lane"
)

// TestPeers: a conversation goes on at another machine, by processes that share no folder. What the
// other one has evaluated is fetched; and where it is killed, slow, tampered with or has another
// secret, the answer is the same, token for token, and no wrong row is ever used.
func TestPeers(t *testing.T) {
	//proves:G28 processes
	lane.Slow(t)
	lane.NoRace(t)
	t.Parallel() // it waits for the cards' passes, mostly
	secret, other := filepath.Join(t.TempDir(), "secret"), filepath.Join(t.TempDir(), "other")
	for name, digit := range map[string]string{secret: "3f", other: "a7"} {
		if err := os.WriteFile(name, []byte(strings.Repeat(digit+"b1", 16)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// server is a server with a folder and a card of its own, whose passes are as slow as a large
	// model's: fetching has to pay.
	server := func(t *testing.T, secret string, peers ...string) (*unit, *process) {
		u := newUnit(t, "--device", "axcl", "--cache-disk", "256MB", "--cache-ram", "0", "--rows-secret", secret, "--peers",
			strings.Join(peers, ","))
		return u, u.start("AXSIM_CLOCK=real", "AXSIM_PROFILE=pi5,load 0,call * 0ns,execute 20ms")
	}
	closed := freeAddr(t)
	home, a := server(t, secret, closed)
	long := strings.Repeat("the red circle is left of the blue square and the star is above. ", 14)
	talk := []map[string]string{{"role": "user", "content": long + "What do you see?"}}
	first, _ := a.chat(talk)
	talk = append(talk, map[string]string{"role": "assistant", "content": first},
		map[string]string{"role": "user", "content": "and then?"})
	files := func() []string {
		found, _ := filepath.Glob(filepath.Join(home.dir, "models", "rows", "*", strings.Repeat("?", 64)))
		return found
	}
	a.until("has kept five blocks", func() bool { return len(files()) >= 5 })
	_, alone := server(t, other, closed)
	want, cached := alone.chat(talk)
	if cached != 0 {
		t.Fatalf("a server alone has %d tokens", cached)
	}
	type scene struct {
		name, secret, at string
		before           func(t *testing.T)
		least            int // tokens that were fetched
	}
	play := func(t *testing.T, s scene) {
		if s.before != nil {
			s.before(t)
		}
		_, p := server(t, s.secret, s.at)
		text, cached := p.chat(talk)
		// Where the machine is busy, a peer may be too slow to be worth its while.
		for try := 1; cached < s.least && text == want && try < 5; try++ {
			p.stop()
			_, p = server(t, s.secret, s.at)
			text, cached = p.chat(talk)
		}
		if text != want {
			t.Errorf("it answers %q, a server alone %q", text, want)
		}
		if cached < s.least || s.least == 0 && cached > 0 {
			t.Errorf("%d tokens were fetched, want %d", cached, s.least)
		}
		if code := p.stop(); code != 0 {
			t.Errorf("it ended with %d", code)
		}
		p.quiet()
	}
	// The cards' passes take time and no processor: scenes that do not disturb each other share it.
	t.Run("undisturbed", func(t *testing.T) {
		for _, s := range []scene{
			{"fetched", secret, home.addr, nil, 256},
			{"another secret", other, home.addr, nil, 0},
			{"not there", secret, closed, nil, 0},
			{"hangs", secret, hangs(t), nil, 0},
			{"slow", secret, throttled(t, home.addr, 20<<10), nil, 0},
		} {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				play(t, s)
			})
		}
	})
	for _, s := range []scene{
		{"stopped", secret, home.addr, func(t *testing.T) {
			if err := a.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = a.cmd.Process.Signal(syscall.SIGCONT) })
		}, 0},
		{"tampered with", secret, home.addr, func(t *testing.T) {
			for _, f := range files() {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				b[len(b)/2] ^= 1
				if err := os.WriteFile(f, b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}, 0},
		{"killed", secret, home.addr, func(*testing.T) {
			_ = a.cmd.Process.Kill()
			a.ends()
		}, 0},
	} {
		t.Run(s.name, func(t *testing.T) { play(t, s) })
	}
}

// chat asks for an answer, and returns it and how many tokens of the prompt were not evaluated.
func (p *process) chat(messages []map[string]string) (text string, cached int) {
	p.t.Helper()
	b, err := json.Marshal(map[string]any{"model": "pocket", "messages": messages, "stream": false,
		"options": map[string]any{"temperature": 0, "num_predict": 4}})
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := http.Post(p.url+"/api/chat", "application/json", bytes.NewReader(b))
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	var a struct {
		Message struct{ Content string }
		Cached  int `json:"prompt_eval_cached_count"`
	}
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil || r.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: %v", r.Status, err)
	}
	return a.Message.Content, a.Cached
}

// hangs is a server that takes connections and says nothing.
func hangs(t *testing.T) string {
	t.Helper()
	return relay(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
}

// throttled passes on what a server says, at a number of bytes a second.
func throttled(t *testing.T, to string, rate int) string {
	t.Helper()
	return relay(t, func(c net.Conn) {
		s, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer s.Close()
		go func() { _, _ = io.Copy(s, c) }()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.CopyN(c, s, int64(rate/20)); err != nil {
				return
			}
		}
	})
}

// relay listens, and does something with each connection until the test ends.
func relay(t *testing.T, with func(net.Conn)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done, conns := make(chan struct{}), make(chan net.Conn, 100)
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conns <- c
			go func() {
				defer c.Close()
				with(c)
			}()
		}
	}()
	t.Cleanup(func() {
		_ = ln.Close()
		<-done
		close(conns)
		for c := range conns {
			_ = c.Close()
		}
	})
	return ln.Addr().String()
}
