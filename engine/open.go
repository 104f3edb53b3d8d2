package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/engine/card"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/ahead"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// OpenOptions says how a package is loaded onto a card. The zero value opens the best device for
// this model alone.
type OpenOptions struct {
	// Device names the card, as cards.Open takes it: "" or "auto", "axcl", "axcl:1", "axengine",
	// "soft". With commas ("axcl:0,axcl:1") each card holds the model, and they share one queue.
	// With plus signs ("axcl:0+axcl:1") each card holds a part of the layers. Unused where Card or
	// Cards is set.
	Device string
	// Copies are open cards. Each gets a copy of the model, and they share one queue. A lost card
	// is left out. The model does not close them. Unused where Card is set.
	Copies []*Card
	// Cards are open cards to choose from: the model is loaded onto the one with the most free
	// memory. Unused where Card is set.
	Cards []*Card
	// Card is an open card. The model is loaded next to what is on it already. The model does not
	// close it.
	Card *Card
	// CardOptions are the options of the card that Open opens itself.
	CardOptions CardOptions
	// Name is the model's name in errors and Info. Empty means the package's own name.
	Name string
	// Template replaces the package's own.
	Template chat.Template
	// Parallel is the most sequences that run at once; 0 means 32. MaxQueue is the most that may
	// wait; 0 means 512.
	Parallel, MaxQueue int
	// Context lowers the model's context. 0 leaves it as it is.
	Context int
	// Timeout limits one pass in the library. 0 or less means 60 s.
	Timeout time.Duration
	// Progress is called when a load begins, with nothing done, and after each loaded file. It runs
	// on the card's goroutine, which waits for it. A draft's files come after the model's own.
	Progress func(Progress)
	// Room is called once if the card has too little memory. It may unload a model that is not in
	// use, and reports whether it did. It is not called from the card's goroutine, so it may close
	// a model of the same card.
	Room func(need, free int64) bool
	// Repeatable makes every request repeatable: see Request.Repeatable. Requests then run one
	// after the other.
	Repeatable bool
	// CacheRAM is the memory of this machine that keeps rows evicted from the card. Models that are
	// given the same one share its limit. Nil keeps none.
	CacheRAM *Memory
	// Draft opens a smaller package with the same vocabulary. It is loaded next to the model and
	// guesses the next tokens. Nil means none. Draft is called more than once: to check the package
	// before a card is opened, and once for each card. Every package that it returns is closed.
	Draft func() (*models.Package, error)
	// Head says where the LM head is computed; empty means HeadAuto.
	Head HeadPlace
	// HeadKnown, when not nil, is told on each card's goroutine whether the host may compute the
	// head, once that is known: at load, or some seconds later. It must not wait.
	HeadKnown func(HeadStats)
	// Rows, when not nil, keeps evaluated rows on disk, and restores them after a restart. The
	// caller closes it, after all models.
	Rows *rows.Disk
	// Medium, when not nil, keeps them instead of Rows. Model.Close waits for its methods to
	// return.
	Medium cache.Medium
	// Events, when not nil, is called for each copy of the model, and returns who is told which
	// whole blocks of texts the copy's caches hold. The listener is closed with the model.
	Events func(model string) Listener
	// Proven, when not nil, says what the card can do. Then nothing is probed.
	Proven *Proven
	// Remember is a folder that keeps the results of probes, by package, card and driver. Empty
	// means none. Without it every load probes, and compares fewer rows of a chunk with single
	// rows.
	Remember string
}

// Open loads the package in the folder dir. The caller closes the model. That closes the package,
// and the card if Open opened it. Errors: models' for a bad package, axcl's from the card,
// *MemoryError when it cannot fit, ctx's.
func Open(ctx context.Context, dir string, o OpenOptions) (*Model, error) {
	p, err := models.Open(dir)
	if err != nil {
		return nil, err
	}
	m, err := OpenPackage(ctx, p, o)
	if err != nil {
		_ = p.Close()
	}
	return m, err
}

// OpenPackage is Open for an open package. The model owns the package from then on, unless
// OpenPackage fails.
func OpenPackage(ctx context.Context, p *models.Package, o OpenOptions) (*Model, error) {
	if err := runs(p); err != nil {
		return nil, err
	}
	tmpl := o.Template
	if tmpl == nil {
		var err error
		if tmpl, err = p.Template(); err != nil {
			return nil, err
		}
	}
	one := func(b *cardBackend) *Model {
		var sees *models.Vision
		if b.m.pictures.encoder != nil {
			sees, b.info.Memory = b.m.pictures.encoder.sees, p.Memory()
			b.info.CardBytes = b.info.Memory.Card
		}
		m := New(b, Options{Name: b.info.Name, Template: tmpl, Vocabulary: vocabulary{b.tokenizer, b.m.stop}, Sees: sees,
			Prompts: p.Prompts()})
		m.info.Capabilities.Vision = sees != nil // whether or not its template knows pictures
		return m
	}
	again := func(card *Card, _ func() error) (*Model, error) { return openCopy(ctx, p, card, o) }
	return openLayers(ctx, p, p, o, one, again)
}

// openLayers opens the language model p, which owner closes. one makes a model of it once it is on
// a card, and again opens each further copy.
func openLayers(ctx context.Context, p *models.Package, owner io.Closer, o OpenOptions, one func(b *cardBackend) *Model, again opener) (
	*Model, error,
) {
	if err := runs(p); err != nil {
		return nil, err
	}
	tok, err := p.Tokenizer()
	if err != nil {
		return nil, err
	}
	sampling, err := mergeSampling(p.Sampling)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	ends, err := p.Ends()
	if err != nil {
		return nil, err
	}
	if err := CheckDraft(p, o.Draft); err != nil {
		return nil, err // before a card is opened
	}
	first := func(card *Card, closer func() error) (*Model, error) {
		b := &cardBackend{card: card, tokenizer: tok, sampling: sampling, pooling: p.Pooling, ends: ends, closer: closer}
		if err := b.open(ctx, p, o); err != nil {
			return nil, err
		}
		return one(b), nil
	}
	return openOn(owner, o, func(all []*Card) *Card { return chosen(all, p) }, first, again)
}

// open loads the package onto b's card.
func (b *cardBackend) open(ctx context.Context, p *models.Package, o OpenOptions) error {
	b.info = Info{Name: cmp.Or(o.Name, p.Name), Family: p.Family, Context: p.Context, Vocab: p.Vocab, Hidden: p.Hidden, Layers: p.Depth(),
		Embedding: p.Embedding, Think: p.Thinking(),
		Device: b.card.Info().ID}
	var draft *models.Package
	var err error
	if o.Draft != nil {
		if draft, err = o.Draft(); err != nil {
			return err
		}
		closer := b.closer
		b.closer = func() error { return errors.Join(closer(), draft.Close()) }
	}
	if err = b.card.loadOrMakeRoom(ctx, p, draft, b, o); err != nil {
		if draft != nil {
			_ = draft.Close()
		}
		return err
	}
	if draft != nil {
		b.info.Draft, b.info.DraftBytes = draft.Name, draft.TextMemory().Card
	}
	b.info.Context = min(b.info.Context, b.m.shape.Cells)
	if o.Context > 0 {
		b.info.Context = min(b.info.Context, o.Context)
	}
	b.info.Memory = p.TextMemory()
	b.info.CardBytes = b.info.Memory.Card
	return nil
}

// runs returns why a package cannot run on any card, or nil.
func runs(p *models.Package) error {
	if p.Whole != nil {
		if _, _, err := p.Whole.Plan(); err != nil {
			return fmt.Errorf("%w: %s: %w: take a package of one file a layer", ErrUnsupported, p.Name, err)
		}
	}
	for i, f := range p.Facts {
		if f.Shares && !p.SharesKV() {
			return fmt.Errorf("%w: layer %d of %s shares its cache with another (%s), which axle does not run yet", ErrUnsupported, i,
				p.Name, f.Kind)
		}
	}
	return nil
}

// chosen returns the card that a package is loaded onto: one with room for all of it, else one with
// room for its text model. If no card has room, it returns the first: loading then fails, or Room
// makes room.
func chosen(all []*Card, p *models.Package) *Card {
	if c := Place(all, p.Memory().Load); c != nil {
		return c
	}
	if c := Place(all, p.TextMemory().Load); c != nil {
		return c
	}
	return all[0]
}

// loadOrMakeRoom calls load. If memory is lacking, it tries again after Room has made some, and
// then with fewer slots for snapshots.
func (c *Card) loadOrMakeRoom(ctx context.Context, p, draft *models.Package, b *cardBackend, o OpenOptions) error {
	err := c.makingRoom(o, needs(p, draft), func() error { return c.load(ctx, p, draft, b, o, p.Slots()) })
	if errors.Is(err, axcl.ErrMemory) && p.Slots() > axcl.DefaultSlots { // few snapshots are better than no model
		err = c.load(ctx, p, draft, b, o, axcl.DefaultSlots)
	}
	return err
}

// makingRoom calls load, and once more if memory was lacking and Room has made some. need is the
// most memory that the load takes.
func (c *Card) makingRoom(o OpenOptions, need int64, load func() error) error {
	err := load()
	if me := (&MemoryError{}); errors.Is(err, axcl.ErrMemory) && o.Room != nil {
		if !errors.As(err, &me) {
			me.Need, me.Free = need, c.Info().FreeCMM
		}
		if o.Room(me.Need, me.Free) {
			err = load()
		}
	}
	return err
}

// vocabulary is a tokenizer with all ids that end an answer.
type vocabulary struct {
	*tokenizer.Tokenizer
	stop map[int32]bool
}

func (v vocabulary) EOS() []int32 { return slices.Sorted(maps.Keys(v.stop)) }

// CheckDraft checks whether a draft package can guess for a model, as Open does. The two must have
// the same tokens. It opens no card. If p is nil, the tokens are not compared. A nil draft is
// accepted.
func CheckDraft(p *models.Package, draft func() (*models.Package, error)) (err error) {
	if draft == nil {
		return nil
	}
	if p != nil && p.StateBytes() > 0 {
		return fmt.Errorf("%w: %s takes no draft model: its layers keep states, which a wrong guess would spoil", ErrUnsupported, p.Name)
	}
	d, err := draft()
	if err != nil {
		return fmt.Errorf("engine: the draft model: %w", err)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if d.StateBytes() > 0 {
		return fmt.Errorf("%w: %s cannot draft: its layers keep states, which a wrong guess would spoil; take a model without",
			ErrUnsupported, d.Name)
	}
	theirs, err := d.Tokenizer()
	if err != nil || p == nil {
		return err
	}
	tok, err := p.Tokenizer()
	if err != nil {
		return err
	}
	for id := range int32(max(tok.Vocab(), theirs.Vocab())) {
		if !bytes.Equal(tok.Bytes(id), theirs.Bytes(id)) {
			return fmt.Errorf("engine: %s cannot draft: its token %d is %q, the model's is %q; take one of the same family", d.Name, id,
				theirs.Bytes(id), tok.Bytes(id))
		}
	}
	return nil
}

// slotsFor returns how many slots a model gets on a card, 0 for a model without states. A slot
// holds the state of a running sequence, or a snapshot.
func slotsFor(p *models.Package, card axcl.Info) int {
	n := p.Slots()
	if n == 0 {
		return 0
	}
	free := int64(math.MaxInt64)
	switch {
	case card.TotalCMM > 0:
		free = card.FreeCMM
	case card.Host && card.TotalMem > 0:
		free = card.FreeMem
	}
	return int(max(min(int64(n), (free-withSlots(p, 0))/p.StateBytes()), axcl.DefaultSlots))
}

// withSlots returns the most memory that loading a package takes with this many slots. The
// package's prediction includes the states of p.Slots slots and of the card's spare one.
func withSlots(p *models.Package, slots int) int64 {
	return p.Memory().Load - int64(p.Slots()-slots)*p.StateBytes()
}

// needs returns the most card memory that loading a package takes, and a draft after it. draft may
// be nil.
func needs(p, draft *models.Package) int64 {
	m := p.Memory()
	if draft == nil {
		return m.Load
	}
	return max(m.Load, m.Card+draft.TextMemory().Load) // a draft model is not shown pictures
}

// blinded returns why a package with an encoder must be loaded without it, or nil. This is so if
// the package needs more memory than the card has even without other models, and its text model
// fits. If unloading another model might make room, the package is not blinded: the other model
// goes first, as for any load.
func (c *Card) blinded(p *models.Package, need int64) error {
	info, more := c.Info(), p.Memory().Load-p.TextMemory().Load
	foreign, _ := c.Foreign()
	if more == 0 || info.TotalCMM == 0 || need <= info.TotalCMM-foreign || need-more > info.FreeCMM {
		return nil
	}
	return &MemoryError{Name: "with its encoder " + p.Name, Need: need, Free: info.TotalCMM - foreign}
}

// load loads the package onto the card in pieces, and other tenants have their turns between them.
// First it checks that there is memory, with this many slots. Then it loads the layers, one file a
// piece. Then it measures and probes the card, one pass a piece.
func (c *Card) load(ctx context.Context, p, draft *models.Package, b *cardBackend, o OpenOptions, slots int) error {
	stop, err := p.StopIDs()
	if err != nil {
		return err
	}
	return c.InPieces(ctx, func(dev axcl.Device, pause func() error) error {
		if err := c.Refresh(); err != nil {
			return err
		}
		info := c.Info()
		need := needs(p, draft)
		if p.Slots() > 0 { // a model with states has no draft
			need = withSlots(p, slots)
		}
		blind := c.blinded(p, need)
		if blind != nil {
			need -= p.Memory().Load - p.TextMemory().Load
		}
		least := need // the text model alone is enough if the encoder has no room
		if blind == nil {
			least -= p.Memory().Load - p.TextMemory().Load
		}
		if err := c.room(b.info.Name, need, least); err != nil {
			return err
		}
		before := info.FreeCMM
		if b.m, err = c.place(ctx, dev, p, false, blind, b.tokenizer, stop, o, pause); err != nil {
			return c.Refused(err)
		}
		if draft != nil {
			if b.draft, err = c.place(ctx, dev, draft, true, nil, b.tokenizer, stop, o, pause); err != nil {
				_ = errors.Join(b.m.heads.close(), c.Unload(b.m.model))
				return c.Refused(err)
			}
			if b.draft.proven.Scatter && b.m.proven.Chunk {
				b.m.drafter = b.draft.drafting()
			}
		}
		b.m.count(func(*Stats) {})
		c.Attach(b.m, 1)
		if err := c.Refresh(); err != nil {
			return err
		}
		// At least the prediction: another process may have freed memory meanwhile.
		b.took = max(before-c.Info().FreeCMM, p.Memory().Card)
		c.ours.Add(b.took)
		return nil
	})
}

// room returns an error if a load that takes at most need bytes does not fit on the card, as it was
// at the last Refresh. With least bytes a part of the package could run.
func (c *Card) room(name string, need, least int64) error {
	info := c.Info()
	//rule:D3 TestNoRoom > 0 && need > info.FreeCMM => < 0
	if info.TotalCMM > 0 && need > info.FreeCMM {
		me := &MemoryError{Name: name, Need: need, Free: info.FreeCMM, Most: c.most(info)}
		//rule:D3 TestNever drop
		me.Never = least > me.Most
		if n, others := c.Foreign(); others {
			me.Foreign = n
		}
		return me
	}
	//rule:D3 TestHostRoom info.TotalMem > 0 && need > info.FreeMem => false
	if info.Host && info.TotalMem > 0 && need > info.FreeMem {
		return &MemoryError{Name: name, Need: need, Free: info.FreeMem, Host: true, Most: info.TotalMem, Never: need > info.TotalMem}
	}
	return nil
}

// Never returns a MemoryError if a model that takes at least this many bytes would not fit even
// without our other models, else nil. It does not wait for the card.
func (c *Card) Never(name string, least int64) error {
	info := c.Info()
	if most := c.most(info); info.TotalCMM > 0 && least > most {
		return &MemoryError{Name: name, Need: least, Free: info.FreeCMM, Most: most, Never: true}
	}
	return nil
}

// most returns the card memory that models can have: all but what other processes and the card
// itself hold. It never counts our own models' memory too low. Otherwise a model that fits after
// others are unloaded could be refused for good.
func (c *Card) most(info axcl.Info) int64 {
	used := info.TotalCMM - info.FreeCMM
	return info.TotalCMM - max(used-c.ours.Load(), 0)
}

// place loads a package's files, then measures and probes it. It loads the encoder only if blind is
// nil. It runs on the worker, and calls pause after each piece.
func (c *Card) place(ctx context.Context, dev axcl.Device, p *models.Package, draft bool, blind error, tok *tokenizer.Tokenizer,
	stop []int32, o OpenOptions, pause func() error) (*lm, error) {
	local, window := windows(p)
	at := Progress{Model: p.Name, Total: len(p.Layers)}
	if p.Head != "" {
		at.Total++
	}
	if o.Name != "" && !draft {
		at.Model = o.Name
	}
	weight := func(file int) (name string, n int64) {
		if file < len(p.Layers) {
			return p.Layers[file], max(p.Facts[file].Weights, 1)
		}
		return p.Head, max(p.Memory().Head, 1)
	}
	largest := int64(0)
	for i := range at.Total {
		_, n := weight(i)
		at.Of += n
		largest = max(largest, n)
	}
	info := c.Info()
	if at.Needs, at.Free = p.Memory().Load, info.FreeCMM; draft || blind != nil {
		at.Needs = p.TextMemory().Load
	}
	if info.TotalCMM == 0 && info.Host {
		at.Free = info.FreeMem
	}
	if o.Progress != nil {
		o.Progress(at)
	}
	start := c.Now()
	if kept, _ := recall(p, info, o); kept == nil && o.Proven == nil {
		//rule:G22 TestLayerInputsUnsound false
		if err := c.checkSharedKV(ctx, dev, p, pause); err != nil {
			return nil, err
		}
	}
	var loader axcl.Loader
	pace := c.Pace(largest)
	if err := pace.File(0, func() (err error) {
		loader, err = dev.Loader(axcl.LoadSpec{Layers: p.Layers, Head: p.Head, Local: local, Timeout: o.Timeout, Slots: slotsFor(p, info),
			Source: p.Sources(), Adapters: adapterLayers(p)})
		return err
	}); err != nil {
		return nil, err
	}
	order := loader.Order()
	paths := make([]string, len(order))
	for i, f := range order {
		paths[i], _ = weight(f)
	}
	reader := ahead.Start(paths)
	defer reader.Stop()
	model, err := c.files(ctx, loader, pace, func(n int) (bytes int64) { _, bytes = weight(order[n]); return bytes },
		func(n int) {
			reader.Done()
			if o.Progress == nil {
				return
			}
			name, bytes := weight(order[n])
			at.File, at.Done, at.Bytes = filepath.Base(name), n+1, at.Bytes+bytes
			at.Elapsed, at.Rates = c.Now()-start, reader.Rates()
			at.Left = time.Duration(float64(at.Elapsed) * float64(at.Of-at.Bytes) / float64(at.Bytes))
			o.Progress(at)
		}, pause)
	if err != nil {
		return nil, err
	}
	m := newLM(c, model, p.Embed, tok, stop, o)
	m.batch.window, m.pause, m.adapters = window, pause, p.Adapters
	if p.PerLayer != nil {
		m.layerInputs = &layerInputRows{from: p.PerLayer}
	}
	m.pictures.blind = blind
	err = m.ready(ctx, dev, p, at.Model, draft, o)
	if m.pause = nil; err != nil {
		_ = errors.Join(m.heads.close(), c.Unload(model))
		return nil, err
	}
	return m, nil
}

// ready measures and probes a model that is on the card. Then it opens the disk tier, the RAM tier
// and the encoder. A draft model has none of these.
func (m *lm) ready(ctx context.Context, dev axcl.Device, p *models.Package, name string, draft bool, o OpenOptions) error {
	if err := m.prover.prove(ctx, p, o); err != nil {
		return err
	}
	if draft {
		return m.canary.learn()
	}
	if err := m.openDisk(mediumOf(o), p.Digest(), name); err != nil {
		return err
	}
	if err := m.canary.learn(); err != nil {
		return err
	}
	if err := m.heads.open(p, o); err != nil {
		return err
	}
	m.listen(p.Digest(), name, o)
	if err := m.openRAM(o.CacheRAM); err != nil || m.pictures.blind != nil {
		return err
	}
	return m.pictures.open(dev, p)
}

// windows reports which layers have a sliding window, and the window's size. It is nil if the cache
// holds no more rows than the window.
func windows(p *models.Package) (local []bool, window int) {
	for i, f := range p.Facts {
		if f.Kind == models.SlidingAttention && f.Window > 0 && f.Window < p.Shape.Cells {
			if local == nil {
				local = make([]bool, len(p.Facts))
			}
			local[i], window = true, f.Window
		}
	}
	return local, window
}

// files loads all files of a model, watched by the watchdog, and calls pause after each. bytes
// returns the size of file n in the loader's order. done is called after each file.
func (c *Card) files(ctx context.Context, l axcl.Loader, pace *card.Pace, bytes func(n int) int64, done func(n int), pause func() error) (
	axcl.Model, error,
) {
	for n := 0; ; n++ {
		size, over := int64(0), false
		if n < len(l.Order()) {
			size = bytes(n)
		}
		err := pace.File(size, func() (err error) {
			over, err = l.Next(ctx)
			return err
		})
		if err == nil && !over && size > 0 {
			done(n)
		}
		if err == nil && !over {
			err = pause()
		}
		switch {
		case err != nil:
			if e := c.Unload(l); e != nil && !errors.Is(e, axcl.ErrClosed) {
				err = errors.Join(err, e)
			}
			return nil, err
		case over:
			return l.Model(), nil
		}
	}
}

// mergeSampling applies a package's own defaults over Ollama's.
func mergeSampling(s models.Sampling) (sampler.Params, error) {
	p := sampler.Defaults()
	for _, f := range []struct {
		to   *float32
		from *float64
	}{{&p.Temperature, s.Temperature}, {&p.TopP, s.TopP}, {&p.MinP, s.MinP}, {&p.RepeatPenalty, s.RepetitionPenalty},
		{&p.FrequencyPenalty, s.FrequencyPenalty}, {&p.PresencePenalty, s.PresencePenalty}} {
		if f.from != nil {
			*f.to = float32(*f.from)
		}
	}
	if s.TopK != nil {
		p.TopK = *s.TopK
	}
	if s.PenaltyWindow != nil {
		p.RepeatLastN = *s.PenaltyWindow
	}
	if err := p.Check(); err != nil {
		return p, fmt.Errorf("the package's sampling defaults: %w", err)
	}
	return p, nil
}
