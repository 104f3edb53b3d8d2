package pictures

import (
	"container/list"
	"sync/atomic"
)

// Room is the memory that several [Cache] share. It may be used from any goroutine.
type Room struct {
	most  int64
	taken atomic.Int64
}

// NewRoom returns a Room for this many bytes of rows.
func NewRoom(most int64) *Room { return &Room{most: most} }

// take takes n bytes if they are free.
func (r *Room) take(n int64) bool {
	if r.taken.Add(n) <= r.most {
		return true
	}
	r.taken.Add(-n)
	return false
}

// Cache holds the rows of encoded pictures, as many as its room has bytes for. The least recently
// used go first. The zero value caches nothing. It belongs to one goroutine.
type Cache struct {
	room  *Room
	bytes int64
	order list.List // of *Rows, the last asked for first
	at    map[ID]*list.Element
}

// NewCache returns a cache whose rows count against a room that caches share. Each cache drops only
// rows of its own.
func NewCache(room *Room) *Cache { return &Cache{room: room} }

// Get returns a picture's rows, or nil if they are not cached.
func (c *Cache) Get(id ID) *Rows {
	e := c.at[id]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*Rows)
}

// Put caches rows, and drops others until there is room. If dropping all of them would not make
// enough room, it drops none and does not cache the rows.
func (c *Cache) Put(r *Rows) {
	n := r.Bytes()
	if c.room == nil || c.at[r.ID] != nil || c.room.taken.Load()-c.bytes+n > c.room.most {
		return
	}
	for !c.room.take(n) {
		if c.order.Len() == 0 {
			return
		}
		c.drop()
	}
	if c.at == nil {
		c.at = map[ID]*list.Element{}
	}
	c.at[r.ID] = c.order.PushFront(r)
	c.bytes += n
}

// drop drops the least recently used rows.
func (c *Cache) drop() {
	old := c.order.Remove(c.order.Back()).(*Rows)
	delete(c.at, old.ID)
	c.bytes -= old.Bytes()
	c.room.taken.Add(-old.Bytes())
}

// Clear drops all rows.
func (c *Cache) Clear() {
	for c.order.Len() > 0 {
		c.drop()
	}
}
