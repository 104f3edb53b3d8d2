package openai

import (
	"container/list"
	"slices"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
)

// How long the items of an answer of /v1/responses can be named, and how much is kept for each key
// and for all. The oldest go first.
const (
	keepItems   = 10 * time.Minute
	mostOfKey   = 2 << 20
	mostOfAll   = 32 << 20
	itemCost    = 512 // what an item takes in addition to its text
	tooMuchItem = 1 << 20
)

// items are those that the last answers had, each key's apart (promise T17). The zero value is
// ready.
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

// kept is an item, or a turn of a conversation.
type kept struct {
	Item
	turn     bool   // ID is the answer's, JSON a list of items
	previous string // of a turn: the one before
	at       time.Time
}

func (k *kept) cost() int { return len(k.ID) + len(k.JSON) + len(k.previous) + itemCost }

// keep takes an answer's items, and where it is not nil the turn that it ends.
func (s *items) keep(key string, all []Item, t *Turn) {
	for _, it := range all {
		s.add(key, &kept{Item: it})
	}
	if t != nil {
		s.add(key, &kept{Item: Item{ID: t.ID, JSON: t.JSON}, turn: true, previous: t.Previous})
	}
}

func (s *items) add(key string, k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.at = time.Now()
	s.expire(k.at)
	if k.cost() > tooMuchItem {
		return
	}
	if s.by == nil {
		s.by = map[string]*keyItems{}
	}
	of := s.by[key]
	if of == nil {
		of = &keyItems{by: map[string]*list.Element{}}
		s.by[key] = of
	}
	//rule:T17 TestItems false
	for of.bytes+k.cost() > mostOfKey {
		s.drop(key, of)
	}
	of.by[k.ID] = of.order.PushBack(k)
	of.bytes += k.cost()
	s.all += k.cost()
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
	if k := s.get(key, id); k != nil && !k.turn {
		return k.JSON, true
	}
	return nil, false
}

// conversation gives a key's turns up to and with an answer. They are kept anew from now on, so
// that a conversation that goes on stays.
func (s *items) conversation(key, id string) (turns [][]byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.expire(now)
	var chain []*kept
	for ; id != ""; id = chain[len(chain)-1].previous {
		k := s.get(key, id)
		if k == nil || !k.turn {
			return nil, false
		}
		chain = append(chain, k)
	}
	of := s.by[key]
	for _, k := range slices.Backward(chain) {
		k.at = now
		of.order.MoveToBack(of.by[k.ID])
		turns = append(turns, k.JSON)
	}
	return turns, true
}

// get is what a key has of an id, or nil.
func (s *items) get(key, id string) *kept {
	if of := s.by[key]; of != nil && of.by[id] != nil {
		return of.by[id].Value.(*kept)
	}
	return nil
}

// expire drops what is too old.
func (s *items) expire(now time.Time) {
	for key, of := range s.by {
		//rule:T17 TestItems now.Sub(front(of).at) >= keepItems => false
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

// keysItems are those of one key, as requests refer to them.
type keysItems struct {
	items *items
	key   string
}

func (k keysItems) Item(id string) ([]byte, bool)           { return k.items.find(k.key, id) }
func (k keysItems) Conversation(id string) ([][]byte, bool) { return k.items.conversation(k.key, id) }
