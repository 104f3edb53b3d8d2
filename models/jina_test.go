package models_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestJina: the package is recognised by what its configuration calls its layers, or by their names
// alone, and described as what it is.
func TestJina(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "folder")
	if err := (modelstest.Jina{Seed: 1}).Write(dir); err != nil {
		t.Fatal(err)
	}
	open := func() (*models.Jina, error) {
		o, err := models.OpenAny(dir)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = o.Close() })
		return o.(*models.Jina), nil
	}
	j, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if j.Rows != modelstest.JinaRows || j.Group != 1 || len(j.Nets) != len(j.Text.Layers)+1 || j.Prompts.Named["query"] != "Query: " ||
		j.Prompts.Default != "Document: " || len(j.Text.Adapters) != 2 {
		t.Errorf("%+v", j)
	}
	i := j.Info()
	if i.Kind != "jina-embeddings-v5-omni" || i.Says != "" || i.Context != modelstest.JinaRows || i.Hidden != j.Text.Hidden ||
		!slices.Equal(i.Capabilities, []string{"embedding"}) || !slices.Equal(i.Adapters, []string{"clustering", "retrieval"}) ||
		i.Memory.Load < i.Memory.Card || i.Memory.Adapters <= 0 || i.Memory.Host <= 0 || i.Digest == "" || i.Pooling != "last" {
		t.Errorf("%+v", i)
	}
	if _, err := models.Open(dir); err == nil || !strings.Contains(err.Error(), "(embedding): it is no language model") {
		t.Errorf("as a language model: %v", err)
	}
	config := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(config, []byte(strings.Replace(string(data), "{", `{"prompts": {"find": "F: "}, "default_prompt": "find", `, 1)))
	if j, err := open(); err != nil || !slices.Equal(j.Info().Prompts, []string{"find"}) || j.Prompts.Default != "F: " {
		t.Errorf("prompts of its own: %v", err)
	}
	write(config, []byte(strings.Replace(string(data), "{", `{"prompts": 1, `, 1)))
	if _, err := open(); !errors.Is(err, models.ErrMalformed) || !strings.Contains(err.Error(), "prompts is no object") {
		t.Errorf("prompts that are none: %v", err)
	}
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	if j, err := open(); err != nil || j.Rows != modelstest.JinaRows {
		t.Errorf("without a configuration: %v", err)
	}
	write(config, data)
	name := filepath.Base(j.Text.Head)
	post, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(dir, name), post[:99])
	if _, err := open(); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("a damaged norm: %v", err)
	}
	write(filepath.Join(dir, name), post)
	layer := filepath.Join(dir, "lora", "retrieval", "layer_00.bf16.bin")
	if err := os.Remove(layer); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); err == nil || !strings.Contains(err.Error(), "layer_00.bf16.bin") {
		t.Errorf("an adapter without a file: %v", err)
	}
	if _, _, typ := j.Norm(); typ != axcl.BF16 {
		t.Errorf("the norm gives %v", typ)
	}
}
