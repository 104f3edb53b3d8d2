package journal

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"

	folders "github.com/axle-llm/axle/internal/folder"
)

// This file is what reads an owner's conversations.

func newID() string { return rand.Text() }

// Page is a part of what changed.
type Page struct {
	ID      string   `json:"owner"` // who this is to devices: another one is not to be mixed with
	Round   int      `json:"round"` // another one: compare all that there is
	Cursor  uint64   `json:"cursor"`
	More    bool     `json:"more,omitempty"` // there is more after the cursor now
	Records []Record `json:"records"`
	// Chats are all conversations that there are, for a device that was away for so long that
	// deletions it did not hear of were forgotten; nil for others.
	Chats []string `json:"chats,omitempty"`
}

// Since gives the newest versions of what changed after a place, in the order of their places; the
// deletion of a conversation has no key. Of things that changed twice only the last is there.
func (o *Owner) Since(seq uint64) (p Page, err error) {
	err = o.with(func() error {
		p = Page{ID: o.who.ID, Round: o.who.Round, Cursor: max(seq, o.who.Pruned), Records: []Record{}}
		if seq < o.who.Pruned {
			p.Cursor = seq
			p.Chats = []string{}
			for id := range o.chats {
				p.Chats = append(p.Chats, id)
			}
			slices.Sort(p.Chats)
		}
		from, _ := slices.BinarySearchFunc(o.feed, seq, func(r ref, seq uint64) int {
			if r.seq <= seq {
				return -1
			}
			return 1
		})
		files := o.reading()
		defer files.close()
		bytes := 0
		for _, r := range o.feed[from:] {
			if !o.newest(r) {
				continue
			}
			if len(p.Records) >= MaxPage || bytes > pageBytes {
				p.More = true
				return nil
			}
			one := Record{Chat: r.chat, Seq: r.seq, Gone: true}
			if r.key != "" {
				c := o.chats[r.chat]
				var err error
				if one, err = files.record(r.chat, c.recs[c.last[r.key]]); err != nil {
					return err
				}
			}
			bytes += len(one.Body)
			p.Records = append(p.Records, one)
			p.Cursor = r.seq
		}
		p.Cursor = max(p.Cursor, o.last)
		return nil
	})
	return p, err
}

// Chats lists the conversations, by the place of their last change.
func (o *Owner) Chats() (ids []string, err error) {
	err = o.with(func() error {
		at := map[string]uint64{}
		for id, c := range o.chats {
			for _, i := range c.last {
				at[id] = max(at[id], c.recs[i].seq)
			}
			ids = append(ids, id)
		}
		slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(at[a], at[b]) })
		return nil
	})
	return ids, err
}

// Chat gives a conversation's records in the order of their places: the newest of each thing that
// is there, or with history every version. It fails with [ErrNone] and [ErrGone].
func (o *Owner) Chat(id string, history bool) (all []Record, err error) {
	err = o.with(func() error {
		c, err := o.there(id)
		if err != nil {
			return err
		}
		files := o.reading()
		defer files.close()
		for i, r := range c.recs {
			if !history && (c.last[r.key] != i || r.gone) {
				continue
			}
			one, err := files.record(id, r)
			if err != nil {
				return err
			}
			all = append(all, one)
		}
		return nil
	})
	return all, err
}

// Bytes is how much a conversation's journal takes. It fails as Chat does.
func (o *Owner) Bytes(id string) (n int64, err error) {
	err = o.with(func() error {
		c, err := o.there(id)
		if err == nil {
			n = c.end
		}
		return err
	})
	return n, err
}

func (o *Owner) there(id string) (*chat, error) {
	if _, gone := o.gone[id]; gone {
		return nil, ErrGone
	}
	if c := o.chats[id]; c != nil {
		return c, nil
	}
	return nil, ErrNone
}

// Used is how many bytes the owner's files take, and may take.
func (o *Owner) Used() (used, most int64, err error) {
	err = o.with(func() error { used = o.used(); return nil })
	return used, o.f.o.Size, err
}

// reader has the journal open that was read last.
type reader struct {
	o    *Owner
	chat string
	f    folders.File
}

func (o *Owner) reading() *reader { return &reader{o: o} }

func (r *reader) close() {
	if r.f != nil {
		_ = r.f.Close()
	}
}

func (r *reader) record(id string, at rec) (Record, error) {
	if r.f == nil || r.chat != id {
		r.close()
		f, err := r.o.f.disk.Open(r.o.at(logOf(id)))
		if err != nil {
			r.f = nil
			return Record{}, err
		}
		r.f, r.chat = f, id
	}
	b := make([]byte, at.size)
	if n, err := r.f.ReadAt(b, at.off); n < len(b) || err != nil && !errors.Is(err, io.EOF) {
		return Record{}, fmt.Errorf("%s: %w", r.o.at(logOf(id)), cmp.Or(err, io.ErrUnexpectedEOF))
	}
	one, _, ok := parse(b)
	if !ok || one.Seq != at.seq {
		return one, fmt.Errorf("%s was damaged at byte %d since it was read: ask again", r.o.at(logOf(id)), at.off)
	}
	return one, nil
}
