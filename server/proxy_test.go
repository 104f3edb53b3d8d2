package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// TestDrainDelay (D10): told to end, a server says at once that no requests are to be led to it,
// and still takes all that come until the delay is over. Then it refuses, also at /, and what runs
// has its time.
func TestDrainDelay(t *testing.T) {
	inBubble(t, time.Minute, func(t *testing.T, b *bubble) {
		look := func(when string, ready, root, chat int, closes string) {
			t.Helper()
			for _, tt := range []struct {
				method, path, body string
				code               int
			}{
				{"GET", "/readyz", "", ready}, {"HEAD", "/readyz", "", ready}, {"GET", "/health", "", ready},
				{"GET", "/livez", "", 200}, {"HEAD", "/livez", "", 200},
				{"GET", "/", "", root}, {"HEAD", "/", "", root},
				{"POST", "/api/chat", chatBody("scripted-chat", "[[say:well]]", ""), chat},
			} {
				if a := b.ask(t, tt.method, tt.path, tt.body); a.code != tt.code || a.header.Get("Connection") != closes {
					t.Errorf("%s: %s %s: %d, connection %q: %s", when, tt.method, tt.path, a.code, a.header.Get("Connection"), a.body)
				}
			}
		}
		long := b.begin(b.client, "[[delay:4000]][[say:a|b|c|d|e]]")
		look("at work", 200, 200, 200, "")
		b.stop()
		synctest.Wait()
		look("within the delay", 503, 200, 200, "close")
		<-time.After(4800 * time.Millisecond)
		look("at its end", 503, 200, 200, "close")
		<-time.After(300 * time.Millisecond)
		look("after it", 503, 503, 503, "close")
		if a := b.ask(t, "GET", "/", ""); a.body != "the server is shutting down" || a.header.Get("Retry-After") == "" {
			t.Errorf("/ says %q, %v", a.body, a.header)
		}
		if rest, err := io.ReadAll(long); err != nil || !strings.Contains(string(rest), `"done":true`) {
			t.Errorf("the answer that ran: %q, %v", rest, err)
		}
		if err := <-b.done; err != nil {
			t.Error(err)
		}
	}, drainDelay)
}

// A card that is lost within the delay ends it, and what may be ended only when no more work is
// taken hears of it then, once.
func TestDrainDelayEnds(t *testing.T) {
	for _, lose := range []bool{false, true} {
		var ended atomic.Int64
		inBubble(t, time.Minute, func(t *testing.T, b *bubble) {
			b.ask(t, "POST", "/api/chat", chatBody("scripted-chat", "[[say:well]]", ""))
			start := time.Now()
			b.stop()
			synctest.Wait()
			if ended.Load() != 0 {
				t.Error("it was told of the end while work was taken")
			}
			lost := &axcl.Error{Op: "axclrtSynchronizeStream", Layer: axcl.NoLayer, Kind: axcl.ErrLost}
			if lose {
				b.loader.Backends()[0].Lose(lost)
			}
			err := <-b.done
			took := time.Since(start)
			if lose && (!errors.Is(err, axcl.ErrLost) || took > 2*time.Second) || !lose && (err != nil || took < 5*time.Second) {
				t.Errorf("card lost %v: Serve ended after %v with %v", lose, took, err)
			}
		}, drainDelay, func(o *server.Options, _ *scripted.Config) { o.Ending = func() { ended.Add(1) } })
		if n := ended.Load(); n != 1 {
			t.Errorf("card lost %v: told of the end %d times", lose, n)
		}
	}
}

// TestProbes (D10): what supervisors ask needs no key, says no more than a word, and tells a server
// that must be started anew from one that only has to be waited for.
func TestProbes(t *testing.T) {
	//proves:D10
	old := newRig(t)
	const key = "secret-of-ann"
	l := &failing{}
	s := server.New(local.New(old.store, local.Options{Describe: scripted.Describe}), l, nil,
		server.Options{Loopback: true, Keys: newKeys("ann", key)})
	ts := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		ts.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r := &rig{s, t, ts.URL, &l.Loader, old.store}
	look := func(status string, live, ready, root int) {
		t.Helper()
		liveSays := "ok"
		if live != 200 {
			liveSays = status
		}
		for _, tt := range []struct {
			path string
			code int
			body string
		}{{"/livez", live, `{"status":"` + liveSays + `"}`}, {"/readyz", ready, `{"status":"` + status + `"}`}, {"/", root, ""}} {
			a := r.do("GET", tt.path, "")
			if a.code != tt.code || tt.body != "" && strings.TrimSpace(a.body) != tt.body || strings.Contains(a.body, "libaxcl") {
				t.Errorf("%s: GET %s: %d %s", status, tt.path, a.code, a.body)
			}
			if a := r.do("HEAD", tt.path, ""); a.code != tt.code || a.body != "" {
				t.Errorf("%s: HEAD %s: %d %s", status, tt.path, a.code, a.body)
			}
		}
	}
	l.opening.Store(true)
	look("starting", 200, 503, 200)
	l.opening.Store(false)
	look("ok", 200, 200, 200)
	why := errors.New("axcl: /usr/lib/axcl/libaxcl_rt.so is missing")
	l.why.Store(&why)
	look("no device", 200, 503, 200)
	l.why.Store(nil)
	s.SetLost(why)
	look("lost", 503, 503, 503)
}

// TestNode: answers say which server gave them, to those who may ask.
func TestNode(t *testing.T) {
	for _, node := range []string{"", "board-1"} {
		for _, keys := range []bool{false, true} {
			r := newRig(t, func(o *server.Options, _ *scripted.Config) {
				if o.Node = node; keys {
					o.Keys = newKeys("ann", "secret-of-ann")
				}
			})
			for _, tt := range []struct {
				method, path, key string
				told              bool
			}{
				{"GET", "/api/tags", "secret-of-ann", true}, {"POST", "/v1/chat/completions", "secret-of-ann", true},
				{"GET", "/nothing", "secret-of-ann", true}, {"GET", "/readyz", "", !keys}, {"GET", "/api/tags", "", !keys},
			} {
				var header []string
				if tt.key != "" {
					header = []string{"Authorization", "Bearer " + tt.key}
				}
				want := ""
				if tt.told {
					want = node
				}
				if a := r.do(tt.method, tt.path, "", header...); a.header.Get("Axle-Node") != want {
					t.Errorf("node %q, keys %v: %s %s with key %q: %d says %q", node, keys, tt.method, tt.path, tt.key, a.code,
						a.header.Get("Axle-Node"))
				}
			}
		}
	}
}

// TestTotals: what leads requests to one of several servers finds one series of each figure from
// the first scrape on, with all models together, and under vLLM's names where that is asked for.
func TestTotals(t *testing.T) {
	for _, vllm := range []bool{false, true} {
		inBubble(t, time.Minute, func(t *testing.T, b *bubble) {
			look := func(when string, running, waiting int, models, loading string, most int) {
				t.Helper()
				synctest.Wait()
				text := b.ask(t, "GET", "/metrics", "").body
				for _, want := range []string{
					fmt.Sprintf("axle_requests_running %d", running), fmt.Sprintf("axle_requests_waiting %d", waiting),
					"axle_kv_usage_ratio 0", `axle_cache_info{block_size="64",num_blocks="%d"} 1`,
					fmt.Sprintf(`axle_models_info{max_lora="%d",running_lora_adapters="%s",waiting_lora_adapters="%s"} %d.`, most, models,
						loading, time.Now().Unix()),
				} {
					name, _, _ := strings.Cut(want, "{")
					name, _, _ = strings.Cut(name, " ")
					if strings.Contains(want, "%d") {
						want = fmt.Sprintf(want, 64*strings.Count(models, ":latest")) // of 4096 rows each
					}
					if n := len(regexp.MustCompile(`(?m)^`+name+`[ {]`).FindAllString(text, -1)); n != 1 || !strings.Contains(text, "\n"+want) {
						t.Errorf("%s: %d series of %s, and no %q in\n%s", when, n, name, want, text)
					}
				}
				if strings.Contains(text, "vllm:") != vllm {
					t.Errorf("vLLM's names: %v", !vllm)
				}
				if !vllm {
					return
				}
				for _, want := range []string{
					fmt.Sprintf("vllm:num_requests_running{model_name=%q} %d\n", models[strings.LastIndex(models, ",")+1:], running),
					"\nvllm:num_requests_waiting{model_name=", "\nvllm:kv_cache_usage_perc{model_name=",
					`vllm:cache_config_info{block_size="64",num_gpu_blocks="`,
					`vllm:lora_requests_info{max_lora="` + fmt.Sprint(most) + `",running_lora_adapters="` + models + `"`,
				} {
					if !strings.Contains(text, want) {
						t.Errorf("%s: no %q in\n%s", when, want, text)
					}
				}
			}
			look("before anything was asked", 0, 0, "", "", 2)
			one := b.begin(b.another(), "[[delay:1000]][[say:a|b|c]]")
			look("one runs", 1, 0, "scripted-chat,scripted-chat:latest", "", 3)
			two := make(chan answer, 1)
			go func() {
				two <- b.ask(t, "POST", "/api/chat", chatBody("scripted-chat", "[[delay:1000]][[say:a|b|c]]", ""))
			}()
			look("another waits", 1, 1, "scripted-chat,scripted-chat:latest", "", 3)
			_, _ = io.ReadAll(one)
			<-two
			look("all is done", 0, 0, "scripted-chat,scripted-chat:latest", "", 3)
		}, func(o *server.Options, c *scripted.Config) { o.VLLM, o.MaxLoaded, c.Parallel = vllm, 2, 1 })
	}
}

// A model that is being loaded is told of as one that will be there, and who waits for it waits.
func TestTotalsLoading(t *testing.T) {
	r, g, stop, done := ending(t, patience, false)
	answered := make(chan answer, 1)
	go func() { answered <- r.post("/api/chat", chatBody("scripted-chat", "[[say:x]]", "")) }()
	const waiting, coming = "\naxle_requests_waiting 1\n",
		`running_lora_adapters="",waiting_lora_adapters="scripted-chat,scripted-chat:latest"}`
	text := ""
	told := func() bool { return strings.Contains(text, waiting) && strings.Contains(text, coming) }
	for end := time.Now().Add(patience); !told(); <-time.After(time.Millisecond) {
		if text = r.do("GET", "/metrics", "").body; time.Now().After(end) {
			t.Fatalf("no %q and %q in\n%s", waiting, coming, text)
		}
	}
	close(g.gate)
	if a := <-answered; a.code != 200 {
		t.Error(a)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestMetricsPort: metrics and health on a port of their own need no key, and there is nothing else
// there.
func TestMetricsPort(t *testing.T) {
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Keys = newKeys("ann", "secret-of-ann") })
	ts := httptest.NewServer(r.MetricsHandler(true))
	defer ts.Close()
	r.post("/api/chat", chatBody("scripted-chat", "[[say:a|b|c]]", ""), "Authorization", "Bearer secret-of-ann")
	apart := &rig{Server: r.Server, t: t, url: ts.URL}
	for _, tt := range []struct {
		method, path string
		code         int
		says         string
	}{
		{"GET", "/metrics", 200, `axle_key_output_tokens_total{key="ann"} 3`}, {"HEAD", "/metrics", 200, ""},
		{"GET", "/health", 200, `"name":"scripted-chat:latest"`}, {"GET", "/livez", 200, "ok"}, {"GET", "/readyz", 200, "ok"},
		{"POST", "/metrics", 405, ""}, {"GET", "/api/tags", 404, ""}, {"POST", "/api/chat", 404, ""}, {"GET", "/", 404, ""},
		{"GET", "/ui", 404, ""}, {"GET", "/v1/models", 404, ""}, {"DELETE", "/api/delete", 404, ""}, {"GET", "/debug/pprof/", 404, ""},
	} {
		if a := apart.do(tt.method, tt.path, ""); a.code != tt.code || !strings.Contains(a.body, tt.says) ||
			strings.Contains(a.body, "secret") {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, a.code, a.body)
		}
	}
	for _, header := range [][2]string{{"Host", "evil.example"}, {"Origin", "https://evil.example"}} {
		if a := apart.do("GET", "/metrics", "", header[0], header[1]); a.code != 403 {
			t.Errorf("%v: %d", header, a.code)
		}
	}
	if a := r.do("GET", "/metrics", ""); a.code != 401 {
		t.Errorf("on the main port, without a key: %d", a.code)
	}
}

// drainDelay is the package's.
func drainDelay(o *server.Options, _ *scripted.Config) { o.DrainDelay = 5 * time.Second }

// ask sends a request on a connection of its own, and reads the answer whole.
func (b *bubble) ask(t *testing.T, method, path, body string) answer {
	t.Helper()
	req, err := http.NewRequest(method, b.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	client := b.another()
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{resp.StatusCode, resp.Header, string(got)}
	if resp.Close {
		a.header.Set("Connection", "close")
	}
	return a
}
