package realtime

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
)

// ears hear as many samples as there are.
type ears struct {
	wait  chan struct{} // nil: they do not wait
	takes time.Duration // how long they do
	mu    sync.Mutex
	ends  []error // why they heard no more
	told  int     // of the model live: tenths of a second that it has written a word for
	early int     // hearings that were
	used  int     // of those, ones that were of use
	late  int     // hearings that were not early
	now   int     // hearings now
	most  int     // at once
}

func (e *ears) Model(_ context.Context, name string) (string, bool, error) {
	switch name {
	case "":
		return "ears:latest", false, nil
	case "nope":
		return "", false, body.Fail(404, "model 'nope' not found")
	}
	return name, name == "live", nil
}

func (e *ears) Early(ctx context.Context, name string, r ask.TranscribeRequest, each func(string)) (string, func(), error) {
	e.mu.Lock()
	e.early++
	e.mu.Unlock()
	used := func() {
		e.mu.Lock()
		e.used++
		e.mu.Unlock()
	}
	if name == "shy" {
		each("too soon")
		return "", used, errors.New("not now")
	}
	spoken, err := e.hear(ctx, name, r, each)
	return spoken, used, err
}

func (e *ears) Hear(ctx context.Context, name string, r ask.TranscribeRequest, each func(string)) (string, error) {
	e.mu.Lock()
	e.late++
	e.mu.Unlock()
	return e.hear(ctx, name, r, each)
}

func (e *ears) hear(ctx context.Context, name string, r ask.TranscribeRequest, each func(string)) (string, error) {
	e.mu.Lock()
	e.now++
	e.most = max(e.most, e.now)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.now--
		e.mu.Unlock()
	}()
	switch name {
	case "busy":
		return "", body.Fail(429, "busy")
	case "fault":
		return "", errors.New("a fault")
	case "nothing":
		return "", nil
	}
	if e.wait != nil || e.takes > 0 {
		var done <-chan time.Time
		if e.takes > 0 {
			done = time.After(e.takes)
		}
		select {
		case <-e.wait:
		case <-done:
		case <-ctx.Done():
			e.mu.Lock()
			defer e.mu.Unlock()
			e.ends = append(e.ends, context.Cause(ctx))
			return "", ctx.Err()
		}
	}
	n := 0
	for b := make([]float32, 1000); ; {
		k, err := r.Sound.Read(b)
		if n += k; name == "live" && r.Partial {
			for ; e.told < n/1600; e.told++ {
				each(fmt.Sprintf("%d ", e.told))
			}
		}
		if errors.Is(err, io.EOF) {
			e.told = 0
			each(name)
			each(fmt.Sprintf(" %s %s %d", r.Language, r.Prompt, n))
			return r.Language, nil
		}
		if err != nil {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.told, e.ends = 0, append(e.ends, err)
			return "", err
		}
	}
}

// brain is a model that says what it is told, a word at a time, and a voice. What it is told is the
// text of the last message: "call NAME ARGUMENTS" is a call, "fail" fails, and "breaks" does so in
// the middle.
type brain struct {
	mu    sync.Mutex
	asked []prompt.Request
	word  chan struct{} // each word waits for one; nil: none does
	spoke chan struct{} // each text that is spoken does
}

func (b *brain) Chats(_ context.Context, name string) (string, error) {
	if name == "nope" {
		return "", body.Fail(404, "model 'nope' not found")
	}
	return cmp.Or(name, "brain:latest"), nil
}

func (b *brain) Voice(_ context.Context, name string) (string, error) {
	if name == "nope" {
		return "", body.Fail(404, "no voice 'nope'")
	}
	return cmp.Or(name, "ada"), nil
}

func (b *brain) Answer(ctx context.Context, f func(context.Context) error) error { return f(ctx) }

func (b *brain) Chat(ctx context.Context, r *prompt.Request, each func(ask.Event)) error {
	b.mu.Lock()
	b.asked = append(b.asked, *r)
	b.mu.Unlock()
	said := r.Ask.Messages[len(r.Ask.Messages)-1].Content
	u := ask.Usage{Prompt: len(r.Ask.Messages), Cached: 1}
	if said == "fail" {
		return body.Fail(429, "busy")
	}
	name, arguments, _ := strings.Cut(strings.TrimPrefix(said, "call "), " ")
	if strings.HasPrefix(said, "call ") {
		each(ask.Event{ToolCall: &ask.ToolCall{Name: name, Arguments: json.RawMessage(arguments)}, Usage: u})
		said = ""
	}
	end := ask.ReasonStop
	for _, w := range strings.SplitAfter(said, " ") {
		if err := pass(ctx, b.word); err != nil {
			return err
		}
		if w == "" {
			break
		}
		if r.MaxTokens != nil && u.Output == *r.MaxTokens {
			end = ask.ReasonLength
			break
		}
		u.Output++
		each(ask.Event{Text: w, Usage: u})
		if w == "breaks " {
			return body.Fail(500, "it broke")
		}
	}
	each(ask.Event{Done: &ask.Result{Reason: end, Usage: u}})
	return ctx.Err()
}

// last is what was asked last, in short.
func (b *brain) last() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.asked) == 0 {
		return ""
	}
	var all []string
	for _, m := range b.asked[len(b.asked)-1].Ask.Messages {
		s := m.Role
		if m.ToolName != "" {
			s += " " + m.ToolName
		}
		s += ":" + m.Content
		for _, c := range m.ToolCalls {
			s += c.Name + "(" + string(c.Arguments) + ")"
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

// pass waits for one of what must come.
func pass(ctx context.Context, ch chan struct{}) error {
	if ch == nil {
		return ctx.Err()
	}
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Say makes ten milliseconds of each byte, in two pieces of a text.
func (b *brain) Say(ctx context.Context, voice string, speed float64, texts iter.Seq[string],
	play func(samples []float32, rate int) error) error {
	for text := range texts {
		if err := pass(ctx, b.spoke); err != nil {
			return err
		}
		if strings.Contains(text, "hoarse") {
			return body.Fail(500, "hoarse")
		}
		n := int(240 * float64(len(text)) / speed)
		for _, n := range []int{n / 2, n - n/2} {
			if err := play(make([]float32, n), 24000); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// client is a client of a session.
type client struct {
	t      *testing.T
	ws     *websocket.Conn
	served chan struct{}
	gone   chan error

	mu   sync.Mutex
	came []string

	briefs     []string // see brief
	item, call string   // of the last answer
}

// dial begins a session whose client reads all that comes.
func dial(t *testing.T, ctx context.Context, h Hearer, change ...func(*Options)) *client {
	t.Helper()
	c := connect(t, ctx, h, change...)
	go func() {
		for {
			_, b, err := c.ws.Read(context.WithoutCancel(t.Context()))
			if err != nil {
				c.gone <- err
				return
			}
			c.mu.Lock()
			c.came = append(c.came, string(b))
			c.mu.Unlock()
		}
	}()
	return c
}

// connect begins a session; in it what is louder than a tenth is speech.
func connect(t *testing.T, ctx context.Context, h Hearer, change ...func(*Options)) *client {
	t.Helper()
	o := Options{Hearer: h, Talker: &brain{}, Idle: 2 * time.Minute, Read: 10 * time.Second, Write: 10 * time.Second,
		Room: func(int64) error { return nil },
		Speech: func() Speech {
			return func(window []float32) (float32, error) {
				for _, x := range window {
					if x > 0.1 {
						return 1, nil
					}
				}
				return 0, nil
			}
		},
		Tell: func(err error) (int, string) {
			if f := new(body.Failure); errors.As(err, &f) {
				return f.Status, f.Text
			}
			return 500, err.Error()
		}}
	for _, f := range change {
		f(&o)
	}
	here, there := net.Pipe()
	c := &client{t: t, served: make(chan struct{}), gone: make(chan error, 1)}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(c.served)
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		Serve(ctx, ws, o)
	})}
	one := make(listener, 1)
	one <- there
	go func() { _ = srv.Serve(one) }()
	ws, _, err := websocket.Dial(t.Context(), "ws://localhost/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return here, nil }}}})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	c.ws = ws
	t.Cleanup(func() {
		_ = ws.CloseNow()
		<-c.served
		close(one)
		_ = srv.Close()
	})
	return c
}

// listener has one connection.
type listener chan net.Conn

func (l listener) Accept() (net.Conn, error) {
	if c, more := <-l; more {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (l listener) Close() error   { return nil }
func (l listener) Addr() net.Addr { return &net.UnixAddr{} }

// say sends events, which stand one behind the other. At ~ it waits for what they are answered.
func (c *client) say(events string) {
	c.t.Helper()
	for _, part := range strings.Split(events, "~") {
		for _, e := range strings.SplitAfter(part, "}{") {
			if strings.HasSuffix(e, "}{") {
				e = strings.TrimSuffix(e, "{")
			}
			if e == "" {
				continue
			}
			if !strings.HasPrefix(e, "{") && strings.HasPrefix(e, `"`) {
				e = "{" + e
			}
			kind := websocket.MessageText
			if e[0] == 0 {
				kind = websocket.MessageBinary
			}
			if err := c.ws.Write(c.t.Context(), kind, []byte(e)); err != nil {
				c.t.Logf("%.100s: %v", e, err)
			}
		}
		synctest.Wait()
	}
}

// silence is sound that a brain made: a millisecond has 24 samples, 48 bytes, 64 letters.
var silence = regexp.MustCompile(`"delta":"A{64,}"`)

var ids = regexp.MustCompile(`"(?:item|sess|resp|conv|call)_[A-Z2-7]{26}"`)

// text is what has come, without the names of events, and with numbers for other names.
func (c *client) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := regexp.MustCompile(`"event_id":"event_[A-Z2-7]{26}",?`).ReplaceAllString(strings.Join(c.came, ""), "")
	all = silence.ReplaceAllStringFunc(all, func(s string) string { return fmt.Sprintf(`"delta":"%d ms"`, (len(s)-len(`"delta":""`))/64) })
	c.came = nil
	known := map[string]string{}
	return strings.ReplaceAll(ids.ReplaceAllStringFunc(all, func(id string) string {
		kind, _, _ := strings.Cut(id, "_")
		if known[id] == "" {
			n := 1
			for k := range known {
				if strings.HasPrefix(k, kind) {
					n++
				}
			}
			known[id] = fmt.Sprintf(`%s_%d"`, kind, n)
		}
		return known[id]
	}), ",}", "}")
}

// quiet is what has come when nothing more does.
func (c *client) quiet() string {
	synctest.Wait()
	return c.text()
}

// events are those that have come when nothing more does.
func (c *client) events() (all []map[string]any) {
	c.t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.came {
		var e map[string]any
		if err := json.Unmarshal([]byte(s), &e); err != nil {
			c.t.Error(err)
		}
		all = append(all, e)
	}
	return all
}

// brief takes what has come when nothing more does, and adds what matters of it to briefs.
func (c *client) brief() {
	c.t.Helper()
	sounds := 0
	for _, e := range c.events() {
		of := func(names ...string) (text string) {
			var v any = e
			for _, name := range names {
				m, _ := v.(map[string]any)
				v = m[name]
			}
			text, _ = v.(string)
			return text
		}
		kind := of("type")
		if kind != kindSound && kind != kindWords && sounds > 0 { // words come beside the sound
			c.briefs, sounds = append(c.briefs, fmt.Sprint(sounds, " ms")), 0
		}
		switch kind {
		case kindSound:
			sounds += base64.StdEncoding.DecodedLen(len(of("delta"))) / 48
		case kindTextDone:
			c.briefs = append(c.briefs, of("text"))
		case kindWordsDone:
			c.briefs = append(c.briefs, of("transcript"))
		case kindCallingDone:
			c.call = of("call_id")
			c.briefs = append(c.briefs, of("name")+"("+of("arguments")+")")
		case kindCompleted:
			c.briefs = append(c.briefs, "heard "+of("transcript"))
		case kindFailed:
			c.briefs = append(c.briefs, "unheard: "+of("error", "message"))
		case kindError:
			c.briefs = append(c.briefs, "error: "+of("error", "message"))
		case kindDeleted:
			c.briefs = append(c.briefs, "deleted "+of("item_id"))
		case kindRetrieved:
			c.briefs = append(c.briefs, "retrieved "+of("item", "id"))
		case kindOutput:
			c.item = of("item", "id")
		case kindBegun:
			if topic := of("response", "metadata", "topic"); topic != "" {
				c.briefs = append(c.briefs, "of "+topic+":")
			}
		case kindOver:
			if status := of("response", "status"); status != completed {
				c.briefs = append(c.briefs, status+": "+of("response", "status_details", "reason")+
					of("response", "status_details", "error", "message"))
			}
		}
	}
	if sounds > 0 {
		c.briefs = append(c.briefs, fmt.Sprint(sounds, " ms"))
	}
	c.mu.Lock()
	c.came = nil
	c.mu.Unlock()
}

// ended waits for the connection's end.
func (c *client) ended() error { return <-c.gone }

// sound is an event that brings bytes.
func sound(b []byte) string {
	return `{"type":"input_audio_buffer.append","audio":"` + base64.StdEncoding.EncodeToString(b) + `"}`
}

// pcm24 is an event that brings ms milliseconds of a steady sound.
func pcm24(ms int, loud float64) string { return sound(encoded("pcm", ms, loud)) }

// encoded is a steady sound.
func encoded(format string, ms int, loud float64) (b []byte) {
	switch format {
	case "pcmu":
		return []byte(strings.Repeat(string([]byte{map[float64]byte{0: 0xff, 0.5: 0x8f}[loud]}), 8*ms))
	case "pcma":
		return []byte(strings.Repeat(string([]byte{map[float64]byte{0: 0xd5, 0.5: 0xba}[loud]}), 8*ms))
	}
	v := int16(loud * (1 << 15))
	return []byte(strings.Repeat(string([]byte{byte(v), byte(uint16(v) >> 8)}), 24*ms))
}
