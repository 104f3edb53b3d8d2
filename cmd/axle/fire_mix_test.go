//go:build cgo && !fake && !scripted && linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/internal/lane"
)

// TestMemoryOfMix (T7): sixty-four clients that send everything there is at once, each in its own
// order, and leave when they like: text, objects in strings, templates that make much of little,
// the largest pictures, schemas of large automata, vectors, images, uploads. The process stays
// below 1 GiB all the time, and answers afterwards. AXLE_TEST_MIX says how many each sends; `make
// ci-long` sends many.
func TestMemoryOfMix(t *testing.T) {
	//proves:T7 a process, 64 clients of eight kinds; with every part of the budget ten times as large it takes 1,951 MiB, and this fails
	if testing.Short() || lane.Race {
		t.Skip("takes time, and a build without the race detector's own memory")
	}
	rounds := 2
	if n, err := strconv.Atoi(os.Getenv("AXLE_TEST_MIX")); err == nil {
		rounds = n
	}
	const (
		mib = 1 << 20
		ask = `{"model":"pocket","stream":false,"options":{"num_predict":1},"messages":[{"role":"user","content":"a`
		say = `{"model":"pocket","stream":false,"options":{"num_predict":1},"prompt":"a`
		arg = `{"model":"pocket","max_tokens":1,"messages":[{"role":"assistant","content":"","tool_calls":[{"id":"a","type":"function",` +
			`"function":{"name":"f","arguments":"{\"a\":[`
	)
	u := newUnit(t, "--device", "soft")
	p := u.start()
	p.until("answers", func() bool { code, _ := p.health(); return code == 200 })
	few := 2 * time.Second
	attack := func(kind, n int) burst {
		switch kind {
		case 0:
			return burst{path: "/api/chat", head: ask, unit: "a b ", bytes: 4*mib - 1000, tail: `"}]}`, within: few}
		case 1:
			return burst{path: "/v1/chat/completions", head: arg, unit: "{},", bytes: 190_000,
				tail: `{}]}"}}]},{"role":"user","content":"a"}]}`, within: few}
		case 2: // seven megabytes of half a one
			return burst{path: "/api/generate", head: fmt.Sprintf(`{"model":"pocket","stream":false,"template":"%s","prompt":"%d`,
				strings.Repeat("{{.Prompt}}", 14), n), unit: "words ", bytes: mib / 2, tail: `"}`, within: few}
		case 3:
			b, err := json.Marshal(obj{"model": "pocket", "stream": false, "messages": []obj{{"role": "user", "content": "?",
				"images": [][]byte{largest(t, n)}}}})
			if err != nil {
				t.Error(err)
			}
			return burst{path: "/api/chat", head: string(b), within: few}
		case 4:
			return burst{path: "/api/chat", head: ask + fmt.Sprintf(`"}],"format":{"type":"string","pattern":"a.{9}b%d"}}`, n), within: few}
		case 5:
			return burst{path: "/api/embed", head: `{"model":"pocket","input":["a"`, unit: `,"a"`, bytes: 4 * 29_000, tail: "]}", within: few}
		case 6:
			return burst{path: "/api/generate", head: say + `","images":["`, unit: "AAAA", bytes: 31 * mib, tail: `"]}`, within: few}
		}
		return burst{path: "/api/blobs/sha256:" + strings.Repeat("ab", 32), head: strings.Repeat("x", 9), unit: "y", bytes: 4 * mib,
			within: few}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[string]int{}
	for client := range 64 {
		wg.Go(func() {
			for round := range rounds {
				code := attack((client*5+round*3)%8, client*1000+round).send(u.addr)
				mu.Lock()
				seen[code]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	mb := peakOf(t, p.cmd.Process.Pid)
	t.Logf("%d MiB at most, %v", mb, seen)
	if mb > 1024 {
		t.Errorf("%d MiB of memory", mb)
	}
	p.until("answers as before", func() bool {
		resp, err := http.Post(p.url+"/api/generate", "application/json", strings.NewReader(say+`"}`))
		if err != nil {
			return false
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	http.DefaultClient.CloseIdleConnections()
	if code := p.stop(); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}
