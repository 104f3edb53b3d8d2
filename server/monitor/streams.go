package monitor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/request"
)

// Header is the header in which a client says whose its requests are.
const Header = "Axle-Session"

// Errors of streams and sessions.
var (
	ErrSession = errors.New(Header + " takes 16 to 64 letters, digits, - and _, chosen at random")
	ErrOver    = errors.New("this answer is over, or there was none")
	ErrOthers  = errors.New("this answer was asked for by somebody else: only one's own can be ended, with the same key or the same " +
		Header)
)

// Owner is who asks: a key's owner where there are keys, else a session. The zero Owner owns
// nothing.
type Owner struct {
	key     string
	keyed   bool
	session [sha256.Size]byte // of its ID: no one else is to learn it
	named   bool
}

var sessionID = regexp.MustCompile(`^[0-9A-Za-z_-]{16,64}$`)

// OwnerOfKey is who cannot send a session: only what has the key's owner is theirs.
func OwnerOfKey(key string) Owner { return Owner{key: key, keyed: true} }

// OwnerOf reads a request's owner. keyed says whether the server has keys; key is the owner of the
// request's key. Error: ErrSession.
func OwnerOf(key string, keyed bool, h http.Header) (Owner, error) {
	o := Owner{key: key, keyed: keyed}
	id := h.Get(Header)
	if id == "" {
		return o, nil
	}
	if !sessionID.MatchString(id) {
		return o, ErrSession
	}
	o.session, o.named = sha256.Sum256([]byte(id)), true
	return o, nil
}

// Same reports whether two requests have one owner.
func (o Owner) Same(other Owner) bool {
	//rule:T19 ./server TestEndOwnByKey false
	if o.keyed || other.keyed {
		return o.keyed == other.keyed && o.key != "" && o.key == other.key
	}
	return o.named && other.named && o.session == other.session
}

// Streams are the answers that run or wait. The zero Streams is ready.
type Streams struct {
	mu   ranked.Mutex[ranked.Monitor]
	last int
	all  map[int]*Stream

	first atomic.Int64 // how long the first token of the last answer took that had one
}

// Stream is one answer. A nil Stream takes everything and keeps nothing.
type Stream struct {
	s      *Streams
	id     int
	owner  Owner
	route  string
	since  time.Time
	cancel context.CancelCauseFunc

	model  atomic.Pointer[string]
	loaded atomic.Int64 // when its model was on the card, as began
	queue  atomic.Int64 // how long it then waited for the card, in ns; known with its first token
	began  atomic.Int64 // when its first token came, in ns since since; 0: not yet
	usage  [3]atomic.Int64
}

type inContext struct{}

// Begin notes an answer. What is done for it uses the context, from which [Of] takes the stream;
// call End when it is over.
func (s *Streams) Begin(ctx context.Context, owner Owner, route string) (context.Context, *Stream) {
	st := &Stream{s: s, owner: owner, route: route, since: time.Now()}
	ctx, st.cancel = context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[int]*Stream{}
	}
	s.last++
	st.id = s.last
	s.all[st.id] = st
	return context.WithValue(ctx, inContext{}, st), st
}

// End forgets the stream.
func (st *Stream) End() {
	st.s.mu.Lock()
	delete(st.s.all, st.id)
	st.s.mu.Unlock()
	st.cancel(nil)
}

// Of is the stream that an answer's context is of, or nil.
func Of(ctx context.Context) *Stream {
	st, _ := ctx.Value(inContext{}).(*Stream)
	return st
}

// Named notes the model that is asked, by its whole name.
func (st *Stream) Named(model string) {
	if st != nil {
		st.model.Store(&model)
	}
}

// Loaded notes that the model is on the card.
func (st *Stream) Loaded() {
	if st != nil {
		st.loaded.Store(max(int64(time.Since(st.since)), 1))
	}
}

// Usage notes how far the answer is; the engine calls it with each token.
func (st *Stream) Usage(u ask.Usage) {
	if st == nil {
		return
	}
	if u.Output > 0 && st.began.Load() == 0 {
		st.queue.Store(int64(u.Queue))
		st.began.Store(max(int64(time.Since(st.since)), 1))
		st.s.first.Store(int64(u.FirstToken))
	}
	for i, n := range []int{u.Prompt, u.Cached, u.Output} {
		st.usage[i].Store(int64(n))
	}
}

// Answer is a stream as it is told.
type Answer struct {
	ID     string  `json:"id"`
	Own    bool    `json:"own"`
	Model  string  `json:"model"`
	Route  string  `json:"route"`
	State  string  `json:"state"` // loading, waiting, answering
	Age    float64 `json:"age_seconds"`
	Prompt int64   `json:"prompt_tokens"`
	Cached int64   `json:"cached_tokens"`
	Tokens int64   `json:"tokens"`
	Rate   float64 `json:"tokens_per_second"`

	Load  float64  `json:"load_seconds"`  // until its model was on the card; so far, where it is not
	Queue *float64 `json:"queue_seconds"` // waiting for the card then; nil until the first token
}

// List tells of all answers, the oldest first, to owner.
func (s *Streams) List(owner Owner) []Answer {
	s.mu.Lock()
	all := slices.SortedFunc(maps.Values(s.all), func(a, b *Stream) int { return cmp.Compare(a.id, b.id) })
	s.mu.Unlock()
	out := make([]Answer, 0, len(all))
	for _, st := range all {
		age := time.Since(st.since)
		a := Answer{ID: strconv.Itoa(st.id), Own: owner.Same(st.owner), Route: st.route, State: "loading", Age: age.Seconds(),
			Prompt: st.usage[0].Load(), Cached: st.usage[1].Load(), Tokens: st.usage[2].Load()}
		if m := st.model.Load(); m != nil {
			a.Model = *m
		}
		began, loaded := time.Duration(st.began.Load()), time.Duration(st.loaded.Load())
		if a.Load = age.Seconds(); loaded > 0 {
			a.Load = loaded.Seconds()
		}
		switch {
		case began > 0:
			a.State = "answering"
			a.Queue = new(time.Duration(st.queue.Load()).Seconds())
			if d := (age - began).Seconds(); d > 0 && a.Tokens > 1 {
				a.Rate = float64(a.Tokens-1) / d
			}
		case loaded > 0:
			a.State = "waiting"
		}
		out = append(out, a)
	}
	return out
}

// Answering is how many answers there are.
func (s *Streams) Answering() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.all))
}

// Stop ends an answer of owner's. Errors: ErrOver, ErrOthers.
func (s *Streams) Stop(id string, owner Owner) error {
	n, err := strconv.Atoi(id)
	if err != nil {
		return fmt.Errorf("%w: %.20q is no number of an answer", ErrOver, id)
	}
	s.mu.Lock()
	st := s.all[n]
	s.mu.Unlock()
	switch {
	case st == nil:
		return ErrOver
	//rule:T19 ./server TestEndOwn false
	case !owner.Same(st.owner):
		return ErrOthers
	}
	st.cancel(request.ErrEnded)
	return nil
}

// FirstToken is how long the last answer that began took to begin; 0: none has.
func (s *Streams) FirstToken() time.Duration { return time.Duration(s.first.Load()) }
