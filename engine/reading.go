package engine

import (
	"context"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/vision"
)

// reading is the processors and the memory that all pictures have which are decoded at the moment,
// by turns of their keys: however many large ones somebody has sent, another key's waits for those
// under way at most, and a small one of the same key goes first.
//
// What decoding leaves behind takes memory until it is collected, and Go would let it grow to what
// lives, hundreds of megabytes. So what a picture took is free again only after that: a collection
// is made for every quarter of the memory that was used, and whenever somebody waits for it.
type reading struct {
	line *fair.Line
	most int64

	mu    ranked.Mutex[ranked.Pictures] // guards what follows
	taken int64                         // of the line's room, by those who are done
	left  int64                         // what they left behind
	waits int                           // who is about to wait for a turn, or does
	want  int64                         // the most room that one of them takes
}

// decoding is the whole process's: what its models decode lies in one memory.
var decoding = sync.OnceValue(func() *reading { return newReading(budget.Get().Decoding) })

func newReading(most int64) *reading {
	return &reading{line: fair.New(runtime.GOMAXPROCS(0), most), most: most}
}

// reader is one request's way through a reading: picture after picture, and no request that came
// after both gets a turn between two of them.
type reader struct {
	r    *reading
	key  string
	work int64 // of the picture whose place it has; 0: it has none
}

// begin waits for the turn of a picture with such a header. done is to be called when the picture
// is decoded, and nothing but what it became is used any more. The error is ctx's cause; the reader
// is to be closed then too.
func (r *reader) begin(ctx context.Context, h vision.Header) (done func(), err error) {
	//rule:T7 TestPicturesRead min(h.Memory, r.r.most) => min(0*h.Memory, r.r.most)
	takes := min(h.Memory, r.r.most)
	r.r.wait(takes)
	defer r.r.waited()
	work := max(h.Work, 1)
	if had := r.work; had > 0 {
		r.work = 0
		err = r.r.line.Next(ctx, r.key, had, had, takes, work)
	} else {
		err = r.r.line.Take(ctx, r.key, takes, work)
	}
	if err != nil {
		return nil, err
	}
	r.work = work
	return func() { r.r.leave(takes, h.Memory) }, nil
}

// wait notes that somebody wants so much room, who would else wait for what those who are done left
// behind.
func (r *reading) wait(takes int64) {
	r.mu.Lock()
	r.waits++
	r.want = max(r.want, takes)
	r.mu.Unlock()
	if r.line.Left() < takes {
		r.collect(0)
	}
}

func (r *reading) waited() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waits--; r.waits == 0 {
		r.want = 0
	}
}

// close gives the place back.
func (r *reader) close() {
	if r.work > 0 {
		r.r.line.Done(r.key, r.work, r.work)
		r.work = 0
	}
}

// leave notes what a picture has left behind.
func (r *reading) leave(takes, bytes int64) {
	r.mu.Lock()
	r.taken, r.left = r.taken+takes, r.left+bytes
	want := r.want
	r.mu.Unlock()
	least := r.most / 4
	if r.line.Left() < want {
		least = 0
	}
	r.collect(least)
}

// collect makes what was left behind free, if it is so much at least.
func (r *reading) collect(least int64) {
	r.mu.Lock()
	takes := r.taken
	if r.left < least || takes == 0 {
		r.mu.Unlock()
		return
	}
	r.taken, r.left = 0, 0
	r.mu.Unlock()
	//rule:T7 ./cmd/axle TestMemoryOfPictures drop
	debug.FreeOSMemory()
	r.line.Free(takes)
}
