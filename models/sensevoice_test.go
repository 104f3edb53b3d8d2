package models_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestSenseVoice: a recogniser is opened by its tensors, with the net that hears the longest, and
// described as what it is.
func TestSenseVoice(t *testing.T) {
	for i, k := range modelstest.Recognisers() {
		s, dir := openedAs[*models.SenseVoice](t, k)
		rows, net := []int{256, 171}[i], []string{"sensevoice", "model-10-seconds"}[i]
		if s.Rows != rows || s.Net != filepath.Join(dir, net+".axmodel") || len(s.Tokens) != 25055 || s.Tokens[7] != "▁7" ||
			(s.CMVN == nil) != (k.Layout == "sherpa") || (s.Mask.Name == "") != (k.Layout == "sherpa") {
			t.Errorf("%s: %d rows, %s, %d tokens", k.Layout, s.Rows, s.Net, len(s.Tokens))
		}
		if n, ok := s.Language("YUE"); n != 7 || !ok {
			t.Errorf("yue is %d", n)
		}
		if _, ok := s.Language("de"); ok {
			t.Error("it knows German")
		}
		about := s.Info()
		if about.Name != "folder" || about.Kind != "SenseVoice" || about.Says != "" ||
			!slices.Equal(about.Capabilities, []string{"audio"}) ||
			!slices.Equal(about.Languages, []string{"en", "ja", "ko", "yue", "zh"}) ||
			about.Vocab != 25055 || about.Memory.Card <= 0 || about.Memory.Load < about.Memory.Card || about.Digest == "" {
			t.Errorf("%s: %+v", k.Layout, about)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if _, err := models.Open(dir); err == nil || !strings.Contains(err.Error(), "(speech recognition): it is no language model") {
			t.Errorf("as a language model: %v", err)
		}
	}
}

// TestSenseVoiceRefused: what is wrong with the folder is said, with the file.
func TestSenseVoiceRefused(t *testing.T) {
	all := modelstest.Recognisers()
	list := func(n int, last string) string { return strings.Repeat("a\n", n-1) + last }
	for name, tt := range map[string]struct {
		of     int
		change func(files map[string][]byte)
		want   string
	}{
		"no tokens":       {0, func(f map[string][]byte) { delete(f, "tokens.txt") }, "tokens.txt"},
		"too few tokens":  {0, func(f map[string][]byte) { f["tokens.txt"] = []byte(list(25054, "b\n")) }, "has 25054 tokens"},
		"a long token":    {1, func(f map[string][]byte) { f["tokens.txt"] = []byte(strings.Repeat("a", 1<<17)) }, "line 1"},
		"no UTF-8":        {1, func(f map[string][]byte) { f["tokens.txt"] = []byte(list(25055, "\xff\n")) }, "is not UTF-8"},
		"a huge list":     {1, func(f map[string][]byte) { f["tokens.txt"] = make([]byte, 9<<20) }, "limit"},
		"no norm":         {0, func(f map[string][]byte) { delete(f, "am.mvn") }, "am.mvn"},
		"a broken norm":   {0, func(f map[string][]byte) { f["am.mvn"] = f["am.mvn"][:400] }, "fetch the file again"},
		"another's norm":  {0, func(f map[string][]byte) { f["am.mvn"] = []byte("<AddShift> [ 1 ] <Rescale> [ 1 ]") }, "rows of 1 values"},
		"with embeddings": {0, func(f map[string][]byte) { f["embeddings/en.bin"] = []byte("x") }, "a file of embeddings"},
	} {
		refused(t, name, all[tt.of], tt.change, tt.want)
	}
}
