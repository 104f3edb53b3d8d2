package server

import (
	"context"
	"io"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/ollama"
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
	Info     models.Info

	Caps      chat.Capabilities
	Embedding bool

	Template string        // the template's text, as /api/show prints it
	Custom   chat.Template // of the Modelfile; nil: the package's own
	System   string
	Params   map[string]any
	Messages []api.Message
	License  []string

	Model *store.Model // nil for entries that are not the store's
}

// Store is the models this machine has. Errors a caller can tell: models.ErrName, store.ErrNotFound, store.ErrReadOnly, store.ErrNoBase.
type Store interface {
	List(ctx context.Context) ([]*Entry, error)
	Get(name models.Name) (*Entry, error)
	Copy(src, dst models.Name) error
	Delete(name models.Name) error
	Create(ctx context.Context, r store.CreateRequest, status func(string)) error
	HasBlob(d models.Digest) (size int64, ok bool, err error)
	PutBlob(ctx context.Context, d models.Digest, r io.Reader) (created bool, err error)
	Dir() string
}

// Puller fetches models.
type Puller interface {
	// Pull fetches a model, calling status with each of Ollama's status lines.
	Pull(ctx context.Context, name string, status func(api.ProgressResponse)) error
}

// model is the entry as a dialect looks at it.
func (e *Entry) model(asked string) ollama.Model {
	return ollama.Model{Asked: asked, Full: e.Name.Full(), Caps: e.Caps, Embedding: e.Embedding,
		Params: e.Params, System: e.System, Messages: e.Messages, Template: e.Custom}
}

// details are what every list of models says of one.
func (e *Entry) details() api.ModelDetails {
	family := e.Info.Architecture
	if family == "" {
		family = e.Info.Family
	}
	return api.ModelDetails{Format: "axmodel", Family: family, Families: []string{family},
		ParameterSize: e.Info.ParameterSize, QuantizationLevel: e.Info.Quantization}
}
