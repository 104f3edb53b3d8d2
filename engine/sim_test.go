//go:build cgo && !fake && linux

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/axcl/native"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/simcard"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
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

// TestSenseVoiceNative is TestSenseVoice through the vendor's ABI.
func TestSenseVoiceNative(t *testing.T) {
	lane.NoRace(t)
	open, _ := onSim(t, "hazards=strict")
	testSenseVoice(t, open)
}

// TestQwenASRNative is TestQwenASR and TestSoundRows through the vendor's ABI, of the card and of
// the board.
func TestQwenASRNative(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	t.Run("card", func(t *testing.T) {
		open, _ := onSim(t, "hazards=strict")
		t.Run("text", func(t *testing.T) { testQwenASR(t, open) })
		t.Run("rows", func(t *testing.T) { testSoundRows(t, open) })
	})
	t.Run("board", func(t *testing.T) {
		onSim(t, "hazards=strict")
		libs, err := simcard.Build("")
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(native.EnvEngine, filepath.Dir(libs.Engine))
		open := func() (axcl.Device, string, error) { return cards.Open("axengine") }
		t.Run("text", func(t *testing.T) { testQwenASR(t, open) })
		t.Run("rows", func(t *testing.T) { testSoundRows(t, open) })
	})
}

// TestWhisperNative is TestWhisper through the vendor's ABI, of the card and of the board.
func TestWhisperNative(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	onBoth(t, "", testWhisper)
}

// newer is the version of AXCL with which a card answers an execute of an encoder that has as many
// states as a Zipformer's.
const newer = "\nversion=3.16.0"

// TestZipformerNative is TestZipformer through the vendor's ABI, of the card and of the board.
func TestZipformerNative(t *testing.T) {
	lane.NoRace(t)
	onBoth(t, newer, testZipformer)
}

// TestZipformerOldLibrary: on a card that would not answer the encoder's calls the model is not
// loaded, and the error says what does.
func TestZipformerOldLibrary(t *testing.T) {
	open, _ := onSim(t, "hazards=strict")
	dir := t.TempDir()
	if err := (modelstest.Zipformer{Seed: 2, Layout: "HY"}).Write(dir); err != nil {
		t.Fatal(err)
	}
	p, err := models.OpenAny(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c, err := OpenCard(open, CardOptions{Check: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := OpenAny(t.Context(), p, OpenOptions{Card: c}); !errors.Is(err, axcl.ErrModel) ||
		!strings.Contains(err.Error(), "with AXCL 3.10 a card answers no execute of more than 50 together") ||
		!strings.Contains(err.Error(), "AXCL 3.16") {
		t.Error(err)
	}
}

// onBoth runs a test on the simulated card behind a link and on its own board.
func onBoth(t *testing.T, more string, test func(*testing.T, func() (axcl.Device, string, error))) {
	t.Run("card", func(t *testing.T) {
		open, _ := onSim(t, "hazards=strict"+more)
		test(t, open)
	})
	t.Run("board", func(t *testing.T) {
		onSim(t, "hazards=strict"+more)
		libs, err := simcard.Build("")
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(native.EnvEngine, filepath.Dir(libs.Engine))
		test(t, func() (axcl.Device, string, error) { return cards.Open("axengine") })
	})
}

// TestWhisperLink: of what is heard and said before, nothing crosses the link. A token costs layout
// A four transfers: itself, its place and the mask up, and the logits down. Layout B has the new
// rows of all layers down in addition, and each layer's up to its place.
func TestWhisperLink(t *testing.T) {
	lane.NoRace(t)
	const layers, row, mask, mel = 2, 4 * 64, 4 * 448, 4 * 80 * 3000
	for _, e := range []modelstest.Whisper{{Seed: 1, Layout: "A", Layers: layers}, {Seed: 2, Layout: "B", Layers: layers}} {
		t.Run(e.Layout, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "trace")
			open, _ := onSim(t, "hazards=strict\ntrace="+trace)
			m, c, _ := onCard(t, e.Write, open, OpenOptions{})
			before := crossed(t, c, trace)
			heardAll(t, m, babble(1, 5), "en")
			got := crossed(t, c, trace)
			got = link{got.copies - before.copies, got.up - before.up, got.down - before.down}
			calls := int(m.Stats().Passes["transcribe"])
			logits := 4 * e.IDs().Vocab
			want, tokens, each := link{1, mel, 0}, calls-1, link{4, 4 + 4 + mask + 2*layers*row, logits + 2*layers*row}
			if each.copies += 2 + 2*layers; e.Layout == "A" {
				want = link{3, mel + 4*4, 4 * logits} // four tokens together, first
				tokens, each = calls-2, link{4, 4 + row + mask, logits}
			}
			want = link{want.copies + tokens*each.copies, want.up + tokens*each.up, want.down + tokens*each.down}
			if got != want || tokens < 5 {
				t.Errorf("%d tokens in %d calls: %+v, want %+v", tokens, calls, got, want)
			}
		})
	}
}

// TestKokoroNative is TestKokoro through the vendor's ABI, of the card and of the board.
func TestKokoroNative(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	onBoth(t, "", testKokoro)
}

// TestKokoroLink: a piece costs fifteen transfers. What only the last net takes of the second stays
// on the card.
func TestKokoroLink(t *testing.T) {
	lane.NoRace(t)
	open, sim := onSim(t, "hazards=strict")
	m, _, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), open, OpenOptions{})
	copied := sim.Crossings()
	n := len(spokenAll(t, m, SpeakRequest{Text: "Hello, world. The cat. Cat."}))
	if copied = sim.Crossings() - copied; n != 3 || copied != uint64(15*n) {
		t.Errorf("%d copies for %d pieces", copied, n)
	}
}

// link is what crossed it: copies, and their bytes in both directions.
type link struct{ copies, up, down int }

// crossed is what a trace says of a card at rest.
func crossed(t *testing.T, c *Card, trace string) (l link) {
	t.Helper()
	if err := c.Do(t.Context(), func(axcl.Device) error { return nil }); err != nil {
		t.Fatal(err)
	}
	r, err := simcardtest.ReadCalls(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	calls, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		var bytes int
		_, rest, ok := strings.Cut(call, " count=")
		if !ok {
			continue
		}
		if _, err := fmt.Sscan(rest, &bytes); err != nil {
			t.Fatal(call, err)
		}
		switch {
		case strings.Contains(rest, "kind=1"):
			l.copies, l.up = l.copies+1, l.up+bytes
		case strings.Contains(rest, "kind=2"):
			l.copies, l.down = l.copies+1, l.down+bytes
		}
	}
	return l
}

// TestZipformerLink: states stay on the card. Of a call of the encoder its frames and rows cross
// the link, of the decoder two symbols, of the joiner a row and logits. Transcriptions for which
// there is no set of states move theirs, and hear the same.
func TestZipformerLink(t *testing.T) {
	lane.NoRace(t)
	open, sim := onSim(t, "hazards=strict"+newer)
	e := modelstest.Zipformer{Seed: 2, Layout: "HY"}
	m, _, _ := onCard(t, e.Write, open, OpenOptions{})
	count := func(f func()) (copied, calls uint64) {
		copied, calls = sim.Crossings(), m.Stats().Passes["transcribe"]
		f()
		return sim.Crossings() - copied, m.Stats().Passes["transcribe"] - calls
	}
	samples := babble(1, 3)
	want := heardAll(t, m, samples, "")
	spoken := 0
	for _, s := range want {
		spoken += len(s.Tokens)
	}
	steps := uint64((len(samples)+4800+80)/160-7+31) / 32
	copied, calls := count(func() { heardAll(t, m, samples, "") })
	// Each step has one call of the encoder and eight of the joiner. The rest are the decoder's:
	// one behind each symbol, and one or none at the beginning of an utterance.
	said := calls - 9*steps
	if said < uint64(spoken) || said > uint64(spoken)+4 || copied != 2*9*steps+said {
		t.Errorf("%d copies in %d calls, of them %d of the decoder, for %d symbols", copied, calls, said, spoken)
	}
	const clients = models.ZipformerSets + 1
	together, calls := count(func() {
		var g sync.WaitGroup
		for i := range clients {
			g.Go(func() {
				got, err := transcribed(t.Context(), m, TranscribeRequest{Sound: hearing(samples), Key: fmt.Sprint(i)})
				if err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("%d: %v\n got %+v\nwant %+v", i, err, got, want)
				}
			})
		}
		g.Wait()
	})
	t.Logf("%d copies in %d calls alone, %d in %d of %d together", copied, 9*steps+said, together, calls, clients)
	if together < clients*copied+2*35 {
		t.Errorf("%d transcriptions took %d copies, one alone %d: no states were moved", clients, together, copied)
	}
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
