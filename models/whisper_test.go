package models_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestWhisper: each layout is opened by its tensors, with the ids of its vocabulary, and described
// as what it is.
func TestWhisper(t *testing.T) {
	for i, k := range modelstest.Whispers() {
		w, dir := openedAs[*models.Whisper](t, k)
		size := []string{"small", "turbo", "tiny"}[i]
		layers, width, mels := []int{12, 4, 4}[i], []int{768, 1280, 384}[i], []int{80, 128, 80}[i]
		if w.Layers != layers || w.Width != width || w.Mels != mels || w.Encoder.Path != filepath.Join(dir, size+"-encoder.axmodel") ||
			(w.First.Path != "") != (i == 0) || len(w.Cross) != []int{2, 2, 8}[i] || len(w.Self) != len(w.Cross) {
			t.Errorf("%s: %d layers of %d, %d mels, %+v %+v", k.Layout, w.Layers, w.Width, w.Mels, w.Cross, w.Self)
		}
		if n := w.Self[0]; i == 2 && (n.Rows() != 1 || n.RowSize() != 4*384 || n.Size() != 4*448*384) ||
			i == 1 && (n.Rows() != 4 || n.RowSize() != 4*1280) {
			t.Errorf("%s: %d rows of %d bytes, %d in all", k.Layout, n.Rows(), n.RowSize(), n.Size())
		}
		if i == 2 && w.Cross[1].From.Name != "out_cross_v_0" {
			t.Errorf("the encoder gives %q", w.Cross[1].From.Name)
		}
		want := modelstest.Whisper{Full: true, Turbo: i == 1}.IDs()
		if w.EOT != want.EOT || w.SOT != want.SOT || w.Transcribe != want.Transcribe || w.Translate != want.Translate ||
			w.SOTPrev != want.SOTPrev || w.NoSpeech != want.NoSpeech || w.Stamp != want.Stamp || w.Vocab != want.Vocab {
			t.Errorf("%s: %+v, want %+v", k.Layout, w.WhisperIDs, want)
		}
		if id, ok := w.Language("DE"); id != want.Language+2 || !ok {
			t.Errorf("de is %d", id)
		}
		if _, ok := w.Language("yue"); ok != (i == 1) {
			t.Errorf("%s: knows Cantonese: %v", k.Layout, ok)
		}
		if len(w.Tokens) != 50257 || w.Tokens[0] != "!" || w.Tokens[220] != " " || w.Tokens[50256] != "" {
			t.Errorf("%d tokens, the first %q", len(w.Tokens), w.Tokens[0])
		}
		about := w.Info()
		kept := int64(0)
		for _, c := range slices.Concat(w.Cross, w.Self) {
			kept += int64(c.Size())
		}
		if about.Kind != "Whisper" || about.Says != "" || !slices.Equal(about.Capabilities, []string{"audio"}) ||
			about.Vocab != want.Vocab || about.Memory.IO < kept || about.Memory.Load < about.Memory.Card {
			t.Errorf("%s: %+v", k.Layout, about)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWhisperConfigured: the ids of a package with a configuration are its own.
func TestWhisperConfigured(t *testing.T) {
	e := modelstest.Whisper{Seed: 1, Layout: "B", Layers: 1}
	dir := t.TempDir()
	if err := e.Write(dir); err != nil {
		t.Fatal(err)
	}
	o, err := models.OpenAny(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	w, _ := o.(*models.Whisper)
	id := e.IDs()
	if w.EOT != id.EOT || w.Stamp != id.Stamp || w.SOTPrev != id.SOTPrev || len(w.Languages) != 99 ||
		w.Languages[98].ID != id.Language+98 ||
		!slices.Equal(w.Tokens, e.Tokens()) || len(w.NonSpeech) != 23 {
		t.Errorf("%+v, want %+v", w.WhisperIDs, id)
	}
	path := filepath.Join(dir, "tiny_config.json")
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		`"n_mels":80`: `"n_mels":128`, `"n_text_layer":1`: `"n_text_layer":6`, `"eot":1056`: `"eot":99999`, `"sot":1057`: `"sot":3`,
		`"sot_prev":`: `"sot_before":`, `"no_timestamps":`: `"no_timestamps":2000,"x":`,
		`"all_language_codes":"en,`:    `"all_language_codes":"`,
		`"all_language_tokens":"1058,`: `"all_language_tokens":"7,`, `"non_speech_tokens":"1,`: `"non_speech_tokens":"one,`,
		`"non_speech_tokens":"1,2,`: `"non_speech_tokens":"1,2,1056,`, `"non_speech_tokens":"1,2,7,`: `"non_speech_tokens":"1,2,7,1163,`,
	} {
		changed := bytes.Replace(config, []byte(from), []byte(to), 1)
		if bytes.Equal(changed, config) {
			t.Fatalf("no %s in %s", from, config)
		}
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := models.OpenAny(dir); err == nil || !strings.Contains(err.Error(), "tiny_config.json") ||
			!errors.Is(err, models.ErrMismatch) {
			t.Errorf("%s: %v", to, err)
		}
	}
	deep := modelstest.Whisper{Seed: 1, Layout: "B", Layers: 2}
	other := t.TempDir()
	if err := deep.Write(other); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(deep.Path(other, "encoder"), e.Path(dir, "encoder")); err != nil {
		t.Fatal(err)
	}
	want := "cross_k is fp32 [2 1 1500 64]: fp32 [1 1 1500 64] is expected"
	if _, err := models.OpenAny(dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("another's encoder: %v", err)
	}
}

// TestWhisperRefused: what is wrong with the folder is said, with the file.
func TestWhisperRefused(t *testing.T) {
	all := modelstest.Whispers()
	swap := func(name, with string) func(f map[string][]byte) {
		return func(f map[string][]byte) { f[name] = all[1].Files[with] }
	}
	drop := func(name string) func(f map[string][]byte) {
		return func(f map[string][]byte) { delete(f, name) }
	}
	set := func(name string, data []byte) func(f map[string][]byte) {
		return func(f map[string][]byte) { f[name] = data }
	}
	list := all[0].Files["tokens.txt"]
	for name, tt := range map[string]struct {
		of     int
		change func(files map[string][]byte)
		want   []string
	}{
		"no encoder": {0, drop("small-encoder.axmodel"), []string{"Whisper's encoder"}},
		"no first":   {0, drop("small-decoder-main.axmodel"), []string{"the first four tokens"}},
		"no loop":    {0, drop("small-decoder-loop.axmodel"), []string{"decoder of one token"}},
		"no decoder": {1, drop("turbo-decoder.axmodel"), []string{"decoder of one token"}},
		"two encoders": {2, swap("turbo-encoder.axmodel", "turbo-encoder.axmodel"),
			[]string{"turbo-encoder.axmodel", "of the same use"}},
		"a cut decoder": {1, set("turbo-decoder.axmodel", all[1].Files["turbo-decoder.axmodel"][:5000]),
			[]string{"turbo-decoder.axmodel", "fetch the file again"}},
		"another's encoder": {0, swap("small-encoder.axmodel", "turbo-encoder.axmodel"),
			[]string{"small-encoder.axmodel", "n_layer_cross_k"}},
		"another's decoder": {0, swap("small-decoder-loop.axmodel", "turbo-decoder.axmodel"), []string{"main.axmodel", "does not belong"}},
		"no tokens":         {0, drop("tokens.txt"), []string{"tokens.txt"}},
		"too few tokens": {0, set("tokens.txt", list[:bytes.LastIndexByte(list[:len(list)-1], '\n')+1]),
			[]string{"token 50256 is not there"}},
		"a token twice": {0, set("tokens.txt", append([]byte("IQ== 0\n"), list...)), []string{"line 2 has token 0 again"}},
		"no base64":     {1, set("tokens.txt", []byte("?? 1\n")), []string{"tokens.txt", "line 1 is no token"}},
		"a token of =":  {1, set("tokens.txt", []byte("== 1\n")), []string{"line 1 is no token"}},
		"a negative id": {1, set("tokens.txt", []byte("IQ== -1\n")), []string{"line 1 is no token"}},
		"a long token":  {1, set("tokens.txt", bytes.Repeat([]byte("a"), 1<<17)), []string{"line 1"}},
		"a huge list":   {1, set("tokens.txt", make([]byte, 9<<20)), []string{"limit"}},
		"no places":     {0, drop("small-positional_embedding.bin"), []string{"positional_embedding.bin"}},
		"few places":    {0, set("small-positional_embedding.bin", make([]byte, 100)), []string{"has 100 bytes"}},
		"broken places": {0, set("small-positional_embedding.bin", bytes.Repeat([]byte{0xff}, 4*448*768)),
			[]string{"value 0 is no number"}},
		"huge places": {0, set("small-positional_embedding.bin", make([]byte, 4<<20)), []string{"limit"}},
		"no JSON":     {2, set("tiny_config.json", []byte("{")), []string{"tiny_config.json"}},
		"empty JSON":  {2, set("tiny_config.json", []byte("{}")), []string{"tiny_config.json", "sot is not there"}},
	} {
		refused(t, name, all[tt.of], tt.change, tt.want...)
	}
}
