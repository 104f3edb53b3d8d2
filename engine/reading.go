package engine

import (
	"context"
	"runtime/debug"

	"golang.org/x/sync/semaphore"

	"github.com/axle-llm/axle/internal/ranked"
)

// reading is the memory that all pictures may take that are decoded at the moment. What decoding leaves behind takes memory until it is
// collected, and Go would let it grow to what lives, hundreds of megabytes. So what a picture took is free again only after that: a
// collection is made for every quarter of the memory that was used, and whenever somebody waits for it.
type reading struct {
	room *semaphore.Weighted
	most int64

	mu    ranked.Mutex[ranked.Pictures] // guards what follows
	waits int                           // who wants room and found none
	taken int64                         // of room, by those who are done
	left  int64                         // what they left behind
}

// decoding is the whole process's: what its models decode lies in one memory.
var decoding = newReading(picturesRead)

func newReading(most int64) *reading {
	return &reading{room: semaphore.NewWeighted(most), most: most}
}

// begin takes room for a picture whose decoding takes so many bytes; small ones are taken for a sixteenth of all. It waits where there is
// none. done is to be called when the picture is decoded, and nothing but what it became is used any more.
func (r *reading) begin(ctx context.Context, bytes int64) (done func(), err error) {
	takes := min(max(bytes, r.most/16), r.most)
	if !r.room.TryAcquire(takes) {
		r.mu.Lock()
		r.waits++
		r.mu.Unlock()
		r.collect(0) // those who are done from now on see that somebody waits
		err = r.room.Acquire(ctx, takes)
		r.mu.Lock()
		r.waits--
		r.mu.Unlock()
		if err != nil {
			return nil, context.Cause(ctx)
		}
	}
	return func() {
		r.mu.Lock()
		r.taken, r.left = r.taken+takes, r.left+bytes
		least := r.most / 4
		if r.waits > 0 {
			least = 0
		}
		r.mu.Unlock()
		r.collect(least)
	}, nil
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
	debug.FreeOSMemory()
	r.room.Release(takes)
}
