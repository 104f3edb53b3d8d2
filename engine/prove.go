package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/prove"
	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/models"
)

// prover finds out, at load, what the card can do and what passes cost.
type prover struct {
	*core
	canary   *canary
	alike    Alike
	compared Compared // what the card's answers to a fixed text were compared with
}

// prove measures the cost of passes, and finds out what the card can do beyond what every card can:
// see package prove.
func (m *prover) prove(ctx context.Context, p *models.Package, o OpenOptions) error {
	if o.Proven != nil {
		return m.assume(ctx, p, o)
	}
	kept, file := recall(p, m.card.Info(), o)
	if kept != nil && len(kept.Tokens) > 0 {
		if known := models.KnownAnswers(p.Digest()); known != nil && differs(kept.Tokens, known) != nil {
			kept = nil // it was recorded while the card was wrong
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
		m.proven, m.alike = Proven{}, Alike{} // the card has changed: everything is tested again
	}
	return m.findOut(ctx, p, o, file)
}

// assume takes the card's abilities from the options, and measures the rest.
func (m *prover) assume(ctx context.Context, p *models.Package, o OpenOptions) error {
	m.proven = *o.Proven
	if err := m.measure(ctx); err != nil {
		return err
	}
	if m.proven.Narrow {
		if err := m.narrow(p.Name); err != nil {
			return err
		}
	}
	if err := m.canary.remember(nil); err != nil {
		return err
	}
	return m.believe(p, o, nil)
}

// findOut measures and tests everything, and writes the results to file, if there is one.
func (m *prover) findOut(ctx context.Context, p *models.Package, o OpenOptions, file string) error {
	if err := m.measure(ctx); err != nil {
		return err
	}
	//rule:G22 TestLayerInputsUnsound false
	if err := m.checkLayerInputs(ctx, p.Name); err != nil {
		return err
	}
	var err error
	if m.proven, err = m.trials().Abilities(ctx); err != nil {
		return err
	}
	rows := m.wide
	if file == "" {
		rows = min(rows, fewRows)
	}
	sound, err := m.trials().Wide(ctx, rows)
	if err != nil {
		return err
	}
	//rule:G23 TestWideProven !sound || !m.limits.Together && !m.proven.Chunk => sound && false
	if !sound || !m.limits.Together && !m.proven.Chunk {
		m.proven.Chunk, m.proven.Mixed, m.proven.Stepped, m.proven.Narrow = false, false, false, true
	}
	if m.alike, err = m.trials().Alike(ctx, m.proven); err != nil {
		return err
	}
	if err := m.canary.remember(nil); err != nil {
		return err
	}
	if m.compared == "" {
		if err := m.believe(p, o, nil); err != nil {
			return err
		}
	}
	found := memory{Sound: true, Proven: m.proven, Alike: m.alike, Tokens: m.canary.sample, Groups: slices.Clone(m.costs.group),
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
		// If it cannot be written, the next load tests again.
		if b, err := json.Marshal(found); err == nil && os.MkdirAll(o.Remember, 0o755) == nil {
			_ = os.WriteFile(file, b, 0o644)
		}
	}
	return nil
}

// reprove takes the results of an earlier load, and briefly tests whether they still hold. The
// fixed text goes through two wide passes and a row, which takes about as long as its rows one by
// one. sound says that wide passes still give the same results. ErrWrong means that single rows do
// not.
func (m *prover) reprove(name string, kept *memory) (sound bool, err error) {
	m.proven, m.alike, m.costs.head = kept.Proven, kept.Alike, kept.Head
	copy(m.costs.group, kept.Groups)
	switch {
	case m.proven.Narrow:
		if err := m.canary.remember(kept.Tokens); err != nil {
			return true, err
		}
		return true, m.narrow(name)
	case kept.Together == nil:
		return true, m.canary.remember(kept.Tokens)
	}
	got, err := m.sayTogether()
	if err != nil {
		return true, err
	}
	//rule:G23 TestWideShortProof got.as(kept.Together) => got != nil
	if got.as(kept.Together) {
		m.canary.sample = kept.Tokens
		return true, nil
	}
	return false, m.canary.remember(kept.Tokens)
}

// recall returns what was recorded of the package on such a card, or nil, and the record's file, or
// an empty string.
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

// memory is the record of a package on a card, so that the next load need not test everything: what
// was proven, the card's answer to a fixed text, and the cost of passes. The costs are corrected
// while passes run.
type memory struct {
	Sound  bool // it passed the checks of sharedkv.go; false in an empty or older record
	Proven Proven
	Alike  Alike
	Tokens []int32
	Groups []float64
	Head   float64
	// Together is the card's answer to the same text in wide passes; nil: not asked.
	Together *together
}

func (k *memory) fits(m *prover) bool {
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

// sampleLen is the length of the fixed text, and of the answer.
const sampleLen = 8

// ErrWrong means that a card computes something else than before, without an error.
var ErrWrong = prove.ErrWrong

// Proven says what a model on this card was shown to do, beyond what every card does. Only what was
// shown is used.
type Proven = prove.Proven

// Alike says whether the same rows gave the same bits in other cells when the package first ran on
// the card.
type Alike = prove.Alike

// remember records the card's answer to the fixed text, and compares it with want unless that is
// nil. It must run while no sequence does.
func (m *canary) remember(want []int32) (err error) {
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
func (m *canary) speaks() bool { return m.shape.Out >= m.vocab() }

// differs returns an error if got differs from want in more than a quarter of the tokens. A near
// tie may be rounded differently in another place of the cache.
func differs(got, want []int32) error {
	wrong := 0
	for i := range got {
		if i >= len(want) || got[i] != want[i] {
			wrong++
		}
	}
	//rule:D6 TestCheckup|TestRemembered /4 =>
	if wrong > sampleLen/4 {
		return fmt.Errorf("%w: %d of %d tokens of a fixed text differ", ErrWrong, wrong, sampleLen)
	}
	return nil
}

// say runs the fixed text row by row on free cells, and returns the index of the largest logit
// after each row.
func (m *canary) say() ([]int32, error) {
	rows, ok := m.cells.Take(nil, sampleLen, 0, false)
	if !ok {
		return nil, errNoCells
	}
	defer m.cells.Give(rows...)
	slot, back, ok := m.scratch()
	if !ok {
		return nil, errNoCells
	}
	defer back()
	out, see := make([]int32, sampleLen), []uint32(nil)
	for i := range out {
		row := prove.Row{ID: m.sampleID(i), Pos: uint32(i), Cell: uint32(rows[i]), Cells: see, To: slot}
		if i > 0 {
			row.From = slot
		}
		p, _, err := m.trials().Pass(row)
		if err != nil {
			return nil, err
		}
		p.HiddenOut, p.Want, p.Logits, p.Argmax = nil, []int{0}, make([]uint16, m.shape.Out), out[i:i+1]
		if err := m.breathe(); err != nil {
			return nil, err
		}
		if err := m.card.Run(m.model, p, m.costs.predict(m.shape.GroupFor(1, p.Reach(m.shape)), 1)); err != nil {
			return nil, err
		}
		if _, err := m.checker.Sample(p.Logits, nil); err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
		see = append(see, row.Cell)
	}
	return out, nil
}

// againAfter is how soon a checkup that could not run is repeated. After three of these the card is
// lost.
const againAfter = 20 * time.Second

// Checkup tests, while nothing runs, whether the card still gives the answer that it gave at load.
// An error means that the card is lost.
func (m *lm) Checkup() error {
	m.canary.checked = m.card.Now()
	if m.canary.sample == nil || len(m.running) > 0 {
		return nil
	}
	if !m.proven.Scatter {
		//rule:D6 TestCheckupInOrder drop
		m.cells.Forget() // such a card is right only in its first cells, which cache the last sequence
	}
	asked, err := m.canary.check()
	if !asked {
		m.canary.checked += min(againAfter-m.card.o.Check, 0)
	}
	return err
}

// trials returns the model as the probes use it, with what was proven so far.
func (m *core) trials() *prove.Model {
	t := &prove.Model{Shape: m.shape, Vocab: m.vocab(), Row: m.tokenRow, Stepped: m.proven.Stepped,
		Run: func(p *axcl.Pass) error {
			if err := m.breathe(); err != nil {
				return err
			}
			return m.card.Run(m.model, p, time.Minute)
		}}
	t.Slots, _, _ = m.cache.Slots()
	return t
}

// sampleID returns token i of the fixed text.
func (m *canary) sampleID(i int) int32 { return int32((i*131 + 7) % m.vocab()) }

// measure runs each shape group once, on unused cells.
func (m *prover) measure(ctx context.Context) error {
	const budget = 5 * time.Second
	spent := time.Duration(0)
	for g, group := range m.shape.Groups {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.breathe(); err != nil {
			return err
		}
		if spent > budget {
			// The cost of an unmeasured group is guessed until it has run.
			m.costs.group[g] = m.guess(g)
			continue
		}
		pass, err := m.blank(group)
		if err != nil {
			return err
		}
		t0 := m.card.Now()
		if err := m.card.Run(m.model, pass, time.Minute); err != nil {
			return err
		}
		took := m.card.Now() - t0
		spent += took
		m.costs.group[g] = max(took.Seconds(), 1e-6)
		if g == m.decode && m.shape.Out > 0 {
			pass.Want = []int{0}
			pass.Argmax = make([]int32, 1)
			t0 = m.card.Now()
			if err := m.card.Run(m.model, pass, time.Minute); err != nil {
				return err
			}
			took := m.card.Now() - t0
			spent += took
			m.costs.head = max(took.Seconds()-m.costs.group[g], 1e-7)
		}
	}
	return nil
}

// guess returns the cost of a measured group with as many rows, or of the decode group.
func (m *prover) guess(g int) float64 {
	best := m.costs.group[m.decode]
	for i, c := range m.costs.group {
		if c > 0 && m.shape.Groups[i].Rows == m.shape.Groups[g].Rows {
			best = c
		}
	}
	return max(best, 1e-6)
}

// blank returns a pass of meaningless rows that see as far as the group reaches.
func (m *prover) blank(g axcl.Group) (*axcl.Pass, error) {
	// One visible cell chooses the group; the rows go elsewhere.
	top, first := min(g.Cells, m.shape.Cells)-1, 0
	if top >= 0 && top+1+g.Rows <= m.shape.Cells {
		first = top + 1
	}
	rows := make([]prove.Row, g.Rows)
	for r := range rows {
		rows[r] = prove.Row{ID: int32(r % 2), Cell: uint32(first + r)}
		if top >= 0 && (first > top || top >= g.Rows) {
			rows[r].Cells = []uint32{uint32(top)}
		}
	}
	p, _, err := m.trials().Pass(rows...)
	if err != nil {
		return nil, err
	}
	p.HiddenOut, p.Want, p.Logits = nil, nil, nil
	m.sequent(p, uint32(len(rows[0].Cells)), 1)
	return p, nil
}
