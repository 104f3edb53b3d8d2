// Package documents answers OpenAI's routes for files and vector stores: texts are kept on this
// server, indexed, and searched. What belongs to a key is seen by that key alone, by its owner
// ([request.Exchange.Owner]); of another's not even the names are told.
//
// Indexing is work in the background, one file at a time, and each key in turn. A [Documents] may
// be used from any goroutine; Close ends its work.
package documents

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"regexp"
	"strconv"
	"syscall"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/documents/index"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/request"
)

// Options are what a Documents needs.
type Options struct {
	Library *index.Library // nil: no documents are kept, and every route says so
	Read    index.Reader   // makes texts of files; nil: Read
	Log     *zap.Logger    // never nil
	Models  Models         // nil: words alone decide
}

// Models are the models that may help to find passages. None is loaded for it: what is not on the
// card does not help.
type Models interface {
	// Embedder names the model that gives vectors of texts; "": none is loaded.
	Embedder() string
	// Embed gives a vector for each text, of passages or of questions.
	Embed(ctx context.Context, model, owner string, texts []string, questions bool) ([][]float32, error)
	// Reranker names the model that says how well a text answers a question; "": none is loaded.
	Reranker() string
	// Rerank scores texts between 0 and 1.
	Rerank(ctx context.Context, model, owner, question string, texts []string) ([]float64, error)
}

// Documents answers requests.
type Documents struct {
	o    Options
	work worker
}

// New makes a Documents. What was not indexed when the server ended is taken up once Start is
// called.
func New(o Options) *Documents {
	if o.Read == nil {
		o.Read = Read
	}
	d := &Documents{o: o}
	d.work.begin(d)
	return d
}

// Close ends what is indexed now and waits for that.
func (d *Documents) Close() { d.work.close() }

// off is what is told where no documents are kept.
var errOff = request.Error(http.StatusNotImplemented,
	"this server keeps no documents: start it with --documents DIR (AXLE_DOCUMENTS), a folder that only its user may read")

// shelf is what the key that asks has.
func (d *Documents) shelf(x *request.Exchange) (*index.Shelf, error) {
	if d.o.Library == nil {
		return nil, errOff
	}
	//rule:T17 ./server TestDocumentsOfKey x.Owner() => ""
	s, err := d.o.Library.Of(x.Owner())
	return s, d.failed(err, "")
}

// failed makes what a client is told of an error. what is what was not found.
func (d *Documents) failed(err error, what string) error {
	var f *index.FullError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return request.Error(http.StatusInsufficientStorage, f.Text)
	case errors.Is(err, index.ErrTooLarge):
		return body.Fail(http.StatusRequestEntityTooLarge, "the file is too large: a file may have %d MiB (--documents-file)",
			d.o.Library.Limits.File>>20)
	case errors.Is(err, index.ErrNotFound):
		return body.Fail(http.StatusNotFound, "No such %s: it was deleted, has expired, or belongs to another key", body.Ours(what))
	case errors.Is(err, index.ErrClosed):
		return request.Error(http.StatusServiceUnavailable, "the server is shutting down")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return request.Error(http.StatusInsufficientStorage, "the disk with the folder of documents is full")
	case errors.Is(err, index.ErrDamaged), errors.As(err, new(*fs.PathError)):
		d.o.Log.Error("documents", zap.Error(err))
		return request.Error(http.StatusInternalServerError, "the folder of documents could not be read or written: the server's "+
			"log says why")
	}
	return err
}

// send answers with JSON.
func send(x *request.Exchange, v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		x.Reply().Whole(http.StatusOK, request.JSONV1, b)
	}
	return err
}

// page is a list's answer, as OpenAI's API has it.
type page[T any] struct {
	Object  string  `json:"object"`
	Data    []T     `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// list answers with a part of a list, the newest first unless order says asc: limit of them, behind
// after or before before.
func list[T any](x *request.Exchange, all []T, id func(T) string) error {
	limit := 20
	if s := x.Query("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 10_000 {
			return body.Fail(http.StatusBadRequest, "limit must be a number from 1 to 10000, got %s", s)
		}
		limit = n
	}
	switch order := x.Query("order"); order {
	case "", "desc":
	case "asc":
		for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
			all[i], all[j] = all[j], all[i]
		}
	default:
		return body.Fail(http.StatusBadRequest, "order must be asc or desc, got %s", order)
	}
	from, to := 0, len(all)
	for i, one := range all {
		if id(one) == x.Query("after") {
			from = i + 1
		}
		if id(one) == x.Query("before") {
			to = i
		}
	}
	from = min(from, to)
	p := page[T]{Object: "list", Data: all[from:to]}
	if len(p.Data) > limit {
		p.Data, p.HasMore = p.Data[:limit], true
	}
	if n := len(p.Data); n > 0 {
		p.FirstID, p.LastID = new(id(p.Data[0])), new(id(p.Data[n-1]))
	} else {
		p.Data = []T{}
	}
	return send(x, p)
}

type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

var plainID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// known refuses what cannot be an id, so that no path or log line is made of it.
func known(id, what string) error {
	if !plainID.MatchString(id) {
		return body.Fail(http.StatusNotFound, "No such %s", body.Ours(what))
	}
	return nil
}

// State says whether documents are kept, and how much room there is for the key that asks.
func (d *Documents) State(x *request.Exchange) error {
	var out struct {
		On    bool  `json:"on"`
		Used  int64 `json:"used_bytes"`
		Limit int64 `json:"limit_bytes"`
		File  int64 `json:"file_bytes"`
	}
	if d.o.Library != nil {
		s, err := d.shelf(x)
		if err != nil {
			return err
		}
		out.On, out.Used, out.Limit, out.File = true, s.Used(), d.o.Library.Bytes, d.o.Library.File
	}
	x.Reply().JSON(http.StatusOK, out)
	return nil
}

// Start takes up what was not indexed when the server last ended. It returns at once.
func (d *Documents) Start(ctx context.Context) {
	if d.o.Library == nil {
		return
	}
	shelves, err := d.o.Library.All()
	if err != nil {
		d.o.Log.Error("documents that could not be read", zap.Error(err))
	}
	for i, s := range shelves {
		for _, id := range s.Collections() {
			entries, err := s.Entries(id)
			if err != nil {
				continue
			}
			for _, e := range entries {
				if e.Status == index.InProgress && ctx.Err() == nil {
					d.work.add(job{turn: strconv.Itoa(i), shelf: s, store: id, file: e.File})
				}
			}
		}
	}
}
