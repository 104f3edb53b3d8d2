package server_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/pocket"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/local"
)

// TestTiersUsage: in every dialect, whole and streamed, the usage of an answer counts prompt tokens
// whose rows came from the card, from this machine's memory and, after a restart, from disk.
func TestTiersUsage(t *testing.T) {
	lane.NoRace(t)
	dir := t.TempDir()
	asks := make([]string, len(tierDialects))
	for i := range asks {
		asks[i] = fmt.Sprintf("%d: ", i) + strings.Repeat(fmt.Sprintf("question %d of many words ", i), 16)
	}
	first := tierRig(t, dir, 64<<20)
	for i, d := range tierDialects {
		stream := i%2 == 0
		prompt, cold := first.usage(d, asks[i], stream)
		// Of other dialects' prompts it has the beginning at most.
		if prompt < 100 || cold > prompt/3 {
			t.Fatalf("%s: %d of %d prompt tokens are cached before the first request", d.path, cold, prompt)
		}
		if _, card := first.usage(d, asks[i], stream); card != prompt-1 {
			t.Errorf("%s: %d of %d prompt tokens are cached on the card", d.path, card, prompt)
		}
		first.away()
		before := first.model.Stats()
		_, memory := first.usage(d, asks[i], !stream)
		if n := first.model.Stats().Memory.Hits - before.Memory.Hits; n == 0 || memory != int(n) || memory < prompt/2 {
			t.Errorf("%s: usage counts %d of %d prompt tokens, %d rows came from memory", d.path, memory, prompt, n)
		}
	}
	first.away()
	if d := first.model.Stats().Disk; d.Out == 0 || d.Hits != 0 {
		t.Errorf("what is in memory comes from there, and goes to the disk too: %+v", d)
	}
	first.close()
	second := tierRig(t, dir, 0)
	for i, d := range tierDialects {
		before := second.model.Stats()
		prompt, disk := second.usage(d, asks[i], i%2 == 1)
		st := second.model.Stats()
		n := st.Disk.Hits - before.Disk.Hits
		// The beginning that all have in common is on the card from the second on.
		if n == 0 || disk < int(n) || disk-int(n) > prompt/3 || st.Memory.Hits != 0 {
			t.Errorf("%s, after a restart: usage counts %d of %d prompt tokens, %d rows came from disk", d.path, disk, prompt, n)
		}
		if n := int(st.CachedTokens - before.CachedTokens); n != disk {
			t.Errorf("%s, after a restart: usage counts %d, the metrics %d", d.path, disk, n)
		}
	}
	second.close()
}

// tierDialects are the dialects that tell of cached tokens, with one token to answer; %s is the
// prompt, quoted, %t whether it is streamed.
var tierDialects = []struct{ path, body string }{
	{"/api/chat", `{"model":"pocket","messages":[{"role":"user","content":%s}],"stream":%t,"options":{"num_predict":1}}`},
	{"/api/generate", `{"model":"pocket","prompt":%s,"stream":%t,"options":{"num_predict":1}}`},
	{"/v1/chat/completions", `{"model":"pocket","messages":[{"role":"user","content":%s}],"stream":%t,"stream_options":{"include_usage":true},` +
		`"max_tokens":1}`},
	{"/v1/completions", `{"model":"pocket","prompt":%s,"stream":%t,"stream_options":{"include_usage":true},"max_tokens":1}`},
	{"/v1/responses", `{"model":"pocket","input":%s,"stream":%t,"max_output_tokens":1}`},
	{"/v1/messages", `{"model":"pocket","messages":[{"role":"user","content":%s}],"stream":%t,"max_tokens":1}`},
}

var (
	promptRE = regexp.MustCompile(`"(prompt_eval_count|prompt_tokens|input_tokens)":(\d+)`)
	cachedRE = regexp.MustCompile(`"(prompt_eval_cached_count|cached_tokens|cache_read_input_tokens)":(\d+)`)
)

// tiered is a server over the engine on the software card, by whose clock only passes take time:
// whatever is kept is worth bringing back.
type tiered struct {
	t     *testing.T
	url   string
	model *engine.Model
	load  func(context.Context, *catalog.Entry) (ask.Model, error)
	close func()
}

func (l *tiered) Load(ctx context.Context, e *catalog.Entry) (ask.Model, error) {
	return l.load(ctx, e)
}

// slow is a device on which each row of a pass takes ten milliseconds, and all else takes no time.
type slow struct {
	axcl.Device
	now *atomic.Int64
}

type slowModel struct {
	axcl.Model
	now *atomic.Int64
}

func (d slow) Loader(spec axcl.LoadSpec) (axcl.Loader, error) {
	l, err := d.Device.Loader(spec)
	return axcltest.LoadAs(l, err, func(m axcl.Model) axcl.Model { return slowModel{m, d.now} })
}

func (m slowModel) Run(p *axcl.Pass) error {
	m.now.Add(int64(p.Rows()) * int64(10*time.Millisecond))
	return m.Model.Run(p)
}

// tierRig starts a server that keeps rows on disk in dir, and in this many bytes of memory.
func tierRig(t *testing.T, dir string, memory int64) *tiered {
	t.Helper()
	var now atomic.Int64
	card, err := engine.OpenCard(func() (axcl.Device, string, error) {
		d, err := soft.Open(soft.Options{Threads: 1})
		return slow{d, &now}, "test", err
	}, engine.CardOptions{Clock: func() time.Duration { return time.Duration(now.Load()) }})
	if err != nil {
		t.Fatal(err)
	}
	disk, err := rows.Open(rows.Options{Dir: dir, Size: 1 << 30, Block: 16})
	if err != nil {
		t.Fatal(err)
	}
	ram := engine.NewMemory(memory)
	st, err := store.Open(store.Options{Dir: t.TempDir(), Builtin: map[string]fs.FS{pocket.Name: pocket.FS()}})
	if err != nil {
		t.Fatal(err)
	}
	l := &tiered{t: t}
	l.load = func(ctx context.Context, e *catalog.Entry) (ask.Model, error) {
		p, err := e.Model.Open()
		if err != nil {
			return nil, err
		}
		l.model, err = engine.OpenPackage(ctx, p, engine.OpenOptions{Card: card, Name: e.Name.String(), CacheRAM: ram, Rows: disk})
		if err != nil {
			return nil, errors.Join(err, p.Close())
		}
		return l.model, nil
	}
	s := server.New(local.New(st, local.Options{}), l, nil, server.Options{Loopback: true, KeepAlive: time.Hour})
	ts := httptest.NewServer(s.Handler())
	l.url = ts.URL
	l.close = func() {
		t.Helper()
		ts.CloseClientConnections()
		ts.Close()
		if err := errors.Join(s.Close(context.Background()), card.Close(), disk.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	}
	(&rig{Server: s, t: t, url: ts.URL}).post("/api/generate", `{"model":"pocket"}`) // loads it
	if l.model == nil {
		t.Fatal("the model was not loaded")
	}
	return l
}

// away puts what is on the card aside, and lets the card forget it.
func (l *tiered) away() {
	l.t.Helper()
	if err := errors.Join(engine.Settle(l.t.Context(), l.model.Backend()), engine.Forget(l.t.Context(), l.model.Backend())); err != nil {
		l.t.Fatal(err)
	}
}

// usage asks in a dialect, and gives how many tokens the prompt had and how many of them were
// cached, as the answer says.
func (l *tiered) usage(d struct{ path, body string }, ask string, stream bool) (prompt, cached int) {
	l.t.Helper()
	a := (&rig{t: l.t, url: l.url}).post(d.path, fmt.Sprintf(d.body, quote(ask), stream))
	p, c := promptRE.FindAllStringSubmatch(a.body, -1), cachedRE.FindAllStringSubmatch(a.body, -1)
	if a.code != 200 || len(p) == 0 || len(c) == 0 {
		l.t.Fatalf("%s: %d %s", d.path, a.code, a.body)
	}
	prompt, _ = strconv.Atoi(p[len(p)-1][2])
	cached, _ = strconv.Atoi(c[len(c)-1][2])
	if d.path == "/v1/messages" { // whose input_tokens are those that were not cached
		prompt += cached
	}
	return prompt, cached
}
