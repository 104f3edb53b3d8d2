//go:build cgo && !fake && linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
)

// TestRerankNative is TestRerank through the vendor's ABI.
func TestRerankNative(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	dir, ck := rerankPackage(t)
	open, _ := onSim(t, "hazards=strict")
	testRerank(t, dir, ck, open)
}

// TestTextEncoderNative is TestTextEncoder through the vendor's ABI.
func TestTextEncoderNative(t *testing.T) {
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testTextEncoder(t, open)
}

// TestEmbeddingGemmaNative is TestEmbeddingGemma through the vendor's ABI.
func TestEmbeddingGemmaNative(t *testing.T) {
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testEmbeddingGemma(t, open)
}

// TestAdaptersNative is TestAdapters through the vendor's ABI.
func TestAdaptersNative(t *testing.T) {
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testAdapters(t, open)
}

// TestJinaNative is TestJina through the vendor's ABI.
func TestJinaNative(t *testing.T) {
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testJina(t, open)
}

// onSim configures the simulated card for one test, and gives what opens it.
func onSim(t testing.TB, config string) (open func() (axcl.Device, string, error), sim *simhook.Sim) {
	t.Helper()
	sim = simcardtest.Attach(t, config, true)
	return func() (axcl.Device, string, error) { return cards.Open("axcl") }, sim
}

// clockOf is the simulated card's clock.
func clockOf(sim *simhook.Sim) func() time.Duration {
	return func() time.Duration { return time.Duration(sim.Clock()) }
}

// TestSameTokensNative (G12) is TestSameTokens through the vendor's ABI: one set of conversations,
// the truth from the same card.
func TestSameTokensNative(t *testing.T) {
	//proves:G12
	//proves:G17
	lane.Slow(t)
	lane.NoRace(t)
	dir := compiled(t, "qwen3")
	var jobs []Job
	var want [][]int32
	t.Run("alone", func(t *testing.T) {
		open, _ := onSim(t, "hazards=strict")
		_, alone := load(t, dir, open, OpenOptions{Parallel: 1, Proven: &Proven{}})
		jobs, want = edits(77, editsOr(150), axmodeltest.Vocab, 95, truthOn(t, alone))
	})
	for name, w := range ways(jobs) {
		t.Run(name, func(t *testing.T) {
			open, _ := onSim(t, "hazards=strict")
			_, b := load(t, dir, open, w.o)
			sameEverywhere(t, b, w.jobs, want, 4)
		})
	}
	for hazard, proven := range map[string]Proven{
		"positions-first": {Chunk: true, Scatter: true},
		"mask-shared":     {Chunk: true, Scatter: true},
		"cells-ordered":   {Chunk: true},
		"kv-inplace":      {Chunk: true, Mixed: true, Scatter: true},
		"shortchunk":      {Chunk: true, Mixed: true, Scatter: true},
	} {
		t.Run(hazard, func(t *testing.T) {
			open, _ := onSim(t, "hazards=strict,"+hazard)
			_, b := load(t, dir, open, OpenOptions{CardOptions: still})
			if b.m.proven != proven || b.m.shape.Place == (hazard == "kv-inplace") {
				t.Errorf("proven %+v, in place %v; want %+v", b.m.proven, b.m.shape.Place, proven)
			}
			sameEverywhere(t, b, jobs[:60], want[:60], 5)
		})
	}
}

// TestLongPromptsNative (G23) is TestLongPrompts through the vendor's ABI, the truth from the
// software card: all prompts with every hazard on but `offline`, where no call reaches the card;
// and every second one on a card that has all abilities, so that several prompts share passes.
func TestLongPromptsNative(t *testing.T) {
	//proves:G23
	lane.Slow(t)
	lane.NoRace(t)
	l := long(t)
	for _, c := range []struct {
		off    string
		step   int
		proven Proven
	}{
		{"", 1, Proven{Chunk: true}},
		{",-positions-first,-mask-shared,-cells-ordered,-kv-inplace", 2, Proven{Chunk: true, Mixed: true, Scatter: true}},
	} {
		hazards := "all,-offline" + c.off
		t.Run(hazards, func(t *testing.T) {
			open, _ := onSim(t, "hazards="+hazards+"\nstate="+t.TempDir()) // wedge and leak need a folder
			_, b := load(t, l.dir, open, OpenOptions{CardOptions: still})
			if b.m.proven != c.proven {
				t.Errorf("proven %+v, want %+v", b.m.proven, c.proven)
			}
			l.same(t, b, c.step)
		})
	}
}

// TestDiskNative is TestDiskSameTokens through the vendor's ABI.
func TestDiskNative(t *testing.T) {
	//proves:G20 500 edits
	lane.Slow(t)
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	sameOnDisk(t, open, editsOr(40))
}

// TestStatesOnDiskNative is TestStatesPackageOnDisk through the vendor's ABI.
func TestStatesOnDiskNative(t *testing.T) {
	//proves:G20
	open, _ := onSim(t, "hazards=strict")
	statesOnDisk(t, open, editsOr(6))
}

// TestCardMemory (D2): a load that fails or is cancelled leaves the card's memory as it was, and a
// model beside it running.
func TestCardMemory(t *testing.T) {
	//proves:D2
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	testMemory(t, func(config string) func() (axcl.Device, string, error) {
		open, _ := onSim(t, strings.TrimSpace("hazards=strict\n"+config))
		return open
	})
}

// TestTwoCards: replicas, and a model split by layers, over two simulated cards say what one card
// says.
func TestTwoCards(t *testing.T) {
	dir := compiled(t, "qwen3")
	prompts := [][]int32{{5, 6, 7}, {5, 6, 8, 9}, {30, 2}, {5, 6, 7, 1, 4}}
	var want [][]int32
	for _, device := range []string{"axcl:0", "axcl:1", "axcl:0,axcl:1", "axcl:0+axcl:1"} {
		t.Run(device, func(t *testing.T) {
			onSim(t, "hazards=strict\ndevices=2")
			m, err := Open(context.Background(), dir, OpenOptions{Device: device})
			if err != nil {
				t.Fatal(err)
			}
			got := make([][]int32, len(prompts))
			var wg sync.WaitGroup
			for i, ids := range prompts {
				wg.Go(func() {
					out, _, err := run(m.b, greedy(ids, 20))
					if err != nil {
						t.Error(err)
					}
					got[i] = out
				})
			}
			wg.Wait()
			if want == nil {
				want = got
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	onSim(t, "hazards=strict\ndevices=2")
	for _, device := range []string{"axcl:0,axcl:0", "axcl:0+axcl:0", "axcl:0,axcl:7"} {
		if _, err := Open(context.Background(), dir, OpenOptions{Device: device}); !errors.Is(err, axcl.ErrNoDevice) {
			t.Errorf("%s: %v, want ErrNoDevice", device, err)
		}
	}
}

// TestPrediction (D3): what a load takes on the card is what was predicted from the files; a little
// may be left over, nothing may lack.
func TestPrediction(t *testing.T) {
	open, _ := onSim(t, "hazards=strict")
	card, err := OpenCard(open, CardOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer card.Close()
	dir := t.TempDir()
	shape := axmodel.Qwen3Small()
	shape.Layers, shape.Vocab = 4, 4000 // the rest as it is: groups, widths, context
	shape.LayerBytes, shape.HeadBytes = shape.LayerBytes+1, shape.HeadBytes/38+1
	if err := axmodel.WriteShape(dir, shape); err != nil {
		t.Fatal(err)
	}
	sees, _ := sightPackage(t, axmodeltest.SightArchs()[0])
	for _, dir := range []string{dir, compiled(t, "qwen3"), compiled(t, "gemma4"), compiled(t, "gemma4-plain"), sees} {
		p, err := models.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := card.Do(context.Background(), func(d axcl.Device) error {
			before, err := d.Info()
			if err != nil {
				return err
			}
			m, err := axcl.Load(context.Background(), d, axcl.LoadSpec{Layers: p.Layers, Head: p.Head, Source: p.Sources()})
			if err != nil {
				return err
			}
			defer m.Close()
			if v, err := p.Vision(); err != nil || (v != nil) != (dir == sees) {
				return fmt.Errorf("%s: it sees: %v, %w", dir, v, err)
			} else if v != nil {
				n, err := d.LoadNet(v.Path)
				if err != nil {
					return err
				}
				defer n.Close()
			}
			after, err := d.Info()
			want, took := p.Memory(), before.FreeCMM-after.FreeCMM
			if spare := want.Card - took; spare < 0 || spare > took/100 && spare > 16*4096 {
				t.Errorf("%d bytes were taken, %d predicted (%+v)", took, want.Card, want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRoomToLoad (D3): the library holds each file beside the model while it loads it. A card that
// has room for the model and not for that is refused beforehand, with the number that is needed;
// one that has it just so loads, the largest file being the first.
func TestRoomToLoad(t *testing.T) {
	//proves:D3
	dir := t.TempDir()
	shape := axmodel.Shape{Name: "qwen3", Layers: 4, Hidden: 64, Heads: 4, KVHeads: 2, HeadDim: 16, Intermediate: 96, Vocab: 1000,
		Context: 127, Chunk: 16,
		History: []int{0, 32}, LayerBytes: 4 << 20, HeadBytes: 32 << 20}
	if err := axmodel.WriteShape(dir, shape); err != nil {
		t.Fatal(err)
	}
	const idle, most = 18, 2 * 32 // MiB that a card has in use itself, and that the head and its file take
	for _, tt := range []struct {
		cmm int
		fit bool
	}{{idle + most - 1, false}, {idle + most, true}} {
		open, _ := onSim(t, fmt.Sprintf("hazards=default\ncmm=%d", tt.cmm))
		card, err := OpenCard(open, CardOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Open(context.Background(), dir, OpenOptions{Card: card})
		var me *MemoryError
		switch {
		case tt.fit && err != nil:
			t.Errorf("%d MiB: %v", tt.cmm, err)
		case !tt.fit && (!errors.As(err, &me) || me.Need != most<<20 || me.Free >= me.Need):
			t.Errorf("%d MiB: %v, want a MemoryError that needs %d MiB", tt.cmm, err, most)
		}
		if err == nil {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := card.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestRepeatableNative: the simulated card adds in float32, in the order of its cells. What a
// repeatable request gives there does not depend on what the card did before.
func TestRepeatableNative(t *testing.T) {
	//proves:G14
	lane.Slow(t)
	open, _ := onSim(t, "hazards=default")
	dir := compiled(t, "qwen3")
	jobs := jobsFor(5, 10, 200, 40)
	var first []string
	for _, job := range jobs {
		m, err := Open(context.Background(), dir, OpenOptions{Device: "axcl", CardOptions: CardOptions{NoSpeculate: true}})
		if err != nil {
			t.Fatal(err)
		}
		first = append(first, said(t, m.b, job))
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, b := load(t, dir, open, OpenOptions{Parallel: 6})
	t.Logf("alike: %+v", b.m.prover.alike)
	var wg sync.WaitGroup
	got := make([]string, 3*len(jobs))
	for i := range got {
		wg.Go(func() {
			job := jobs[i%len(jobs)]
			job.Repeatable = i%2 == 0
			got[i] = said(t, b, job)
		})
	}
	wg.Wait()
	others := 0
	for i, s := range got {
		switch same := s == first[i%len(jobs)]; {
		case !same && i%2 == 0:
			t.Errorf("request %d: another answer than the first:\n%s\n%s", i, s, first[i%len(jobs)])
		case !same:
			others++
		}
	}
	t.Logf("%d of %d ordinary answers are others", others, len(got)/2)
}

// TestWindowNative is TestWindow through the vendor's ABI.
func TestWindowNative(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testWindow(t, open)
}

// TestStatesNative is TestStatesPackage through the vendor's ABI.
func TestStatesNative(t *testing.T) {
	open, _ := onSim(t, "hazards=strict")
	computes(t, compiled(t, "qwen3_5"), open)
	_, b := load(t, compiled(t, "qwen3_5"), open, OpenOptions{Parallel: 16, CardOptions: still})
	if want := (Proven{Chunk: true, Scatter: true, Kept: true}); b.m.proven != want {
		t.Fatalf("%+v", b.m.proven)
	}
	jobs, want := edits(5, 25, axmodeltest.Vocab, 95, truthOn(t, b))
	sameEverywhere(t, b, jobs, want, 3)
}

// TestStatesHazards: a card whose wide groups let padding into the state, or take the state to be
// zero, is found out, and gives the tokens of one that does neither; so does one that does not list
// all inputs.
func TestStatesHazards(t *testing.T) {
	dir := compiled(t, "qwen3_5")
	var jobs []Job
	var want [][]int32
	for _, c := range []struct {
		hazards string
		stepped bool
	}{{"strict", false}, {"strict,unlisted", false}, {"strict,state-padding", true}, {"strict,state-cold", false}} {
		t.Run(c.hazards, func(t *testing.T) {
			open, _ := onSim(t, "hazards="+c.hazards)
			_, b := load(t, dir, open, OpenOptions{Parallel: 4, CardOptions: still})
			if want := (Proven{Chunk: true, Scatter: true, Kept: true, Stepped: c.stepped}); b.m.proven != want {
				t.Errorf("%+v, want %+v", b.m.proven, want)
			}
			if jobs == nil {
				jobs, want = edits(6, 12, axmodeltest.Vocab, 95, truthOn(t, b))
			}
			sameEverywhere(t, b, jobs, want, 3)
		})
	}
}

// TestWholeNative is TestWhole through the vendor's ABI.
func TestWholeNative(t *testing.T) {
	//proves:G12
	lane.Slow(t)
	lane.NoRace(t)
	testWhole(t, func(t *testing.T) func() (axcl.Device, string, error) {
		open, _ := onSim(t, "hazards=strict")
		return open
	})
}

// TestLayerInputsNative is TestLayerInputs through the vendor's ABI.
func TestLayerInputsNative(t *testing.T) {
	//proves:G22
	lane.Slow(t)
	lane.NoRace(t)
	testLayerInputs(t, axmodeltest.Gemma4Archs()[0], []int{24}, 12, func(t *testing.T) func() (axcl.Device, string, error) {
		open, _ := onSim(t, "hazards=strict")
		return open
	})
}

// TestSightNative is TestSightPackage through the vendor's ABI.
func TestSightNative(t *testing.T) {
	//proves:G19 against float64, from the pixels on
	lane.Slow(t)
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testSightPackage(t, open)
}

// TestSightStatesNative is TestSightStates through the vendor's ABI.
func TestSightStatesNative(t *testing.T) {
	//proves:G19
	lane.Slow(t)
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testSightStates(t, open)
}

// TestEmbedTurnsNative is TestEmbedTurns through the vendor's ABI.
func TestEmbedTurnsNative(t *testing.T) {
	//proves:G19
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testEmbedTurns(t, open)
}

// TestLocateNative is TestLocate through the vendor's ABI.
func TestLocateNative(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testLocate(t, open)
}

// TestProbesNative is TestProbes through the vendor's ABI.
func TestProbesNative(t *testing.T) {
	lane.Slow(t)
	open, _ := onSim(t, "hazards=strict")
	testProbes(t, open)
}

// TestLayerInputsUnsound: a card that gets shared K/V or layer inputs wrong does not run such a
// model: nothing of it is left there, and the error names the check and the way out.
func TestLayerInputsUnsound(t *testing.T) {
	a := axmodeltest.Gemma4Archs()[0]
	a.Window = 24
	dir, _ := gemma4Package(t, a)
	for hazard, want := range map[string]string{
		"share-ignored":  `"shared K and V": layer 4, which uses the K and V of layer 3, gives the same whatever are the values of a cell`,
		"share-stale":    `"shared K and V": layer 4, which uses the K and V of layer 3, gives the same whatever are the values of the row`,
		"width-first":    `the check "shared K and V": layer 5, which uses the K and V of layer 2, `,
		"inputs-ignored": `the check "layer inputs": layer 0 gives the same whatever its inputs are`,
		"inputs-first":   `the check "rows together": row 2 of 4 that share a call gives something else than alone`,
	} {
		t.Run(hazard, func(t *testing.T) {
			open, sim := onSim(t, "hazards=strict,"+hazard)
			dev, err := OpenCard(open, still)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			_, err = Open(context.Background(), dir, OpenOptions{Card: dev})
			if !errors.Is(err, ErrUnsound) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--device soft") {
				t.Errorf("%v, want %s", err, want)
			}
			if n := sim.Live(); n.Models+n.IOs > 0 {
				t.Errorf("left on the card: %+v", n)
			}
		})
	}
}

// TestOldRecord: what a card was once found to do is believed only where the record says that the
// model's own checks were among it.
func TestOldRecord(t *testing.T) {
	dir, _ := gemma4Package(t, axmodeltest.Gemma4Archs()[0])
	p, err := models.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	o := OpenOptions{Remember: t.TempDir()}
	for record, believed := range map[string]bool{"{}": false, `{"Head":1,"Groups":[1]}`: false, `{"Sound":true,"Head":1,"Groups":[1]}`: true} {
		_, file := recall(p, axcl.Info{}, o)
		if err := os.WriteFile(file, []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
		if kept, _ := recall(p, axcl.Info{}, o); (kept != nil) != believed {
			t.Errorf("%s: believed: %v", record, kept != nil)
		}
	}
}
