package packaging

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// TestHAProxy: docs/haproxy.cfg leads the turns of a conversation to one server, and loses nothing
// when a server drains, and only what was already being answered when one is killed.
func TestHAProxy(t *testing.T) {
	url, servers := behind(t)
	ctx := t.Context()

	used := map[string]bool{}
	for i := range 24 {
		header, say := "", fmt.Sprintf("[[say:%d]]", i)
		if i%2 == 0 {
			header, say = fmt.Sprint("conversation-", i), "[[say:same words]]"
		}
		first := ask(ctx, url, header, say)
		second := ask(ctx, url, header, say, "so", say+" and on")
		third := ask(ctx, url, header, say, "so", say+" and on", "so", "at last")
		for _, a := range []answer{first, second, third} {
			if !a.whole || a.by != first.by {
				t.Fatalf("conversation %d: a turn met %q, the first %q (%v)", i, a.by, first.by, a.err)
			}
		}
		used[first.by] = true
	}
	if len(used) != 3 {
		t.Errorf("24 conversations met only %v", used)
	}

	// Load: each worker goes on with a conversation of its own. Every fourth has a request that is
	// long.
	const workers = 16
	var done, killed atomic.Int64
	var dead atomic.Value // the name of the killed server
	dead.Store("")
	load, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for w := range workers {
		long := ""
		if w%4 == 0 {
			long = strings.Repeat("long ", 8000)
		}
		wg.Go(func() {
			for turn := 0; load.Err() == nil; turn++ {
				// Requests run to their end when the load stops: a context that ended would look
				// like a loss.
				a := ask(ctx, url, fmt.Sprint("worker-", w), "[[say:a|b|c|d|e|f|g|h]] [[delay:10]]"+long)
				switch {
				case a.whole: // wherever there was room: a server with more than its share gets no more
				case a.by != "" && a.by == dead.Load():
					killed.Add(1)
				default:
					t.Errorf("worker %d lost turn %d, answered by %q: %v", w, turn, a.by, a.err)
					return
				}
				done.Add(1)
			}
		})
	}
	// more waits until n further requests have ended.
	more := func(n int64) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := done.Load() + n; done.Load() < end && !t.Failed(); {
			<-tick.C
		}
	}
	more(48)
	if err := servers["one"].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := servers["one"].Wait(); err != nil {
		t.Errorf("the drained server ended with %v", err)
	}
	more(64)
	dead.Store("two")
	if err := servers["two"].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	more(64)
	stop()
	wg.Wait()
	if n := killed.Load(); n > workers {
		t.Errorf("%d answers were cut by one death, with %d in flight", n, workers)
	}
	t.Logf("%d requests, %d cut in the middle on the killed server", done.Load(), killed.Load())
	if a := ask(ctx, url, "after", "[[say:well]]"); a.by != "three" || !a.whole {
		t.Errorf("afterwards %q answers: %v", a.by, a.err)
	}
}

// TestMain is a server instead of tests where the environment says so: a process that can be
// killed, without building the binary.
func TestMain(m *testing.M) {
	if dir := os.Getenv("AXLE_PACKAGING_SERVER"); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child serves scripted models until it is told to end, as `axle serve` does.
func child(dir string) error {
	st, err := store.Open(store.Options{Dir: dir, Builtin: scripted.Builtin()})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s := server.New(local.New(st, local.Options{Describe: scripted.Describe}), &scripted.Loader{}, nil,
		server.Options{Version: "0.0.0", Loopback: true})
	fmt.Println(ln.Addr())
	return s.Serve(ctx, ln, 30*time.Second)
}

// start runs a server of its own and returns it with its address.
func start(t *testing.T) (*exec.Cmd, string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "AXLE_PACKAGING_SERVER="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the server said nothing: %v", err)
	}
	return cmd, strings.TrimSpace(line)
}

// answer is how a request ended.
type answer struct {
	by    string // the server that answered, empty where no answer began
	whole bool   // it came to its end
	err   error
}

// ask sends a conversation and reads the streamed answer.
func ask(ctx context.Context, url, conversation string, messages ...string) answer {
	msgs := []map[string]string{{"role": "system", "content": "You do what you are told."}}
	for i, m := range messages {
		msgs = append(msgs, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": m})
	}
	body, err := json.Marshal(map[string]any{"model": "scripted-chat", "messages": msgs})
	if err != nil {
		return answer{err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/api/chat", bytes.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	if conversation != "" {
		req.Header.Set("X-Conversation", conversation)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	a := answer{by: resp.Header.Get("X-Served-By")}
	b, err := io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode != http.StatusOK:
		a.err = fmt.Errorf("%s: %.200s", resp.Status, b)
	case err != nil:
		a.err = err
	default:
		a.whole = bytes.Contains(b, []byte(`"done":true`))
		if !a.whole {
			a.err = fmt.Errorf("an answer without an end: %.200s", b)
		}
	}
	return a
}

// behind starts three servers and HAProxy in front of them, with the documents' configuration.
func behind(t *testing.T) (url string, servers map[string]*exec.Cmd) {
	t.Helper()
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip("SKIPPED: haproxy is not installed: apt-get install haproxy")
	}
	if os.Getenv("AXLE_TEST_PROXIES") == "" { // a machine that is busy with other tests answers HAProxy's checks late
		if out, err := exec.CommandContext(t.Context(), "haproxy", "-c", "-f", "../docs/haproxy.cfg").CombinedOutput(); err != nil {
			t.Fatalf("haproxy refuses docs/haproxy.cfg: %v\n%s", err, out)
		}
		t.Skip("SKIPPED: HAProxy under load: make proxies")
	}
	cfg, err := os.ReadFile("../docs/haproxy.cfg")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0") // a free port for HAProxy, given back at once
	if err != nil {
		t.Fatal(err)
	}
	front := ln.Addr().String()
	_ = ln.Close()
	pairs := []string{"127.0.0.1:11500", front}
	servers = map[string]*exec.Cmd{}
	for i, name := range []string{"one", "two", "three"} {
		cmd, addr := start(t)
		servers[name] = cmd
		pairs = append(pairs, fmt.Sprintf("127.0.0.1:%d", 11501+i), addr)
	}
	for i := 0; i < len(pairs); i += 2 {
		if !bytes.Contains(cfg, []byte(pairs[i])) {
			t.Fatalf("docs/haproxy.cfg names no %s", pairs[i])
		}
	}
	pairs = append(pairs, "global\n", "global\n    log stdout format raw local0\n", "defaults\n",
		"defaults\n    log global\n    option httplog\n")
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(pairs...).Replace(string(cfg))), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("haproxy", "-c", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("haproxy does not take docs/haproxy.cfg: %v\n%s", err, out)
	}
	var said bytes.Buffer
	proxy := exec.Command("haproxy", "-db", "-f", file)
	proxy.Stderr, proxy.Stdout = &said, &said
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = proxy.Process.Kill()
		_ = proxy.Wait()
		if t.Failed() {
			lines := strings.SplitAfter(said.String(), "\n")
			t.Logf("haproxy said, at the end:\n%s", strings.Join(lines[max(0, len(lines)-100):], ""))
		}
	})
	url = "http://" + front
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		if resp, err := http.Get(url + "/health"); err == nil {
			_ = resp.Body.Close()
			return url, servers
		}
		if n > 500 {
			t.Fatal("haproxy does not answer")
		}
		<-tick.C
	}
}
