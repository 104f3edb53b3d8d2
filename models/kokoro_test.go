package models_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestKokoro: each layout is opened by its tensors, with its symbols, voices and the numbers of its
// source, and described as what it is.
func TestKokoro(t *testing.T) {
	for i, kind := range modelstest.Speakers() {
		e := modelstest.Kokoro{Seed: 1, Layout: kind.Layout}
		k, dir := openedAs[*models.Kokoro](t, kind)
		for p, f := range k.Parts {
			if f.Path != e.Path(dir, p+1) || f.Size <= 0 {
				t.Errorf("%s: part %d is %s of %d bytes", kind.Layout, p+1, f.Path, f.Size)
			}
		}
		for symbol, id := range e.Vocabulary() {
			if k.Symbols[[]rune(symbol)[0]] != int32(id) {
				t.Errorf("%s: %q is %d, want %d", kind.Layout, symbol, k.Symbols[[]rune(symbol)[0]], id)
			}
		}
		if weights, bias := e.Harmonics(); !slices.Equal(k.Weights, weights) || k.Bias != bias || len(k.Symbols) != 114 {
			t.Errorf("%s: weights %v and %v, %d symbols", kind.Layout, k.Weights, k.Bias, len(k.Symbols))
		}
		want := []ask.Voice{{Name: "af_heart", Language: "en-US"}, {Name: "am_adam", Language: "en-US"}}
		if !slices.Equal(k.Voices, want) || len(k.Others) != 1 || k.Others[0] != (ask.Voice{Name: "zf_xiaoyi", Language: "zh"}) {
			t.Errorf("%s: voices %v, others %v", kind.Layout, k.Voices, k.Others)
		}
		for _, n := range []int{1, 37, 510} {
			if row, err := k.Row("am_adam", n); err != nil || !slices.Equal(row, e.Voice("am_adam")[256*(n-1):][:256]) {
				t.Errorf("%s: row for %d symbols: %v", kind.Layout, n, err)
			}
		}
		for _, n := range []int{-1, 0, 511} {
			if _, err := k.Row("am_adam", n); err == nil {
				t.Errorf("%s: there is a row for %d symbols", kind.Layout, n)
			}
		}
		if _, err := k.Row("bm_john", 3); err == nil {
			t.Error("there is a voice bm_john")
		}
		about := k.Info()
		if about.Name != "folder" || about.Kind != "Kokoro" || about.Says != "" || !slices.Equal(about.Capabilities, []string{"speech"}) ||
			!slices.Equal(about.Voices, k.Voices) || about.Memory.Card <= 0 || about.Memory.Load < about.Memory.Card ||
			len(about.Notes) != 2 || !strings.Contains(about.Notes[1], "(zf_xiaoyi; 1 in all)") {
			t.Errorf("%d: %+v", i, about)
		}
		var text bytes.Buffer
		if err := about.Write(&text); err != nil || !strings.Contains(text.String(), "en-US af_heart, am_adam\n") {
			t.Errorf("%v: %s", err, &text)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
		if _, err := models.Open(dir); err == nil || !strings.Contains(err.Error(), "(speech synthesis): it is no language model") {
			t.Errorf("as a language model: %v", err)
		}
	}
}

// TestKokoroDictionaries: words sound as the dictionaries in the folder say, the better one first.
// Without the better one there is an error that names both, for each kind of English by itself.
func TestKokoroDictionaries(t *testing.T) {
	files := modelstest.Speakers()[0].Files
	files["voices/bf_emma.bin"] = files["voices/am_adam.bin"]
	files["dictionaries/us_gold.json"] = []byte(`{"hello":"həlˈO"}`)
	files["us_silver.json"] = []byte(`{"hello":"hˈʌ","there":"ðˈɛɹ"}`)
	files["gb_silver.json"] = files["us_silver.json"]
	open := func() *models.Kokoro {
		o, err := models.OpenAnyFS(mapFS(files), ".")
		if err != nil {
			t.Fatal(err)
		}
		return o.(*models.Kokoro)
	}
	k := open()
	for range 2 {
		l, err := k.Lexicon("en-US")
		if err != nil {
			t.Fatal(err)
		}
		for piece := range l.Pieces("Hello there.") {
			if piece != "həlˈO ðˈɛɹ." {
				t.Errorf("it sounds %s", piece)
			}
		}
	}
	notes := func(about string) bool {
		return slices.ContainsFunc(k.Info().Notes, func(n string) bool { return strings.Contains(n, about) })
	}
	if notes("does not speak en-US") || !notes("does not speak en-GB yet: put gb_gold.json and gb_silver.json of github.com/hexgrad") {
		t.Errorf("notes %q", k.Info().Notes)
	}
	_, err := k.Lexicon("en-GB")
	if !errors.Is(err, models.ErrMissing) || !strings.Contains(err.Error(), "gb_gold.json") ||
		!strings.Contains(err.Error(), "hexgrad/misaki") {
		t.Errorf("without a dictionary: %v", err)
	}
	if _, err := k.Lexicon("zh"); err == nil {
		t.Error("it reads Chinese")
	}
	files["cmudict-0.7b"] = []byte("HELLO  HH\nPICARDO  P IH0 K AA1 R D OW0\n")
	l, err := open().Lexicon("en-US")
	if err != nil {
		t.Fatal(err)
	}
	for piece := range l.Pieces("Hello Picardo.") {
		if piece != "həlˈO pɪkˈɑɹdO." {
			t.Errorf("with CMUdict it sounds %s", piece)
		}
	}
	files["cmudict-0.7b"] = []byte("<html>")
	if _, err := open().Lexicon("en-US"); !errors.Is(err, models.ErrMalformed) || !strings.Contains(err.Error(), "cmudict-0.7b") {
		t.Errorf("another CMUdict: %v", err)
	}
	files["dictionaries/us_gold.json"] = []byte(`{"hello":"<html>"}`)
	if _, err := open().Lexicon("en-US"); !errors.Is(err, models.ErrMalformed) || !strings.Contains(err.Error(), "us_gold.json") {
		t.Errorf("another file: %v", err)
	}
}

// TestKokoroRefused: what is wrong with the folder is said, with the file.
func TestKokoroRefused(t *testing.T) {
	all := modelstest.Speakers()
	type files = map[string][]byte
	drop := func(name string) func(f files) { return func(f files) { delete(f, name) } }
	set := func(name string, data []byte) func(f files) { return func(f files) { f[name] = data } }
	replace := func(name, from, to string) func(f files) {
		return func(f files) {
			b := bytes.ReplaceAll(f[name], []byte(from), []byte(to))
			if bytes.Equal(b, f[name]) {
				t.Fatalf("no %q in %s", from, name)
			}
			f[name] = b
		}
	}
	voice := all[0].Files["voices/af_heart.bin"]
	numbers := slices.Clone(all[1].Files["models/model4_har_sim.onnx"])
	weights, _ := modelstest.Kokoro{Seed: 1}.Harmonics()
	first := binary.LittleEndian.AppendUint32(nil, math.Float32bits(weights[0]))
	for name, c := range map[string]struct {
		of     int
		change func(f files)
		want   []string
	}{
		"no part 1":    {0, drop("kokoro_part1_96.axmodel"), []string{"Kokoro's part 1"}},
		"no part 2":    {1, drop("models/kokoro_part2_96.axmodel"), []string{"Kokoro's part 2"}},
		"no part 3":    {0, drop("kokoro_part3_96.axmodel"), []string{"Kokoro's part 3"}},
		"a part twice": {0, set("other.axmodel", all[0].Files["kokoro_part2_96.axmodel"]), []string{"other.axmodel", "of the same use"}},
		"a cut part": {1, set("models/kokoro_part2_96.axmodel", all[1].Files["models/kokoro_part2_96.axmodel"][:5000]),
			[]string{"models/kokoro_part2_96.axmodel", "fetch the file again"}},
		"no vocabulary": {0, drop("vocab.txt"), []string{"vocab.txt", "missing"}},
		"another's vocabulary": {0, set("vocab.txt", []byte("[PAD]\n[CLS]\n")),
			[]string{"vocab.txt", "line 1 is no symbol"}},
		"a symbol twice":   {0, set("vocab.txt", []byte("a\t1\na\t2\n")), []string{"line 2 is no symbol"}},
		"no id":            {0, set("vocab.txt", []byte("a\t0\n")), []string{"line 1 is no symbol"}},
		"a cut vocabulary": {0, set("vocab.txt", all[0].Files["vocab.txt"][:40]), []string{"vocab.txt", "has no symbol"}},
		"no configuration": {1, drop("checkpoints/config.json"), []string{"vocab.txt", "checkpoints/config.json"}},
		"no JSON":          {1, set("checkpoints/config.json", []byte(`{`)), []string{"config.json"}},
		"a list":           {1, set("checkpoints/config.json", []byte(`{"vocab":[1]}`)), []string{"vocab is no object"}},
		"two letters":      {1, set("checkpoints/config.json", []byte(`{"vocab":{"ab":1}}`)), []string{`"ab" with id 1`}},
		"a large id":       {1, set("checkpoints/config.json", []byte(`{"vocab":{"a":99999}}`)), []string{`"a" with id 99999`}},
		"no voices": {0, func(f files) {
			maps.DeleteFunc(f, func(n string, _ []byte) bool { return strings.HasPrefix(n, "voices") })
		}, []string{"voices", "missing"}},
		"a cut voice": {0, set("voices/af_heart.bin", voice[:4000]), []string{"af_heart.bin", "has 4000 bytes of a voice, not 522240"}},
		"a cut voice, B": {1, set("checkpoints/voices_npy/af_heart.npy", all[1].Files["checkpoints/voices_npy/af_heart.npy"][:5000]),
			[]string{"af_heart.npy", "bytes of a voice"}},
		"another array": {1, replace("checkpoints/voices_npy/af_heart.npy", "(510, 1, 256,)", "(256, 1, 510,)"),
			[]string{"<f4 [256 1 510]"}},
		"no array": {1, set("checkpoints/voices_npy/af_heart.npy", voice), []string{"af_heart.npy", "not a .npy file"}},
		"a pointer": {0, set("voices/af_heart.bin", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 9\n")),
			[]string{"af_heart.bin", "Git LFS pointer"}},
		"no source":         {0, drop("model4_har_sim.onnx"), []string{"model4_har_sim.onnx", "missing"}},
		"a cut source":      {1, set("models/model4_har_sim.onnx", numbers[:len(numbers)/2]), []string{"model4_har_sim.onnx"}},
		"another's source":  {0, replace("model4_har_sim.onnx", "MatMul", "MatMax"), []string{"has no sum of 9 harmonics"}},
		"broken weights":    {0, replace("model4_har_sim.onnx", string(first), "\x00\x00\xc0\x7f"), []string{"a weight that is no number"}},
		"a part with other": {0, replace("kokoro_part3_96.axmodel", "har", "hor"), []string{"Kokoro's part 3"}},
		"another pitch": {0, replace("kokoro_part3_96.axmodel", "F0_pred", "F1_pred"),
			[]string{"kokoro_part3_96", "does not take F0_pred"}},
	} {
		refused(t, name, all[c.of], c.change, c.want...)
	}
}

// TestKokoroTorn: a voice with a value that is no number is told when its row is read, and one
// whose file goes is an error.
func TestKokoroTorn(t *testing.T) {
	kind := modelstest.Speakers()[0]
	copy(kind.Files["voices/af_heart.bin"][1024*7:], "\x00\x00\x80\x7f")
	dir := t.TempDir()
	if err := kind.Write(dir); err != nil {
		t.Fatal(err)
	}
	o, err := models.OpenAny(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	k := o.(*models.Kokoro)
	if _, err := k.Row("af_heart", 7); err != nil {
		t.Error(err)
	}
	if _, err := k.Row("af_heart", 8); !errors.Is(err, models.ErrMalformed) || !strings.Contains(err.Error(), "row 7 ") {
		t.Errorf("%v", err)
	}
	if err := os.Truncate(filepath.Join(dir, "voices", "am_adam.bin"), 100); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Row("am_adam", 8); err == nil || !strings.Contains(err.Error(), "am_adam.bin") {
		t.Errorf("%v", err)
	}
}
