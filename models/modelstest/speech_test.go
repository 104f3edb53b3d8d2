package modelstest_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/soft"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestSenseVoice: in both layouts the net gives what the definitions give in float64, and greedy
// output has several tokens and blanks, other ones for other sound.
func TestSenseVoice(t *testing.T) {
	lane.NoRace(t)
	testSenseVoice(t, softCard(t))
}

// TestSpeechKinds: packages of speech are recognised as what they are, and what there is not is
// refused.
func TestSpeechKinds(t *testing.T) {
	lane.NoRace(t)
	for _, c := range []struct {
		kind    string
		layouts []string
		write   func(layout, dir string) error
	}{
		{"SenseVoice", []string{"Axera", "sherpa"}, func(l, dir string) error { return modelstest.SenseVoice{Layout: l, N: 8}.Write(dir) }},
		{"Whisper", []string{"A", "B", "C"}, func(l, dir string) error { return modelstest.Whisper{Layout: l}.Write(dir) }},
		{"Zipformer", []string{"Axera", "HY"}, func(l, dir string) error { return modelstest.Zipformer{Layout: l}.Write(dir) }},
		{"Kokoro", []string{"A", "B"}, func(l, dir string) error { return modelstest.Kokoro{Layout: l}.Write(dir) }},
	} {
		for _, layout := range c.layouts {
			dir := t.TempDir()
			if err := c.write(layout, dir); err != nil {
				t.Fatal(err)
			}
			p, err := models.OpenAny(dir)
			var k *models.KindError
			switch {
			case err == nil: // axle runs it
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			case !errors.As(err, &k) || k.Kind != c.kind:
				t.Errorf("%s, layout %s: %v", c.kind, layout, err)
			}
		}
		if err := c.write("Z", t.TempDir()); err == nil || !strings.Contains(err.Error(), c.kind+` has no layout "Z"`) {
			t.Errorf("%s: %v", c.kind, err)
		}
	}
	if err := (modelstest.Whisper{Layout: "B", Bare: true}).Write(t.TempDir()); err == nil || !strings.Contains(err.Error(), "set Full") {
		t.Errorf("a vocabulary that nothing tells: %v", err)
	}
}

// TestSpeechTogether: oracles may be asked by many at once.
func TestSpeechTogether(t *testing.T) {
	e := modelstest.SenseVoice{Seed: 9, Layout: "Axera", N: 2}
	x := make([]float32, 2*560)
	var all [3][][]float64
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() { all[i] = e.Logits(x, nil, [4]int32{4, 1, 2, 14}) })
	}
	wg.Wait()
	for _, y := range all[1:] {
		near(t, "logits", y, all[0])
	}
}

func testSenseVoice(t *testing.T, d axcl.Device) {
	for _, e := range []modelstest.SenseVoice{{Seed: 1, Layout: "Axera"}, {Seed: 2, Layout: "sherpa", N: 40}} {
		dir := t.TempDir()
		if err := e.Write(dir); err != nil {
			t.Fatal(err)
		}
		n := load(t, d, e.Path(dir))
		rng := rand.New(rand.NewPCG(7, e.Seed))
		outputs := map[string]bool{}
		for i, language := range []int32{4, 0, 12} {
			outputs[senseVoiceCall(t, e, n, rng, 40-5*i, [4]int32{language, 1, 2, 14})] = true
		}
		if len(outputs) != 3 {
			t.Error("the output does not depend on the input")
		}
	}
}

// senseVoiceCall has a net hear rows of noise, and gives what it says after row 3.
func senseVoiceCall(t *testing.T, e modelstest.SenseVoice, n axcl.Net, rng *rand.Rand, real int, prompt [4]int32) (said string) {
	t.Helper()
	x, mask := speech(rng, e, real)
	in, name := map[string][]byte{"x": floats(x), "prompt": ints(prompt[:]...)}, "logits"
	if e.Layout == "Axera" {
		in, name = map[string][]byte{"speech": floats(x), "mask": ints(mask...), "language": ints(prompt[0])}, "ctc_logits"
	} else {
		mask = nil
	}
	out := call(t, n, in)
	want := e.Logits(x, mask, prompt)
	got := rowsOf(out[name], len(e.Tokens()))
	near(t, name, got, want)
	if l := out["encoder_out_lens"]; mask != nil && binary.LittleEndian.Uint32(l) != uint32(real+4) {
		t.Errorf("length %v of %d rows", l, real)
	}
	first := []string{modelstest.SenseVoiceLanguages[prompt[0]], "<|NEUTRAL|>", "<|Speech|>", "<|withitn|>"}
	count := map[int]int{}
	for r, row := range got {
		top := largest(row)
		if top != largest(want[r]) {
			t.Errorf("row %d: %d, not %d", r, top, largest(want[r]))
		}
		switch token := e.Tokens()[top]; {
		case r > 3:
			count[top]++
			said += " " + token
		case token != first[r] && first[r] != "":
			t.Errorf("row %d says %s, not %s", r, token, first[r])
		}
	}
	if len(count) < 8 || count[0] < 5 || count[0] > len(got)*3/4 {
		t.Errorf("%d tokens, of them %d blanks: %s", len(count), count[0], said)
	}
	return said
}

// speech is features, the first rows real and the others zero, and the mask of the real ones.
func speech(rng *rand.Rand, e modelstest.SenseVoice, real int) (x []float32, mask []int32) {
	n := e.N
	if n == 0 {
		n = 64
	}
	mask = make([]int32, n+4)
	for i := range real + 4 {
		mask[i] = 1
	}
	x = make([]float32, n*560)
	for i := range x[:real*560] {
		x[i] = float32(rng.NormFloat64())
		if e.Layout == "sherpa" {
			x[i] = 12 + 6*x[i]
		}
	}
	return x, mask
}

func softCard(t testing.TB) axcl.Device {
	t.Helper()
	d, err := soft.Open(soft.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func load(t testing.TB, d axcl.Device, path string) axcl.Net {
	t.Helper()
	n, err := d.LoadNet(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// call gives all outputs of a net.
func call(t testing.TB, n axcl.Net, in map[string][]byte) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, x := range n.Outputs(0) {
		out[x.Name] = make([]byte, x.Size)
	}
	if err := n.Run(0, in, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// near holds a net's rows against those of float64: each value may differ by 1e-4 of the rows' root
// mean square and its own size.
func near(t testing.TB, what string, got, want [][]float64) {
	t.Helper()
	if len(got) != len(want) || len(got[0]) != len(want[0]) {
		t.Fatalf("%s: %d × %d values, not %d × %d", what, len(got), len(got[0]), len(want), len(want[0]))
	}
	square, worst := 0.0, 0.0
	var err error
	for _, row := range want {
		for _, v := range row {
			square += v * v
		}
	}
	rms := math.Sqrt(square / float64(len(want)*len(want[0])))
	for r := range want {
		for i, v := range want[r] {
			off := math.Abs(got[r][i]-v) / (rms + math.Abs(v))
			if !(off <= 1e-4) {
				err = errors.Join(err, fmt.Errorf("row %d, value %d: %v, not %v", r, i, got[r][i], v))
			}
			worst = max(worst, off)
		}
	}
	if err != nil {
		text := err.Error()
		t.Errorf("%s: %.300s", what, text)
	}
	if testing.Verbose() && worst > 1e-5 {
		t.Logf("%s: the worst is %.1e", what, worst)
	}
}

func largest(row []float64) int { return slices.Index(row, slices.Max(row)) }

func floats(v []float32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

func ints(v ...int32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return b
}

func rowsOf(b []byte, width int) (rows [][]float64) {
	for i := range len(b) / 4 {
		if i%width == 0 {
			rows = append(rows, make([]float64, width))
		}
		rows[i/width][i%width] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return rows
}
