// Package objects runs models/rows/objects against a real server of the S3 API, versitygw, over a
// folder of this machine. It is a module of its own, so that the program does not depend on that
// server.
package objects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/models/rows/objects"
	"github.com/axle-llm/axle/prefix"
)

const id, key = "rows-of-axle", "a-key-of-this-test-only"

// TestVersity: two servers' folders exchange sealed files through a real store; wrong keys, a bucket
// that is not there and a store that is gone are told, and change nothing.
func TestVersity(t *testing.T) {
	at, stop := versity(t)
	t.Setenv("AWS_ACCESS_KEY_ID", id)
	t.Setenv("AWS_SECRET_ACCESS_KEY", key)
	make1(t, at)
	var told []error
	store := open(t, "s3://rows/boards?endpoint=http://"+at, func(err error) { told = append(told, err) })
	secret := bytes.Repeat([]byte("S"), 32)
	dir := t.TempDir()
	owner := rows.Owner{Package: "p", Model: "m", Card: "soft", Row: 2048}
	var folders []*rows.Disk
	for _, name := range []string{"a", "b"} {
		d, err := rows.Open(rows.Options{Dir: filepath.Join(dir, name), Size: 1 << 24, Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		folders = append(folders, d)
	}
	ids := make([]int32, 20*prefix.Shared)
	a, b := folders[0], folders[1]
	for i, k := range a.Space(owner).Keys(ids) {
		if err := a.Space(owner).Save(k, bytes.Repeat([]byte{byte(i)}, prefix.Shared*owner.Row)); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, n := range a.Space(owner).Names().Blocks(ids, nil) {
		found, err := filepath.Glob(filepath.Join(dir, "a", "*", n.String()))
		if err != nil || len(found) != 1 {
			t.Fatalf("%v %v", found, err)
		}
		name, _ := filepath.Rel(filepath.Join(dir, "a"), found[0])
		names = append(names, name)
	}
	for _, name := range names[:17] {
		data, err := a.Sealed(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Put(t.Context(), name, data); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := store.Has(t.Context(), names); n != 17 || err != nil {
		t.Errorf("%d files, %v", n, err)
	}
	for _, name := range names[:17] {
		data, err := store.Get(t.Context(), name, rows.MaxSealed)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Accept(name, data); err != nil {
			t.Fatal(err)
		}
	}
	if n := b.Space(owner).Find(b.Space(owner).Keys(ids)); n != 17 {
		t.Errorf("%d blocks are found at the other folder", n)
	}
	if _, err := store.Get(t.Context(), names[18], rows.MaxSealed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
	if len(told) != 0 {
		t.Errorf("told %v", told)
	}
	nowhere := open(t, "s3://nowhere?endpoint=http://"+at, nil)
	if err := nowhere.Put(t.Context(), names[0], []byte("x")); err == nil || !strings.Contains(err.Error(), "bucket") {
		t.Errorf("a bucket that is not there: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another-key-of-this-test")
	wrong := open(t, "s3://rows/boards?endpoint=http://"+at, nil)
	if n, err := wrong.Has(t.Context(), names); n != 0 || err == nil {
		t.Errorf("another key: %d, %v", n, err)
	}
	stop()
	if n, err := store.Has(t.Context(), names); n != 0 || err == nil || len(told) != 1 {
		t.Errorf("a store that is gone: %d, %v; told %v", n, err, told)
	}
}

func open(t *testing.T, place string, told func(error)) *objects.Store {
	t.Helper()
	p, err := objects.Parse(place)
	if err != nil {
		t.Fatal(err)
	}
	s, err := objects.Open(p, objects.Options{Told: told})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// make1 makes the bucket, as somebody who sets up a store does.
func make1(t *testing.T, at string) {
	t.Helper()
	c, err := minio.New(at, &minio.Options{Creds: credentials.NewStaticV4(id, key, ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err = c.MakeBucket(ctx, "rows", minio.MakeBucketOptions{}); err != nil; err = c.MakeBucket(ctx, "rows", minio.MakeBucketOptions{}) {
		if ctx.Err() != nil {
			t.Fatal(err) // the server does not start
		}
	}
}

// versity starts the server over an empty folder.
func versity(t *testing.T) (at string, stop func()) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "versitygw")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/versity/versitygw/cmd/versitygw").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at = ln.Addr().String()
	_ = ln.Close()
	data, meta := filepath.Join(dir, "data"), filepath.Join(dir, "meta")
	if err := errors.Join(os.Mkdir(data, 0o700), os.Mkdir(meta, 0o700)); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(program, "--port", at, "--quiet", "posix", "--sidecar", meta, data)
	cmd.Env = append(os.Environ(), fmt.Sprint("ROOT_ACCESS_KEY=", id), fmt.Sprint("ROOT_SECRET_KEY=", key))
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop = func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	}
	t.Cleanup(stop)
	return at, stop
}
