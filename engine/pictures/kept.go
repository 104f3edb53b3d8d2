package pictures

import "container/list"

// Kept are the rows of pictures that were encoded, at most so many bytes of them; what was not asked for the longest goes first. Its zero
// value keeps nothing. It belongs to one goroutine.
type Kept struct {
	most  int64
	bytes int64
	order list.List // of *Rows, the last asked for first
	at    map[ID]*list.Element
}

// Keep makes room for most bytes of rows; 0 or less keeps nothing.
func Keep(most int64) *Kept { return &Kept{most: most} }

// Get finds a picture's rows; nil where they are not kept.
func (k *Kept) Get(id ID) *Rows {
	e := k.at[id]
	if e == nil {
		return nil
	}
	k.order.MoveToFront(e)
	return e.Value.(*Rows)
}

// Put keeps rows, and lets go of others until there is room. Rows that take more than all the room are not kept.
func (k *Kept) Put(r *Rows) {
	n := r.Bytes()
	if k.at[r.ID] != nil || n > k.most {
		return
	}
	for k.bytes+n > k.most {
		last := k.order.Back()
		old := k.order.Remove(last).(*Rows)
		delete(k.at, old.ID)
		k.bytes -= old.Bytes()
	}
	if k.at == nil {
		k.at = map[ID]*list.Element{}
	}
	k.at[r.ID] = k.order.PushFront(r)
	k.bytes += n
}

// Bytes is what the rows kept take, and how many pictures' they are.
func (k *Kept) Bytes() (bytes int64, pictures int) {
	return k.bytes, k.order.Len()
}
