package engine

import (
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/cache"
	"github.com/axle-llm/axle/tokenizer"
)

// core is what the parts of a language model on a card share: the card, the cache, what things take, and who waits and runs. Each part
// (layout, tier, keeper, canary, prover, batch, planner, eyes) has a core and the parts below it; none has the model, lm, that has them all.
type core struct {
	card      *Card
	model     axcl.Model
	embed     rowSource
	given     *givenRows           // nil: layers are given nothing else
	tokenizer *tokenizer.Tokenizer // nil: texts are ids
	pause     func() error         // while it is loaded: see breathe
	trace     *tracer              // nil: passes are not traced
	prices

	cells   *cache.Tree
	cache   cache.Cache
	limits  cache.Limits // of cache
	mover   cache.Mover
	ram     *cache.RAM // nil: rows are on the card or nowhere
	drafter *drafter   // nil: no draft model

	queue   queue
	running []*seq
	ledger  ledger
	counted time.Duration // when cells were last counted
}

func newCore(card *Card, model axcl.Model, embed rowSource, tok *tokenizer.Tokenizer, o OpenOptions) *core {
	m := &core{card: card, model: model, prices: prices{shape: model.Shape()}, embed: embed, tokenizer: tok,
		queue: queue{open: map[*seq]struct{}{}, most: o.MaxQueue}}
	m.shape.Pos = max(m.shape.Pos, 1)
	if m.queue.most <= 0 {
		m.queue.most = 512
	}
	m.cells = cache.New(m.shape.Cells, reaches(m.shape.Groups)...)
	m.cache = m.cells.Cache(m.shape.Slots)
	m.limits = m.cache.Limits()
	m.mover = cache.Mover{Watched: card.watched, Strike: card.strike, Clear: m.clear, Now: card.now}
	m.costs.group = make([]float64, len(m.shape.Groups))
	m.groups()
	m.queue.stats = Stats{State: "ready", Passes: map[string]uint64{}}
	m.queue.stats.Slots, _, _ = m.cache.Slots()
	return m
}
