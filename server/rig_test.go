package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		run := map[string]func() error{asHost: netHost, asContainer: netContainer}[what]
		if run == nil {
			run = child
		}
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// rig is a server over the scripted engine.
type rig struct {
	*server.Server
	t      testing.TB
	url    string
	loader *scripted.Loader
	store  *store.Store
}

// newRig starts a server; change may alter its options and the scripted engine's.
func newRig(t testing.TB, change ...func(*server.Options, *scripted.Config)) *rig {
	t.Helper()
	return assembled(t, change...).start()
}

// start lets the rig listen.
func (r *rig) start() *rig {
	t := r.t
	ts := httptest.NewUnstartedServer(r.Handler())
	ts.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(64 << 10) // so that a reader that stops is felt soon
		return ctx
	}
	ts.Start()
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	r.url = ts.URL
	return r
}

// assembled is newRig without a listener.
func assembled(t testing.TB, change ...func(*server.Options, *scripted.Config)) *rig {
	t.Helper()
	return assembledOf(t, scripted.Builtin(), change...)
}

// assembledOf is assembled with some models only.
func assembledOf(t testing.TB, models map[string]fs.FS, change ...func(*server.Options, *scripted.Config)) *rig {
	t.Helper()
	o := server.Options{Loopback: true, KeepAlive: 5 * time.Minute, Measure: bench.Served}
	l := &scripted.Loader{Config: scripted.Config{Delay: time.Microsecond}}
	for _, f := range change {
		f(&o, &l.Config)
	}
	st, err := store.Open(store.Options{Dir: t.TempDir(), Builtin: models})
	if err != nil {
		t.Fatal(err)
	}
	describe := func(m *store.Model) (local.About, bool) {
		a, ok := scripted.Describe(m)
		a.Info.Live = l.Config.Live && a.Caps.Audio
		return a, ok
	}
	s := server.New(local.New(st, local.Options{Describe: describe}), l, nil, o)
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{s, t, "", l, st}
}

// answer is a response, read whole.
type answer struct {
	code   int
	header http.Header
	body   string
}

func (r *rig) do(method, path, body string, header ...string) answer {
	r.t.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, r.url+path, rd)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else {
			req.Header.Set(header[i], header[i+1])
		}
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v after %q", method, path, err, b)
	}
	client.CloseIdleConnections()
	return answer{resp.StatusCode, resp.Header, string(b)}
}

func (r *rig) post(path, body string, header ...string) answer {
	r.t.Helper()
	return r.do(http.MethodPost, path, body, header...)
}

// lines are the objects of a native stream.
func (a answer) lines(t *testing.T) []map[string]any {
	t.Helper()
	if !strings.HasSuffix(a.body, "\n") {
		t.Errorf("the last line has no end: %q", a.body)
	}
	var out []map[string]any
	for line := range strings.Lines(a.body) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in line %q", err, line)
		}
		out = append(out, m)
	}
	return out
}

// errText is the text of a native error.
func (a answer) errText(t *testing.T) string {
	t.Helper()
	var e map[string]string
	if err := json.Unmarshal([]byte(a.body), &e); err != nil || len(e) != 1 {
		t.Errorf("not an error of the form {\"error\":…}: %q", a.body)
	}
	return e["error"]
}

// object decodes a body.
func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// object decodes a body.
func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(a.body), &m); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
	return m
}

// strict decodes b into v with unknown fields disallowed and wants the same bytes back.
func strict(t *testing.T, b []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Errorf("%v in %s", err, b)
		return
	}
	again, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(string(b)); got != string(again) {
		t.Errorf("does not encode back equal:\n got %s\nwant %s", again, got)
	}
}

// patience is when a test gives up on what will never come. It decides nothing else.
const patience = time.Minute

// raw sends bytes and reads until the server closes.
func (r *rig) raw(text string) string {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, text); err != nil {
		r.t.Fatal(err)
	}
	b, _ := io.ReadAll(c)
	return string(b)
}

// dial sends bytes and leaves the connection open, unread.
func (r *rig) dial(text string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	if _, err := io.WriteString(c, text); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// newKeys are keys that may do everything, by name and key in turn.
func newKeys(namesAndKeys ...string) *access.Keys {
	var lines []access.Line
	for i := 0; i < len(namesAndKeys); i += 2 {
		lines = append(lines, access.Line{Name: namesAndKeys[i], Key: access.Secret(namesAndKeys[i+1]), Role: access.Admin})
	}
	return access.New(lines...)
}
