package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/models"
)

// prove measures what passes cost, and finds out what the card does beyond what every card is known to do.
//
// Each probe sends rows together, or in odd places, that were sent alone and in order before, and compares what the last layer gives. A
// card that treats them wrongly gives what it would for other positions or masks, so each probe also makes those wrong answers on purpose:
// what comes must be much nearer to the right one. That holds whatever the model's own rounding is.
func (m *lm) prove(ctx context.Context, p *models.Package, o OpenOptions) error {
	if o.Proven != nil {
		m.proven = *o.Proven
		if err := m.measure(ctx); err != nil {
			return err
		}
		if m.proven.Narrow {
			if err := m.narrow(p.Name); err != nil {
				return err
			}
		}
		if err := m.remember(nil); err != nil {
			return err
		}
		return m.believe(p, o, nil)
	}
	kept, file := recall(p, m.card.Info(), o)
	if kept != nil && len(kept.Tokens) > 0 {
		if known := models.KnownAnswers(p.Digest()); known != nil && differs(kept.Tokens, known) != nil {
			kept = nil // a card that was wrong said so
		}
	}
	if kept != nil && kept.fits(m) {
		switch sound, err := m.reprove(p.Name, kept); {
		case errors.Is(err, ErrWrong):
			if err := m.believe(p, o, kept.Tokens); err != nil {
				return err
			}
		case err != nil:
			return err
		case sound:
			return m.believe(p, o, kept.Tokens)
		}
		m.proven, m.alike = Proven{}, Alike{} // it is not what it was: all of it is found out again
	}
	if err := m.measure(ctx); err != nil {
		return err
	}
	if err := m.checkGiven(ctx, p.Name); err != nil {
		return err
	}
	if err := m.probe(ctx); err != nil {
		return err
	}
	rows := m.wide
	if file == "" {
		rows = min(rows, fewRows)
	}
	sound, err := m.proveWide(ctx, rows)
	if err != nil {
		return err
	}
	if !sound || m.slots != nil && !m.proven.Chunk {
		m.proven.Chunk, m.proven.Mixed, m.proven.Stepped, m.proven.Narrow = false, false, false, true
	}
	if err := m.compare(ctx); err != nil {
		return err
	}
	if err := m.remember(nil); err != nil {
		return err
	}
	if m.compared == "" {
		if err := m.believe(p, o, nil); err != nil {
			return err
		}
	}
	found := memory{Sound: true, Proven: m.proven, Alike: m.alike, Tokens: m.sample, Groups: slices.Clone(m.costs.group),
		Head: m.costs.head}
	if m.provable() && !m.proven.Narrow {
		if found.Together, err = m.sayTogether(); err != nil {
			return err
		}
	}
	if m.proven.Narrow {
		if err := m.narrow(p.Name); err != nil {
			return err
		}
	}
	if file != "" {
		// What cannot be remembered is found out again.
		if b, err := json.Marshal(found); err == nil && os.MkdirAll(o.Remember, 0o755) == nil {
			_ = os.WriteFile(file, b, 0o644)
		}
	}
	return nil
}

// reprove takes what was found out before, and looks in short whether the card still does it: the fixed text goes through two wide passes
// and a row, which takes about as long as its rows one after the other. It reports whether wide passes are what they were. ErrWrong: rows
// alone are not.
func (m *lm) reprove(name string, kept *memory) (sound bool, err error) {
	m.proven, m.alike, m.costs.head = kept.Proven, kept.Alike, kept.Head
	copy(m.costs.group, kept.Groups)
	switch {
	case m.proven.Narrow:
		if err := m.remember(kept.Tokens); err != nil {
			return true, err
		}
		return true, m.narrow(name)
	case kept.Together == nil:
		return true, m.remember(kept.Tokens)
	}
	got, err := m.sayTogether()
	if err != nil {
		return true, err
	}
	if got.as(kept.Together) {
		m.sample = kept.Tokens
		return true, nil
	}
	return false, m.remember(kept.Tokens)
}

// recall is what was kept of the package on such a card, nil for nothing, and the file that it is kept in, empty for none.
func recall(p *models.Package, info axcl.Info, o OpenOptions) (kept *memory, file string) {
	if o.Remember == "" {
		return nil, ""
	}
	key := sha256.Sum256([]byte(strings.Join([]string{"3", p.Digest(), info.Kind, info.Name, info.Version, info.Firmware}, "\x00")))
	file = filepath.Join(o.Remember, "proven-"+hex.EncodeToString(key[:12])+".json")
	b, err := regular.ReadPath(file, 4<<20)
	if kept = new(memory); err != nil || json.Unmarshal(b, kept) != nil || !kept.Sound {
		return nil, file
	}
	return kept, file
}

// memory is what is kept of a package on a card, so that the next start need not find it out: what was proven, what the card said to a
// fixed text, and what passes cost. Costs are corrected while running anyway.
type memory struct {
	Sound  bool // it passed the checks of lent.go: an empty or older record does not stand for them
	Proven Proven
	Alike  Alike
	Tokens []int32
	Groups []float64
	Head   float64
	// Together is what the card said to the same text in wide passes; nil: it was not asked.
	Together *together
}

func (k *memory) fits(m *lm) bool {
	if len(k.Groups) != len(m.costs.group) || k.Head < 0 || len(k.Tokens) != 0 && len(k.Tokens) != sampleLen ||
		k.Together != nil && !m.provable() {
		return false
	}
	for _, c := range k.Groups {
		if !(c > 0) {
			return false
		}
	}
	return true
}

// sampleLen is the length of that text, and of what is compared.
const sampleLen = 8

// ErrWrong is a card that computes something else than it did before, without an error.
var ErrWrong = errors.New("engine: the card gives other answers than it did")

// remember takes the card's answers to a fixed text, and holds them against want where that is known. It must run where no sequence does.
func (m *lm) remember(want []int32) (err error) {
	if !m.speaks() || m.shape.Cells < 2*sampleLen {
		return nil
	}
	m.sample, err = m.say()
	if err != nil || want == nil {
		return err
	}
	return differs(m.sample, want)
}

// speaks is false for an embedding model.
func (m *lm) speaks() bool { return m.shape.Out >= m.vocab() }

// differs allows for a near tie that another place in the cache rounds otherwise.
func differs(got, want []int32) error {
	wrong := 0
	for i := range got {
		if i >= len(want) || got[i] != want[i] {
			wrong++
		}
	}
	if wrong > sampleLen/4 {
		return fmt.Errorf("%w: %d of %d tokens of a fixed text differ", ErrWrong, wrong, sampleLen)
	}
	return nil
}

// say runs the fixed text row by row on free cells and gives the largest logit's index after each row.
func (m *lm) say() ([]int32, error) {
	rows, ok := m.cells.take(nil, sampleLen, 0, false)
	if !ok {
		return nil, errNoCells
	}
	defer func() {
		for _, n := range rows {
			m.cells.give(n)
		}
	}()
	slot, back, ok := m.scratch()
	if !ok {
		return nil, errNoCells
	}
	defer back()
	out := make([]int32, sampleLen)
	cw := axcl.Words(m.shape.Cells)
	see := make([]uint64, cw)
	for i := range out {
		id := m.sampleID(i)
		p := &axcl.Pass{Hidden: make([]uint16, m.shape.Hidden), Given: make([]uint16, m.besides()), Pos: make([]uint32, m.shape.Pos),
			Cell:     []uint32{uint32(rows[i])},
			SeeCells: see, SeeRows: make([]uint64, 1),
			Want: []int{0}, Logits: make([]uint16, m.shape.Out), Argmax: out[i : i+1]}
		if err := m.tokenRow(p, 0, id); err != nil {
			return nil, err
		}
		for k := range p.Pos {
			p.Pos[k] = uint32(i)
		}
		if m.sequent(p, slot, slot); i == 0 {
			p.From = 0
		}
		if err := m.card.run(m.model, p, m.costs.predict(m.shape.GroupFor(1, p.Reach(m.shape)), 1)); err != nil {
			return nil, err
		}
		if _, err := m.checker.Sample(p.Logits, nil); err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
		see[rows[i]/64] |= 1 << (rows[i] % 64)
	}
	return out, nil
}

// againAfter is how soon a checkup that could not be made is tried again: three such, and the card is lost.
const againAfter = 20 * time.Second

// checkup looks, when nothing runs, whether the card still says what it said at load. The error is one that the card does not survive.
func (m *lm) checkup() error {
	m.checked = m.card.now()
	if m.sample == nil || len(m.running) > 0 {
		return nil
	}
	if !m.proven.Scatter {
		m.cells.forget() // such a card is right about its first cells only, and those are a cache of what ran last
	}
	asked, err := m.known()
	if !asked {
		m.checked += min(againAfter-m.card.o.Check, 0)
	}
	return err
}

// trial is a row of a probe: a token at a position, kept in a cell, seeing cells and earlier rows.
type trial struct {
	id    int32
	pos   uint32
	cell  uint32
	cells []uint32
	rows  []int

	from, to uint32 // of the first row: the states of a model that keeps them
}

// try sends the rows in one pass and gives each row's output of the last layer; a whole decoder's logits, as nothing else comes out of it.
func (m *lm) try(rows ...trial) ([][]uint16, error) {
	p, results, err := m.trialPass(rows...)
	if err != nil {
		return nil, err
	}
	return m.tried(p, *results)
}

// tried runs such a pass and cuts its results into rows.
func (m *lm) tried(p *axcl.Pass, results []uint16) ([][]uint16, error) {
	if err := m.card.run(m.model, p, time.Minute); err != nil {
		return nil, err
	}
	out, width := make([][]uint16, p.Rows()), m.telling()
	for r := range out {
		out[r] = results[r*width : (r+1)*width]
	}
	return out, nil
}

// trialPass is the pass of such rows, and where it will leave what they give.
func (m *lm) trialPass(rows ...trial) (*axcl.Pass, *[]uint16, error) {
	n, h := len(rows), m.shape.Hidden
	cw, rw := axcl.Words(m.shape.Cells), axcl.Words(n)
	p := &axcl.Pass{Hidden: make([]uint16, n*h), Given: make([]uint16, n*m.besides()), Pos: make([]uint32, n*m.shape.Pos),
		Cell:     make([]uint32, n),
		SeeCells: make([]uint64, n*cw), SeeRows: make([]uint64, n*rw)}
	results, width := &p.HiddenOut, m.telling()
	if m.shape.Whole {
		results = &p.Logits
		for r := range n {
			p.Want = append(p.Want, r)
		}
	}
	*results = make([]uint16, n*width)
	for r, t := range rows {
		if err := m.tokenRow(p, r, t.id); err != nil {
			return nil, nil, err
		}
		for k := range m.shape.Pos {
			p.Pos[r*m.shape.Pos+k] = t.pos
		}
		p.Cell[r] = t.cell
		for _, c := range t.cells {
			p.SeeCells[r*cw+int(c)/64] |= 1 << (c % 64)
		}
		for _, e := range t.rows {
			p.SeeRows[r*rw+e/64] |= 1 << (e % 64)
		}
	}
	p.From, p.To, p.Single = rows[0].from, rows[0].to, m.proven.Stepped
	return p, results, nil
}

// shortRows is how many rows of at most so many go in a call that is not full; two, where every call of two is.
func (m *lm) shortRows(most int) int { return min(most, max(m.minWide-1, 2)) }

// telling is how many values of a row say what the card made of it: a whole decoder gives its logits and no more.
func (m *lm) telling() int {
	if m.shape.Whole {
		return m.shape.Out
	}
	return m.shape.Hidden
}

// sampleID is token i of the fixed text.
func (m *lm) sampleID(i int) int32 { return int32((i*131 + 7) % m.vocab()) }

// same reports whether got is right's value and none of the wrong ones, as far as they differ at all.
func same(right, got []uint16, wrong ...[]uint16) bool { return within(0.1, 0, right, got, wrong...) }

// within is same with another limit; wrong values do not bring it below least.
func within(limit, least float64, right, got []uint16, wrong ...[]uint16) bool {
	d := distance(right, got)
	if math.IsNaN(d) {
		return false
	}
	for _, w := range wrong {
		if away := distance(right, w); away > 1e-6 {
			limit = min(limit, max(away/2, least))
		}
	}
	return d <= limit
}

// probe runs the probes.
func (m *lm) probe(ctx context.Context) error {
	const a, b = 4, 3 // rows of two short texts
	if m.slots != nil {
		return m.probeStates(ctx)
	}
	if m.shape.Cells < 24 {
		return nil
	}
	id := func(i int) int32 { return int32((i*37 + 3) % m.vocab()) }
	cells := func(lo, n int) (c []uint32) {
		for i := range n {
			c = append(c, uint32(lo+i))
		}
		return c
	}
	var errs error
	one := func(t trial) []uint16 {
		if errs == nil {
			errs = ctx.Err()
		}
		if errs != nil {
			return make([]uint16, m.telling())
		}
		out, err := m.try(t)
		if err != nil {
			errs = err
			return make([]uint16, m.telling())
		}
		return out[0]
	}
	// The right answers: each text alone, in cells 0, 1, 2 …, one row a pass. The second text's positions are far from the first's.
	const far = 9
	var rightA, rightB [][]uint16
	for i := range a {
		rightA = append(rightA, one(trial{id: id(i), pos: uint32(i), cell: uint32(i), cells: cells(0, i)}))
	}
	// Wrong answers: the last row blind, and at another place.
	blind := one(trial{id: id(a - 1), pos: a - 1, cell: 20})
	shifted := one(trial{id: id(a - 1), pos: 0, cell: 20, cells: cells(0, a-1)})
	// The second text comes after it, into the same cells: whoever finds the first text's rows where they were has found too much.
	for i := range b {
		rightB = append(rightB, one(trial{id: id(10 + i), pos: uint32(far + i), cell: uint32(i), cells: cells(0, i)}))
	}
	if errs != nil {
		return errs
	}

	// Scatter: the first text in cells that are out of order.
	odd := []uint32{17, 6, 12, 3}
	var got [][]uint16
	for i := range a {
		got = append(got, one(trial{id: id(i), pos: uint32(i), cell: odd[i], cells: odd[:i]}))
	}
	m.proven.Scatter = same(rightA[a-1], got[a-1], blind, shifted)

	if m.wide == 0 || errs != nil {
		return errs
	}
	// Chunk: the first text in one short call.
	c := m.shortRows(a)
	chunk := make([]trial, c)
	for i := range chunk {
		chunk[i] = trial{id: id(i), pos: uint32(i), cell: uint32(i)}
		for e := range i {
			chunk[i].rows = append(chunk[i].rows, e)
		}
	}
	out, err := m.try(chunk...)
	if err != nil {
		return err
	}
	m.proven.Chunk = true
	for i := range chunk {
		m.proven.Chunk = m.proven.Chunk && same(rightA[i], out[i], rightA[(i+1)%a], blind)
	}
	// And what it kept must serve a later row.
	next := min(c, a-1)
	if next < a-1 {
		blind = one(trial{id: id(next), pos: uint32(next), cell: 20})
		shifted = one(trial{id: id(next), pos: 0, cell: 20, cells: cells(0, next)})
	}
	after := one(trial{id: id(next), pos: uint32(next), cell: 20, cells: cells(0, next)})
	m.proven.Chunk = m.proven.Chunk && same(rightA[next], after, blind, shifted)
	if errs != nil || !m.proven.Chunk || !m.proven.Scatter {
		return errs // rows of several texts have cells of others between their own
	}

	// Mixed: both texts in one call, either first. Each row is held against what it would be at the first row's position or with the
	// other text in view.
	m.proven.Mixed = true
	mixedA, mixedB := a, b
	if m.wide < a+b {
		mixedA, mixedB = (m.wide+1)/2, m.wide/2
	}
	for _, swap := range []bool{false, true} {
		var rows []trial
		var right [][]uint16
		add := func(n, base, pos int, want [][]uint16) {
			start := len(rows)
			for i := range n {
				t := trial{id: id(base + i), pos: uint32(pos + i), cell: uint32(len(rows))}
				for e := range i {
					t.rows = append(t.rows, start+e)
				}
				rows, right = append(rows, t), append(right, want[i])
			}
		}
		if swap {
			add(mixedB, 10, far, rightB)
			add(mixedA, 0, 0, rightA)
		} else {
			add(mixedA, 0, 0, rightA)
			add(mixedB, 10, far, rightB)
		}
		out, err := m.try(rows...)
		if err != nil {
			return err
		}
		for r := range rows {
			// The wrong answers cost a pass each: only for the last row of the second text.
			if r != len(rows)-1 {
				m.proven.Mixed = m.proven.Mixed && same(right[r], out[r])
				continue
			}
			w := rows[r]
			all := cells(0, r)
			mixedUp := one(trial{id: w.id, pos: w.pos, cell: 20, cells: all})
			misplaced := one(trial{id: w.id, pos: rows[0].pos + uint32(r), cell: 20, cells: all[len(all)-len(w.rows):]})
			m.proven.Mixed = m.proven.Mixed && errs == nil && same(right[r], out[r], mixedUp, misplaced)
		}
	}
	if errs != nil || !m.proven.Mixed || m.wideReach < 20 {
		return errs
	}
	// The same with cells in view: the last rows of both texts, the texts lying apart.
	for i := range b {
		one(trial{id: id(10 + i), pos: uint32(far + i), cell: uint32(8 + i), cells: cells(8, i)})
	}
	for i := range a {
		one(trial{id: id(i), pos: uint32(i), cell: uint32(i), cells: cells(0, i)})
	}
	if errs != nil {
		return errs
	}
	lastA := trial{id: id(a - 1), pos: a - 1, cell: 18, cells: cells(0, a-1)}
	lastB := trial{id: id(10 + b - 1), pos: far + b - 1, cell: 19, cells: cells(8, b-1)}
	blind = one(trial{id: lastA.id, pos: lastA.pos, cell: 20})
	shifted = one(trial{id: lastA.id, pos: 0, cell: 20, cells: lastA.cells})
	blindB := one(trial{id: lastB.id, pos: lastB.pos, cell: 20})
	if errs != nil {
		return errs
	}
	for _, pair := range [][2]trial{{lastA, lastB}, {lastB, lastA}} {
		out, err := m.try(pair[0], pair[1])
		if err != nil {
			return err
		}
		for r, t := range pair {
			if t.id == lastA.id {
				m.proven.Mixed = m.proven.Mixed && same(rightA[a-1], out[r], blind, shifted)
			} else {
				m.proven.Mixed = m.proven.Mixed && same(rightB[b-1], out[r], blindB)
			}
		}
	}
	return errs
}

// measure runs each shape group once, on cells that nobody uses yet.
func (m *lm) measure(ctx context.Context) error {
	budget := m.card.now() + 5*time.Second
	for g, group := range m.shape.Groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		if m.card.now() > budget {
			// An unmeasured group is taken to cost what its rows and reach suggest, until it has run.
			m.costs.group[g] = m.guess(g)
			continue
		}
		rows := group.Rows
		pass := m.blank(rows, group)
		t0 := m.card.now()
		if err := m.card.run(m.model, pass, time.Minute); err != nil {
			return err
		}
		m.costs.group[g] = max((m.card.now() - t0).Seconds(), 1e-6)
		if g == m.decode && m.shape.Out > 0 {
			pass.Want = []int{0}
			pass.Argmax = make([]int32, 1)
			t0 = m.card.now()
			if err := m.card.run(m.model, pass, time.Minute); err != nil {
				return err
			}
			m.costs.head = max((m.card.now()-t0).Seconds()-m.costs.group[g], 1e-7)
		}
	}
	return nil
}

// guess scales a measured group of as many rows, or the decode group.
func (m *lm) guess(g int) float64 {
	best := m.costs.group[m.decode]
	for i, c := range m.costs.group {
		if c > 0 && m.shape.Groups[i].Rows == m.shape.Groups[g].Rows {
			best = c
		}
	}
	return max(best, 1e-6)
}

// blank is a pass of rows that see as far as the group reaches, without meaning.
func (m *lm) blank(rows int, g axcl.Group) *axcl.Pass {
	p := &axcl.Pass{Hidden: make([]uint16, rows*m.shape.Hidden), Given: make([]uint16, rows*m.besides()),
		Pos: make([]uint32, rows*m.shape.Pos), Cell: make([]uint32, rows),
		SeeCells: make([]uint64, rows*axcl.Words(m.shape.Cells)), SeeRows: make([]uint64, rows*axcl.Words(rows))}
	// One visible cell chooses the group; the rows go elsewhere.
	top, first := min(g.Cells, m.shape.Cells)-1, 0
	if top >= 0 && top+1+rows <= m.shape.Cells {
		first = top + 1
	}
	for r := range rows {
		p.Cell[r] = uint32(first + r)
		_ = m.tokenRow(p, r, int32(r%2))
		if top >= 0 && (first > top || top >= rows) {
			p.SeeCells[r*axcl.Words(m.shape.Cells)+top/64] |= 1 << (top % 64)
		}
	}
	from := uint32(0)
	if p.Reach(m.shape) > 0 {
		from = 1
	}
	m.sequent(p, from, 1)
	return p
}

// distance is how far apart two outputs are, relative to the first.
func distance(a, b []uint16) float64 {
	var d, n float64
	for i := range a {
		x, y := float64(axcl.Float32(a[i])), float64(axcl.Float32(b[i]))
		d += (x - y) * (x - y)
		n += x * x
	}
	if n == 0 {
		return d
	}
	return math.Sqrt(d / n)
}
