package models

import (
	"errors"
	"fmt"
	"strings"

	"github.com/axle-llm/axle/tokenizer/chat"
)

// Config is what a package's own config.json, StackFlow mode file or run script says, in the
// vendor's terms. A zero field was not said.
type Config struct {
	ModelName       string
	TokenizerType   string // as written; [Package.TokenizerType] is the one to use
	Tokenizer       string // url_tokenizer_model or its older names; may be an http address, which nothing here ever opens
	Template        string // layer files, with %d
	PrefillTemplate string // layout H: separate prefill layers
	Layers          int
	Head            string
	Embed           string
	Vocab           int
	Hidden          int
	EmbedScale      float64 // what a row of the embedding table is multiplied by when it is looked up
	PerLayer        string  // Gemma-4: a table for the layer inputs, row by token
	PerLayerProject string  // and what of a token's embedding is added to it, and its norm
	PerLayerNorm    string
	PostConfig      string
	Think           chat.Think

	FullAttentionInterval int
	KVSharedLayers        int
	LayerTypes            []string
	SlidingWindow         int

	LogitCap float64 // the head gives LogitCap · tanh(logit / LogitCap)
	NormEps  float64 // added to the mean square in a norm

	Blind                     bool // vlm_type says that the model does not see
	VisionType                string
	VisionEncoder             string
	VisionWidth, VisionHeight int // of a picture; 0 where it is no size of one
	Embedding                 bool
}

// Keys of config.json. The first name is today's, the others are what older or mistyped packages
// use.
var (
	keyTokenizer = []string{"url_tokenizer_model", "filename_tokenizer_model", "filename_tokenizer_txt", "tokenizer_model"}
	keyEncoder   = []string{"filename_image_encoder_axmodel", "filename_image_encoder_axmodedl", "filename_vpm_resampler_axmodedl",
		"filename_vpm_encoder_axmodedl", "filename_vpm_resampler_axmodel"}
	keyEmbedding = []string{"is_embedding", "embedding", "embedding_type", "EMBEDDING_TYPE"}
)

// keyScale is not the vendor's: axle compile writes it where a model multiplies what it looks up,
// since nothing else in a package tells.
const (
	keyScale = "tokens_embed_scale"
	maxScale = 1024
)

// parseConfig reads the vendor's keys of o. Numbers out of range are errors: they would become
// sizes.
func parseConfig(o object) (Config, error) {
	c := Config{
		ModelName:       o.str("model_name"),
		TokenizerType:   o.str("tokenizer_type"),
		Tokenizer:       o.str(keyTokenizer...),
		Template:        o.str("template_filename_axmodel"),
		PrefillTemplate: o.str("template_prefill_filename_axmodel"),
		Head:            o.str("filename_post_axmodel"),
		Embed:           o.str("filename_tokens_embed"),
		PerLayer:        o.str("filename_tokens_embed_per_layer"),
		PerLayerProject: o.str("filename_per_layer_model_projection"),
		PerLayerNorm:    o.str("filename_per_layer_projection_norm"),
		PostConfig:      o.str("post_config_path"),
		VisionType:      o.str("vlm_type", "VLM_TYPE"),
		VisionEncoder:   o.str(keyEncoder...),
	}
	if f := o.flag(keyEmbedding...); f != nil {
		c.Embedding = *f
	}
	if v := strings.ToLower(c.VisionType); v == "none" || v == "0" {
		c.VisionType, c.Blind = "", true
	}
	c.Think = parseThinking(o)
	c.VisionWidth = pixels(o, "vision_width", "img_width") // img_…: of the oldest packages' scripts
	c.VisionHeight = pixels(o, "vision_height", "img_height")
	var err error
	num := func(to *int, hi int64, key string) {
		n, _, e := o.num(0, hi, key)
		err, *to = errors.Join(err, e), int(n)
	}
	num(&c.Layers, maxLayers, "axmodel_num")
	num(&c.Vocab, maxVocab, "tokens_embed_num")
	num(&c.Hidden, maxHidden, "tokens_embed_size")
	if _, said := o.get(keyScale); said && err == nil {
		// √hidden of the widest model there may be is below 400: what is far from that is no scale
		// but a damaged file.
		if f := o.float(keyScale); f == nil || !(*f >= 1.0/maxScale && *f <= maxScale) {
			err = fmt.Errorf("%s is %.40q, want a number from 1/%d to %d", keyScale, o.str(keyScale), maxScale, maxScale)
		} else {
			c.EmbedScale = *f
		}
	}
	if err == nil {
		err = c.mixed(o)
	}
	return c, err
}

// pixels reads a side of a picture; 0 where it is none.
func pixels(o object, keys ...string) int {
	n, _, _ := o.num(0, 1<<14, keys...)
	return int(n)
}

// mixed takes what o says of families whose layers differ, unless it was said already: the keys may
// stand at the top, under text_config, or in a tokenizer folder's config.json, and the nearest to
// the package wins.
func (c *Config) mixed(o object) error {
	for _, o := range []object{o, o.sub("text_config")} {
		for _, f := range []struct {
			to  *int
			hi  int64
			key string
		}{
			{&c.FullAttentionInterval, maxLayers, "full_attention_interval"},
			{&c.KVSharedLayers, maxLayers, "num_kv_shared_layers"},
			{&c.SlidingWindow, 1 << 24, "sliding_window"},
		} {
			if *f.to != 0 {
				continue
			}
			n, _, err := o.num(0, f.hi, f.key)
			if err != nil {
				return err
			}
			*f.to = int(n)
		}
		for to, key := range map[*float64]string{&c.LogitCap: "final_logit_softcapping", &c.NormEps: "rms_norm_eps"} {
			if f := o.float(key); *to == 0 && f != nil && *f >= 0 && *f < 1e6 {
				*to = *f
			}
		}
		if c.LayerTypes == nil {
			if c.LayerTypes = o.strs("layer_types"); len(c.LayerTypes) > maxLayers {
				return fmt.Errorf("layer_types has %d entries, limit %d", len(c.LayerTypes), maxLayers)
			}
		}
	}
	return nil
}

func parseThinking(o object) chat.Think {
	if f := o.flag("enable_thinking"); f != nil {
		if *f {
			return chat.ThinkOn
		}
		return chat.ThinkOff
	}
	switch strings.ToLower(o.str("thinking_mode")) {
	case "think", "on", "true":
		return chat.ThinkOn
	case "no_think", "off", "false":
		return chat.ThinkOff
	}
	return chat.ThinkDefault
}

// vendor says whether o has any key by which the vendor's runtime finds a model; a Hugging Face
// config.json has none.
func (o object) vendor() bool {
	return o.any("template_filename_axmodel", "filename_post_axmodel", "axmodel_num", "filename_tokens_embed", "tokens_embed_num")
}

// facts is what a Hugging Face config.json knows of a model and the vendor's does not.
type facts struct {
	modelType    string
	vocab        int
	heads, kv    int
	headDim      int
	intermediate int
	context      int
	bos, eos     []int32
	pooling      string
}

func parseFacts(o object) (f facts) {
	f.modelType = o.str("model_type")
	f.bos, f.eos = o.ids("bos_token_id"), o.ids("eos_token_id")
	for _, o := range []object{o, o.sub("text_config"), o.sub("llm_config"), o.sub("thinker_config").sub("text_config")} {
		for _, n := range []struct {
			to  *int
			key string
		}{
			{&f.vocab, "vocab_size"}, {&f.heads, "num_attention_heads"}, {&f.kv, "num_key_value_heads"}, {&f.headDim, "head_dim"},
			{&f.intermediate, "intermediate_size"}, {&f.context, "max_position_embeddings"},
		} {
			if v, ok, err := o.num(1, 1<<30, n.key); ok && err == nil && *n.to == 0 {
				*n.to = int(v)
			}
		}
		if f.eos == nil {
			f.eos = o.ids("eos_token_id")
		}
		if f.bos == nil {
			f.bos = o.ids("bos_token_id")
		}
	}
	return f
}

func poolingOf(o object) string {
	for _, k := range []struct{ key, kind string }{
		{"pooling_mode_lasttoken", "last"}, {"pooling_mode_mean_tokens", "mean"}, {"pooling_mode_cls_token", "first"},
	} {
		if f := o.flag(k.key); f != nil && *f {
			return k.kind
		}
	}
	return ""
}
