package soft

import (
	"sync"
	"sync/atomic"
)

// pool runs the parts of one task on a fixed set of goroutines, the caller being one of them. It allocates nothing after newPool.
type pool struct {
	n    int // workers, the caller included
	wake chan int
	done sync.WaitGroup

	task  func(worker, i int)
	count int64
	next  atomic.Int64
}

func newPool(n int) *pool {
	p := &pool{n: n, wake: make(chan int)}
	for w := 1; w < n; w++ {
		go func() {
			for range p.wake {
				p.work(w)
				p.done.Done()
			}
		}()
	}
	return p
}

func (p *pool) work(w int) {
	for {
		i := p.next.Add(1) - 1
		if i >= p.count {
			return
		}
		p.task(w, int(i))
	}
}

// run calls task for i in [0, count) and returns when all have returned. The worker number tells scratch memory apart.
func (p *pool) run(count int, task func(worker, i int)) {
	helpers := min(p.n, count) - 1
	if helpers <= 0 {
		for i := range count {
			task(0, i)
		}
		return
	}
	p.task, p.count = task, int64(count)
	p.next.Store(0)
	p.done.Add(helpers)
	for range helpers {
		p.wake <- 0
	}
	p.work(0)
	p.done.Wait()
}

// each is run for tasks of about work multiplications each: for little work the caller does it alone, since waking a worker costs more.
func (p *pool) each(count, work int, task func(worker, i int)) {
	if count*work < 1<<16 {
		for i := range count {
			task(0, i)
		}
		return
	}
	p.run(count, task)
}

// close ends the workers; the pool must be idle.
func (p *pool) close() { close(p.wake) }
