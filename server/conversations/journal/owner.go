package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	folders "github.com/axle-llm/axle/internal/folder"
	"github.com/axle-llm/axle/internal/ranked"
)

// Owner is what belongs to one owner. Its files are read when they are first asked for, and again
// after an error of the disk: what is in memory then might not be what is there.
type Owner struct {
	f   *Folder
	dir string

	mu      ranked.Mutex[ranked.Journal]
	loaded  bool
	unsure  map[string]bool // journals that a write has failed of: they are written anew when they are read
	who     identity
	chats   map[string]*chat
	gone    map[string]uint64 // conversations that were deleted, and the place of the deletion
	goneEnd int64             // where the next line of the file of deletions goes
	blobs   map[string]*blob
	feed    []ref // what is there, by its place
	tidyAt  int
	last    uint64
	size    int64 // of all files
	records int
	changed chan struct{} // closed with the next change
	waiting int
	closed  bool
}

// identity is who an owner is to devices.
type identity struct {
	ID     string `json:"id"`               // random: another one is another folder, or another's conversations
	Round  int    `json:"round"`            // one more for each repair: devices compare all that they have
	Pruned uint64 `json:"pruned,omitempty"` // the last deletion that was forgotten
	Purge  bool   `json:"purge,omitempty"`  // all that is here is to go
}

// chat is a conversation's journal.
type chat struct {
	recs []rec          // in the order of the file
	last map[string]int // the newest of each thing
	end  int64          // where the next line goes
}

// rec is a record's place.
type rec struct {
	id, key string
	seq     uint64
	gone    bool
	blobs   []string
	off     int64
	size    int
}

type blob struct {
	size int64
	refs int
	at   time.Time // when it came
}

// ref is a record, or with an empty key a conversation's deletion.
type ref struct {
	seq       uint64
	chat, key string
}

// with runs g with the owner's files read, and no other of the owner's at the same time.
func (o *Owner) with(g func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return ErrClosed
	}
	if !o.loaded {
		if err := o.load(); err != nil {
			return fmt.Errorf("conversations: %w", err)
		}
		o.loaded = true
	}
	err := g()
	if err != nil && !ours(err) {
		o.loaded = false // and what is there is read again
		err = fmt.Errorf("conversations: %w", err)
	}
	return err
}

// ours reports whether an error is none of the disk's.
func ours(err error) bool {
	return errors.As(err, new(*Refusal)) || errors.As(err, new(*Conflict)) || errors.As(err, new(*Lacks)) ||
		errors.Is(err, ErrGone) || errors.Is(err, ErrNone) || errors.Is(err, ErrNoBlob)
}

func (o *Owner) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.tell()
}

// tell wakes who waits for changes.
func (o *Owner) tell() {
	close(o.changed)
	o.changed = make(chan struct{})
}

// write makes a file of the owner's that is there whole or not at all.
func (o *Owner) write(name string, parts ...[]byte) error {
	return folders.Write(o.f.disk, o.at(".new-"+rand.Text()[:12]), o.at(name), parts...)
}

func (o *Owner) identify(who identity) error {
	b, err := json.Marshal(who)
	if err == nil {
		err = o.write("owner", b)
	}
	if err == nil {
		o.who = who
	}
	return err
}

// read reads a file of the owner's; nil: it is not there.
func (o *Owner) read(name string, most int64) ([]byte, error) {
	f, err := o.f.disk.Open(o.at(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes", o.at(name), most)
	}
	return b, nil
}

func (o *Owner) entries() ([]fs.DirEntry, error) {
	entries, err := o.f.disk.ReadDir(o.dir)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// load reads all that is there, ends what a crash left half done, and repairs what is damaged.
func (o *Owner) load() error {
	d := o.f.disk
	if err := d.Mkdir(o.dir); err != nil {
		return err
	}
	o.chats, o.gone, o.blobs = map[string]*chat{}, map[string]uint64{}, map[string]*blob{}
	o.feed, o.size, o.records, o.goneEnd, o.tidyAt = nil, 0, 0, 0, 1000
	if err := o.identity(); err != nil {
		return err
	}
	entries, err := o.entries()
	if err != nil {
		return err
	}
	o.last = max(o.last, o.who.Pruned)
	damaged, err := o.loadGone()
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, ".new-"):
			err = remove(d, o.at(name))
		case strings.HasSuffix(name, ".log"):
			var bad bool
			bad, err = o.loadLog(name)
			damaged = damaged || bad
		case path.Ext(name) == ".blob" && soundBlob(strings.TrimSuffix(name, ".blob")):
			var st fs.FileInfo
			if st, err = e.Info(); err == nil {
				b := o.blob(strings.TrimSuffix(name, ".blob"))
				b.size = st.Size()
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if damaged {
		next := o.who
		next.Round++
		if err := o.identify(next); err != nil {
			return err
		}
	}
	slices.SortFunc(o.feed, func(a, b ref) int { return cmp.Compare(a.seq, b.seq) })
	o.unsure = nil
	return o.sweep(true)
}

// identity reads who the owner is, and is someone new where that is not known. Where all is to go,
// a crash came before all had gone.
func (o *Owner) identity() error {
	b, err := o.read("owner", 1<<10)
	if err != nil {
		return err
	}
	o.who = identity{}
	if b != nil && (json.Unmarshal(b, &o.who) != nil || o.who.ID == "" || o.who.Round < 0) {
		o.f.o.Damage(fmt.Errorf("conversations: %s is damaged: devices ask before they go on with what is here", o.at("owner")))
		o.who = identity{}
	}
	switch {
	case o.who.Purge:
		return o.purge()
	case o.who.ID == "":
		return o.identify(identity{ID: rand.Text()})
	}
	return nil
}

// purge removes every file, and is someone new then.
func (o *Owner) purge() error {
	entries, err := o.entries()
	for _, e := range entries {
		if err == nil && e.Name() != "owner" {
			err = remove(o.f.disk, o.at(e.Name()))
		}
	}
	if err == nil {
		err = o.f.disk.SyncDir(o.dir)
	}
	if err == nil {
		err = o.identify(identity{ID: o.who.ID})
	}
	return err
}

// loadGone reads which conversations were deleted.
func (o *Owner) loadGone() (damaged bool, err error) {
	b, err := o.read("gone", 64<<20)
	if err != nil {
		return false, err
	}
	all, whole, bad := scan(b)
	for _, r := range all {
		if SoundID(r.Chat) {
			o.gone[r.Chat] = r.Seq
			o.last = max(o.last, r.Seq)
		}
	}
	o.goneEnd = whole
	if len(bad) > 0 || whole < int64(len(b)) || o.unsure["gone"] {
		err = o.keepGone(0)
	}
	for _, at := range bad {
		o.f.o.Damage(fmt.Errorf("conversations: %s is damaged at byte %d: a deletion may be undone by a device that has not heard of it",
			o.at("gone"), at))
	}
	for c, seq := range o.gone {
		o.feed = append(o.feed, ref{seq: seq, chat: c})
	}
	return len(bad) > 0, err
}

// keepGone writes the file of deletions anew, without the oldest drop of them.
func (o *Owner) keepGone(drop int) error {
	list := make([]Record, 0, len(o.gone))
	for c, seq := range o.gone {
		list = append(list, Record{Chat: c, Seq: seq})
	}
	slices.SortFunc(list, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	if drop > 0 {
		next := o.who
		next.Pruned = list[drop-1].Seq
		if err := o.identify(next); err != nil { // first: a device that is behind must learn that it does not hear of all
			return err
		}
	}
	var out []byte
	for _, r := range list[drop:] {
		b, err := line(r)
		if err != nil {
			return err
		}
		out = append(out, b...)
	}
	if err := o.write("gone", out); err != nil {
		return err
	}
	for _, r := range list[:drop] {
		delete(o.gone, r.Chat)
	}
	o.goneEnd = int64(len(out))
	return nil
}

// loadLog reads a journal.
func (o *Owner) loadLog(name string) (damaged bool, err error) {
	b, err := o.read(name, maxChat+maxLine)
	if err != nil || b == nil {
		return false, err
	}
	all, whole, bad := scan(b)
	for _, at := range bad {
		o.f.o.Damage(fmt.Errorf("conversations: %s is damaged at byte %d: what stood there is lost, unless a device still has it",
			o.at(name), at))
	}
	id := ""
	for _, r := range all {
		if logOf(r.Chat) == name && SoundID(r.Chat) {
			id = r.Chat
		}
	}
	if _, gone := o.gone[id]; gone || id == "" { // a crash came before it had gone; or nothing is in it
		return len(bad) > 0, remove(o.f.disk, o.at(name))
	}
	sound := func(r found) bool { return r.Chat == id && r.Key != "" }
	n := len(all)
	if all = slices.DeleteFunc(all, func(r found) bool { return !sound(r) }); len(all) < n {
		whole = -1
	}
	//rule:D12 TestDamage len(bad) > 0 => false
	if len(bad) > 0 || whole < int64(len(b)) || o.unsure[name] {
		out := make([]byte, 0, len(b))
		for i, r := range all {
			out = append(out, b[r.off:r.off+int64(r.size)-1]...)
			out = append(out, '\n')
			all[i].off = int64(len(out) - r.size)
		}
		if err := o.write(name, out); err != nil {
			return false, err
		}
	}
	c := &chat{last: map[string]int{}}
	for _, r := range all {
		c.add(rec{r.ID, r.Key, r.Seq, r.Gone, r.Blobs, r.off, r.size})
		o.last = max(o.last, r.Seq)
	}
	o.chats[id] = c
	o.hold(c, 1)
	for key, i := range c.last {
		o.feed = append(o.feed, ref{c.recs[i].seq, id, key})
	}
	return len(bad) > 0, nil
}

// add takes a record in. Of two versions of a thing the later is the newest.
func (c *chat) add(r rec) {
	if i, ok := c.last[r.key]; !ok || c.recs[i].seq < r.seq {
		c.last[r.key] = len(c.recs)
	}
	c.recs = append(c.recs, r)
	c.end = max(c.end, r.off+int64(r.size))
}

// hold counts what a conversation has, or with n below 0 has no longer.
func (o *Owner) hold(c *chat, n int) {
	o.size += int64(n) * c.end
	o.records += n * len(c.recs)
	for _, r := range c.recs {
		o.refer(r.blobs, n)
	}
}

func (o *Owner) refer(names []string, n int) {
	for _, name := range names {
		b := o.blob(name)
		if b.refs += n; n < 0 {
			b.at = time.Time{} // it has had its record
		}
	}
}

func (o *Owner) blob(name string) *blob {
	if o.blobs[name] == nil {
		o.blobs[name] = &blob{size: -1, at: o.f.o.now()}
	}
	return o.blobs[name]
}

// sweep removes pictures that belong to nothing: all of them, or those that have waited for their
// record for long. It forgets those that are not there: who needs one is told.
func (o *Owner) sweep(every bool) error {
	removed := false
	for name, b := range o.blobs {
		//rule:T17 TestBlobs b.refs > 0 => true
		if b.refs > 0 || !every && o.f.o.now().Sub(b.at) < orphanTime {
			continue
		}
		if b.size >= 0 {
			if err := remove(o.f.disk, o.at(blobOf(name))); err != nil {
				return err
			}
			removed = true
		}
		delete(o.blobs, name)
	}
	if removed {
		return o.f.disk.SyncDir(o.dir)
	}
	return nil
}

// used is how much all files take.
func (o *Owner) used() int64 {
	n := o.size + o.goneEnd
	for _, b := range o.blobs {
		n += max(b.size, 0)
	}
	return n
}

// room refuses what takes more than there may be, or than the disk has.
func (o *Owner) room(need int64) error {
	if used := o.used(); used+need > o.f.o.Size {
		return full("the conversations of this key take %d MiB on the server, and may take %d MiB: delete some",
			used>>20, o.f.o.Size>>20)
	}
	free, err := o.f.disk.Free()
	if err != nil {
		return err
	}
	if free >= 0 && free < need+reserve {
		return full("the disk that the server keeps conversations on is full")
	}
	return nil
}

// Wait waits until there is something later than that place of that round, the folder was closed,
// or ctx ends. Where many wait already it does not.
func (o *Owner) Wait(ctx context.Context, id string, round int, seq uint64) error {
	wait := func(n int) {
		o.mu.Lock()
		o.waiting += n
		o.mu.Unlock()
	}
	wait(1)
	defer wait(-1)
	for {
		var changed <-chan struct{}
		there := false
		err := o.with(func() error {
			changed, there = o.changed, o.last > seq || o.who.Round != round || o.who.ID != id || o.waiting > maxWaits
			return nil
		})
		if err != nil || there {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}
