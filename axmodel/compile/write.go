package compile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/regular"
)

// write makes the package in a folder beside Out, which fill fills, and renames it.
func (j *job) write(ctx context.Context, fill func(ctx context.Context, dir string) error) error {
	if j.Out == "" {
		return errors.New("compile: no folder to write to was named")
	}
	out, err := filepath.Abs(j.Out)
	if err != nil {
		return err
	}
	if names, err := os.ReadDir(out); err == nil && len(names) > 0 {
		return &Error{Path: j.Out, What: "is there already and not empty: name a new folder"}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &Error{Path: j.Out, What: "cannot be used: " + reason(err), Err: err}
	}
	parent := filepath.Dir(out)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return &Error{Path: parent, What: "cannot be made: " + reason(err), Err: err}
	}
	if free, ok := freeBytes(parent); ok && free < j.total+j.total/100 {
		return &Error{Path: parent, What: fmt.Sprintf("has %d MB free, the package takes %d MB", free>>20, j.total>>20)}
	}
	tmp, err := os.MkdirTemp(parent, "."+filepath.Base(out)+".compile-")
	if err != nil {
		return &Error{Path: parent, What: "cannot be written: " + reason(err), Err: err}
	}
	defer os.RemoveAll(tmp)
	if err := os.Chmod(tmp, 0o755); err != nil {
		return err
	}
	if err := fill(ctx, tmp); err != nil {
		return err
	}
	// What has its name is whole, though the power fails in the next second.
	if err := syncTree(tmp); err != nil {
		return &Error{Path: j.Out, What: "cannot be written: " + reason(err), Err: err}
	}
	_ = os.Remove(out) // an empty folder
	if err := os.Rename(tmp, out); err != nil {
		return &Error{Path: j.Out, What: "cannot be made: " + reason(err), Err: err}
	}
	if err := syncFile(parent); err != nil {
		return &Error{Path: j.Out, What: "cannot be written: " + reason(err), Err: err}
	}
	return nil
}

// syncTree brings a folder and all in it to the disk.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncFile(name)
	})
}

// syncFile brings a file, or a folder's names, to the disk. File systems that cannot sync folders
// say so, and there is nothing better to do there.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

func (j *job) fill(ctx context.Context, dir string) error {
	for _, f := range j.files {
		interruptible(ctx, f.tensors)
		for _, p := range f.parts {
			interruptible(ctx, p.Tensors)
		}
		if err := j.create(dir, f.name, f.write); err != nil {
			return err
		}
	}
	name := j.prefix + "embed_tokens.weight"
	row := j.c.weights[name].reader(name)
	if j.Whole != "" {
		if err := j.create(dir, axmodel.WholeEmbed, func(w io.Writer) error { return j.table(ctx, w, row) }); err != nil {
			return err
		}
		return j.describeWhole(dir)
	}
	if err := j.create(dir, axmodel.EmbedFile, func(w io.Writer) error {
		return j.rows(ctx, w, j.vocab, j.a.Hidden, false, row)
	}); err != nil {
		return err
	}
	if name := j.headTable(); name != "" {
		row := j.c.weights[name].reader(name)
		if err := j.create(dir, axmodel.HeadTable, func(w io.Writer) error {
			return j.rows(ctx, w, j.vocab, j.a.Hidden, false, row)
		}); err != nil {
			return err
		}
	}
	return j.describe(ctx, dir)
}

// interruptible makes tensors end with ctx's error once that is over.
func interruptible(ctx context.Context, ts []axmodel.Tensor) {
	for i := range ts {
		row := ts[i].Row
		ts[i].Row = func(dst []float32, r int) error {
			if r%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			return row(dst, r)
		}
	}
}

// create writes one file, counting its bytes for Progress.
func (j *job) create(dir, name string, f func(io.Writer) error) error {
	path := filepath.Join(dir, name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return &Error{Path: filepath.Join(j.Out, name), What: "cannot be made: " + reason(err), Err: err}
	}
	err = f(writer(func(b []byte) (int, error) {
		n, err := file.Write(b)
		j.done += int64(n)
		if j.Progress != nil {
			j.Progress(Progress{File: name, Done: j.done, Total: max(j.total, j.done)})
		}
		return n, err
	}))
	if e := file.Close(); err == nil {
		err = e
	}
	var known *Error
	if err != nil && !errors.As(err, &known) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		err = &Error{Path: filepath.Join(j.Out, name), What: reason(err), Err: err}
	}
	return err
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// maxText is the most bytes that a file of the checkpoint's configuration may have.
const maxText = 32 << 20

// read reads a file of at most limit bytes.
func read(root *os.Root, name string, limit int64) ([]byte, error) {
	b, err := regular.Read(regular.FS(root), name, limit)
	if err != nil {
		return nil, &Error{Path: filepath.Join(root.Name(), name), What: "cannot be opened: " + reason(err), Err: err}
	}
	return b, nil
}

func reason(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// within puts a folder before the path of an *Error.
func within(err error, dir string) error {
	var e *Error
	if errors.As(err, &e) {
		e.Path = filepath.Join(dir, e.Path)
	}
	return err
}

// toJSON is indented JSON that ends in a line feed.
func toJSON(v any) []byte {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic("compile: " + err.Error()) // only maps of plain values come here
	}
	return append(b, '\n')
}
