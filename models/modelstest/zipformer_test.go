package modelstest_test

import (
	"math"
	"strings"
	"testing"

	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestZipformer: in both packings the nets give what the definitions give in float64, call after
// call. Speech has symbols and blanks, and silence blanks alone.
func TestZipformer(t *testing.T) {
	lane.NoRace(t)
	testZipformer(t, softCard(t))
}

func testZipformer(t *testing.T, d axcl.Device) {
	for _, e := range []modelstest.Zipformer{{Seed: 1, Layout: "Axera"}, {Seed: 2, Layout: "HY"}, {Seed: 3, Layout: "HY", Full: true}} {
		dir := t.TempDir()
		if err := e.Write(dir); err != nil {
			t.Fatal(err)
		}
		encoder, decoder := load(t, d, e.Path(dir, "encoder")), load(t, d, e.Path(dir, "decoder"))
		joiner := load(t, d, e.Path(dir, "joiner"))
		if e.Full && (len(e.Symbols()) != 6254 || joiner.Outputs(0)[0].Shape[1] != 6254) {
			t.Errorf("%d symbols", len(e.Symbols()))
		}
		seconds := 3
		if testing.Short() || e.Full {
			seconds = 2
		}
		o, states := e.Oracle(), zeroStates(encoder)
		last := [2]int32{}
		count := map[int]int{}
		for i, x := range zipCalls(e, spoken(e.Seed, seconds)) {
			states["x"] = floats(x)
			out := call(t, encoder, states)
			want := o.Hear(x)
			near(t, "encoder_out", rowsOf(out["encoder_out"], 512), want)
			states = nextStates(out)
			context := call(t, decoder, map[string][]byte{"y": ints(last[:]...)})["decoder_out"]
			for r := range want {
				if e.Full && r%4 > 0 { // float64 takes long
					continue
				}
				row := out["encoder_out"][4*512*r:][:4*512]
				logits := rowsOf(call(t, joiner, map[string][]byte{"encoder_out": row, "decoder_out": context})["logits"], len(e.Symbols()))
				truth := e.Logits(want[r], last)
				near(t, "logits", logits, [][]float64{truth})
				top := largest(logits[0])
				if top != largest(truth) {
					t.Errorf("call %d, row %d: %d, not %d", i, r, top, largest(truth))
				}
				if count[top]++; top != 0 {
					last = [2]int32{last[1], int32(top)}
					context = call(t, decoder, map[string][]byte{"y": ints(last[:]...)})["decoder_out"]
				}
			}
		}
		all := 0
		for _, n := range count {
			all += n
		}
		if len(count) < 3*seconds || count[0] < all/8 || count[0] > all*7/8 {
			t.Errorf("%s: %d symbols in %d rows, %d of them blank", e.Layout, len(count), all, count[0])
		}
		for i, x := range zipCalls(e, make([]float32, 4*16000)) {
			for r, row := range o.Hear(x) {
				if top := largest(e.Logits(row, last)); top != 0 && i > 0 && !e.Full {
					t.Errorf("%s: call %d of silence, row %d says %s", e.Layout, i, r, e.Symbols()[top])
				}
			}
			if e.Full {
				break
			}
		}
	}
}

// TestZipformerStates: what the encoder gives depends on each of its states.
func TestZipformerStates(t *testing.T) {
	lane.NoRace(t)
	d := softCard(t)
	for _, e := range []modelstest.Zipformer{{Seed: 1, Layout: "Axera"}, {Seed: 2, Layout: "HY"}} {
		dir := t.TempDir()
		if err := e.Write(dir); err != nil {
			t.Fatal(err)
		}
		encoder := load(t, d, e.Path(dir, "encoder"))
		states := zeroStates(encoder)
		if len(states) != 35 {
			t.Errorf("%d states", len(states))
		}
		calls := zipCalls(e, spoken(e.Seed, 4))
		for _, x := range calls[:3] {
			states["x"] = floats(x)
			states = nextStates(call(t, encoder, states))
		}
		states["x"] = floats(calls[3])
		want := rowsOf(call(t, encoder, states)["encoder_out"], 512)
		for name, kept := range states {
			if name == "x" {
				continue
			}
			states[name] = make([]byte, len(kept))
			got := rowsOf(call(t, encoder, states)["encoder_out"], 512)
			states[name] = kept
			off, all := 0.0, 0.0
			for r := range want {
				for c := range want[r] {
					off += math.Pow(got[r][c]-want[r][c], 2)
					all += math.Pow(want[r][c], 2)
				}
			}
			if off = math.Sqrt(off / all); !(off > 0.01) {
				t.Errorf("%s: without %s the rows are off by %.1e", e.Layout, name, off)
			} else if testing.Verbose() {
				t.Logf("%s: without %s the rows are off by %.1e", e.Layout, name, off)
			}
		}
	}
}

// zeroStates are the states of an encoder at the beginning of an utterance.
func zeroStates(n axcl.Net) map[string][]byte {
	states := map[string][]byte{}
	for _, t := range n.Inputs(0) {
		if t.Name != "x" {
			states[t.Name] = make([]byte, t.Size)
		}
	}
	return states
}

// nextStates are the inputs of the next call, but for x.
func nextStates(out map[string][]byte) map[string][]byte {
	states := map[string][]byte{}
	for name, b := range out {
		if name, ok := strings.CutPrefix(name, "new_"); ok {
			states[name] = b
		}
	}
	return states
}

// zipCalls are the features of a sound, as the calls take them.
func zipCalls(e modelstest.Zipformer, sound []float32) (all [][]float32) {
	x := features.NewFbank(features.Zipformer).Append(nil, sound)
	for len(x) >= 80*e.Frames() {
		all = append(all, x[:80*e.Frames()])
		x = x[80*e.Step():]
	}
	return all
}

// spoken is a sound like speech: tones that change.
func spoken(seed uint64, seconds int) (out []float32) {
	for i := range 16000 * seconds {
		part := float64(uint64(i/1700)*7919*(seed+3)%97) / 97
		sum := 0.
		for h := 1.; h < 6; h++ {
			sum += math.Sin(2*math.Pi*(120+300*part)*h*float64(i)/16000) / h
		}
		out = append(out, float32(sum*0.3*(1-part)))
	}
	return out
}
