package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/engine/cache"
)

// This file decides from where rows are read, and until when. Rows of a text are on disk from the
// first on, and behind them in the far place, for example at another machine. Each of the two has
// its measured rate and latency. Reading is a bet that it is quicker than evaluating, and the bet
// is called off when too much of it is lost: a sequence that waited for rows begins its prompt
// before the wait has cost a twentieth of what evaluating the prompt takes.

const (
	farWait   = 10 * time.Millisecond // latency that a far place is assumed to have, until it was measured
	farRate   = 100 * 1e6             // bytes a second of the same: 1 Gb/s. One that is slower costs no more than the bet
	bet       = 0.047                 // the part of a prompt's evaluation that may be lost on reading; prices are not exact
	nearGrace = time.Second           // more than that for a disk, which may have to start its motor
	farRest   = time.Minute           // a far place that was too slow is not asked for this long
	farOld    = 10 * time.Minute      // what was measured of a far place so long ago is no longer believed if it was bad
)

// origin is where rows come from. All of it is for any goroutine.
type origin struct {
	rate     atomic.Int64 // bytes a second
	wait     atomic.Int64 // nanoseconds until the first byte
	measured atomic.Int64 // when, by the card's clock
	rest     atomic.Int64 // until then it is not asked

	rows, bytes, saved, late atomic.Int64 // rows and bytes that came, nanoseconds saved, reads that were called off
}

// cost returns the time of requests that bring this many bytes together.
func (o *origin) cost(requests int, bytes float64) float64 {
	if requests == 0 {
		return 0
	}
	return float64(requests)*float64(o.wait.Load())/1e9 + bytes/float64(o.rate.Load())
}

// took notes how long a request took that brought these bytes. With whole unset it did not end:
// that tells only that the place is no quicker.
func (o *origin) took(bytes int, took, now time.Duration, whole bool) {
	if took <= 0 {
		return
	}
	o.measured.Store(int64(now))
	if bytes == 0 {
		o.wait.Store((o.wait.Load() + int64(took)) / 2)
		return
	}
	// A latency of more than half the time is not believed: the rate would have no limit.
	sec := max(took-time.Duration(o.wait.Load()), took/2).Seconds()
	rate, now64 := min(float64(bytes)/sec, 1e10), float64(o.rate.Load())
	if whole {
		o.rate.Store(int64(0.5*now64 + 0.5*rate))
	} else {
		o.rate.Store(int64(min(now64, rate)))
	}
}

// asked reports whether a far place may be asked now.
func (o *origin) asked(now time.Duration) bool {
	if o == nil || int64(now) < o.rest.Load() {
		return false
	}
	if now-time.Duration(o.measured.Load()) > farOld {
		o.rate.Store(max(o.rate.Load(), farRate))
		o.wait.Store(min(o.wait.Load(), int64(farWait)))
	}
	return true
}

// openFar notes that the medium has a far place.
func (d *diskTier) openFar() {
	f, ok := d.disk.(cache.Far)
	if !ok || f.Far() == "" || d.owner.State > 0 {
		return
	}
	d.far = &origin{}
	d.far.rate.Store(farRate)
	d.far.wait.Store(int64(farWait))
}

// pace is the account of a read: what it may cost, and has cost so far.
type pace struct {
	near   int       // rows of the prompt on disk
	far    bool      // the far place is asked for more
	totals []float64 // by blocks read: the time until the prompt is evaluated
	redo   float64   // the same without reading
	limit  float64   // seconds that may be lost
	start  int       // rows that were there when the read began
	step   int       // blocks that come together: fewer may not save a pass

	have  atomic.Int64 // rows that were read, of the prompt
	spent atomic.Int64 // nanoseconds of reading them
	since atomic.Int64 // when the piece at hand was asked for, by the card's clock, and one; 0: there is none
	slow  atomic.Bool  // the piece at hand comes from the far place
	stop  context.CancelFunc
	wake  *time.Timer
}

// weigh computes the pace of a read of s: the rows in memory, have of them on the card, the rest on
// disk or far away. It returns nil if reading does not pay, as far as that is known now.
func (d *diskTier) weigh(s *seq, have, memory int) *pace {
	size, prompt := d.disk.Block(), len(s.ids)
	p := &pace{near: s.onDisk, redo: d.redo(memory, prompt), start: memory}
	from, near, most := have/size, s.onDisk/size, s.onDisk/size
	if d.owner.State == 0 && s.embed == nil && d.far.asked(d.card.Now()) {
		most = len(spelled(s.ids[:prompt-1])) / size
		p.far = most > near
	}
	block := float64(size * d.shape.RowBytes())
	p.totals = make([]float64, most+1)
	for k := range p.totals {
		end := k * size
		if k == near && d.owner.State > 0 {
			end = s.onDisk
		}
		if end <= memory {
			p.totals[k] = p.redo
			continue
		}
		local := max(min(k, near)-from, 0)
		cost := d.near.cost(local, float64(local)*block+float64(end-k*size)*float64(d.shape.RowBytes())+float64(d.owner.State))
		if remote := k - max(near, from); remote > 0 {
			cost += d.far.cost(remote+1, float64(remote)*block) // one more to ask what is there
		}
		p.totals[k] = cost + float64(end-have)*d.up + d.state + d.redo(end, prompt)
	}
	p.limit = bet * p.redo
	local := p.redo
	if near > 0 || d.owner.State > 0 {
		local = p.totals[near]
	}
	if p.far {
		best := slices.Min(p.totals[near+1:])
		p.step = max((d.wide+size-1)/size, 1)
		p.far = best < min(local, p.redo) && d.far.cost(p.step+1, float64(p.step)*block) < p.limit
	}
	if !p.far {
		if local >= p.redo {
			return nil
		}
		if p.limit += nearGrace.Seconds(); d.owner.State > 0 {
			p.limit += local // nothing of it helps before it is all there
		}
	}
	return p
}

// best returns how many blocks are to be read of those that are there: 0 for none.
func (p *pace) best(blocks int) (n int) {
	least := p.redo
	for k := range min(blocks+1, len(p.totals)) {
		if p.totals[k] < least {
			n, least = k, p.totals[k]
		}
	}
	return n
}

// timed runs a piece of reading, and notes what it took.
func (p *pace) timed(card *Card, from *origin, slow bool, bytes int, load func() bool) bool {
	begun := card.Now()
	p.slow.Store(slow)
	p.since.Store(int64(begun) + 1)
	ok := load()
	took := card.Now() - begun
	p.spent.Add(int64(took))
	p.since.Store(0)
	if ok {
		from.took(bytes, took, begun+took, true)
	}
	return ok
}

// late reports whether a read has cost too much, and else how long it may go on.
func (d *diskTier) late(r *diskRead) (bool, time.Duration) {
	p, prompt := r.pace, len(r.s.ids)
	spent := p.spent.Load()
	now := d.card.Now()
	if since := p.since.Load(); since > 0 {
		spent += int64(now) - (since - 1)
	}
	have := max(int(p.have.Load()), p.start)
	left := p.limit + p.redo - d.redo(have, prompt) - float64(have-p.start)*d.up - float64(spent)/1e9
	if p.far && !p.slow.Load() && p.since.Load() > 0 {
		left += nearGrace.Seconds()
	}
	return left < 0, max(time.Duration(left*1e9), time.Millisecond) // rounded to nothing it would be looked at for ever
}

// giveUp calls a read off.
func (d *diskTier) giveUp(r *diskRead) {
	from := &d.near
	if r.pace.slow.Load() {
		from = d.far
		from.rest.Store(int64(d.card.Now() + farRest))
	}
	from.late.Add(1)
	if since := r.pace.since.Load(); since > 0 {
		now := d.card.Now()
		from.took(d.disk.Block()*d.shape.RowBytes(), now-time.Duration(since-1), now, false)
	}
}

// wakeAfter makes the worker look at its reads after this time at the latest.
func (p *pace) wakeAfter(t time.Duration, wake func()) {
	if p.wake == nil {
		p.wake = time.AfterFunc(t, wake)
	} else {
		p.wake.Reset(t)
	}
}

// end frees what the read holds.
func (p *pace) end() {
	if p.stop(); p.wake != nil {
		p.wake.Stop()
	}
}

// farStats returns what came from the far place so far.
func (d *diskTier) farStats() ask.FarTier {
	if d == nil || d.far == nil {
		return ask.FarTier{}
	}
	f := d.far
	return ask.FarTier{Name: d.disk.(cache.Far).Far(), Hits: uint64(f.rows.Load()), In: uint64(f.bytes.Load()), Late: uint64(f.late.Load()),
		Rate: f.rate.Load(), Wait: time.Duration(f.wait.Load()), Saved: time.Duration(f.saved.Load())}
}
