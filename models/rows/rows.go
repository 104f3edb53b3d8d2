// Package rows keeps rows of K and V on disk, so that a conversation which a server has evaluated
// once is not evaluated again after a restart.
//
//	secret                     32 random bytes: names and sums are made with it
//	.lock                      held by a process that writes, removes or makes room
//	.turn                      held by the one that waits for it next
//	<32 hex>/                  a package, by its digest
//	<32 hex>/name              what the package is called, for people
//	<32 hex>/<64 hex>          a block: the rows of prefix.Shared tokens, by everything that they depend on
//	<32 hex>/<64 hex>.state    a state, where layers keep one, and the rows between the last block and it (states.go)
//
// A block's name is that of the text up to its last token (package prefix), for the package, the
// card, the API key and the row's size. So what one key has said is never found by another, and a
// name says nothing without the secret. A file is its header, its rows and a keyed SHA-256 of both,
// which is held against it before a byte of it is used; one that does not fit is removed and taken
// for absent.
//
// A block is written under another name, synced, renamed, its folder synced: a kill or a power cut
// leaves all of it or none. All changes are made under the lock file, so that several servers may
// share a folder and its limit; reading takes no lock. Files are for their owner only.
//
// A Disk may be used from any goroutine. Whatever its disk cannot do switches it off: from then on
// nothing is found and nothing is kept. A full disk does not, nor another process that holds the
// lock for long: what is there is found, and once a minute it is tried to keep more. A file system
// between machines has two more troubles that pass. Behind a stale handle a block is absent, and
// the folder is opened anew; eight times without a success in between switch the disk off. While a
// call hangs, all is absent.
package rows

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/axle-llm/axle/prefix"
)

const (
	magic      = "axlerow1"
	headerSize = len(magic) + sha256.Size + 8
	overhead   = headerSize + sha256.Size
	maxBytes   = 1 << 30  // of a block: no model has such rows
	reserve    = 64 << 20 // bytes of the disk that are left to others
	touchEvery = time.Minute
	fullFor    = time.Minute
	maxName    = 1 << 10
)

// ErrOff is what a disk that was switched off gives.
var ErrOff = errors.New("rows: the disk was switched off")

// ErrFull is what keeping rows gives while the disk is full or another process holds its lock.
var ErrFull = errors.New("rows: nothing is kept for now")

// Options of a [Disk].
type Options struct {
	Dir   string           // made where it is not there
	Size  int64            // bytes that all files of the folder may take; what was used longest ago goes first
	Block int              // tokens whose rows a file holds; 0: prefix.Shared. Files of another number are never found
	Off   func(err error)  // told once, when the disk is switched off, and why; it may be nil
	Full  func(err error)  // told when the disk is full or locked: nothing new is kept; with nil when something is; it may be nil
	Now   func() time.Time // nil: the system's clock
	// Slow is told when a call to the file system hangs, so that the disk counts as absent; with
	// nil when none does any more; and by Close of those that are left behind. It may be nil.
	Slow func(err error)
	// Gone is told the name of each block that this process removes, or finds damaged. It is called
	// under the folder's lock and must not wait. It may be nil. What another process removes from a
	// shared folder is not told.
	Gone func(name prefix.Name)

	// Secret, of at least 32 bytes, stands for the folder's own: Disks with the same find each
	// other's blocks. nil: the folder's.
	Secret []byte
	// Remote, when not nil, is asked for blocks that are not in the folder.
	Remote Blobs
	// Mirror sends each block that is saved here to Remote soon. Without it, Remote is sent only
	// what a server that ends hands over.
	Mirror bool
	// Trouble is told what Remote failed with, once a minute at most; it may be nil.
	Trouble func(err error)

	disk disk // a test's
}

// Disk is a folder of blocks.
type Disk struct {
	o      Options
	disk   disk
	secret []byte
	off    atomic.Bool
	full   atomic.Bool
	again  atomic.Int64 // when a full disk is tried again, in nanoseconds since 1970
	closed atomic.Bool
	far    *far // nil: there is no remote

	calls, hung     atomic.Int64 // for which somebody waits, and calls that take too long
	faults, faulted atomic.Int64 // since the last success, and when the last one was, in nanoseconds since 1970

	hits, misses, saved, damaged, read, written, fetched, sent atomic.Int64
}

// Stats count since the disk was opened.
type Stats struct {
	Hits, Misses  int64 // blocks that were asked for and found, and not
	Saved         int64 // blocks
	Damaged       int64 // blocks that were not what they were when they were written
	Read, Written int64 // bytes
	Fetched, Sent int64 // bytes, from the remote and to it
	Off           bool
	Full          bool // nothing new is kept until the disk has room again, or another process lets go of its lock
}

// Open opens or makes the folder, and removes what a killed server left unfinished. Errors: the
// disk's, each with the folder's name.
func Open(o Options) (*Disk, error) {
	if o.Size <= 0 {
		return nil, fmt.Errorf("rows: %s: a limit of %d bytes keeps nothing; say how much, or leave the disk out", o.Dir, o.Size)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Block <= 0 {
		o.Block = prefix.Shared
	}
	if o.Secret != nil && len(o.Secret) < 32 {
		return nil, fmt.Errorf("rows: a secret of %d bytes; it has at least 32", len(o.Secret))
	}
	d := &Disk{o: o, disk: o.disk}
	if d.disk == nil {
		var err error
		if d.disk, err = openFolder(o.Dir, true); err != nil {
			return nil, fmt.Errorf("rows: %w", err)
		}
	}
	if o.Gone != nil {
		d.disk = telling{d.disk, o.Gone}
	}
	err := locked(d.disk, func() error {
		var err error
		if d.secret = slices.Clone(o.Secret); d.secret == nil {
			if d.secret, err = secret(d.disk); err != nil {
				return err
			}
		}
		all, err := list(d.disk)
		if err != nil {
			return err
		}
		return d.room(all, 0)
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("rows: %s: %w", o.Dir, err), d.disk.Close())
	}
	d.openFar()
	return d, nil
}

// Close ends the use of the folder. It waits for no call that hangs. A second Close does nothing.
func (d *Disk) Close() error {
	if d.closed.Swap(true) {
		return nil
	}
	d.far.close()
	d.off.Store(true)
	if n := d.hung.Load(); n > 0 && d.o.Slow != nil {
		d.o.Slow(fmt.Errorf("%w: %d calls in %s are left behind", ErrSlow, n, d.o.Dir))
	}
	return d.disk.Close()
}

// Fit is how many tokens a folder of that size holds, whose rows have that size, in files of
// [prefix.Shared].
func Fit(size int64, row int) int64 { return size / int64(overhead+prefix.Shared*row) * prefix.Shared }

// Block is how many tokens' rows a block holds.
func (d *Disk) Block() int { return d.o.Block }

// Size is how many bytes all files of the folder may take.
func (d *Disk) Size() int64 { return d.o.Size }

// fail switches the disk off, once.
func (d *Disk) fail(what string, err error) error {
	err = fmt.Errorf("rows: %s: %w", what, err)
	if !d.off.Swap(true) && d.o.Off != nil {
		d.o.Off(err)
	}
	return err
}

// Owner is what rows belong to and depend on, other than their tokens.
type Owner struct {
	Package string // its digest
	Model   string // what people call it; no part of the key
	Card    string // its kind, and whatever else rows differ by
	Key     string // the API key of who asked; empty where no keys are set
	Row     int    // bytes of a row
	State   int    // bytes of a state; 0: no layer keeps one
}

// Space is one owner's part of a disk.
type Space struct {
	d     *Disk
	o     Owner
	dir   string
	names *prefix.Chain
}

// Key names a block.
type Key struct {
	name  prefix.Name
	depth int // blocks before it
}

// Space gives the owner's part.
func (d *Disk) Space(o Owner) *Space {
	return &Space{d: d, o: o, dir: packageDir(o.Package),
		//rule:T17 TestKeysOnDisk , o.Key =>
		names: prefix.New(d.secret, d.o.Block, []string{magic, o.Package, o.Card, o.Key}, uint64(o.Row))}
}

// Names gives the names of the owner's blocks, which their files have.
func (s *Space) Names() *prefix.Chain { return s.names }

func packageDir(digest string) string {
	sum := sha256.Sum256([]byte(digest))
	return hex.EncodeToString(sum[:16])
}

// Keys are the names of the whole blocks that the tokens make, from the first on.
func (s *Space) Keys(ids []int32) []Key {
	names := s.names.Blocks(ids, nil)
	keys := make([]Key, len(names))
	for i, n := range names {
		keys[i] = Key{n, i}
	}
	return keys
}

func (s *Space) file(k Key) string { return s.dir + "/" + k.name.String() }

// Find is how many of the keys, from the first on, seem to be there. Only Load knows whether they
// are sound.
func (s *Space) Find(keys []Key) int {
	n, _ := within(s.d, func() int { return s.find(keys) })
	return n
}

func (s *Space) find(keys []Key) int {
	for i, k := range keys {
		if s.d.off.Load() {
			return 0
		}
		st, err := s.d.stat(s.file(k))
		if err != nil || st.Size() != int64(overhead+s.d.o.Block*s.o.Row) {
			if i == 0 {
				s.d.misses.Add(1)
			}
			return i
		}
	}
	return len(keys)
}

// Load reads a block's rows, Block × Owner.Row bytes, and reports whether they are there, whole and
// sound. Where it gives false, to holds nothing that may be used.
func (s *Space) Load(k Key, to []byte) bool {
	if len(to) != s.d.o.Block*s.o.Row {
		return false
	}
	head := s.header(k, len(to))
	return s.load(s.file(k), k, head[:], to)
}

// load reads a file into parts.
func (s *Space) load(name string, k Key, head []byte, parts ...[]byte) bool {
	if s.d.off.Load() {
		return false
	}
	own := make([][]byte, len(parts)) // a read that hangs may go on when the caller has other uses for its parts
	for i, p := range parts {
		own[i] = make([]byte, len(p))
	}
	ok, in := within(s.d, func() bool { return s.loadOwn(name, k, head, own) })
	for i, p := range parts {
		if ok && in {
			copy(p, own[i])
		}
	}
	return ok && in
}

func (s *Space) loadOwn(name string, k Key, head []byte, parts [][]byte) bool {
	d := s.d
	f, err := d.disk.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		d.misses.Add(1)
		return false
	}
	if err != nil {
		d.unread(name, err, stale(err) || errors.Is(err, syscall.EIO)) // of one file
		return false
	}
	sound, at, err := s.read(f, head, parts)
	_ = f.Close()
	switch {
	case d.closed.Load():
		return false
	case err != nil:
		d.unread(name, err, stale(err))
		return false
	case !sound:
		d.damaged.Add(1)
		_ = locked(d.disk, func() error { return d.disk.Remove(name) }) // somebody else may have
		return false
	}
	d.faults.Store(0)
	d.hits.Add(1)
	d.read.Add(size(parts))
	d.touch(name, k, at)
	return true
}

// unread notes why a file could not be read.
func (d *Disk) unread(name string, err error, passes bool) {
	if passes {
		d.misses.Add(1)
		_ = d.fault("reading "+name, err)
	} else {
		_ = d.fail("reading "+name, err)
	}
}

// size is how many bytes the parts are.
func size(parts [][]byte) (n int64) {
	for _, p := range parts {
		n += int64(len(p))
	}
	return n
}

// read fills parts, and says whether the file is what was written.
func (s *Space) read(f file, head []byte, parts [][]byte) (sound bool, at time.Time, err error) {
	st, err := f.Stat()
	if err != nil {
		return false, at, err
	}
	if st.Size() != int64(overhead)+size(parts) {
		return false, at, nil
	}
	var got [headerSize]byte
	var sum [sha256.Size]byte
	for _, part := range slices.Concat([][]byte{got[:]}, parts, [][]byte{sum[:]}) {
		switch _, err := io.ReadFull(f, part); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF): // cut while it was read
			return false, at, nil
		case err != nil:
			return false, at, err
		}
	}
	//rule:D12 TestDamagedRows && hmac.Equal(sum[:], s.sum(head, parts)) =>
	return string(got[:]) == string(head) && hmac.Equal(sum[:], s.sum(head, parts)), st.ModTime(), nil
}

func (s *Space) header(k Key, size int) (h [headerSize]byte) {
	copy(h[:], magic)
	copy(h[len(magic):], k.name[:])
	binary.LittleEndian.PutUint32(h[len(magic)+sha256.Size:], uint32(s.o.Row))
	binary.LittleEndian.PutUint32(h[len(magic)+sha256.Size+4:], uint32(size))
	return h
}

func (s *Space) sum(head []byte, parts [][]byte) []byte {
	h := hmac.New(sha256.New, s.d.secret)
	_, _ = h.Write(head)
	for _, p := range parts {
		_, _ = h.Write(p)
	}
	return h.Sum(nil)
}

// touch makes the block the last used. Of blocks that are used together the first of a text stays
// longest: without it the others are nothing.
func (d *Disk) touch(name string, k Key, at time.Time) {
	now := d.o.Now()
	if now.Sub(at) > touchEvery {
		_ = d.disk.Touch(name, used(now, k)) // gone, perhaps: then it is not used again
	}
}

func used(now time.Time, k Key) time.Time { return now.Add(-time.Duration(k.depth) * time.Millisecond) }

// Save keeps a block's rows, and makes room for them. It waits for the disk: a caller that has
// better to do gives it a goroutine. One that is there already is not written again; one that is
// larger than the limit is not kept. Errors: ErrOff, ErrSlow, or what failed, which may have
// switched the disk off; nothing need be done about any of them.
func (s *Space) Save(k Key, rows []byte) error {
	if s.d.off.Load() {
		return ErrOff
	}
	if len(rows) != s.d.o.Block*s.o.Row || len(rows) > maxBytes || len(rows) == 0 {
		return fmt.Errorf("rows: a block of %d bytes, of rows of %d", len(rows), s.o.Row)
	}
	head := s.header(k, len(rows))
	return s.save(s.file(k), k, head[:], rows)
}

// save makes a file of parts.
func (s *Space) save(name string, k Key, head []byte, parts ...[]byte) error {
	if err := s.d.keep(name, s.o.Model, k.depth, slices.Concat([][]byte{head}, parts, [][]byte{s.sum(head, parts)})...); err != nil {
		return err
	}
	s.d.mirror(name)
	return nil
}

// keep makes a file of parts, and room for it. Its package's folder is called model.
func (d *Disk) keep(name, model string, depth int, parts ...[]byte) error {
	need := size(parts)
	if d.full.Load() && d.o.Now().UnixNano() < d.again.Load() {
		return ErrFull
	}
	wrote := false
	err := d.change(func() error {
		if st, err := d.disk.Stat(name); err == nil && st.Size() == need {
			d.touch(name, Key{depth: depth}, st.ModTime())
			return nil
		}
		all, err := list(d.disk)
		if err != nil {
			return err
		}
		label, err := labelOf(path.Dir(name), model, all)
		if err != nil {
			return err
		}
		if need+label > d.o.Size {
			return nil
		}
		if err := d.room(all, need+label); err != nil {
			return err
		}
		if label == 0 {
			model = ""
		}
		if err := d.folder(path.Dir(name), model); err != nil {
			return err
		}
		if err := write(d.disk, name, parts...); err != nil {
			return err
		}
		d.saved.Add(1)
		d.written.Add(need)
		wrote = true
		return d.disk.Touch(name, used(d.o.Now(), Key{depth: depth}))
	})
	switch {
	case errors.Is(err, ErrSlow):
		return err
	case err == nil:
		d.faults.Store(0)
		if wrote && d.full.Swap(false) && d.o.Full != nil {
			d.o.Full(nil)
		}
	//rule:D11 TestFullDiskPasses false
	case (errors.Is(err, errFull) || errors.Is(err, ErrHeld)) && !d.closed.Load():
		d.again.Store(d.o.Now().Add(fullFor).UnixNano())
		if !d.full.Swap(true) && d.o.Full != nil {
			d.o.Full(fmt.Errorf("rows: keeping rows in %s: %w", d.o.Dir, err))
		}
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil && !d.closed.Load() {
		if stale(err) {
			return d.fault("keeping rows in "+d.o.Dir, err)
		}
		return d.fail("keeping rows in "+d.o.Dir, err)
	}
	return err
}

// labelOf is how many bytes the name of a package's folder is still to take.
func labelOf(dir, model string, all []entry) (int64, error) {
	if len(model) > maxName {
		return 0, fmt.Errorf("a model's name of %d bytes", len(model))
	}
	if slices.ContainsFunc(all, func(e entry) bool { return e.name == dir+"/name" }) {
		return 0, nil
	}
	return int64(len(model)), nil
}

// folder makes a package's folder, and the name in it.
func (d *Disk) folder(dir, model string) error {
	if _, err := d.disk.Stat(dir); err != nil {
		if err := errors.Join(d.disk.Mkdir(dir), d.disk.SyncDir(".")); err != nil {
			return err
		}
	}
	if model == "" {
		return nil
	}
	return write(d.disk, dir+"/name", []byte(model))
}

// secret reads the folder's secret, or makes one. What was kept with another is never found again,
// and is evicted in time.
func secret(d disk) ([]byte, error) {
	f, err := d.Open("secret")
	if err == nil {
		st, err := f.Stat()
		//rule:T18 TestOpenSecret st.Mode().Perm()&0o077 != 0 => false
		if err == nil && st.Mode().Perm()&0o077 != 0 {
			_ = f.Close()
			return nil, fmt.Errorf("others can read its file secret (mode %#o), which is for the server's user only: chmod 600 it if "+
				"no other did; else remove the folder, for what it names can be guessed", st.Mode().Perm())
		}
		b, err := io.ReadAll(io.LimitReader(f, 33))
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		if len(b) == 32 {
			return b, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return b, write(d, "secret", b)
}
