package modelstest_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestKokoro: each part gives what the definitions give in float64, on what the part before gave;
// times, pitch and loudness are such as speech has.
func TestKokoro(t *testing.T) {
	lane.NoRace(t)
	testKokoro(t, softCard(t))
}

func testKokoro(t *testing.T, d axcl.Device) {
	e := modelstest.Kokoro{Seed: 1, Layout: "A"}
	dir := t.TempDir()
	if err := e.Write(dir); err != nil {
		t.Fatal(err)
	}
	vocabulary := e.Vocabulary()
	ids, n := make([]int32, 96), 1
	for _, r := range "hˈɛloʊ wˈɜɹld, ðɪs ɪz ɐ spˈiːtʃ tˈɛst." {
		ids[n] = int32(vocabulary[string(r)])
		n++
	}
	n++
	padding, numbers := make([]byte, 96), make([]float32, 96)
	for i := n; i < 96; i++ {
		padding[i], numbers[i] = 1, 1
	}
	ref := e.Voice("af_heart")[256*(n-3):][:256]

	out := call(t, load(t, d, e.Path(dir, 1)), map[string][]byte{"input_ids": ints(ids...), "ref_s": floats(ref), "text_mask": padding})
	duration, hidden := e.Part1(ids, ref, padding)
	near(t, "duration", rowsOf(out["duration"], 50), duration)
	near(t, "d", rowsOf(out["d"], 640), hidden)

	en, frames, to := make([]float32, 640*192), make([]float32, 96*192), 0
	lengths := map[int]bool{}
	for i, row := range duration[:n] {
		sum := 0.0
		for _, v := range row {
			sum += 1 / (1 + math.Exp(-v))
		}
		long := max(1, int(math.Round(sum)))
		lengths[long] = true
		for range long {
			if to < 192 {
				for c, v := range hidden[i] {
					en[c*192+to] = float32(v)
				}
				frames[i*192+to] = 1
				to++
			}
		}
	}
	if to < 2*n/3 || to >= 192 || len(lengths) < 3 {
		t.Errorf("%d symbols take %d frames, of %d different lengths", n, to, len(lengths))
	}

	out = call(t, load(t, d, e.Path(dir, 2)), map[string][]byte{"en": floats(en), "ref_s": floats(ref), "input_ids": ints(ids...),
		"text_mask": floats(numbers), "pred_aln_trg": floats(frames)})
	f0, loud, asr := e.Part2(en, ref, ids, numbers, frames)
	near(t, "F0_pred", rowsOf(out["F0_pred"], 384), [][]float64{f0})
	near(t, "N_pred", rowsOf(out["N_pred"], 384), [][]float64{loud})
	near(t, "asr", rowsOf(out["asr"], 192), asr)
	voiced, silent := 0, 0
	for _, v := range f0[:2*to] {
		if v > 10 {
			voiced++
		} else {
			silent++
		}
		if v > 900 {
			t.Errorf("a pitch of %v Hz", v)
		}
	}
	if voiced < to || silent == 0 {
		t.Errorf("%d places are voiced, %d are not", voiced, silent)
	}

	rng := rand.New(rand.NewPCG(1, 2))
	har := make([]float32, 22*23041)
	for i := range har {
		har[i] = float32(rng.NormFloat64())
	}
	var words []float32
	for _, row := range asr {
		words = append(words, narrow(row)...)
	}
	part3 := load(t, d, e.Path(dir, 3))
	in := map[string][]byte{"asr": floats(words), "F0_pred": floats(narrow(f0)), "N_pred": floats(narrow(loud)), "ref_s": floats(ref),
		"har": floats(har)}
	out = call(t, part3, in)
	want := e.Part3(words, narrow(f0), narrow(loud), ref, har)
	near(t, "x", rowsOf(out["x"], 23041), want)
	for i := range 11 {
		mean, top := 0.0, want[i][0]
		for _, v := range want[i] {
			mean += v / 23041
			top = max(top, v)
		}
		if mean > -1 || mean < -6 || top > 4 {
			t.Errorf("magnitude %d: e^%.1f in the mean, at most e^%.1f", i, mean, top)
		}
	}

	other := e.Voice("zf_xiaoyi")[256*(n-3):][:256]
	in["ref_s"] = floats(other)
	if again := call(t, part3, in); string(again["x"]) == string(out["x"]) {
		t.Error("another voice sounds the same")
	}
}

// TestKokoroLayouts: both layouts have their files, and the source of sound its ten numbers.
func TestKokoroLayouts(t *testing.T) {
	lane.NoRace(t)
	const voice = 4 * 510 * 256
	for layout, files := range map[string]map[string]int{
		"A": {"kokoro_part3_96.axmodel": 0, "voices/af_heart.bin": voice, "vocab.txt": 0, "model4_har_sim.onnx": 0},
		"B": {"models/kokoro_part3_96.axmodel": 0, "checkpoints/voices_npy/af_heart.npy": 128 + voice, "checkpoints/config.json": 0,
			"models/model4_har_sim.onnx": 0}} {
		e, dir := modelstest.Kokoro{Seed: 2, Layout: layout}, t.TempDir()
		if err := e.Write(dir); err != nil {
			t.Fatal(err)
		}
		for name, size := range files {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || len(b) == 0 || size > 0 && len(b) != size {
				t.Errorf("%s: %d bytes, %v", name, len(b), err)
			}
			weights, bias := e.Harmonics()
			if filepath.Ext(name) == ".onnx" && (!bytes.Contains(b, floats(weights)) || !bytes.Contains(b, floats([]float32{bias}))) {
				t.Errorf("%s has other numbers", name)
			}
			if size > 0 && !bytes.HasSuffix(b, floats(e.Voice("af_heart"))) {
				t.Errorf("%s has another voice", name)
			}
		}
		if n := len(e.Vocabulary()); n != 114 {
			t.Errorf("%d symbols", n)
		}
	}
}

func narrow(v []float64) []float32 {
	out := make([]float32, len(v))
	for i, x := range v {
		out[i] = float32(x)
	}
	return out
}
