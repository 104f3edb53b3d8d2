package modelstest_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestWhisper: in each layout the nets give what the definitions give in float64, from the sound to
// the twentieth token. What is said has several tokens, depends on what is heard, and ends.
func TestWhisper(t *testing.T) {
	lane.NoRace(t)
	testWhisper(t, softCard(t))
}

// TestWhisperTokens: the whole vocabulary has the ids of Whisper's, and a small one tells its own.
func TestWhisperTokens(t *testing.T) {
	full := modelstest.Whisper{Layout: "B", Layers: 1, Full: true, Bare: true}
	if id := full.IDs(); id != (modelstest.WhisperIDs{EOT: 50257, SOT: 50258, Language: 50259, Translate: 50358, Transcribe: 50359,
		SOTLM: 50360, SOTPrev: 50361, NoSpeech: 50362, NoTimestamps: 50363, Stamp: 50364, Vocab: 51865}) {
		t.Errorf("%+v", id)
	}
	if id := (modelstest.Whisper{Full: true, Turbo: true}).IDs(); id.Translate != 50359 || id.Vocab != 51866 {
		t.Errorf("turbo: %+v", id)
	}
	tokens := full.Tokens()
	seen := map[string]int{}
	for i, token := range tokens {
		seen[token] = i
	}
	if len(tokens) != 50257 || len(seen) != len(tokens) || tokens[220] != " " || tokens[0] != "!" {
		t.Errorf("%d tokens, %d different; %q %q", len(tokens), len(seen), tokens[0], tokens[220])
	}
	dir := t.TempDir()
	if err := full.Write(dir); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadFile(filepath.Join(dir, "tiny-tokens.txt"))
	if err != nil || !strings.HasPrefix(string(list), "IQ== 0\nIg== 1\n") || strings.Count(string(list), "\n") != 50257 ||
		!strings.HasSuffix(string(list), "\n= 50256\n") {
		t.Errorf("%.40q %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tiny_config.json")); err == nil {
		t.Error("a bare package has a configuration")
	}
	small := modelstest.Whisper{Layout: "C", Layers: 1}
	dir = t.TempDir()
	if err := small.Write(dir); err != nil {
		t.Fatal(err)
	}
	var config struct {
		Vocab     int    `json:"n_vocab"`
		EOT       int32  `json:"eot"`
		Languages string `json:"all_language_tokens"`
		Odd       string `json:"non_speech_tokens"`
	}
	b, err := os.ReadFile(filepath.Join(dir, "tiny_config.json"))
	if err == nil {
		err = json.Unmarshal(b, &config)
	}
	id := small.IDs()
	if err != nil || config.Vocab != id.Vocab || config.EOT != id.EOT ||
		!strings.HasPrefix(config.Languages, fmt.Sprintf("%d,", id.Language)) ||
		!strings.HasPrefix(config.Odd, "1,2,7,8,9,10,14,25,26,27,28,29,31,58,") {
		t.Errorf("%+v, %v; %+v", config, err, id)
	}
}

func testWhisper(t *testing.T, d axcl.Device) {
	all := []modelstest.Whisper{{Seed: 1, Layout: "A"}, {Seed: 2, Layout: "B", Turbo: true}, {Seed: 3, Layout: "C", Layers: 2}}
	if testing.Short() {
		all = all[:1]
	}
	for _, e := range all {
		dir := t.TempDir()
		if err := e.Write(dir); err != nil {
			t.Fatal(err)
		}
		said := whisperCall(t, d, e, dir, mel(1, e), 20)
		id := e.IDs()
		w := hears(t, d, e, dir, mel(2, e))
		var other []int32
		row := w.begin([]int32{id.SOT, id.Language, id.Transcribe, id.NoTimestamps})[3]
		for len(other) < 100 {
			token := int32(largest(row))
			if other = append(other, token); token == id.EOT {
				break
			}
			row = w.next(token)
		}
		if n := len(slices.Compact(slices.Clone(said))); n < 6 || slices.Equal(other[:min(len(said), len(other))], said) {
			t.Errorf("%s: one sound is %d, the other %d", e.Layout, said, other)
		}
		if other[len(other)-1] != id.EOT {
			t.Errorf("%s: a text does not end: %d", e.Layout, other)
		}
	}
}

// oracles have heard the mel that all cards hear of a package: that takes a second each.
var oracles = map[modelstest.Whisper]*modelstest.WhisperOracle{}

// whisperCall has a package hear a mel and say n tokens, and compares each step with float64.
func whisperCall(t *testing.T, d axcl.Device, e modelstest.Whisper, dir string, mel []float32, n int) (said []int32) {
	t.Helper()
	o := oracles[e]
	if o == nil {
		o = e.Oracle(mel)
		oracles[e] = o
	}
	o.Restart()
	w := hears(t, d, e, dir, mel)
	for i := range o.CrossK {
		near(t, fmt.Sprint("K of layer ", i), rowsOf(w.cross[2*i], 64), o.CrossK[i])
		near(t, fmt.Sprint("V of layer ", i), rowsOf(w.cross[2*i+1], 64), o.CrossV[i])
	}
	id := e.IDs()
	start := []int32{id.SOT, id.Language, id.Transcribe, id.NoTimestamps}
	got := w.begin(start)
	var want [][]float64
	for _, token := range start {
		want = append(want, o.Next(token))
	}
	near(t, "the start", got, want)
	row, truth := got[3], want[3]
	for range n {
		token := int32(largest(row))
		if other := largest(truth); int(token) != other {
			t.Fatalf("token %d is %d, not %d", len(said), token, other)
		}
		if said = append(said, token); token == id.EOT {
			break
		}
		row, truth = w.next(token), o.Next(token)
		near(t, "a step", [][]float64{row}, [][]float64{truth})
	}
	return said
}

// whisper calls a package's nets token by token, in any layout.
type whisper struct {
	t       *testing.T
	e       modelstest.Whisper
	decoder axcl.Net
	first   axcl.Net          // of layout A
	cross   [][]byte          // K and V of each layer
	in      map[string][]byte // of the decoder
	places  []byte            // of layout A
	at      int
}

// hears loads the nets and calls the encoder.
func hears(t *testing.T, d axcl.Device, e modelstest.Whisper, dir string, mel []float32) *whisper {
	t.Helper()
	w := &whisper{t: t, e: e, in: map[string][]byte{}}
	encoder := load(t, d, e.Path(dir, "encoder"))
	out := call(t, encoder, map[string][]byte{encoder.Inputs(0)[0].Name: floats(mel)})
	var all [2][]byte
	for i, x := range encoder.Outputs(0) {
		if e.Layout == "C" {
			w.cross = append(w.cross, out[x.Name])
			w.in[strings.TrimPrefix(x.Name, "out_")] = out[x.Name]
		} else {
			all[i] = out[x.Name]
			w.in[x.Name] = out[x.Name]
		}
	}
	const layer = 4 * 1500 * 64
	for at := 0; at < len(all[0]); at += layer {
		w.cross = append(w.cross, all[0][at:at+layer], all[1][at:at+layer])
	}
	if e.Layout != "A" {
		w.decoder = load(t, d, e.Path(dir, "decoder"))
		for _, x := range w.decoder.Inputs(0) {
			if strings.HasPrefix(x.Name, "self_") {
				w.in[x.Name] = make([]byte, x.Size)
			}
		}
		return w
	}
	w.first, w.decoder = load(t, d, e.Path(dir, "decoder-main")), load(t, d, e.Path(dir, "decoder-loop"))
	var err error
	if w.places, err = os.ReadFile(filepath.Join(dir, "tiny-positional_embedding.bin")); err != nil {
		t.Fatal(err)
	}
	return w
}

// begin gives the logits of each of four tokens.
func (w *whisper) begin(tokens []int32) (logits [][]float64) {
	w.t.Helper()
	if w.e.Layout != "A" {
		for _, token := range tokens {
			logits = append(logits, w.next(token))
		}
		return logits
	}
	w.in["tokens"] = ints(tokens...)
	out := call(w.t, w.first, w.in)
	w.in["in_n_layer_self_k_cache"], w.in["in_n_layer_self_v_cache"] = out["out_n_layer_self_k_cache"], out["out_n_layer_self_v_cache"]
	w.at = len(tokens)
	return rowsOf(out["logits"], w.e.IDs().Vocab)
}

func (w *whisper) next(token int32) []float64 {
	w.t.Helper()
	name := "tokens"
	if w.e.Layout == "C" {
		name = "token"
	}
	w.in[name] = ints(token)
	mask := make([]byte, 4*448)
	for i := range 448 {
		switch {
		case w.e.Layout == "A" && i < 448-w.at-1:
			binary.LittleEndian.PutUint32(mask[4*i:], math.Float32bits(float32(math.Inf(-1))))
		case w.e.Layout != "A" && i >= w.at:
			mask[4*i] = 1
		}
	}
	w.in["mask"] = mask
	if w.e.Layout == "A" {
		w.in["positional_embedding"] = w.places[4*64*w.at : 4*64*(w.at+1)]
	} else {
		w.in["offset"] = ints(int32(w.at))
	}
	out := call(w.t, w.decoder, w.in)
	for name, b := range out {
		switch {
		case name == "logits":
		case w.e.Layout == "A":
			w.in["in"+strings.TrimPrefix(name, "out")] = b
		default: // a row of each layer there is
			cache := w.in[strings.TrimPrefix(name, "this_")]
			layers := len(b) / (4 * 64)
			for i := range layers {
				copy(cache[i*len(cache)/layers+4*64*w.at:], b[4*64*i:4*64*(i+1)])
			}
		}
	}
	w.at++
	return rowsOf(out["logits"], w.e.IDs().Vocab)[0]
}

// mel is the mel of some sound.
func mel(seed uint64, e modelstest.Whisper) []float32 {
	n := 80 * 3000
	if e.Turbo {
		n = 128 * 3000
	}
	rng := rand.New(rand.NewPCG(seed, 21))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64() / 2)
	}
	return v
}
