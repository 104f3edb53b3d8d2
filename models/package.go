package models

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/bf16"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// Kinds of layers, in Hugging Face's words.
const (
	FullAttention    = "full_attention"
	SlidingAttention = "sliding_attention" // hides rows older than the window, by the mask
	LinearAttention  = "linear_attention"  // K and V are a state that each call replaces whole
)

// Layer is one decoder layer.
type Layer struct {
	Name    string // its path inside the package
	Size    int64
	Weights int64 // what it takes on a card, as far as the file tells
	Kind    string
	Window  int  // sliding attention: how many rows back it sees
	Shares  bool // uses the K and V of an earlier layer
	Source  int  // which: of those before it the last of its kind that has its own

	Shape axmodel.LayerShape  // zero for linear attention, whose tensors are another contract
	State axmodel.LinearShape // linear attention: what it keeps instead of rows; zero for other kinds
}

// Package is a model on disk, checked and ready to be loaded. Its fields are not to be changed; its
// zero value is of no use.
type Package struct {
	Name   string // what the configuration calls it, or the folder's name
	Dir    string // the folder; empty for a package inside another file system
	Layout string // A to I
	Source string // the file its configuration was read from; empty when all was inferred

	Family        string // qwen3, smollm2, gemma3 …: what decides on templates
	Architecture  string // qwen3, llama, gemma3 …: what the layers are
	TokenizerType string // in the vendor's words, settled from all that is known

	Layers   []string // the layers' real paths, in order; names inside the file system when it has no real paths
	Head     string
	Encoders []string // of pictures, as names inside the package: none or one; see [Package.Vision]

	Vocab  int // rows of the embedding table
	Hidden int
	Out    int                // length of a row of the head: logits, or Hidden for an embedding package
	Shape  axmodel.LayerShape // of the first layer that is attention, which all others of that kind share
	Facts  []Layer            // one for each of Layers
	// Adapters are those that the layers take as inputs, by name; nil: they take none, or there are
	// none.
	Adapters []*Adapter
	// Whole is set where each of Layers is a whole decoder (layout I): one, or one for tokens and
	// one for prompts. Head is empty then.
	Whole *axmodel.DecoderShape

	Embed     *Embeddings
	HeadTable *Embeddings // the matrix of a head that is not the embedding table; nil: there is no file of it
	PerLayer  *PerLayer   // Gemma-4: its layer inputs; nil for others
	Config    Config
	Sampling  Sampling
	Stops     []int32 // end-of-text ids that configuration files give; [Package.StopIDs] adds the tokenizer's
	BOS       []int32
	Context   int // the most tokens a sequence can have

	Embedding bool   // gives vectors, not text
	Pooling   string // embedding packages: last, mean or first

	Size  int64    // bytes of all files of the package
	Notes []string // what was inferred, in words

	opened
	measured
	sight
	hearing
	words
}

// opened is what a package holds open.
type opened struct {
	p      *plan
	fsys   fs.FS
	closer io.Closer
	owned  io.Closer // see Own
	digest string
	closed atomic.Bool
}

// measured is what files tell of sizes beyond the shapes.
type measured struct {
	softHeader *axmodel.Header // of the first layer of attention
	softCount  int64           // parameters of the layers
	head       axmodel.HeadShape
	headBytes  int64
	headFile   int64
}

// sight is the encoder of pictures.
type sight struct {
	vision     *Vision // its tensors; tokens are resolved by visionOnce
	visionErr  error
	visionOnce sync.Once
}

// hearing is the encoder of sound.
type hearing struct {
	hears     *Hearing // its tensors; tokens are resolved by hearsOnce
	hearsErr  error
	hearsOnce sync.Once
}

// words are the tokenizer and the template, each loaded when it is first asked for.
type words struct {
	tokOnce sync.Once
	tok     *tokenizer.Tokenizer
	tokErr  error
	tplOnce sync.Once
	tpl     chat.Template
	tplErr  error
}

// Open reads and checks the package in the folder dir. All errors are *Error and name a file:
// [ErrNotPackage], [ErrMissing], [ErrPointer], [ErrSize], [ErrMismatch], [ErrEscape] and
// [ErrMalformed] tell them apart, and [ErrKind] a package that is whole and no language model. The
// caller closes the package.
func Open(dir string) (*Package, error) { return LanguageModel(OpenAny(dir)) }

// OpenFS is Open for a package in the folder name of a file system. Its files must be able to read
// at an offset (embed.FS's and os.DirFS's can). Where fsys also is a [RealPather], layers have real
// paths; else see [Materialize].
func OpenFS(fsys fs.FS, name string) (*Package, error) { return LanguageModel(OpenAnyFS(fsys, name)) }

// subFS is fs.Sub that keeps real paths.
func subFS(fsys fs.FS, dir string) (fs.FS, error) {
	sub, err := fs.Sub(fsys, dir)
	if err != nil {
		return nil, err
	}
	if r, ok := fsys.(RealPather); ok {
		return realSub{sub, r, dir}, nil
	}
	return sub, nil
}

type realSub struct {
	fs.FS
	r   RealPather
	dir string
}

func (s realSub) RealPath(name string) (string, bool) { return s.r.RealPath(path.Join(s.dir, name)) }

func open(fsys fs.FS, label, name string) (*Package, error) {
	t, err := scan(fsys, label)
	if err != nil {
		return nil, err
	}
	p, err := makePlan(t)
	if err != nil {
		return nil, p.describe(err, name)
	}
	return p.open(name)
}

// open reads and checks the files that the plan names.
func (p *plan) open(name string) (*Package, error) {
	t := p.t
	pkg := &Package{
		Layout: p.layout, Source: p.source, Family: p.family, TokenizerType: p.tokenizerType, Config: p.cfg, Encoders: p.encoders,
		opened: opened{p: p, fsys: t.fsys},
	}
	var err error
	pkg.Name = cmp.Or(p.cfg.ModelName, name)
	if pkg.Name == "." {
		pkg.Name = p.family
	}
	if p.whole {
		err = pkg.readDecoder()
	} else if err = pkg.readLayers(); err == nil {
		err = pkg.readHead()
	}
	if err != nil {
		return nil, err
	}
	if pkg.Embed, err = openEmbeddings(t, p.embed, cmp.Or(p.cfg.Vocab, 0), pkg.Hidden); err != nil {
		return nil, err
	}
	fail := func(err error) (*Package, error) {
		_ = pkg.HeadTable.Close()
		_ = pkg.Embed.Close()
		_ = pkg.PerLayer.Close()
		return nil, err
	}
	if p.table != "" {
		if pkg.HeadTable, err = openEmbeddings(t, p.table, pkg.Embed.Rows, pkg.Hidden); err != nil {
			return fail(err)
		}
	}
	if pkg.PerLayer, err = pkg.openPerLayer(); err != nil {
		return fail(err)
	}
	if err := pkg.agree(); err != nil {
		return fail(err)
	}
	if err := pkg.readAdapters(); err != nil {
		return fail(err)
	}
	pkg.readVision() // it may tell the family
	if pkg.Sampling, pkg.Stops, pkg.BOS, err = p.sampling(); err != nil {
		return fail(err)
	}
	pkg.settle()
	if pkg.Size, pkg.digest, err = identify(t, p.files()); err != nil {
		return fail(err)
	}
	return pkg, nil
}

// meta reads one .axmodel's description.
func (pkg *Package) meta(name string) (*axmodel.Meta, error) {
	f, err := pkg.p.t.openAt(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := axmodel.Read(f, pkg.p.t.files[name])
	if err != nil {
		return nil, pkg.malformed(name, err)
	}
	return m, nil
}

// what is an error's text without the prefix of the package that it is of.
func what(err error) string {
	var e *axmodel.Error
	if errors.As(err, &e) {
		return strings.Replace(err.Error(), e.Error(), e.What, 1)
	}
	return err.Error()
}

func (pkg *Package) malformed(name string, err error) error {
	return &Error{Path: pkg.p.t.where(name), What: what(err), Fix: "fetch the file again, e.g. with `axle pull`",
		Err: errors.Join(ErrMalformed, err)}
}

func (pkg *Package) readLayers() error {
	p := pkg.p
	c := &p.cfg
	n := len(p.layers)
	if len(c.LayerTypes) > 0 && len(c.LayerTypes) != n {
		return &Error{Path: p.t.where(cmp.Or(p.source, ".")), What: fmt.Sprintf("layer_types has %d entries, the model %d layers",
			len(c.LayerTypes), n), Err: ErrMismatch}
	}
	if c.KVSharedLayers > n {
		return &Error{Path: p.t.where(cmp.Or(p.source, ".")), What: fmt.Sprintf("num_kv_shared_layers is %d, the model has %d layers",
			c.KVSharedLayers, n), Err: ErrMismatch}
	}
	// The first layer that is attention, and the first with a state: those all others of their
	// kinds are held against.
	first, state, told := -1, -1, false
	for i, name := range p.layers {
		full, _, err := p.t.realPath(name)
		if err != nil {
			return err
		}
		m, err := pkg.meta(name)
		if err != nil {
			return err
		}
		size := p.t.files[name]
		l := Layer{Name: name, Size: size, Weights: cmp.Or(m.WeightBytes, size), Kind: layerKind(c, i),
			Shares: c.KVSharedLayers > 0 && i >= n-c.KVSharedLayers}
		if l.Kind == SlidingAttention {
			l.Window = c.SlidingWindow
		}
		found, err := l.read(m, pkg.SharesKV())
		if e, ok := err.(*Error); ok {
			e.Path = p.t.where(name)
			return e
		} else if err != nil {
			return pkg.malformed(name, err)
		}
		told = told || found
		if l.Kind == LinearAttention {
			if state < 0 {
				state = i
			} else if was := pkg.Facts[state].State; !l.State.Equal(was) {
				what := fmt.Sprintf("its states (%s) differ from those of %s (%s)", describeState(l.State), path.Base(p.layers[state]),
					describeState(was))
				return &Error{Path: p.t.where(name), What: what, Fix: "take all layers from one build", Err: ErrMismatch}
			}
		} else {
			if first < 0 {
				first = i
				pkg.Shape = l.Shape
			} else if !l.Shape.Equal(pkg.Shape) && !pkg.standsWith(l) {
				return &Error{Path: p.t.where(name), What: fmt.Sprintf("its shapes (%s) differ from those of %s (%s)", describe(l.Shape),
					path.Base(p.layers[first]), describe(pkg.Shape)),
					Fix: "take all layers from one build", Err: ErrMismatch}
			}
			if s := m.Soft; s != nil && pkg.softHeader == nil {
				pkg.softHeader = new(s.Header)
			}
		}
		if s := m.Soft; s != nil {
			pkg.softCount += softLayerCount(&s.Header)
		}
		pkg.Facts = append(pkg.Facts, l)
		pkg.Layers = append(pkg.Layers, full)
	}
	if first < 0 {
		return &Error{Path: p.t.where(p.layers[0]), What: "no layer of the model is attention", Err: ErrMismatch}
	}
	if told {
		p.note("which layers are linear attention is inferred from their tensors")
	}
	if state >= 0 {
		if err := pkg.Facts[state].State.Fits(pkg.Shape); err != nil {
			return &Error{Path: p.t.where(p.layers[state]), What: what(err), Fix: "take all layers from one build", Err: ErrMismatch}
		}
		pkg.noteStates(pkg.Facts[state].State)
	}
	pkg.Hidden = pkg.Shape.Hidden
	return pkg.sources()
}

// layerKind is what the configuration says of layer i; empty when it says nothing.
func layerKind(c *Config, i int) string {
	switch {
	case i < len(c.LayerTypes):
		return c.LayerTypes[i]
	case c.FullAttentionInterval > 0 && (i+1)%c.FullAttentionInterval != 0:
		return LinearAttention
	case c.FullAttentionInterval > 0:
		return FullAttention
	}
	return ""
}

func describe(s axmodel.LayerShape) string {
	var b strings.Builder
	fmt.Fprintf(&b, "hidden %d, K and V %d, cache %d, groups", s.Hidden, s.KV, s.Cells)
	for _, g := range s.Groups {
		fmt.Fprintf(&b, " %d+%d", g.Rows, g.Cells)
	}
	return b.String()
}

func (pkg *Package) readHead() error {
	name := pkg.p.head
	m, err := pkg.meta(name)
	if err != nil {
		return err
	}
	h, err := m.Head()
	if err != nil {
		return pkg.malformed(name, err)
	}
	if h.Hidden != pkg.Hidden {
		return &Error{Path: pkg.p.t.where(name), What: fmt.Sprintf("takes rows of %d, the layers give %d", h.Hidden, pkg.Hidden),
			Fix: "take layers and head from one build", Err: ErrMismatch}
	}
	if pkg.Head, _, err = pkg.p.t.realPath(name); err != nil {
		return err
	}
	pkg.headFile = m.FileBytes
	pkg.headBytes = cmp.Or(m.WeightBytes, m.FileBytes)
	pkg.head, pkg.Out = h, h.Out
	return nil
}

// agree holds configuration, embeddings and head against each other.
func (pkg *Package) agree() error {
	p := pkg.p
	pkg.Vocab = pkg.Embed.Rows
	where := p.t.where(cmp.Or(p.source, p.embed))
	if h := p.cfg.Hidden; h != 0 && h != pkg.Hidden {
		return &Error{Path: where, What: fmt.Sprintf("tokens_embed_size is %d, the layers' hidden size %d", h, pkg.Hidden),
			Fix: "correct the configuration", Err: ErrMismatch}
	}
	if p.cfg.Hidden == 0 {
		p.note("hidden size %d, by the layers' tensors", pkg.Hidden)
	}
	if p.cfg.Vocab == 0 {
		p.note("%d tokens, by the size of %s", pkg.Vocab, p.embed)
	}
	pkg.Embedding = p.cfg.Embedding
	if pkg.Out == pkg.Hidden && pkg.Out != pkg.Vocab {
		if !pkg.Embedding {
			p.note("an embedding package: the head gives rows of the hidden size, not logits")
		}
		pkg.Embedding = true
	}
	switch {
	case pkg.Out == pkg.Hidden && pkg.Embedding:
	case pkg.Out > pkg.Vocab:
		return &Error{Path: p.t.where(p.head), What: fmt.Sprintf("gives logits for %d tokens, the embedding table has %d", pkg.Out,
			pkg.Vocab), Fix: "take head and embeddings from one build", Err: ErrMismatch}
	case pkg.Out < pkg.Vocab:
		p.note("the head gives logits for %d of %d tokens", pkg.Out, pkg.Vocab)
	}
	return nil
}

// settle fills in what follows from everything read.
func (pkg *Package) settle() {
	p := pkg.p
	prefix, _, _ := strings.Cut(path.Base(p.template), "l%d")
	pkg.Architecture = cmp.Or(familyOf(prefix), pkg.Family)
	pkg.Embed.Scale = pkg.embedScale()
	pkg.Stops = append(pkg.Stops, p.facts.eos...)
	slices.Sort(pkg.Stops)
	pkg.Stops = slices.Compact(pkg.Stops)
	if pkg.BOS == nil {
		pkg.BOS = p.facts.bos
	}
	pkg.Context = pkg.Shape.Cells
	if c := p.facts.context; c > 0 && c < pkg.Context {
		pkg.Context = c
		p.note("the context is limited to %d by max_position_embeddings, below the %d cache rows", c, pkg.Shape.Cells)
	}
	if pkg.Embedding {
		if pkg.Pooling = p.facts.pooling; pkg.Pooling == "" {
			pkg.Pooling = "last"
			p.note("pooling is not given: the last token's row")
		}
	}
	if pkg.Shape.Shape().MaxRows() == 1 {
		p.note("no prefill group: prompts are fed a token at a time")
	}
	if p.cfg.PrefillTemplate != "" {
		p.note("separate prefill layers (%s) are not used", p.cfg.PrefillTemplate)
	}
	if _, ok := pkg.builtin(); !ok && p.chatTemplate == "" && !pkg.Embedding {
		p.note("no chat template is known for %q: prompts are passed as they are; put the model's chat_template.jinja beside its tokenizer",
			cmp.Or(pkg.TokenizerType, pkg.Family))
	}
	for i := range pkg.Facts {
		if l := &pkg.Facts[i]; l.Kind == SlidingAttention && l.Window == 0 {
			p.note("layer_types names sliding attention without a sliding_window: those layers see everything")
			break
		}
	}
	pkg.Notes = p.notes
}

// embedScale is what rows of the embedding table are multiplied by: what the configuration says.
// Where it says nothing they are taken as they are, as the vendor's runtime does for Gemma-3, whose
// packages have √hidden in the table or in layer 0. The exceptions are Gemma-4, which the vendor's
// runtime multiplies, and Gemma packages for the software card, which axle compile made before it
// said so.
func (pkg *Package) embedScale() float32 {
	switch h := pkg.softHeader; {
	case pkg.Config.EmbedScale != 0:
		return float32(pkg.Config.EmbedScale)
	case h != nil && h.Flags&axmodel.FlagGemma != 0:
		pkg.p.note("embeddings are multiplied by √%d, as for every Gemma compiled before config.json said so", pkg.Hidden)
		return gemmaScale(pkg.Hidden)
	case familyTraits[pkg.Family].scaled || familyTraits[pkg.Architecture].scaled:
		return gemmaScale(pkg.Hidden)
	}
	return 1
}

// gemmaScale is √hidden rounded to bf16, as the models were trained with it.
func gemmaScale(hidden int) float32 { return bf16.Float32(bf16.Round(sqrt32(hidden))) }

// Files lists the package's files by their names inside it.
func (p *Package) Files() []string { return p.p.files() }

// FS is the package's own file system, which nothing outside it can be reached through.
func (p *Package) FS() fs.FS { return p.fsys }

// Close releases the embeddings and the folder. A second Close returns [ErrClosed].
func (p *Package) Close() error {
	if p.closed.Swap(true) {
		return ErrClosed
	}
	err := errors.Join(p.Embed.Close(), p.HeadTable.Close(), p.PerLayer.Close())
	if p.closer != nil {
		err = errors.Join(err, p.closer.Close())
	}
	if p.owned != nil {
		err = errors.Join(err, p.owned.Close())
	}
	return err
}

// Own gives the package something that it reads from, a store for one, to close when it is closed.
// It holds one.
func (p *Package) Own(c io.Closer) { p.owned = c }
