package server_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/scripted"
)

// Whatever clients send, sixty-four at once, the server's memory stays within bounds (promise T7),
// and it still answers.
func TestMemoryBounded(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil || testing.Short() || lane.Race {
		t.Skip("takes /proc, time, and a build without the race detector's own memory")
	}
	const most = 1024 // MiB; 560 were seen, 819 beside eight other programs
	const mib = 1 << 20
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr = strings.TrimSpace(addr)
	peak := func() int {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		kib, err := strconv.Atoi(string(regexp.MustCompile(`VmHWM:\s+(\d+)`).FindSubmatch(b)[1]))
		if err != nil {
			t.Fatal(err)
		}
		return kib >> 10
	}
	const chat = `{"model":"scripted-chat","stream":false,"messages":[{"role":"user","content":"[[say:x]]`
	const called = `{"model":"scripted-chat","stream":false,"messages":[{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\":[`
	one := func(s string) piece { return piece{s, 1} }
	for _, tt := range []struct {
		name, path string
		chunked    bool
		body       []piece
		codes      string
	}{
		{"much text", "/api/chat", false, []piece{one(chat), times("word ", 31*mib), one(`"}]}`)}, "400 503"},
		{"text as an image's", "/v1/chat/completions", false, []piece{one(chat), times("a", 31*mib), one(`"}]}`)}, "400 503"},
		{"text of the most", "/api/generate", false, []piece{one(`{"model":"scripted","stream":false,"prompt":"[[say:x]]`),
			times("a b ", 4*mib-100), one(`"}`)}, "200 503"},
		{"text of an image's letters", "/api/generate", false, []piece{one(`{"model":"scripted","stream":false,"prompt":"[[say:x]]`),
			times("a", 4*mib-1000), one(`"}`)}, "200 503"},
		{"objects in a string", "/v1/chat/completions", false,
			[]piece{one(called), times("{},", 4*mib-1000), one(`{}]}"}}]},{"role":"user","content":"[[say:x]]"}]}`)}, "400 503"},
		{"objects in a string, the most", "/v1/chat/completions", false, []piece{one(called), times("{},", 190_000),
			one(`{}]}"}}]},{"role":"user","content":"[[say:x]]"}]}`)}, "200 503"},
		{"vectors", "/api/embed", false, []piece{one(`{"model":"scripted-embed","input":["a"`), times(`,"a"`, 4*29_000), one("]}")},
			"200 503"},
		{"vectors of the other dialect", "/v1/embeddings", false,
			[]piece{one(`{"model":"scripted-embed","encoding_format":"base64","input":["a"`), times(`,"a"`, 4*29_000), one("]}")},
			"200 503"},
		{"too many vectors", "/api/embed", false, []piece{one(`{"model":"scripted-embed","input":["a"`), times(`,"a"`, 4*60_000),
			one("]}")}, "413 503"},
		{"many messages", "/api/chat", false, []piece{one(`{"model":"scripted-chat","messages":[{}`), times(",{}", 31*mib), one("]}")},
			"400 503"},
		{"messages of the most", "/api/chat", false, []piece{one(`{"model":"scripted-chat","stream":false,"messages":[{}`),
			times(",{}", 190_000), one("]}")}, "200 503"},
		{"tools of the most", "/api/chat", false, []piece{one(chat + `"}],"tools":[{}`), times(",{}", 190_000), one("]}")}, "200 503"},
		{"numbers of the most", "/api/generate", false, []piece{one(`{"model":"scripted","prompt":"[[say:x]]","stream":false,"context":[1`),
			times(",1", 2*mib-100), one("]}")}, "200 503"},
		{"images", "/api/chat", false,
			[]piece{one(`{"model":"scripted-vision","stream":false,"messages":[{"role":"user","content":"[[say:x]]","images":["`),
				times("AAAA", 31*mib), one(`"]}]}`)}, "200 503"},
		{"many images", "/api/generate", false, []piece{one(`{"model":"scripted-vision","prompt":"x","images":[""`), times(`,""`, 31*mib),
			one("]}")}, "400 503"},
		{"pictures that are drawn", "/v1/images/generations", false, []piece{one(`{"prompt":"x","n":10}`)}, "200 503"},
		{"edits", "/v1/images/edits", false, []piece{one(field("prompt", "x") +
			strings.TrimSuffix(pictureField("image", drawnPNG(9, 9)), "\r\n")), times("a", 31*mib), one("\r\n--x--\r\n")}, "200 503"},
		{"edits in base64", "/v1/images/edits", false, []piece{one(`{"prompt":"x","image":"`), times("AAAA", 31*mib), one(`"}`)},
			"400 503"},
		{"edits of much before the picture", "/v1/images/edits", false, []piece{one(strings.TrimSuffix(field("user", ""), "\r\n")),
			times("a", 31*mib)}, "400 503"},
		{"deep", "/v1/messages", false, []piece{one(chat + `"}],"x":`), times("[", 31*mib)}, "400 503"},
		{"a format", "/api/chat", false, []piece{one(chat + `"}],"format":{"enum":[0`), times(",1.5", 20_000), one("]}}")}, "200 503"},
		{"too much, of unknown length", "/v1/responses", true, []piece{times(" ", 40*mib)}, "413 503"},
		{"headers", "/api/version", false, nil, "431"},
	} {
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]int{}
		for range 64 {
			wg.Go(func() {
				c, err := net.Dial("tcp", addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
				if tt.body == nil {
					_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: ", tt.path)
					_ = write(c, []piece{times("a", mib), one("\r\n\r\n")})
				} else if tt.chunked {
					_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
						tt.path)
					_ = write(c, []piece{{fmt.Sprintf("%x\r\n%s\r\n", 1<<16, strings.Repeat(tt.body[0].text, 1<<16)),
						tt.body[0].times >> 16}, one("0\r\n\r\n")})
				} else {
					n := 0
					for _, p := range tt.body {
						n += len(p.text) * p.times
					}
					kind := "application/json"
					if strings.HasPrefix(tt.body[0].text, "--x") {
						kind = formKind
					}
					_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"+
						"Content-Type: %s\r\nContent-Length: %d\r\n\r\n", tt.path, kind, n)
					_ = write(c, tt.body) // who is refused may find the connection closed
				}
				line, _ := bufio.NewReader(c).ReadString('\n')
				_, code, _ := strings.Cut(strings.TrimSpace(line), " ")
				code, _, _ = strings.Cut(code, " ")
				mu.Lock()
				seen[code]++
				mu.Unlock()
			})
		}
		wg.Wait()
		for code, n := range seen {
			if code != "" && !strings.Contains(tt.codes, code) {
				t.Errorf("%s: %d times %q", tt.name, n, code)
			}
		}
		if !strings.Contains(tt.codes, "503") && seen[tt.codes] < 32 || len(seen) == 1 && seen[""] > 0 {
			t.Errorf("%s: %v", tt.name, seen)
		}
		mb := peak()
		t.Logf("%s: %d MiB at most, %v", tt.name, mb, seen)
		if mb > most {
			t.Fatalf("%s: %d MiB of memory", tt.name, mb)
		}
		resp, err := http.Post("http://"+addr+"/api/chat", "",
			strings.NewReader(chatBody("scripted-chat", "[[say:well]]", `,"stream":false`)))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != 200 || !bytes.Contains(b, []byte(`"well"`)) {
			t.Errorf("after %s: %d %.200s", tt.name, resp.StatusCode, b)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

const childEnv = "AXLE_TEST_SERVER"

// child is a server in a process of its own: it says where it listens and ends when its standard
// input does.
func child() error {
	dir, err := os.MkdirTemp("", "axle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	st, err := store.Open(store.Options{Dir: dir, Builtin: scripted.Builtin()})
	if err != nil {
		return err
	}
	s := server.New(local.New(st, local.Options{Describe: scripted.Describe}), &scripted.Loader{Config: scripted.Config{
		Delay: time.Microsecond, Info: ask.Info{Hidden: 1024}}}, nil,
		server.Options{Loopback: true, KeepAlive: pool.Forever})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return s.Serve(ctx, ln, time.Millisecond)
}

// piece is a part of a body that comes this many times.
type piece struct {
	text  string
	times int
}

func times(text string, bytes int) piece { return piece{text, bytes / len(text)} }

func write(w io.Writer, ps []piece) (err error) {
	for _, p := range ps {
		k := 1<<16/len(p.text) + 1
		block := bytes.Repeat([]byte(p.text), min(k, p.times))
		for n := p.times; n > 0 && err == nil; n -= k {
			_, err = w.Write(block[:min(k, n)*len(p.text)])
		}
	}
	return err
}
