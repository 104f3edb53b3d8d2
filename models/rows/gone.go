package rows

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"path"

	"github.com/axle-llm/axle/prefix"
)

// telling is a disk that tells of each block that is removed.
type telling struct {
	disk
	gone func(name prefix.Name)
}

func (t telling) Remove(name string) error {
	err := t.disk.Remove(name)
	if b, wrong := hex.DecodeString(path.Base(name)); wrong == nil && len(b) == len(prefix.Name{}) &&
		(err == nil || errors.Is(err, fs.ErrNotExist)) {
		t.gone(prefix.Name(b))
	}
	return err
}
