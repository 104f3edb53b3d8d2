package hosthead

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/axle-llm/axle/axcl/soft/kernel"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/regular"
)

// group is how many of a row's weights share a scale. Groups of 32 are a little more exact, and
// take 5 % more memory and time.
const group = 128

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// file is the software model (docs/axmodel-format.md) that Write makes of a head.
func (s *Source) file(f *Fitted) (axmodel.Header, []axmodel.SoftGroup, []axmodel.Tensor) {
	h := axmodel.Header{Kind: axmodel.Head, Hidden: s.Hidden, Out: s.Out, Eps: s.Eps, Scale: s.Cap, Pos: 1, Tool: "axle host head"}
	t := []axmodel.Tensor{axmodel.Vector("norm", axmodel.F32, f.Norm), {Name: "weight", Type: axmodel.Int8Groups, Rows: s.Out,
		Cols: s.Hidden, Group: group, Row: func(dst []float32, r int) error {
			_, err := s.row(dst, r)
			return err
		}}}
	if f.Bias != nil {
		h.Flags |= axmodel.FlagBias
		t = append(t, axmodel.Vector("bias", axmodel.F32, f.Bias))
	}
	return h, []axmodel.SoftGroup{{Rows: 1}}, t
}

// Bytes is the length of a head's file.
func (s *Source) Bytes() int64 {
	_, g, t := s.file(&Fitted{Norm: make([]float32, s.Hidden)})
	return axmodel.Size(g, t)
}

// Write makes the file of a head in the folder dir and returns its path. The file is whole or not
// there. key names what it was made from; a later Write with the same key replaces it. Errors: the
// table's, the file system's, ctx's.
func Write(ctx context.Context, dir, key string, s Source, f *Fitted) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	removeUnfinished(dir)
	out, err := os.CreateTemp(dir, unfinished+"*")
	if err != nil {
		return "", err
	}
	defer func() {
		_ = out.Close()
		if err != nil {
			_ = os.Remove(out.Name())
		}
	}()
	var st unix.Statfs_t
	if need := s.Bytes(); unix.Statfs(dir, &st) == nil && int64(st.Bavail)*int64(st.Bsize) < need {
		return "", fmt.Errorf("%s has no room for the %d MB of the host's head: remove models with `axle rm`, or use --head card", dir,
			need/1e6)
	}
	sum := crc32.New(castagnoli)
	h, groups, tensors := s.file(f)
	if err := axmodel.Write(io.MultiWriter(cancelled{ctx, out}, sum), h, groups, tensors); err != nil {
		return "", err
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return "", err
	}
	before, _ := find(dir, key)
	path = filepath.Join(dir, prefix+key+"-"+hex.EncodeToString(sum.Sum(nil))+suffix)
	if err := os.Rename(out.Name(), path); err != nil {
		return "", err
	}
	if before != "" && before != path {
		_ = os.Remove(before)
	}
	return path, nil
}

const prefix, suffix, unfinished = "head-", ".axmodel", ".new-head-"

// removeUnfinished removes what a killed process left.
func removeUnfinished(dir string) {
	left, _ := filepath.Glob(filepath.Join(dir, unfinished+"*"))
	for _, p := range left {
		if st, err := os.Stat(p); err == nil && time.Since(st.ModTime()) > time.Hour {
			_ = os.Remove(p)
		}
	}
}

// find returns the file with the key, or an empty string, and the checksum in its name.
func find(dir, key string) (path, sum string) {
	all, _ := filepath.Glob(filepath.Join(dir, prefix+key+"-????????"+suffix))
	slices.Sort(all)
	if len(all) == 0 {
		return "", ""
	}
	path = all[len(all)-1]
	return path, strings.TrimSuffix(path, suffix)[len(path)-len(suffix)-8:]
}

// cancelled is a writer that fails when its context ends.
type cancelled struct {
	ctx context.Context
	w   io.Writer
}

func (c cancelled) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.w.Write(b)
}

// Made reports whether there is a file with the key.
func Made(dir, key string) bool {
	path, _ := find(dir, key)
	return path != ""
}

// ErrNone is that there is no file with the key yet.
var ErrNone = errors.New("the host's head has no file yet")

// Open maps the file that Write made for the key. It fails with ErrNone if there is none, and with
// another error if the file is damaged or does not fit the source. The caller closes the head.
func Open(dir, key string, s Source) (*Head, error) {
	path, sum := find(dir, key)
	if path == "" {
		return nil, ErrNone
	}
	h, err := open(path, sum, s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

func open(path, sum string, s Source) (*Head, error) {
	meta, err := axmodel.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if meta.Soft == nil || meta.Soft.Kind != axmodel.Head || meta.Soft.Hidden != s.Hidden || meta.Soft.Out != s.Out {
		return nil, errors.New("is the head of another model")
	}
	for _, e := range meta.Soft.Tensors {
		want := axmodel.F32
		if e.Name == "weight" {
			want = axmodel.Int8Groups
		}
		if e.Type != want {
			return nil, fmt.Errorf("has a tensor %q of %v, want %v", e.Name, e.Type, want)
		}
	}
	f, err := regular.OpenPath(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() != meta.FileBytes {
		return nil, errors.New("changed while it was opened")
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("cannot be mapped: %w", err)
	}
	_ = unix.Madvise(b, unix.MADV_WILLNEED)
	//rule:G27 TestFile false
	if got := fmt.Sprintf("%08x", crc32.Checksum(b, castagnoli)); got != sum {
		_ = unix.Munmap(b)
		return nil, fmt.Errorf("is damaged: its checksum is %s", got)
	}
	h := newHead(s, b)
	for _, e := range meta.Soft.Tensors {
		switch e.Name {
		case "norm":
			h.norm = view[float32](b, e.Offset, e.Cols)
		case "bias":
			h.bias = view[float32](b, e.Offset, e.Cols)
		case "weight":
			h.weight = kernel.Weights{Rows: e.Rows, Cols: e.Cols, Group: e.Group, Q8: b[e.Offset:][:kernel.EightValues(e.Rows, e.Cols)],
				Groups: view[uint16](b, e.Scales, kernel.EightScales(e.Rows, e.Cols, e.Group))}
		}
	}
	return h, nil
}

func view[T any](b []byte, off int64, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&b[off])), n)
}

// Remove removes the file of the key.
func Remove(dir, key string) {
	if path, _ := find(dir, key); path != "" {
		_ = os.Remove(path)
	}
}

// Of is how keys begin of heads that were made from the package with this digest.
func Of(digest string) string { return digest[:min(16, len(digest))] + "-" }

// File is a head's file.
type File struct {
	Path  string
	Bytes int64
	Made  time.Time
}

// Look lists the heads in a folder that were made from the package with this digest; of all
// packages, if the digest is empty.
func Look(dir, digest string) (all []File) {
	of := "*-"
	if digest != "" {
		of = Of(digest)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, prefix+of+"*-????????"+suffix))
	for _, p := range paths {
		if st, err := os.Stat(p); err == nil {
			all = append(all, File{p, st.Size(), st.ModTime()})
		}
	}
	return all
}

// Clear removes what Look lists, and returns how many bytes that frees. Models that are loaded keep
// theirs until they are unloaded. Errors: the file system's.
func Clear(dir, digest string) (freed int64, err error) {
	for _, f := range Look(dir, digest) {
		if e := os.Remove(f.Path); e != nil {
			err = errors.Join(err, e)
			continue
		}
		freed += f.Bytes
	}
	return freed, err
}
