package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/server/body"
)

// The SDK's own server, over its streams and by HTTP.
func TestGood(t *testing.T) {
	web := httptest.NewServer(remoteGood("t0ken"))
	t.Cleanup(web.Close)
	tools := opened(t, played("here", "good")+`, "there": {"url": "`+web.URL+`", "headers": {"Authorization": "Bearer ${TOKEN}"}},
		"wrong": {"url": "`+web.URL+`", "headers": {"Authorization": "Bearer no"}}`,
		func(o *Options) { o.Getenv = func(k string) (string, bool) { return "t0ken", k == "TOKEN" } })
	for _, name := range []string{"here", "there"} {
		t.Run(name, func(t *testing.T) {
			l, err := tools.List(t.Context(), "ann", name)
			if err != nil || len(l.Tools) != 6 || l.LeftOut != nil {
				t.Fatalf("%v, %v", l, err)
			}
			for _, o := range l.Tools {
				if o.Name == name+"__echo" && (o.Description != "Says it again" || !o.ReadOnly ||
					!strings.Contains(string(o.Parameters), "words")) {
					t.Errorf("%+v", o)
				}
			}
			var far atomic.Pointer[Progress]
			r, err := tools.Call(t.Context(), "ann", name+"__echo", json.RawMessage(`{"words":"<b>hé</b>"}`),
				func(p Progress) { far.Store(&p) })
			if err != nil || r.Text != "<b>hé</b>" || r.Error {
				t.Errorf("%+v, %v", r, err)
			}
			for far.Load() == nil { // an answer may overtake it
				if _, err := tools.Call(t.Context(), "ann", name+"__echo", json.RawMessage(`{"words":"x"}`),
					func(p Progress) { far.Store(&p) }); err != nil {
					t.Fatal(err)
				}
			}
			if p := far.Load(); *p != (Progress{1, 2, "half"}) {
				t.Errorf("progress %+v", p)
			}
			r, err = tools.Call(t.Context(), "ann", name+"__fail", nil, nil)
			if err != nil || !r.Error || r.Text != "it is broken" {
				t.Errorf("%+v, %v", r, err)
			}
			for _, tt := range [][2]string{{name + "__none", `offers no tool`}, {"none__echo", "no tool server"}, {"", "no tool server"}} {
				if got := call(t, tools, "ann", tt[0], ""); !strings.Contains(got, tt[1]) {
					t.Errorf("%s: %s", tt[0], got)
				}
			}
			if got := call(t, tools, "ann", name+"__echo", `[1]`); !strings.Contains(got, "JSON object") {
				t.Error(got)
			}
			if got := call(t, tools, "ann", name+"__echo", `{"words":1}`); !strings.Contains(got, "words") {
				t.Error(got) // the server says so
			}
		})
	}
	if _, err := tools.List(t.Context(), "", "wrong"); err == nil || !strings.Contains(err.Error(), "nauthorized") ||
		strings.Contains(err.Error(), "Bearer") {
		t.Error(err)
	}
}

// A call that no one waits for any more is told to its server.
func TestCancel(t *testing.T) {
	tools := opened(t, played("s", "good"))
	file := filepath.Join(shared(t), "said")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := tools.Call(ctx, "", "s__wait", json.RawMessage(fmt.Sprintf(`{"file":%q}`, file)), nil)
		done <- err
	}()
	until(t, file, "waits")
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	until(t, file, "was told")
	if got := call(t, tools, "", "s__echo", `{"words":"on"}`); got != "on" {
		t.Error(got)
	}
}

// until waits for a file to say something.
func until(t *testing.T, file, want string) string {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		b, _ := os.ReadFile(file)
		if strings.Contains(string(b), want) && len(b) > 0 {
			return string(b)
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%s says %q", file, b)
		}
	}
}

// Servers that hang, flood, die and lie: each ends in one error that names it, and those beside it
// go on.
func TestHostile(t *testing.T) {
	//proves:T22
	for _, tt := range []struct{ part, want string }{
		{"dies", `"s" does not start`},
		{"hangs", `"s" does not start: it did not answer in time`},
		{"stray", `"s" does not start`},
		{"line", `"s" does not start`},
		{"callhangs", `did not answer within`},
		{"ids", "mine"},
		{"shape", `"s" `},
		{"utf8", "a\uFFFD\uFFFDb"},
		{"big", `"s" ended while`},
		{"notices", `"s" ended while`},
		{"asks", "1 refused, roots true"},
		{"other", "ok"},
	} {
		t.Run(tt.part, func(t *testing.T) {
			t.Parallel()
			file := strings.Replace(played("s", tt.part), `"timeout": 30`, `"timeout": `+map[bool]string{true: "1", false: "60"}[tt.part == "callhangs"], 1)
			tools := opened(t, file+", "+played("beside", "good"))
			if tt.part == "hangs" {
				tools.starts = time.Second
			}
			got := call(t, tools, "", "s__t", "")
			if !strings.Contains(got, tt.want) || len(got) > 700 {
				t.Errorf("%q", got)
			}
			tools.starts = startTime
			if got := call(t, tools, "", "beside__echo", `{"words":"on"}`); got != "on" {
				t.Error(got)
			}
		})
	}
	t.Run("long", func(t *testing.T) {
		r, err := opened(t, played("s", "long")).Call(t.Context(), "", "s__t", nil, nil)
		if err != nil || len(r.Text) > maxResult+60 || r.Cut != maxResult || !strings.HasSuffix(r.Text, "[cut: 65536 bytes more]") {
			t.Errorf("%d bytes, %v", len(r.Text), err)
		}
	})
}

// What servers offer becomes names and schemas that every API takes, and what does not is left out
// and told.
func TestLies(t *testing.T) {
	sound := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	for _, tt := range []struct {
		part      string
		tools     int
		left, has string
	}{
		{"list", maxPages, "offers more", ""},
		{"schema", 1, `"a": its schema is not one of an object`, "s__ok"},
		{"names", 4, `"t": another tool has this name`, "s__t"},
	} {
		t.Run(tt.part, func(t *testing.T) {
			l, err := opened(t, played("s", tt.part)).List(t.Context(), "", "s")
			if err != nil || len(l.Tools) != tt.tools || !strings.Contains(strings.Join(l.LeftOut, "\n"), tt.left) {
				t.Fatalf("%v, %v, %v", names(l), l.LeftOut, err)
			}
			seen := map[string]bool{}
			for _, o := range l.Tools {
				if !sound.MatchString(o.Name) || seen[o.Name] || !json.Valid(o.Parameters) ||
					strings.Contains(o.Description, "\x07") || !utf8.ValidString(o.Description) {
					t.Errorf("%+v", o)
				}
				seen[o.Name] = true
			}
			if tt.has != "" && !seen[tt.has] {
				t.Errorf("%v", names(l))
			}
		})
	}
	tools := opened(t, played("s", "changes"))
	first, err := tools.List(t.Context(), "", "s")
	if err != nil || len(first.Tools) != 1 {
		t.Fatal(err)
	}
	if got := call(t, tools, "", "s__t1", ""); got != "ok" {
		t.Error(got)
	}
	// Its word that there are others may come after its answer.
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(time.Millisecond) {
		then, err := tools.List(t.Context(), "", "s")
		if err != nil {
			t.Fatal(err)
		}
		if then.Tools[0].Name != "s__t1" {
			if then.Tools[0].Digest == first.Tools[0].Digest {
				t.Error("another tool has the digest of the first")
			}
			return
		}
	}
	t.Error("the list did not change")
}

// A server that dies is started again, after a pause that grows.
func TestDies(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	tools := opened(t, played("s", "good")+", "+played("d", "dies"), func(o *Options) { o.Log = zap.New(core) })
	if got := call(t, tools, "", "s__die", ""); !strings.Contains(got, "ended while") {
		t.Error(got)
	}
	if got := call(t, tools, "", "s__echo", `{"words":"x"}`); got != "x" && !strings.Contains(got, "not started again for 1 s") {
		t.Error(got) // on a slow machine the pause is over
	}
	sl := tools.servers["s"].slots[""]
	sl.notYet = time.Time{}
	if got := call(t, tools, "", "s__echo", `{"words":"x"}`); got != "x" || sl.failures != 0 {
		t.Error(got, sl.failures)
	}
	for range 5 {
		call(t, tools, "", "d__x", "")
		tools.servers["d"].slots[""].notYet = time.Time{}
	}
	sl = tools.servers["d"].slots[""]
	if call(t, tools, "", "d__x", ""); sl.failures != 6 || time.Until(sl.notYet) < 10*time.Second {
		t.Errorf("%d failures, %v", sl.failures, time.Until(sl.notYet))
	}
	if logs.FilterMessage("a tool server says").FilterField(zap.String("line", "no such token: secret-of-the-server")).Len() == 0 {
		t.Error("the log does not say what the server said")
	}
}

// Each owner has a process of its own.
func TestOwners(t *testing.T) {
	//proves:T22
	tools := opened(t, played("s", "good"))
	ann, bob := call(t, tools, "ann", "s__pid", ""), call(t, tools, "bob", "s__pid", "")
	if ann == bob || call(t, tools, "ann", "s__pid", "") != ann {
		t.Errorf("ann %s, bob %s", ann, bob)
	}
	// When there are as many as may be, the one that was idle longest ends.
	tools.live += maxSessions - 2
	if carl := call(t, tools, "carl", "s__pid", ""); strings.Contains(carl, "error") {
		t.Error(carl)
	}
	if call(t, tools, "ann", "s__pid", "") == ann {
		t.Log("bob's ended") // both were idle
	}
	tools.live -= maxSessions - 2
}

// A file that is read again ends what it does not have any more, and keeps the rest.
func TestReload(t *testing.T) {
	tools := opened(t, played("a", "good")+", "+played("b", "good"))
	a, b := call(t, tools, "", "a__pid", ""), call(t, tools, "", "b__pid", "")
	write := func(s string) {
		if err := os.WriteFile(tools.o.File, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"mcpServers": {"a": {"url": 1}}}`)
	if err := tools.Reload(); err == nil || len(tools.Servers()) != 2 {
		t.Errorf("%v", err)
	}
	write(`{"mcpServers": {` + played("a", "good") + `, ` + played("c", "good") + `}}`)
	if err := tools.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(tools.Servers()); got != "[a c]" {
		t.Error(got)
	}
	if call(t, tools, "", "a__pid", "") != a || !strings.Contains(call(t, tools, "", "b__pid", ""), "no tool server") {
		t.Error("a was started again, or b goes on")
	}
	var pid int
	_, _ = fmt.Sscan(b, &pid)
	for tick := time.NewTicker(5 * time.Millisecond); alive(pid); {
		<-tick.C
	}
}

// A call whose server ends before its turn starts nothing: nothing would end it.
func TestReloadMeanwhile(t *testing.T) {
	tools := opened(t, played("s", "good"))
	s := tools.servers["s"]
	sl := tools.slot(s, "")
	for _, old := range tools.set(nil) {
		tools.endAll(old)
	}
	sl.turn <- struct{}{}
	if _, err := tools.ready(t.Context(), s, sl); err == nil || !strings.Contains(err.Error(), "any more") {
		t.Error(err)
		tools.let(sl)
	}
	<-sl.turn
	tools.release(s, "", sl)
}

// A list that no one waits for any more ends no session: other calls use it.
func TestCancelledList(t *testing.T) {
	tools := opened(t, played("s", "good"))
	before := call(t, tools, "", "s__pid", "")
	s := tools.servers["s"]
	sl := s.slots[""]
	sl.session.stale.Store(true)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	sl.turn <- struct{}{}
	_, err := tools.ready(ctx, s, sl)
	<-sl.turn
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if after := call(t, tools, "", "s__pid", ""); after != before {
		t.Errorf("process %s, and then %s", before, after)
	}
}

// Servers reached by HTTP that hang, flood and lead elsewhere.
func TestHostileHTTP(t *testing.T) {
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer elsewhere.Close()
	quit := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "key=secret" {
			t.Errorf("asked for %s", r.URL)
		}
		switch r.URL.Path {
		case "/hangs":
			select {
			case <-quit:
			case <-r.Context().Done():
			}
		case "/leads":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/floods", "/floods-events":
			kind, begin := "application/json", `{"jsonrpc":"2.0","x":"`
			if r.URL.Path == "/floods-events" {
				kind, begin = "text/event-stream", "data: "
			}
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write([]byte(begin))
			for b := []byte(strings.Repeat("x", 1<<16)); ; {
				if _, err := w.Write(b); err != nil {
					return
				}
			}
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<script>alert(1)</script>"))
		}
	}))
	defer web.Close()
	defer close(quit)
	for _, path := range []string{"/hangs", "/leads", "/floods", "/floods-events", "/html"} {
		t.Run(path, func(t *testing.T) {
			tools := opened(t, `"s": {"url": "`+web.URL+path+`?key=secret", "headers": {"Authorization": "Bearer secret"}}`)
			tools.starts = 2 * time.Second
			if path != "/hangs" {
				tools.starts = time.Minute
			}
			got := call(t, tools, "", "s__t", "")
			if !strings.Contains(got, `"s" does not start`) || strings.Contains(got, "secret") || len(got) > 700 {
				t.Errorf("%q", got)
			}
		})
	}
	if asked.Load() > 0 {
		t.Error("the headers went to another server")
	}
	core, logs := observer.New(zap.InfoLevel)
	gone := opened(t, `"s": {"url": "http://127.0.0.1:1/secret/mcp?key=secret"}`, func(o *Options) { o.Log = zap.New(core) })
	got := call(t, gone, "", "s__t", "")
	for _, e := range logs.All() {
		got += fmt.Sprintln(e.Message, e.ContextMap())
	}
	if !strings.Contains(got, "127.0.0.1:1") || strings.Contains(got, "secret") {
		t.Error(got)
	}
}

// Behind a socket, as systemd has it: a process for each connection, which ends with it.
func TestSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var children sync.WaitGroup
	children.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			f, err := c.(*net.UnixConn).File()
			_ = c.Close()
			if err != nil {
				t.Error(err)
				return
			}
			cmd := exec.Command("/proc/self/exe", ChildArg)
			cmd.Stdin, cmd.Stdout, cmd.Env = f, f, []string{}
			if err := cmd.Start(); err != nil {
				t.Error(err)
			}
			_ = f.Close()
			children.Go(func() { _ = cmd.Wait() })
		}
	})
	file := filepath.Join(shared(t), "pids")
	tools := opened(t, played("s", "good")+", "+played("x", "stubborn", file), func(o *Options) { o.Socket = socket })
	if got := call(t, tools, "", "s__echo", `{"words":"through a socket"}`); got != "through a socket" {
		t.Error(got)
	}
	if got := call(t, tools, "", "x__t", ""); got != "ok" {
		t.Error(got)
	}
	if err := tools.Close(); err != nil {
		t.Error(err)
	}
	_ = ln.Close()
	children.Wait() // those that end for nothing, too
	none := opened(t, played("s", "good"), func(o *Options) { o.Socket = socket + "-none" })
	if got := call(t, none, "", "s__echo", "{}"); !strings.Contains(got, "systemctl enable --now axle-mcp.socket") {
		t.Error(got)
	}
}

// Calls beyond the number that run at once wait for their turn, each key's in its own.
func TestErrors(t *testing.T) {
	tools := opened(t, played("s", "good"))
	_, err := tools.Call(t.Context(), "", "s__none", nil, nil)
	var f *body.Failure
	if !errors.As(err, &f) || f.Status != 404 {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := tools.List(ctx, "", "s"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// open makes the tools of a file.
func opened(t *testing.T, servers string, change ...func(*Options)) *Tools {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {`+servers+`}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{File: file, Version: "test"}
	for _, f := range change {
		f(&o)
	}
	tools, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tools.Close(); err != nil {
			t.Error(err)
		}
	})
	return tools
}

// played is a server of the test's own in a file.
func played(name, part string, more ...string) string {
	args, _ := json.Marshal(append([]string{"play", part}, more...))
	return fmt.Sprintf(`%q: {"command": "/proc/self/exe", "args": %s, "timeout": 30}`, name, args)
}

// call calls a tool, and gives its text or its error's.
func call(t *testing.T, tools *Tools, owner, name, args string) string {
	t.Helper()
	r, err := tools.Call(t.Context(), owner, name, json.RawMessage(args), nil)
	if err != nil {
		return "error: " + err.Error()
	}
	return r.Text
}

func names(l Listed) (all []string) {
	for _, o := range l.Tools {
		all = append(all, o.Name)
	}
	return all
}

// shared is a folder that another user may use.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o777)
	}
	return dir
}
