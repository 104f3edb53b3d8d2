package soft

import (
	"sync/atomic"
)

// pool runs the parts of one task on a fixed set of goroutines, the caller being one of them. It allocates nothing after newPool.
//
// A pass has hundreds of tasks of some microseconds each, one after the other, and waking a goroutine takes as long: workers look for the
// next task for a while before they sleep. Who is late, because the system gave its processor to another, holds up one part, not all.
type pool struct {
	n    int // workers, the caller included
	wake chan struct{}

	// The task at hand: its number, how many parts it has, and how many of them are taken, in one word. So whoever takes a part knows that
	// it is one of the task at hand, which cannot end before the part does, and may read what follows.
	state  atomic.Uint64
	left   atomic.Int64 // parts that are not done
	asleep atomic.Int64
	weary  atomic.Bool // the caller sleeps until the last part is done
	done   chan struct{}
	task   func(worker, i int)
	closed atomic.Bool
}

const (
	countBits = 24 // parts of a task, and takers
	countMask = 1<<countBits - 1
)

func newPool(n int) *pool {
	p := &pool{n: n, wake: make(chan struct{}, n), done: make(chan struct{}, 1)}
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
			if s := p.state.Load() >> (2 * countBits); s != last {
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
		if p.state.Load()>>(2*countBits) == last && !p.closed.Load() {
			<-p.wake
		}
		p.asleep.Add(-1)
	}
}

// work takes parts until there are none.
func (p *pool) work(w int) {
	for {
		s := p.state.Add(1) - 1
		i, count := int(s&countMask), int(s>>countBits&countMask)
		if i >= count {
			return
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

// run calls task for i in [0, count) and returns when all have returned. The worker number tells scratch memory apart.
func (p *pool) run(count int, task func(worker, i int)) {
	if p.n == 1 || count <= 1 {
		for i := range count {
			task(0, i)
		}
		return
	}
	p.task = task
	p.left.Store(int64(count))
	number := p.state.Load()>>(2*countBits) + 1
	p.state.Store(number<<(2*countBits) | uint64(count)<<countBits)
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
	// Whoever has the last part may have lost its processor, perhaps to this one.
	for {
		p.weary.Store(true)
		if p.left.Load() == 0 {
			return
		}
		<-p.done // of this task, or late from one before
	}
}

// each is run for tasks of about work multiplications each: for little work the caller does it alone, since the others would only be in
// time for the next task.
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
