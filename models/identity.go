package models

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
)

// This file tells one package from another by a digest of its files.

// identify makes the digest of a package's files and adds up their sizes. The digest stands for the
// content without reading all of it: names, sizes, and the first and last 64 KiB of each file. So a
// copy of a package is the same package, and a retrained or rebuilt one is another. `axle verify`
// compares whole files.
func identify(t *tree, files []string) (size int64, digest string, err error) {
	h := sha256.New()
	known, isKnown := t.fsys.(interface{ PackageDigest() string }) // the store knows the digests of whole files
	for _, name := range files {
		f, err := t.fsys.Open(name)
		if err != nil {
			return 0, "", &Error{Path: t.where(name), What: cause(err), Err: err}
		}
		st, err := f.Stat()
		if err == nil {
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
