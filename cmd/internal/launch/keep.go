package launch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/server/programs"
)

// mostConfig is the largest configuration that is read.
const mostConfig = 8 << 20

// Beside a configuration that was changed stands what it was before: its name ends with one of
// these and with the hash of what was written, so that a file that was changed since is told apart.
const (
	before  = ".before-axle-"  // the file as it was
	without = ".without-axle-" // empty: there was no file
)

// Where is the file of a program's configuration.
func Where(f *programs.File, getenv func(string) string) (string, error) {
	folder := getenv(f.Variable)
	if folder == "" {
		home := getenv("HOME")
		if home == "" {
			return "", errors.New("launch: HOME is not set, so the program's configuration is not found")
		}
		folder = filepath.Join(home, f.Folder)
	}
	path := filepath.Join(folder, f.Names[0])
	for _, name := range f.Names {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			path = filepath.Join(folder, name)
			break
		}
	}
	if to, err := filepath.EvalSymlinks(path); err == nil { // what it leads to is written, the link stays
		path = to
	}
	return path, nil
}

// Write puts values into the file at path, and keeps what it was beside it; kept is that file's
// name. A file that has them already is left alone, and kept is empty. Errors: what cannot be read
// or changed; the file is as it was then.
func Write(path string, isTOML bool, values []Value) (kept string, err error) {
	old, mode, err := read(path)
	if err != nil {
		return "", err
	}
	set := setJSON
	if isTOML {
		set = setTOML
	}
	now, err := set(old, values)
	if err != nil {
		return "", fmt.Errorf("launch: %s was not changed: %w", path, err)
	}
	if bytes.Equal(now, old) {
		return "", nil
	}
	first, was, err := recorded(path, old)
	if err != nil {
		return "", err
	}
	// What this program wrote is replaced: what is kept is what was there before all of it.
	end := before
	if first != "" {
		if old = was; strings.Contains(filepath.Base(first), without) {
			end = without
		}
	} else if mode == 0 {
		end = without
	}
	if mode == 0 {
		mode = 0o600
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
	}
	kept = path + end + hashed(now)
	if err := regular.Replace(kept, mode, old); err != nil {
		return "", err
	}
	if err := regular.Replace(path, mode, now); err != nil {
		return "", errors.Join(err, os.Remove(kept))
	}
	if first != "" && first != kept {
		err = os.Remove(first)
	}
	return kept, err
}

// Undo makes the file at path what it was before Write, or removes it where there was none. It
// fails where Write did not write it, or it was changed since.
func Undo(path string) error {
	now, mode, err := read(path)
	if err != nil {
		return err
	}
	kept, old, err := recorded(path, now)
	switch {
	case err != nil:
		return err
	case kept == "":
		all, _ := filepath.Glob(globbed(path) + before + "*")
		none, _ := filepath.Glob(globbed(path) + without + "*")
		if all = append(all, none...); len(all) == 0 {
			return fmt.Errorf("launch: nothing was written to %s, so there is nothing to undo", path)
		}
		return fmt.Errorf("launch: %s was changed since it was written: take the entries out by hand; what it was before is in %s", path,
			strings.Join(all, ", "))
	case strings.Contains(filepath.Base(kept), without):
		if err := os.Remove(path); err != nil {
			return err
		}
	default:
		if err := regular.Replace(path, mode, old); err != nil {
			return err
		}
	}
	return os.Remove(kept)
}

// read reads a configuration. mode is 0 where there is none.
func read(path string) (b []byte, mode fs.FileMode, err error) {
	b, err = regular.ReadPath(path, mostConfig)
	if errors.Is(err, fs.ErrNotExist) {
		if to, err := os.Readlink(path); err == nil { // a file in its place would lose the link
			return nil, 0, fmt.Errorf("launch: %s is a link to %s, which is not there: make that file, or remove the link", path, to)
		}
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("launch: %w", err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return nil, 0, err
	}
	return b, st.Mode().Perm(), nil
}

// recorded is the file beside path with what was there before b was written, and its content; "":
// Write did not write b.
func recorded(path string, b []byte) (kept string, was []byte, err error) {
	for _, end := range []string{before, without} {
		name := path + end + hashed(b)
		was, err := regular.ReadPath(name, mostConfig)
		if err == nil {
			return name, was, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", nil, err
		}
	}
	return "", nil, nil
}

func hashed(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// globbed is a path whose characters mean themselves in a pattern.
func globbed(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
