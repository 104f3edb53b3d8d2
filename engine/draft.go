package engine

import (
	"errors"
	"slices"

	"github.com/axle-llm/axle/engine/cache"
)

// drafter guesses with a second, smaller model on the same card. It keeps a shadow of each sequence: the same ids in cells of the draft
// model. Its guesses are its most likely tokens, so they are verified like any others: by drawing and comparing, which leaves the output
// what it would have been. All of it belongs to the card's worker.
type drafter struct {
	m *lm // of the draft model: cells, costs, passes; its queue is not used
}

// peekEvery is how often a draft model that does not pay is asked all the same, to learn whether it would.
const peekEvery = 48

// cost is what one guess for each of n sequences takes that see this many cells at the most.
func (d *drafter) cost(n, reach int) float64 {
	c := d.m.costs
	reach = min(reach, d.m.shape.Cells)
	alone := float64(n) * d.m.lone(reach)
	if g := d.m.shape.GroupFor(n, reach); n > 1 && d.m.proven.Mixed && g >= 0 {
		alone = min(alone, c.group[g])
	}
	return alone + float64(n)*c.head
}

// follow brings the sequence's shadow to its ids: rows of a text that went another way are left, for the cache.
func (d *drafter) follow(s *seq) *seq {
	sh := s.shadow
	if sh == nil {
		sh = &seq{ctx: s.ctx, Seq: cache.NewSeq(s.Key, d.m.shape.Cells, d.m.shape.Local),
			job: Job{Key: s.job.Key, Limit: -1, NumCtx: d.m.shape.Cells}, greedy: true}
		sh.usage.Output = 1 // its logits need no check: a wrong guess costs time only
		s.shadow = sh
	}
	sh.admit = s.admit
	same := 0
	for same < len(sh.ids) && same < len(s.ids) && sh.ids[same] == s.ids[same] {
		same++
	}
	sh.ids = append(sh.ids[:same], s.ids[same:]...)
	if keep := min(same, len(s.ids)-1); len(sh.Path) > keep {
		d.m.cells.Stand(&sh.Seq, slices.Clone(sh.Path[:keep]))
	}
	if len(sh.Path) == 0 {
		d.m.start(sh)
	}
	return sh
}

// guess appends up to n[i] guesses to seqs[i].spec.draft. A sequence whose shadow is far behind gets none yet, but a pass of catching up.
// It reports false when the draft model failed; then it is not asked again.
func (d *drafter) guess(seqs []*seq, n []int) bool {
	for _, s := range seqs {
		d.follow(s)
	}
	for round := 0; ; round++ {
		tr := d.m.begin()
		d.m.batch.shares = d.m.batch.shares[:0]
		room := max(d.m.wide, 1)
		if !d.m.proven.Mixed {
			room = 1
		}
		for i, s := range seqs {
			if len(s.spec.draft) >= n[i] || len(s.ids)+len(s.spec.draft) >= d.m.shape.Cells-1 || room == 0 {
				continue
			}
			sh := s.shadow
			rows := sh.pending()
			if rows < 1 || round > 0 && rows > 1 {
				continue // still catching up
			}
			if d.m.wide == 0 || !d.m.proven.Chunk || sh.Reach() > d.m.wideReach || !d.m.proven.Mixed && rows == 1 {
				if len(d.m.batch.shares) > 0 {
					continue
				}
				d.m.batch.shares = append(d.m.batch.shares, share{s: sh, from: len(sh.Path), n: 1})
				room = 0
				continue
			}
			if len(d.m.batch.shares) > 0 || d.m.proven.Mixed {
				rows = min(rows, room)
			} else {
				rows = min(rows, d.m.wide)
			}
			d.m.batch.shares = append(d.m.batch.shares, share{s: sh, from: len(sh.Path), n: rows})
			room = max(room-rows, 0)
		}
		if len(d.m.batch.shares) == 0 {
			return true
		}
		tr.lap(planTime)
		if err := d.m.batch.build(); errors.Is(err, errNoCells) {
			for _, s := range seqs {
				d.leave(s) // their rows stay as a cache until they are needed, which is now
			}
			return true
		} else if err != nil {
			return false
		}
		g := d.m.shape.GroupFor(d.m.batch.pass.Rows(), d.m.batch.pass.Reach(d.m.shape))
		tr.lap(buildTime)
		tr.describe(d.m, g)
		t0 := d.m.card.now()
		if err := d.m.card.run(d.m.model, &d.m.batch.pass, d.m.costs.predict(g, len(d.m.batch.pass.Want))); err != nil {
			d.m.batch.giveBack()
			return false
		}
		d.m.batch.passes++
		d.m.costs.observe(g, len(d.m.batch.pass.Want), d.m.batch.pass.Cell, d.m.card.now()-t0)
		tr.lap(runTime)
		for i := range d.m.batch.shares {
			h := &d.m.batch.shares[i]
			for j := range h.n {
				d.m.cells.Commit(&h.s.Seq, d.m.batch.taken[h.row+j], h.s.ids[h.from+j])
			}
			if h.want < 0 {
				continue
			}
			id := d.m.batch.pass.Argmax[h.want]
			if id < 0 || int(id) >= d.m.shape.Out {
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
		tr.report(d.m, "draft")
	}
}

// leave gives up the sequence's shadow.
func (d *drafter) leave(s *seq) {
	if s.shadow != nil {
		d.m.leave(s.shadow)
		s.shadow = nil
	}
}
