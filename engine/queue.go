package engine

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
)

// queue has the sequences that wait for a model's cells, every sequence that a caller still reads,
// and the published numbers. Callers use it as well as the worker, from any goroutine.
type queue struct {
	mu      ranked.Mutex[ranked.Model] // guards the fields below
	most    int                        // most sequences that may wait
	waiting []*seq
	open    map[*seq]struct{} // every sequence whose caller still waits
	closing error             // the error for new sequences
	stats   Stats
}

// push puts a sequence at the end.
func (q *queue) push(s *seq) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closing != nil:
		return q.closing
	//rule:G6 TestQueueFull false
	case len(q.waiting) >= q.most:
		q.stats.Rejected++
		//rule:T16 TestCrowd !q.crowd(s.job.Key) => true
		if !q.crowd(s.job.Key) {
			return ErrBusy
		}
	}
	q.waiting = append(q.waiting, s)
	q.open[s] = struct{}{}
	return nil
}

// crowd makes room in a full queue for a sequence of the client key. It drops the newest sequence
// of the client with the most sequences in the queue, if that client has at least two more than
// key. q.mu is held.
func (q *queue) crowd(key string) bool {
	waiting := map[string]int{}
	most := key
	for _, s := range q.waiting {
		if waiting[s.job.Key]++; waiting[s.job.Key] > waiting[most] {
			most = s.job.Key
		}
	}
	if waiting[most] < waiting[key]+2 {
		return false
	}
	for i, s := range slices.Backward(q.waiting) {
		if s.job.Key == most && !s.begun {
			q.waiting = slices.Delete(q.waiting, i, i+1)
			delete(q.open, s)
			s.box.fail(ErrBusy)
			return true
		}
	}
	return false
}

// pop takes the first sequence off the queue, or returns nil. The client with the fewest running
// sequences comes first, however many each has in the queue.
func (q *queue) pop(running []*seq) *seq {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	of := func(key string) (n int) {
		for _, s := range running {
			if s.job.Key == key {
				n++
			}
		}
		return n
	}
	at, fewest := 0, of(q.waiting[0].job.Key)
	for i, s := range q.waiting {
		if fewest > 0 && s.job.Key != q.waiting[at].job.Key {
			//rule:T16 TestFairKeys false
			if n := of(s.job.Key); n < fewest {
				at, fewest = i, n
			}
		}
	}
	s := q.waiting[at]
	q.waiting = slices.Delete(q.waiting, at, at+1)
	return s
}

// putBack puts a sequence at the front.
func (q *queue) putBack(s *seq) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing == nil {
		q.waiting = slices.Insert(q.waiting, 0, s)
	}
}

// shifted reports whether a sequence of an earlier shift waits.
func (q *queue) shifted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.waiting, func(s *seq) bool { return s.shifted })
}

// forget drops a sequence whose caller has gone. The worker takes it off the queue.
func (q *queue) forget(s *seq) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.open, s)
}

// reap drops the waiting sequences whose caller has left.
func (q *queue) reap(left func(s *seq) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	waited := len(q.waiting)
	q.waiting = slices.DeleteFunc(q.waiting, left)
	q.stats.Cancelled += uint64(waited - len(q.waiting))
}

// fail ends every sequence, also the running ones, and accepts no more.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closing == nil {
		q.closing = err
	}
	if err != ErrClosed {
		q.stats.State = "lost"
	}
	for s := range q.open {
		s.box.fail(err)
	}
	clear(q.open)
	q.waiting = nil
}

// len returns how many sequences wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// update changes the published numbers.
func (q *queue) update(f func(*Stats)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f(&q.stats)
}

// published returns a copy of the numbers.
func (q *queue) published() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	st := q.stats
	if st.State == "ready" && errors.Is(q.closing, ErrClosed) {
		st.State = "closed"
	}
	st.Queued = len(q.waiting)
	st.Passes = maps.Clone(q.stats.Passes)
	return st
}

// surveyEvery is how often cells are counted while a model runs. Counting walks all of them.
const surveyEvery = 100 * time.Millisecond
