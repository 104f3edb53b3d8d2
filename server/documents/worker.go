package documents

import (
	"context"
	"errors"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/documents/index"
	"github.com/axle-llm/axle/internal/ranked"
)

// job is a file of a vector store that is to be indexed.
type job struct {
	turn  string // whose it is
	shelf *index.Shelf
	store string
	file  string

	vectors bool // it is indexed, and only its vectors are missing
}

// worker indexes files in the background: one at a time, so that memory is bounded, and each key in
// turn, so that no key's thousand files keep another's one waiting for longer than one of them.
type worker struct {
	d      *Documents
	ctx    context.Context
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu      ranked.Mutex[ranked.Documents]
	running bool
	closed  bool
	turns   []string // who waits, the next first
	waiting map[string][]job
	now     job
	stop    context.CancelFunc // of what is indexed now; nil: nothing is
}

func (w *worker) begin(d *Documents) {
	w.d, w.waiting = d, map[string][]job{}
	w.ctx, w.cancel = context.WithCancel(context.Background())
}

func (w *worker) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	w.ended.Wait()
}

// add has a file indexed. One that waits already is not added twice.
func (w *worker) add(j job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || slices.Contains(w.waiting[j.turn], j) {
		return
	}
	if len(w.waiting[j.turn]) == 0 {
		w.turns = append(w.turns, j.turn)
	}
	w.waiting[j.turn] = append(w.waiting[j.turn], j)
	if w.running {
		return
	}
	w.running = true
	w.ended.Go(w.run)
}

// drop ends the work on what was deleted: of a vector store, a file, or both.
func (w *worker) drop(shelf *index.Shelf, store, file string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := func(j job) bool {
		return j.shelf == shelf && (store == "" || j.store == store) && (file == "" || j.file == file)
	}
	for turn, jobs := range w.waiting {
		if w.waiting[turn] = slices.DeleteFunc(jobs, of); len(w.waiting[turn]) == 0 {
			delete(w.waiting, turn)
			w.turns = slices.DeleteFunc(w.turns, func(t string) bool { return t == turn })
		}
	}
	if w.stop != nil && of(w.now) {
		w.stop()
	}
}

// next is the next job, of the key whose turn it is; false: there is none, and the worker ends.
func (w *worker) next() (job, context.Context, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop = nil
	if len(w.turns) == 0 || w.closed {
		w.running = false
		return job{}, nil, false
	}
	turn := w.turns[0]
	w.turns = w.turns[1:]
	j := w.waiting[turn][0]
	if w.waiting[turn] = w.waiting[turn][1:]; len(w.waiting[turn]) > 0 {
		//rule:T16 TestTurns drop
		w.turns = append(w.turns, turn)
	} else {
		delete(w.waiting, turn)
	}
	ctx, stop := context.WithCancel(w.ctx)
	w.now, w.stop = j, stop
	return j, ctx, true
}

func (w *worker) run() {
	for {
		j, ctx, ok := w.next()
		if !ok {
			return
		}
		w.one(ctx, j)
	}
}

// one indexes a file, and notes why where that fails.
func (w *worker) one(ctx context.Context, j job) {
	defer func() {
		if p := recover(); p != nil { // a file that breaks its reader breaks nothing else
			w.d.o.Log.Error("panic while a document was indexed", zap.Any("panic", p), zap.Stack("stack"))
			_ = j.shelf.Fail(j.store, j.file, "server_error", "the file could not be read: an internal error, which the server's log has")
		}
	}()
	if j.vectors {
		w.vectors(ctx, j)
		return
	}
	err := j.shelf.Index(ctx, j.store, j.file, w.d.o.Read)
	switch {
	case err == nil:
		w.vectors(ctx, j)
		return
	case errors.Is(err, index.ErrNotFound):
		return
	case ctx.Err() != nil: // it was deleted, or the server ends and goes on with it after its start
		return
	}
	code, message := "server_error", "the server's log says why"
	var f *index.FullError
	var u *Unread
	switch {
	case errors.As(err, &u):
		code, message = u.Code, u.Message
	case errors.As(err, &f):
		message = f.Text
	default:
		w.d.o.Log.Error("a document could not be indexed", zap.Error(err))
	}
	if err := j.shelf.Fail(j.store, j.file, code, message); err != nil && !errors.Is(err, index.ErrNotFound) {
		w.d.o.Log.Error("a document could not be indexed", zap.Error(err))
	}
}

// atOnce is how many passages a model makes vectors of in one request, so that others get their
// turn.
const atOnce = 16

// vectors has the embedding model that is loaded make vectors of a file's passages. Without one,
// and where it fails, the file is found by its words.
func (w *worker) vectors(ctx context.Context, j job) {
	m := w.d.o.Models
	if m == nil {
		return
	}
	model := m.Embedder()
	e, err := j.shelf.Entry(j.store, j.file)
	if model == "" || err != nil || e.Model == model {
		return
	}
	texts, err := j.shelf.Passages(ctx, j.store, j.file)
	var all [][]float32
	for at := 0; at < len(texts) && err == nil; at += atOnce {
		var some [][]float32
		if some, err = m.Embed(ctx, model, j.turn, texts[at:min(at+atOnce, len(texts))], false); err == nil {
			all = append(all, some...)
		}
	}
	if err == nil {
		err = j.shelf.SetVectors(j.store, j.file, e.Created, model, all)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, index.ErrNotFound) {
		w.d.o.Log.Warn("a document is searched by its words alone: no vectors could be made", zap.String("model", model), zap.Error(err))
	}
}

// Unread is why a file has no text, as its owner is told.
type Unread struct {
	Code    string // OpenAI's: unsupported_file, invalid_file, server_error
	Message string
}

func (u *Unread) Error() string { return u.Message }
