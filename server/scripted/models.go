package scripted

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"sync"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// kind is one of the scripted models.
type kind struct {
	caps      chat.Capabilities
	embedding bool
	params    int64
	size      string
}

var kinds = map[string]kind{
	"scripted":        {size: "1M", params: 1e6},
	"scripted-chat":   {caps: chat.Capabilities{Tools: true, Thinking: true, Insert: true, System: true}, size: "1M", params: 1e6},
	"scripted-embed":  {embedding: true, size: "1M", params: 1e6},
	"scripted-search": {embedding: true, caps: chat.Capabilities{Vision: true}, size: "1M", params: 1e6},
	"scripted-vision": {caps: chat.Capabilities{Vision: true, System: true}, size: "1M", params: 1e6},
	// Recognisers have no template.
	"scripted-hearing": {caps: chat.Capabilities{Audio: true}, size: "1M", params: 1e6},
	// Nor have those that speak.
	"scripted-speaking":  {caps: chat.Capabilities{Speech: true}, size: "1M", params: 1e6},
	"scripted-detecting": {caps: chat.Capabilities{Detection: true}, size: "1M", params: 1e6},
	"scripted-faces":     {caps: chat.Capabilities{Faces: true}, size: "1M", params: 1e6},
	"scripted-drawing":   {caps: chat.Capabilities{Drawing: true}, size: "1M", params: 1e6},
}

// writes says whether the model writes text.
func (k kind) writes() bool {
	return !k.embedding && !k.caps.Audio && !k.caps.Speech && !k.caps.Detection && !k.caps.Faces && !k.caps.Drawing
}

func (k kind) template() chat.Template {
	if k.caps.System {
		return chatML{k.caps}
	}
	return plain{}
}

//go:embed files
var files embed.FS

// Builtin are the scripted models as a store keeps them.
func Builtin() map[string]fs.FS {
	out := map[string]fs.FS{}
	for name := range kinds {
		if sub, err := fs.Sub(files, "files/"+name); err == nil {
			out[name] = sub
		}
	}
	return out
}

// Describe tells what a scripted model can do, in place of a package.
func Describe(m *store.Model) (local.About, bool) {
	name, err := models.ParseName(m.BuiltinName())
	if err != nil {
		return local.About{}, false
	}
	k, ok := kinds[name.Model()]
	if !ok {
		return local.About{}, false
	}
	a := local.About{Caps: k.caps, Embedding: k.embedding, Info: models.Info{Name: name.Model(), Architecture: "scripted",
		Family: "scripted", Layout: "scripted",
		Digest: "scripted", Quantization: "BF16", Parameters: k.params, ParameterSize: k.size, Context: contextLength, Hidden: hidden,
		Layers: 2, Heads: 2, KVHeads: 1,
		FeedForward: 16, Vocab: vocab}}
	if k.caps.Audio {
		a.Info.Languages = []string{"en", "de"}
	}
	if k.caps.Speech {
		a.Info.Voices = voices
	}
	if k.writes() {
		a.Template = k.template().Source()
	}
	return a, true
}

const (
	contextLength = 4096
	hidden        = 8
	cardBytes     = 512 << 20
)

// Loader loads scripted models. The zero Loader is ready.
type Loader struct {
	Config Config // Parallel, MaxQueue, Delay, Asked, Speaks and Live of every model, Info.Memory, and Info.Hidden: 8

	mu     sync.Mutex
	Loaded []*Backend // in the order they were loaded
}

// Load implements pool.Loader.
func (l *Loader) Load(ctx context.Context, e *catalog.Entry) (ask.Model, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name, err := models.ParseName(e.Model.BuiltinName())
	if err != nil {
		return nil, fmt.Errorf("scripted: %s is no scripted model", e.Name)
	}
	k := kinds[name.Model()]
	c := l.Config
	c.Info = ask.Info{Name: e.Name.String(), Family: "scripted", Context: contextLength, Hidden: cmp.Or(l.Config.Info.Hidden, hidden),
		Memory: l.Config.Info.Memory,
		Layers: 2, Embedding: k.embedding, CardBytes: cardBytes,
		Device: "scripted", Capabilities: k.caps}
	if k.caps.Speech {
		c.Info.Voices, c.Info.SampleRate = voices, speakRate
	}
	if k.caps.Drawing {
		c.Info.Draws = Draws
	}
	b := New(c)
	l.mu.Lock()
	l.Loaded = append(l.Loaded, b)
	l.mu.Unlock()
	o := engine.Options{Name: e.Name.String(), Vocabulary: Vocabulary{}}
	if k.embedding && k.caps.Vision {
		o.Prompts = models.Prompts{Named: map[string]string{"query": "{task} ", "document": ""}, Task: "find"}
	}
	if k.writes() {
		o.Template = k.template()
	}
	return engine.New(b, o), nil
}

// Backends are those loaded so far.
func (l *Loader) Backends() []*Backend {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*Backend(nil), l.Loaded...)
}

var _ pool.Loader = (*Loader)(nil)
