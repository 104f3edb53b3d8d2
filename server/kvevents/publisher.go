package kvevents

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/internal/zmtp"
	"github.com/axle-llm/axle/prefix"
)

const (
	every      = 50 * time.Millisecond // between two messages of a model
	mostKept   = 1024                  // messages, and
	mostBytes  = 8 << 20               // of them, but
	leastKept  = 64                    // always
	mostFilled = 1 << 16               // numbers that a replay goes back
)

// places are those of the caches, as they name them, and media as they are sent.
var (
	places = []string{"card", "memory", "disk"}
	media  = []string{"GPU", "CPU", "DISK"}
)

const onDisk = 2

// Options of a [Publisher].
type Options struct {
	Node    string         // in the topics
	Allowed []netip.Prefix // which addresses may connect, apart from this machine's own loopback
	Log     *zap.Logger    // nil: none

	byHand bool // a test's: flush alone publishes
}

// Publisher publishes the blocks of all models of a server.
type Publisher struct {
	o      Options
	pub    *zmtp.Pub
	router *zmtp.Router
	salt   []byte
	wake   chan struct{}
	end    chan struct{}
	once   sync.Once
	run    sync.WaitGroup

	out  ranked.Mutex[ranked.EventsOut] // guards next and kept; taken before mu
	next uint64                         // number of the next message
	kept []message

	mu     ranked.Mutex[ranked.Events]
	blocks map[prefix.Name]*block
	dirty  map[prefix.Name]*block // of these something may have changed since the last message
}

// message was published.
type message struct {
	topic   string
	number  uint64
	payload []byte
}

// block is a block that is, or was told to be, somewhere.
type block struct {
	model        string
	name, before uint64
	first        bool
	depth        int // blocks before it
	tokens       []int32
	salt         string
	at           [3]int  // how many copies of the model have it, by place
	told         [3]bool // by place
}

// New returns a publisher on two listeners, which it closes.
func New(events, replay net.Listener, o Options) *Publisher {
	o.Log = cmp.Or(o.Log, zap.NewNop())
	p := &Publisher{o: o, salt: make([]byte, 32), wake: make(chan struct{}, 1), end: make(chan struct{}),
		blocks: map[prefix.Name]*block{}, dirty: map[prefix.Name]*block{}}
	_, _ = rand.Read(p.salt)
	z := zmtp.Options{Allow: p.Allows, Refused: func(peer string, err error) {
		o.Log.Info("a connection to the events of the cache ended", zap.String("peer", peer), zap.Error(err))
	}}
	p.pub = zmtp.NewPub(events, z)
	// The first message, that all from before is gone, is there before anyone can ask for it.
	p.publish("", [][]byte{cleared})
	p.router = zmtp.NewRouter(replay, z, p.replay)
	p.run.Go(p.publishing)
	return p
}

// Port returns the port of the events, where an address may connect and can reach it; else 0, also
// of nil.
func (p *Publisher) Port(from netip.Addr) int {
	if p == nil || !p.Allows(from) {
		return 0
	}
	at, ok := p.pub.Addr().(*net.TCPAddr)
	if !ok || at.IP.IsLoopback() && !from.IsLoopback() {
		return 0
	}
	return at.Port
}

// Allows reports whether an address may connect.
func (p *Publisher) Allows(a netip.Addr) bool {
	return a.IsLoopback() || slices.ContainsFunc(p.o.Allowed, func(n netip.Prefix) bool { return n.Contains(a) })
}

// Close ends the sockets. A second Close does nothing, nor does Close of nil.
func (p *Publisher) Close() error {
	if p == nil {
		return nil
	}
	var err error
	p.once.Do(func() {
		close(p.end)
		p.run.Wait()
		err = p.pub.Close()
		if e := p.router.Close(); err == nil {
			err = e
		}
	})
	return err
}

// Open returns a feed for one copy of a model.
func (p *Publisher) Open(model string) *Feed {
	return &Feed{p: p, model: strings.TrimSuffix(model, ":latest"), has: [2]map[prefix.Name]int{{}, {}}}
}

// Gone says that a block is not on disk any more. A nil Publisher is told nothing.
func (p *Publisher) Gone(name prefix.Name) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if b := p.blocks[name]; b != nil {
		b.at[onDisk] = 0
		p.changed(name, b)
	}
}

// NoDisk says that nothing is found on disk any more. A nil Publisher is told nothing.
func (p *Publisher) NoDisk() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, b := range p.blocks {
		b.at[onDisk] = 0
		p.changed(name, b)
	}
}

// changed notes that a block came or went. mu is held.
func (p *Publisher) changed(name prefix.Name, b *block) {
	p.dirty[name] = b
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Feed is told of one copy of a model.
type Feed struct {
	p     *Publisher
	model string
	has   [2]map[prefix.Name]int // how often, on the card and in memory; guarded by p.mu
}

// Stored notes that a block is at a place.
func (f *Feed) Stored(place, key string, name prefix.Name, before *prefix.Name, tokens []int32) {
	at := slices.Index(places, place)
	if at < 0 {
		return
	}
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.blocks[name]
	if b == nil {
		b = &block{model: f.model, name: short(name), first: before == nil, tokens: slices.Clone(tokens)}
		if key != "" {
			h := hmac.New(sha256.New, p.salt)
			_, _ = h.Write([]byte(key))
			b.salt = hex.EncodeToString(h.Sum(nil)[:12])
		}
		if before != nil {
			b.before, b.depth = short(*before), math.MaxInt32
			if up := p.blocks[*before]; up != nil {
				b.depth = up.depth + 1
			}
		}
		p.blocks[name] = b
	}
	if at == onDisk {
		b.at[at] = 1
	} else if f.has[at][name]++; f.has[at][name] == 1 {
		b.at[at]++
	}
	p.changed(name, b)
}

// Removed notes that a block is there no longer.
func (f *Feed) Removed(place string, name prefix.Name) {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	at := slices.Index(places[:onDisk], place)
	if at < 0 || f.has[at][name] == 0 {
		return
	}
	if f.has[at][name]--; f.has[at][name] == 0 {
		f.remove(at, name)
	}
}

// remove notes that the copy has a block at a place no longer. p.mu is held.
func (f *Feed) remove(at int, name prefix.Name) {
	delete(f.has[at], name)
	b := f.p.blocks[name]
	b.at[at]--
	f.p.changed(name, b)
}

// Close notes that the copy has nothing any more.
func (f *Feed) Close() {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	for at := range f.has {
		for name := range f.has[at] {
			f.remove(at, name)
		}
	}
}

// short is what of a name is sent.
func short(n prefix.Name) uint64 { return binary.BigEndian.Uint64(n[:8]) }

// publishing publishes what changes.
func (p *Publisher) publishing() {
	if p.o.byHand {
		return
	}
	for {
		select {
		case <-p.end:
			return
		case <-p.wake:
		}
		p.flush()
		select { // what changes meanwhile goes into one message
		case <-p.end:
			return
		case <-time.After(every):
		}
	}
}

// flush publishes what has changed since the last time, a message for each model.
func (p *Publisher) flush() {
	p.out.Lock()
	defer p.out.Unlock()
	changes := p.changes()
	for _, model := range slices.Sorted(maps.Keys(changes)) {
		var events [][]byte
		for _, c := range changes[model] {
			if c.stored {
				events = append(events, stored(c.block, media[c.place]))
			} else {
				events = append(events, removed(c.block.name, media[c.place]))
			}
		}
		p.publish(model, events)
	}
}

// change is a block that came to a place or left it.
type change struct {
	*block
	place  int
	stored bool
}

// changes returns what is to be told, by model, each block behind the one before it.
func (p *Publisher) changes() map[string][]change {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string][]change{}
	for name, b := range p.dirty {
		for at, n := range b.at {
			if is := n > 0; is != b.told[at] {
				b.told[at] = is
				all[b.model] = append(all[b.model], change{b, at, is})
			}
		}
		if b.at == [3]int{} {
			delete(p.blocks, name)
		}
	}
	clear(p.dirty)
	for _, list := range all {
		slices.SortFunc(list, func(a, b change) int {
			return cmp.Or(cmp.Compare(a.depth, b.depth), cmp.Compare(a.name, b.name), cmp.Compare(a.place, b.place))
		})
	}
	return all
}

func (p *Publisher) topic(model string) string {
	return "kv@" + strings.ReplaceAll(p.o.Node, "@", "-") + "@" + model
}

// publish sends events and keeps the message. out is held.
func (p *Publisher) publish(model string, events [][]byte) {
	m := message{p.topic(model), p.next, batch(events)}
	p.next++
	p.kept = append(p.kept, m)
	size := 0
	for i := len(p.kept) - 1; i >= 0; i-- {
		size += len(p.kept[i].payload)
		if n := len(p.kept) - i; n > leastKept && (n > mostKept || size > mostBytes) {
			p.kept = slices.Clone(p.kept[i+1:])
			break
		}
	}
	p.pub.Send([]byte(m.topic), number(m.number), m.payload)
}

// replay answers who missed something.
func (p *Publisher) replay(request [][]byte) (reply [][][]byte, err error) {
	if len(request) != 1 || len(request[0]) != 8 {
		return nil, fmt.Errorf("kvevents: a replay is asked for with the number of the first message, in 8 bytes")
	}
	from := binary.BigEndian.Uint64(request[0])
	p.out.Lock()
	defer p.out.Unlock()
	list := p.kept
	if from < list[0].number {
		list = p.snapshot(from)
	}
	for _, m := range list {
		if m.number >= from {
			reply = append(reply, [][]byte{[]byte(m.topic), number(m.number), m.payload})
		}
	}
	return append(reply, [][]byte{{}, number(math.MaxUint64), {}}), nil
}

// snapshot returns messages for the numbers from from on, after which a subscriber knows what was
// told up to now. Where that would be very many, the first numbers are left out. out is held.
func (p *Publisher) snapshot(from uint64) (list []message) {
	p.mu.Lock()
	all := map[string][]change{"": nil}
	for _, b := range p.blocks {
		for at, told := range b.told {
			if told {
				all[b.model] = append(all[b.model], change{b, at, true})
			}
		}
	}
	p.mu.Unlock()
	models := slices.Sorted(maps.Keys(all)) // "" is the first
	empty, first := batch(nil), p.next-uint64(len(models))
	for n := max(from, p.next-min(p.next, mostFilled)); n < first; n++ {
		list = append(list, message{p.topic(""), n, empty})
	}
	for i, model := range models {
		var events [][]byte
		if i == 0 {
			events = append(events, cleared)
		}
		slices.SortFunc(all[model], func(a, b change) int { return cmp.Compare(a.depth, b.depth) })
		for _, c := range all[model] {
			events = append(events, stored(c.block, media[c.place]))
		}
		list = append(list, message{p.topic(model), first + uint64(i), batch(events)})
	}
	return list
}
