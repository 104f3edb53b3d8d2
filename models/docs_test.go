package models_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// The configuration in docs/packages.md opens a package, with nothing left to infer but what the
// page says may be left out.
func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/packages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "```json\n")
	example, _, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/packages.md has no example")
	}
	var c map[string]any
	if err := json.Unmarshal([]byte(example), &c); err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	b.vendor("", c["template_filename_axmodel"].(string), 28, c["filename_post_axmodel"].(string))
	b.write(c["url_tokenizer_model"].(string), []byte("{}"))
	c["tokens_embed_num"], c["tokens_embed_size"] = 20, 8 // a smaller table
	small, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	b.write("config.json", small)
	p := b.open()
	if len(p.Notes) > 0 || len(p.Layers) != 28 || p.Name != "my/Qwen3-0.6B" || p.TokenizerType != "Qwen3" {
		t.Errorf("%s, %d layers, notes %q", p.Name, len(p.Layers), p.Notes)
	}
	for _, key := range []string{"is_embedding", "full_attention_interval", "layer_types", "sliding_window", "num_kv_shared_layers",
		"enable_thinking", "thinking_mode", "system_prompt", "vlm_type"} {
		if !strings.Contains(string(page), "`"+key+"`") {
			t.Errorf("docs/packages.md does not tell of %s", key)
		}
	}
}
