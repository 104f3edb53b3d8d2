// Proxies runs three servers behind HAProxy and behind Caddy, with the configurations of docs/, and counts what clients lose: while a
// server is told to end, when one is killed, and when one is full. `make proxies` builds the server and runs it; a proxy that is not
// installed is passed over aloud. It ends with 1 where a client lost what it should not. SCENE=caddy, or a part of another row's beginning,
// runs that alone.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// proxy is one of those that are looked at.
type proxy struct {
	name, config string
	start        func(file string) *exec.Cmd
	room         [2]string // the line that says how much a machine is sent, and what it is where that is three
	queue        string    // how many wait at a machine that is sent three: the one that runs, and these
	passesOn     bool      // a refusal is asked again elsewhere
}

var proxies = []proxy{
	{"haproxy", "docs/haproxy.cfg", func(f string) *exec.Cmd { return exec.Command("haproxy", "-db", "-f", f) }, [2]string{}, "2", true},
	{"caddy", "docs/Caddyfile", func(f string) *exec.Cmd {
		return exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", f)
	}, [2]string{"unhealthy_request_count 64", "unhealthy_request_count 3"}, "3", false},
}

var names = []string{"one", "two", "three"}

func main() {
	failed, ran := false, false
	fmt.Println("| in front | what happens | answered | lost | of these under way at a server that was killed |\n|---|---|---|---|---|")
	for _, p := range proxies {
		if _, err := exec.LookPath(p.name); err != nil {
			fmt.Fprintf(os.Stderr, "proxies: %s SKIPPED, it is not installed: apt-get install %s\n", p.name, p.name)
			continue
		}
		ran = true
		for _, s := range scenes {
			if only := os.Getenv("SCENE"); !strings.Contains(p.name+", "+s.what, only) {
				continue
			}
			c, err := s.run(p)
			if err != nil {
				fmt.Fprintf(os.Stderr, "proxies: %s, %s: %v\n", p.name, s.what, err)
				os.Exit(1)
			}
			fmt.Printf("| %s | %s | %d | %d | %d |\n", p.name, s.what, c.whole.Load(), c.lost(), c.cut.Load())
			if n := c.lost() - c.cut.Load(); s.aim(p) && (n > 0 || !s.kills && c.cut.Load() > 0) {
				failed = true
				fmt.Fprintf(os.Stderr, "proxies: %s, %s: lost %d, the first: %v; it said at the end:\n%s", p.name, s.what, c.lost(), c.first, c.said)
			}
		}
	}
	switch {
	case failed:
		os.Exit(1)
	case !ran:
		fmt.Fprintln(os.Stderr, "proxies: nothing was looked at")
	}
}

// scene is what happens behind a proxy.
type scene struct {
	what    string
	flags   []string // of the servers
	clients int
	small   bool // a machine is sent three requests at once, and no more
	fill    bool // one machine is filled from elsewhere
	signal  os.Signal
	kills   bool
	aim     func(proxy) bool // nothing may be lost
}

func always(proxy) bool { return true }

var scenes = []scene{
	{what: "SIGTERM, 16 clients", flags: []string{"--drain-delay", "5s"}, clients: 16, signal: syscall.SIGTERM, aim: always},
	{what: "SIGTERM without a drain delay", clients: 16, signal: syscall.SIGTERM, aim: func(p proxy) bool { return p.passesOn }},
	{what: "SIGKILL, 16 clients", clients: 16, signal: syscall.SIGKILL, kills: true, aim: always},
	{what: "three machines with room for three each, 8 clients", flags: []string{"--num-parallel", "1"}, clients: 8, small: true, aim: always},
	{what: "one is filled by others, 3 clients", flags: []string{"--num-parallel", "1"}, clients: 3, small: true,
		fill: true, aim: always},
}

// count is what became of requests.
type count struct {
	whole, refused, cut atomic.Int64
	mu                  sync.Mutex
	first               error
	said                string // by the proxy, at the end
}

func (c *count) lost() int64 { return c.refused.Load() + c.cut.Load() }

func (c *count) note(to *atomic.Int64, err error) {
	to.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == nil && to == &c.refused || os.Getenv("VERBOSE") != "" {
		c.first = errors.Join(c.first, err)
	}
}

func (s scene) run(p proxy) (*count, error) {
	dir, err := os.MkdirTemp("", "proxies")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cfg, err := os.ReadFile(p.config)
	if err != nil {
		return nil, err
	}
	front, err := free()
	if err != nil {
		return nil, err
	}
	pairs := []string{"127.0.0.1:11500", front}
	if s.small && p.room[0] != "" {
		pairs = append(pairs, p.room[0], p.room[1])
	}
	var servers []*exec.Cmd
	var addrs []string
	for i, name := range names {
		flags := s.flags
		if s.small {
			flags = append(slices.Clone(flags), "--max-queue", p.queue)
		}
		cmd, addr, err := serve(dir, name, flags)
		if err != nil {
			return nil, err
		}
		defer stop(cmd)
		servers, addrs = append(servers, cmd), append(addrs, addr)
		pairs = append(pairs, fmt.Sprintf("127.0.0.1:%d", 11501+i), addr)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !bytes.Contains(cfg, []byte(pairs[i])) {
			return nil, fmt.Errorf("%s has no %s", p.config, pairs[i])
		}
	}
	file := filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(pairs...).Replace(string(cfg))), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "proxy.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := p.start(file)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer stop(cmd)
	if err := until(func() bool { return answers("http://" + front + "/readyz") }); err != nil {
		said, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w: %s", err, said)
	}
	c, err := s.load("http://"+front, servers, addrs)
	if c != nil {
		said, _ := os.ReadFile(log.Name())
		lines := slices.DeleteFunc(strings.SplitAfter(string(said), "\n"), func(l string) bool {
			return strings.Contains(l, "health_checker") // a line a second
		})
		c.said = strings.Join(lines[max(0, len(lines)-5):], "")
	}
	return c, err
}

// load has clients ask, each a conversation of four turns after the other, while it happens.
func (s scene) load(front string, servers []*exec.Cmd, addrs []string) (*count, error) {
	var c count
	var died atomic.Int64 // when a server was killed, or that it is being; 0: none was
	start := time.Now()
	ctx, end := context.WithCancel(context.Background())
	defer end()
	var wg sync.WaitGroup
	if s.fill {
		var full sync.WaitGroup
		for range 4 {
			full.Add(1)
			wg.Go(func() {
				once := sync.OnceFunc(full.Done)
				for ctx.Err() == nil {
					go func() { <-time.After(100 * time.Millisecond); once() }()
					_, _ = ask(context.WithoutCancel(ctx), "http://"+addrs[0], "", "[[delay:300]] [[say:a|b|c|d|e|f|g|h]]")
				}
			})
		}
		full.Wait()
		<-time.After(3 * time.Second) // the proxy asks for its health once a second
	}
	for i := range s.clients {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				begun := int64(time.Since(start))
				conversation := fmt.Sprintf("client-%d-%d", i, n/4)
				// What is under way when the time is up is still waited for.
				by, err := ask(context.WithoutCancel(ctx), front, conversation,
					fmt.Sprintf("[[delay:60]] [[say:a|b|c|d|e|f|g|h]] %s", conversation))
				switch {
				case err == nil:
					c.whole.Add(1)
				case begun < died.Load(): // it was under way when the server died
					c.note(&c.cut, err)
				default:
					c.note(&c.refused, fmt.Errorf("client %d, turn %d, at %q: %w", i, n, by, err))
				}
			}
		})
	}
	more := func(n int64) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for aim := c.whole.Load() + n; c.whole.Load() < aim; {
			<-tick.C
		}
	}
	more(int64(4 * s.clients))
	if s.signal != nil {
		if s.kills {
			died.Store(math.MaxInt64)
		}
		if err := servers[0].Process.Signal(s.signal); err != nil {
			return nil, err
		}
		err := servers[0].Wait()
		if s.kills {
			died.Store(int64(time.Since(start)))
		} else if err != nil {
			return nil, fmt.Errorf("the server that was told to end: %w", err)
		}
	}
	more(int64(8 * s.clients))
	end()
	wg.Wait()
	return &c, nil
}

// ask asks for a streamed answer, and says which server began it.
func ask(ctx context.Context, url, conversation, say string) (by string, err error) {
	body, err := json.Marshal(map[string]any{"model": "scripted-chat", "messages": []map[string]string{{"role": "user", "content": say}}})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/chat", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	if conversation != "" {
		req.Header.Set("X-Session-Id", conversation)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	by = resp.Header.Get("Axle-Node")
	switch {
	case resp.StatusCode != http.StatusOK:
		return by, fmt.Errorf("%s: %.200s", resp.Status, got)
	case err == nil && !bytes.Contains(got, []byte(`"done":true`)):
		err = io.ErrUnexpectedEOF
		fallthrough
	case err != nil:
		return by, fmt.Errorf("the answer was cut after %.200q: %w", got, err)
	}
	return by, nil
}

// serve starts a server.
func serve(dir, name string, flags []string) (*exec.Cmd, string, error) {
	addr, err := free()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command("bin/axle-scripted", append([]string{"serve", "--host", addr, "--node", name, "--models", filepath.Join(dir, name)},
		flags...)...)
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return nil, "", err
	}
	defer log.Close()
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	if err := until(func() bool { return answers("http://" + addr + "/readyz") }); err != nil {
		stop(cmd)
		f, _ := os.Open(log.Name())
		line, _ := bufio.NewReader(f).ReadString('\n')
		return nil, "", fmt.Errorf("%w: %s", err, line)
	}
	return cmd, addr, nil
}

func stop(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

func answers(url string) bool {
	resp, err := http.Get(url)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func until(ok func() bool) error {
	for range 500 {
		if ok() {
			return nil
		}
		<-time.After(20 * time.Millisecond)
	}
	return errors.New("it does not answer")
}

// free is an unused address, below the ports that the system gives out by itself: once a server there is dead, a proxy's
// next connection to it would otherwise have that port at its own end now and then, and be connected to itself.
func free() (string, error) {
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(10000))
		if ln, err := net.Listen("tcp", addr); err == nil {
			return addr, ln.Close()
		}
	}
	return "", errors.New("no port from 20000 to 29999 is free")
}
