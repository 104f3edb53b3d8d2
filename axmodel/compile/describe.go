package compile

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/axmodel"
)

// tokenizerFiles are copied as they are, into a folder of their own: a checkpoint's config.json
// says what the vendor's does not.
var tokenizerFiles = []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model",
	"special_tokens_map.json", "added_tokens.json",
	"vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json", "modules.json", "1_Pooling/config.json"}

// describe writes config.json, post_config.json and the tokenizer's folder.
func (j *job) describe(ctx context.Context, dir string) error {
	a := j.a
	folder := j.Name + "_tokenizer"
	config := map[string]any{
		"model_name":                filepath.Base(filepath.Clean(j.Out)),
		"tokenizer_type":            a.tokenizerType(j.Name + " " + filepath.Base(filepath.Clean(j.From))),
		"url_tokenizer_model":       folder,
		"template_filename_axmodel": axmodel.LayerTemplate(j.Name, j.Chunk),
		"axmodel_num":               a.Layers,
		"filename_post_axmodel":     j.Name + "_post.axmodel",
		"filename_tokens_embed":     axmodel.EmbedFile,
		"tokens_embed_num":          j.vocab,
		"tokens_embed_size":         a.Hidden,
		"use_mmap_load_embed":       true,
		"devices":                   []int{0},
	}
	// The host computes the head with these.
	if a.Eps != nil {
		config["rms_norm_eps"] = *a.Eps
	}
	if a.FinalCap != nil {
		config["final_logit_softcapping"] = *a.FinalCap
	}
	if w := a.window(); w > 0 {
		config["sliding_window"], config["layer_types"] = w, a.layerTypes()
	}
	if a.linear != nil {
		config["layer_types"] = a.layerTypes()
	}
	if a.gemma {
		// The table is kept as the checkpoint has it, since the head is often tied to it.
		config["tokens_embed_scale"] = embedScale(a.Hidden)
	}
	if a.LayerInputs > 0 {
		config["num_kv_shared_layers"] = a.Shared
		if err := j.writeLayerInputs(ctx, dir, config); err != nil {
			return err
		}
	}
	j.describeVision(config)
	if j.Embedding {
		config["is_embedding"] = true
	}
	var gen generation
	if b, err := read(j.root, "generation_config.json", maxText); err == nil {
		if err := json.Unmarshal(b, &gen); err != nil {
			return &Error{Path: filepath.Join(j.From, "generation_config.json"), What: err.Error()}
		}
	} else if !isNotExist(err) {
		return err
	}
	if post := gen.post(); post != nil {
		config["post_config_path"] = "post_config.json"
		if err := os.WriteFile(filepath.Join(dir, "post_config.json"), toJSON(post), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), toJSON(config), 0o644); err != nil {
		return err
	}
	return j.copyTokenizer(dir, folder, tokenizerFiles)
}

// copyTokenizer copies those of the files that there are into a folder of the package.
func (j *job) copyTokenizer(dir, folder string, names []string) error {
	copied := false
	for _, name := range names {
		b, err := read(j.root, name, 256<<20)
		if isNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		to := filepath.Join(dir, folder, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, b, 0o644); err != nil {
			return err
		}
		copied = copied || name == "tokenizer.json" || name == "tokenizer.model"
	}
	if !copied {
		j.notes = append(j.notes, "the checkpoint has no tokenizer.json or tokenizer.model: put one into "+folder)
	}
	return nil
}

// generation is Hugging Face's generation_config.json.
type generation struct {
	Sample      *bool    `json:"do_sample"`
	Temperature *float64 `json:"temperature"`
	TopK        *int     `json:"top_k"`
	TopP        *float64 `json:"top_p"`
	Penalty     *float64 `json:"repetition_penalty"`
}

// post gives the vendor's post_config.json; nil where the checkpoint recommends nothing.
func (g generation) post() map[string]any {
	if g == (generation{}) {
		return nil
	}
	sample := g.Sample == nil || *g.Sample
	post := map[string]any{"enable_temperature": false, "temperature": 1.0, "enable_top_k_sampling": false, "top_k": 50,
		"enable_top_p_sampling": false, "top_p": 1.0,
		"enable_repetition_penalty": false, "repetition_penalty": 1.0, "penalty_window": 64}
	if sample {
		post["enable_temperature"] = true
		if g.Temperature != nil {
			post["temperature"] = *g.Temperature
		}
		if g.TopK != nil && *g.TopK > 0 {
			post["enable_top_k_sampling"], post["top_k"] = true, *g.TopK
		}
		if g.TopP != nil && *g.TopP < 1 {
			post["enable_top_p_sampling"], post["top_p"] = true, *g.TopP
		}
	}
	if g.Penalty != nil && *g.Penalty != 1 {
		post["enable_repetition_penalty"], post["repetition_penalty"] = true, *g.Penalty
	}
	return post
}
