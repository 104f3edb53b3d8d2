package store

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // Git's blob ids are SHA-1; what the store keeps is named by SHA-256
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
)

// Progress is one of Ollama's status lines: "pulling manifest"; "pulling <12 hex>" with digest,
// total and completed bytes, again and again; "verifying sha256 digest"; "writing manifest";
// "success".
type Progress struct {
	Status    string `json:"status"`
	Digest    string `json:"digest,omitempty"`
	Total     int64  `json:"total,omitempty"`
	Completed int64  `json:"completed,omitempty"`
}

// Pull fetches a model by name from the client's hub; nil means [hub.FromEnv]. Only the files that
// make up the package for this machine are fetched, each is compared with the hub's hash, and the
// model appears in the store when all are there and the package opens. An interrupted pull, however
// it ended, goes on where it stopped. report may be nil. It is called on the caller's goroutine and
// in order, and may take its time: the pull goes on meanwhile, and of a file's progress only the
// latest is kept for it.
//
// A model that is here, did not come from the repository of its name, and is not in the catalogue
// has nothing newer anywhere: it is not fetched, and that is a success, as clients expect that pull
// whatever they are about to use.
//
// Errors: models.ErrName, [ErrTaken], a *[hub.UnknownError], hub.ErrNotFound and hub.ErrDenied,
// those of models.Open when the repository holds no package, [ErrMismatch] when the hub keeps
// sending something else than it lists, [ErrSpace], ctx's, and the disk's.
func (s *Store) Pull(ctx context.Context, name string, c *hub.Client, report func(Progress)) error {
	n, err := models.ParseName(name)
	if err != nil {
		return err
	}
	m, err := s.Get(name)
	here := err == nil
	if err := notForeign(n, err); err != nil {
		return err
	}
	src, err := hub.Locate(n)
	if here && (err != nil || src.Entry == nil && !strings.HasPrefix(strings.ToLower(m.Hub), strings.ToLower(src.Repo)+"@")) {
		// Made here, in place, or built in.
		if report != nil {
			report(Progress{Status: "pulling manifest"})
			report(Progress{Status: "success"})
		}
		return nil
	}
	if err != nil {
		return err
	}
	if c == nil {
		c = hub.FromEnv()
	}
	p := &pull{s: s, c: c, quiet: report == nil, last: map[string]time.Time{}, news: make(chan struct{}, 1)}
	defer s.announce()()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = p.run(ctx, n, src)
	}()
	defer func() { cancel(); <-done }() // also where report ends this goroutine
	for working := true; working; {
		select {
		case <-p.news:
		case <-done:
			working = false
		}
		for pr, ok := p.next(); ok; pr, ok = p.next() {
			ranked.None()
			report(pr)
		}
	}
	return err
}

// run is a pull. It goes on with listeners or without.
func (p *pull) run(ctx context.Context, n models.Name, src hub.Source) (err error) {
	s, c := p.s, p.c
	defer c.CloseIdle()
	p.say(Progress{Status: "pulling manifest"})
	if src.Entry != nil && src.Entry.NotYet != "" {
		p.say(Progress{Status: "this model will not run: " + src.Entry.NotYet})
	}
	leave, err := s.queue(ctx, func() { p.say(Progress{Status: fmt.Sprintf("waiting for one of %d other pulls to end", maxPulls)}) })
	if err != nil {
		return err
	}
	defer leave()
	if err := p.find(ctx, src); err != nil {
		return err
	}
	if err := p.choose(ctx); err != nil {
		return err
	}
	for round := 0; ; round++ { // again when a blob was rotten or another process took one away; each time it is fetched anew
		m, err := p.fetch(ctx)
		if err != nil {
			return err
		}
		if bad, err := p.verify(ctx, m); err != nil {
			return err
		} else if bad && round < 3 {
			continue
		}
		more, err := p.check(m)
		//rule:G24 TestPullKinds false
		if more { // what of its tensors could not be read before is here now
			if err := p.choose(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			if p.gone(m) && round < 3 { // a delete came between
				continue
			}
			return err
		}
		p.say(Progress{Status: "writing manifest"})
		err = s.locked(func() error { return s.commit(n, m) })
		var gone *errGone
		if errors.As(err, &gone) && round < 3 {
			continue
		}
		if err != nil {
			return err
		}
		p.say(Progress{Status: "success"})
		return nil
	}
}

// find lists the repository, under the first of its spellings that the hub knows. Hubs say of what
// is not there that one may not see it.
func (p *pull) find(ctx context.Context, src hub.Source) (err error) {
	if p.snap, err = p.c.Snapshot(ctx, src.Repo, src.Revision); err == nil || len(src.Also) == 0 {
		return err
	}
	missing := func(err error) bool { return errors.Is(err, hub.ErrNotFound) || errors.Is(err, hub.ErrDenied) }
	for _, repo := range src.Also {
		if !missing(err) {
			return err
		}
		var other error
		if p.snap, other = p.c.Snapshot(ctx, repo, src.Revision); other == nil || !missing(other) {
			return other
		}
	}
	return fmt.Errorf("%w; nor is there %s", err, strings.Join(src.Also, " or "))
}

// queue waits until fewer than maxPulls are at work, telling so once if it has to, and counts this
// one until leave is called: what pulls hold in memory is bounded, whatever the hub says.
func (s *Store) queue(ctx context.Context, wait func()) (leave func(), err error) {
	if !s.pulls.TryAcquire(1) {
		wait()
		if err := s.pulls.Acquire(ctx, 1); err != nil {
			return nil, err
		}
	}
	return func() { s.pulls.Release(1) }, nil
}

const maxPulls = 3 // at once; others wait

// ErrSpace is a disk too small for what a pull still has to fetch.
var ErrSpace = errors.New("models: not enough free disk")

// pull is one pull at work: what a hub has of a model, and what is told of it.
type pull struct {
	s    *Store
	c    *hub.Client
	snap *hub.Snapshot

	files    []hub.File // to fetch, large ones first
	licenses []hub.File
	whole    bool     // all that the repository has, for a package of another kind than a language model's
	told     bool     // that it is one
	speaks   bool     // it needs dictionaries, which it may lack
	fresh    sync.Map // digests hashed from disk during this pull

	quiet   bool
	news    chan struct{}                    // there is something in reports
	mu      ranked.Mutex[ranked.PullReports] // reports and last
	reports []Progress                       // not told yet: lines in order, and of each file one more
	last    map[string]time.Time
}

// say leaves a report for its listeners, and does not wait: under a lock, and behind a client that
// reads slowly, others would wait too.
func (p *pull) say(pr Progress) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if pr.Digest != "" && pr.Completed < pr.Total { // ten lines a second and file are enough for any terminal
		now := time.Now()
		if now.Sub(p.last[pr.Digest]) < 100*time.Millisecond {
			return
		}
		p.last[pr.Digest] = now
	}
	if i := slices.IndexFunc(p.reports, func(o Progress) bool { return pr.Digest != "" && o.Digest == pr.Digest }); i >= 0 {
		p.reports[i] = pr
		return
	}
	p.reports = append(p.reports, pr)
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// next takes the oldest report that is not told yet.
func (p *pull) next() (pr Progress, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.reports) == 0 {
		return pr, false
	}
	pr, p.reports = p.reports[0], p.reports[1:]
	return pr, true
}

// fetch makes blobs of all files and returns the manifest that names them.
func (p *pull) fetch(ctx context.Context) (*manifest, error) {
	if err := mkdirs(p.s.disk, "blobs"); err != nil {
		return nil, fmt.Errorf("models: %w", err)
	}
	if err := p.space(); err != nil {
		return nil, err
	}
	m := &manifest{Axle: &origin{Hub: p.snap.Repo + "@" + p.snap.Commit, Created: time.Now().UTC()},
		Layers: make([]descriptor, len(p.files))}
	for _, f := range p.files { // all totals first, so that a client that adds them up knows how much is to come
		var done int64
		if size, ok, _ := p.s.HasBlob(f.Digest); ok && size == f.Size {
			done = size
		} else if st := p.s.readState(p.partialName(f), f.Size); st != nil {
			done = st.Done()
		}
		p.sayFile(f, done)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(3) // files at once; the client bounds connections
	for i, f := range p.files {
		g.Go(func() error {
			d, size, err := p.file(gctx, f)
			m.Layers[i] = descriptor{mediaFile, d, size, f.Path}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(m.Layers, func(a, b descriptor) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range p.licenses {
		data, err := p.c.Read(ctx, p.snap, f, maxPlanFile)
		if err != nil {
			return nil, err
		}
		d, size, err := p.s.put(ctx, nil, bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		m.Layers = append(m.Layers, descriptor{MediaType: mediaLicense, Digest: d, Size: size})
	}
	return m, nil
}

// space compares what is still to be fetched with what the disk has.
func (p *pull) space() error {
	free, err := p.s.disk.Free()
	if err != nil || free < 0 {
		return nil // unknown: the disk itself will say
	}
	var need int64
	for _, f := range p.files {
		if _, ok, _ := p.s.HasBlob(f.Digest); ok {
			continue
		}
		need += f.Size
		if st := p.s.readState(p.partialName(f), f.Size); st != nil {
			need -= st.Done()
		}
	}
	const margin = 64 << 20
	if lacks := need + margin - free; need > 0 && lacks > 0 && p.s.yield(lacks) < lacks {
		return fmt.Errorf("%w: %s to fetch, %s free in %s; free some, or set AXLE_MODELS to a larger disk", ErrSpace,
			models.HumanBytes(need), models.HumanBytes(free), p.s.where("."))
	}
	return nil
}

// partialName is where a file's bytes are kept until all are there: by its hash, and where there is
// none by where it comes from, so that two repositories' bytes are never mixed.
func (p *pull) partialName(f hub.File) string {
	if f.Digest.IsZero() {
		key := f.Git
		if key == "" {
			//rule:T10 TestPartialsApart fmt.Appendf(nil, "%s@%s\x00%s\x00%d", p.snap.Repo, p.snap.Commit, f.Path, f.Size) => []byte(f.Path)
			key = hexOf(fmt.Appendf(nil, "%s@%s\x00%s\x00%d", p.snap.Repo, p.snap.Commit, f.Path, f.Size))
		}
		return "blobs/git-" + key + "-partial"
	}
	return "blobs/" + f.Digest.File() + "-partial"
}

// file makes a blob of one file: what is there already counts, whatever part of it.
func (p *pull) file(ctx context.Context, f hub.File) (models.Digest, int64, error) {
	key := p.partialName(f)
	defer p.s.alone(key)()
	for attempt := 0; ; attempt++ {
		if !f.Digest.IsZero() {
			if size, ok, err := p.s.HasBlob(f.Digest); err != nil {
				return f.Digest, 0, err
			} else if ok && size == f.Size {
				p.sayFile(f, f.Size)
				return f.Digest, size, nil
			}
		}
		if err := p.download(ctx, f, key); err != nil {
			return f.Digest, 0, err
		}
		blob := sha1.New() //nolint:gosec // see above
		fmt.Fprintf(blob, "blob %d\x00", f.Size)
		d, size, err := p.s.hashFile(ctx, key, blob)
		if errors.Is(err, fs.ErrNotExist) && attempt < 3 { // another process finished it first
			continue
		}
		if err != nil {
			return d, 0, err
		}
		git := hex.EncodeToString(blob.Sum(nil))
		//rule:T10 TestPullFaults size == f.Size && => size == f.Size ||
		//rule:G8 TestPullFaults (f.Digest.IsZero() || d == f.Digest) && =>
		if size == f.Size && (f.Digest.IsZero() || d == f.Digest) && (f.Git == "" || git == f.Git) {
			if err := p.s.adopt(key, d); err != nil {
				return d, 0, err
			}
			_ = p.s.disk.Remove(key + ".parts")
			p.fresh.Store(d, true)
			if f.Digest.IsZero() {
				f.Digest = d
				p.sayFile(f, f.Size)
			}
			return d, size, nil
		}
		// Which bytes are wrong is not known: all go.
		pointer := p.s.isPointer(key)
		_ = p.s.disk.Remove(key)
		_ = p.s.disk.Remove(key + ".parts")
		again := "try another hub with HF_ENDPOINT"
		if f.URL != "" {
			again = hub.AnotherAddress
		}
		switch {
		case pointer:
			return d, 0, &models.Error{Path: f.Path, What: "the hub sent a Git LFS pointer, not the file",
				Fix: "set HF_ENDPOINT to a hub that serves large files", Err: models.ErrPointer}
		case attempt < 2:
		case f.Digest.IsZero():
			return d, 0, fmt.Errorf("models: %s: %w, expected Git blob %s, got %s, three times; %s", f.Path, ErrMismatch, f.Git,
				git, again)
		default:
			return d, 0, fmt.Errorf("models: %s: %w, expected %q, got %q, three times; %s", f.Path, ErrMismatch, f.Digest, d,
				again)
		}
	}
}

// sayKind tells once that the package is one of another kind.
func (p *pull) sayKind(kind *models.KindError) {
	if !p.told && !kind.Runs() {
		p.say(Progress{Status: kind.Error()})
	}
	p.told = true
}

// sayFile tells how much of a file is there.
func (p *pull) sayFile(f hub.File, done int64) {
	if f.Digest.IsZero() {
		return
	}
	p.say(Progress{Status: "pulling " + f.Digest.Short(), Digest: f.Digest.String(), Total: f.Size, Completed: done})
}

// download brings the partial file to its full size, synced.
func (p *pull) download(ctx context.Context, f hub.File, key string) error {
	w, err := p.s.disk.Create(key)
	if err != nil {
		return p.unwritten(key, err)
	}
	defer w.Close()
	if err := p.s.forget(key); err != nil {
		return p.unwritten(key, err)
	}
	st := p.s.readState(key, f.Size)
	if st == nil {
		st = hub.NewState(f.Size, p.c.Part)
	}
	if info, err := w.Stat(); err != nil || info.Size() != f.Size {
		if err == nil {
			st = hub.NewState(f.Size, p.c.Part)
			err = w.Truncate(f.Size)
		}
		if err != nil {
			return p.unwritten(key, err)
		}
	}
	p.s.writeState(key, st)
	var mu ranked.Mutex[ranked.PullFile]
	saved := time.Now()
	done := st.Done()
	p.sayFile(f, done)
	ferr := p.c.Fetch(ctx, p.snap, f, st, w, func(n int64) {
		mu.Lock()
		if done += n; done < f.Size {
			p.sayFile(f, done)
		}
		save := time.Since(saved) > time.Second
		if save {
			saved = time.Now()
		}
		mu.Unlock()
		if save {
			p.s.writeState(key, st)
		}
	})
	p.s.writeState(key, st) // also when all is there: the hashing to come may be broken off
	if ferr != nil {
		var he *hub.Error
		if !errors.As(ferr, &he) && ctx.Err() == nil {
			ferr = p.unwritten(key, ferr)
		}
		return ferr
	}
	//rule:D13 TestCrashImages w.Sync() => error(nil)
	if err := w.Sync(); err != nil {
		// Linux counts what it could not write as written: it can be read until the power goes, and
		// no later sync saves it. So none of it counts.
		//rule:D13 TestDiskErrors drop
		p.s.unsynced.Store(key, true)
		_ = p.s.forget(key)
		return fmt.Errorf("models: %s could not be synced; it is fetched anew next time: %w", p.s.where(key), err)
	}
	p.sayFile(f, f.Size)
	return nil
}

// unwritten is an error of the disk that a file is written to.
func (p *pull) unwritten(key string, err error) error {
	//rule:D11 ./cmd/axle TestFullDisk return => _ = p.s.disk.Remove(key); return
	return fmt.Errorf("models: %s cannot be written; what is there stays for resuming: %w", p.s.where(key), err)
}

// verify hashes the blobs that were there before this pull: it is the moment to find a rotten one,
// which is removed. bad says that one was.
func (p *pull) verify(ctx context.Context, m *manifest) (bad bool, err error) {
	p.say(Progress{Status: "verifying sha256 digest"})
	for _, l := range m.Layers {
		if _, ok := p.fresh.Load(l.Digest); ok {
			continue
		}
		d, _, err := p.s.hashFile(ctx, blobPath(l))
		if errors.Is(err, fs.ErrNotExist) {
			bad = true
			continue
		}
		if err != nil {
			return false, err
		}
		if d != l.Digest {
			if err := p.s.disk.Remove(blobPath(l)); err != nil {
				return false, fmt.Errorf("models: %w", err)
			}
			bad = true
			continue
		}
		p.fresh.Store(d, true)
	}
	return bad, nil
}

// check opens the package as it will be, before it gets a name. more says that files are still to
// be fetched, of a package that turns out to be no language model.
func (p *pull) check(m *manifest) (more bool, err error) {
	o, err := models.OpenAnyFS(newPackageFS(p.s.disk, m.files()), ".")
	if kind := new(models.KindError); errors.As(err, &kind) {
		p.sayKind(kind)
		more, p.whole = !p.whole, true
		return more, nil
	}
	if err != nil {
		return false, fmt.Errorf("models: what %s holds was fetched whole but does not fit together: %w", p.snap.Repo, err)
	}
	switch o.(type) {
	case *models.Package:
	case *models.Kokoro:
		more = !p.whole || !p.speaks
		p.whole, p.speaks = true, true
	default:
		more, p.whole = !p.whole, true
	}
	return more, o.Close()
}

// gone says whether a blob of m is missing.
func (p *pull) gone(m *manifest) bool {
	return slices.ContainsFunc(m.Layers, func(l descriptor) bool {
		size, ok, err := p.s.HasBlob(l.Digest)
		return err == nil && (!ok || size != l.Size)
	})
}

// isPointer says whether a file is what Git LFS keeps in place of a large one.
func (s *Store) isPointer(name string) bool {
	f, err := s.disk.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 64)
	n, _ := f.ReadAt(head, 0)
	return strings.HasPrefix(string(head[:n]), "version https://git-lfs.github.com/spec")
}
