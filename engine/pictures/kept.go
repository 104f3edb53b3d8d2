package pictures

import (
	"container/list"
	"sync/atomic"
)

// Room is the memory of several [Kept]. It may be used from any goroutine.
type Room struct {
	most  int64
	taken atomic.Int64
}

// NewRoom is room for a number of bytes of rows.
func NewRoom(most int64) *Room { return &Room{most: most} }

// take takes n bytes, if they are there.
func (r *Room) take(n int64) bool {
	if r.taken.Add(n) <= r.most {
		return true
	}
	r.taken.Add(-n)
	return false
}

// Kept are the rows of pictures that were encoded, as many as its room has bytes for; what was not
// asked for the longest goes first. Its zero value keeps nothing. It belongs to one goroutine.
type Kept struct {
	room  *Room
	bytes int64
	order list.List // of *Rows, the last asked for first
	at    map[ID]*list.Element
}

// KeepIn keeps rows in a room that others keep theirs in too, who each make room of their own only.
func KeepIn(room *Room) *Kept { return &Kept{room: room} }

// Get finds a picture's rows; nil where they are not kept.
func (k *Kept) Get(id ID) *Rows {
	e := k.at[id]
	if e == nil {
		return nil
	}
	k.order.MoveToFront(e)
	return e.Value.(*Rows)
}

// Put keeps rows, and lets go of others of its own until there is room. Rows for which that would
// not be enough are not kept, and nothing goes for them.
func (k *Kept) Put(r *Rows) {
	n := r.Bytes()
	if k.room == nil || k.at[r.ID] != nil || k.room.taken.Load()-k.bytes+n > k.room.most {
		return
	}
	for !k.room.take(n) {
		if k.order.Len() == 0 {
			return
		}
		k.drop()
	}
	if k.at == nil {
		k.at = map[ID]*list.Element{}
	}
	k.at[r.ID] = k.order.PushFront(r)
	k.bytes += n
}

// drop lets go of what was not asked for the longest.
func (k *Kept) drop() {
	old := k.order.Remove(k.order.Back()).(*Rows)
	delete(k.at, old.ID)
	k.bytes -= old.Bytes()
	k.room.taken.Add(-old.Bytes())
}

// Clear lets go of everything.
func (k *Kept) Clear() {
	for k.order.Len() > 0 {
		k.drop()
	}
}
