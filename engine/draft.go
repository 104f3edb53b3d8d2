package engine

import (
	"errors"
	"slices"

	"github.com/axle-llm/axle/engine/cache"
)

// drafter guesses with a second, smaller model on the same card. It keeps a shadow of each
// sequence: the same ids in cells of the draft model. Its guesses are its most likely tokens. They
// are verified like all guesses, by drawing a token and comparing, so the output stays the same.
// All of it belongs to the card's worker.
type drafter struct {
	*core  // the draft model's core; its queue is not used
	layout *layout
	batch  *batch
}

// drafting returns the model as a draft model of another.
func (m *lm) drafting() *drafter { return &drafter{core: m.core, layout: m.layout, batch: m.batch} }

// peekEvery is how often a draft model that does not pay is asked anyway, to learn whether it
// would.
const peekEvery = 48

// cost returns the time of one guess for each of n sequences that see at most this many cells.
func (d *drafter) cost(n, reach int) float64 {
	c := d.costs
	reach = min(reach, d.shape.Cells)
	alone := float64(n) * d.lone(reach)
	if g := d.shape.GroupFor(n, reach); n > 1 && d.proven.Mixed && g >= 0 {
		alone = min(alone, c.group[g])
	}
	return alone + float64(n)*c.head
}

// follow updates the sequence's shadow to its ids. Rows of a text that went another way stay as a
// cache.
func (d *drafter) follow(s *seq) *seq {
	sh := s.shadow
	if sh == nil {
		sh = &seq{answer: answer{ctx: s.ctx}, Seq: cache.NewSeq(s.Key, d.shape.Cells, d.shape.Local),
			job: Job{Key: s.job.Key, Limit: -1, NumCtx: d.shape.Cells}, greedy: true}
		sh.usage.Output = 1 // its logits need no check: a wrong guess costs only time
		s.shadow = sh
	}
	sh.admit = s.admit
	same := 0
	for same < len(sh.ids) && same < len(s.ids) && sh.ids[same] == s.ids[same] {
		same++
	}
	sh.ids = append(sh.ids[:same], s.ids[same:]...)
	if keep := min(same, len(s.ids)-1); len(sh.Path) > keep {
		d.cells.Stand(&sh.Seq, slices.Clone(sh.Path[:keep]))
	}
	if len(sh.Path) == 0 {
		d.layout.start(sh)
	}
	return sh
}

// guess appends up to n[i] guesses to seqs[i].spec.draft. A sequence whose shadow is far behind
// gets no guess yet, but a pass to catch up. guess returns false if the draft model failed, which
// is then not asked again.
func (d *drafter) guess(seqs []*seq, n []int) bool {
	for _, s := range seqs {
		d.follow(s)
	}
	for round := 0; ; round++ {
		tr := d.begin()
		d.share(seqs, n, round)
		if len(d.batch.shares) == 0 {
			return true
		}
		tr.lap(planTime)
		if err := d.batch.build(); errors.Is(err, errNoCells) {
			for _, s := range seqs {
				d.leave(s) // their rows become a cache, whose cells can be used
			}
			return true
		} else if err != nil {
			return false
		}
		g := d.shape.GroupFor(d.batch.pass.Rows(), d.batch.pass.Reach(d.shape))
		tr.lap(buildTime)
		tr.describe(d.batch, g)
		t0 := d.card.Now()
		if err := d.card.Run(d.model, &d.batch.pass, d.costs.predict(g, len(d.batch.pass.Want))); err != nil {
			d.batch.giveBack()
			return false
		}
		d.batch.passes++
		d.costs.observe(g, len(d.batch.pass.Want), d.batch.pass.Cell, d.card.Now()-t0)
		tr.lap(runTime)
		for i := range d.batch.shares {
			h := &d.batch.shares[i]
			for j := range h.n {
				d.cells.Commit(&h.s.Seq, d.batch.taken[h.row+j], h.s.ids[h.from+j])
			}
			if h.want < 0 {
				continue
			}
			id := d.batch.pass.Argmax[h.want]
			if id < 0 || int(id) >= d.shape.Out {
				return false
			}
			h.s.ids = append(h.s.ids, id)
			for _, s := range seqs {
				if s.shadow == h.s {
					s.spec.draft = append(s.spec.draft, id)
				}
			}
		}
		tr.lap(sampleTime)
		tr.report(d.core, "draft")
	}
}

// share gives the shadows that still need guesses their shares of the next pass. After the first
// round, shadows that are behind wait for a later call to catch up.
func (d *drafter) share(seqs []*seq, n []int, round int) {
	d.batch.shares = d.batch.shares[:0]
	room := max(d.wide, 1)
	if !d.proven.Mixed {
		room = 1
	}
	for i, s := range seqs {
		if len(s.spec.draft) >= n[i] || len(s.ids)+len(s.spec.draft) >= d.shape.Cells-1 || room == 0 {
			continue
		}
		sh := s.shadow
		rows := sh.pending()
		if rows < 1 || round > 0 && rows > 1 {
			continue
		}
		if d.wide == 0 || !d.proven.Chunk || sh.Reach() > d.wideReach || !d.proven.Mixed && rows == 1 {
			if len(d.batch.shares) > 0 {
				continue
			}
			d.batch.shares = append(d.batch.shares, share{s: sh, from: len(sh.Path), n: 1})
			room = 0
			continue
		}
		if len(d.batch.shares) > 0 || d.proven.Mixed {
			rows = min(rows, room)
		} else {
			rows = min(rows, d.wide)
		}
		d.batch.shares = append(d.batch.shares, share{s: sh, from: len(sh.Path), n: rows})
		room = max(room-rows, 0)
	}
}

// leave gives up the sequence's shadow.
func (d *drafter) leave(s *seq) {
	if s.shadow != nil {
		d.core.leave(s.shadow)
		s.shadow = nil
	}
}
