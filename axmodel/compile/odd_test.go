package compile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// A pipe, a socket, a device or a folder in place of a checkpoint's file is named in the error, and
// no reader waits for it.
func TestOddFiles(t *testing.T) {
	//proves:T1 pipes, sockets, folders and devices in place of each file
	lane.Slow(t)
	lane.NoRace(t)
	a := axmodeltest.Archs()[0]
	whole := t.TempDir()
	if _, err := axmodeltest.WriteCheckpoint(whole, a, 1); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(whole)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"generation_config.json"} // which may be missing
	for _, e := range list {
		names = append(names, e.Name())
	}
	for _, file := range names {
		for kind, put := range modelstest.Odd() {
			t.Run(file+"/"+kind, func(t *testing.T) {
				t.Parallel()
				from := t.TempDir()
				if err := os.CopyFS(from, os.DirFS(whole)); err != nil {
					t.Fatal(err)
				}
				_ = os.Remove(filepath.Join(from, file))
				err := put(filepath.Join(from, file))
				if errors.Is(err, syscall.EPERM) {
					t.Skip("this user may make no devices")
				}
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				out := filepath.Join(t.TempDir(), "package")
				go func() {
					_, err := compile.Run(context.Background(), compile.Options{From: from, Out: out, Context: 95, Chunk: 16,
						History: []int{0, 16, 64}})
					done <- err
				}()
				select {
				case err = <-done:
				case <-time.After(time.Minute):
					t.Fatal("it waits")
				}
				var ce *compile.Error
				if !errors.As(err, &ce) || !strings.Contains(err.Error(), file) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}
