package models

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// This file tells one package from another: by the digest of its files, and by their sizes and
// times.

type stamp struct {
	size int64
	time time.Time
}

// identify makes the digest and remembers sizes and times.
func (pkg *Package) identify() (err error) {
	pkg.Size, pkg.digest, err = identify(pkg.p.t, pkg.p.files(), pkg.stamps)
	return err
}

// identify makes the digest of a package's files, adds their sizes and keeps them with their times
// in stamps, unless that is nil. The digest stands for the content without reading all of it:
// names, sizes, and of each file its first and last 64 KiB, so that a copy of a package is the same
// package and a retrained or rebuilt one is another. Whole files are compared by `axle verify`.
func identify(t *tree, files []string, stamps map[string]stamp) (size int64, digest string, err error) {
	h := sha256.New()
	known, isKnown := t.fsys.(interface{ PackageDigest() string }) // the store knows the digests of whole files
	for _, name := range files {
		f, err := t.fsys.Open(name)
		if err != nil {
			return 0, "", &Error{Path: t.where(name), What: cause(err), Err: err}
		}
		st, err := f.Stat()
		if err == nil {
			if stamps != nil {
				stamps[name] = stamp{st.Size(), st.ModTime()}
			}
			size += st.Size()
			if !isKnown {
				fmt.Fprintf(h, "%s\x00%d\x00", name, st.Size())
				err = sample(h, f, st.Size())
			}
		}
		f.Close()
		if err != nil {
			return 0, "", &Error{Path: t.where(name), What: cause(err), Err: err}
		}
	}
	if isKnown {
		return size, known.PackageDigest(), nil
	}
	return size, hex.EncodeToString(h.Sum(nil)), nil
}

func sample(w io.Writer, f fs.File, size int64) error {
	const edge = 64 << 10
	if _, err := io.CopyN(w, f, min(size, edge)); err != nil {
		return err
	}
	r, ok := f.(io.ReaderAt)
	if !ok || size <= edge {
		return nil
	}
	from := max(edge, size-edge)
	_, err := io.Copy(w, io.NewSectionReader(r, from, size-from))
	return err
}

// Digest identifies the package's content: 64 hex digits.
func (p *Package) Digest() string { return p.digest }

// Changed says whether a file of the package was replaced, removed or rewritten since Open, by
// sizes and times.
func (p *Package) Changed() bool {
	for name, was := range p.stamps {
		st, err := fs.Stat(p.fsys, name)
		if err != nil || st.Size() != was.size || !st.ModTime().Equal(was.time) {
			return true
		}
	}
	return false
}
