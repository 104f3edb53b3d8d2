package engine

import (
	"sync"
	"testing"
	"time"
)

// TestDraftTrace: a draft model's passes are traced for the sequences they guess for, within the
// time that the pass they guess for gives them.
func TestDraftTrace(t *testing.T) {
	var mu sync.Mutex
	var passes []PassTrace
	o := still
	o.Trace = func(p *PassTrace) {
		mu.Lock()
		defer mu.Unlock()
		c := *p
		c.Parts = append([]PassPart(nil), p.Parts...)
		passes = append(passes, c)
	}
	b := onFake(t, newFake(), OpenOptions{Parallel: 1, CardOptions: o})
	withDraft(t, b, newFake())
	for _, job := range jobsFor(2, 80, fakeVocab, 50) {
		if _, _, err := run(b, job); err != nil {
			t.Fatal(err)
		}
	}
	clean(t, b)
	mu.Lock()
	defer mu.Unlock()
	var inside, drafts, guessed = time.Duration(0), 0, 0
	var from time.Duration
	for _, p := range passes {
		if p.Kind != "draft" {
			if p.Draft < inside || drafts > 0 && from < p.Start {
				t.Errorf("a pass that began at %v with %v for its guesses, %v in %d passes of the draft model from %v on", p.Start, p.Draft,
					inside, drafts, from)
			}
			if drafts > 0 && p.Plan+p.Draft+p.Build+p.Run+p.Sample > p.End-p.Start {
				t.Errorf("more in stages than the pass took: %+v", p)
			}
			inside, drafts = 0, 0
			continue
		}
		if drafts == 0 {
			from = p.Start
		}
		drafts++
		guessed++
		inside += p.End - p.Start
		for _, q := range p.Parts {
			if q.Seq == 0 || q.Rows == 0 {
				t.Errorf("a draft pass for no sequence: %+v", p.Parts)
			}
		}
	}
	if guessed == 0 {
		t.Error("the draft model made no pass")
	}
}
