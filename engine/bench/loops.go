package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/axle-llm/axle/axcl"
)

// Loop is a token made in another way than in one pass, beside the one pass, on the same card and
// cache.
type Loop struct {
	Name  string  `json:"loop"`
	Token Sample  `json:"ms_per_token"`
	Rate  float64 `json:"tps"`
	Calls float64 `json:"calls_per_token"`                 // of the vendor's functions where the card counts them, else executes
	Cross float64 `json:"link_copies_per_token,omitempty"` // copies over the link, where the card counts them
	Busy  float64 `json:"npu_percent,omitempty"`           // where the card counts it
	Bytes int64   `json:"link_bytes_per_token,omitempty"`  // what the loop itself sends and fetches
	Runs  int     `json:"device_calls_per_token"`          // how often the program enters the device
}

// Counters read what a simulated card counts; nil functions are not asked.
type Counters struct {
	Clock func() time.Duration
	NPU   func() time.Duration
	Calls func() uint64
	Cross func() uint64
}

// Loops measures one pass a token, then the named loop: one after the other, because a large model
// does not fit on a card twice. It opens models itself; dev belongs to the calling goroutine.
//
// "naive" runs each layer as a model of its own through calls by tensor name: cache, hidden row,
// mask and position go up and the new rows come back for every layer. "vendor" is the loop of the
// vendor's programs: the cache stays on the card, but each layer's position and mask are sent, each
// execute is waited for, and copies bring K, V and the hidden state where they belong. Errors: an
// unknown loop, a card that has no such loop, what loading and running give.
func Loops(ctx context.Context, dev axcl.Device, spec axcl.LoadSpec, name string, tokens, repeats int,
	k Counters) (one, other Loop, err error) {
	if name != "naive" && name != "vendor" {
		return one, other, fmt.Errorf("bench: unknown loop %q: use naive or vendor", name)
	}
	one, other = Loop{Name: "one pass", Runs: 1}, Loop{Name: name, Runs: len(spec.Layers) + 1}
	spec.NoInPlace = false
	err = onModel(ctx, dev, spec, func(m axcl.Model, p *axcl.Pass) error {
		return one.measure(ctx, tokens, repeats, k, func() error { return m.Run(p) })
	})
	switch {
	case err != nil:
	case name == "vendor":
		spec.NoInPlace = true
		err = onModel(ctx, dev, spec, func(m axcl.Model, p *axcl.Pass) error {
			loop, ok := m.(axcl.LoopRunner)
			if !ok {
				return fmt.Errorf("bench: this device has no vendor's loop: it is for cards behind the vendor's library, or the " +
					"simulated one (--device axcl)")
			}
			return other.measure(ctx, tokens, repeats, k, func() error { return loop.RunVendorLoop(p) })
		})
	default:
		var n *naive
		if n, err = openNaive(dev, spec); err == nil {
			other.Bytes = n.bytes()
			err = other.measure(ctx, tokens, repeats, k, n.run)
			n.close()
		}
	}
	return one, other, err
}

// onModel loads a model for the time of f, with a pass of one row.
func onModel(ctx context.Context, dev axcl.Device, spec axcl.LoadSpec, f func(axcl.Model, *axcl.Pass) error) error {
	m, err := axcl.Load(ctx, dev, spec)
	if err != nil {
		return err
	}
	p, err := row(m.Shape())
	if err == nil && p.Want == nil {
		err = fmt.Errorf("bench: a model without a head makes no tokens")
	}
	if err == nil {
		err = f(m, p)
	}
	if e := m.Close(); err == nil {
		err = e
	}
	return err
}

// measure runs the loop repeats times for this many tokens, after a warm-up.
func (l *Loop) measure(ctx context.Context, tokens, repeats int, k Counters, run func() error) error {
	var values []float64
	for r := range repeats + 1 {
		if err := ctx.Err(); err != nil {
			return err
		}
		took, err := l.once(tokens, k, run)
		if err != nil {
			return err
		}
		if r > 0 {
			values = append(values, took)
		}
	}
	l.Token = NewSample(values)
	if l.Token.Median > 0 {
		l.Rate = 1e3 / l.Token.Median
	}
	if l.Calls == 0 {
		l.Calls = float64(l.Runs)
	}
	return nil
}

func (l *Loop) once(tokens int, k Counters, run func() error) (perToken float64, err error) {
	count := func(f func() uint64) float64 {
		if f == nil {
			return 0
		}
		return float64(f())
	}
	npu := func() time.Duration {
		if k.NPU == nil {
			return 0
		}
		return k.NPU()
	}
	at, busy, calls, cross := k.Clock(), npu(), count(k.Calls), count(k.Cross)
	for range tokens {
		if err := run(); err != nil {
			return 0, err
		}
	}
	took := k.Clock() - at
	n := float64(tokens)
	l.Calls, l.Cross = (count(k.Calls)-calls)/n, (count(k.Cross)-cross)/n
	l.Busy = percent(npu()-busy, took)
	return ms(took) / n, nil
}

// row is a pass of one row that sees half the cache.
func row(s axcl.Shape) (*axcl.Pass, error) {
	past := s.Cells / 2
	p := &axcl.Pass{Hidden: make([]uint16, s.Hidden), Pos: make([]uint32, max(s.Pos, 1)), Cell: []uint32{uint32(past)},
		SeeCells: make([]uint64, axcl.Words(s.Cells)), SeeRows: make([]uint64, 1)}
	if s.State > 0 {
		p.From, p.To = 1, 1
	}
	p.Given = make([]uint16, s.Layers*s.Given)
	if s.Out > 0 {
		p.Want, p.Logits = []int{0}, make([]uint16, s.Out)
	}
	for i := range p.Hidden {
		p.Hidden[i] = 0x3f80
	}
	for c := range past {
		p.SeeCells[c/64] |= 1 << (c % 64)
	}
	return p, p.Check(s)
}

// naive is a model as this many models of one layer.
type naive struct {
	nets  []axcl.Net
	group []int
	in    []map[string][]byte
	out   []map[string][]byte
}

func openNaive(dev axcl.Device, spec axcl.LoadSpec) (_ *naive, err error) {
	n := &naive{}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	for _, path := range append(append([]string(nil), spec.Layers...), spec.Head) {
		net, err := dev.LoadNet(path)
		if err != nil {
			return nil, err
		}
		n.nets = append(n.nets, net)
		// The decode group is the one with the smallest hidden row.
		best, size := 0, 0
		for g := range net.Groups() {
			for _, t := range net.Inputs(g) {
				if bare(t.Name) == "input" && (size == 0 || t.Size < size) {
					best, size = g, t.Size
				}
			}
		}
		in, out := map[string][]byte{}, map[string][]byte{}
		for _, t := range net.Inputs(best) {
			in[t.Name] = make([]byte, t.Size)
		}
		for _, t := range net.Outputs(best) {
			out[t.Name] = make([]byte, t.Size)
		}
		n.group, n.in, n.out = append(n.group, best), append(n.in, in), append(n.out, out)
	}
	return n, nil
}

// bare is a tensor's name without a group's number.
func bare(name string) string { return strings.TrimRight(name, "_0123456789") }

func (n *naive) run() error {
	var hidden []byte
	for i, net := range n.nets {
		for name, b := range n.in[i] {
			if bare(name) == "input" && hidden != nil {
				copy(b, hidden)
			}
		}
		if err := net.Run(n.group[i], n.in[i], n.out[i]); err != nil {
			return err
		}
		for name, b := range n.out[i] {
			if bare(name) == "output" {
				hidden = b
			}
			// The new rows of K and V go into the host's cache, where the next token will send them
			// from; a new state replaces the old.
			if cache, ok := n.in[i][strings.Replace(name, "_out", "", 1)]; ok && len(cache) >= len(b) {
				copy(cache[len(cache)/2/len(b)*len(b):], b)
			}
		}
	}
	return nil
}

// bytes is what a token sends and fetches.
func (n *naive) bytes() (all int64) {
	for i := range n.nets {
		for _, m := range []map[string][]byte{n.in[i], n.out[i]} {
			for _, b := range m {
				all += int64(len(b))
			}
		}
	}
	return all
}

func (n *naive) close() {
	for _, net := range n.nets {
		_ = net.Close()
	}
}
