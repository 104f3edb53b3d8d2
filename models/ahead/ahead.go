// Package ahead reads the files of a model before a card asks for them. A card's library reads a
// file through its mapping while it sends it, so a slow disk and the link would take turns. With
// this package the disk goes on to the next file while the link sends this one. What is read lands
// in the system's page cache and nowhere else. Nothing drops it from there, so a model that is
// loaded again finds it.
//
// A Reader belongs to the goroutine that loads, which calls all its methods; Stop ends the
// goroutine that reads. A nil Reader does nothing.
package ahead

import (
	"io"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/regular"
)

// Window is how many bytes are read ahead of the file that is being sent; the next file is,
// whatever its size. What is read too early on a machine of little memory is gone again when its
// turn comes.
const Window = 256 << 20

const chunk = 1 << 20

// Reader reads one list of files.
type Reader struct {
	files []file
	stop  chan struct{}
	moved chan struct{} // the card has come to another file
	ended chan struct{}

	at     atomic.Int64 // the file that the card is at
	whole  atomic.Int64 // files that were read, from the first on
	bytes  atomic.Int64 // read so far
	spent  atomic.Int64 // ns, reading
	begun  time.Time
	ready  bool // the card's file was there when it began
	waited int  // files that were not
	sent   int64
	took   time.Duration
}

type file struct {
	f    io.ReadCloser
	size int64
}

// Start begins to read the files, in the order in which the card will take them. One that cannot be
// opened is left to the load.
func Start(paths []string) *Reader { return start(paths, open) }

func start(paths []string, open func(path string) (f io.ReadCloser, size int64, err error)) *Reader {
	r := &Reader{stop: make(chan struct{}), moved: make(chan struct{}, 1), ended: make(chan struct{})}
	for _, p := range paths {
		f, size, err := open(p)
		if err != nil {
			f, size = nil, 0
		}
		r.files = append(r.files, file{f, size})
	}
	r.begun = time.Now()
	go r.read()
	return r
}

func open(path string) (io.ReadCloser, int64, error) {
	f, err := regular.OpenPath(path)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

func (r *Reader) read() {
	defer close(r.ended)
	buf := make([]byte, chunk)
	next := 0
	defer func() {
		for _, f := range r.files[next:] {
			if f.f != nil {
				_ = f.f.Close()
			}
		}
	}()
	for ; next < len(r.files); next++ {
		f := r.files[next]
		if f.f != nil {
			if !r.one(next, f, buf) {
				return
			}
			_ = f.f.Close()
		}
		r.whole.Store(int64(next + 1))
	}
}

// one reads a file to its end; false: the reader is to stop.
func (r *Reader) one(i int, f file, buf []byte) bool {
	for done := int64(0); ; {
		for !r.near(i, done) {
			select {
			case <-r.stop:
				return false
			case <-r.moved:
			}
		}
		select {
		case <-r.stop:
			return false
		default:
		}
		begun := time.Now()
		n, err := f.f.Read(buf)
		r.spent.Add(int64(time.Since(begun)))
		r.bytes.Add(int64(n))
		done += int64(n)
		if err != nil { // its end, or trouble that the load will tell
			return true
		}
	}
}

// near says whether to read on in the i-th file, after this many of its bytes.
func (r *Reader) near(i int, done int64) bool {
	at := int(r.at.Load())
	if i <= at+1 {
		return true
	}
	for _, f := range r.files[at+1 : i] {
		done += f.size
	}
	return done < Window
}

// Done says that the card has taken the file it was at, and goes on to the next.
func (r *Reader) Done() {
	if r == nil {
		return
	}
	i, now := int(r.at.Load()), time.Now()
	if i >= len(r.files) {
		return
	}
	if r.ready {
		r.sent += r.files[i].size
		r.took += now.Sub(r.begun)
	} else if i > 0 { // the first never is
		r.waited++
	}
	r.begun, r.ready = now, int(r.whole.Load()) > i+1
	r.at.Store(int64(i + 1))
	select {
	case r.moved <- struct{}{}:
	default:
	}
}

// Rates tells how quick the load is so far.
func (r *Reader) Rates() (x ask.Rates) {
	if r == nil {
		return x
	}
	if spent := time.Duration(r.spent.Load()); spent > 0 {
		x.Disk = float64(r.bytes.Load()) / spent.Seconds()
	}
	if r.took > 0 {
		x.Card = float64(r.sent) / r.took.Seconds()
	}
	switch {
	case r.waited > 0 && (x.Card == 0 || x.Disk < x.Card):
		x.Held = "disk"
	case x.Card > 0:
		x.Held = "card"
	}
	return x
}

// Stop ends the reading and waits for it. What was read stays where it is. A second Stop does
// nothing.
func (r *Reader) Stop() {
	if r == nil {
		return
	}
	select {
	case <-r.stop:
	default:
		close(r.stop)
	}
	<-r.ended
}
