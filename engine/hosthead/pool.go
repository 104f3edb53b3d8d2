package hosthead

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/axle-llm/axle/axcl/soft/kernel"
)

// mostThreads is how many threads at most compute a head: memory is the limit, and four cores of a
// Raspberry Pi 5 read all that it gives.
const mostThreads = 4

// pool runs the parts of a task on the caller and on threads of its own.
type pool struct {
	work []*kernel.Scratch // of each thread
	task func(part int, scratch *kernel.Scratch)
	n    int64
	next atomic.Int64
	wake chan int // the thread's number
	done sync.WaitGroup
}

func newPool(rows int) *pool {
	threads := min(runtime.GOMAXPROCS(0), mostThreads)
	p := &pool{wake: make(chan int)}
	for i := range threads {
		p.work = append(p.work, kernel.NewScratch(rows, 0, 0))
		if i > 0 {
			go p.serve()
		}
	}
	return p
}

func (p *pool) serve() {
	Lower()
	for i := range p.wake {
		p.take(i)
		p.done.Done()
	}
}

func (p *pool) take(thread int) {
	for {
		part := p.next.Add(1) - 1
		if part >= p.n {
			return
		}
		p.task(int(part), p.work[thread])
	}
}

// run calls task for each part.
func (p *pool) run(parts int, task func(part int, scratch *kernel.Scratch)) {
	p.task, p.n = task, int64(parts)
	p.next.Store(0)
	others := min(len(p.work), parts)
	for i := 1; i < others; i++ {
		p.done.Add(1)
		p.wake <- i
	}
	p.take(0)
	p.done.Wait()
}

func (p *pool) close() { close(p.wake) }

// spread calls f for pieces of [0, n) on goroutines of its own.
func spread(n, piece int, f func(from, to int, scratch *kernel.Scratch)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), mostThreads) {
		all.Go(func() {
			Lower()
			scratch := kernel.NewScratch(kernel.Together, 0, 0)
			for {
				from := int(next.Add(int64(piece))) - piece
				if from >= n {
					return
				}
				f(from, min(from+piece, n), scratch)
			}
		})
	}
	all.Wait()
}
