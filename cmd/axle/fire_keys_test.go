//go:build cgo && !fake && !scripted && linux

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestKeysEdited (T17): what one key kept is never found by another, in memory and on disk, while
// the server runs and after it was started again, whatever was done to the lines of the file; and
// a key or an id that stays keeps its rows.
func TestKeysEdited(t *testing.T) {
	//proves:T17
	unraced(t)
	t.Parallel()
	const ann, bob, carl = "secret-of-ann", "secret-of-bob", "secret-of-carl"
	const annID, bobID = " id=0123456789abcdef-ann", " id=0123456789abcdef-bob"
	prompt := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 12)
	file := filepath.Join(t.TempDir(), "keys")
	u := newUnit(t, "--device", "soft", "--keys-file", file, "--cache-disk", "64MB")
	for _, tt := range []struct {
		name          string
		before, after []string
		first, then   string // who asks before and after
		found         bool
	}{
		{"the line before is gone", []string{ann, bob}, []string{bob}, ann, bob, false},
		{"the line is replaced", []string{ann}, []string{bob}, ann, bob, false},
		{"the name is another's", []string{"x: " + ann}, []string{"x: " + bob}, ann, bob, false},
		{"the id is another's", []string{"x: " + ann + annID}, []string{"x: " + bob + bobID}, ann, bob, false},
		{"the key moves up", []string{carl, ann}, []string{ann}, ann, ann, true},
		{"the key is renewed", []string{"x: " + ann + annID}, []string{"y: " + carl + annID}, ann, carl, true},
	} {
		mine := tt.name + " " + prompt // what no case before has asked
		keys(t, file, tt.before...)
		p := u.start()
		if code, tokens, cached := p.ask(tt.first, mine); code != 200 || tokens < 100 || cached > 20 {
			t.Fatalf("%s: first %d, %d tokens, %d of them cached", tt.name, code, tokens, cached)
		}
		if _, _, cached := p.ask(tt.first, mine); cached < 64 {
			t.Errorf("%s: the same key finds %d", tt.name, cached)
		}
		keys(t, file, tt.after...)
		p.again(`"what":"keys"`)
		for _, when := range []string{"while it runs", "after a new start"} {
			code, tokens, cached := p.ask(tt.then, mine)
			if code != 200 || (cached > 20) != tt.found {
				t.Errorf("%s, %s: %d, %d of %d tokens are found", tt.name, when, code, cached, tokens)
			}
			if when != "while it runs" {
				break
			}
			if c := p.stop(); c != 0 {
				t.Fatalf("exit code %d", c)
			}
			if !tt.found { // what the second has kept by now is its own
				if err := os.RemoveAll(filepath.Join(u.dir, "models", "rows")); err != nil {
					t.Fatal(err)
				}
				keys(t, file, tt.before...)
				p = u.start()
				p.ask(tt.first, mine)
				if c := p.stop(); c != 0 {
					t.Fatalf("exit code %d", c)
				}
				keys(t, file, tt.after...)
			}
			p = u.start()
		}
		if c := p.stop(); c != 0 {
			t.Fatalf("exit code %d", c)
		}
	}
}

// TestKeysReload: SIGHUP takes keys away and lets others in, under the same answers that run; a
// file that is wrong changes nothing.
func TestKeysReload(t *testing.T) {
	//proves:T6
	unraced(t)
	t.Parallel()
	const ann, bob = "secret-of-ann", "secret-of-bob"
	file := filepath.Join(t.TempDir(), "keys")
	keys(t, file, "ann: "+ann)
	p := newUnit(t, "--device", "soft", "--keys-file", file).start()
	status := func(key string) int { code, _, _ := p.ask(key, "hello"); return code }
	if a, b := status(ann), status(bob); a != 200 || b != 401 {
		t.Errorf("before: %d %d", a, b)
	}
	keys(t, file, "bob: "+bob)
	if a := status(ann); a != 200 {
		t.Errorf("the file counts before SIGHUP: %d", a)
	}
	p.again("read again")
	if a, b := status(ann), status(bob); a != 401 || b != 200 {
		t.Errorf("after SIGHUP: %d %d", a, b)
	}
	for _, wrong := range []string{"ann: short", "", "ann: " + ann + " role=king"} {
		keys(t, file, wrong)
		p.again("reading again failed")
		if a, b := status(ann), status(bob); a != 401 || b != 200 {
			t.Errorf("after a wrong file: %d %d", a, b)
		}
	}
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
	if strings.Contains(p.said(), ann) || strings.Contains(p.said(), bob) {
		t.Error("the log has a key")
	}
}

// ask has pocket answer a long prompt with a key, and tells how many of its tokens were found in
// the cache; the status, where that is not 200.
func (p *process) ask(key, prompt string) (code, tokens, cached int) {
	p.t.Helper()
	body, _ := json.Marshal(map[string]any{"model": "pocket", "max_tokens": 2, "messages": []any{map[string]any{"role": "user",
		"content": prompt}}})
	req, err := http.NewRequest("POST", p.url+"/v1/messages", strings.NewReader(string(body)))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("X-Api-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	var a struct {
		Usage struct {
			Input  int `json:"input_tokens"`
			Cached int `json:"cache_read_input_tokens"`
		}
	}
	if err := json.Unmarshal(b, &a); err != nil {
		p.t.Fatalf("%v: %s", err, b)
	}
	return resp.StatusCode, a.Usage.Input + a.Usage.Cached, a.Usage.Cached
}

// keys writes the file of keys that the server was started with.
func keys(t *testing.T, file string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// again has the process read its files again.
func (p *process) again(says string) {
	p.t.Helper()
	before := strings.Count(p.said(), says)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
	p.until("says "+says, func() bool { return strings.Count(p.said(), says) > before })
}

// TestOwnTLS: a server that makes its certificate is reached by axle itself, which says what helps
// where it does not trust it or does not speak TLS to it; a new start shows the same certificate.
func TestOwnTLS(t *testing.T) {
	//proves:T6 TLS
	unraced(t)
	t.Parallel()
	u := newUnit(t, "--device", "soft", "--tls-self-signed")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cert := filepath.Join(u.dir, "models", "tls", "cert.pem")
	var shown []byte
	for range 2 {
		p := u.start()
		p.until("says TLS", func() bool { return strings.Contains(p.said(), `"sha256"`) })
		for _, tt := range []struct {
			env  []string
			want string
			ok   bool
		}{
			{[]string{"AXLE_HOST=https://" + u.addr, "SSL_CERT_FILE=" + cert}, "completion", true},
			{[]string{"AXLE_HOST=https://" + u.addr}, "SSL_CERT_FILE names a file", false},
			{[]string{"AXLE_HOST=" + u.addr}, "name it with https://", false},
		} {
			c := exec.Command(exe, "show", "pocket")
			c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.dir, "AXLE_TEST_MAIN=1"}, tt.env...)
			out, err := c.CombinedOutput()
			if (err == nil) != tt.ok || !strings.Contains(string(out), tt.want) {
				t.Errorf("%v: %v\n%s", tt.env, err, out)
			}
		}
		b, err := os.ReadFile(cert)
		if err != nil || shown != nil && string(shown) != string(b) {
			t.Errorf("another certificate: %v", err)
		}
		shown = b
		if c := p.stop(); c != 0 {
			t.Errorf("exit code %d", c)
		}
	}
}
