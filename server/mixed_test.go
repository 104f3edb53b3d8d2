package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/scripted"
)

// Many requests over all dialects at once, more than the queue holds (promise G6): every answer is
// exactly right, or 503 with Retry-After and right when asked again; none is lost, none ends
// without its end. Among them are clients that leave in the middle of an answer or before it, slow
// readers, connections half open, and bodies that are refused; nothing is left of any.
// AXLE_REQUESTS sets how many.
func TestLoad(t *testing.T) {
	//proves:T16
	//proves:G6 every dialect, vectors; clients that leave, slow ones, half-open ones and refused bodies among them
	n := 10_000
	if testing.Short() {
		n = 1000
	} else if lane.Race {
		n = 2000
	}
	if s, err := strconv.Atoi(os.Getenv("AXLE_REQUESTS")); err == nil {
		n = s
	}
	l := newLoad(t)
	l.fill()
	base := l.stats()
	var wg sync.WaitGroup
	work := make(chan int)
	for range 64 {
		wg.Go(func() {
			for i := range work {
				if err := l.one(i); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	wg.Wait()
	l.halfOpen()
	end := l.settled()
	// Every answer was made once, no more of them than were given; every client that left took its
	// answer with it.
	left := end.Cancelled - base.Cancelled
	if done := end.Done - base.Done; done != uint64(l.right.Load()) || left < uint64(l.cut.Load()) ||
		left > uint64(l.cut.Load()+l.gone.Load()) {
		t.Errorf("%d answers made and %d given; %d broken off, where %d clients left in the middle and %d before", done, l.right.Load(),
			left, l.cut.Load(), l.gone.Load())
	}
	if sum := l.right.Load() + l.cut.Load() + l.gone.Load() + l.refused.Load() + l.half.Load(); sum != int64(n) || l.busy.Load() == 0 {
		t.Errorf("%d of %d requests have their outcome, %d times 503", sum, n, l.busy.Load())
	}
	if k := len(l.loader.Backends()); k != 3 {
		t.Errorf("%d loads of three models", k)
	}
	t.Logf("%d right, %d times 503, %d left in the middle, %d before the answer, %d refused, %d never asked", l.right.Load(), l.busy.Load(),
		l.cut.Load(), l.gone.Load(), l.refused.Load(), l.half.Load())
}

// load is a server under load, and how its requests ended.
type load struct {
	*rig
	client *http.Client
	vendor *rig       // the vendor's API of the same server
	turn   sync.Mutex // of the vendor's one conversation

	right   atomic.Int64 // exactly right
	busy    atomic.Int64 // times 503 was told
	cut     atomic.Int64 // left after a part of the answer
	gone    atomic.Int64 // left with the request sent
	refused atomic.Int64 // bodies that are too large or no good, each with its status
	half    atomic.Int64 // never finished asking

	mu   sync.Mutex
	open []halfOpen
}

// halfOpen is a connection whose request is not sent whole.
type halfOpen struct {
	net.Conn
	rest string // what makes it whole
	text string // what is answered then
}

func newLoad(t *testing.T) *load {
	r := newRig(t, func(o *server.Options, c *scripted.Config) {
		c.Parallel, c.MaxQueue = 16, 32
		o.ReadTimeout, o.WriteTimeout = time.Hour, time.Hour // what waits here waits for the test
	})
	vendor := httptest.NewServer(r.VendorHandler(t.Context(), true))
	t.Cleanup(vendor.Close)
	l := &load{rig: r, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, ExpectContinueTimeout: patience}},
		vendor: &rig{Server: r.Server, t: t, url: vendor.URL}}
	t.Cleanup(l.client.CloseIdleConnections)
	t.Cleanup(func() {
		for _, h := range l.open {
			_ = h.Close()
		}
	})
	return l
}

// fill has one request find every place taken, so that some are refused however fast the machine
// is.
func (l *load) fill() {
	ctx, release := context.WithCancel(l.t.Context())
	defer release()
	var wg sync.WaitGroup
	for range 16 + 32 {
		wg.Go(func() {
			q, _ := http.NewRequestWithContext(ctx, "POST", l.url+"/api/chat",
				strings.NewReader(chatBody("scripted-chat", "[[delay:600000]][[say:x]]", "")))
			if resp, err := l.client.Do(q); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	l.until("every place is taken", func() bool { s := l.stats(); return s.Running == 16 && s.Queued == 32 })
	if code, h, body, err := l.ask(dialects[1].path, dialects[1].ask("x")); code != 503 || h.Get("Retry-After") == "" || err != nil {
		l.t.Errorf("with every place taken: %d %s %v", code, body, err)
	}
	l.busy.Add(1)
	release()
	wg.Wait()
	l.settled()
}

func (l *load) until(what string, ok func() bool) {
	l.t.Helper()
	for end := time.Now().Add(patience); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("never: %s; %d in flight, %d bytes held, %+v", what, l.InFlight(), l.Room(), l.stats())
		}
	}
}

// stats are all models' together.
func (l *load) stats() (sum ask.Stats) {
	for _, b := range l.loader.Backends() {
		s := b.Stats()
		sum.Running, sum.Queued, sum.Done, sum.Cancelled = sum.Running+s.Running, sum.Queued+s.Queued, sum.Done+s.Done,
			sum.Cancelled+s.Cancelled
	}
	return sum
}

// settled waits until nothing is left of any request.
func (l *load) settled() ask.Stats {
	l.until("nothing is left", func() bool {
		s, used := l.stats(), 0
		for _, r := range l.Loaded() {
			used += r.InUse
		}
		return s.Running+s.Queued+used == 0 && l.InFlight() == 0 && l.Room() == 0
	})
	return l.stats()
}

// words is an answer of this many parts, no two of them the same in all of the load.
func words(i, n int) []string {
	extra := []string{"", " ", "é", `"`, `\`, "\n", "<b>", "&", "🌈", "\u2028"}
	out := make([]string, n)
	for j := range out {
		out[j] = fmt.Sprintf("w%dx%d%s.", i, j, extra[rand.IntN(len(extra))])
	}
	return out
}

func say(delay int, words []string) string {
	return fmt.Sprintf("[[delay:%d]][[say:%s]]", delay, strings.Join(words, "|"))
}

// one makes request i, by its number one of all kinds.
func (l *load) one(i int) error {
	d := dialects[i%len(dialects)]
	streams := dialects[i/200%6*2]
	switch i % 200 {
	case 0:
		return l.slow(i, streams)
	case 1, 2, 3, 4:
		return l.leave(i, streams)
	case 5:
		return l.vanish(i, d)
	case 6:
		return l.openHalf(i, d)
	case 7, 8:
		return l.refuse(i/100 + i%2) // two of them each time
	case 9:
		return l.converse(i)
	}
	if i%200 < 26 {
		return l.embed(i)
	}
	w := words(i, 1+rand.IntN(8))
	body, err := l.get(d.path, d.ask(say(1, w)))
	if err != nil {
		return err
	}
	return l.check(d, body, w)
}

// ask posts a request and reads its answer.
func (l *load) ask(path, body string) (int, http.Header, string, error) {
	resp, err := l.client.Post(l.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b), err
}

// post asks until the request is let in.
func (l *load) post(ctx context.Context, path, body string) (*http.Response, error) {
	for {
		q, err := http.NewRequestWithContext(ctx, "POST", l.url+path, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		resp, err := l.client.Do(q)
		if err != nil || resp.StatusCode == http.StatusOK {
			return resp, err
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || err != nil {
			return nil, fmt.Errorf("%s: %d %s %v", path, resp.StatusCode, b, err)
		}
		l.busy.Add(1)
		<-time.After(5 * time.Millisecond)
	}
}

func (l *load) get(path, body string) (string, error) {
	resp, err := l.post(l.t.Context(), path, body)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// check wants every byte of an answer, once and in its place, and its end.
func (l *load) check(d dialect, body string, words []string) error {
	text, err := d.whole(body)
	if want := strings.Join(words, ""); err == nil && text != want {
		err = fmt.Errorf("%s: got %q, want %q", d.path, text, want)
	}
	if err != nil {
		return err
	}
	l.right.Add(1)
	return nil
}

// slow takes a long answer a little at a time, slower than it is made.
func (l *load) slow(i int, d dialect) error {
	w := words(i, 150)
	for j := range w {
		w[j] += strings.Repeat("-", 200)
	}
	resp, err := l.post(l.t.Context(), d.path, d.ask(say(0, w)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	for err == nil {
		<-time.After(time.Millisecond)
		_, err = io.CopyN(&b, resp.Body, 4<<10)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	return l.check(d, b.String(), w)
}

// leave goes away in the middle of an answer that would take a minute; what came is right as far as
// it goes.
func (l *load) leave(i int, d dialect) error {
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	w := append(words(i, 9), slices.Repeat([]string{"x"}, 6000)...)
	resp, err := l.post(ctx, d.path, d.ask(say(10, w)))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	sep := "\n\n"
	if strings.Contains(resp.Header.Get("Content-Type"), "ndjson") {
		sep = "\n"
	}
	in, got := bufio.NewReader(resp.Body), ""
	for want := 4 + i%4; strings.Count(got, sep) < want; {
		line, err := in.ReadString('\n')
		if got += line; err != nil {
			return fmt.Errorf("%w after %q", err, got)
		}
	}
	cancel()
	text, end, err := d.read(got[:strings.LastIndex(got, sep)+len(sep)])
	if err != nil || end || !strings.HasPrefix(strings.Join(w, ""), text) {
		return fmt.Errorf("%s: %v, end %v, %q is no beginning of the answer", d.path, err, end, text)
	}
	l.cut.Add(1)
	return nil
}

// raw is a request as it goes over the wire.
func raw(d dialect, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", d.path, len(body), body)
}

// vanish sends a request for an answer of ten minutes and is gone.
func (l *load) vanish(i int, d dialect) error {
	c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		return err
	}
	_, err = io.WriteString(c, raw(d, d.ask(say(600_000, words(i, 2)))))
	l.gone.Add(1)
	return errors.Join(err, c.Close())
}

// openHalf sends a part of a request, some of the header or some of the body, and stays.
func (l *load) openHalf(i int, d dialect) error {
	c, err := net.Dial("tcp", strings.TrimPrefix(l.url, "http://"))
	if err != nil {
		return err
	}
	w := words(i, 3)
	req := raw(d, d.ask(say(1, w)))
	at := 1 + rand.IntN(len(req)-1)
	l.mu.Lock()
	l.open = append(l.open, halfOpen{c, req[at:], strings.Join(w, "")})
	l.mu.Unlock()
	_, err = io.WriteString(c, req[:at])
	return err
}

// halfOpen ends the half-open connections: half of them are closed, the others send the rest after
// all and are answered.
func (l *load) halfOpen() {
	for i, h := range l.open {
		if i%2 == 0 {
			_ = h.Close()
			l.half.Add(1)
			continue
		}
		_ = h.SetDeadline(time.Now().Add(patience))
		_, err := io.WriteString(h, h.rest)
		var resp *http.Response
		if err == nil {
			resp, err = http.ReadResponse(bufio.NewReader(h), nil)
		}
		var b []byte
		if err == nil {
			b, err = io.ReadAll(resp.Body)
		}
		found := false
		for _, d := range dialects {
			text, derr := d.whole(string(b))
			found = found || derr == nil && text == h.text
		}
		if err != nil || !found {
			l.t.Errorf("a request that took its time: %v, want %q, got %s", err, h.text, b)
			continue
		}
		l.right.Add(1)
	}
}

// refuse sends what is refused, each with its status and in its dialect's form.
func (l *load) refuse(i int) error {
	const mib = 1 << 20
	big := strings.Repeat("x", mib)
	kinds := []struct {
		path, body string
		code       int
	}{
		{"/api/embed", `{"model":"scripted-embed","input":"` + big + `"}`, 413},
		{"/v1/completions", `{"model":"scripted","prompt":"` + big + `"}`, 413},
		{"/v1/embeddings", `{"model":"scripted-embed","input":"` + big + `"}`, 413}, {"/api/show", `{"model":"` + big + `"}`, 413},
		{"/api/pull", big + "xx", 413},
		{"/api/chat", "", 413}, {"/v1/responses", "", 413}, {"/v1/messages", "", 413}, {"/v1/chat/completions", "", 413},
		{"/api/generate", "", 413},
		{"/api/chat", `{"model":"scripted-chat","messages":` + strings.Repeat("[", 200), 400},
		{"/v1/responses", `{"model":"scripted-chat","input":5}`, 400},
		{"/v1/messages", `{"model":"scripted-chat","messages":[{}]}`, 400},
		{"/api/generate", `{"model":"scripted","prompt":"x","options":{"top_k":-5}}`, 400},
		{"/v1/completions", `{`, 400}, {"/api/embed", `{"model":"scripted-embed","input":5}`, 400},
		{"/v1/embeddings", `{"model":"scripted-embed","input":[]}`, 400},
		{"/v1/chat/completions", `{"model":"nope","messages":[{"role":"user","content":"x"}]}`, 404},
		{"/api/embeddings", `{"model":"nope"}`, 404},
	}
	k := kinds[i%len(kinds)]
	q, err := http.NewRequestWithContext(l.t.Context(), "POST", l.url+k.path, strings.NewReader(k.body))
	if err != nil {
		return err
	}
	switch {
	case k.body == "": // announced, and not sent before the server has said so
		q.Body, q.ContentLength = io.NopCloser(strings.NewReader(big)), 32*mib+1
		q.Header.Set("Expect", "100-continue")
	case i%2 == 0: // of a length that is not told
		q.Body, q.ContentLength = io.NopCloser(strings.NewReader(k.body)), -1
	}
	resp, err := l.client.Do(q)
	if err != nil {
		return fmt.Errorf("%s: %w", k.path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	form := `{"error":"`
	switch {
	case strings.HasPrefix(k.path, "/v1/messages"):
		form = `{"type":"error","error":{`
	case strings.HasPrefix(k.path, "/v1/"):
		form = `{"error":{"message":"`
	}
	if resp.StatusCode != k.code || !strings.HasPrefix(string(b), form) || err != nil {
		return fmt.Errorf("%s: %d %.200s, %v; want %d", k.path, resp.StatusCode, b, err, k.code)
	}
	l.refused.Add(1)
	return nil
}

// converse speaks to the vendor's API, which has one conversation for all: an answer polled for, or
// whole.
func (l *load) converse(i int) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	w := words(i, 1+rand.IntN(8))
	want, q := strings.Join(w, ""), quote(say(1, w))
	for {
		if a := l.vendor.post("/api/reset", `{}`); a.code != 200 {
			return fmt.Errorf("reset: %d %s", a.code, a.body)
		}
		text, code, header := "", 0, http.Header(nil)
		if i/200%2 == 0 {
			a := l.vendor.post("/api/chat", `{"model":"scripted-chat","messages":[{"role":"user","content":`+q+`}]}`)
			var m struct {
				Done    bool
				Message string
			}
			if err := json.Unmarshal([]byte(a.body), &m); err != nil || a.code == 200 && !m.Done {
				return fmt.Errorf("%d %s", a.code, a.body)
			}
			text, code, header = m.Message, a.code, a.header
		} else {
			a := l.vendor.post("/api/generate", `{"model":"scripted-chat","prompt":`+q+`}`)
			for done := false; !done && a.code == 200; <-time.After(time.Millisecond) {
				a = l.vendor.do("GET", "/api/generate_provider", "")
				var m struct {
					Done     bool
					Response string
				}
				if err := json.Unmarshal([]byte(a.body), &m); err != nil {
					return fmt.Errorf("%d %s", a.code, a.body)
				}
				text, done = text+m.Response, m.Done
			}
			code, header = a.code, a.header
		}
		if code == 503 && header.Get("Retry-After") != "" || text == "error: "+pool.ErrQueueFull.Error() {
			l.busy.Add(1)
			<-time.After(5 * time.Millisecond)
			continue
		}
		if code != 200 || text != want {
			return fmt.Errorf("vendor: %d, got %q, want %q", code, text, want)
		}
		l.right.Add(1)
		return nil
	}
}

// embed asks for vectors: of several texts, of one, of one in the old form.
func (l *load) embed(i int) error {
	a, b := fmt.Sprintf("w%dx0", i), fmt.Sprintf("w%dx1", i)
	switch i % 3 {
	case 0:
		body, err := l.get("/api/embed", fmt.Sprintf(`{"model":"scripted-embed","input":["%s %s","%s"]}`, a, b, b))
		var m struct{ Embeddings [][]float64 }
		if err != nil || json.Unmarshal([]byte(body), &m) != nil || len(m.Embeddings) != 2 ||
			!near(m.Embeddings[0], vectorOf([]string{a, b}, true)) || !near(m.Embeddings[1], vectorOf([]string{b}, true)) {
			return fmt.Errorf("vectors of %s: %v %s", a, err, body)
		}
	case 1:
		body, err := l.get("/v1/embeddings", fmt.Sprintf(`{"model":"scripted-embed","input":"%s %s"}`, a, b))
		var m struct {
			Data []struct{ Embedding []float64 }
		}
		if err != nil || json.Unmarshal([]byte(body), &m) != nil || len(m.Data) != 1 ||
			!near(m.Data[0].Embedding, vectorOf([]string{a, b}, true)) {
			return fmt.Errorf("vectors of %s: %v %s", a, err, body)
		}
	case 2:
		body, err := l.get("/api/embeddings", fmt.Sprintf(`{"model":"scripted-embed","prompt":"%s %s"}`, a, b))
		var m struct{ Embedding []float64 }
		if err != nil || json.Unmarshal([]byte(body), &m) != nil || !near(m.Embedding, vectorOf([]string{a, b}, false)) {
			return fmt.Errorf("vectors of %s: %v %s", a, err, body)
		}
	}
	l.right.Add(1)
	return nil
}
