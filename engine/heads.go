package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine/hosthead"
	"github.com/axle-llm/axle/engine/prove"
	"github.com/axle-llm/axle/internal/ram"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/sampler"
)

// This file computes the LM head on the host where that takes less time. The card takes rows
// through the head one by one. The host reads the head's weights once for several rows. The cost
// table decides for every pass.

// rowHead computes the logits of hidden rows: hosthead.Head, or a stand-in for a model without
// weights.
type rowHead interface {
	Run(rows [][]uint16, logits []uint16, argmax []int32) error
	Work(n int) (bytes, products int64)
	Close() error
}

// heads is the head on the host. It belongs to the card's worker, but for making.
type heads struct {
	*core
	place  HeadPlace
	tell   func(HeadStats) // or nil
	host   rowHead         // nil: there is none, or not yet
	stats  HeadStats
	making *makingHead

	waiting  []*lateRow // for the host: see lateheads.go
	run      *lateRun   // what it computes; nil: nothing
	lateRows int        // so far

	// Of the pass that runs.
	meanwhile func()
	rows      [][]uint16
	took      time.Duration
	err       error
}

// makingHead is a head that a goroutine compares with the card's, and makes the file of if there is
// none.
type makingHead struct {
	cancel context.CancelFunc
	done   chan struct{} // closed after the rest is set
	head   *hosthead.Head
	report hosthead.Report
	err    error
}

// hostRows are the numbers of rows whose time is measured.
var hostRows = [...]int{1, 2, 4, 8, 16}

// hostCost is the time of the head on the host, in seconds, for each number of rows in hostRows.
// The zero hostCost means that the host computes none.
type hostCost [len(hostRows)]float64

// of returns the time for n rows.
func (c *hostCost) of(n int) float64 {
	last := len(hostRows) - 1
	if most := hostRows[last]; n > most {
		return c[last]*float64(n/most) + c.of(n%most)
	}
	for i, rows := range hostRows {
		switch {
		case n <= 0:
			return 0
		case n == rows:
			return c[i]
		case n < rows:
			part := float64(n-hostRows[i-1]) / float64(rows-hostRows[i-1])
			return c[i-1] + part*(c[i]-c[i-1])
		}
	}
	return c[last]
}

// observe corrects the times by that of n rows. A processor that is busy or throttled shows in it.
func (c *hostCost) observe(n int, took time.Duration) {
	want := c.of(n)
	if t := took.Seconds(); t > 0 && want > 0 {
		c.scale(min(max(1+settle*(t/want-1), 0.8), 1.25))
	}
}

func (c *hostCost) scale(f float64) {
	for i := range c {
		c[i] *= f
	}
}

// forget is what becomes of the host's times when the card computes a head that the host could
// have: a processor that was busy is tried again after some hundred passes.
const forget = 0.9995

// heads returns the time of the head for n rows, and whether the host computes it.
func (c *costs) heads(n int) (sec float64, host bool) {
	sec = float64(n) * c.head
	if c.host[0] == 0 || n == 0 {
		return sec, false
	}
	if t := c.host.of(n); t < sec || c.onlyHost {
		return t, true
	}
	return sec, false
}

// barred says why the host is not to compute heads, whatever the model; empty if it may.
func (h *heads) barred() string {
	switch {
	case h.place == HeadCard:
		return "the settings say so"
	case h.place == HeadAuto && h.card.Info().Host:
		return "the device is this machine's processor"
	case h.card.o.Clock != nil && h.card.o.Host == nil:
		return "the card's clock does not see what the host does"
	}
	return ""
}

// source describes the model's head, or says why the host cannot compute it.
func (h *heads) source(p *models.Package, o OpenOptions) (s hosthead.Source, why string) {
	e, ok := p.HeadTable, p.HeadTable != nil
	if !ok {
		e, ok = h.embed.(*models.Embeddings)
	}
	switch why = h.barred(); {
	case why != "":
		return s, why
	case o.Remember == "":
		return s, "there is no folder for its weights"
	case h.shape.Whole:
		return s, "the model is a whole decoder in one file"
	case h.shape.Out <= 1 || p.Embedding:
		return s, "the model gives no logits"
	case !ok || e.Cols != h.shape.Hidden || e.Rows < h.shape.Out:
		return s, "the table is not the head's matrix: it has other sizes"
	}
	tokens := h.shape.Out
	if h.tokenizer != nil {
		tokens = min(tokens, h.tokenizer.Vocab())
	}
	s = hosthead.Source{Hidden: h.shape.Hidden, Out: h.shape.Out, Tokens: tokens, Eps: 1e-6, Cap: float32(p.Config.LogitCap), Table: e}
	if p.Config.NormEps > 0 {
		s.Eps = float32(p.Config.NormEps)
	}
	if _, free := ram.Of(os.DirFS("/")); free > 0 && free < 2*s.Bytes() {
		return s, fmt.Sprintf("its weights take %d MB, and this machine has %d MB free", s.Bytes()/1e6, free/1e6)
	}
	return s, ""
}

// headVersion is in the name of a head's file. It changes with the file's content.
const headVersion = "1"

// headKey names the file of a package's head.
func headKey(p *models.Package, s hosthead.Source) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %d %g %g", headVersion, s.Hidden, s.Out, s.Tokens, s.Eps, s.Cap))
	return hosthead.Of(p.Digest()) + hex.EncodeToString(sum[:4])
}

// open begins to compare the host's head with the card's, at load, when no sequence runs. Making a
// head takes seconds and goes on afterwards; adopt takes the result. A call that failed on a card
// that goes on working only means that there is no head on the host. Errors: others of passes.
func (h *heads) open(p *models.Package, o OpenOptions) error {
	s, why := h.source(p, o)
	if why != "" {
		h.without(why)
		return nil
	}
	err := h.compare(p, o, s)
	if failed := (*axcl.Error)(nil); errors.As(err, &failed) && !axcl.Fatal(err) {
		h.without(err.Error())
		return nil
	}
	return err
}

// compare gets the card's logits, and starts the goroutine that compares.
func (h *heads) compare(p *models.Package, o OpenOptions, s hosthead.Source) error {
	rows, err := h.realRows()
	if err != nil {
		return err
	}
	if rows == nil {
		h.without("the card has no room for the rows to compare with")
		return nil
	}
	logits, err := h.onCard(rows)
	if err != nil {
		return err
	}
	key, probed := headKey(p, s), []uint16(nil)
	if !hosthead.Made(o.Remember, key) {
		probes := hosthead.Probes(s.Hidden)
		var each [][]uint16
		for r := range hosthead.ProbeRows {
			each = append(each, probes[r*s.Hidden:(r+1)*s.Hidden])
		}
		if probed, err = h.onCard(each); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &makingHead{cancel: cancel, done: make(chan struct{})}
	h.making = m
	h.stats.Soon = true
	h.publish()
	wake := h.card.Wake
	go func() {
		defer wake()
		defer close(m.done)
		hosthead.Lower()
		m.head, m.report, m.err = makeHead(ctx, o.Remember, key, s, probed, rows, logits)
	}()
	return nil
}

// makeHead opens a head's file, or makes it from the card's logits of the probes, and compares it
// with the card's logits of real rows.
func makeHead(ctx context.Context, dir, key string, s hosthead.Source, probed []uint16, rows [][]uint16, logits []uint16) (
	*hosthead.Head, hosthead.Report, error,
) {
	if probed != nil {
		f, err := hosthead.Fit(ctx, s, probed)
		if err != nil {
			return nil, hosthead.Report{}, err
		}
		if _, err := hosthead.Write(ctx, dir, key, s, f); err != nil {
			return nil, hosthead.Report{}, err
		}
	}
	head, err := hosthead.Open(dir, key, s)
	if err != nil {
		hosthead.Remove(dir, key)
		return nil, hosthead.Report{}, fmt.Errorf("%w; it is made again at the next load", err)
	}
	report, err := head.Accept(rows, logits)
	if err != nil {
		hosthead.Remove(dir, key)
		return nil, report, errors.Join(err, head.Close())
	}
	return head, report, nil
}

// without records why there is no head on the host.
func (h *heads) without(why string) {
	h.stats.Ready, h.stats.Soon, h.stats.Why = false, false, why
	h.known()
}

// known tells what became of the head.
func (h *heads) known() {
	h.publish()
	if h.tell != nil {
		h.tell(h.stats)
	}
}

func (h *heads) publish() { h.queue.update(func(st *Stats) { st.Head = h.stats }) }

// adopt takes the head that was made, and reports whether it was there. It measures what the head
// takes, so it runs between passes.
func (h *heads) adopt() bool {
	m := h.making
	if m == nil {
		return false
	}
	select {
	case <-m.done:
	default:
		return false
	}
	m.cancel()
	h.making = nil
	h.stats.Rest, h.stats.Bits = m.report.Rest, m.report.Bits
	if m.err != nil {
		h.without(m.err.Error())
		return true
	}
	h.stats.Bytes, _ = m.head.Work(1)
	h.use(m.head)
	return true
}

// use measures the head and lets passes use it.
func (h *heads) use(head rowHead) {
	row := make([]uint16, h.shape.Hidden)
	for i := range row {
		row[i] = uint16(0x3f80 | i&1<<15)
	}
	var rows [][]uint16
	ids := make([]int32, hostRows[len(hostRows)-1])
	h.host = head
	for i, n := range hostRows {
		for len(rows) < n {
			rows = append(rows, row)
		}
		best := time.Duration(0)
		for range 2 { // the first finds the weights outside of memory, and threads asleep
			took, err := h.timed(rows, nil, ids[:n])
			if err != nil {
				h.fail(err)
				return
			}
			if best == 0 || took < best {
				best = took
			}
		}
		h.costs.host[i] = max(best.Seconds(), 1e-7)
	}
	h.costs.onlyHost = h.place == HeadHost
	h.stats.Ready, h.stats.Soon, h.stats.Why = true, false, ""
	h.known()
}

// timed runs the host's head, and charges its work to the card's clock if that does not see it.
func (h *heads) timed(rows [][]uint16, logits []uint16, argmax []int32) (time.Duration, error) {
	t0 := h.card.Now()
	err := h.host.Run(rows, logits, argmax)
	if c := h.card.o.Host; c != nil {
		c.WaitUntil(t0 + c.Takes(h.host.Work(len(rows))))
	}
	return h.card.Now() - t0, err
}

// fail stops the use of the host's head. It may fail twice: at once, and for rows that are late.
func (h *heads) fail(err error) {
	head := h.host
	if head == nil {
		return
	}
	h.host, h.costs.host = nil, hostCost{}
	h.without(errors.Join(err, head.Close()).Error())
}

// begin prepares the head of a pass that was built. If it was left to the host, that computes it
// while the card keeps the pass's rows.
func (h *heads) begin(b *batch) {
	if h.err, h.took, b.pass.Meanwhile = nil, 0, nil; len(b.leftToHost) > 0 && !b.late {
		h.awaitLate()
		b.pass.Meanwhile = h.meanwhile
	}
}

// compute runs the head of b's pass on the host.
func (h *heads) compute(b *batch) {
	h.rows = h.rows[:0]
	for _, r := range b.leftToHost {
		h.rows = append(h.rows, b.pass.HiddenOut[r*h.shape.Hidden:(r+1)*h.shape.Hidden])
	}
	logits, argmax := b.results(len(h.rows))
	h.took, h.err = h.timed(h.rows, logits, argmax)
}

// end takes the results of a pass that ran. If the host failed, the card computes the head.
func (h *heads) end(b *batch) error {
	n := len(b.leftToHost)
	if n == 0 && len(b.pass.Want) > 1 {
		h.costs.host.scale(forget)
	}
	if n == 0 || b.late {
		return nil
	}
	logits, argmax := b.results(n)
	if h.err == nil {
		h.costs.host.observe(n, h.took)
		h.stats.Rows += uint64(n)
		h.stats.Busy += h.took
		h.publish()
	} else {
		h.fail(h.err)
		all, err := h.onCard(h.rows)
		if err != nil {
			return err
		}
		copy(logits, all)
		for i := range argmax {
			argmax[i] = sampler.Argmax(all[i*h.shape.Out : (i+1)*h.shape.Out])
		}
	}
	b.pass.Logits, b.pass.Argmax = logits, argmax
	return nil
}

// onCard returns the logits of hidden rows from the card's head alone.
func (h *heads) onCard(rows [][]uint16) (logits []uint16, err error) {
	logits = make([]uint16, len(rows)*h.shape.Out)
	one := make([]uint16, 0, axcl.HeadRows*h.shape.Hidden)
	for at := 0; at < len(rows); at += axcl.HeadRows {
		part := rows[at:min(at+axcl.HeadRows, len(rows))]
		one = one[:0]
		for _, row := range part {
			one = append(one, row...)
		}
		if err := h.breathe(); err != nil {
			return nil, err
		}
		if err := h.card.Watched(0, func() error {
			return h.model.Head(one, logits[at*h.shape.Out:(at+len(part))*h.shape.Out])
		}); err != nil {
			return nil, err
		}
	}
	return logits, nil
}

// realRows returns what the last layer gives for the beginning of a text, or nil if the cache has
// no room for it.
func (h *heads) realRows() (rows [][]uint16, err error) {
	const n = hosthead.LeastRows
	slot, back, ok := h.scratch()
	if !ok || h.shape.Cells <= n {
		return nil, nil
	}
	defer back()
	t := h.trials()
	try := func(text []prove.Row) error {
		if text[0].To = slot; len(text[0].Cells) > 0 {
			text[0].From = slot
		}
		got, err := t.Try(text...)
		rows = append(rows, got...)
		return err
	}
	if h.proven.Chunk && h.widest(0) >= n {
		err = try(t.Text(0, 0, n))
		return rows, err
	}
	for i := range n {
		if err := try(t.Text(0, i, 1)); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// close waits for the goroutines, and closes the head.
func (h *heads) close() error {
	h.awaitLate()
	if m := h.making; m != nil {
		m.cancel()
		<-m.done
		h.making = nil
		if m.head != nil {
			return m.head.Close()
		}
		return nil
	}
	if h.host == nil {
		return nil
	}
	head := h.host
	h.host, h.costs.host = nil, hostCost{}
	return head.Close()
}
