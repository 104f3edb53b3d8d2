package models

import (
	"path"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
)

// kind is what a folder can be other than a language model. A package is of the kind where a
// configuration says so, or its nets have the tensors of one.
type kind struct {
	name, does string
	says       func(o object) bool               // of one configuration; may be nil
	nets       func(e *evidence) bool            // may be nil
	one        func(k *KindError) error          // of a listing: it is more than one model; may be nil
	open       func(k *KindError) (other, error) // nil: axle does not run it yet
}

// kinds is every kind that is recognised beside language models. The first that fits counts:
// packages that contain another's parts come before it. A kind that runs has how it is opened here,
// and how it is put on a card in package engine.
var kinds = []kind{
	// Language models with something more.
	{name: "MOSS-Transcribe-Diarize", does: "speech recognition with speakers", says: calls("mosstranscribediarize")},
	{name: "Qwen3-ASR", does: "speech recognition", says: calls("qwen3asr"), nets: single(func(n net) bool {
		return convolves(n) || attends(n)
	}), open: openQwenASR},
	{name: "Qwen3-TTS", does: "speech synthesis", says: calls("qwen3tts"), nets: single(func(n net) bool {
		return n.gives("audio_codes") || n.takes("codes") && n.gives("hidden_512")
	})},
	{name: "EmbeddingGemma 2", does: "embedding", says: func(o object) bool {
		_, listed := o["encoder_axmodels"]
		return listed || calls("embeddinggemma2")(o)
	}, nets: single(embedsWhole), open: openEmbeddingGemma},
	{name: "jina-embeddings-v5-omni", does: "embedding", says: callsJina, nets: single(jinaLayer), open: openJina},

	// Speech. FireRedASR's encoder gives tensors of the same names as Whisper's.
	{name: "FireRedASR", does: "speech recognition", nets: single(func(n net) bool {
		return n.takes("encoder_input") && n.gives("cross_attn_mask")
	})},
	{name: "Whisper", does: "speech recognition", nets: single(whisper), one: oneWhisper, open: openWhisper},
	{name: "SenseVoice", does: "speech recognition", nets: single(sensesVoice), open: openSenseVoice},
	{name: "Fun-ASR", does: "speech recognition", nets: single(func(n net) bool { return n.takes("speech", "speech_lengths") })},
	{name: "Zipformer", does: "streaming speech recognition", nets: single(zipformer), open: openZipformer},
	{name: "Kokoro", does: "speech synthesis", nets: single(func(n net) bool { return kokoroPart(n) > 0 }), open: openKokoro},
	{name: "MeloTTS", does: "speech synthesis", nets: single(func(n net) bool {
		return shaped(n.input("z_p"), 1, 192, -1) && n.takes("g")
	})},
	{name: "openWakeWord", does: "wake words", nets: func(e *evidence) bool {
		return slices.ContainsFunc(e.p.t.names, func(name string) bool {
			return path.Base(name) == "openwakeword_mel_weights.npz"
		})
	}},
	{name: "Silero VAD", does: "voice activity detection", nets: single(func(n net) bool {
		return len(n.in) == 2 && len(n.out) == 2 && elements(n.in[0]) == 640 && elements(n.in[1]) == 256 && elements(n.out[0]) == 1
	})},

	// Pictures made.
	{name: "Stable Diffusion 1.5", does: "image generation", nets: drawsPictures, open: openDiffusion},
	{name: "image generation", does: "pictures made from text", says: func(o object) bool {
		f := o.flag("is_image_generation")
		return f != nil && *f || squeeze(o.str("model_type")) == "imagegeneration" || squeeze(o.str("task_type")) == "imagegeneration"
	}, nets: single(func(n net) bool { // a decoder of latents
		return len(n.in) == 1 && len(n.out) == 1 && len(n.in[0].Shape) == 4 && len(n.out[0].Shape) == 4 &&
			(n.in[0].Shape[1] == 4 || n.in[0].Shape[1] == 16) &&
			shaped(n.out[0], 1, 3, 8*n.in[0].Shape[2], 8*n.in[0].Shape[3])
	})},

	// Search and sight.
	{name: "CLIP", does: "search by pictures and texts", nets: clip, open: openCLIP},
	{name: "Insightface", does: "faces", nets: single(faceTeller), open: openFaces},
	{name: "YOLO", does: "object detection", nets: single(detects), open: openDetector},
	{name: "text encoder", does: "embedding", nets: single(encodesText), open: openTextEncoder},
}

// single is a kind that one net tells.
func single(is func(n net) bool) func(e *evidence) bool {
	return func(e *evidence) bool { return e.any(is) }
}

// calls says whether a configuration calls its model so, in letters and digits alone.
func calls(name string) func(o object) bool {
	return func(o object) bool {
		return slices.ContainsFunc([]string{"model_type", "model_name", "tokenizer_type", "vlm_type"}, func(key string) bool {
			return strings.Contains(squeeze(o.str(key)), name)
		})
	}
}

// whisper is the encoder, whose outputs three tools name differently, or the decoder.
func whisper(n net) bool {
	if n.takes("in_n_layer_self_k_cache", "positional_embedding") || n.takes("tokens", "n_layer_cross_k") ||
		n.takes("tokens", "self_k", "cross_k", "offset") {
		return true
	}
	if len(n.in) != 1 || !shaped(n.in[0], 1, 80, 3000) && !shaped(n.in[0], 1, 128, 3000) {
		return false
	}
	layers := len(n.out) >= 8 && len(n.out)%2 == 0 // K and V of each layer
	return n.gives("n_layer_cross_k", "n_layer_cross_v") || n.gives("cross_k", "cross_v") || layers
}

// detects is a net that takes one picture and gives a detector's heads: at strides 8, 16 and 32, or
// all boxes in one table.
func detects(n net) bool {
	if len(n.in) != 1 || len(n.in[0].Shape) != 4 {
		return false
	}
	dims := n.in[0].Shape // in planes, or of pixels
	height, width := dims[2], dims[3]
	if dims[3] == 3 {
		height, width = dims[1], dims[2]
	} else if dims[1] != 3 {
		return false
	}
	if height < 160 || width < 160 {
		return false
	}
	heads, boxes := 0, 0
	for _, stride := range []int{8, 16, 32} {
		h, w := height/stride, width/stride
		boxes += h * w
		if slices.ContainsFunc(n.out, func(t axcl.Tensor) bool { return shaped(t, 1, h, w, -1) || shaped(t, 1, -1, h, w) }) {
			heads++
		}
	}
	return heads == 3 || len(n.out) == 1 && (shaped(n.out[0], 1, -1, boxes) || shaped(n.out[0], 1, boxes, -1) || shaped(n.out[0], 1, 20, 6))
}
