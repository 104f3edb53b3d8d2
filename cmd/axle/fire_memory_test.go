//go:build cgo && !fake && !scripted && linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/models/modelstest"
)

// TestMemoryOfAttacks: what TestMemoryBounded shows of a scripted model holds for pocket, computed in software and on the simulated card:
// sixty-four of each attack at once leave the process below 1 GiB (T7), and it still answers.
func TestMemoryOfAttacks(t *testing.T) {
	if testing.Short() || racing {
		t.Skip("takes time, and a build without the race detector's own memory")
	}
	const (
		mib = 1 << 20
		ask = `{"model":"pocket","stream":false,"options":{"num_predict":1},"messages":[{"role":"user","content":"a`
		say = `{"model":"pocket","stream":false,"options":{"num_predict":1},"prompt":"a`
		arg = `{"model":"pocket","max_tokens":1,"messages":[{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\":[`
		end = `{}]}"}}]},{"role":"user","content":"a"}]}`
	)
	few := 8 * time.Second // who goes then leaves work that has to be given up
	bursts := []burst{
		{"text of an image's letters", "/api/generate", say, "abcd", 4*mib - 1000, `"}`, "200 400 503", few, false},
		{"text of words", "/api/chat", ask, "a b ", 4*mib - 1000, `"}]}`, "200 400 503", few, false},
		{"objects in a string", "/v1/chat/completions", arg, "{},", 4*mib - 1000, end, "400 503", few, false},
		{"objects in a string, the most", "/v1/chat/completions", arg, "{},", 190_000, end, "200 400 503", few, false},
		{"vectors", "/api/embed", `{"model":"pocket","input":["a"`, `,"a"`, 4 * 60_000, "]}", "200 413 503", few, false},
		{"numbers", "/api/generate", `{"model":"pocket","prompt":"a","stream":false,"options":{"num_predict":1},"context":[1`, ",1",
			2*mib - 1000, "]}", "200 400 503", few, false},
		{"a format", "/api/chat", ask + `"}],"format":{"enum":[0`, ",1.5", 80_000, "]}}", "200 400 500 503", few, false},
		{"many tools", "/api/chat", ask + `"}],"tools":[{}`, ",{}", 190_000, "]}", "200 400 503", few, false},
		{"scripts of a repository", "/api/pull", `{"model":"x/scripts","stream":false}`, "", 0, "", "500", patience, true},
		{"a listing", "/api/pull", `{"model":"x/listing","stream":false}`, "", 0, "", "500", patience, true},
		{"uploads of something else", "/api/blobs/sha256:" + strings.Repeat("ab", 32), strings.Repeat("x", 9), "y", 4 * mib, "", "400 507",
			few, true},
	}
	for _, device := range []string{"soft", "axcl"} {
		t.Run(device, func(t *testing.T) {
			u := newUnit(t, "--device", device)
			p := u.start("HF_ENDPOINT="+hostileHub(t), "AXSIM_HAZARDS=")
			answers := func(after string) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), 4*patience)
				defer cancel()
				for {
					req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/api/generate",
						strings.NewReader(say+`","options":{"num_predict":2}}`))
					if err != nil {
						t.Fatal(err)
					}
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						t.Fatalf("after %s: %v\n%s", after, err, p.said())
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					if resp.StatusCode == http.StatusOK {
						return
					}
					if resp.StatusCode != http.StatusServiceUnavailable { // which may be what is left of the burst
						t.Fatalf("after %s: %d", after, resp.StatusCode)
					}
					<-time.After(20 * time.Millisecond)
				}
			}
			answers("the start")
			for _, b := range bursts {
				if b.once && device != "soft" {
					continue
				}
				var wg sync.WaitGroup
				var mu sync.Mutex
				seen := map[string]int{}
				for range 64 {
					wg.Go(func() {
						code := b.send(u.addr)
						mu.Lock()
						seen[code]++
						mu.Unlock()
					})
				}
				wg.Wait()
				for code, n := range seen {
					if code != "" && !strings.Contains(b.codes, code) {
						t.Errorf("%s: %d times %s", b.name, n, code)
					}
				}
				mb := peakOf(t, p.cmd.Process.Pid)
				t.Logf("%s: %d MiB at most, %v", b.name, mb, seen)
				if mb > 1024 {
					t.Fatalf("%s: %d MiB of memory", b.name, mb)
				}
				answers(b.name)
			}
			if left, err := filepath.Glob(filepath.Join(u.dir, "models", "blobs", "tmp-*")); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
			if code := p.code(); code != 0 {
				t.Errorf("it ended with %d", code)
			}
		})
	}
	http.DefaultClient.CloseIdleConnections()
}

// burst is what sixty-four clients send at once.
type burst struct {
	name, path string
	head       string
	unit       string // comes so often that the body has about so many bytes
	bytes      int
	tail       string
	codes      string // what may be answered
	within     time.Duration
	once       bool // what meets it is the same whatever computes
}

// send sends the burst's body and gives the status; empty where the connection ended, or the time was over.
func (b burst) send(addr string) string {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(b.within))
	n := 0
	if b.unit != "" {
		n = b.bytes / len(b.unit)
	}
	_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", b.path,
		len(b.head)+n*len(b.unit)+len(b.tail), b.head)
	const most = 1000
	block := strings.Repeat(b.unit, most)
	for err = nil; n > 0 && err == nil; n -= most {
		_, err = io.WriteString(c, block[:min(n, most)*len(b.unit)])
	}
	_, _ = io.WriteString(c, b.tail) // who is refused may find the connection closed
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return ""
	}
	_, _ = io.CopyN(io.Discard, c, 1<<20)
	return strings.Fields(line + " ?")[1]
}

// hostileHub is one whose repositories are too much: scripts without an end, a listing that never ends.
func hostileHub(t *testing.T) string {
	h := modelstest.NewHub()
	t.Cleanup(h.Close)
	scripts := map[string]modelstest.Content{}
	for i := range 400 {
		scripts[fmt.Sprintf("run_%d_axcl_aarch64.sh", i)] = modelstest.Noise{Seed: uint64(i), N: 1 << 20}
	}
	h.Add("x/scripts", scripts)
	long := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "x/listing") {
			http.Redirect(w, r, h.URL+r.URL.Path+"?"+r.URL.RawQuery, http.StatusFound)
			return
		}
		if strings.Contains(r.URL.Path, "/revision/") {
			_, _ = io.WriteString(w, "{}")
			return
		}
		_, _ = io.WriteString(w, "[")
		for range 1 << 20 {
			if _, err := io.WriteString(w, `{"path":"a","lfs":{"oid":"a"}},`); err != nil {
				return
			}
		}
	}))
	t.Cleanup(long.Close)
	return long.URL
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+)`)

// peakOf is the most memory that a process had so far, in MiB.
func peakOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	m := peakLine.FindSubmatch(b)
	if m == nil {
		t.Fatal("no VmHWM")
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}
