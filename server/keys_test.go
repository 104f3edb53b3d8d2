package server_test

import (
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/scripted"
)

// Every route asks the engine under the owner of its request's key, which is what keeps cached text
// apart (promise T17).
func TestKeyReachesEngine(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	r := newRig(t, func(o *server.Options, c *scripted.Config) {
		o.Keys = access.New(access.Line{Name: "ann", Key: "secret-of-ann", ID: "id-of-ann-0123456", Role: access.Ask},
			access.Line{Name: "bob", Key: "secret-of-bob", ID: "id-of-bob-0123456", Role: access.Ask})
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
		{r, "/v1/audio/speech", `{"model":"scripted-speaking","input":"x"}`},
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
			if a.code != 200 || len(asked) == 0 || strings.Join(asked,
				" ") != strings.TrimSpace(strings.Repeat("id:id-of-"+who+"-0123456 ", len(asked))) {
				t.Errorf("%s with the key of %s: %d, asked under %q", tt.path, who, a.code, asked)
			}
			mu.Unlock()
		}
	}
}
