// Package singlenet is what `axle run-net` and `axle bench FILE.axmodel` do: it calls a single
// network by tensor, with arrays of .npy files or zeros, and times its calls. Each function may be
// called from any goroutine. The caller closes what Open gives; nothing else is held.
package singlenet

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/x448/float16"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/internal/npy"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/regular"
)

// Net is what both commands call.
type Net interface {
	Groups() int
	Tensors(group int) (in, out []axcl.Tensor)
	Run(ctx context.Context, group int, in map[string][]byte) (out map[string][]byte, took time.Duration, err error)
}

// ErrAsk is an input, a group or a folder that is not as it must be. The text says what.
var ErrAsk = errors.New("run-net")

func wrong(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrAsk}, a...)...)
}

// types are NumPy's for the card's. NumPy has no bf16: its bits go as uint16.
var types = map[axcl.Type][]string{axcl.FP32: {"<f4"}, axcl.FP16: {"<f2"}, axcl.BF16: {"<u2", "|V2"}, axcl.Int32: {"<i4"},
	axcl.Uint32: {"<u4"}, axcl.Uint8: {"|u1"}, axcl.Int64: {"<i8"}}

// Inputs reads the inputs of a group from files: "name=file.npy" each. An input without a file is
// zeros where zeros is set, else what is wrong. Errors: ErrAsk, a file's.
func Inputs(n Net, group int, files []string, zeros bool) (map[string][]byte, error) {
	want, _ := n.Tensors(group)
	if want == nil {
		return nil, wrong("the net has %d shape groups: there is no group %d", n.Groups(), group)
	}
	in := map[string][]byte{}
	for _, f := range files {
		name, file, ok := strings.Cut(f, "=")
		i := slices.IndexFunc(want, func(t axcl.Tensor) bool { return t.Name == name })
		switch {
		case !ok || file == "":
			return nil, wrong("--input %s: NAME=FILE.npy is expected", f)
		case i < 0:
			return nil, wrong("the net has no input %s; it takes %s", name, list(want))
		case in[name] != nil:
			return nil, wrong("input %s is given twice", name)
		}
		b, err := read(file, want[i])
		if err != nil {
			return nil, err
		}
		in[name] = b
	}
	for _, t := range want {
		if in[t.Name] != nil {
			continue
		}
		if !zeros {
			return nil, wrong("input %s is not given: --input '%s=FILE.npy' of %v %v, or --zeros", t.Name, t.Name, t.Type, t.Shape)
		}
		in[t.Name] = make([]byte, t.Size)
	}
	return in, nil
}

func read(file string, t axcl.Tensor) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	a, err := npy.Read(f, int64(t.Size))
	if err != nil {
		return nil, wrong("%s: %v; input %s is %v %v", file, err, t.Name, t.Type, t.Shape)
	}
	if !slices.Contains(types[t.Type], a.Type) || len(a.Data) != t.Size {
		return nil, wrong("%s holds %s %v, input %s is %v %v: %s", file, a.Type, a.Dims, t.Name, t.Type, t.Shape,
			strings.Join(types[t.Type], " or "))
	}
	return a.Data, nil
}

func list(ts []axcl.Tensor) string {
	var all []string
	for _, t := range ts {
		all = append(all, fmt.Sprintf("%s (%v %v)", t.Name, t.Type, t.Shape))
	}
	return strings.Join(all, ", ")
}

// Print writes what a call gave: each output's shape, and its least, largest and mean value.
func Print(w io.Writer, n Net, group int, out map[string][]byte, took time.Duration) error {
	_, ts := n.Tensors(group)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "OUTPUT\tTYPE\tSHAPE\tLEAST\tLARGEST\tMEAN\t\n")
	for _, o := range ts {
		least, largest, sum, nan, count := math.Inf(1), math.Inf(-1), 0.0, 0, 0
		for v := range values(o.Type, out[o.Name]) {
			count++
			if math.IsNaN(v) {
				nan++
				continue
			}
			least, largest, sum = min(least, v), max(largest, v), sum+v
		}
		note := ""
		if nan > 0 {
			note = fmt.Sprintf("%d of %d are NaN", nan, count)
		}
		fmt.Fprintf(t, "%s\t%v\t%v\t%.6g\t%.6g\t%.6g\t%s\n", plain.Line(o.Name), o.Type, o.Shape, least, largest,
			sum/float64(max(count-nan, 1)), note)
	}
	fmt.Fprintf(t, "\nthe call took %v\n", took.Round(time.Microsecond))
	return t.Flush()
}

// values are a tensor's numbers.
func values(t axcl.Type, b []byte) func(yield func(float64) bool) {
	width := len(b)
	switch t {
	case axcl.Uint8:
		width = 1
	case axcl.BF16, axcl.FP16:
		width = 2
	case axcl.FP32, axcl.Int32, axcl.Uint32:
		width = 4
	case axcl.Int64:
		width = 8
	}
	return func(yield func(float64) bool) {
		for ; len(b) >= width && width > 0; b = b[width:] {
			bits := uint64(0)
			for i := range width {
				bits |= uint64(b[i]) << (8 * i)
			}
			v := float64(bits)
			switch t {
			case axcl.BF16:
				v = float64(axcl.Float32(uint16(bits)))
			case axcl.FP16:
				v = float64(float16.Frombits(uint16(bits)).Float32())
			case axcl.FP32:
				v = float64(math.Float32frombits(uint32(bits)))
			case axcl.Int32:
				v = float64(int32(bits))
			case axcl.Int64:
				v = float64(int64(bits))
			}
			if !yield(v) {
				return
			}
		}
	}
}

// unsafe are the characters that a file's name does not get from a tensor's.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// Save writes each output to dir as NAME.npy, which is made where it is not there, and says which
// file has which. A file is there whole or not at all.
func Save(dir string, n Net, group int, out map[string][]byte) (saved []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	_, ts := n.Tensors(group)
	used := map[string]bool{}
	for _, t := range ts {
		base := strings.TrimLeft(unsafe.ReplaceAllString(t.Name, "_"), ".")
		name := cmp.Or(base, "output")
		for i := 2; used[name]; i++ {
			name = fmt.Sprintf("%s-%d", cmp.Or(base, "output"), i)
		}
		used[name] = true
		kinds := types[t.Type]
		if kinds == nil {
			return saved, wrong("output %s is %v, which .npy files have no type for", t.Name, t.Type)
		}
		var b bytes.Buffer
		if err := npy.Write(&b, &npy.Array{Type: kinds[0], Dims: t.Shape, Data: out[t.Name]}); err != nil {
			return saved, err
		}
		file := filepath.Join(dir, name+".npy")
		if err := regular.Replace(file, 0o644, b.Bytes()); err != nil {
			return saved, err
		}
		saved = append(saved, file)
	}
	return saved, nil
}

// Timing is how long calls of a group took.
type Timing struct {
	Group   int           `json:"group"`
	Calls   int           `json:"calls"`
	Bytes   int           `json:"bytes_over_the_link"` // a call's inputs and outputs
	Least   time.Duration `json:"least_ns"`
	Median  time.Duration `json:"median_ns"`
	Mean    time.Duration `json:"mean_ns"`
	Largest time.Duration `json:"largest_ns"`
}

// warm is how many calls come before those that are timed.
const warm = 3

// Report is how a net was loaded, and how long calls of its groups took.
type Report struct {
	Net    string        `json:"net"` // its file
	Device string        `json:"device"`
	Load   time.Duration `json:"load_ns"`
	Card   int64         `json:"card_memory_bytes"` // that the load took; 0: the device has none of its own, or does not tell
	Warm   int           `json:"calls_before"`      // that are not timed
	Groups []Timing      `json:"groups"`
}

// times times calls of each group, with zeros for inputs. A call is timed with its transfers.
func times(ctx context.Context, n Net, calls int) (all []Timing, err error) {
	for g := range n.Groups() {
		in, err := Inputs(n, g, nil, true)
		if err != nil {
			return nil, err
		}
		t := Timing{Group: g, Calls: calls}
		ins, outs := n.Tensors(g)
		for _, one := range slices.Concat(ins, outs) {
			t.Bytes += one.Size
		}
		var took []time.Duration
		for i := range warm + calls {
			_, d, err := n.Run(ctx, g, in)
			if err != nil {
				return nil, err
			}
			if i >= warm {
				took = append(took, d)
				t.Mean += d
			}
		}
		slices.Sort(took)
		t.Least, t.Median, t.Largest, t.Mean = took[0], took[len(took)/2], took[len(took)-1], t.Mean/time.Duration(calls)
		all = append(all, t)
	}
	return all, nil
}

// Measure times calls of the net that was loaded from the file.
func (l *Loaded) Measure(ctx context.Context, calls int) (Report, error) {
	all, err := times(ctx, l, calls)
	return Report{Net: l.path, Device: l.device, Load: l.took, Card: l.card, Warm: warm, Groups: all}, err
}

// Text writes the report for people. n is the net.
func (r Report) Text(w io.Writer, n Net) error {
	fmt.Fprintf(w, "%s: calls of a single net with zeros for inputs, %d before them not counted\n\n", plain.Line(r.Net), r.Warm)
	memory := ""
	if r.Card > 0 {
		memory = ", which took " + ask.HumanBytes(r.Card) + " of card memory"
	}
	fmt.Fprintf(w, "on %s, loaded in %v%s\n\n", plain.Line(r.Device), r.Load.Round(time.Millisecond), memory)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "GROUP\tCALLS\tLEAST\tMEDIAN\tMEAN\tLARGEST\tLINK\tINPUTS\t\n")
	for _, g := range r.Groups {
		in, _ := n.Tensors(g.Group)
		us := func(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
		fmt.Fprintf(t, "%d\t%d\t%v\t%v\t%v\t%v\t%.1f KB\t%s\t\n", g.Group, g.Calls, us(g.Least), us(g.Median), us(g.Mean), us(g.Largest),
			float64(g.Bytes)/1e3, plain.Line(list(in)))
	}
	return t.Flush()
}

// Loaded is a net on a card that was opened for it. Close it.
type Loaded struct {
	*engine.Net
	cards        *engine.Cards
	path, device string
	took         time.Duration
	card         int64 // bytes of its memory
}

// Open opens the device for one net, and loads it.
func Open(ctx context.Context, device, path string) (*Loaded, error) {
	cards, err := engine.OpenCards(device, engine.CardOptions{})
	if err != nil {
		return nil, err
	}
	c := cards.Copies[0]
	free := func() (n int64, err error) {
		err = c.Do(ctx, func(axcl.Device) error { return c.Refresh() })
		return c.Info().FreeCMM, err
	}
	l := &Loaded{cards: cards, path: path, device: c.Info().ID}
	before, err := free()
	if err == nil {
		begun := c.Now()
		if l.Net, err = engine.LoadNet(ctx, c, path); err == nil {
			l.took = c.Now() - begun
			after, lost := free()
			if l.card, err = max(before-after, 0), lost; err != nil {
				err = errors.Join(err, l.Net.Close())
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, cards.Close())
	}
	return l, nil
}

// Close takes the net off the card, and closes the card.
func (l *Loaded) Close() error { return errors.Join(l.Net.Close(), l.cards.Close()) }
