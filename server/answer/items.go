package answer

import (
	"container/list"
	"net/http"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/ollama"
	"github.com/axle-llm/axle/server/openai"
)

// How long the items of an answer of /v1/responses can be named, and how much is kept for each key and for all. The oldest go first.
const (
	keepItems   = 10 * time.Minute
	mostOfKey   = 2 << 20
	mostOfAll   = 32 << 20
	itemCost    = 512 // what an item takes besides its text
	tooMuchItem = 1 << 20
)

// items are those that the last answers had, each key's apart (promise T17). The zero value is ready.
type items struct {
	mu  ranked.Mutex[ranked.Items]
	by  map[string]*keyItems
	all int
}

// keyItems are a key's.
type keyItems struct {
	order list.List // of *kept, oldest first
	by    map[string]*list.Element
	bytes int
}

type kept struct {
	openai.Item
	at time.Time
}

func (k *kept) cost() int { return len(k.ID) + len(k.JSON) + itemCost }

// keep takes an answer's items.
func (s *items) keep(key string, all []openai.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.expire(now)
	for _, it := range all {
		k := &kept{it, now}
		if k.cost() > tooMuchItem {
			continue
		}
		if s.by == nil {
			s.by = map[string]*keyItems{}
		}
		of := s.by[key]
		if of == nil {
			of = &keyItems{by: map[string]*list.Element{}}
			s.by[key] = of
		}
		for of.bytes+k.cost() > mostOfKey {
			s.drop(key, of)
		}
		of.by[it.ID] = of.order.PushBack(k)
		of.bytes += k.cost()
		s.all += k.cost()
	}
	for s.all > mostOfAll {
		var oldest string
		for key, of := range s.by {
			if o := s.by[oldest]; o == nil || front(of).at.Before(front(o).at) {
				oldest = key
			}
		}
		s.drop(oldest, s.by[oldest])
	}
}

// find gives a key's item.
func (s *items) find(key, id string) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire(time.Now())
	if of := s.by[key]; of != nil && of.by[id] != nil {
		return of.by[id].Value.(*kept).JSON, true
	}
	return nil, false
}

// expire drops what is too old.
func (s *items) expire(now time.Time) {
	for key, of := range s.by {
		for of.order.Len() > 0 && now.Sub(front(of).at) >= keepItems {
			s.drop(key, of)
		}
	}
}

func front(of *keyItems) *kept { return of.order.Front().Value.(*kept) }

// drop lets a key's oldest item go. A key without items is not remembered.
func (s *items) drop(key string, of *keyItems) {
	k := of.order.Remove(of.order.Front()).(*kept)
	delete(of.by, k.ID)
	of.bytes -= k.cost()
	s.all -= k.cost()
	if of.order.Len() == 0 {
		delete(s.by, key)
	}
}

// referred decodes a body in which kept items have taken the place of references to them; it is weighed again where it has grown by that.
func referred[T any](a *Answers, x *exchange.Exchange, decode func([]byte) (T, error)) func([]byte) (T, error) {
	return func(b []byte) (none T, err error) {
		key := x.Owner()
		whole, err := openai.Refer(b, func(id string) ([]byte, bool) { return a.items.find(key, id) })
		switch {
		case err != nil:
			return none, err
		case len(whole) > exchange.MaxBody && len(whole) > len(b):
			return none, ollama.Fail(http.StatusRequestEntityTooLarge,
				"the request body is too large with the items that it names: the limit is %d MiB", exchange.MaxBody>>20)
		case len(whole) != len(b):
			if err := x.Weigh(whole, false); err != nil {
				return none, err
			}
		}
		return decode(whole)
	}
}
