package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/models"
)

// GuardOptions are told of what [Store.Guard] finds, from a goroutine of its own. Each may be nil.
type GuardOptions struct {
	Unclean func()                        // a server on this store did not end in order: hashing begins
	Rotten  func(model string, err error) // a file of the model is not what was stored; the error names it
	Checked func(models int, bytes int64) // everything has been hashed

	Unhashed func(model string)            // a file of the model is not as it was when it was last hashed: it is hashed now
	Unread   func(model string, err error) // a file of the model could not be read to the end: whether it is sound is not known
}

const markerPrefix = ".serving-"

// Guard is for a server: it holds a marker file in the store, locked and synced, until leave is
// called. A marker without a holder is of a server that was killed, or of a power cut. Then every
// model is hashed in the background, a quarter of the time at most, models that are opened
// meanwhile first; so the server answers at once (promise D9). What is found rotten is not opened
// from then on: the error names the file (D12). Pulling the model again mends it. Where leave is
// called before all is hashed, the marker stays, and the next server hashes; also where a file
// could not be read.
//
// A blob whose size or time is another than when it was last hashed is hashed so too: found at the
// beginning, and whenever its model is opened.
//
// leave stops the hashing, waits for it, and is called once, before Close. Errors: the file
// system's, or that it has no locks; then nothing is watched and leave is nil.
func (s *Store) Guard(o GuardOptions) (leave func() error, err error) {
	marker, release, err := s.mark(markerPrefix)
	if err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	err = s.disk.SyncDir(".")
	unclean := false
	if err == nil { // markers of others may go now: ours is there after a power cut
		_, unclean, err = s.marks(markerPrefix)
	}
	if err != nil {
		return nil, fmt.Errorf("models: %w", errors.Join(err, s.disk.Remove(marker), release()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan bool, 1)
	s.checking.mu.Lock()
	if s.checking.wake == nil {
		s.checking.wake = make(chan struct{}, 1)
	}
	wake := s.checking.wake
	s.checking.mu.Unlock()
	//rule:D7 TestGuardRests withRests(ctx) => ctx
	go func() { done <- s.check(withRests(ctx), o, unclean, wake) }()
	return func() error {
		cancel()
		var err error
		if <-done {
			// Not synced, which can take a disk seconds: where the power goes before it is on disk,
			// the next server hashes, and that is right.
			err = s.disk.Remove(marker)
		}
		return errors.Join(err, release())
	}, nil
}

// mark makes a file in the store that is locked until release is called or this process ends. It is
// made under another name and locked before it has its own: it is never found without its lock.
func (s *Store) mark(prefix string) (name string, release func() error, err error) {
	name = prefix + randomName()
	release, _, err = s.disk.Hold(".tmp"+name, true)
	if err != nil {
		return "", nil, err
	}
	if err := s.disk.Rename(".tmp"+name, name); err != nil {
		return "", nil, errors.Join(err, s.disk.Remove(".tmp"+name), release())
	}
	return name, release, nil
}

// marks says whether a process holds a mark of a kind, and whether one was left by a process that
// was killed. What was left is removed.
func (s *Store) marks(prefix string) (held, left bool, err error) {
	list, err := s.disk.ReadDir(".")
	if err != nil {
		return false, false, err
	}
	for _, e := range list {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		release, ok, err := s.disk.Hold(e.Name(), false)
		if err != nil || !ok {
			held = held || !errors.Is(err, fs.ErrNotExist)
			continue
		}
		// One that is gone by now was removed in order.
		//rule:D12 TestGuard$ drop
		left = s.disk.Remove(e.Name()) == nil || left
		_ = release()
	}
	return held, left, nil
}

// checking is a store's knowledge of its files' soundness.
type checking struct {
	mu      ranked.Mutex[ranked.StoreSound]
	pending []string            // models still to be hashed, by full name
	wake    chan struct{}       // tells a server of more; nil where there is none
	seen    map[string]string   // see keepHashed
	rotten  map[string]rotFound // by blob's or folder's path
}

type rotFound struct {
	stamp string // what the file looked like then: one that was replaced is sound until it is hashed
	err   error
}

// check hashes what is pending, then whatever is opened that was not hashed as it is, until ctx
// ends. It reports whether nothing is left of what an unclean end made doubtful.
func (s *Store) check(ctx context.Context, o GuardOptions, unclean bool, wake <-chan struct{}) (sound bool) {
	if unclean && o.Unclean != nil {
		o.Unclean()
	}
	list, err := s.List(ctx)
	if err != nil {
		return !unclean
	}
	c := &s.checking
	all := s.hashed()
	var pending []string
	for _, m := range list {
		if unclean && !m.Builtin || s.unhashed(m, all) { // opening a built-in one compares every byte
			pending = append(pending, m.Name.Full())
		}
	}
	c.mu.Lock()
	c.pending = append(pending, c.pending...)
	c.mu.Unlock()
	known := map[models.Digest]error{}
	var bytes int64
	count := 0
	sound = true
	for first := true; ; {
		name := c.next()
		if name == "" {
			if first && unclean && o.Checked != nil {
				o.Checked(count, bytes)
			}
			first = false
			select {
			case <-ctx.Done():
				return sound
			case <-wake:
			}
			continue
		}
		m, err := s.Get(name)
		if err != nil {
			continue // it went meanwhile
		}
		if !first || !unclean {
			if all = s.hashed(); !s.unhashed(m, all) {
				continue
			}
			known = s.compared(m, all)
			if o.Unhashed != nil {
				o.Unhashed(m.Name.String())
			}
		}
		n, err := s.checkModel(ctx, m, known)
		_ = s.locked(func() error { s.keepHashed(); return nil }) // also where it was broken off
		bytes += n
		count++
		if errors.Is(err, ErrMismatch) && o.Rotten != nil {
			o.Rotten(m.Name.String(), err)
		}
		if unread := new(unreadError); errors.As(err, unread) {
			sound = sound && !(unclean && first)
			if o.Unread != nil {
				o.Unread(m.Name.String(), *unread)
			}
		}
		if ctx.Err() != nil {
			return sound && !(unclean && first)
		}
	}
}

// next takes the first name off those that are to be checked; "" for none.
func (c *checking) next() (name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) > 0 {
		name, c.pending = c.pending[0], c.pending[1:]
	}
	return name
}

// compared has the blobs of a model that have been compared and not been touched since.
func (s *Store) compared(m *Model, all map[string]string) map[models.Digest]error {
	known := map[models.Digest]error{}
	for _, l := range m.m.Layers {
		if st, err := s.disk.Stat(blobPath(l)); err == nil && stampOf(st) == all[l.Digest.File()] {
			known[l.Digest] = nil
		}
	}
	return known
}

// unreadError is a file that could not be hashed: it may be sound or rotten.
type unreadError struct{ error }

func (e unreadError) Unwrap() error { return e.error }

// checkModel hashes what of a model is not in known yet, and remembers what is rotten. What is
// missing every load sees by itself. Errors: [ErrMismatch], unreadError. Where ctx ends, what was
// hashed until then counts.
func (s *Store) checkModel(ctx context.Context, m *Model, known map[models.Digest]error) (read int64, err error) {
	if m.Folder != "" {
		err := m.verifyOpened(ctx, func(_ string, n int64, _ error) { read += n })
		switch me := (*models.Error)(nil); {
		case errors.Is(err, ErrMismatch):
			s.setRotten(m.Folder, m.Digest, err)
		case errors.As(err, &me), errors.Is(err, fs.ErrNotExist), ctx.Err() != nil:
			err = nil
		case err != nil:
			err = unreadError{err}
		}
		return read, err
	}
	var errs []error
	for _, l := range m.m.Layers {
		err, seen := known[l.Digest]
		if !seen {
			var n int64
			st, serr := s.disk.Stat(blobPath(l))
			n, err = s.checkBlob(ctx, l)
			switch {
			case errors.Is(err, ErrMismatch) && serr == nil:
				s.setRotten(blobPath(l), stampOf(st), err)
				s.noteHashed(l.Digest, nil)
			case errors.Is(err, models.ErrMissing), ctx.Err() != nil:
				err = nil
			case err != nil:
				s.noteHashed(l.Digest, nil)
				err = unreadError{err}
			}
			known[l.Digest] = err
			read += n
		}
		errs = append(errs, err)
	}
	return read, errors.Join(errs...)
}

func stampOf(st fs.FileInfo) string { return fmt.Sprint(st.Size(), " ", st.ModTime().UnixNano()) }

func (s *Store) setRotten(at, stamp string, err error) {
	s.checking.mu.Lock()
	defer s.checking.mu.Unlock()
	s.checking.rotten[at] = rotFound{stamp, err}
}

// soundBlob fails for a blob that was found rotten and is still the same file.
func (s *Store) soundBlob(name string, st fs.FileInfo) error { return s.sound(name, stampOf(st)) }

func (s *Store) sound(at, stamp string) error {
	s.checking.mu.Lock()
	defer s.checking.mu.Unlock()
	if r, ok := s.checking.rotten[at]; ok && r.stamp == stamp {
		return r.err
	}
	return nil
}

// hashFirst moves a model to the front of what is to be hashed.
func (s *Store) hashFirst(name models.Name) {
	s.checking.mu.Lock()
	defer s.checking.mu.Unlock()
	full := name.Full()
	if i := slices.Index(s.checking.pending, full); i > 0 {
		s.checking.pending = slices.Insert(slices.Delete(s.checking.pending, i, i+1), 0, full)
	}
}

// Rotten is the error that Open gives for a model with a file that was found to be another than was
// stored (see [Store.Guard]), or nil.
func (m *Model) Rotten() error {
	m.s.checking.mu.Lock()
	none := len(m.s.checking.rotten) == 0
	m.s.checking.mu.Unlock()
	if none || m.Builtin {
		return nil
	}
	if m.Folder != "" {
		return m.s.sound(m.Folder, m.Digest)
	}
	for _, l := range m.m.Layers {
		if st, err := m.s.disk.Stat(blobPath(l)); err == nil {
			if err := m.s.soundBlob(blobPath(l), st); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkBlob reads a blob back from disk whole and compares its hash.
func (s *Store) checkBlob(ctx context.Context, l descriptor) (size int64, err error) {
	label := cmp.Or(l.Name, path.Base(l.MediaType))
	d, size, err := s.hashFile(ctx, blobPath(l))
	switch {
	case ctx.Err() != nil:
		return size, ctx.Err()
	case errors.Is(err, fs.ErrNotExist):
		return size, &models.Error{Path: s.where(blobPath(l)), What: label + " is missing", Fix: "pull the model again",
			Err: models.ErrMissing}
	case err == nil && d != l.Digest:
		return size, &models.Error{Path: s.where(blobPath(l)), What: fmt.Sprintf("%s has rotten: %s, expected %q, got %q", label,
			ErrMismatch, l.Digest, d), Fix: "pull the model again", Err: ErrMismatch}
	}
	return size, err
}
