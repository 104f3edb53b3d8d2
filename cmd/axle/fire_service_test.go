//go:build cgo && !fake && !scripted && linux

package main

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
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl/native"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
)

// unit is what a supervisor knows of a service: where it listens, and what it is started with.
type unit struct {
	t     *testing.T
	addr  string
	dir   string
	lib   string
	args  []string
	attr  *syscall.SysProcAttr
	state string // where the card remembers its processes; empty: nowhere
}

// newUnit prepares a service of its own: a free port, an empty store, the simulated card's library.
func newUnit(t *testing.T, args ...string) *unit {
	t.Helper()
	if testing.Short() {
		t.Skip("short: no process of a server is started")
	}
	if len(args) == 0 {
		args = []string{"--device", "axcl"}
	}
	return &unit{t: t, addr: freeAddr(t), dir: t.TempDir(), lib: simcardtest.Lib(t), args: args}
}

// remember gives the unit a card that all its lives share, the dead ones too.
func (u *unit) remember() { u.state = u.t.TempDir() }

// faulted is when the last fault of its plan befell a life of a unit that remembers; zero when none
// has.
func (u *unit) faulted(p *process) time.Time {
	st, err := os.Stat(filepath.Join(u.state, fmt.Sprintf("fault.%d", p.cmd.Process.Pid)))
	if err != nil {
		return time.Time{}
	}
	return st.ModTime()
}

// process is one life of a service.
type process struct {
	t     *testing.T
	url   string
	cmd   *exec.Cmd
	mu    sync.Mutex
	out   bytes.Buffer
	err   bytes.Buffer
	gone  chan struct{} // closed when it has ended
	ended time.Time
	pause atomic.Int64 // how long a stream waits between two answers, in nanoseconds
}

// start begins a life; more are its own settings, AXSIM_… among them.
func (u *unit) start(more ...string) *process {
	u.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		u.t.Fatal(err)
	}
	p := &process{t: u.t, url: "http://" + u.addr, gone: make(chan struct{})}
	p.cmd = exec.Command(exe, append([]string{"serve"}, u.args...)...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.dir, "AXLE_TEST_MAIN=1", "AXLE_HOST=" + u.addr,
		"AXLE_MODELS=" + filepath.Join(u.dir, "models"), native.EnvAXCL + "=" + u.lib, "AXSIM_ROOT=" + u.t.TempDir(), "AXSIM_NOISE=both",
		"AXSIM_HAZARDS=strict", "AXSIM_STATE=" + u.state}, more...)
	p.cmd.SysProcAttr = u.attr
	p.cmd.Stdout, p.cmd.Stderr = locked{&p.mu, &p.out}, locked{&p.mu, &p.err}
	if err := p.cmd.Start(); err != nil {
		u.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		p.ended = time.Now()
		close(p.gone)
	}()
	u.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.gone
		if u.t.Failed() {
			said := p.said()
			u.t.Logf("the server said at last:\n%s", said[max(0, len(said)-4000):])
		}
	})
	p.until("listens", func() bool {
		c, err := net.Dial("tcp", u.addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return p
}

type locked struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l locked) Write(p []byte) (int, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.w.Write(p) }

// said is what the process has logged so far.
func (p *process) said() string { p.mu.Lock(); defer p.mu.Unlock(); return p.err.String() }

// until waits for something to become true of a living process.
func (p *process) until(what string, is func() bool) {
	p.t.Helper()
	wait := 5 * time.Millisecond
	for end := time.Now().Add(patience); !is(); <-time.After(wait) {
		wait = min(wait*3/2, 100*time.Millisecond) // what takes long is asked for less often
		select {
		case <-p.gone:
			p.t.Fatalf("it ended before it %s: %v\n%s", what, p.cmd.ProcessState, p.said())
		default:
		}
		if time.Now().After(end) {
			p.t.Fatalf("%v are over before it %s\n%s", patience, what, p.said())
		}
	}
}

// code waits for the end and gives the exit code.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.gone:
	case <-time.After(patience):
		p.t.Fatalf("it did not end within %v\n%s", patience, p.said())
	}
	return p.cmd.ProcessState.ExitCode()
}

// ends says whether the process is at its end.
func (p *process) ends() bool {
	select {
	case <-p.gone:
		return true
	case <-time.After(patience):
		return false
	}
}

// stop asks for an orderly end.
func (p *process) stop() int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Error(err)
	}
	return p.code()
}

// quiet requires that all that was printed is ours: nothing on standard output, a JSON object in
// each line of the log (T14, and the noise of vendors' libraries).
func (p *process) quiet() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out.Len() > 0 {
		p.t.Errorf("on standard output: %q", p.out.String())
	}
	for line := range strings.Lines(p.err.String()) {
		var v map[string]any
		if json.Unmarshal([]byte(line), &v) != nil && !strings.HasPrefix(line, "Error: ") {
			p.t.Errorf("not a line of our log: %q", line)
		}
	}
}

// health is the state that /health tells: "away" without an answer.
func (p *process) health() (code int, status string) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/health", nil)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, "away"
	}
	defer resp.Body.Close()
	var h struct{ Status string }
	_ = json.NewDecoder(resp.Body).Decode(&h)
	return resp.StatusCode, h.Status
}

// unwell is how a server's health ended: with 503, or 0 without an answer.
type unwell struct {
	code     int
	well, at time.Time // when the last request that was told that all is well was sent, and when the answer came that it is not
}

// watch asks for the health until it is not well any more.
func (p *process) watch() <-chan unwell {
	end := make(chan unwell, 1)
	go func() {
		for w := (unwell{}); ; <-time.After(25 * time.Millisecond) {
			sent := time.Now()
			if w.code, _ = p.health(); w.code != 200 {
				w.at = time.Now()
				end <- w
				return
			}
			w.well = sent
		}
	}()
	return end
}

// told judges an unwell server's health: it has to say 503 within a second of begun, or the port is
// shut, which takes a second more: a busy machine can miss that second.
func (w unwell) told(t *testing.T, begun time.Time, allowed func(time.Duration) time.Duration) {
	t.Helper()
	if d := w.well.Sub(begun); d > allowed(time.Second) {
		t.Errorf("health was well for %v", d)
	}
	if d := w.at.Sub(w.well); w.code != 503 && (w.code != 0 || d < 900*time.Millisecond) {
		t.Errorf("health: %d, want 503, %v after it was well", w.code, d)
	}
}

// How an answer ended.
const (
	endWhole   = "whole"   // with its dialect's end
	endFailed  = "failed"  // with its dialect's error event
	endRefused = "refused" // with a status before anything was sent
	endCut     = "cut"     // with neither
	endAway    = "away"    // no answer
)

// outcome is one answer.
type outcome struct {
	text, end, detail string
	code              int
	after             string    // Retry-After
	asked             time.Time // when it was
	last, ended       time.Time // when its last text came, and its end
}

// asks are the same question in every streaming dialect.
var asks = []struct{ path, body string }{
	{"/api/chat", `{"model":"pocket","messages":[{"role":"user","content":%q}],"options":{"temperature":0,"num_predict":%d}}`},
	{"/api/generate", `{"model":"pocket","prompt":%q,"options":{"temperature":0,"num_predict":%d}}`},
	{"/v1/chat/completions", `{"model":"pocket","stream":true,"temperature":0,"messages":[{"role":"user","content":%q}],"max_tokens":%d}`},
	{"/v1/messages", `{"model":"pocket","stream":true,"temperature":0,"messages":[{"role":"user","content":%q}],"max_tokens":%d}`},
}

// ask reads one streamed answer to its end.
func ask(ctx context.Context, client *http.Client, url, body string) (o outcome) {
	o.asked = time.Now()
	defer func() { o.ended = time.Now() }()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	resp, err := client.Do(req)
	if err != nil {
		o.end, o.detail = endAway, err.Error()
		return o
	}
	defer resp.Body.Close()
	if o.code = resp.StatusCode; o.code != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		o.end, o.detail, o.after = endRefused, string(b), resp.Header.Get("Retry-After")
		return o
	}
	o.end = endCut
	sc := bufio.NewScanner(resp.Body)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := strings.TrimPrefix(sc.Text(), "data: ")
		if line == "[DONE]" {
			o.end = endWhole
		}
		var v struct {
			Message  struct{ Content string }
			Response string
			Choices  []struct{ Delta struct{ Content string } }
			Delta    struct{ Text string }
			Done     bool
			Type     string
			Error    any
		}
		if json.Unmarshal([]byte(line), &v) != nil {
			continue
		}
		text := v.Message.Content + v.Response + v.Delta.Text
		for _, c := range v.Choices {
			text += c.Delta.Content
		}
		if o.text += text; text != "" {
			o.last = time.Now()
		}
		switch {
		case v.Error != nil:
			o.end, o.detail = endFailed, line
			return o
		case v.Done || v.Type == "message_stop":
			o.end = endWhole
		}
	}
	if err := sc.Err(); err != nil {
		o.detail = err.Error()
	}
	return o
}
