package store

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// filling is an upload that takes the disk's room as it comes, and what it was read of.
type filling struct {
	d    *memDisk
	read int64
}

func (f *filling) Read(p []byte) (int, error) {
	f.d.free -= int64(len(p))
	f.read += int64(len(p))
	return len(p), nil
}

// An upload ends before the disk is full of it, and leaves nothing.
func TestBlobSpace(t *testing.T) {
	d := newMemDisk()
	s, err := Open(Options{Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	d.free = reserve + 20<<20
	f := &filling{d: d}
	if _, err := s.PutBlob(t.Context(), sum([]byte("x")), f); !errors.Is(err, ErrSpace) || !strings.Contains(err.Error(), "AXLE_MODELS") {
		t.Errorf("endless: %v", err)
	}
	if f.read < 20<<20 || f.read > 32<<20 {
		t.Errorf("%d bytes were read of it", f.read)
	}
	if _, err := s.PutBlob(t.Context(), sum([]byte("x")), strings.NewReader("x")); !errors.Is(err, ErrSpace) {
		t.Errorf("without room: %v", err)
	}
	if left, err := d.ReadDir("blobs"); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	for _, free := range []int64{reserve, -1} { // and unknown
		d.free = free
		data := []byte{byte(free)}
		if made, err := s.PutBlob(t.Context(), sum(data), io.MultiReader(bytes.NewReader(data))); !made || err != nil {
			t.Errorf("with %d bytes free: %v, %v", free, made, err)
		}
	}
}
