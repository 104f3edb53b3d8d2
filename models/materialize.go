package models

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/internal/regular"
)

// Materialize writes a package that ships inside the program into a folder of its own under cache,
// so that its files have real paths, and returns that folder. The folder is named by the content's
// hash; one that is there already is compared byte by byte, and replaced where it differs: so the
// files need not be synced. Several processes may do this at once. The files appear all or none.
func Materialize(fsys fs.FS, cache string) (string, error) {
	h, n := sha256.New(), 0
	err := eachFile(fsys, func(name string, data []byte) error {
		n++
		fmt.Fprintf(h, "%s\x00%d\x00", name, len(data))
		h.Write(data)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("models: %w", err)
	}
	if n == 0 {
		return "", &Error{Path: cache, What: "there is no file to put there", Err: ErrNotPackage}
	}
	dir := filepath.Join(cache, hex.EncodeToString(h.Sum(nil)))
	if same(dir, fsys) {
		return dir, nil
	}
	tmp := filepath.Join(cache, "tmp-"+rand.Text()[:16])
	defer os.RemoveAll(tmp)
	if err := os.CopyFS(tmp, fsys); err != nil {
		return "", fmt.Errorf("models: %w", err)
	}
	// A folder cannot be renamed over one that has files: a damaged one goes first, and the loser
	// of the race finds the winner's.
	for range 3 {
		if err = os.Rename(tmp, dir); err == nil || same(dir, fsys) {
			return dir, nil
		}
		if rerr := os.RemoveAll(dir); rerr != nil {
			return "", fmt.Errorf("models: %w", errors.Join(err, rerr))
		}
	}
	return "", fmt.Errorf("models: %w", err)
}

func eachFile(fsys fs.FS, f func(name string, data []byte) error) error {
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		return f(name, data)
	})
}

var errDiffers = errors.New("another file")

// same says whether a folder has the files.
func same(dir string, fsys fs.FS) bool {
	return eachFile(fsys, func(name string, want []byte) error {
		got, err := regular.ReadPath(filepath.Join(dir, filepath.FromSlash(name)), int64(len(want)))
		if err == nil && !bytes.Equal(got, want) {
			err = errDiffers
		}
		return err
	}) == nil
}
