package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/models"
)

// This file checks the answers of a card when it first loads a package. Its answer to a fixed text
// is compared with the known answer of a healthy card, if that is part of the program. Otherwise it
// is compared with what earlier loads of the package answered on this machine, on any card. If two
// loads differ, it is unknown which was wrong, so the load is refused. From then on, the first
// answer that two loads give counts, so a card that was wrong once does not keep a healthy one out.
// An answer that two loads of a card and driver gave is not outvoted by the same card and driver.

// maxRecord limits the size of a record's file, and maxSaid the answers in it.
const maxRecord, maxSaid = 64 << 10, 16

// spoken is an answer of earlier loads.
type spoken struct {
	Tokens []int32
	Loads  int
	On     string // card, driver and firmware that gave it first
	Counts bool   // two loads gave it before another counted for their card and driver
}

// record has the answers that earlier loads of a package gave.
type record struct {
	file string // empty: no record is kept
	on   string
	Said []spoken
}

// recordOf reads the record of a package.
func (m *prover) recordOf(p *models.Package, o OpenOptions) *record {
	i := m.card.Info()
	r := &record{on: strings.Join([]string{i.Name, i.Version, i.Firmware}, " ")}
	if o.Remember == "" {
		return r
	}
	key := sha256.Sum256([]byte(strings.Join([]string{"said", p.Digest(), i.Kind}, "\x00")))
	r.file = filepath.Join(o.Remember, "said-"+hex.EncodeToString(key[:12])+".json")
	b, err := regular.ReadPath(r.file, maxRecord)
	if err != nil || json.Unmarshal(b, r) != nil || len(r.Said) > maxSaid {
		r.Said = nil
	}
	r.Said = slices.DeleteFunc(r.Said, func(s spoken) bool { return len(s.Tokens) != sampleLen || s.Loads < 1 })
	return r
}

// note adds an answer, and reports whether it can be trusted and with what it was compared.
func (r *record) note(tokens []int32) (with Compared, ok bool) {
	at := -1
	for i, s := range r.Said {
		if len(s.Tokens) == len(tokens) && differs(tokens, s.Tokens) == nil {
			at = i
			break
		}
	}
	if at < 0 {
		at = len(r.Said)
		r.Said = append(r.Said, spoken{Tokens: tokens, On: r.on})
		if len(r.Said) > maxSaid { // drop the oldest that does not count, or else the oldest
			oldest := slices.IndexFunc(r.Said[:maxSaid], func(s spoken) bool { return !s.Counts })
			r.Said, at = slices.Delete(r.Said, max(oldest, 0), max(oldest, 0)+1), at-1
		}
	}
	mine := &r.Said[at]
	mine.Loads++
	//rule:D6 TestFirstLoadWrong || mine.Loads >= 2 =>
	ok = len(r.Said) == 1 || mine.Loads >= 2
	for i, s := range r.Said {
		if i != at && s.Counts && s.On == r.on {
			//rule:D6 TestFirstLoadWrong drop
			ok = false
		}
	}
	switch {
	case ok && mine.Loads >= 2:
		with, mine.Counts = ComparedEarlier, true
	case ok:
		with = ComparedNever
	}
	r.keep()
	return with, ok
}

// keep writes the record. If that fails, the next load has nothing to compare with.
func (r *record) keep() {
	if r.file == "" {
		return
	}
	b, err := json.Marshal(r)
	if err != nil || os.MkdirAll(filepath.Dir(r.file), 0o755) != nil {
		return
	}
	temp := r.file + ".new"
	if os.WriteFile(temp, b, 0o644) == nil {
		_ = os.Rename(temp, r.file)
	}
}

// believe compares the card's answer with the known one, or with those of earlier loads. before is
// the answer kept with what was proven, or nil. An error wraps ErrWrong and says what to do. In
// that case nothing that was proven is kept.
func (m *prover) believe(p *models.Package, o OpenOptions, before []int32) error {
	if m.canary.sample == nil {
		return nil
	}
	on := m.card.Info().ID
	if known := models.KnownAnswers(p.Digest()); known != nil {
		if err := differs(m.canary.sample, known); err != nil {
			return fmt.Errorf("%w: %s on %s does not answer as a healthy card does: power-cycle the card, and see axle doctor "+
				"--conformance; axle verify checks the model's files", err, p.Name, on)
		}
		m.compared = ComparedKnown
		return nil
	}
	r := m.recordOf(p, o)
	if before != nil && len(r.Said) == 0 {
		r.Said = []spoken{{before, 2, r.on, true}}
	}
	with, ok := r.note(m.canary.sample)
	if !ok {
		return fmt.Errorf("%w: %s on %s says something else than at an earlier load, and which of the two is wrong is not known: load it "+
			"again, and what two loads say counts; axle verify checks its files, a card that was power-cycled may be sound again, and "+
			"without %s it is taken as it is", ErrWrong, p.Name, on, r.file)
	}
	m.compared = with
	return nil
}
