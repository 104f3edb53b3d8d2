package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
)

// This file chooses what of a repository a pull fetches: the small files are read, as if they were
// a folder, for what package they make.

// What of a repository is read to know what it is, and what its licences may be.
const (
	maxPlanFile = 1 << 20
	maxPlan     = 4 << 20
	maxLicenses = 1 << 20
)

// smallFS serves the files read for planning.
type smallFS map[string][]byte

func (s smallFS) Open(name string) (fs.File, error) {
	data, ok := s[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return newPlanFile(name, bytes.NewReader(data), int64(len(data))), nil
}

// planFile is an open file of a repository.
type planFile struct {
	*io.SectionReader
	name string
}

func newPlanFile(name string, r io.ReaderAt, size int64) planFile {
	return planFile{io.NewSectionReader(r, 0, size), path.Base(name)}
}

func (f planFile) Stat() (fs.FileInfo, error) { return info{f.name, f.Size(), false}, nil }
func (f planFile) Close() error               { return nil }

// What is read of files that are not fetched yet, to know what they are: a piece at a time, as far
// as this goes.
const (
	peekPiece = 32 << 10
	peekMost  = 8 << 20
)

// listedFS serves the files read for planning, and the beginnings of .axmodel files as far as
// somebody reads them. The first that a hub does not serve in parts is the last.
type listedFS struct {
	smallFS
	ctx   context.Context
	p     *pull
	left  int64
	ended bool
}

func (l *listedFS) Open(name string) (fs.File, error) {
	if _, ok := l.smallFS[name]; ok || path.Ext(name) != ".axmodel" || l.ended {
		return l.smallFS.Open(name)
	}
	i := slices.IndexFunc(l.p.snap.Files, func(f hub.File) bool { return f.Path == name })
	if i < 0 {
		return l.smallFS.Open(name)
	}
	f := l.p.snap.Files[i]
	return newPlanFile(name, &listedFile{l, f, map[int64][]byte{}}, f.Size), nil
}

type listedFile struct {
	fs     *listedFS
	f      hub.File
	pieces map[int64][]byte
}

// ReadAt fetches the pieces that hold what is asked for.
func (f *listedFile) ReadAt(dst []byte, off int64) (n int, err error) {
	for n < len(dst) && off < f.f.Size {
		start := off / peekPiece * peekPiece
		data := f.pieces[start]
		if data == nil {
			data = make([]byte, min(peekPiece, f.f.Size-start))
			if f.fs.left -= int64(len(data)); f.fs.left < 0 || f.fs.ended {
				return n, fs.ErrInvalid
			}
			if err := f.fs.p.c.ReadAt(f.fs.ctx, f.fs.p.snap, f.f, data, start); err != nil {
				f.fs.ended = true
				return n, err
			}
			f.pieces[start] = data
		}
		k := copy(dst[n:], data[off-start:])
		n, off = n+k, off+int64(k)
	}
	if n < len(dst) {
		return n, io.EOF
	}
	return n, nil
}

// planning says whether a file is needed to know which others are.
func planning(f hub.File) bool {
	base := path.Base(f.Path)
	switch {
	case f.Size > maxPlanFile || strings.Count(f.Path, "/") > 4:
		return false
	case base == "config.json", base == "generation_config.json", base == "post_config.json",
		strings.HasPrefix(base, "mode_") && strings.HasSuffix(base, ".json"), strings.HasSuffix(base, ".sh"):
		return true
	}
	// A tiny file where a large one belongs: an LFS pointer that the hub did not resolve.
	return f.Size > 0 && f.Size <= 1024 && (strings.HasSuffix(base, ".axmodel") || strings.HasSuffix(base, ".bin") ||
		strings.HasSuffix(base, ".npy") || strings.Contains(base, "tokenizer"))
}

// choose reads the small files that say what the package is, and settles on the files to fetch.
func (p *pull) choose(ctx context.Context) error {
	small := smallFS{}
	sizes := map[string]int64{}
	var plan []hub.File
	for _, f := range p.snap.Files {
		sizes[f.Path] = f.Size
		if planning(f) && len(plan) < 400 {
			plan = append(plan, f)
		}
	}
	var mu ranked.Mutex[ranked.PullPlan]
	left := int64(maxPlan)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for _, f := range plan {
		g.Go(func() error {
			data, err := p.c.Read(gctx, p.snap, f, maxPlanFile)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			//rule:T7 TestPullPlans false
			if left -= int64(len(data)); left < 0 { // the listing's sizes may be none
				return fmt.Errorf("models: %s: the scripts and configurations that say what it is have more than %d MiB together: %w",
					p.snap.Repo, maxPlan>>20, hub.ErrListing)
			}
			small[f.Path] = data
			sizes[f.Path] = int64(len(data))
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	p.files, p.licenses = nil, nil
	licenses := int64(0)
	listed := &listedFS{smallFS: small, ctx: ctx, p: p, left: peekMost}
	need, err := models.Select(sizes, listed)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if listed.ended && (err == nil || errors.Is(err, models.ErrNotPackage)) && p.others(need) {
		p.whole, err = true, nil // what the others are is seen when they have come
	}
	var kind *models.KindError
	switch {
	case errors.As(err, &kind):
		p.sayKind(kind)
		p.whole = true
	case err != nil:
		return p.noPackage(err)
	case p.whole:
		need = nil
		for name := range sizes {
			if !strings.HasPrefix(name, ".") {
				need = append(need, name)
			}
		}
	}
	for _, f := range p.snap.Files {
		switch {
		case slices.Contains(need, f.Path) && (!license(f.Path) || !p.whole):
			if f, err = p.c.Describe(ctx, p.snap, f); err != nil {
				return err
			}
			p.files = append(p.files, f)
		case license(f.Path) && licenses+f.Size <= maxLicenses && len(p.licenses) < 16:
			licenses += f.Size
			p.licenses = append(p.licenses, f)
		}
	}
	if p.speaks = p.speaks || kind != nil && kind.Kind == "Kokoro"; p.speaks {
		p.files = append(p.files, p.dictionaries()...)
	}
	slices.SortStableFunc(p.files, func(a, b hub.File) int { return int(min(max(b.Size-a.Size, -1), 1)) })
	return nil
}

// dictionaries are what the package of a speaker lacks to know how words sound.
func (p *pull) dictionaries() (all []hub.File) {
	var there []string
	for _, f := range p.files {
		there = append(there, f.Path)
	}
	lacks := models.LackedDictionaries(there)
	for _, f := range p.c.Dictionaries {
		if slices.Contains(lacks, path.Base(f.Path)) {
			all = append(all, f)
		}
	}
	return all
}

// others says whether the repository has compiled files other than those.
func (p *pull) others(need []string) bool {
	return slices.ContainsFunc(p.snap.Files, func(f hub.File) bool {
		return path.Ext(f.Path) == ".axmodel" && !slices.Contains(need, f.Path)
	})
}

// license says whether a file is a license.
func license(name string) bool {
	return !strings.Contains(name, "/") && strings.HasPrefix(strings.ToUpper(name), "LICENSE")
}

// noPackage explains a repository without one.
func (p *pull) noPackage(err error) error {
	if !errors.Is(err, models.ErrNotPackage) {
		return fmt.Errorf("models: %s: %w", p.snap.Repo, err)
	}
	for _, f := range p.snap.Files {
		if strings.HasSuffix(f.Path, ".gguf") {
			return fmt.Errorf("models: %s holds GGUF files, which this chip cannot run; nearest in the catalogue: %s: %w",
				p.snap.Repo, strings.Join(hub.Nearest(path.Base(p.snap.Repo)), ", "), err)
		}
	}
	return fmt.Errorf("models: %s at %s: %w", p.snap.Repo, p.snap.Commit, err)
}
