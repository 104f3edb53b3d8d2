//go:build cgo && !fake && linux

package engine

import (
	"cmp"
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/engine/card"
	"github.com/axle-llm/axle/internal/lane"
)

// TestFairCard: a text model, a net in a loop, an urgent net at 5 Hz and the load of a model of 4
// billion weights share the simulated card: each of those that always have work has as many seconds
// as the others, within 5 %, and none waits longer than one piece of each other, beyond the time in
// which the others have as much as it had by its own last piece. An urgent call waits for what is
// under way alone.
func TestFairCard(t *testing.T) {
	//proves:G26 a text model, a net in a loop, one at 5 Hz and the load of 4B's files on the simulated card's clock
	lane.NoRace(t)
	open, sim := onSim(t, "clock=virtual\nprofile=pi5")
	c, err := OpenCard(open, CardOptions{Clock: clockOf(sim), Check: -1, CheckWork: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	small, large := axmodel.Qwen3Small(), axmodel.Qwen3Large()
	small.Context, small.History = 511, []int{0, 128}
	large.Context, large.History, large.Layers = 511, []int{0, 128}, 12
	b, err := OpenShape(t.Context(), c, t.TempDir(), small, OpenOptions{Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	m := b.(*cardBackend).m
	path := filepath.Join(t.TempDir(), "affine.axmodel")
	if _, _, err := axcltest.WriteAffine(path, 5, 256, 256); err != nil {
		t.Fatal(err)
	}
	free := hold(b.(*cardBackend))
	const requests = 100
	var asked sync.WaitGroup
	for range requests {
		asked.Go(func() {
			job := greedy([]int32{1, 2, 3}, 20) // fewer tokens than a mailbox holds: they need not be read
			job.IgnoreStop = true
			_, _, _ = run(b, job)
		})
	}
	for b.Stats().Queued < requests {
		runtime.Gosched()
	}
	text := &spied{Tenant: m, c: c}
	var loop, eye *spied
	attached := make(chan error)
	go func() {
		attached <- c.Do(context.Background(), func(dev axcl.Device) error {
			net, err := newCalls(c, dev, path, card.Turn, 0)
			if err != nil {
				return err
			}
			seeing, err := newCalls(c, dev, path, card.Urgent, 200*time.Millisecond)
			if err != nil {
				return err
			}
			loop, eye = &spied{Tenant: net, c: c}, &spied{Tenant: seeing, c: c}
			c.Detach(m)
			for _, s := range []*spied{text, loop, eye} {
				c.Attach(s, 1)
			}
			seeing.next = c.Now()
			return nil
		})
	}()
	loaded := make(chan Backend)
	dir := t.TempDir()
	go func() {
		other, err := OpenShape(context.Background(), c, dir, large, OpenOptions{})
		if err != nil {
			t.Error(err)
		}
		loaded <- other
	}()
	free()
	if err := <-attached; err != nil {
		t.Fatal(err)
	}
	other := <-loaded
	if err := c.Do(t.Context(), func(axcl.Device) error {
		loop.Tenant.(*calls).off, eye.Tenant.(*calls).off = true, true
		return nil
	}); err != nil || other == nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := c.Do(t.Context(), func(axcl.Device) error { // the model is its own tenant again, which closing takes off the card
		c.Detach(text)
		c.Attach(m, 1)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if st := b.Stats(); st.Queued == 0 {
		t.Fatal("no request waited for the text model at the end: it had less than it could have")
	}
	all := slices.Concat(text.spans, loop.spans, eye.spans)
	slices.SortFunc(all, func(a, b [2]time.Duration) int { return cmp.Compare(a[0], b[0]) })
	load := all.rest()
	from, to := load[0][0], load[len(load)-1][1]
	urgent, glance, _ := eye.spans.within(from, to)
	if least := (to - from) / (200 * time.Millisecond) * 9 / 10; len(eye.spans) < int(least) {
		t.Errorf("%d urgent calls in %v", len(eye.spans), to-from)
	}
	tenants := []spans{text.spans, loop.spans, load}
	var pieces [3]time.Duration
	for i, s := range tenants {
		_, pieces[i], _ = s.within(from, to)
	}
	if file := time.Duration(float64(large.HeadBytes) / 35e6 * 1.05 * float64(time.Second)); pieces[2] > file {
		t.Errorf("the longest piece of the load took %v, its largest file takes %v", pieces[2], file)
	}
	if waited := eye.Tenant.(*calls).waited; waited > slices.Max(pieces[:]) {
		t.Errorf("an urgent call waited for %v", waited)
	}
	share := (to - from - urgent) / 3
	for i, name := range []string{"the text", "the net", "the load"} {
		sum, own, gap := tenants[i].within(from, to)
		t.Logf("%s had %v of %v, pieces up to %v, waited up to %v", name, sum, to-from, own, gap)
		if r := float64(sum) / float64(share); r < 0.95 || r > 1.05 {
			t.Errorf("%s had %v, its share is %v", name, sum, share)
		}
		most := glance * (gap/(200*time.Millisecond) + 1)
		for j, piece := range pieces {
			if j != i {
				most += piece + own
			}
		}
		if gap > most {
			t.Errorf("%s waited for %v, at most it is to be %v", name, gap, most)
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	asked.Wait()
}

// spied is a tenant that somebody watches.
type spied struct {
	card.Tenant
	c     *Card
	spans spans
}

func (s *spied) Step(k card.Kind) (bool, error) {
	t0 := s.c.Now()
	did, err := s.Tenant.Step(k)
	if now := s.c.Now(); did {
		s.spans = append(s.spans, [2]time.Duration{t0, now})
	}
	return did, err
}

// spans are pieces, in the order they were.
type spans [][2]time.Duration

// within is what lies between two moments: how long all of it is, the longest piece, and the
// longest time between two.
func (all spans) within(from, to time.Duration) (sum, piece, gap time.Duration) {
	last := time.Duration(-1)
	for _, s := range all {
		if s[0] < from || s[1] > to {
			continue
		}
		if sum += s[1] - s[0]; last >= 0 {
			gap = max(gap, s[0]-last)
		}
		piece, last = max(piece, s[1]-s[0]), s[1]
	}
	return sum, piece, gap
}

// rest is the time from the first piece to the last in which there was none.
func (all spans) rest() (out spans) {
	for i := 1; i < len(all); i++ {
		if all[i][0] > all[i-1][1] {
			out = append(out, [2]time.Duration{all[i-1][1], all[i][0]})
		}
	}
	return out
}

// calls is a tenant that runs a net, again and again or every so often.
type calls struct {
	c       *Card
	net     axcl.Net
	in, out map[string][]byte
	kind    card.Kind
	every   time.Duration
	next    time.Duration
	waited  time.Duration // the longest, from when a call was due
	off     bool
}

func newCalls(c *Card, dev axcl.Device, path string, kind card.Kind, every time.Duration) (*calls, error) {
	net, err := dev.LoadNet(path)
	if err != nil {
		return nil, err
	}
	n := &calls{c: c, net: net, in: map[string][]byte{}, out: map[string][]byte{}, kind: kind, every: every}
	for _, t := range net.Inputs(0) {
		n.in[t.Name] = make([]byte, t.Size)
	}
	for _, t := range net.Outputs(0) {
		n.out[t.Name] = make([]byte, t.Size)
	}
	return n, nil
}

func (n *calls) Offer(k card.Kind) (time.Duration, bool) {
	return 0, k == n.kind && !n.off && n.c.Now() >= n.next
}

func (n *calls) Step(card.Kind) (bool, error) {
	if now := n.c.Now(); n.every > 0 {
		n.waited = max(n.waited, now-n.next)
		n.next += n.every
	}
	return true, n.c.Watched(0, func() error { return n.net.Run(0, n.in, n.out) })
}

func (n *calls) Fail(error) {}
