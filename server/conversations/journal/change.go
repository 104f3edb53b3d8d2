package journal

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// This file is what changes an owner's conversations.

// Conflict is a record that follows another version than the newest. Those before it were kept.
type Conflict struct {
	Key string
	Seq uint64 // of the newest version
}

func (c *Conflict) Error() string {
	return fmt.Sprintf("%s has changed: its newest version is %d", c.Key, c.Seq)
}

// Lacks is a record whose picture is not there. Those before it were kept.
type Lacks struct{ Blob string }

func (l *Lacks) Error() string { return "the picture " + l.Blob + " is not there: send it first" }

// check refuses records that are not sound. Bodies become JSON without line breaks.
func check(list []Record) error {
	if len(list) == 0 || len(list) > MaxBatch {
		return refuse("a request has 1 to %d records, and this one has %d", MaxBatch, len(list))
	}
	for i := range list {
		r := &list[i]
		switch {
		case !SoundID(r.ID), !SoundID(r.Key):
			return refuse("record %d: id and key are 1 to 64 letters, digits, - and _", i+1)
		case r.Gone && len(r.Blobs) > 0:
			return refuse("record %d: what is deleted has no pictures", i+1)
		case len(r.Blobs) > 64 || slices.ContainsFunc(r.Blobs, func(b string) bool { return !soundBlob(b) }):
			return refuse("record %d: blobs are at most 64 SHA-256, each of 64 hexadecimal digits", i+1)
		case len(r.Body) > MaxRecord:
			return refuse("record %d has %d bytes: at most %d are kept", i+1, len(r.Body), MaxRecord)
		}
		var b bytes.Buffer
		if json.Compact(&b, r.Body) != nil || b.Len() == 0 || b.Bytes()[0] != '{' {
			return refuse("record %d: the body is no JSON object", i+1)
		}
		r.Body = b.Bytes()
	}
	return nil
}

// Append keeps versions of a conversation's things, in their order and up to the first that cannot
// be kept. It returns their places: as many as were kept. A record that is there already has the
// place it has. A thing's deletion takes its versions out of the journal. Errors: [ErrGone],
// [*Conflict], [*Lacks], [*Refusal], the disk's.
func (o *Owner) Append(id string, list []Record) (seqs []uint64, err error) {
	if !SoundID(id) {
		return nil, refuse("a conversation's id is 1 to 64 letters, digits, - and _")
	}
	if err := check(list); err != nil {
		return nil, err
	}
	err = o.with(func() error {
		//rule:T17 TestDeleted [id]; gone { => [id]; gone && false {
		if _, gone := o.gone[id]; gone {
			return ErrGone
		}
		c := o.chats[id]
		if c == nil {
			c = &chat{last: map[string]int{}}
		}
		var why error
		seqs, why = o.add(id, c, list)
		if why != nil && !ours(why) {
			seqs = nil
		}
		return why
	})
	return seqs, err
}

func (o *Owner) add(id string, c *chat, list []Record) (seqs []uint64, why error) {
	var out []byte
	var made []rec
	last, dead := map[string]rec{}, map[string]uint64{}
	for key, i := range c.last {
		last[key] = c.recs[i]
	}
	next := o.last
	for _, r := range list {
		newest := last[r.Key]
		//rule:D13 TestAgain newest.id == r.ID => false
		if newest.id == r.ID {
			seqs = append(seqs, newest.seq)
			continue
		}
		if newest.seq != r.Base {
			i := slices.IndexFunc(c.recs, func(had rec) bool { return had.id == r.ID && had.key == r.Key })
			if i < 0 {
				why = &Conflict{r.Key, newest.seq}
				break
			}
			seqs = append(seqs, c.recs[i].seq) // a later version has taken its place, and is known to who asks next
			continue
		}
		if i := slices.IndexFunc(r.Blobs, func(b string) bool { return o.blobs[b] == nil || o.blobs[b].size < 0 }); i >= 0 {
			why = &Lacks{r.Blobs[i]}
			break
		}
		next++
		r.Chat, r.Seq = id, next
		b, err := line(r)
		if err != nil {
			return nil, err
		}
		if why = o.fits(c, int64(len(out)+len(b)), len(made)+1, r.Gone); why != nil {
			break
		}
		if r.Gone && newest.seq > 0 {
			dead[r.Key] = next
		}
		made = append(made, rec{r.ID, r.Key, next, r.Gone, r.Blobs, c.end + int64(len(out)), len(b)})
		last[r.Key] = made[len(made)-1]
		out, seqs = append(out, b...), append(seqs, next)
	}
	if len(made) == 0 {
		return seqs, why
	}
	keep := o.extend
	if len(dead) > 0 {
		keep = o.rewrite
	}
	if err := keep(id, c, made, out, dead); err != nil {
		o.doubt(logOf(id))
		return nil, err
	}
	o.last = next
	for _, r := range made {
		o.feed = append(o.feed, ref{r.seq, id, r.key})
	}
	o.tidy()
	o.tell()
	return seqs, why
}

// doubt notes a file that a write has failed of.
func (o *Owner) doubt(name string) {
	if o.unsure == nil {
		o.unsure = map[string]bool{}
	}
	o.unsure[name] = true
}

// fits refuses what is more than may be. A deletion takes little, and makes room: it always fits.
func (o *Owner) fits(c *chat, size int64, n int, gone bool) error {
	switch {
	case gone:
		return nil
	case c.end+size > maxChat:
		return full("this conversation takes %d MiB on the server, which is the most: begin a new one", int64(maxChat)>>20)
	case o.records+n > maxRecords:
		return full("this key has %d records of conversations on the server, which is the most: delete some conversations", o.records)
	case len(c.recs) == 0 && len(o.chats) >= maxChats:
		return full("this key has %d conversations on the server, which is the most: delete some", len(o.chats))
	}
	return o.room(size)
}

// extend appends to a journal.
func (o *Owner) extend(id string, c *chat, made []rec, out []byte, _ map[string]uint64) error {
	f, err := o.f.disk.Create(o.at(logOf(id)))
	if err != nil {
		return err
	}
	_, err = f.WriteAt(out, c.end)
	if err == nil {
		//rule:G9 TestCrashes f.Sync() => error(nil)
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil && len(c.recs) == 0 {
		//rule:G9 TestCrashes o.f.disk.SyncDir(o.dir) => error(nil)
		err = o.f.disk.SyncDir(o.dir)
	}
	if err != nil {
		return err
	}
	o.chats[id] = c
	o.size += int64(len(out))
	o.records += len(made)
	for _, r := range made {
		c.add(r)
		o.refer(r.blobs, 1)
	}
	return nil
}

// rewrite writes a journal anew, without what is dead, and with what was made.
func (o *Owner) rewrite(id string, c *chat, made []rec, out []byte, dead map[string]uint64) error {
	old, err := o.read(logOf(id), maxChat+maxLine)
	if err != nil {
		return err
	}
	next := &chat{last: map[string]int{}}
	b := make([]byte, 0, len(old)+len(out))
	take := func(r rec, from []byte) {
		//rule:T17 TestDeleted r.seq < dead[r.key] => false
		if r.seq < dead[r.key] {
			return
		}
		r.off = int64(len(b))
		b = append(b, from...)
		next.add(r)
	}
	for _, r := range c.recs {
		if r.off+int64(r.size) > int64(len(old)) {
			return fmt.Errorf("%s ends too soon", o.at(logOf(id)))
		}
		take(r, old[r.off:r.off+int64(r.size)])
	}
	for _, r := range made {
		take(r, out[r.off-c.end:][:r.size])
	}
	if err := o.write(logOf(id), b); err != nil {
		return err
	}
	o.hold(c, -1)
	o.chats[id] = next
	o.hold(next, 1)
	return o.sweep(false)
}

// tidy forgets what of the feed was overtaken, where that is much.
func (o *Owner) tidy() {
	if len(o.feed) >= o.tidyAt {
		o.feed = slices.DeleteFunc(o.feed, func(r ref) bool { return !o.newest(r) })
		o.tidyAt = 2*len(o.feed) + 1000
	}
}

// newest reports whether a place of the feed is that of a thing's newest version.
func (o *Owner) newest(r ref) bool {
	if r.key == "" {
		return o.gone[r.chat] == r.seq
	}
	c := o.chats[r.chat]
	if c == nil {
		return false
	}
	i, ok := c.last[r.key]
	return ok && c.recs[i].seq == r.seq
}

// Delete deletes a conversation: no byte of it stays in the folder but its id, which devices that
// still have it are told. One that is not there is deleted too: a device that has not sent it yet
// may not.
func (o *Owner) Delete(id string) error {
	if !SoundID(id) {
		return refuse("a conversation's id is 1 to 64 letters, digits, - and _")
	}
	return o.with(func() error {
		if _, gone := o.gone[id]; !gone {
			if len(o.gone) >= o.f.o.gone {
				if err := o.keepGone(len(o.gone) / 2); err != nil {
					return err
				}
			}
			if err := o.tomb(id); err != nil {
				o.doubt("gone")
				return err
			}
		}
		name := logOf(id)
		if err := remove(o.f.disk, o.at(name)); err != nil {
			return err
		}
		if err := o.f.disk.SyncDir(o.dir); err != nil {
			return err
		}
		if c := o.chats[id]; c != nil {
			o.hold(c, -1)
			delete(o.chats, id)
		}
		o.tidy()
		o.tell()
		return o.sweep(false)
	})
}

// tomb notes that a conversation was deleted. It is, from then on.
func (o *Owner) tomb(id string) error {
	b, err := line(Record{Chat: id, Seq: o.last + 1})
	if err != nil {
		return err
	}
	f, err := o.f.disk.Create(o.at("gone"))
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, o.goneEnd)
	if err == nil {
		//rule:G9 TestCrashes f.Sync() => error(nil)
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		//rule:G9 TestCrashes o.f.disk.SyncDir(o.dir) => error(nil)
		err = o.f.disk.SyncDir(o.dir)
	}
	if err != nil {
		return err
	}
	o.last++
	o.gone[id] = o.last
	o.goneEnd += int64(len(b))
	o.feed = append(o.feed, ref{seq: o.last, chat: id})
	return nil
}

// Forget deletes all that the owner has. Devices keep what they have: the owner is someone new to
// them.
func (o *Owner) Forget() error {
	return o.with(func() error {
		next := identity{ID: newID(), Purge: true}
		if err := o.identify(next); err != nil {
			return err
		}
		o.loaded = false
		err := o.load()
		o.loaded = err == nil
		o.tell()
		return err
	})
}

// PutBlob keeps a picture whose SHA-256 is name. It goes again where no record has it within the
// hour.
func (o *Owner) PutBlob(name string, b []byte) error {
	sum := sha256.Sum256(b)
	switch {
	case len(b) == 0 || len(b) > MaxBlob:
		return refuse("a picture has 1 to %d bytes, and this one has %d", MaxBlob, len(b))
	//rule:T10 TestBlobs hex.EncodeToString(sum[:]) != name => false
	case !soundBlob(name), hex.EncodeToString(sum[:]) != name:
		return refuse("the picture's name is not the SHA-256 of its bytes, in hexadecimal digits of lower case")
	}
	return o.with(func() error {
		if had := o.blobs[name]; had != nil && had.size >= 0 {
			had.at = o.f.o.now()
			return nil
		}
		if err := o.sweep(false); err != nil {
			return err
		}
		if len(o.blobs) >= maxBlobs {
			return full("this key has %d pictures on the server, which is the most: delete some conversations", len(o.blobs))
		}
		if err := o.room(int64(len(b))); err != nil {
			return err
		}
		if err := o.write(blobOf(name), b); err != nil {
			return err
		}
		o.blob(name).size = int64(len(b))
		o.tell()
		return nil
	})
}

// Blob gives a picture. Errors: [ErrNoBlob], the disk's, and one that says so where it is damaged.
func (o *Owner) Blob(name string) (b []byte, err error) {
	err = o.with(func() (err error) {
		if had := o.blobs[name]; had == nil || had.size < 0 {
			return ErrNoBlob
		}
		f, err := o.f.disk.Open(o.at(blobOf(name)))
		if errors.Is(err, fs.ErrNotExist) {
			return ErrNoBlob
		}
		if err != nil {
			return err
		}
		b, err = io.ReadAll(io.LimitReader(f, MaxBlob+1))
		return errors.Join(err, f.Close())
	})
	if err == nil && hash(string(b)) != name {
		o.f.o.Damage(fmt.Errorf("conversations: %s is damaged: it is removed", o.at(blobOf(name))))
		err = o.with(func() error {
			if err := remove(o.f.disk, o.at(blobOf(name))); err != nil {
				return err
			}
			if had := o.blobs[name]; had != nil {
				had.size = -1
			}
			return ErrNoBlob
		})
	}
	return b, err
}
