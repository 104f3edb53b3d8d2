package server_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/scripted"
)

// Each key has one name and each name one key: what cached text is shared by, and what the log says (promise T17). An error names the line
// and none of what is in it.
func TestKeysFile(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"alice: alice-secret-1\nbob: bob-secret-22\n", ""},
		{"# ours\n\n  alice:\talice-secret-1  \nbare-secret-22\n", ""},
		{"alice: alice-secret-1\nalice: other-secret-1\n", "line 2: the name is that of line 1"},
		{"key2: alice-secret-1\n#\nbare-secret-22\n", "line 3: the name is that of line 1"},
		{"bare-secret-22\nkey1: alice-secret-1\n", "line 2: the name is that of line 1"},
		{"alice: alice-secret-1\nbob: alice-secret-1\n", "line 2: the key is that of line 1"},
		{": alice-secret-1\n", "line 1: the name is empty"},
		{"bare:secret-22\n", "line 1: a colon without a space after it"},
		{"a:alice-secret-1\n", "line 1: a colon without a space after it"},
		{"alice: secret:bare-1\n", "line 1: a key holds no space and no colon"},
		{"alice: secret bare-1\n", "line 1: a key holds no space and no colon"},
		{"alice: secret\n", "line 1: the key is shorter than 8 characters"},
		{"alice:\n", "line 1: a colon without a space"},
		{"ok-secret-1\n" + strings.Repeat("secret", 20_000) + "\n", "token too long"},
		{"", "holds none"},
	} {
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := server.LoadKeys(file)
		switch {
		case tt.want == "" && (err != nil || keys == nil):
			t.Errorf("%.80q: %v", tt.text, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) ||
			strings.Contains(strings.ReplaceAll(err.Error(), file, ""), "secret")):
			t.Errorf("%.80q: got %v, want %s", tt.text, err, tt.want)
		}
	}
	s := server.Secret("canary")
	if out := fmt.Sprintf("%v %+v %#v %s %q %x %d %t %c %v", s, s, s, s, s, s, s, s, s, struct{ K server.Secret }{s}) + s.String() +
		s.GoString(); strings.Contains(out, "canary") || strings.Contains(out, "63616e") {
		t.Errorf("a secret printed itself: %s", out)
	}
}

// Every route asks the engine under the name of its request's key, which is what keeps cached text apart (promise T17).
func TestKeyReachesEngine(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	r := newRig(t, func(o *server.Options, c *scripted.Config) {
		o.Keys = server.NewKeys([]string{"ann", "bob"}, []server.Secret{"secret-of-ann", "secret-of-bob"})
		c.Asked = func(key string) { mu.Lock(); asked = append(asked, key); mu.Unlock() }
	})
	ts := httptest.NewServer(r.VendorHandler(t.Context(), true))
	defer ts.Close()
	vendor := &rig{Server: r.Server, t: t, url: ts.URL}
	for _, tt := range []struct {
		r          *rig
		path, body string
	}{
		{r, "/api/chat", chatBody("scripted-chat", "[[say:x]]", "")},
		{r, "/api/generate", `{"model":"scripted","prompt":"[[say:x]]"}`},
		{r, "/api/embed", `{"model":"scripted-embed","input":"x"}`},
		{r, "/api/embeddings", `{"model":"scripted-embed","prompt":"x"}`},
		{r, "/v1/chat/completions", chatBody("scripted-chat", "[[say:x]]", "")},
		{r, "/v1/completions", `{"model":"scripted","prompt":"[[say:x]]"}`},
		{r, "/v1/embeddings", `{"model":"scripted-embed","input":"x"}`},
		{r, "/v1/responses", `{"model":"scripted-chat","input":"[[say:x]]"}`},
		{r, "/v1/messages", chatBody("scripted-chat", "[[say:x]]", `,"max_tokens":9`)},
		{vendor, "/api/chat", chatBody("scripted-chat", "[[say:x]]", "")},
		{vendor, "/api/generate", `{"model":"scripted-chat","prompt":"[[say:x]]"}`},
	} {
		for _, who := range []string{"ann", "bob"} {
			mu.Lock()
			asked = nil
			mu.Unlock()
			a := tt.r.post(tt.path, tt.body, "Authorization", "Bearer secret-of-"+who)
			for end := time.Now().Add(patience); tt.r == vendor && tt.path == "/api/generate" &&
				time.Now().Before(end); <-time.After(time.Millisecond) {
				if strings.Contains(vendor.do("GET", "/api/content", "", "Authorization", "Bearer secret-of-"+who).body, `"done":true`) {
					break
				}
			}
			mu.Lock()
			if a.code != 200 || len(asked) == 0 || strings.Join(asked, " ") != strings.TrimSpace(strings.Repeat(who+" ", len(asked))) {
				t.Errorf("%s with the key of %s: %d, asked under %q", tt.path, who, a.code, asked)
			}
			mu.Unlock()
		}
	}
}
