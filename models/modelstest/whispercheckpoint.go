package modelstest

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

// whisperNames are what the tensors are called in Hugging Face's checkpoints.
var whisperNames = strings.NewReplacer(
	".blocks.", ".layers.",
	".mlp_ln.", ".final_layer_norm.", ".mlp.0.", ".fc1.", ".mlp.2.", ".fc2.",
	".cross_attn_ln.", ".encoder_attn_layer_norm.", ".cross_attn.", ".encoder_attn.",
	".attn_ln.", ".self_attn_layer_norm.", ".attn.", ".self_attn.",
	"encoder.positional_embedding", "encoder.embed_positions.weight", "encoder.ln_post.", "encoder.layer_norm.",
	"decoder.positional_embedding", "decoder.embed_positions.weight", "decoder.ln.", "decoder.layer_norm.",
	"decoder.token_embedding.", "decoder.embed_tokens.")

var whisperParts = strings.NewReplacer(".query.", ".q_proj.", ".key.", ".k_proj.", ".value.", ".v_proj.", ".out.", ".out_proj.")

// Checkpoint writes the same weights as a checkpoint in Hugging Face's format, of numbers in 32
// bits: what is compiled from it says what the package says that Write makes.
func (e Whisper) Checkpoint(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	header, data := map[string]any{}, []byte(nil)
	w := e.weights()
	for _, name := range slices.Sorted(maps.Keys(w.all)) {
		t := w.get(name)
		from := len(data)
		data = append(data, floats(t.v)...)
		header["model."+whisperParts.Replace(whisperNames.Replace(name))] = map[string]any{"dtype": "F32", "shape": t.dims,
			"data_offsets": []int{from, len(data)}}
	}
	f := &writer{dir: dir}
	f.text("model.safetensors", string(axmodeltest.Safetensors(header, data)))
	id := e.IDs()
	f.text("config.json", text(map[string]any{"model_type": "whisper", "architectures": []string{"WhisperForConditionalGeneration"},
		"d_model": whisperState, "num_mel_bins": e.mels(), "vocab_size": id.Vocab, "encoder_layers": e.layers(),
		"decoder_layers": e.layers(), "encoder_attention_heads": whisperHeads, "decoder_attention_heads": whisperHeads,
		"encoder_ffn_dim": 4 * whisperState, "decoder_ffn_dim": 4 * whisperState, "max_source_positions": whisperRows,
		"max_target_positions": whisperContext, "activation_function": "gelu", "scale_embedding": false,
		"decoder_start_token_id": id.SOT, "eos_token_id": id.EOT}))
	languages := map[string]int32{}
	for i, code := range e.Languages() {
		languages["<|"+code+"|>"] = id.Language + int32(i)
	}
	suppress := []int32{id.Translate, id.Transcribe, id.SOT, id.SOTPrev, id.SOTLM}
	vocab := map[string]any{}
	for i, token := range e.Tokens() {
		vocab[visible(token)] = i
	}
	for i, token := range e.Tokens()[:256] {
		if strings.Contains(whisperOdd, token) {
			suppress = append(suppress, int32(i))
		}
	}
	f.text("generation_config.json", text(map[string]any{"lang_to_id": languages, "no_timestamps_token_id": id.NoTimestamps,
		"task_to_id":      map[string]int32{"translate": id.Translate, "transcribe": id.Transcribe},
		"suppress_tokens": suppress}))
	f.text("vocab.json", text(vocab))
	return f.err
}

// visible is a token as vocabularies of bytes spell it: a byte that cannot be seen has a character
// after U+0100.
func visible(token string) string {
	var s []rune
	for _, b := range []byte(token) {
		r := rune(b)
		switch {
		case b <= 32:
			r = 256 + rune(b)
		case b >= 127 && b <= 160:
			r = 256 + 33 + rune(b) - 127
		case b == 173:
			r = 256 + 67
		}
		s = append(s, r)
	}
	return string(s)
}
