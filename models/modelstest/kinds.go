package modelstest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
)

// Kind is a small package of a kind that is no language model, in one of its layouts. Its nets have
// the tensors that such packages have, and no weights.
type Kind struct {
	Name, Layout string // as models has them
	Files        map[string][]byte
}

// Write puts its files into dir.
func (k Kind) Write(dir string) error {
	w := &writer{dir: dir}
	for name, data := range k.Files {
		w.text(name, string(data))
	}
	return w.err
}

// ts reads tensors: "mel f32 1,80,3000; mask i32 448".
func ts(text string) (all []axcl.Tensor) {
	types := map[string]axcl.Type{"f32": axcl.FP32, "i32": axcl.Int32, "u32": axcl.Uint32, "u8": axcl.Uint8, "bf16": axcl.BF16}
	for part := range strings.SplitSeq(text, ";") {
		f := strings.Fields(part)
		t := axcl.Tensor{Name: f[0], Type: types[f[1]]}
		for d := range strings.SplitSeq(f[2], ",") {
			n := 0
			fmt.Sscan(d, &n)
			t.Shape = append(t.Shape, n)
		}
		all = append(all, t)
	}
	return all
}

// nets makes files of lines "name: inputs -> outputs".
func nets(lines ...string) map[string][]byte {
	files := map[string][]byte{}
	for _, line := range lines {
		name, io, _ := strings.Cut(line, ": ")
		in, out, _ := strings.Cut(io, " -> ")
		o := axmodeltest.ONNX{Weights: 100_000, Groups: []axmodeltest.ONNXGroup{{Inputs: ts(in), Outputs: ts(out)}}}
		files[name+".axmodel"] = o.Marshal()
	}
	return files
}

// Net is a file of a net with these tensors and no weights: "images u8 1,320,320,3; mask i32 448".
func Net(in, out string) []byte { return nets("net: " + in + " -> " + out)["net.axmodel"] }

func (k Kind) with(more map[string]string) Kind {
	for name, text := range more {
		k.Files[name] = []byte(text)
	}
	return k
}

// layers adds decoder layers, and a head of out values.
func (k Kind) layers(template string, n, out int, more ...axcl.Tensor) Kind {
	for i := range n {
		l := axmodeltest.VendorLayer(8, 4, 1, 10_000, axcl.Group{Rows: 1, Cells: 31}, axcl.Group{Rows: 8}, axcl.Group{Rows: 8, Cells: 8})
		for g := range l.Groups {
			for _, t := range more {
				if g > 0 {
					t.Name = fmt.Sprintf("%s_%d", t.Name, g)
				}
				l.Groups[g].Inputs = append(l.Groups[g].Inputs, t)
			}
		}
		k.Files[fmt.Sprintf(template, i)] = l.Marshal()
	}
	prefix, _, _ := strings.Cut(template, "_p")
	head := axmodeltest.VendorHead(8, out, 100, axcl.BF16, false)
	if out == 8 {
		head.Groups[0].Outputs[0].Name = "output_norm"
	}
	k.Files[prefix+"_post.axmodel"] = head.Marshal()
	k.Files[filepath.ToSlash(filepath.Join(filepath.Dir(prefix), "model.embed_tokens.weight.bfloat16.bin"))] = make([]byte, 20*8*2)
	return k
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// TextEncoders are packages of text encoders as the vendor's tools make them, which no software
// card runs: their tensors and a tokenizer. model is the net's name.
func TextEncoders(model string) []Kind {
	tokenizer := map[string]string{"tokenizer/tokenizer.json": text(bertTokenizer())}
	return []Kind{
		Kind{"text encoder", "bge-m3", nets(model + ": input_ids i32 1,512" +
			" -> dense f32 1,1024; sparse f32 1,512,1; tokens f32 1,511,1024")}.with(tokenizer),
		Kind{"text encoder", "bge-small", nets(model + ": input_ids i32 1,512 -> last_hidden_state f32 1,512,384")}.with(tokenizer),
	}
}

// Recognisers are SenseVoice's packages, whole but for the weights.
func Recognisers() []Kind {
	var list, numbered strings.Builder
	for i := range 25055 {
		fmt.Fprintf(&list, "▁%d\n", i)
		fmt.Fprintf(&numbered, "▁%d %d\n", i, i)
	}
	norm := "<AddShift> 560 560 <LearnRateCoef> 0 [" + strings.Repeat(" -8.3", 560) + " ] <Rescale> 560 560 <LearnRateCoef> 0 [" +
		strings.Repeat(" 0.16", 560) + " ]\n"
	return []Kind{
		Kind{"SenseVoice", "Axera", nets("sensevoice: speech f32 1,256,560; mask i32 1,1,260; language i32 1"+
			" -> ctc_logits f32 1,260,25055; encoder_out_lens i32 1",
			"streaming_sensevoice: speech f32 1,26,560; mask i32 1,1,30; language i32 1"+
				" -> ctc_logits f32 1,30,25055; encoder_out_lens i32 1"),
		}.with(map[string]string{"tokens.txt": list.String(), "am.mvn": norm}),
		Kind{"SenseVoice", "sherpa", nets("model-5-seconds: x f32 1,83,560; prompt i32 4 -> logits f32 1,87,25055",
			"model-10-seconds: x f32 1,171,560; prompt i32 4 -> logits f32 1,175,25055"),
		}.with(map[string]string{"tokens.txt": numbered.String()}),
	}
}

// Pairs are packages of two encoders, of texts and of pictures, as the vendor has them, whole but
// for the weights and most of the words.
func Pairs() []Kind {
	texts := func(layout string) map[string]string { return CLIP{Layout: layout}.tokenizer() }
	vendor := func(text, picture string) map[string][]byte {
		return nets(text+": text i32 1,77 -> features f32 1,768", picture+": image f32 1,3,336,336 -> features f32 1,768")
	}
	return []Kind{
		Kind{"CLIP", "CLIP", vendor("clip_vit_l14_336px_text_encoder_u16",
			"clip_vit_l14_336px_image_encoder_all_u16_fc_u8")}.with(texts("CLIP")),
		Kind{"CLIP", "CN-CLIP", nets("cnclip_vit_l14_336px_text_u16: text i32 1,52 -> features f32 1,768",
			"cnclip_vit_l14_336px_vision_u16: image f32 1,3,336,336 -> features f32 1,768")}.with(texts("CN-CLIP")),
		Kind{"CLIP", "jina", nets("text_encoder: inputs_id i32 1,50 -> text f32 1,1024",
			"image_encoder: pixel_values f32 1,3,512,512 -> image f32 1,1024")}.with(texts("jina")),
		Kind{"CLIP", "SigLIP2", nets("siglip2_text: input_ids i32 1,64 -> last_hidden_state f32 1,64,768; pooler_output f32 1,768",
			"siglip2_vision: pixel_values f32 1,3,224,224 -> last_hidden_state f32 1,196,768; pooler_output f32 1,768")}.
			with(texts("SigLIP2")),
		Kind{"CLIP", "Immich", vendor("textual/model", "visual/model")}.with(texts("Immich")).
			with(map[string]string{"textual/config.json": "{}", "visual/config.json": "{}"}),
	}
}

// Detectors are packages of detectors as the vendor and Frigate have them, whole but for the
// weights.
func Detectors() []Kind {
	return []Kind{
		{"YOLO", "heads", nets("yolo11s: images u8 1,640,640,3 -> /model.23/Concat_output_0 f32 1,80,80,144;" +
			" /model.23/Concat_1_output_0 f32 1,40,40,144; /model.23/Concat_2_output_0 f32 1,20,20,144")},
		{"YOLO", "table", nets("frigate-yolov9-tiny: images u8 1,320,320,3 -> output0 f32 1,84,2100")},
	}
}

// Diffusions are packages of Stable Diffusion 1.5 in its three packings, whole but for the weights.
// The first has pictures of two sizes.
func Diffusions() (all []Kind) {
	for _, e := range []Diffusion{{Layout: "LCM"}, {Layout: "DPM++"}, {Layout: "Euler"}} {
		k := Kind{"Stable Diffusion 1.5", e.Layout, map[string][]byte{}}
		sizes := []struct {
			folder        string
			height, width int
		}{{e.folder(), 512, 512}, {"models_1024x768/", 1024, 768}}
		if e.Layout == "DPM++" {
			sizes[0].height, sizes[0].width = 480, 320
		}
		for i, s := range sizes {
			if i > 0 && e.Layout != "LCM" {
				continue
			}
			if e.Folder = strings.TrimSuffix(s.folder, "/"); e.Layout == "Euler" {
				e.Folder = "" // beside the configuration
			}
			small, large := fmt.Sprintf("%d,%d", s.height/8, s.width/8), fmt.Sprintf("%d,%d", s.height, s.width)
			time := e.time() + " f32 1,1280"
			if e.Layout == "Euler" {
				time = e.time() + " i32 1"
			}
			lines := []string{strings.TrimSuffix(e.text(), ".axmodel") + ": input_ids u32 1,77 -> last_hidden_state f32 1,77,768",
				e.folder() + "unet: sample f32 1,4," + small + "; " + time + "; encoder_hidden_states f32 1,77,768" +
					" -> noise f32 1,4," + small,
				e.folder() + "vae_decoder: " + e.decoded() + " f32 1,4," + small + " -> image f32 1,3," + large}
			if e.Layout != "DPM++" && i == 0 {
				lines = append(lines, e.folder()+"vae_encoder: image_sample f32 1,3,"+large+" -> moments f32 1,8,"+small)
			}
			for name, data := range nets(lines...) {
				k.Files[name] = data
			}
			k = k.with(e.texts(func(times []int) []byte { return npyRows(len(times), 1280, nil) }))
		}
		all = append(all, k)
	}
	return all
}

// FaceTellers are packages for faces as Insightface's buffalo_l is, whole but for the weights: its
// five nets, in the folders of Immich and in one.
func FaceTellers() (all []Kind) {
	for _, layout := range []string{"rows", "maps"} {
		image, outs := "1,%d,%[1]d,3", ""
		if layout == "maps" {
			image = "1,3,%d,%[1]d"
		}
		for k, each := range []int{1, 4, 10} {
			for i, cells := range []int{80, 40, 20} {
				shape := fmt.Sprintf("%d,%d", 2*cells*cells, each)
				if layout == "maps" {
					shape = fmt.Sprintf("1,%d,%[1]d,%d", cells, 2*each)
				}
				outs += fmt.Sprintf("; %d f32 %s", 448+23*i+3*k, shape)
			}
		}
		picture := func(side int) string { return "data u8 " + fmt.Sprintf(image, side) }
		files := nets("det_10g: "+picture(640)+" -> "+outs[2:], "w600k_r50: "+picture(112)+" -> 683 f32 1,512",
			"2d106det: "+picture(192)+" -> fc1 f32 1,212", "1k3d68: "+picture(192)+" -> fc1 f32 1,3309",
			"genderage: "+picture(96)+" -> fc1 f32 1,3")
		if layout == "maps" {
			files = map[string][]byte{"detection/model.axmodel": files["det_10g.axmodel"],
				"recognition/model.axmodel": files["w600k_r50.axmodel"]}
		}
		all = append(all, Kind{"Insightface", layout, files})
	}
	return all
}

// Speakers are Kokoro's packages in its two layouts, whole but for the weights.
func Speakers() (all []Kind) {
	for _, layout := range []string{"A", "B"} {
		e := Kokoro{Seed: 1, Layout: layout}
		files := map[string][]byte{}
		for name, data := range nets("kokoro_part1_96: input_ids i32 1,96; ref_s f32 1,256; text_mask u8 1,96"+
			" -> duration f32 1,96,50; d f32 1,96,640",
			"kokoro_part2_96: en f32 1,640,192; ref_s f32 1,256; input_ids i32 1,96; text_mask f32 1,96; pred_aln_trg f32 1,96,192"+
				" -> F0_pred f32 1,384; N_pred f32 1,384; asr f32 1,512,192",
			"kokoro_part3_96: asr f32 1,512,192; F0_pred f32 1,384; N_pred f32 1,384; ref_s f32 1,256; har f32 1,22,23041"+
				" -> x f32 1,22,23041") {
			files[e.beside(name)] = data
		}
		all = append(all, Kind{"Kokoro", layout, files}.with(e.texts()))
	}
	return all
}

// Whispers are Whisper's packages in its three layouts, whole but for the weights.
func Whispers() []Kind {
	whole := Whisper{Full: true}
	words := map[string]string{"tokens.txt": whole.list()}
	selfs, crosses, outs, rows := "", "", "", ""
	for i := range 4 {
		selfs += fmt.Sprintf("; self_k_%d f32 1,448,384; self_v_%d f32 1,448,384", i, i)
		crosses += fmt.Sprintf("; cross_k_%d f32 1,1500,384; cross_v_%d f32 1,1500,384", i, i)
		outs += fmt.Sprintf("; out_cross_k_%d f32 1,1500,384; out_cross_v_%d f32 1,1500,384", i, i)
		rows += fmt.Sprintf("; this_self_k_%d f32 1,1,384; this_self_v_%d f32 1,1,384", i, i)
	}
	all := []Kind{
		Kind{"Whisper", "A", nets("small-encoder: mel f32 1,80,3000"+
			" -> n_layer_cross_k f32 12,1,1500,768; n_layer_cross_v f32 12,1,1500,768",
			"small-decoder-main: tokens i32 1,4; n_layer_cross_k f32 12,1,1500,768; n_layer_cross_v f32 12,1,1500,768"+
				" -> logits f32 1,4,51865; out_n_layer_self_k_cache f32 12,1,448,768; out_n_layer_self_v_cache f32 12,1,448,768",
			"small-decoder-loop: tokens i32 1,1; in_n_layer_self_k_cache f32 12,1,448,768; in_n_layer_self_v_cache f32 12,1,448,768;"+
				" n_layer_cross_k f32 12,1,1500,768; n_layer_cross_v f32 12,1,1500,768; positional_embedding f32 1,768; mask f32 448"+
				" -> logits f32 1,1,51865; out_n_layer_self_k_cache f32 12,1,448,768; out_n_layer_self_v_cache f32 12,1,448,768"),
		}.with(words),
		Kind{"Whisper", "B", nets("turbo-encoder: mel f32 1,128,3000 -> cross_k f32 4,1,1500,1280; cross_v f32 4,1,1500,1280",
			"turbo-decoder: tokens i32 1,1; self_k f32 4,1,448,1280; self_v f32 4,1,448,1280; cross_k f32 4,1,1500,1280;"+
				" cross_v f32 4,1,1500,1280; offset i32 1; mask i32 448"+
				" -> logits f32 1,1,51866; this_self_k f32 4,1,1,1280; this_self_v f32 4,1,1,1280")}.with(words),
		Kind{"Whisper", "C", nets("tiny-encoder: tiny-mel f32 1,80,3000 -> "+outs[2:],
			"tiny-decoder: token i32 1,1"+selfs+crosses+"; offset i32 1; mask i32 448 -> logits f32 1,1,51865"+rows)}.with(words),
	}
	all[0].with(map[string]string{"small-positional_embedding.bin": strings.Repeat("\x00", 4*448*768)})
	return all
}

// Zipformers are the streaming Zipformer's packages in both packings, whole but for the weights.
func Zipformers() (all []Kind) {
	types := map[axcl.Type]string{axcl.Int32: "i32", axcl.FP32: "f32"}
	for _, name := range []string{"Axera", "HY"} {
		e := Zipformer{Layout: name, Full: true}
		in := fmt.Sprintf("x f32 1,%d,%d", e.Frames(), zipBins)
		out := fmt.Sprintf("encoder_out f32 1,%d,%d", e.Step()/4, zipOut)
		for _, kind := range zipKinds {
			for i, s := range e.stages() {
				dims := strings.ReplaceAll(strings.Trim(fmt.Sprint(kind.dims(s)), "[]"), " ", ",")
				state := fmt.Sprintf("cached_%s_%d %s %s", kind.name, i, types[kind.typ], dims)
				in, out = in+"; "+state, out+"; new_"+state
			}
		}
		at := e.folder() + "/"
		all = append(all, Kind{"Zipformer", name, nets(at+"encoder: "+in+" -> "+out, at+"decoder: y i32 1,2 -> decoder_out f32 1,512",
			at+"joiner: encoder_out f32 1,512; decoder_out f32 1,512 -> logits f32 1,6254")}.
			with(map[string]string{e.tokens(): e.list()}))
	}
	return all
}

// Hearers are packages of Qwen3-ASR, whole but for the weights: as the vendor makes them, and one
// whose mask is of integers and whose configuration says what it is.
func Hearers() []Kind {
	hearer := func(mask string, config map[string]any) Kind {
		k := Kind{"Qwen3-ASR", mask, nets("conv_frontend: input_features f32 1,3000,128 -> conv_output f32 1,390,896",
			"encoder: input_features f32 1,390,896; feature_attention_mask "+mask+" 1,390 -> output f32 1,390,8")}
		groups := []axcl.Group{{Rows: 1, Cells: 2047}}
		for cells := 0; cells < 448; cells += 64 {
			groups = append(groups, axcl.Group{Rows: 64, Cells: cells})
		}
		for i := range 2 {
			l := axmodeltest.VendorLayer(8, 4, 3, 10_000, groups...)
			l.Groups[0].Inputs[2].Shape = []int{1, 1} // one position where a token is decoded
			k.Files[fmt.Sprintf("qwen3_asr_p64_l%d_together.axmodel", i)] = l.Marshal()
		}
		k.Files["qwen3_asr_post.axmodel"] = axmodeltest.VendorHead(8, hearerVocab, 100, axcl.BF16, false).Marshal()
		k.Files["model.embed_tokens.weight.bfloat16.bin"] = make([]byte, hearerVocab*8*2)
		return k.with(map[string]string{"config.json": text(config), "post_config.json": "{}", "qwen3_tokenizer.txt": hearerTokens(),
			"tokenizer/vocab.json": "{}", "tokenizer/merges.txt": "", "tokenizer/tokenizer_config.json": "{}"})
	}
	heads := map[string]any{"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3072,
		"max_position_embeddings": 65536, "vocab_size": hearerVocab}
	return []Kind{
		hearer("f32", map[string]any{"thinker_config": map[string]any{"text_config": heads}}),
		hearer("i32", map[string]any{"model_type": "qwen3_asr", "thinker_config": map[string]any{"text_config": heads}}),
	}
}

// Kinds are one of every kind and layout that axle does not run.
func Kinds() []Kind {
	vendor := func(more map[string]any, template string, n int) string {
		c := map[string]any{"template_filename_axmodel": template, "axmodel_num": n, "tokens_embed_num": 20, "tokens_embed_size": 8,
			"filename_tokens_embed": "model.embed_tokens.weight.bfloat16.bin"}
		for k, v := range more {
			c[k] = v
		}
		return text(c)
	}
	all := []Kind{
		Kind{"Qwen3-TTS", "", nets("speech_tokenizer/encoder: input_values f32 1,72000 -> audio_codes i32 38,16",
			"speech_tokenizer/decode_pre_inproj: codes i32 16,325 -> hidden_512 f32 325,512")}.
			layers("talker/qwen3_tts_talker_p128_l%d_together.axmodel", 3, 20),
		Kind{"MOSS-Transcribe-Diarize", "", nets("encoder: mel f32 1,80,3000 -> output f32 1,375,8")}.
			layers("qwen3_p256_l%d_together.axmodel", 2, 20),
		{"MeloTTS", "", nets("decoder-ax650/decoder-zh: z_p f32 1,192,128; g f32 1,256,1 -> audio f32 1,1,65536")},
		{"FireRedASR", "", nets("encoder: encoder_input f32 1,998,80; encoder_input_lengths i32 1" +
			" -> n_layer_cross_k f32 16,1,250,1280; n_layer_cross_v f32 16,1,250,1280; cross_attn_mask f32 1,1,250")},
		{"Fun-ASR", "", nets("adaptor: speech f32 1,500,560; speech_lengths i32 1" +
			" -> audio_encoder_out f32 1,63,1024; audio_encoder_out_lens i32 1")},
		{"Silero VAD", "", nets("silero_vad_ax650: input f32 1,640; state f32 2,1,128 -> output f32 1,1; stateN f32 2,1,128")},
		{"openWakeWord", "", nets("models/650/alexa: embeddings f32 1,16,96 -> score f32 1,1")},
		Kind{"image generation", "", nets("vae/decoder: latent f32 1,16,64,64 -> image f32 1,3,512,512")}.
			layers("text_encoder_axmodel/qwen3_p128_l%d_together.axmodel", 2, 20),
	}
	more := map[string]map[string]string{
		"Qwen3-TTS": {"config.json": "{}"},
		"MOSS-Transcribe-Diarize": {"config.json": vendor(map[string]any{"tokenizer_type": "MossTranscribeDiarize",
			"vlm_type": "MossTranscribeDiarizeVL", "filename_post_axmodel": "qwen3_post.axmodel",
			"filename_image_encoder_axmodel": "encoder.axmodel"}, "qwen3_p256_l%d_together.axmodel", 2)},
		"openWakeWord":     {"config/openwakeword_mel_weights.npz": "PK"},
		"image generation": {"model_index.json": "{}"},
	}
	for i, k := range all {
		all[i] = k.with(more[k.Name])
	}
	return slices.Clip(all)
}
