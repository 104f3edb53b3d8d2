package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/axle-llm/axle/models"
)

func randomName() string { return rand.Text()[:16] }

// HasBlob says whether a blob is in the store, and how large it is. One that was found rotten is
// not: a client that has it may send it again.
func (s *Store) HasBlob(d models.Digest) (size int64, ok bool, err error) {
	st, err := s.disk.Stat("blobs/" + d.File())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("models: %w", err)
	}
	if s.soundBlob("blobs/"+d.File(), st) != nil {
		return 0, false, nil
	}
	return st.Size(), true, nil
}

// PutBlob stores what r gives as the blob d. created is false when the blob was there already, and
// r then unread. Content that is not d's leaves nothing and fails with [ErrMismatch], in Ollama's
// words. What r gives may come from anyone and have any size: before the disk is full of it, it
// fails with [ErrSpace], and leaves nothing either.
func (s *Store) PutBlob(ctx context.Context, d models.Digest, r io.Reader) (created bool, err error) {
	if _, ok, err := s.HasBlob(d); ok || err != nil {
		return false, err
	}
	space := &spaceReader{r: r, s: s}
	defer space.release()
	if a, ok := r.(interface{ Announced() int64 }); ok && a.Announced() > 0 {
		if err := space.fits(a.Announced()); err != nil {
			return false, err
		}
	}
	got, _, err := s.put(ctx, &d, space)
	if err != nil {
		return false, err
	}
	return got == d, nil
}

// What others upload leaves this much of the disk for logs and for the system itself.
const reserve = 512 << 20

// spaceReader reads as long as the disk has room, which it takes before it reads what fills it:
// uploads that come together, or that stop on their way, never have more of it than there is.
type spaceReader struct {
	r    io.Reader
	s    *Store
	left int64 // of what was taken
	held int64 // as the store counts it
}

const (
	yieldAtOnce = 64 << 20 // that others are asked to free where an upload is at the end of the disk

	mostTaken  = 8 << 20
	leastTaken = 64 << 10
)

func (r *spaceReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		if err := r.take(); err != nil {
			return 0, err
		}
	}
	n, err := r.r.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	return n, err
}

// take gives back what was taken before, which is on the disk by now, and takes more.
func (r *spaceReader) take() error {
	r.release()
	for {
		free, err := r.s.disk.Free()
		if err != nil || free < 0 { // unknown: the disk itself will say
			r.left = mostTaken
			return nil
		}
		others := r.s.uploads.Load()
		//rule:T7 TestUploadsReserve -others =>
		n := min(free-reserve-others, mostTaken)
		if n < leastTaken {
			if r.s.yield(yieldAtOnce) > 0 {
				continue
			}
			return r.full(free)
		}
		if r.s.uploads.CompareAndSwap(others, others+n) {
			r.left, r.held = n, n
			return nil
		}
	}
}

func (r *spaceReader) release() {
	r.s.uploads.Add(-r.held)
	r.held = 0
}

// fits says whether an upload of this many bytes has room as things are.
func (r *spaceReader) fits(size int64) error {
	free, err := r.s.disk.Free()
	if err != nil || free < 0 {
		return nil
	}
	//rule:D11 TestGiveWay && r.s.yield(lacks) < lacks =>
	if lacks := size - (free - reserve - r.s.uploads.Load()); lacks > 0 && r.s.yield(lacks) < lacks {
		return r.full(free)
	}
	return nil
}

func (r *spaceReader) full(free int64) error {
	return fmt.Errorf("%w: %s free in %s; free some, or set AXLE_MODELS to a larger disk", ErrSpace, models.HumanBytes(free),
		r.s.where("."))
}

// GiveWay has f asked where uploads and pulls lack room on the disk: f frees
// what it can of the bytes that are needed, and says how many it freed.
func (s *Store) GiveWay(f func(lacks int64) (freed int64)) { s.gives.Store(&f) }

// yield asks for a number of bytes.
func (s *Store) yield(lacks int64) int64 {
	if f := s.gives.Load(); f != nil {
		return (*f)(lacks)
	}
	return 0
}

// put writes r under another name, syncs, and renames it to its digest; want may be nil.
func (s *Store) put(ctx context.Context, want *models.Digest, r io.Reader) (d models.Digest, size int64, err error) {
	if err := mkdirs(s.disk, "blobs"); err != nil {
		return d, 0, fmt.Errorf("models: %w", err)
	}
	tmp := "blobs/tmp-" + randomName()
	f, err := s.disk.Create(tmp)
	if err != nil {
		return d, 0, fmt.Errorf("models: %w", err)
	}
	defer func() {
		if err != nil {
			_ = s.disk.Remove(tmp)
		}
	}()
	h := sha256.New()
	size, err = copyCtx(ctx, io.MultiWriter(f, h), r)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return d, size, fmt.Errorf("models: %s: %w", s.where(tmp), err)
	}
	h.Sum(d[:0])
	if want != nil && d != *want {
		return d, size, fmt.Errorf("%w, expected %q, got %q", ErrMismatch, want, d)
	}
	return d, size, s.adopt(tmp, d)
}

// adopt gives a synced file its name as a blob.
func (s *Store) adopt(name string, d models.Digest) error {
	to := "blobs/" + d.File()
	if err := s.disk.Rename(name, to); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	if err := s.disk.SyncDir(path.Dir(to)); err != nil {
		return fmt.Errorf("models: %w", err)
	}
	if st, err := s.disk.Stat(to); err == nil {
		s.noteHashed(d, st)
	}
	return nil
}

// hashFile reads a file back from disk whole, also into the writers. A blob that has the hash of
// its name is known to be sound as it is.
func (s *Store) hashFile(ctx context.Context, name string, also ...io.Writer) (d models.Digest, size int64, err error) {
	f, err := s.disk.Open(name)
	if err != nil {
		return d, 0, fmt.Errorf("models: %w", err)
	}
	defer f.Close()
	st, serr := f.Stat() // before it is read: what is written meanwhile is not hashed
	h := sha256.New()
	if size, err = copyCtx(ctx, io.MultiWriter(append(also, h)...), f); err != nil {
		return d, size, fmt.Errorf("models: %s: %w", s.where(name), err)
	}
	h.Sum(d[:0])
	if serr == nil && name == "blobs/"+d.File() {
		s.noteHashed(d, st)
	}
	return d, size, nil
}

// Verify reads every file of a model back and compares its hash. report is called after each file
// with what was wrong with it, or nil; it may be nil. The error joins all that was wrong. For a
// package in place or built in there are no hashes to compare with: it is opened, which checks
// shapes and sizes, unless it brings a SHA256SUMS file.
func (s *Store) Verify(ctx context.Context, name string, report func(file string, size int64, err error)) error {
	m, err := s.Get(name)
	if err != nil {
		return err
	}
	if report == nil {
		report = func(string, int64, error) {}
	}
	if m.m.Axle.Folder != "" || m.m.Axle.Builtin != "" {
		return m.verifyOpened(ctx, report)
	}
	defer func() { _ = s.locked(func() error { s.keepHashed(); return nil }) }() // the store may be another user's
	var errs []error
	for _, l := range m.m.Layers {
		size, err := s.checkBlob(ctx, l)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		report(cmp.Or(l.Name, path.Base(l.MediaType)), size, err)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
