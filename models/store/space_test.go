package store

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// An upload ends before the disk is full of it, and leaves nothing.
func TestBlobSpace(t *testing.T) {
	//proves:T7
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
	if f.read < 19<<20 || f.read > 21<<20 {
		t.Errorf("%d bytes were read of it", f.read)
	}
	if d.free < reserve-1<<20 { // what the reader's own buffer is
		t.Errorf("%d bytes are free, %d are reserved", d.free, reserve)
	}
	d.free = reserve
	if _, err := s.PutBlob(t.Context(), sum([]byte("x")), strings.NewReader("x")); !errors.Is(err, ErrSpace) {
		t.Errorf("without room: %v", err)
	}
	if left, err := d.ReadDir("blobs"); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	for _, free := range []int64{reserve + leastTaken, -1} { // and unknown
		d.free = free
		data := []byte{byte(free)}
		if made, err := s.PutBlob(t.Context(), sum(data), io.MultiReader(bytes.NewReader(data))); !made || err != nil {
			t.Errorf("with %d bytes free: %v, %v", free, made, err)
		}
	}
}

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

// announced is an upload of this many bytes that stops after its first.
type announced struct {
	size int64
	sent chan struct{}
	stop <-chan struct{}
}

func (a *announced) Announced() int64 { return a.size }

func (a *announced) Read(p []byte) (int, error) {
	if a.sent != nil {
		close(a.sent)
		a.sent = nil
		p[0] = 1
		return 1, nil
	}
	<-a.stop
	return 0, io.ErrUnexpectedEOF
}

// TestGiveWay: where uploads and pulls lack room, who keeps what can be made again is asked for as
// much as lacks, before they are refused.
func TestGiveWay(t *testing.T) {
	d := newMemDisk()
	s, err := Open(Options{Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	d.free = reserve + 1<<20
	rows, asked := int64(10<<20), int64(0)
	s.GiveWay(func(lacks int64) int64 {
		asked = lacks
		n := min(lacks, rows)
		d.free, rows = d.free+n, rows-n
		return n
	})
	space := &spaceReader{s: s}
	if err := space.fits(5 << 20); err != nil || asked != 4<<20 || rows != 6<<20 {
		t.Errorf("%d bytes were asked for, %d of rows are left: %v", asked, rows, err)
	}
	if err := space.fits(5 << 20); err != nil || asked != 4<<20 {
		t.Errorf("%d bytes were asked for though there is room: %v", asked, err)
	}
	if err := space.fits(50 << 20); !errors.Is(err, ErrSpace) {
		t.Errorf("more than there is: %v", err)
	}
	d.free, rows = reserve, 2<<20
	if err := space.take(); err != nil || space.left < leastTaken { // of unknown size
		t.Errorf("%d bytes may be read: %v", space.left, err)
	}
	space.release()
	d.free, rows = reserve, 0
	if err := space.take(); !errors.Is(err, ErrSpace) {
		t.Errorf("nothing is left: %v", err)
	}
}

// However many uploads stop on their way, the room that they may still write leaves the reserve
// alone, and comes back with their end.
func TestUploadsReserve(t *testing.T) {
	d := newMemDisk()
	s, err := Open(Options{Disk: d})
	if err != nil {
		t.Fatal(err)
	}
	d.free = reserve + 100<<20
	if _, err := s.PutBlob(t.Context(), sum([]byte("x")), &announced{size: 101 << 20}); !errors.Is(err, ErrSpace) {
		t.Errorf("announced too large: %v", err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var refused atomic.Int64
	var sent []chan struct{}
	for i := range 100 {
		a := &announced{size: 20 << 20, sent: make(chan struct{}), stop: stop}
		sent = append(sent, a.sent)
		done := make(chan struct{})
		wg.Go(func() {
			defer close(done)
			upload := io.Reader(a)
			if i%2 == 1 { // says nothing of its size
				upload = struct{ io.Reader }{a}
			}
			if _, err := s.PutBlob(t.Context(), sum([]byte{byte(i)}), upload); errors.Is(err, ErrSpace) {
				refused.Add(1)
			}
		})
		select { // one after the other
		case <-sent[i]:
		case <-done:
		}
		if n := s.uploads.Load(); d.free-n < reserve {
			t.Fatalf("%d uploads may write %d bytes, %d are free", i+1, n, d.free)
		}
	}
	if n := refused.Load(); n < 80 || n > 90 { // twelve of 8 MiB are let in, and one with the rest
		t.Errorf("%d of 100 were refused", n)
	}
	close(stop)
	wg.Wait()
	if n := s.uploads.Load(); n != 0 {
		t.Errorf("%d bytes are still taken", n)
	}
}
