package models_test

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestZipformer: both packings are opened by their tensors, with their states in pairs, and
// described as what they are.
func TestZipformer(t *testing.T) {
	for i, k := range modelstest.Zipformers() {
		z, dir := openedAs[*models.Zipformer](t, k)
		step, long := []int{96, 32}[i], []int{4 * 2 * 192 * 192, 4 * 2 * 64 * 192}[i]
		if i == 1 {
			long = 4 * 4 * 256 * 30
		}
		if z.Step != step || z.Frames.Shape[1] != step+7 || z.Rows.Shape[1] != step/4 || len(z.States) != 35 || z.Longest().Size == 0 ||
			(models.Kept{To: z.Longest()}).Size() != long || len(z.Symbols) != 6254 || z.Symbols[0] != "<blk>" || z.Symbols[4][:3] != "▁" ||
			z.Encoder.Path != filepath.Join(dir, []string{"inputs/axmodels_650N", "models"}[i], "encoder.axmodel") {
			t.Errorf("%s: %+v", k.Layout, z)
		}
		for n, s := range z.States {
			if s.From.Name != "new_"+s.To.Name {
				t.Errorf("%s: %s is given as %s", k.Layout, s.To.Name, s.From.Name)
			}
			if kind := strings.Split("len avg key val val2 conv1 conv2", " ")[n/5]; !strings.HasPrefix(s.To.Name, "cached_"+kind+"_") {
				t.Errorf("%s: state %d is %s", k.Layout, n, s.To.Name)
			}
		}
		for code, want := range map[string]bool{"": true, "auto": true, "EN": true, "zh-TW": true, "de": false} {
			if z.Knows(code) != want {
				t.Errorf("%s: knows %q: %v", k.Layout, code, !want)
			}
		}
		if z.Speaks("HELLO 你好") != "zh" || z.Speaks("HELLO") != "en" {
			t.Errorf("%s: speaks %q and %q", k.Layout, z.Speaks("HELLO 你好"), z.Speaks("HELLO"))
		}
		about, kept := z.Info(), int64(0)
		for _, s := range z.States {
			kept += models.ZipformerSets * int64(s.Size())
		}
		if about.Kind != "Zipformer" || about.Says != "" || !slices.Equal(about.Capabilities, []string{"audio"}) ||
			!slices.Equal(about.Languages, []string{"en", "zh"}) || about.Vocab != 6254 || about.Memory.IO < kept ||
			about.Memory.Load < about.Memory.Card || about.Digest == "" {
			t.Errorf("%s: %+v", k.Layout, about)
		}
		if err := z.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestZipformerRefused: what is wrong with the folder is said, with the file. Outputs with other
// names pair with the inputs in their order.
func TestZipformerRefused(t *testing.T) {
	all := modelstest.Zipformers()
	const encoder, decoder, joiner = "inputs/axmodels_650N/encoder.axmodel", "inputs/axmodels_650N/decoder.axmodel",
		"inputs/axmodels_650N/joiner.axmodel"
	const tokens = "inputs/lang_char_bpe/tokens.txt"
	drop := func(name string) func(f map[string][]byte) { return func(f map[string][]byte) { delete(f, name) } }
	cut := func(name string) func(f map[string][]byte) {
		return func(f map[string][]byte) { f[name] = f[name][:len(f[name])/2] }
	}
	list := func(from, to string) func(f map[string][]byte) {
		return func(f map[string][]byte) { f[tokens] = bytes.Replace(f[tokens], []byte(from), []byte(to), 1) }
	}
	rename := func(file, from, to string) func(f map[string][]byte) { // as long: the file has offsets
		return func(f map[string][]byte) {
			if !bytes.Contains(f[file], []byte(from)) || len(from) != len(to) {
				t.Fatalf("%s has no %s", file, from)
			}
			f[file] = bytes.ReplaceAll(f[file], []byte(from), []byte(to))
		}
	}
	for name, tt := range map[string]struct {
		change func(files map[string][]byte)
		want   []string
	}{
		"other names": {rename(encoder, "new_cached_", "out_cached_"), nil},
		"no decoder":  {drop(decoder), []string{"Zipformer's decoder of two symbols", "fetch the whole package"}},
		"no joiner":   {drop(joiner), []string{"Zipformer's joiner"}},
		"two encoders": {func(f map[string][]byte) { f["a/encoder.axmodel"] = f[encoder] },
			[]string{encoder, "of the same use as a/enc"}},
		"a state less":           {rename(encoder, "cached_avg_3", "cached_avg_9"), []string{encoder, "does not take cached_avg_3"}},
		"a stage less":           {rename(encoder, "cached_len_4", "cached_len_9"), []string{encoder, "takes 36 tensors"}},
		"an output less":         {rename(encoder, "new_cached_key_2", "new_cached_key_1"), []string{encoder, "twice"}},
		"states of another kind": {rename(encoder, "new_cached_avg_2", "new_cached_avg_x"), nil},
		"no encoder":             {drop(encoder), []string{"Zipformer's encoder"}},
		"a cut decoder":          {cut(decoder), []string{decoder}},
		"a cut encoder":          {cut(encoder), []string{encoder}},
		"no tokens":              {drop(tokens), []string{"tokens.txt"}},
		"a symbol less":          {list("▁BE 20\n", ""), []string{tokens, "has no symbol"}},
		"a symbol twice":         {list("#0 6254", "#0 6253"), []string{tokens, "line 6255 has symbol 6253 again"}},
		"no number":              {list("#0 6254", "#0"), []string{tokens, "line 6255 is no symbol"}},
		"a negative number":      {list("#0 6254", "#0 -1"), []string{tokens, "line 6255 is no symbol"}},
		"no blank":               {list("<blk> 0", "blk 0"), []string{tokens, "the blank is expected"}},
		"no UTF-8":               {list("#0", "\xff"), []string{tokens, "is not UTF-8"}},
		"a long line":            {list("#0", strings.Repeat("a", 1<<17)), []string{tokens, "line 6255"}},
		"a huge list":            {func(f map[string][]byte) { f[tokens] = make([]byte, 9<<20) }, []string{tokens, "limit"}},
	} {
		if len(tt.want) > 0 {
			refused(t, name, all[0], tt.change, tt.want...)
			continue
		}
		files := maps.Clone(all[0].Files)
		tt.change(files)
		o, err := models.OpenAnyFS(mapFS(files), ".")
		if z, ok := o.(*models.Zipformer); err != nil || !ok || len(z.States) != 35 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
