package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/manage"
	"github.com/axle-llm/axle/server/scripted"
)

// The shape of a stream: one object a line, deltas, counts and reason in the last.
func TestChatStream(t *testing.T) {
	r := newRig(t)
	a := r.post("/api/chat", chatBody("scripted-chat", "[[say:Hello| there|!]]", ""))
	if a.header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("content type %q", a.header.Get("Content-Type"))
	}
	lines := a.lines(t)
	if len(lines) != 4 {
		t.Fatalf("%d lines, want 4: %s", len(lines), a.body)
	}
	text := ""
	for i, l := range lines {
		msg, _ := l["message"].(map[string]any)
		if msg["role"] != "assistant" || l["model"] != "scripted-chat" || l["done"] != (i == 3) {
			t.Errorf("line %d: %v", i, l)
		}
		if _, ok := msg["content"]; !ok {
			t.Errorf("line %d has no content", i)
		}
		text += msg["content"].(string)
	}
	end := lines[3]
	if text != "Hello there!" || end["done_reason"] != "stop" || end["eval_count"] != 3.0 || end["prompt_eval_cached_count"] != 0.0 ||
		end["prompt_eval_count"] == nil || end["context"] != nil {
		t.Errorf("%q, last line %v", text, end)
	}
	for _, tt := range []struct{ body, content, thinking, reason string }{
		{chatBody("scripted-chat", "[[say:a| b| c| d]]", `,"stream":false,"options":{"num_predict":2}`), "a b", "", "length"},
		{chatBody("scripted-chat", "[[say:a| b|STOP| c]]", `,"stream":false,"options":{"stop":["STOP"]}`), "a b", "", "stop"},
		{chatBody("scripted-chat", "[[say:<think>\n|why|\n</think>\n\n|so]]", `,"stream":false`), "so", "why", "stop"},
		{chatBody("scripted-chat", "[[say:<think>\n|why| not]]", `,"stream":false,"options":{"num_predict":2}`), "", "why", "length"},
		{chatBody("scripted-chat", "[[say:<think>|x|</think>|y]]", `,"stream":false,"think":false`), "<think>x</think>y", "", "stop"},
	} {
		m := r.post("/api/chat", tt.body).object(t)
		msg := m["message"].(map[string]any)
		thinking, _ := msg["thinking"].(string)
		if msg["content"] != tt.content || thinking != tt.thinking || m["done_reason"] != tt.reason {
			t.Errorf("%s\n→ %v", tt.body, m)
		}
	}
}

// chatBody is a chat with one user message.
func chatBody(model, content, more string) string {
	return `{"model":` + quote(model) + `,"messages":[{"role":"user","content":` + quote(content) + `}]` + more + `}`
}

// Every native answer decodes with Ollama's own types, unknown fields disallowed, and encodes back
// equal.
func TestStrict(t *testing.T) {
	r := newRig(t)
	const tools = `,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"number"}}}}}]`
	call := "[[say:Let me see. |<tool_call>\n|{\"name\": \"f\", \"arguments\": {\"z\": \"x\", \"a\": 1}}|\n</tool_call>]]"
	for _, body := range []string{
		chatBody("scripted-chat", "[[say:Hello| <b>&| wörld]]", ""),
		chatBody("scripted-chat", "[[say:Hello]]", `,"stream":false`),
		chatBody("scripted-chat", "[[say:a|b]]", `,"logprobs":true,"top_logprobs":3`),
		chatBody("scripted-chat", "[[say:a|b]]", `,"logprobs":true,"stream":false`),
		chatBody("scripted-chat", "[[say:<think>|hm|</think>|yes]]", ""),
		chatBody("scripted-chat", call, tools),
		chatBody("scripted-chat", call, tools+`,"stream":false`),
		chatBody("scripted-chat", "x", `,"_debug_render_only":true`),
		`{"model":"scripted-chat"}`, `{"model":"scripted-chat","keep_alive":0}`,
	} {
		a := r.post("/api/chat", body)
		if a.code != 200 {
			t.Errorf("%s: %d %s", body, a.code, a.body)
		}
		for line := range strings.Lines(a.body) {
			strict(t, []byte(line), new(api.ChatResponse))
		}
	}
	for _, body := range []string{
		`{"model":"scripted","prompt":"[[say:a| b]]"}`,
		`{"model":"scripted","prompt":"[[say:a| b]]","stream":false,"logprobs":true,"top_logprobs":2}`,
		`{"model":"scripted","prompt":"[[say:a| b]]","raw":true}`,
		`{"model":"scripted-chat","prompt":"[[say:<think>|a|</think>|b]]"}`,
		`{"model":"scripted-chat","prompt":"a [[say:b]]","suffix":"c"}`,
		`{"model":"scripted"}`, `{"model":"scripted","keep_alive":"0s"}`,
		`{"model":"scripted-chat","prompt":"x","_debug_render_only":true}`,
	} {
		a := r.post("/api/generate", body)
		if a.code != 200 {
			t.Errorf("%s: %d %s", body, a.code, a.body)
		}
		for line := range strings.Lines(a.body) {
			strict(t, []byte(line), new(api.GenerateResponse))
		}
	}
	strict(t, []byte(r.post("/api/embed", `{"model":"scripted-embed","input":["a b","c"]}`).body), new(api.EmbedResponse))
	strict(t, []byte(r.post("/api/embed", `{"model":"scripted-embed"}`).body), new(api.EmbedResponse))
	strict(t, []byte(r.post("/api/embeddings", `{"model":"scripted-embed","prompt":"a b"}`).body), new(api.EmbeddingResponse))
	for line := range strings.Lines(r.post("/api/create",
		`{"model":"mine","from":"scripted-chat","system":"s","parameters":{"stop":["<END>","x"],"temperature":0.5},"messages":[{"role":"user","content":"q"}],"license":"free"}`).body) {
		strict(t, []byte(line), new(api.ProgressResponse))
	}
	strict(t, []byte(r.do("GET", "/api/tags", "").body), new(api.ListResponse))
	strict(t, []byte(r.do("GET", "/api/ps", "").body), new(manage.Loaded))
	strict(t, []byte(r.do("GET", "/api/status", "").body), new(api.StatusResponse))
	var show api.ShowResponse
	d := json.NewDecoder(strings.NewReader(r.post("/api/show", `{"name":"mine"}`).body))
	d.DisallowUnknownFields()
	if err := d.Decode(&show); err != nil {
		t.Error(err)
	}
	if !strings.Contains(show.Parameters, "stop                           \"<END>\"\nstop                           \"x\"\ntemperature   "+
		"                 0.5") ||
		show.System != "s" || len(show.Messages) != 1 || show.License != "free" || show.ModelInfo["general.architecture"] != "scripted" ||
		show.ModelInfo["scripted.context_length"] != 4096.0 || len(show.Capabilities) != 4 {
		t.Errorf("show: %+v", show)
	}
}

// Tool calls come each in a chunk of its own, with ids, indices and the arguments' order kept; text
// before them streams.
func TestToolCalls(t *testing.T) {
	r := newRig(t)
	say := `[[say:Sure.|<tool_call>` + "\n" + `|{"name":"f","arguments":{"z":1,"a":[2]}}|` + "\n" +
		`</tool_call>|<tool_call>{"name":"g","arguments":{}}</tool_call>|<tool_call>{"name":"nope","arguments":{}}</tool_call>]]`
	tools := `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{}}}},{"type":"function","function":{"name":"g"}}]`
	a := r.post("/api/chat", chatBody("scripted-chat", say, tools))
	var calls []string
	for _, l := range strings.Split(strings.TrimSpace(a.body), "\n") {
		var resp api.ChatResponse
		if err := json.Unmarshal([]byte(l), &resp); err != nil {
			t.Fatal(err)
		}
		for _, c := range resp.Message.ToolCalls {
			if !strings.HasPrefix(c.ID, "call_") || len(c.ID) != 13 || c.Function.Index != len(calls) || resp.Done {
				t.Errorf("call %+v", c)
			}
			calls = append(calls, c.Function.Name+c.Function.Arguments.String())
		}
		if resp.Done && resp.DoneReason != "stop" {
			t.Errorf("reason %q", resp.DoneReason)
		}
	}
	if got := strings.Join(calls, " "); got != `f{"z":1,"a":[2]} g{}` {
		t.Errorf("calls %s", got)
	}
	m := r.post("/api/chat", chatBody("scripted-chat", say, tools+`,"stream":false`)).object(t)
	msg := m["message"].(map[string]any)
	if list, _ := msg["tool_calls"].([]any); len(list) != 2 || msg["content"] != "Sure." {
		t.Errorf("whole: %v", m)
	}
}

// A failure after the first chunk is told in the stream, and nothing says done.
func TestBrokenStreams(t *testing.T) {
	r := newRig(t)
	a := r.post("/api/chat", chatBody("scripted-chat", "[[say:a|b|c]][[crash]]", ""))
	lines := a.lines(t)
	if a.code != 200 || len(lines) != 3 || lines[2]["error"] != "an error was encountered while running the model: unexpected EOF" ||
		strings.Contains(a.body, `"done":true`) {
		t.Errorf("native: %d %s", a.code, a.body)
	}
	a = r.post("/api/generate", `{"model":"scripted","prompt":"[[say:a|b|c]][[crash]]"}`)
	if lines := a.lines(t); len(lines) != 3 || lines[2]["error"] == nil {
		t.Errorf("generate: %s", a.body)
	}
	a = r.post("/v1/chat/completions", chatBody("scripted-chat", "[[say:a|b|c]][[crash]]", `,"stream":true`))
	events := strings.Split(strings.TrimSpace(a.body), "\n\n")
	if lastEvent := events[len(events)-1]; strings.Contains(a.body, "[DONE]") || !strings.Contains(lastEvent, `"model":""`) ||
		!strings.Contains(lastEvent, `"content":""`) ||
		!strings.Contains(lastEvent, `"message":"an error was encountered`) {
		t.Errorf("openai: %s", a.body)
	}
	a = r.post("/v1/messages", chatBody("scripted-chat", "[[say:a|b|c]][[crash]]", `,"stream":true,"max_tokens":9`))
	if !strings.Contains(a.body, "event: error\n") || strings.Contains(a.body, "message_stop") {
		t.Errorf("anthropic: %s", a.body)
	}
	a = r.post("/v1/responses", `{"model":"scripted-chat","stream":true,"input":"[[say:a|b|c]][[crash]]"}`)
	if !strings.Contains(a.body, "event: response.failed\n") || strings.Contains(a.body, "response.completed") {
		t.Errorf("responses: %s", a.body)
	}
}

// Text comes as it is made, and a client that leaves frees its place.
func TestDisconnect(t *testing.T) {
	//proves:G7
	r := newRig(t)
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/api/chat", strings.NewReader(chatBody("scripted-chat", "[[delay:50]]", "")))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if n := r.loader.Backends()[0].Stats().Running; n != 1 {
		t.Errorf("%d running after the first line", n)
	}
	cancel()
	_ = resp.Body.Close()
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		s := r.loader.Backends()[0].Stats()
		if s.Running == 0 && s.Cancelled == 1 && r.Loaded()[0].InUse == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("still running: %+v", s)
		}
	}
}

// Clients that leave at some moment leave nothing behind (promise G7). AXLE_DISCONNECTS sets how
// many.
func TestManyDisconnects(t *testing.T) {
	//proves:G7
	r := newRig(t)
	n := 1000
	if v, err := strconv.Atoi(os.Getenv("AXLE_DISCONNECTS")); err == nil {
		n = v
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	var cut atomic.Int64
	work := make(chan int)
	for range 16 {
		wg.Go(func() {
			for i := range work {
				ctx, cancel := context.WithCancel(t.Context())
				req, _ := http.NewRequestWithContext(ctx, "POST", r.url+"/api/chat",
					strings.NewReader(chatBody("scripted-chat", "[[delay:1]]", "")))
				if i%4 == 0 { // anywhere: before the request is sent, while the model loads, in the queue
					time.AfterFunc(time.Duration(i%40)*time.Millisecond, cancel)
				}
				resp, err := client.Do(req)
				if err == nil { // in the answer, after this many lines
					lines := bufio.NewScanner(resp.Body)
					for j := 0; j < i%9 && lines.Scan(); j++ {
					}
					cancel()
					if _, err := io.Copy(io.Discard, resp.Body); err != nil {
						cut.Add(1)
					}
					_ = resp.Body.Close()
				}
				cancel()
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	if cut.Load() < int64(n)/4 {
		t.Errorf("only %d of %d answers were broken off", cut.Load(), n)
	}
	t.Logf("%d of %d answers broken off", cut.Load(), n)
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		used := 0
		for _, l := range r.Loaded() {
			used += l.InUse + l.Stats.Running + l.Stats.Queued
		}
		if used == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d requests are left", used)
		}
	}
}

// A lost card: streams end with an error, health says so, Serve would end.
func TestCardLost(t *testing.T) {
	lost := make(chan error, 1)
	r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Lost = func(err error) { lost <- err } })
	resp, err := http.Post(r.url+"/api/chat", "", strings.NewReader(chatBody("scripted-chat", "[[delay:20]]", "")))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	br := bufio.NewReader(resp.Body)
	if _, err := br.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r.loader.Backends()[0].Lose(&axcl.Error{Op: "axclrtEngineExecute", Layer: 3, Kind: axcl.ErrLost})
	rest, err := io.ReadAll(br)
	if err != nil || !strings.Contains(string(rest), `{"error":"the card was lost: axcl: axclrtEngineExecute, layer 3`) ||
		strings.Contains(string(rest), `"done":true`) {
		t.Errorf("the stream ended with %q, %v", rest, err)
	}
	if err := <-lost; err == nil {
		t.Error("no error was told")
	}
	if a := r.do("GET", "/health", ""); a.code != 503 || !strings.Contains(a.body, `"status":"lost"`) {
		t.Errorf("health: %d %s", a.code, a.body)
	}
	if a := r.post("/api/chat", chatBody("scripted-chat", "x", "")); a.code != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("next request: %d %s", a.code, a.body)
	}
}

// A context from one answer goes on in the next.
func TestContext(t *testing.T) {
	//proves:T3
	r := newRig(t)
	var first api.GenerateResponse
	strict(t, []byte(r.post("/api/generate", `{"model":"scripted","prompt":"one two [[say: three]]","stream":false}`).body), &first)
	if len(first.Context) != 5 {
		t.Fatalf("context %v", first.Context)
	}
	b, _ := json.Marshal(map[string]any{"model": "scripted", "prompt": " four", "stream": false, "context": first.Context})
	second := r.post("/api/generate", string(b)).object(t)
	if second["prompt_eval_count"] != 6.0 || second["response"] != " three" {
		t.Errorf("%v", second)
	}
	if m := r.post("/api/generate", `{"model":"scripted","prompt":"x [[say:y]]","raw":true,"stream":false}`).object(t); m["context"] !=
		nil {
		t.Errorf("raw gave a context: %v", m)
	}
}

// Parts that are there at once go out in one write, and none waits for one that is not: where the
// next text is held back, since it may begin a stop string, what is there goes out without it.
func TestBursts(t *testing.T) {
	r := newRig(t)
	for _, tt := range []struct {
		name, say, more string
		want            []int // lines in each chunk
	}{
		{"one at a time", "[[say:a |b |c]]", ``, []int{1, 1, 1, 1}},
		{"three at a time", "[[burst:3]][[say:a |b |c |d |e |f]]", ``, []int{3, 3, 1}},
		{"the end with the last", "[[burst:3]][[say:a |b |c |d |e]]", ``, []int{3, 3}},
		{"held back", "[[burst:3]][[say:a |b |c |d |e |f]]", `,"options":{"stop":["c x"]}`, []int{2, 3, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := chatBody("scripted-chat", "[[delay:1]]"+tt.say, tt.more)
			raw := r.raw(fmt.Sprintf("POST /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
				len(body), body))
			_, chunks, _ := strings.Cut(raw, "\r\n\r\n")
			var got []int
			for chunks != "" {
				size, rest, _ := strings.Cut(chunks, "\r\n")
				n, err := strconv.ParseInt(size, 16, 32)
				if err != nil || len(rest) < int(n)+2 {
					t.Fatalf("%v in %q", err, raw)
				}
				if n > 0 {
					got = append(got, strings.Count(rest[:n], "\n"))
				}
				chunks = rest[n+2:]
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("chunks of %v lines, want %v:\n%s", got, tt.want, raw)
			}
		})
	}
}
