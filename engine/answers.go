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

// This file is how a card is not simply believed at its first load of a package. What it says to a
// fixed text is compared: with what a sound card is known to say, where that ships with the
// program; else with what earlier loads of the package said here, on any card. Where two loads
// differ it is unknown which was wrong, so the load is refused, and what is said by two loads first
// counts from then on: a card that was wrong once does not keep a sound one out. What two loads of
// a card and driver have said is not outvoted by the same.

// maxRecord bounds a record's file, and maxSaid the answers in it.
const maxRecord, maxSaid = 64 << 10, 16

// spoken is an answer of earlier loads.
type spoken struct {
	Tokens []int32
	Loads  int
	On     string // which card, driver and firmware said so first
	Counts bool   // two loads said so before any others contradicted
}

// record is what earlier loads of a package said.
type record struct {
	file string // empty: none is kept
	on   string
	Said []spoken
}

// recordOf reads a package's record.
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

// note adds an answer, and reports whether it may be believed and with what it was compared.
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
		if len(r.Said) > maxSaid { // what counts stays before what was said by the way
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

// keep writes the record. What cannot be kept is compared with nothing the next time.
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

// believe compares what the card said with what is known of the package, or was said earlier;
// before is what else was kept of it, nil for nothing. The error wraps ErrWrong and says what to
// do; nothing of what was proven is kept then.
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
