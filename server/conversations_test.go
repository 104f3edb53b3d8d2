package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/conversations"
	"github.com/axle-llm/axle/server/conversations/journal"
	"github.com/axle-llm/axle/server/scripted"
)

// TestConversationsOfKeys: what one key keeps is as unknown to another as what does not exist.
func TestConversationsOfKeys(t *testing.T) {
	r := newRig(t, keeping(t), func(o *server.Options, _ *scripted.Config) {
		o.Keys = access.New(access.Line{Name: "ann", Key: "secret-of-ann", ID: "id-of-ann-0123456", Role: access.Ask},
			access.Line{Name: "bob", Key: "secret-of-bob", ID: "id-of-bob-0123456", Role: access.Admin})
	})
	ann, bob := []string{"Authorization", "Bearer secret-of-ann"}, []string{"Authorization", "Bearer secret-of-bob"}
	const at = "/api/axle/conversations"
	if a := r.do("POST", at+"/A", `{"records":[{"id":"r1","key":"x","body":{"text":"hello"}}]}`, ann...); a.code != 200 ||
		!strings.Contains(a.body, `{"seqs":[1]}`) {
		t.Fatal(a)
	}
	sum := sha256.Sum256([]byte("p"))
	picture := "/api/axle/conversation-pictures/" + hex.EncodeToString(sum[:])
	if a := r.do("PUT", picture, "p", ann...); a.code != 200 {
		t.Fatal(a)
	}
	for _, path := range []string{at + "/A", picture, "/api/axle/conversation-file?id=A", at + "/A?history=1"} {
		known, other := r.do("GET", path, "", ann...), r.do("GET", path, "", bob...)
		none := r.do("GET", strings.Replace(path, "A", "B", 1), "", bob...)
		if known.code != 200 || other.code != 404 || !strings.Contains(path, "A") == (none.body != other.body) && none.code != 404 {
			t.Error(path, known, other, none)
		}
		if known.header.Get("Cache-Control") != "no-store" {
			t.Error(path, "may be stored by a cache")
		}
		if a := r.do("GET", path, ""); a.code != 401 {
			t.Error(path, a)
		}
	}
	for _, path := range []string{at, "/api/axle/conversation-file"} {
		if a := r.do("GET", path, "", bob...); a.code != 200 || strings.Contains(a.body, "hello") || strings.Contains(a.body, `"A"`) {
			t.Error(path, a)
		}
	}
	if a := r.do("DELETE", at+"/A", "", bob...); a.code != 200 { // his own of that name, which there was none of
		t.Error(a)
	}
	if a := r.do("DELETE", at, "", bob...); a.code != 200 {
		t.Error(a)
	}
	if a := r.do("GET", at, "", ann...); !strings.Contains(a.body, "hello") {
		t.Error(a)
	}
}

func TestConversationsRefused(t *testing.T) {
	off := newRig(t)
	for _, method := range []string{"GET", "DELETE"} {
		if a := off.do(method, "/api/axle/conversations", ""); a.code != 404 || !strings.Contains(a.body, "--conversations DIR") {
			t.Error(a)
		}
	}
	r := newRig(t, keeping(t))
	const at = "/api/axle/conversations"
	deep := strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)
	for _, tt := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"GET", at + "?since=-1", "", 400, "since is a whole number"},
		{"GET", at + "?since=99999999999999999999", "", 400, "since is a whole number"},
		{"GET", at + "?wait=26", "", 400, "from 0 to 25"},
		{"GET", at + "/none", "", 404, "no such conversation"},
		{"GET", at + "/..%2f..%2fetc", "", 404, ""},
		{"POST", at + "/a%20b", `{"records":[{"id":"r","key":"k","body":{}}]}`, 400, "letters, digits"},
		{"POST", at + "/A", `{"records":[]}`, 400, "1 to 500"},
		{"POST", at + "/A", `{"records":`, 400, ""},
		{"POST", at + "/A", `{"records":[{"id":"r","key":"k","body":` + deep + `}]}`, 400, ""},
		{"POST", at + "/A", strings.Repeat(" ", 9<<20), 413, "8 MiB"},
		{"PUT", "/api/axle/conversation-pictures/" + strings.Repeat("0", 64), "p", 400, "SHA-256"},
		{"PUT", "/api/axle/conversation-pictures/x", "p", 400, "SHA-256"},
		{"GET", "/api/axle/conversation-pictures/x", "", 404, "no such picture"},
		{"POST", "/api/axle/conversation-file", `{}`, 400, "Nothing of it was taken"},
		{"POST", "/api/axle/conversation-file", `{"kind":"axle-chats","chats":[{"chat":{"title":"a"},"turns":[]},{"chat":{}}]}`, 400, "conversation 2"},
		{"POST", "/api/axle/conversation-file", `{"kind":"axle-chats","chats":[{"chat":{"title":"a"},"turns":[{"id":"x","role":"root","text":""}]}]}`,
			400, "turn 1"},
	} {
		if a := r.do(tt.method, tt.path, tt.body); a.code != tt.code || !strings.Contains(a.body, tt.says) {
			t.Errorf("%s %s %.60s: %d %s", tt.method, tt.path, tt.body, a.code, a.body)
		}
	}
	if a := r.do("GET", at, ""); !strings.Contains(a.body, `"records":[]`) {
		t.Error(a)
	}
	if a := r.do("POST", at+"/A", `{"records":[{"id":"r","key":"k","body":{}},{"id":"s","key":"k","body":{}}]}`); a.code != 200 ||
		!strings.Contains(a.body, `"seqs":[1],"conflict":{"key":"k","seq":1}`) {
		t.Error(a)
	}
	if a := r.do("DELETE", at+"/A", ""); a.code != 200 {
		t.Error(a)
	}
	if a := r.do("POST", at+"/A", `{"records":[{"id":"r","key":"k","body":{}}]}`); a.code != 410 {
		t.Error(a)
	}
}

// TestConversationFile: what is saved as a file is what is taken in again, pictures too.
func TestConversationFile(t *testing.T) {
	r := newRig(t, keeping(t))
	pixels := base64.StdEncoding.EncodeToString([]byte("some pixels"))
	file := `{"kind":"axle-chats","version":1,"chats":[{"chat":{"id":"A","title":"One","head":"t2"},"turns":[` +
		`{"id":"t1","chat":"A","parent":null,"role":"user","text":"look","images":[{"type":"image/png","name":"a","data":"` + pixels + `"}]},` +
		`{"id":"t2","chat":"A","parent":"t1","role":"assistant","text":"a picture"}]}]}`
	const at = "/api/axle/conversation-file"
	if a := r.do("POST", at, file); a.code != 200 || a.body != `{"ids":["A"]}` {
		t.Fatal(a)
	}
	out := r.do("GET", at, "")
	if !same(t, out.body, file) {
		t.Error(out.body)
	}
	a := r.do("POST", at, out.body) // once more: a copy
	if a.code != 200 || strings.Contains(a.body, `"A"`) {
		t.Error(a)
	}
	if a := r.do("GET", at+"?id=A&history=1", ""); !strings.Contains(a.body, `"history":[`) {
		t.Error(a)
	}
	if a := r.do("DELETE", "/api/axle/conversations", ""); a.code != 200 {
		t.Error(a)
	}
	if a := r.do("GET", at, ""); a.body != `{"kind":"axle-chats","version":1,"chats":[]}` {
		t.Error(a)
	}
}

// keeping gives a server a folder of conversations.
func keeping(t *testing.T) func(*server.Options, *scripted.Config) {
	return func(o *server.Options, _ *scripted.Config) {
		f, err := journal.Open(journal.Options{Dir: t.TempDir() + "/conversations"})
		if err != nil {
			t.Fatal(err)
		}
		o.Conversations = &conversations.Room{Folder: f}
		t.Cleanup(func() { _ = o.Conversations.Close(); http.DefaultClient.CloseIdleConnections() })
	}
}

// same compares JSON.
func same(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return bytes.Equal(p, q)
}
