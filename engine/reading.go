package engine

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/vision"
)

// reading shares out processors and memory among all pictures that are being decoded, by turns of
// their keys. A key's picture waits at most for the pictures being decoded, however many large ones
// another key has sent. Of one key's pictures, small ones go first.
//
// Garbage from decoding takes memory until it is collected, and Go would let it grow as large as
// the live heap, hundreds of megabytes. So the memory of a decoded picture becomes free only after
// a collection. One runs for every quarter of the memory that was used, and whenever a request
// waits for memory.
type reading struct {
	line *fair.Line
	most int64

	mu    ranked.Mutex[ranked.Pictures] // guards what follows
	taken int64                         // of the line's room, by decoded pictures
	left  int64                         // bytes of their garbage
	waits int                           // requests that wait for a turn, or are about to
	want  int64                         // the most room that one of them needs
}

// decoding is shared by the whole process, because all its models decode in the same memory.
var decoding = sync.OnceValue(func() *reading { return newReading(budget.Get().Decoding) })

func newReading(most int64) *reading {
	return &reading{line: fair.New(runtime.GOMAXPROCS(0), most), most: most}
}

// reader reads one request's pictures, one after the other. It asks for a picture's turn before it
// gives back the place of the one before, so no later request gets a turn in between.
type reader struct {
	r    *reading
	key  string
	work int64 // of the current picture; 0: none
}

// decodePicture decodes one picture of a key, in the key's turn and within the memory that all
// models have for it, and calls use with it. Errors: ErrRequest, for what cannot be read; ctx's;
// use's.
func decodePicture(ctx context.Context, key string, file []byte, use func(p *vision.Picture) error) error {
	unread := func(err error) error {
		return fmt.Errorf("%w: the picture cannot be read: %s", ErrRequest, strings.TrimPrefix(err.Error(), "vision: "))
	}
	turn := &reader{r: decoding(), key: key}
	defer turn.close()
	limits := vision.Limits{Memory: turn.r.most}
	h, err := vision.Look(file, limits)
	if err != nil {
		return unread(err)
	}
	done, err := turn.begin(ctx, h)
	if err != nil {
		return err
	}
	defer done()
	p, err := vision.Decode(file, limits)
	if err != nil {
		return unread(err)
	}
	return use(p)
}

// begin waits for the turn of a picture with this header. The caller calls done when the picture is
// decoded and only the result is still used. The error is ctx's cause; then, too, the reader must
// be closed.
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

// wait notes that a request needs this much room. If too little is free, it collects the garbage of
// decoded pictures.
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

// close gives the reader's place back.
func (r *reader) close() {
	if r.work > 0 {
		r.r.line.Done(r.key, r.work, r.work)
		r.work = 0
	}
}

// leave notes the garbage of a decoded picture.
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

// collect frees the garbage if it is at least this much.
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
