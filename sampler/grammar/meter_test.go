package grammar

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/internal/lane"
)

// TestSchemaBudget (T7): no schema is compiled for longer than the budget has steps: what takes
// more is held to its type and told so, or refused where it is to be enforced whole. Tools beside
// such a one keep what they ask for.
func TestSchemaBudget(t *testing.T) {
	lane.NoRace(t)
	mean := branches(250)
	count := func(o Options) (*Grammar, int64, error) {
		m := newMeter(t.Context())
		g, err := metered(m, func(m *meter) (*Grammar, error) { return compileSchema(m, []byte(mean), o) })
		return g, m.done, err
	}
	g, steps, err := count(Options{})
	if err != nil || !accepts(g, `{"a":3}`) || accepts(g, `3`) || len(g.Notes()) == 0 {
		t.Fatal(err)
	}
	if n := g.Notes()[len(g.Notes())-1]; !strings.Contains(n.Msg, "only its type is enforced") || !strings.Contains(n.Msg, "steps") {
		t.Error(n)
	}
	if steps > maxSteps*3/2+100_000 || steps < maxSteps {
		t.Errorf("%d steps, %d are allowed", steps, maxSteps)
	}
	params := []byte(`{"properties":{"a":{"type":"integer"}},"required":["a"]}`)
	both, err := ToolCalls("llama3", []Tool{{Name: "g", Parameters: params}, {Name: "f", Parameters: []byte(mean)}}, false)
	if err != nil || !accepts(both, `{"name":"g","parameters":{"a":1}}`) || accepts(both, `{"name":"g","parameters":{}}`) ||
		!accepts(both, `{"name":"f","parameters":{"z":1}}`) {
		t.Error(err)
	}
	var own *Error
	_, err = ToolCalls("llama3", []Tool{{Name: "g", Parameters: params}, {Name: "f", Parameters: []byte(mean), Strict: true}}, false)
	if !errors.As(err, &own) || !strings.HasPrefix(own.Where, "tool f") {
		t.Errorf("a strict one: %v", err)
	}
}

// TestDeepSchema: a schema of values that nest deeper than there may be is refused with that, and
// not as one that no value satisfies.
func TestDeepSchema(t *testing.T) {
	//proves:T7 schemas
	deep := func(n int) []byte {
		return []byte(strings.Repeat(`{"type":"object","properties":{"a":`, n) + `{"type":"string"}` + strings.Repeat(`},"required":["a"]}`, n))
	}
	for n, want := range map[int]string{1: "", 63: "", 64: "nests more than 64 deep", 90: "nests more than 64 deep",
		150: "too large: nested more than 200 deep"} {
		if _, err := SchemaWith(deep(n), Options{}); want == "" && err != nil || want != "" && (err == nil ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%d objects in each other: %v, want %q", n, err, want)
		}
	}
	if _, err := SchemaWith([]byte(`{"type":"object","required":["a"],"properties":{"a":false}}`), Options{}); err == nil ||
		!strings.Contains(err.Error(), "no value satisfies") {
		t.Error(err)
	}
}

// TestCompileCancelled: a compilation ends soon after its client has left, and does not begin for
// one that has left before.
func TestCompileCancelled(t *testing.T) {
	//proves:T16 work is counted, no time measured
	for looks := range 6 {
		m := newMeter(&leaver{t.Context(), looks})
		_, err := metered(m, func(m *meter) (*Grammar, error) { return compileSchema(m, []byte(branches(250)), Options{}) })
		if !errors.Is(err, context.Canceled) || m.done > int64(looks+1)*20_000 {
			t.Errorf("%d looks: %v after %d steps", looks, err, m.done)
		}
	}
	ctx, leave := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	leave(gone)
	line := fair.New(1, 0)
	m := memo{line: func() *fair.Line { return line }}
	if err := line.Take(t.Context(), "", 0, 1); err != nil {
		t.Fatal(err)
	}
	_, err := m.get(ctx, "", "x", func(*meter) (*Grammar, error) { t.Error("it was compiled"); return JSON(), nil })
	if !errors.Is(err, gone) || line.Waiting() != 0 {
		t.Errorf("%v, %d wait", err, line.Waiting())
	}
	for _, compile := range []func() (*Grammar, error){
		func() (*Grammar, error) { return SchemaFor(ctx, "", []byte(branches(251)), Options{}) },
		func() (*Grammar, error) { return GBNFFor(ctx, "", `root ::= "never seen before"`) },
		func() (*Grammar, error) { return ToolCallsFor(ctx, "", "qwen", []Tool{{Name: "never_seen"}}, true) },
	} {
		if _, err := compile(); !errors.Is(err, gone) {
			t.Error(err)
		}
	}
}

// TestSchemaTurns (T16): a key that has ordered many compilations keeps another key's waiting for
// the one under way, and then for as much work as its own.
func TestSchemaTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := fair.New(1, 0)
		m := memo{line: func() *fair.Line { return line }}
		if err := line.Take(t.Context(), "busy", 0, 1); err != nil {
			t.Fatal(err)
		}
		const piece, own = 1_000_000, 5_000
		var mu sync.Mutex
		var done []string
		work := map[string]int{}
		var wg sync.WaitGroup
		ask := func(key string, source, steps int) {
			name := fmt.Sprint(key, " ", len(work))
			work[name] = steps
			wg.Go(func() {
				_, err := m.get(t.Context(), key, strings.Repeat("x", source)+name, func(m *meter) (*Grammar, error) {
					m.step(steps)
					mu.Lock()
					defer mu.Unlock()
					done = append(done, name)
					return JSON(), nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for range 10 {
			ask("much", 50, piece) // of few bytes, and much work
		}
		for range 4 {
			ask("other", 100, own)
		}
		line.Done("busy", 1, 1)
		wg.Wait()
		before, others := 0, 0
		for _, name := range done {
			if name[:4] == "much" {
				before += work[name]
			} else if others++; before > others*own+piece {
				t.Errorf("the %d. of another key's waited for %d steps, a piece has %d and its own have %d: %v", others, before, piece,
					others*own, done)
			}
		}
	})
}

// TestGrammarRoom (T7): automata in use take no more memory together than there is for
// them; the rest is told to come again. Unused ones take none from the next
// request on.
func TestGrammarRoom(t *testing.T) {
	var h held
	most := budget.Get().Schemas
	var used []*Grammar
	for range 100 {
		g := &Grammar{bytes: 10 << 20}
		if err := h.keep(g); err != nil {
			if !errors.Is(err, ErrRoom) {
				t.Fatal(err)
			}
			break
		}
		used = append(used, g)
	}
	if n := int64(len(used)); n != most/(10<<20) {
		t.Errorf("%d of ten megabytes fit into %d", n, most)
	}
	small := &Grammar{bytes: smallest}
	if err := h.keep(small); err != nil {
		t.Error(err)
	}
	runtime.KeepAlive(used)
	used = nil
	if err := h.keep(&Grammar{bytes: most}); err != nil {
		t.Errorf("when none is in use any more: %v", err)
	}
	for name, made := range map[string]func(g *Grammar) (*Grammar, error){
		"thinks before it": func(g *Grammar) (*Grammar, error) { return Thinking(g, Thought{Open: "<think>", End: "</think>"}) },
		"is it or another": func(g *Grammar) (*Grammar, error) { return Or(JSON(), g) },
	} {
		var h held
		large := &Grammar{root: JSON().root, depth: jsonDepth, bytes: most}
		err := h.keep(large)
		use, merr := made(large)
		if err := errors.Join(err, merr); err != nil {
			t.Fatal(err)
		}
		large = nil
		if err := h.keep(&Grammar{bytes: most}); !errors.Is(err, ErrRoom) {
			t.Errorf("beside a grammar that %s: %v", name, err)
		}
		runtime.KeepAlive(use)
	}
	g, err := SchemaWith([]byte(`{"type":"string","pattern":"a.{9}b"}`), Options{})
	if err != nil || g.bytes < 4*int64(len(g.root.next)) || g.bytes > 8*maxTable {
		t.Errorf("%d bytes, %v", g.bytes, err)
	}
}

// TestMaskRoom: the masks of all grammars keep to their part of the budget, whatever is asked at
// once; the grammar that was used longest ago gives its masks up, and has the same again when it is
// asked. A cache that is no longer used takes nothing.
func TestMaskRoom(t *testing.T) {
	var r maskRoom
	most, each := budget.Get().Masks, int64(4<<20)
	word := func() *mask { return &mask{dense: make([]uint64, each/8)} }
	var caches []*maskCache
	for i := range 40 {
		c := &maskCache{limit: 6 << 20, room: &r}
		c.put(maskKey{a: int32(i)}, word())
		caches = append(caches, c)
		held := int64(0)
		for _, c := range caches {
			held += int64(c.size)
		}
		if held != r.taken || held > most {
			t.Fatalf("%d caches hold %d bytes, counted as %d, of %d", len(caches), held, r.taken, most)
		}
	}
	if caches[0].get(maskKey{a: 0}) != nil || caches[39].get(maskKey{a: 39}) == nil {
		t.Error("not the cache that was added to longest ago was emptied")
	}
	for i := range 3 { // beyond its own limit a cache empties itself
		caches[39].put(maskKey{a: int32(100 + i)}, word())
	}
	if n := int64(caches[39].size); n > 6<<20+each || r.kept[len(r.kept)-1].size != n {
		t.Errorf("a cache of its limit has %d, counted as %d", n, r.kept[len(r.kept)-1].size)
	}
	last := &maskCache{limit: 6 << 20, room: &r}
	runtime.KeepAlive(caches)
	caches = nil
	runtime.GC()
	last.put(maskKey{}, word())
	if r.taken != int64(last.size) || len(r.kept) != 1 {
		t.Errorf("%d bytes are taken by %d caches; the one in use has %d", r.taken, len(r.kept), last.size)
	}
	runtime.KeepAlive(last)

	// A grammar allows the same tokens once its masks were given up.
	trie := testTrie()
	for _, src := range []string{`{"type":"integer"}`, `{"enum":["a","bb","ccc"]}`, `{"type":"string","pattern":"[a-f]{3}"}`} {
		g, err := SchemaWith([]byte(src), Options{})
		if err != nil {
			t.Fatal(err)
		}
		allowed := func() []uint64 {
			bits := make([]uint64, (trie.vocab+63)/64)
			g.Matcher(trie).Fill(bits)
			return bits
		}
		want := allowed()
		if g.cacheFor(trie).size == 0 {
			t.Errorf("%s keeps no masks", src)
		}
		g.cacheFor(trie).drop()
		if got := allowed(); !slices.Equal(got, want) {
			t.Errorf("%s: other tokens once its masks were given up", src)
		}
	}
}

// branches is a schema of many branches that have to be told apart, each by an automaton of a
// thousand states.
func branches(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,{"type":"object","properties":{"a":{"const":"x%d"},"b":{"type":"string","pattern":"a{1,900}b%[1]d"}}}`, i)
	}
	return `{"type":"object","oneOf":[` + b.String()[1:] + `]}`
}

// leaver is a context that ends when it was looked at a number of times.
type leaver struct {
	context.Context
	looks int
}

func (l *leaver) Err() error {
	if l.looks--; l.looks < 0 {
		return context.Canceled
	}
	return nil
}
