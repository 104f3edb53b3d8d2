//go:build cgo && !fake && linux

package native

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/graph"
)

// TestOracleGraphs: nets of random operations give on the simulated card what float64 gives, over
// both tables, and what is easily mistaken is as the libraries have it that nets come from.
func TestOracleGraphs(t *testing.T) {
	seeds := 12
	if testing.Short() {
		seeds = 2
	}
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		dir, worst := t.TempDir(), 0.0
		if err := axmodeltest.GraphGoldens(d, dir); err != nil {
			t.Error(err)
		}
		for _, op := range axmodeltest.GraphOps {
			for seed := range uint64(seeds) {
				c, err := axmodeltest.RandomGraph(op, seed)
				if err != nil {
					t.Fatalf("%s, seed %d: %v", op, seed, err)
				}
				off, err := axmodeltest.AgainstGraph(d, dir, c)
				if err != nil {
					t.Errorf("%s, seed %d, %v: %v", op, seed, c.Ops, err)
				}
				worst = max(worst, off)
			}
		}
		t.Logf("the worst is %.3f of what is allowed", worst)
	})
}

// TestNamed: a card is given the nets whose executes it answers, which the version of its library
// says. On its own board there is no message, and no such limit.
func TestNamed(t *testing.T) {
	net := func(t *testing.T, tensors int) string {
		g := graph.New()
		var x []graph.Value
		for i := range tensors {
			if i < 20 {
				x = append(x, g.Input(fmt.Sprint("x", i), axcl.FP32, 1, 2))
			} else {
				g.Output(fmt.Sprint("y", i), axcl.FP32, g.Add(x[i%20], g.Scalar(float32(i))))
			}
		}
		path := filepath.Join(t.TempDir(), "net.axmodel")
		if err := g.Save(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		version string
		most    int
	}{{"2.20.0", 50}, {"3.10.2", 50}, {"3.15.9", 50}, {"3.16.0", 72}, {"4.0.0", 72}} {
		onCard(t, "version="+c.version, func(t *testing.T, k Kind, _ *simhook.Sim) {
			d := open(t, k)
			defer closeAll(t, d)
			n, err := d.LoadNet(net(t, c.most))
			if err != nil {
				t.Fatalf("%s: %v", c.version, err)
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
			_, err = d.LoadNet(net(t, c.most+1))
			if k == Engine {
				if err != nil {
					t.Errorf("on board: %v", err)
				}
				return
			}
			major, _, _ := strings.Cut(c.version, ".")
			if !errors.Is(err, axcl.ErrModel) || axcl.Fatal(err) || !strings.Contains(err.Error(), "with AXCL "+major+".") ||
				!strings.Contains(err.Error(), fmt.Sprintf("no execute of more than %d together", c.most)) ||
				strings.Contains(err.Error(), "of up to 72 AXCL 3.16") != (c.most == 50) {
				t.Errorf("%s: %v", c.version, err)
			}
		})
	}
}

// TestSweepGraph fails every call in the life of a net with several inputs, outputs and groups:
// faults surface, but for those of calls that only name things, nothing is left on the card, and
// the next life is as good as the first.
func TestSweepGraph(t *testing.T) {
	c, err := axmodeltest.RandomGraph("add", 4)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "net.axmodel")
	if err := c.Graphs[0].Save(path, c.Graphs[1:]...); err != nil {
		t.Fatal(err)
	}
	life := func(k Kind) error {
		d, err := Open(k, 0)
		if err != nil {
			return err
		}
		n, err := d.LoadNet(path)
		if err != nil {
			return worse(err, d.Close())
		}
		for g, in := range c.In {
			out := map[string][]byte{}
			for _, x := range n.Outputs(g) {
				out[x.Name] = make([]byte, x.Size)
			}
			if e := n.Run(g, in, out); err == nil {
				err = e
			}
		}
		for _, e := range []error{n.Close(), d.Close()} {
			if err == nil {
				err = e
			} else {
				err = worse(err, e)
			}
		}
		return err
	}
	onCard(t, "", func(t *testing.T, k Kind, sim *simhook.Sim) {
		if err := life(k); err != nil {
			t.Fatal(err)
		}
		calls, silent := int(sim.Calls("")), 0
		for i := range calls {
			configure(t, sim, fmt.Sprintf("fault=*:%d:0x%08x", i, sweepCodes[i%len(sweepCodes)]))
			err := life(k)
			if err == nil {
				silent++
			}
			if left := handles(k); left != 0 {
				t.Fatalf("call %d: %d handles are left open; the error: %v", i, left, err)
			}
			if n, m := sim.Live(), sim.Left(); !axcl.Fatal(err) && (n != (simhook.Counts{}) || m != (simhook.Counts{})) {
				t.Fatalf("call %d: left on the card: %+v, cleared up by the library: %+v; the error: %v", i, n, m, err)
			}
			if err := sim.Reset(); err != nil {
				t.Fatal(err)
			}
			revive(k)
		}
		configure(t, sim, "")
		if err := life(k); err != nil {
			t.Fatalf("after all faults: %v", err)
		}
		if silent > len(quiet)+1 { // one more where the card is asked for its state, and does not tell in time
			t.Errorf("%d faults of %d did not surface", silent, calls)
		}
	})
}

// TestGraphReaders: whatever a damaged net still is to the reader in Go, it is to the one in C,
// which lists the same tensors; what the one refuses the other does too.
func TestGraphReaders(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	onCard(t, "", func(t *testing.T, k Kind, _ *simhook.Sim) {
		d := open(t, k)
		defer closeAll(t, d)
		nets, refused, path := 0, 0, filepath.Join(t.TempDir(), "net.axmodel")
		for i, op := range axmodeltest.GraphOps {
			c, err := axmodeltest.RandomGraph(op, uint64(i))
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := graph.Write(&b, axmodel.Header{}, c.Graphs...); err != nil {
				t.Fatal(err)
			}
			for range 60 {
				damaged := bytes.Clone(b.Bytes())
				at := int(binary.LittleEndian.Uint64(damaged[192:])) + 4*rng.IntN(int(binary.LittleEndian.Uint64(damaged[200:]))/4)
				binary.LittleEndian.PutUint32(damaged[at:], uint32(rng.IntN(12)-2))
				if err := os.WriteFile(path, damaged, 0o600); err != nil {
					t.Fatal(err)
				}
				m, err := axmodel.ReadFile(path)
				if err != nil {
					if refused++; k == AXCL {
						continue // whose library loses the card over it; it is the same reader
					}
					if n, e := d.loadNet(path); e == nil {
						t.Errorf("%v, word at %d is %d: the card takes it, the reader in Go refuses it: %v", c.Ops, at,
							int32(binary.LittleEndian.Uint32(damaged[at:])), err)
						_ = n.Close()
					}
					continue
				}
				nets++
				n, err := d.loadNet(path)
				if err != nil {
					t.Fatalf("%v, word at %d: %v", c.Ops, at, err)
				}
				for g := range m.Groups {
					for x, y := range map[*axcl.Tensor]axcl.Tensor{&n.Inputs(g)[0]: m.Groups[g].Inputs[0],
						&n.Outputs(g)[0]: m.Groups[g].Outputs[0]} {
						if fmt.Sprint(x.Shape) != fmt.Sprint(y.Shape) || x.Size != y.Size {
							t.Errorf("%v, word at %d, group %d: %+v on the card, in the file %+v", c.Ops, at, g, *x, y)
						}
					}
				}
				if err := n.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if nets < 100 {
			t.Errorf("only %d damaged files are still nets", nets)
		}
		if refused < 100 {
			t.Errorf("only %d damaged files are none", refused)
		}
	})
}

// BenchmarkGraphWhisper is the encoder of Whisper tiny on 30 s of sound, on the simulated card.
func BenchmarkGraphWhisper(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d := open(b, AXCL)
	defer closeAll(b, d)
	c, path := axmodeltest.WhisperCase(axmodeltest.WhisperTiny), filepath.Join(b.TempDir(), "tiny.axmodel")
	if err := c.Graphs[0].Save(path); err != nil {
		b.Fatal(err)
	}
	n, err := d.LoadNet(path)
	if err != nil {
		b.Fatal(err)
	}
	out := map[string][]byte{}
	for _, t := range n.Outputs(0) {
		out[t.Name] = make([]byte, t.Size)
	}
	for b.Loop() {
		if err := n.Run(0, c.In[0], out); err != nil {
			b.Fatal(err)
		}
	}
}
