//go:build cgo && !fake && !scripted && linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models/modelstest"
)

// TestSecretsStay (T14, T11): a server with a keys file and a token for the hub, whose large files
// come by signed addresses. Whatever is asked with a right key, a wrong one or none, and whatever
// goes wrong in a pull: neither keys, nor the token, nor a signature are in its log at the most
// talkative level, on its terminal, in metrics, health, or any answer.
func TestSecretsStay(t *testing.T) {
	//proves:T11
	//proves:T14
	unraced(t)
	t.Parallel() // it waits for the pulls' pauses, mostly
	const key, wrong, token = "canary-key-4711", "canary-wrong-0815", "hf_canaryToken42"
	h := modelstest.NewHub()
	defer h.Close()
	h.SetToken(token)
	h.Add("axle/big", modelstest.Big(2, 64<<10, 1))
	h.Add("axle/denied", modelstest.Big(2, 64<<10, 2))
	h.SetFault(func(path string, n int) modelstest.Fault {
		return []modelstest.Fault{modelstest.Denied, modelstest.Broken, modelstest.Cut, modelstest.Away, modelstest.None}[min(n, 4)]
	})
	u := newUnit(t, "--device", "axcl", "--debug", "--keys-file", filepath.Join(t.TempDir(), "keys"))
	if err := os.WriteFile(u.args[len(u.args)-1], []byte("ann: "+key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := u.start("HF_ENDPOINT="+h.URL, "HF_TOKEN="+token)
	var seen bytes.Buffer
	send := func(method, path, body string, header ...string) int {
		req, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&seen, "%d %v %s\n", resp.StatusCode, resp.Header, b)
		return resp.StatusCode
	}
	right := []string{"Authorization", "Bearer " + key}
	if code := send("POST", "/api/pull", `{"model":"axle/big","stream":true}`, right...); code != 200 ||
		!strings.Contains(seen.String(), `"status":"success"`) {
		t.Errorf("a pull: %d\n%s", code, seen.String())
	}
	h.SetFault(func(string, int) modelstest.Fault { return modelstest.Denied })
	send("POST", "/api/pull", `{"model":"axle/denied","stream":false}`, right...)
	if !strings.Contains(seen.String(), "403") {
		t.Errorf("a pull that is denied:\n%s", seen.String())
	}
	h.SetToken("another")
	send("POST", "/api/pull", `{"model":"axle/none","stream":false}`, right...)
	for _, auth := range [][]string{right, {"X-Api-Key", key}, {"Authorization", "Bearer " + wrong}, {"X-Api-Key", wrong},
		{"Authorization", "Basic " + wrong}, {"Authorization", key}, {"Cookie", "key=" + key}, nil} {
		lets := len(auth) > 0 && (auth[0] == "X-Api-Key" && auth[1] == key || auth[1] == "Bearer "+key)
		for _, ask := range [][3]string{
			{"GET", "/api/tags", ""}, {"GET", "/metrics", ""}, {"GET", "/health", ""}, {"GET", "/nowhere", ""},
			{"POST", "/api/show", `{"model":"none"}`},
			{"POST", "/api/chat", `{"model":"pocket","messages":[{"role":"user","content":"hello"}],"options":{"num_predict":2}}`},
			{"POST", "/v1/chat/completions", `{"model":"pocket","messages":7}`},
			{"POST", "/v1/messages", `{"model":"pocket","max_tokens":2,"messages":[{"role":"user","content":"x"}]}`},
			{"POST", "/api/generate", `{"model":"pocket","keep_alive":"canary"`}, {"DELETE", "/api/delete", `{"model":"none"}`},
		} {
			for _, more := range []string{"", "?key=" + key, "?api_key=" + wrong} {
				if code := send(ask[0], ask[1]+more, ask[2], auth...); (code == 401) == lets && ask[1] != "/health" {
					t.Errorf("%s %s with %q: %d", ask[0], ask[1], auth, code)
				}
			}
		}
	}
	if c := p.stop(); c != 0 {
		t.Errorf("exit code %d", c)
	}
	p.quiet()
	if !strings.Contains(p.said(), `"msg":"request"`) || !strings.Contains(seen.String(), "axle_up_seconds") {
		t.Error("nothing was logged, or there were no metrics")
	}
	where := map[string]string{"the log": p.said(), "standard output": p.out.String(), "an answer": seen.String()}
	for name, text := range where {
		for _, canary := range []string{key, wrong, token, "Signature"} {
			if i := strings.Index(text, canary); i >= 0 {
				t.Errorf("%s has %q: %q", name, canary, text[max(0, i-200):min(len(text), i+200)])
			}
		}
	}
	if leaks := h.Leaks(); len(leaks) > 0 {
		t.Errorf("the token went to the host of the files: %v", leaks)
	}
}
