package ahead

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/lane"
)

// TestBothAtOnce: a disk of 45 MB/s and a link of 35 take turns without reading ahead; with it the
// link alone counts, from the first file on, and the rates and what holds the load back are told.
func TestBothAtOnce(t *testing.T) {
	for _, c := range []struct {
		name        string
		layers      int
		head, layer int64
	}{{"Qwen3-0.6B", 28, 155_600_000, 15_750_000}, {"Qwen3-4B", 36, 389_000_000, 101_000_000}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				paths, sizes := qwen(c.layers, c.head, c.layer)
				before, _ := newMachine(disk, sizes).load(paths, link, nil)
				m := newMachine(disk, sizes)
				r := start(paths, m.open)
				now, rates := m.load(paths, link, r)
				r.Stop()
				if ratio := before.Seconds() / now.Seconds(); ratio < 1.7 {
					t.Errorf("%v in turns, %v with reading ahead: %.2f times as fast", before, now, ratio)
				} else {
					t.Logf("%v in turns, %v with reading ahead: %.2f times as fast", before, now, ratio)
				}
				last := rates[len(rates)-1]
				if last.Held != "card" || last.Card < 0.95*link || last.Card > 1.01*link || last.Disk > 1.01*disk || last.Disk < 0.5*disk {
					t.Errorf("told %+v", last)
				}
				if again, _ := m.load(paths, link, nil); again.Seconds() > 1.01*now.Seconds() {
					t.Errorf("loaded again in %v: it is not in memory any more", again)
				}
			})
		})
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	disk, link = 45e6, 35e6 // bytes a second
	page       = 1 << 20
)

// machine is a disk behind a page cache; it serves one request at a time.
type machine struct {
	mu     sync.Mutex
	head   chan struct{} // the disk's
	sizes  map[string]int64
	cached map[string]map[int64]bool
	rate   float64
	from   int64 // bytes that came from the disk
	most   int64 // that were in memory before the card had them
	lead   int64
}

func newMachine(rate float64, sizes map[string]int64) *machine {
	m := &machine{head: make(chan struct{}, 1), sizes: sizes, cached: map[string]map[int64]bool{}, rate: rate}
	for p := range sizes {
		m.cached[p] = map[int64]bool{}
	}
	return m
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// fault brings a page into memory, and gives its size.
func (m *machine) fault(path string, at int64) int64 {
	n := min(page, m.sizes[path]-at)
	if m.has(path, at) {
		return n
	}
	m.head <- struct{}{}
	defer func() { <-m.head }()
	if !m.has(path, at) { // no other asked for it meanwhile
		time.Sleep(seconds(float64(n) / m.rate))
		m.mu.Lock()
		defer m.mu.Unlock()
		m.cached[path][at] = true
		m.from += n
		m.lead += n
		m.most = max(m.most, m.lead)
	}
	return n
}

func (m *machine) has(path string, at int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cached[path][at]
}

type opened struct {
	m    *machine
	path string
	at   int64
}

func (f *opened) Read(b []byte) (int, error) {
	if f.at >= f.m.sizes[f.path] {
		return 0, io.EOF
	}
	n := f.m.fault(f.path, f.at)
	f.at += n
	return int(n), nil
}

func (f *opened) Close() error { return nil }

func (m *machine) open(path string) (io.ReadCloser, int64, error) {
	if _, ok := m.sizes[path]; !ok {
		return nil, 0, os.ErrNotExist
	}
	return &opened{m: m, path: path}, m.sizes[path], nil
}

// load is a card that takes the files as the vendor's library does: page by page, each from its
// mapping and then over the link. It tells how long that took.
func (m *machine) load(paths []string, link float64, r *Reader) (took time.Duration, rates []ask.Rates) {
	start := time.Now()
	for _, p := range paths {
		for at := int64(0); at < m.sizes[p]; {
			n := m.fault(p, at)
			time.Sleep(seconds(float64(n) / link))
			m.mu.Lock()
			m.lead -= n
			m.mu.Unlock()
			at += n
		}
		r.Done()
		rates = append(rates, r.Rates())
	}
	return time.Since(start), rates
}

// qwen is a package in the order in which a card takes it: the head first, then the layers.
func qwen(layers int, head, layer int64) (paths []string, sizes map[string]int64) {
	sizes = map[string]int64{"head": head}
	paths = []string{"head"}
	for i := range layers {
		p := fmt.Sprint("layer ", i)
		paths = append(paths, p)
		sizes[p] = layer
	}
	return paths, sizes
}

// TestSlowDisk: where the disk is the slower one, that is told, and each byte is read once.
func TestSlowDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paths, sizes := qwen(10, 50_000_000, 20_000_000)
		m := newMachine(20e6, sizes)
		r := start(paths, m.open)
		took, rates := m.load(paths, 96e6, r)
		r.Stop()
		if last := rates[len(rates)-1]; last.Held != "disk" || last.Disk < 15e6 || last.Disk > 21e6 {
			t.Errorf("told %+v", last)
		}
		if m.from != 250_000_000 || took > seconds(250e6/20e6*1.1) {
			t.Errorf("%d bytes were read, in %v", m.from, took)
		}
	})
}

// TestWindow: a quick disk does not fill memory with what the card is far from.
func TestWindow(t *testing.T) {
	lane.NoRace(t)
	synctest.Test(t, func(t *testing.T) {
		paths, sizes := qwen(60, 20_000_000, 20_000_000)
		m := newMachine(1e9, sizes)
		r := start(paths, m.open)
		_, rates := m.load(paths, link, r)
		r.Stop()
		if m.most > Window+20_000_000+2*page || m.most < Window/2 {
			t.Errorf("%d bytes were in memory before their turn", m.most)
		}
		if last := rates[len(rates)-1]; last.Held != "card" {
			t.Errorf("told %+v", last)
		}
	})
}

// TestStop: a load that ends early ends the reading, files that are not there are no error
// here, and more calls than files are none.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paths, sizes := qwen(4, 20_000_000, 20_000_000)
		delete(sizes, "layer 1")
		m := newMachine(disk, sizes)
		r := start(paths, m.open)
		time.Sleep(100 * time.Millisecond)
		r.Stop()
		r.Stop()
		if m.from > 10_000_000 {
			t.Errorf("%d bytes were read", m.from)
		}
		r = start(paths, m.open)
		for range 9 {
			r.Done()
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		r.Stop()
		if m.from != 80_000_000 {
			t.Errorf("%d bytes were read, the missing file left out", m.from)
		}
		var none *Reader
		none.Done()
		none.Stop()
		if none.Rates() != (ask.Rates{}) {
			t.Error("rates of nothing")
		}
	})
}

// TestFiles reads real ones.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := errors.Join(os.WriteFile(a, make([]byte, 3<<20), 0o600), os.WriteFile(b, make([]byte, 100), 0o600)); err != nil {
		t.Fatal(err)
	}
	r := Start([]string{a, filepath.Join(dir, "none"), dir, b})
	<-r.ended
	r.Stop()
	if got := r.Rates(); r.bytes.Load() != 3<<20+100 || got.Disk <= 0 || got.Held != "" {
		t.Errorf("%d bytes were read, %+v", r.bytes.Load(), got)
	}
}
