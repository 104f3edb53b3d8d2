// Package journal keeps conversations on disk, so that all devices of a person see the same ones.
// It knows neither HTTP nor what a conversation looks like: it keeps records, and which of them are
// the newest.
//
//	.lock                  held by the one server that has the folder open
//	<32 hex>/              what belongs to one owner, by a hash of the owner's name
//	<32 hex>/owner         who this is to a device: a random name, and how often the folder was repaired
//	<32 hex>/gone          conversations that were deleted: their ids, for devices that still have them
//	<32 hex>/<32 hex>.log  the journal of a conversation, by a hash of its id
//	<32 hex>/<64 hex>.blob a picture, by the SHA-256 of its bytes
//
// A journal is only appended to. A record is a version of one thing of the conversation, the one
// that its key names, and the version before it stays. A deletion is the exception: what was
// deleted is taken out of the journal, and with a conversation its journal and pictures go.
//
// A record is a line: a checksum, a length, and JSON. A tail that a power cut tore is cut off. A
// damaged line loses that record alone: it is told, and the owner's devices are made to compare all
// that they have, so that a record which one of them still has comes back.
//
// What is acknowledged was synced. One server at a time has a folder open. Files are for their
// owner only. A Folder may be used from any goroutine, and is closed by who opened it.
package journal

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	folders "github.com/axle-llm/axle/internal/folder"
	"github.com/axle-llm/axle/internal/ranked"
)

// Limits of what is kept.
const (
	MaxRecord  = 4<<20 + 64<<10 // bytes of a record's body: what a question may have, and what stands around it
	MaxBatch   = 500            // records that are appended at once
	MaxPage    = 500            // records of an answer
	MaxBlob    = 16 << 20       // bytes of a picture
	maxChat    = 64 << 20       // bytes of a conversation's journal
	maxChats   = 20_000         // conversations of an owner
	maxRecords = 100_000        // records of an owner, all versions counted
	maxBlobs   = 20_000         // pictures of an owner
	maxGone    = 8192           // deletions that are remembered; half of them are forgotten where there are more
	pageBytes  = 2 << 20        // of bodies in an answer, unless the first is larger
	reserve    = 64 << 20       // bytes of the disk that are left to others
	maxWaits   = 64             // requests of an owner that wait for changes
	orphanTime = time.Hour      // how long a picture may wait for the record that has it

	// DefaultSize is how much an owner's files may take where nothing else is said.
	DefaultSize = 1 << 30
)

// Errors of a folder. A [*Refusal] has the reason in its text.
var (
	ErrGone   = errors.New("this conversation was deleted")
	ErrNone   = errors.New("there is no such conversation")
	ErrNoBlob = errors.New("there is no such picture")
	ErrClosed = errors.New("conversations: the folder was closed")
)

// Refusal is what is not kept, and why. Full: there is no room; else it is not sound.
type Refusal struct {
	Text string
	Full bool
}

func (r *Refusal) Error() string { return r.Text }

func refuse(format string, args ...any) error { return &Refusal{Text: fmt.Sprintf(format, args...)} }

func full(format string, args ...any) error {
	return &Refusal{Text: fmt.Sprintf(format, args...), Full: true}
}

// Record is a version of a thing of a conversation.
type Record struct {
	ID    string          `json:"id"`              // of the record: one that comes twice is kept once
	Chat  string          `json:"chat,omitempty"`  // the conversation
	Key   string          `json:"key,omitempty"`   // the thing; "": the record is the conversation's deletion
	Base  uint64          `json:"base,omitempty"`  // the version that it follows; 0: none
	Seq   uint64          `json:"seq,omitempty"`   // its place among all records of the owner
	Gone  bool            `json:"gone,omitempty"`  // the thing was deleted
	Blobs []string        `json:"blobs,omitempty"` // pictures that belong to it, by their SHA-256
	Body  json.RawMessage `json:"body,omitempty"`
}

// Options of a [Folder].
type Options struct {
	Dir    string          // made where it is not there
	Size   int64           // bytes that the files of one owner may take; 0: DefaultSize
	Damage func(err error) // told what was found damaged, and where; nil: it is not told

	disk disk             // a test's
	now  func() time.Time // a test's; nil: the system's
	gone int              // a test's; 0: maxGone
	wait time.Duration    // a test's, for the lock; 0: lockWait
}

// disk is every operation on files that is done here, so that a test can make each of them fail.
type disk interface{ folders.Disk }

// lockWait is how long an opening server waits for one that is ending.
const lockWait = 2 * time.Second

type folder struct {
	*folders.Root
	wait time.Duration
}

func (d folder) Lock() (func() error, error) {
	f, err := d.Root.Lock(".lock", true, time.Now().Add(cmp.Or(d.wait, lockWait)))
	if errors.Is(err, errors.ErrUnsupported) { // network file systems without locks: alone we are safe still
		return func() error { return nil }, nil
	}
	if err != nil {
		return nil, err
	}
	return f.Close, nil
}

// Folder is a folder of conversations.
type Folder struct {
	o      Options
	disk   disk
	unlock func() error
	mu     ranked.Mutex[ranked.Journals]
	owners map[string]*Owner // by their folders' names
	closed bool
}

// Open opens or makes the folder. Errors: the disk's, each with the folder's name, and one that
// says so where another server has it open.
func Open(o Options) (*Folder, error) {
	if o.Size < 0 {
		return nil, fmt.Errorf("conversations: %s: a limit of %d bytes keeps nothing", o.Dir, o.Size)
	}
	if o.Size == 0 {
		o.Size = DefaultSize
	}
	if o.gone == 0 {
		o.gone = maxGone
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.Damage == nil {
		o.Damage = func(error) {}
	}
	f := &Folder{o: o, disk: o.disk, owners: map[string]*Owner{}}
	if f.disk == nil {
		if err := os.MkdirAll(o.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("conversations: %w", err)
		}
		//rule:T18 TestModes st.Mode().Perm()&0o077 != 0 => false
		if st, err := os.Stat(o.Dir); err == nil && st.Mode().Perm()&0o077 != 0 {
			return nil, fmt.Errorf("conversations: others can read %s (mode %#o): chmod 700 it", o.Dir, st.Mode().Perm())
		}
		root, err := folders.Open(o.Dir, 0o600)
		if err != nil {
			return nil, fmt.Errorf("conversations: %w", err)
		}
		f.disk = folder{root, o.wait}
	}
	var err error
	//rule:G9 TestSecondServer f.disk.Lock() => func() error { return nil }, error(nil)
	if f.unlock, err = f.disk.Lock(); err != nil {
		if errors.Is(err, folders.ErrHeld) {
			err = errors.New("another server keeps its conversations there: end it, or give each server a folder of its own")
		}
		return nil, errors.Join(fmt.Errorf("conversations: %s: %w", o.Dir, err), f.disk.Close())
	}
	return f, nil
}

// Close ends the use of the folder. A second Close does nothing.
func (f *Folder) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	for _, o := range f.owners {
		o.close()
	}
	return errors.Join(f.unlock(), f.disk.Close())
}

// dirOf is the name of an owner's folder.
func dirOf(owner string) string { return hash("axle: whose conversations\x00" + owner)[:32] }

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// Owner gives what belongs to an owner. Another owner's is never reached through it.
func (f *Folder) Owner(name string) (*Owner, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	//rule:T17 TestOwners dirOf(name) => dirOf("")
	dir := dirOf(name)
	o := f.owners[dir]
	if o == nil {
		o = &Owner{f: f, dir: dir, changed: make(chan struct{})}
		f.owners[dir] = o
	}
	return o, nil
}

// SoundID reports whether a name may be that of a conversation, a thing or a record.
func SoundID(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// soundBlob reports whether a name is that of a picture.
func soundBlob(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil && len(s) == 64
}

// at is the path of an owner's file.
func (o *Owner) at(name string) string { return path.Join(o.dir, name) }

func logOf(chat string) string  { return hash(chat)[:32] + ".log" }
func blobOf(name string) string { return name + ".blob" }

// remove removes a file. It is no error when it is gone already.
func remove(d disk, name string) error {
	if err := d.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
