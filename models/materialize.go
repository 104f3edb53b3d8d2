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
// hash; one that is there already is compared byte by byte, and replaced where it differs. Several
// processes may do this at once. The files appear all or none.
func Materialize(fsys fs.FS, cache string) (string, error) {
	files := map[string][]byte{}
	h := sha256.New()
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		files[name] = data
		fmt.Fprintf(h, "%s\x00%d\x00", name, len(data))
		h.Write(data)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("models: %w", err)
	}
	if len(files) == 0 {
		return "", &Error{Path: cache, What: "there is no file to put there", Err: ErrNotPackage}
	}
	dir := filepath.Join(cache, hex.EncodeToString(h.Sum(nil)))
	if same(dir, files) {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("models: %w", err)
	}
	tmp := filepath.Join(cache, "tmp-"+rand.Text()[:16])
	defer os.RemoveAll(tmp)
	for name, data := range files {
		if err := writeSynced(filepath.Join(tmp, filepath.FromSlash(name)), data); err != nil {
			return "", fmt.Errorf("models: %w", err)
		}
	}
	// A folder cannot be renamed over one that has files: a damaged one goes first, and the loser
	// of the race finds the winner's.
	for range 3 {
		if err = os.Rename(tmp, dir); err == nil || same(dir, files) {
			return dir, nil
		}
		if rerr := os.RemoveAll(dir); rerr != nil {
			return "", fmt.Errorf("models: %w", errors.Join(err, rerr))
		}
	}
	return "", fmt.Errorf("models: %w", err)
}

func same(dir string, files map[string][]byte) bool {
	for name, want := range files {
		got, err := regular.ReadPath(filepath.Join(dir, filepath.FromSlash(name)), int64(len(want)))
		if err != nil || !bytes.Equal(got, want) {
			return false
		}
	}
	return len(files) > 0
}

func writeSynced(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
