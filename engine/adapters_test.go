package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/rows"
)

// TestAdapters: with an adapter a model gives what the checkpoint gives in float64 with B·A added
// to its matrices, and without one what it gives without; also where they alternate.
func TestAdapters(t *testing.T) {
	lane.NoRace(t)
	testAdapters(t, openSoft)
}

func testAdapters(t *testing.T, open func() (axcl.Device, string, error)) {
	dir, ck, deltas := adapted(t, true)
	m, _ := load(t, dir, open, OpenOptions{CardOptions: still})
	texts := []string{"A FOX", "THE DOG AND THE FOX", "WHO"}
	merge := func(name string, by float64) {
		for l, parts := range deltas[name] {
			for k, d := range parts {
				at := "self_attn"
				if k > 3 {
					at = "mlp"
				}
				w := ck.Weight(fmt.Sprintf("model.layers.%d.%s.%s.weight", l, at,
					[]string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}[k]))
				for i := range w {
					w[i] += float32(by * d.V[i])
				}
			}
		}
	}
	want := map[string][][]float32{}
	for _, name := range []string{"", "chart", "design"} {
		merge(name, 1)
		for _, text := range texts {
			ids, err := m.Tokenize(text)
			if err != nil {
				t.Fatal(err)
			}
			rows := ck.Hiddens(axmodeltest.Causal(append(ids, m.b.Ends()...)))
			v := make([]float32, len(rows[0]))
			for i, x := range rows[len(rows)-1] {
				v[i] = float32(x)
			}
			normalise(v)
			want[name] = append(want[name], v)
		}
		merge(name, -1)
	}
	if c := cosine(want["chart"][0], want[""][0]); c > 0.95 {
		t.Fatalf("the adapter changes little: cosine %g", c)
	}
	for range 2 {
		for _, name := range []string{"", "chart", "design", "", "design", "chart"} {
			as := m
			if name != "" {
				as = Adapted(m, name, "tiny:"+name)
			}
			got, err := as.Embed(t.Context(), EmbedRequest{Input: texts})
			if err != nil {
				t.Fatal(err)
			}
			for i := range texts {
				if c := cosine(got.Vectors[i], want[name][i]); c < 0.9995 {
					t.Errorf("%q, %q: cosine %g", name, texts[i], c)
				}
			}
		}
	}
	if _, err := Adapted(m, "none", "tiny:none").Embed(t.Context(), EmbedRequest{Input: texts}); !errors.Is(err, ErrRequest) ||
		!strings.Contains(err.Error(), `no adapter "none"`) {
		t.Errorf("an adapter that is not there: %v", err)
	}
}

// TestAdaptersApart: answers with two adapters and without one, of the same prompt and at once, are
// those of a model that has never had another; each finds its own rows in the cache and no others.
func TestAdaptersApart(t *testing.T) {
	dir, _, _ := adapted(t, false)
	names := []string{"", "chart", "design"}
	ids := make([]int32, 70)
	for i := range ids {
		ids[i] = int32(5 + i*7%90)
	}
	ask := func(m *Model, name string, ids []int32) ([]int32, Usage) {
		o := m.o
		o.Adapter = name
		job := greedy(ids, 12)
		job.Key, job.IgnoreStop = o.key("client"), true
		out, last, err := run(m.b, job)
		if err != nil {
			t.Error(err)
		}
		return out, last.Usage
	}
	want := map[string][]int32{}
	for _, name := range names {
		m, _ := load(t, dir, openSoft, OpenOptions{CardOptions: still})
		want[name], _ = ask(m, name, ids)
	}
	if slices.Equal(want[""], want["chart"]) || slices.Equal(want["chart"], want["design"]) {
		t.Fatal("adapters change nothing")
	}
	m, b := load(t, dir, openSoft, OpenOptions{CardOptions: still})
	for round := range 2 {
		for _, name := range names {
			got, u := ask(m, name, ids)
			if !slices.Equal(got, want[name]) {
				t.Errorf("round %d, %q: %v, alone %v", round, name, got, want[name])
			}
			if least := len(ids) - 1; round == 0 && u.Cached > 0 || round > 0 && u.Cached < least {
				t.Errorf("round %d, %q: %d of %d rows cached", round, name, u.Cached, len(ids))
			}
		}
	}
	var all sync.WaitGroup
	for i := range 9 {
		all.Go(func() {
			if got, _ := ask(m, names[i%3], ids); !slices.Equal(got, want[names[i%3]]) {
				t.Errorf("at once, %q: %v, alone %v", names[i%3], got, want[names[i%3]])
			}
		})
	}
	all.Wait()
	for _, br := range m.Maps(t.Context())[0].Branches {
		if br.Key != "client" {
			t.Errorf("the map tells of a client %q", br.Key)
		}
	}
	clean(t, b)
}

// TestAdaptersOnDisk: rows that one adapter has made are on disk for it alone, also after a
// restart.
func TestAdaptersOnDisk(t *testing.T) {
	dir, _, _ := adapted(t, false)
	d := openRows(t, rows.Options{Dir: t.TempDir()})
	ids := make([]int32, 128)
	for i := range ids {
		ids[i] = int32(5 + i*11%90)
	}
	m, b := load(t, dir, openSoft, OpenOptions{CardOptions: still, Rows: d})
	job := greedy(ids, 4)
	job.Key = (&Options{Adapter: "chart"}).key("client")
	if _, _, err := run(m.b, job); err != nil {
		t.Fatal(err)
	}
	settleDisk(t, b)
	_ = m.Close()
	_, b = load(t, dir, openSoft, OpenOptions{CardOptions: still, Rows: d})
	for name, want := range map[string]int{"": 0, "design": 0, "chart": 120} {
		key, client, _, err := b.m.adapted((&Options{Adapter: name}).key("client"))
		if err != nil || client != "client" {
			t.Fatal(err, client)
		}
		if found := b.m.diskTier.on(key, ids).Found(); found < want || want == 0 && found > 0 {
			t.Errorf("%q: %d rows on disk, want %d", name, found, want)
		}
	}
}

// TestAdaptersJoined: a model whose layers lie on two cards gives each card its part of an adapter.
func TestAdaptersJoined(t *testing.T) {
	dir, _, _ := adapted(t, true)
	one, _ := load(t, dir, openSoft, OpenOptions{CardOptions: still})
	var cards []*Card
	for range 2 {
		c, err := OpenCard(openSoft, still)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		cards = append(cards, c)
	}
	two, _ := load(t, dir, func() (axcl.Device, string, error) {
		d, err := Join(cards...)
		return d, "a test", err
	}, OpenOptions{CardOptions: still})
	r := EmbedRequest{Input: []string{"THE DOG AND THE FOX"}}
	for _, name := range []string{"chart", "design"} {
		want, err1 := Adapted(one, name, name).Embed(t.Context(), r)
		got, err2 := Adapted(two, name, name).Embed(t.Context(), r)
		if err := errors.Join(err1, err2); err != nil || cosine(want.Vectors[0], got.Vectors[0]) < 0.99999 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// adapted makes a small package with the adapters chart and design, and says what they add.
func adapted(t *testing.T, embedding bool) (dir string, ck *axmodeltest.Checkpoint, deltas map[string][][]modelstest.Delta) {
	t.Helper()
	dir = t.TempDir()
	ck, err := axmodeltest.RandomCheckpoint(dir, "qwen3", 5)
	if err != nil {
		t.Fatal(err)
	}
	r, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, "m"), Context: 255, Chunk: 64,
		History: []int{0, 64, 128}, Name: "m", Embedding: embedding})
	if err != nil {
		t.Fatal(err)
	}
	if deltas, err = modelstest.AddAdapters(r.Dir, 4, 7, "chart", "design"); err != nil {
		t.Fatal(err)
	}
	return r.Dir, ck, deltas
}
