package soft

import (
	"sync/atomic"
)

// pool runs the parts of one task on a fixed set of goroutines, the caller being one of them. It
// allocates nothing after newPool.
//
// A pass has hundreds of tasks of some microseconds each, one after the other, and waking a
// goroutine takes as long: workers look for the next task for a while before they sleep. Who is
// late, because the system gave its processor to another, holds up one part, not all.
type pool struct {
	n    int // workers, the caller included
	wake chan struct{}

	task   func(worker, i int)
	shares []share
	number atomic.Uint64 // of the task at hand, which workers look at
	_      [56]byte
	left   atomic.Int64 // parts that are not done
	asleep atomic.Int64
	weary  atomic.Bool // the caller sleeps until the last part is done
	done   chan struct{}
	closed atomic.Bool
}

// share is the parts of the task at hand that are one worker's, from one number up to another, both
// in one word. It takes them in their order, since parts that follow each other read weights that
// do, and each asks for those of the next. When it has done all, it takes others' parts, from their
// ends. A part that was taken belongs to the task at hand, since the task cannot end before
// its parts do.
type share struct {
	span atomic.Uint64
	_    [120]byte // not where another's lies, nor beside it
}

func (s *share) set(from, to int) { s.span.Store(uint64(from)<<32 | uint64(to)) }

// take gives the first part of a worker's own share, or the last of another's.
func (s *share) take(own bool) (int, bool) {
	for {
		v := s.span.Load()
		from, to := v>>32, v&(1<<32-1)
		switch {
		case from >= to:
			return 0, false
		case own:
			if s.span.CompareAndSwap(v, v+1<<32) {
				return int(from), true
			}
		case s.span.CompareAndSwap(v, v-1):
			return int(to - 1), true
		}
	}
}

func newPool(n int) *pool {
	p := &pool{n: n, wake: make(chan struct{}, n), done: make(chan struct{}, 1), shares: make([]share, n)}
	for w := 1; w < n; w++ {
		go p.serve(w)
	}
	return p
}

// patience is how often one looks before one sleeps: some ten microseconds.
const patience = 1 << 14

func (p *pool) serve(w int) {
	last := uint64(0)
	for {
		found := false
		for range patience {
			if s := p.number.Load(); s != last {
				last, found = s, true
				break
			}
		}
		if found {
			p.work(w)
			continue
		}
		if p.closed.Load() {
			return
		}
		p.asleep.Add(1)
		if p.number.Load() == last && !p.closed.Load() {
			<-p.wake
		}
		p.asleep.Add(-1)
	}
}

// work takes parts until there are none.
func (p *pool) work(w int) {
	for k := range p.n {
		s := &p.shares[(w+k)%p.n]
		for {
			i, ok := s.take(k == 0)
			if !ok {
				break
			}
			p.task(w, i)
			if p.left.Add(-1) == 0 && p.weary.Swap(false) {
				select {
				case p.done <- struct{}{}:
				default:
				}
			}
		}
	}
}

// run calls task for i in [0, count) and returns when all have returned. The worker number tells
// scratch memory apart.
func (p *pool) run(count int, task func(worker, i int)) {
	if p.n == 1 || count <= 1 {
		for i := range count {
			task(0, i)
		}
		return
	}
	p.task = task
	p.left.Store(int64(count))
	for w := range p.shares {
		p.shares[w].set(w*count/p.n, (w+1)*count/p.n)
	}
	p.number.Add(1)
	for range min(p.asleep.Load(), int64(count)) {
		select {
		case p.wake <- struct{}{}:
		default: // as many are on their way as there are workers
		}
	}
	p.work(0)
	for range patience {
		if p.left.Load() == 0 {
			return
		}
	}
	// The worker with the last part may have lost its processor, perhaps to this one.
	for {
		p.weary.Store(true)
		if p.left.Load() == 0 {
			return
		}
		<-p.done // of this task, or late from one before
	}
}

// each is run for tasks of about work multiplications each: for little work the caller does it
// alone, since the others would only be in time for the next task.
func (p *pool) each(count, work int, task func(worker, i int)) {
	if count*work < 1<<14 {
		for i := range count {
			task(0, i)
		}
		return
	}
	p.run(count, task)
}

// close ends the workers; the pool must be idle.
func (p *pool) close() {
	p.closed.Store(true)
	for range p.n {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}
