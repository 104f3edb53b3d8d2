//go:build cgo && !fake && linux

package engine

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/axcl/native"
	"github.com/axle-llm/axle/axcl/simcard"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

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
	onBoth(t, "", func(t *testing.T, open func() (axcl.Device, string, error)) {
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

// newer is the version of AXCL with which a card answers an execute of an encoder that has as many
// states as a Zipformer's.
const newer = "\nversion=3.16.0"

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
