// Package catalog says what a model is to the server before it is loaded, and where the server
// finds it: an [Entry] of a [Store].
//
// A reader of an entry may share it between goroutines and changes nothing in it. A Store and a
// Puller are used from any goroutine at once.
package catalog

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Entry is what the server knows of a model before it is loaded.
type Entry struct {
	Name     models.Name
	Digest   string // 64 hex
	Key      string // the same for models that share a package; another when the package changes
	Place    string // where the package is; at most one Key is loaded from it
	Size     int64
	Modified time.Time
	Parent   string // the model it was created from
	Adapter  string // the LoRA adapter of the package that it computes with; empty: none
	Info     models.Info

	Caps      chat.Capabilities
	Embedding bool

	Template string       // the template's text, as /api/show prints it
	Custom   ask.Template // of the Modelfile; zero: the package's own
	System   string
	Params   map[string]any
	Messages []ask.Message
	License  []string

	Model  *store.Model // nil for entries that are not the store's
	Broken error        // why the package cannot be opened; nil where it can
}

// Says is why the model cannot be asked, in a sentence that goes on from "it is": it is of a kind
// that axle does not run yet, or broken. Empty for all others.
func (e *Entry) Says() string {
	if e.Info.Says == "" && e.Broken != nil {
		return "a package that cannot be opened: " + e.Broken.Error()
	}
	return e.Info.Says
}

// Builtin says whether the model ships inside the program.
func (e *Entry) Builtin() bool { return e.Model != nil && e.Model.Builtin }

// Window is the context that an answer has where its request asks for none: what the Modelfile
// says, else def, else the model's, and no more than that.
func (e *Entry) Window(def int) int {
	n := prompt.NumCtx(def, e.Params)
	if n <= 0 || e.Info.Context > 0 && n > e.Info.Context {
		n = e.Info.Context
	}
	return n
}

// Store is the models this machine has. Errors a caller can tell: models.ErrName,
// store.ErrNotFound, store.ErrReadOnly, store.ErrNoBase.
type Store interface {
	List(ctx context.Context) ([]*Entry, error)
	Get(name models.Name) (*Entry, error)
	Copy(src, dst models.Name) error
	Delete(name models.Name) error
	Create(ctx context.Context, r store.CreateRequest, status func(string)) error
	HasBlob(d models.Digest) (size int64, ok bool, err error)
	PutBlob(ctx context.Context, d models.Digest, r io.Reader) (created bool, err error)
	Dir() string     // the store's folder
	Paths() []string // folders of packages in place
}

// Puller fetches models.
type Puller interface {
	// Pull fetches a model, calling status with each step.
	Pull(ctx context.Context, name string, status func(Progress)) error
}

// Progress is a step of what takes long: what is done, and where a file comes how far it is.
type Progress struct {
	Status, Digest   string
	Total, Completed int64
}

// AskedAs is the entry as a dialect looks at it, in a request that calls it by that name.
func (e *Entry) AskedAs(name string) prompt.Model {
	return prompt.Model{Asked: name, Full: e.Name.Full(), Caps: e.Caps, Embedding: e.Embedding,
		Params: e.Params, System: e.System, Messages: e.Messages, Template: e.Custom}
}

var errName = body.Fail(400, "invalid model name")

// Find resolves the model that a request asks for. A name in Ollama's cloud, one that is no name,
// and one that is not here answer as Ollama does; unnamed is the error where there is no name at
// all, missing the text where there is no such model.
func Find(st Store, asked string, unnamed error, missing string) (*Entry, error) {
	ref, err := prompt.ParseRef(asked, unnamed, errName)
	if err != nil {
		return nil, err
	}
	if ref.Cloud {
		return nil, prompt.ErrCloud
	}
	e, err := st.Get(ref.Name)
	if NotFound(err) {
		return nil, prompt.ErrMissing(missing, asked)
	}
	return e, err
}

// Runs fails for a model that is here and cannot be asked, since axle does not run its kind yet.
func (e *Entry) Runs(asked string) error {
	if e.Says() == "" {
		return nil
	}
	return body.Fail(400, "%q is %s", asked, e.Says())
}

// NotFound says whether a store's error means that there is no model of that name that this chip
// could run.
func NotFound(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGGUF) || errors.Is(err, store.ErrForeign) ||
		errors.Is(err, models.ErrName)
}
