package models_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestTextEncoder: a text encoder is opened by its tensors, whatever its files are called, and
// described as what it is; who wants a language model is told that it is none.
func TestTextEncoder(t *testing.T) {
	for _, model := range []string{"model/bge-m3_u16_npu3", "anything", "a/b/qwen3_p128_l0_together"} {
		for _, k := range modelstest.TextEncoders(model) {
			dir := filepath.Join(t.TempDir(), "folder")
			if err := k.Write(dir); err != nil {
				t.Fatal(err)
			}
			o, err := models.OpenAny(dir)
			if err != nil {
				t.Errorf("%s, %s: %v", k.Layout, model, err)
				continue
			}
			e, ok := o.(*models.TextEncoder)
			dims := map[string]int{"bge-m3": 1024, "bge-small": 384}[k.Layout]
			if !ok || e.Most() != 512 || e.Dims != dims || e.Pad != 0 ||
				e.Net != filepath.Join(dir, filepath.FromSlash(model)+".axmodel") {
				t.Errorf("%s, %s: %+v", k.Layout, model, e)
			}
			i := o.Info()
			if i.Name != "folder" || i.Kind != "text encoder" || i.Says != "" || !slices.Equal(i.Capabilities, []string{"embedding"}) ||
				i.Context != 512 || i.Hidden != dims || i.Memory.Card <= 0 || i.Memory.Load < i.Memory.Card || i.Size == 0 ||
				i.Digest == "" {
				t.Errorf("%s, %s: %+v", k.Layout, model, i)
			}
			if err := o.Close(); err != nil {
				t.Error(err)
			}
			_, err = models.Open(dir)
			if err == nil || !strings.HasSuffix(err.Error(), "a text encoder package (embedding): it is no language model") ||
				errors.Is(err, models.ErrKind) {
				t.Errorf("as a language model: %v", err)
			}
			files := map[string]int64{}
			small := fstest.MapFS{}
			for name, b := range k.Files {
				files[name], small[name] = int64(len(b)), &fstest.MapFile{Data: b}
			}
			need, err := models.Select(files, small)
			var kind *models.KindError
			if !errors.As(err, &kind) || !kind.Runs() || len(need) != len(files) {
				t.Errorf("listed: %v, %v", need, err)
			}
		}
	}
	o, err := models.OpenAny(t.TempDir())
	if o != nil || !errors.Is(err, models.ErrNotPackage) {
		t.Errorf("an empty folder: %v %v", o, err)
	}
}

// TestTextEncoderRefused: what is wrong with the folder is said, with the file.
func TestTextEncoderRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(files map[string][]byte)
		want   string
	}{
		"no tokenizer": {func(f map[string][]byte) { delete(f, "tokenizer/tokenizer.json") },
			"no tokenizer.json; put the one of the model"},
		"another tokenizer": {func(f map[string][]byte) {
			f["tokenizer/tokenizer.json"] = []byte(strings.ReplaceAll(string(f["tokenizer/tokenizer.json"]), "[PAD]", "[FILL]"))
		}, "has neither <pad> nor [PAD]"},
		"no json":  {func(f map[string][]byte) { f["tokenizer/tokenizer.json"] = []byte("{") }, "tokenizer.json"},
		"two nets": {func(f map[string][]byte) { f["again.axmodel"] = f["net.axmodel"] }, "2 nets take a text's ids and give a vector"},
	} {
		k := modelstest.TextEncoders("net")[0]
		tt.change(k.Files)
		dir := t.TempDir()
		if err := k.Write(dir); err != nil {
			t.Fatal(err)
		}
		if o, err := models.OpenAny(dir); o != nil || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	k := modelstest.TextEncoders("net")[0] // a link that leaves the package
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out.axmodel")
	if err := k.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "net.axmodel"), out); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(out, filepath.Join(dir, "net.axmodel")); err != nil {
		t.Skip("SKIPPED, not tested: no symbolic links here:", err)
	}
	if o, err := models.OpenAny(dir); o != nil || err == nil {
		t.Errorf("a link out of the package: %v", err)
	}
}
