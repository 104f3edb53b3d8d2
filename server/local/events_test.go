package local_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/ugorji/go/codec"
	"go.uber.org/goleak"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/pocket"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/prefix"
	"github.com/axle-llm/axle/server/kvevents"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEventsOfRequests: after random requests of several keys, what a subscriber has built from the
// events is what the model's caches told, on the card, in memory and on disk; the files on disk are
// the blocks there; and a request's prompt is found by its tokens alone, as a router does.
func TestEventsOfRequests(t *testing.T) {
	lane.NoRace(t)
	t.Parallel()
	requests := 1000
	if testing.Short() {
		requests = 100
	}
	eventsOfRequests(t, 40<<20, requests)
}

// TestEventsOfASmallDisk: the same where the disk holds only a part of a text, and each block that
// is saved makes others go, those of its own beginning too.
func TestEventsOfASmallDisk(t *testing.T) {
	lane.NoRace(t)
	t.Parallel()
	eventsOfRequests(t, 200<<10, 60)
}

func eventsOfRequests(t *testing.T, size int64, requests int) {
	var lns [2]net.Listener
	for i := range lns {
		var err error
		if lns[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	p := kvevents.New(lns[0], lns[1], kvevents.Options{Node: "here"})
	defer p.Close()
	s := subscribe(t, lns[0].Addr().String())
	dir := t.TempDir()
	told := &teller{at: map[string]map[prefix.Name]int{"card": {}, "memory": {}, "disk": {}}}
	disk, err := rows.Open(rows.Options{Dir: dir, Size: size, Gone: func(n prefix.Name) {
		told.mu.Lock()
		delete(told.at["disk"], n)
		told.mu.Unlock()
		p.Gone(n)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	pkg, err := models.Materialize(pocket.FS(), filepath.Join(t.TempDir(), pocket.Name))
	if err != nil {
		t.Fatal(err)
	}
	m, err := engine.Open(t.Context(), pkg, engine.OpenOptions{Device: "soft", Name: "pocket:latest", Rows: disk,
		CacheRAM: engine.NewMemory(2 << 20), Events: func(model string) engine.Listener {
			told.Listener = p.Open(model)
			return told
		}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	words := strings.Fields("hello there who are you and what can a small machine do today with its card")
	var texts []string
	for n := range requests {
		text := ""
		if len(texts) > 0 && rng.IntN(4) > 0 {
			text = texts[rng.IntN(len(texts))] // a text that goes on
		}
		for range 3 + rng.IntN(16) {
			text += words[rng.IntN(len(words))] + " "
		}
		if len(text) > 1500 {
			text = text[:200]
		}
		if n == requests-1 {
			text = strings.Repeat("what can a small machine do today with its card ", 20)
		}
		if len(texts) < 12 {
			texts = append(texts, text)
		} else {
			texts[rng.IntN(12)] = text
		}
		r := engine.Request{Messages: []ask.Message{{Role: "user", Content: text}}, Limit: 1, Sampling: m.Sampling(),
			Key: []string{"", "", "ann"}[rng.IntN(3)]}
		for _, err := range m.Chat(t.Context(), r) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if n%50 == 49 {
			ids, err := m.Tokens(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			s.eventually(t, "the prompt's blocks", func() bool { return s.found(ids, r.Key) == len(ids)/prefix.Shared })
		}
	}
	same := func() bool {
		told.mu.Lock()
		defer told.mu.Unlock()
		want := map[string]bool{}
		for place, all := range told.at {
			for name := range all {
				want[fmt.Sprintf("%s %016x", map[string]string{"card": "GPU", "memory": "CPU", "disk": "DISK"}[place], name[:8])] = true
			}
		}
		return maps.Equal(s.blocks(), want)
	}
	s.eventually(t, "the state of the caches", same)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	files := map[string]bool{}
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if name := filepath.Base(path); len(name) == 64 {
			files["DISK "+name[:16]] = true
		}
		return err
	}); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	s.eventually(t, "the files on disk, and nothing else", func() bool { return maps.Equal(s.blocks(), files) })
	// In a few requests, whether rows stop in memory on their way to disk is a matter of time.
	few := requests < 100
	if most := told.most; len(files) == 0 || most["card"] == 0 || most["disk"] == 0 || !few && (most["card"] < 5 || most["memory"] == 0) {
		t.Errorf("%d files, at most %v blocks: the test saw little", len(files), most)
	}
}

// teller notes what a listener is told.
type teller struct {
	engine.Listener
	mu   sync.Mutex
	at   map[string]map[prefix.Name]int
	most map[string]int
}

func (l *teller) Stored(place, key string, name prefix.Name, before *prefix.Name, tokens []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at[place][name]++
	if l.most == nil {
		l.most = map[string]int{}
	}
	l.most[place] = max(l.most[place], len(l.at[place]))
	l.Listener.Stored(place, key, name, before, tokens)
}

func (l *teller) Removed(place string, name prefix.Name) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at[place][name]--; l.at[place][name] == 0 {
		delete(l.at[place], name)
	}
	l.Listener.Removed(place, name)
}

// router is what a router knows: blocks by their tokens, and where they are.
type router struct {
	mu   sync.Mutex
	next uint64
	is   map[uint64]*known
	tree map[string]uint64 // the name of the block, by the one before it, salted or not, and its tokens
	gap  bool
}

type known struct {
	at map[string]bool
}

func subscribe(t *testing.T, addr string) *router {
	t.Helper()
	sub := zmq4.NewSub(context.Background(), zmq4.WithLogger(log.New(io.Discard, "", 0)))
	if err := sub.Dial("tcp://" + addr); err != nil {
		t.Fatal(err)
	}
	if err := sub.SetOption(zmq4.OptionSubscribe, "kv@here@pocket"); err != nil {
		t.Fatal(err)
	}
	r := &router{is: map[uint64]*known{}, tree: map[string]uint64{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			m, err := sub.Recv()
			if err != nil || len(m.Frames) != 3 {
				return
			}
			r.apply(t, binary.BigEndian.Uint64(m.Frames[1]), m.Frames[2])
		}
	}()
	t.Cleanup(func() {
		_ = sub.Close()
		<-done
	})
	return r
}

func (r *router) apply(t *testing.T, number uint64, payload []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != 0 && number != r.next {
		t.Errorf("message %d comes after %d", number, r.next-1)
	}
	r.next = number + 1
	var batch []any
	h := new(codec.MsgpackHandle)
	h.RawToString = true
	if err := codec.NewDecoderBytes(payload, h).Decode(&batch); err != nil {
		t.Error(err)
		return
	}
	for _, e := range batch[1].([]any) {
		e := e.([]any)
		name := integer(e[1].([]any)[0])
		switch e[0] {
		case "BlockStored":
			salted := ""
			if e[8] != nil {
				salted = " salted"
			}
			r.tree[fmt.Sprint(cmp.Or(integer(e[2]), 0), salted, list(e[3].([]any)))] = name
			if r.is[name] == nil {
				r.is[name] = &known{map[string]bool{}}
			}
			r.is[name].at[e[6].(string)] = true
		case "BlockRemoved":
			delete(r.is[name].at, e[2].(string))
		}
	}
}

// found is how many blocks of a prompt are on the card.
func (r *router) found(ids []int32, key string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, salted := uint64(0), ""
	if key != "" {
		salted = " salted"
	}
	for block := range slices.Chunk(ids, prefix.Shared) {
		name, ok := r.tree[fmt.Sprint(before, salted, fmt.Sprint(block))]
		if !ok || !r.is[name].at["GPU"] {
			break
		}
		before = name
		n++
	}
	return n
}

func (r *router) blocks() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]bool{}
	for name, k := range r.is {
		for medium := range k.at {
			all[fmt.Sprintf("%s %016x", medium, name)] = true
		}
	}
	return all
}

func (r *router) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the subscriber does not learn of %s", what)
		}
	}
}

func integer(v any) uint64 {
	switch v := v.(type) {
	case int64:
		return uint64(v)
	case uint64:
		return v
	}
	return 0
}

func list(all []any) string {
	ids := make([]uint64, len(all))
	for i, v := range all {
		ids[i] = integer(v)
	}
	return fmt.Sprint(ids)
}
