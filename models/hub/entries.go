package hub

var (
	qwen3Small  = shape{hidden: 1024, ffn: 3072, heads: 16, kv: 8, headDim: 128, vocab: 151936}
	qwen3Medium = shape{hidden: 2048, ffn: 6144, heads: 16, kv: 8, headDim: 128, vocab: 151936}
	qwen3Large  = shape{hidden: 2560, ffn: 9728, heads: 32, kv: 8, headDim: 128, vocab: 151936}
	qwen3Huge   = shape{hidden: 4096, ffn: 12288, heads: 32, kv: 8, headDim: 128, vocab: 151936}
	qwen2Small  = shape{hidden: 896, ffn: 4864, heads: 14, kv: 2, headDim: 64, vocab: 151936}
	qwen2Medium = shape{hidden: 1536, ffn: 8960, heads: 12, kv: 2, headDim: 128, vocab: 151936}
	qwen2Large  = shape{hidden: 2048, ffn: 11008, heads: 16, kv: 2, headDim: 128, vocab: 151936}
	qwen2Huge   = shape{hidden: 3584, ffn: 18944, heads: 28, kv: 4, headDim: 128, vocab: 152064}
	located     = shape{hidden: 2048, ffn: 11008, heads: 16, kv: 2, headDim: 128, vocab: 152681}
	jinaNano    = shape{hidden: 768, ffn: 3072, heads: 12, kv: 12, headDim: 64, vocab: 128260}
	smolSmall   = shape{hidden: 576, ffn: 1536, heads: 9, kv: 3, headDim: 64, vocab: 49280}
	smolMedium  = shape{hidden: 960, ffn: 2560, heads: 15, kv: 5, headDim: 64, vocab: 49280}

	qwen35Small  = shape{hidden: 1024, ffn: 3584, heads: 8, kv: 2, headDim: 256, vocab: 248320, keys: 16, values: 16}
	qwen35Medium = shape{hidden: 2048, ffn: 6144, heads: 8, kv: 2, headDim: 256, vocab: 248320, keys: 16, values: 16}
	qwen35Large  = shape{hidden: 2560, ffn: 9216, heads: 16, kv: 4, headDim: 256, vocab: 248320, keys: 16, values: 32}
)

// untried is said of models that the software and the simulated card compute, and that were never
// reported on a real one.
const untried = "its states are proven when it is loaded; not yet tried on a real card"

// Other notes that several models have, or that the page translates.
const (
	onLarge = "measured on a card of 16 GB"
	failed  = "the vendor's runtime failed with it on a card over PCIe; not yet tried with axle on a real one"
)

// Encoders of pictures, in bytes: of Qwen2.5-VL and Qwen3.5 as published; of Qwen3-VL and InternVL
// their parameters at 8 bits.
const (
	encoder25 = 921_000_000
	encoder3  = 406_000_000
	encoder35 = 109_000_000
	intern    = 304_000_000
)

// sees35 is what is published of Qwen3.5's encoder, whose input is that of Qwen3-VL's.
const sees35 = "384×384 pixels to 144 rows"

// garbled is said of Gemma-4. Of E2B the table holds 256 values for each of 262,144 tokens and 35
// layers, in bf16.
const (
	garbled = "4.7 GB of it is a table that stays on the machine's disk, mapped; the vendor's runtime garbles this model on cards over " +
		"PCIe: what a card computes is proven when it is loaded; not yet tried on a real card"
	e2bTable = 262_144 * 35 * 256 * 2
)

// kokoroBeside is what of Kokoro's repository does not go to the card: voices, programs, other
// builds.
const kokoroBeside = 320_000_000

// Catalogue lists the models with short names. Speeds are what others measured and published
// (docs/models.md names them); most are unknown.
var Catalogue = []Entry{
	{Name: "qwen3:0.6b", Repo: "AXERA-TECH/Qwen3-0.6B", Layout: "A", Parameters: "0.6B", Quant: "W8A16", Layers: 28,
		Download: 1_200_000_000, Speed: 10.2, SpeedNote: "vendor's newest runtime; 12.9 with an older one, 19.7 with a tuned host loop",
		shape: qwen3Small},
	{Name: "qwen3:0.6b-int4", Repo: "AXERA-TECH/Qwen3-0.6B-GPTQ-Int4", Layout: "A", Parameters: "0.6B", Quant: "W4A16", Layers: 28,
		SpeedNote: "24.5 with a third party's tuned host loop; the vendor's runtime is not measured", shape: qwen3Small},
	{Name: "qwen3:1.7b", Repo: "AXERA-TECH/Qwen3-1.7B", Layout: "A", Parameters: "1.7B", Quant: "W8A16", Layers: 28, Speed: 7.4,
		shape: qwen3Medium},
	{Name: "qwen3:1.7b-int4", Repo: "AXERA-TECH/Qwen3-1.7B-GPTQ-Int4", Parameters: "1.7B", Quant: "W4A16", Layers: 28, shape: qwen3Medium},
	{Name: "qwen3:4b", Repo: "AXERA-TECH/Qwen3-4B", Parameters: "4B", Quant: "W8A16", Layers: 36, Card: 6_300_000_000,
		Speed: 3.65,
		SpeedNote: "as its package says, which has 4.22 on the board itself; 4.5 with the vendor's C++ runtime; takes 6.3 of 7.0 GB " +
			"of card memory", shape: qwen3Large},
	{Name: "qwen3:4b-int4", Repo: "AXERA-TECH/Qwen3-4B-GPTQ-Int4", Layout: "A", Parameters: "4B", Quant: "W4A16", Layers: 36,
		shape: qwen3Large},
	{Name: "qwen3:4b-instruct", Repo: "AXERA-TECH/Qwen3-4B-Instruct-2507-GPTQ-Int8", Parameters: "4B", Quant: "W8A16", Layers: 36,
		shape: qwen3Large},
	{Name: "qwen3:4b-instruct-int4", Repo: "AXERA-TECH/Qwen3-4B-Instruct-2507-GPTQ-Int4", Parameters: "4B", Quant: "W4A16", Layers: 36,
		shape: qwen3Large},
	{Name: "qwen3.5:0.8b", Repo: "AXERA-TECH/Qwen3.5-0.8B-AX650-GPTQ-Int4-C128-P1152-CTX2047", Parameters: "0.8B", Quant: "W4A16",
		Layers: 24, Speed: 13.0, SpeedNote: "27.0 with a third party's tuned host loop; " + untried, Sees: sees35, encoder: encoder35,
		shape: qwen35Small},
	{Name: "qwen3.5:0.8b-8k", Repo: "AXERA-TECH/Qwen3.5-0.8B-AX650-GPTQ-Int4-C256-P6K-CTX8K", Parameters: "0.8B", Quant: "W4A16",
		Layers: 24, SpeedNote: untried, shape: qwen35Small},
	{Name: "qwen3.5:0.8b-int8", Repo: "AXERA-TECH/Qwen3.5-0.8B-AX650-C128-P1152-CTX2047", Parameters: "0.8B", Quant: "W8A16",
		Layers: 24, Download: 1_500_000_000, Card: 894 << 20, Speed: 11.2, SpeedNote: untried, Sees: sees35, encoder: encoder35,
		shape: qwen35Small},
	{Name: "qwen3.5:0.8b-int8-8k", Repo: "AXERA-TECH/Qwen3.5-0.8B-AX650-C256-P6K-CTX8K", Parameters: "0.8B", Quant: "W8A16",
		Layers: 24, SpeedNote: untried, shape: qwen35Small},
	{Name: "qwen3.5:2b", Repo: "AXERA-TECH/Qwen3.5-2B-AX650-GPTQ-Int4-C128-P1152-CTX2047",
		Also: []string{"AXERA-TECH/Qwen3.5-2B-AX650N-GPTQ-Int4-C128-P1152-CTX2047"}, Parameters: "2B", Quant: "W4A16", Layers: 24,
		SpeedNote: untried, Sees: sees35, encoder: encoder35, shape: qwen35Medium},
	{Name: "qwen3.5:2b-8k", Repo: "AXERA-TECH/Qwen3.5-2B-AX650-GPTQ-Int4-C256-P6K-CTX8K", Parameters: "2B", Quant: "W4A16",
		Layers: 24, SpeedNote: untried, shape: qwen35Medium},
	{Name: "qwen3.5:2b-17k", Repo: "AXERA-TECH/Qwen3.5-2B-GPTQ-Int4-AX650-C256-P12k-CTX17k", Parameters: "2B", Quant: "W4A16",
		Layers: 24, SpeedNote: untried, shape: qwen35Medium},
	{Name: "qwen3.5:2b-int8", Repo: "AXERA-TECH/Qwen3.5-2B-AX650-C128-P1152-CTX2047", Parameters: "2B", Quant: "W8A16",
		Layers: 24, Download: 3_400_000_000, Speed: 7.6, SpeedNote: untried, Sees: sees35, encoder: encoder35, shape: qwen35Medium},
	{Name: "qwen3.5:4b", Repo: "AXERA-TECH/Qwen3.5-4B-AX650-GPTQ-Int4-C128-P1152-CTX2047", Parameters: "4B", Quant: "W4A16",
		Layers: 32, Download: 4_500_000_000, Speed: 5.8, SpeedNote: untried, Sees: sees35, encoder: encoder35, shape: qwen35Large},
	{Name: "qwen3.5:4b-12k", Repo: "AXERA-TECH/Qwen3.5-4B-AX650-GPTQ-Int4-C256-P10K-CTX12K", Parameters: "4B", Quant: "W4A16",
		Layers: 32, SpeedNote: untried, shape: qwen35Large},
	{Name: "qwen3.5:4b-20k", Repo: "AXERA-TECH/Qwen3.5-4B-AX650-GPTQ-Int4-C256-P16k-CTX20k", Parameters: "4B", Quant: "W4A16",
		Layers: 32, SpeedNote: untried, shape: qwen35Large},
	{Name: "qwen3.5:4b-32k", Repo: "AXERA-TECH/Qwen3.5-4B-AX650-GPTQ-Int4-C512-P30k-CTX32k", Parameters: "4B", Quant: "W4A16",
		Layers: 32, Download: 12_000_000_000, SpeedNote: untried, shape: qwen35Large},
	{Name: "qwenpaw-flash:2b", Repo: "AXERA-TECH/QwenPaw-Flash-2B-GPTQ-Int4-AX650-C256-P14336-CTX17408", Parameters: "2B",
		Quant: "W4A16", Layers: 24, SpeedNote: untried, shape: qwen35Medium},
	{Name: "qwen2.5:0.5b", Repo: "AXERA-TECH/Qwen2.5-0.5B-Instruct-CTX-Int8", Parameters: "0.5B", Quant: "W8A16", Layers: 24, Speed: 28,
		SpeedNote: "32 on the board itself", shape: qwen2Small},
	{Name: "qwen2.5:0.5b-int4", Repo: "AXERA-TECH/Qwen2.5-0.5B-Instruct-GPTQ-Int4", Layout: "E", Parameters: "0.5B", Quant: "W4A16",
		Layers: 24, shape: qwen2Small},
	{Name: "qwen2.5:1.5b", Repo: "AXERA-TECH/Qwen2.5-1.5B-Instruct", Layout: "E", Parameters: "1.5B", Quant: "W8A16", Layers: 28,
		shape: qwen2Medium},
	{Name: "qwen2.5:1.5b-int4", Repo: "AXERA-TECH/Qwen2.5-1.5B-Instruct-GPTQ-Int4", Layout: "E", Parameters: "1.5B", Quant: "W4A16",
		Layers: 28, shape: qwen2Medium},
	{Name: "qwen2.5:3b", Repo: "AXERA-TECH/Qwen2.5-3B-Instruct", Parameters: "3B", Quant: "W8A16", Layers: 36, shape: qwen2Large},
	{Name: "qwen2.5:3b-int4", Repo: "AXERA-TECH/Qwen2.5-3B-Instruct-GPTQ-Int4", Parameters: "3B", Quant: "W4A16", Layers: 36,
		shape: qwen2Large},
	{Name: "qwen2.5:7b", Repo: "AXERA-TECH/Qwen2.5-7B-Instruct-GPTQ-Int4", Layout: "A", Parameters: "7B", Quant: "W4A16", Layers: 28,
		SpeedNote: "4.8 on the board itself, as its package says", shape: qwen2Huge},
	{Name: "qwen2.5:7b-int8", Repo: "AXERA-TECH/Qwen2.5-7B-Instruct", Parameters: "7B", Quant: "W8A16", Layers: 28, shape: qwen2Huge},
	{Name: "deepseek-r1:1.5b", Repo: "AXERA-TECH/DeepSeek-R1-Distill-Qwen-1.5B", Layout: "E", Parameters: "1.5B", Quant: "W8A16",
		Layers: 28, shape: qwen2Medium},
	{Name: "deepseek-r1:1.5b-int4", Repo: "AXERA-TECH/DeepSeek-R1-Distill-Qwen-1.5B-GPTQ-Int4", Parameters: "1.5B", Quant: "W4A16",
		Layers: 28, shape: qwen2Medium},
	{Name: "deepseek-r1:7b", Repo: "AXERA-TECH/DeepSeek-R1-Distill-Qwen-7B-GPTQ-Int4", Parameters: "7B", Quant: "W4A16", Layers: 28,
		shape: qwen2Huge},
	{Name: "deepseek-r1:7b-int8", Repo: "AXERA-TECH/DeepSeek-R1-Distill-Qwen-7B", Parameters: "7B", Quant: "W8A16", Layers: 28,
		shape: qwen2Huge},
	{Name: "smollm2:360m", Repo: "AXERA-TECH/SmolLM2-360M-Instruct", Layout: "E", Parameters: "360M", Quant: "W8A16", Layers: 32,
		shape: shape{hidden: 960, ffn: 2560, heads: 15, kv: 5, headDim: 64, vocab: 49152}},
	{Name: "smollm3:3b", Repo: "AXERA-TECH/SmolLM3-3B", Parameters: "3B", Layers: 36,
		shape: shape{hidden: 2048, ffn: 11008, heads: 16, kv: 4, headDim: 128, vocab: 128256}},
	{Name: "minicpm4:0.5b", Repo: "AXERA-TECH/MiniCPM4-0.5B", Layout: "E", Parameters: "0.5B", Quant: "W8A16", Layers: 24,
		shape: shape{hidden: 1024, ffn: 4096, heads: 16, kv: 2, headDim: 64, vocab: 73448}},
	{Name: "minicpm5:1b", Repo: "AXERA-TECH/MiniCPM5-1B", Also: []string{"AXERA-TECH/MiniCPM5-1B-AX650-C128-P1152-CTX2047"},
		Parameters: "1B", Layers: 24},
	{Name: "minicpm5:2b", Repo: "AXERA-TECH/MiniCPM5-2B-GPTQ-Int4-AX650-C128-P1K-CTX2K", Parameters: "2B", Quant: "W4A16"},
	{Name: "minicpm5:2b-6k", Repo: "AXERA-TECH/MiniCPM5-2B-GPTQ-Int4-AX650-C128-P4K-CTX6K", Parameters: "2B", Quant: "W4A16"},
	{Name: "gemma3:1b", Repo: "AXERA-TECH/Gemma-3-1B-it-AX650", Also: []string{"AXERA-TECH/Gemma-3-1B-it"},
		Parameters: "1B", Layers: 26, shape: shape{hidden: 1152, ffn: 6912, heads: 4, kv: 1, headDim: 256, vocab: 262144}},
	{Name: "gemma4:e2b", Repo: "AXERA-TECH/gemma-4-E2B-it", Parameters: "E2B", Layers: 35, SpeedNote: garbled,
		shape: shape{hidden: 1536, vocab: 262144}, beside: e2bTable},
	{Name: "gemma4:e2b-int4", Repo: "AXERA-TECH/gemma-4-E2B-it-GPTQ-INT4", Parameters: "E2B", Quant: "W4A16", Layers: 35,
		SpeedNote: garbled, shape: shape{hidden: 1536, vocab: 262144}, beside: e2bTable},
	{Name: "hunyuan-mt:1.8b", Repo: "AXERA-TECH/HY-MT1.5-1.8B_GPTQ_INT4", Parameters: "1.8B", Quant: "W4A16"},
	{Name: "qwen2.5vl:3b", Repo: "AXERA-TECH/Qwen2.5-VL-3B-Instruct", Parameters: "3B", Quant: "W8A16", Layers: 36, Speed: 4.8,
		SpeedNote: "6 with a newer runtime", Sees: "448×448 pixels to 256 rows in 774 ms, an encoder of 921 MB", encoder: encoder25,
		shape: qwen2Large},
	{Name: "qwen2.5vl:3b-int4", Repo: "AXERA-TECH/Qwen2.5-VL-3B-Instruct-GPTQ-Int4", Parameters: "3B", Quant: "W4A16", Layers: 36,
		SpeedNote: failed, Sees: "448×448 pixels to 256 rows", encoder: encoder25, shape: qwen2Large},
	{Name: "qwen2.5vl:7b", Repo: "AXERA-TECH/Qwen2.5-VL-7B-Instruct", Parameters: "7B", Quant: "W8A16", Layers: 28,
		Sees: "448×448 pixels to 256 rows", encoder: encoder25, shape: qwen2Huge},
	{Name: "qwen3-vl:2b", Repo: "AXERA-TECH/Qwen3-VL-2B-Instruct", Layout: "E", Parameters: "2B", Quant: "W8A16", Layers: 28, Speed: 7.8,
		Sees: "384×384 pixels to 144 rows in 192 ms", encoder: encoder3, shape: qwen3Medium},
	{Name: "qwen3-vl:2b-int4", Repo: "AXERA-TECH/Qwen3-VL-2B-Instruct-GPTQ-Int4", Parameters: "2B", Quant: "W4A16", Layers: 28,
		Card: 1771 << 20, Speed: 10, Sees: "384×384 pixels to 144 rows in 192 ms", encoder: encoder3, shape: qwen3Medium},
	{Name: "qwen3-vl:2b-int4-4k", Repo: "AXERA-TECH/Qwen3-VL-2B-Instruct-GPTQ-Int4-C256-P3584-CTX4095", Parameters: "2B",
		Quant: "W4A16", Layers: 28, Sees: "384×384 or 640×640 pixels", encoder: encoder3, shape: qwen3Medium},
	{Name: "qwen3-vl:2b-int4-4k-c512", Repo: "AXERA-TECH/Qwen3-VL-2B-Instruct-GPTQ-Int4-C512-P3584-CTX4095", Parameters: "2B",
		Quant: "W4A16", Layers: 28, Sees: "384×384 or 640×640 pixels", encoder: encoder3, shape: qwen3Medium},
	{Name: "qwen3-vl:4b", Repo: "AXERA-TECH/Qwen3-VL-4B-Instruct", Parameters: "4B", Quant: "W8A16", Layers: 36,
		Sees: "384×384 pixels to 144 rows in 196 ms", encoder: encoder3, shape: qwen3Large},
	{Name: "qwen3-vl:4b-int4", Repo: "AXERA-TECH/Qwen3-VL-4B-Instruct-GPTQ-Int4", Parameters: "4B", Quant: "W4A16", Layers: 36,
		Speed: 5.9, Sees: "384×384 pixels to 144 rows in 196 ms", encoder: encoder3, shape: qwen3Large},
	{Name: "qwen3-vl:8b", Repo: "AXERA-TECH/Qwen3-VL-8B-Instruct", Parameters: "8B", Quant: "W8A16", Layers: 36,
		Sees: "384×384 pixels to 144 rows in 400 ms", encoder: encoder3, shape: qwen3Huge},
	{Name: "qwen3-vl:8b-int4", Repo: "AXERA-TECH/Qwen3-VL-8B-Instruct-GPTQ-Int4", Parameters: "8B", Quant: "W4A16", Layers: 36,
		Speed: 3.1, SpeedNote: onLarge, Sees: "384×384 pixels to 144 rows in 400 ms", encoder: encoder3, shape: qwen3Huge},
	{Name: "internvl3:1b", Repo: "AXERA-TECH/InternVL3-1B", Parameters: "1B", Quant: "W8A16", Layers: 24,
		Sees:    "448×448 pixels to 256 rows",
		encoder: intern, shape: qwen2Small},
	{Name: "internvl3:2b", Repo: "AXERA-TECH/InternVL3-2B", Parameters: "2B", Quant: "W8A16", Layers: 28,
		SpeedNote: "11.5 on the board itself", Sees: "448×448 pixels to 256 rows in 365 ms on the board itself", encoder: intern,
		shape: qwen2Medium},
	{Name: "internvl3.5:1b", Repo: "AXERA-TECH/InternVL3_5-1B", Parameters: "1B", Quant: "W8A16", Layers: 28,
		Sees: "448×448 pixels to 256 rows", encoder: intern, shape: qwen3Small},
	{Name: "internvl3.5:1b-int4", Repo: "AXERA-TECH/InternVL3_5-1B_GPTQ_INT4", Parameters: "1B", Quant: "W4A16", Layers: 28,
		Sees: "448×448 pixels to 256 rows", encoder: intern, shape: qwen3Small},
	{Name: "internvl3.5:2b", Repo: "AXERA-TECH/InternVL3_5-2B", Parameters: "2B", Quant: "W8A16", Layers: 28,
		Sees: "448×448 pixels to 256 rows", encoder: intern, shape: qwen3Medium},
	{Name: "internvl3.5:2b-int4", Repo: "AXERA-TECH/InternVL3_5-2B_GPTQ_INT4", Parameters: "2B", Quant: "W4A16", Layers: 28,
		Sees: "448×448 pixels to 256 rows", encoder: intern, shape: qwen3Medium},
	{Name: "minicpm-v4.6:1b", Repo: "AXERA-TECH/MiniCPM-V-4.6", Parameters: "1B", Quant: "BF16", Layers: 24, SpeedNote: untried,
		Sees: "448×448 pixels to 64 rows", shape: qwen35Small},
	{Name: "minicpm-v4.6:1b-int4", Repo: "AXERA-TECH/MiniCPM-V-4.6-GPTQ", Parameters: "1B", Quant: "W4A16", Layers: 24,
		SpeedNote: untried, Sees: "448×448 pixels to 64 rows", shape: qwen35Small},
	{Name: "fastvlm:0.5b", Repo: "AXERA-TECH/FastVLM-0.5B", Parameters: "0.5B", Quant: "W4A16", Layers: 24, Card: 792 << 20,
		Sees: "512×512 pixels to 64 rows in 47 ms, or 384×384 to 36 in 28 ms", shape: qwen2Small},
	{Name: "fastvlm:1.5b", Repo: "AXERA-TECH/FastVLM-1.5B", Parameters: "1.5B", Layers: 28,
		Sees: "512×512 pixels to 64 rows, or 1024×1024 to 256", shape: qwen2Medium},
	{Name: "fastvlm:1.5b-int4", Repo: "AXERA-TECH/FastVLM-1.5B-GPTQ-Int4", Parameters: "1.5B", Quant: "W4A16", Layers: 28,
		Sees: "512×512 pixels to 64 rows, or 1024×1024 to 256", shape: qwen2Medium},
	{Name: "smolvlm:256m", Repo: "AXERA-TECH/SmolVLM-256M-Instruct", Parameters: "256M", Quant: "W8A16", Layers: 30,
		Sees: "512×512 pixels to 64 rows in 121 ms", shape: smolSmall},
	{Name: "smolvlm2:256m", Repo: "AXERA-TECH/SmolVLM2-256M-Video-Instruct_Ax650", Parameters: "256M", Quant: "W8A16", Layers: 30,
		Sees: "512×512 pixels to 64 rows", shape: smolSmall},
	{Name: "smolvlm2:500m", Repo: "AXERA-TECH/SmolVLM2-500M-Video-Instruct", Parameters: "500M", Quant: "W8A16", Layers: 32,
		Sees: "512×512 pixels to 64 rows", shape: smolMedium},
	{Name: "paddleocr-vl:0.9b", Repo: "AXERA-TECH/PaddleOCR-VL-1.5", Parameters: "0.9B", Quant: "W4A16", Layers: 18,
		Sees: "756×588 pixels to 567 rows in 1.69 s"},
	{Name: "mimo-vl:7b", Repo: "AXERA-TECH/Xiaomi-MiMo-VL-Miloco-7B-AX650-GPTQ-Int4", Parameters: "7B", Quant: "W4A16",
		Sees: "by an encoder without published details"},
	{Name: "locateanything:3b", Repo: "AXERA-TECH/LocateAnything-3B", Parameters: "3B", Quant: "W4A16", Layers: 36,
		Download: 3_400_000_000, Card: 3_100_000_000, Sees: "560×560 pixels to 400 rows", shape: located},
	{Name: "qwen3-asr:0.6b", Repo: "AXERA-TECH/Qwen3-ASR-0.6B-AX650-C64-P448-CTX2047", Parameters: "0.6B", Layers: 28,
		Download: 1_370_000_000, Kind: "audio", SpeedNote: "thirty languages", shape: qwen3Small},
	{Name: "whisper:base", Repo: "M5Stack/whisper-base-axmodel", Layout: "A", Download: 302_000_000, Card: 533_000_000, Kind: "audio",
		SpeedNote: "99 languages"},
	{Name: "whisper:small", Repo: "M5Stack/whisper-small-axmodel", Layout: "A", Download: 694_000_000, Card: 1_106_000_000, Kind: "audio",
		SpeedNote: "99 languages"},
	{Name: "zipformer:zh-en", Repo: "HY-2012/zipformer_streaming.axera", Download: 97_300_000, Kind: "audio",
		SpeedNote: "Chinese and English, while somebody speaks; on a card it needs AXCL 3.16"},
	{Name: "kokoro:82m", Repo: "AXERA-TECH/kokoro.axera", Layout: "B", Parameters: "82M", Download: 554_000_000, Card: 237_000_000,
		Kind: "speech", SpeedNote: "English; a second of speech in 0.08 s with the vendor's programs", beside: kokoroBeside},
	{Name: "qwen3-embedding:0.6b", Repo: "AXERA-TECH/Qwen3-Embedding-0.6B", Layout: "A", Parameters: "0.6B", Quant: "W8A16", Layers: 28,
		Kind: "embedding", shape: qwen3Small},
	{Name: "qwen3-embedding:0.6b-gptq", Repo: "AXERA-TECH/Qwen3-Embedding-0.6B-GPTQ-Int8", Parameters: "0.6B", Quant: "W8A16",
		Layers: 28, Kind: "embedding", shape: qwen3Small},
	{Name: "qwen3-vl-embedding:2b", Repo: "AXERA-TECH/Qwen3-VL-Embedding-2B-AX650-C128_P1280_CTX1407", Parameters: "2B", Layers: 28,
		Kind: "embedding", shape: qwen3Medium},
	{Name: "jina-embeddings-v5-omni:nano", Repo: "AXERA-TECH/jina-embeddings-v5-omni-nano", Parameters: "0.2B", Layers: 12,
		Kind: "embedding", shape: jinaNano},
	{Name: "jina-embeddings-v5-omni:nano-retrieval", Repo: "AXERA-TECH/jina-embeddings-v5-omni-nano-retrieval", Parameters: "0.2B",
		Layers: 12, Kind: "embedding", shape: jinaNano},
	{Name: "jina-embeddings-v5-omni:small", Repo: "AXERA-TECH/jina-embeddings-v5-omni-small", Parameters: "0.6B", Layers: 28,
		Kind: "embedding", shape: qwen3Small},
}

// aliases are names without a size, and spellings that people bring from elsewhere.
var aliases = map[string]string{
	"qwen3": "qwen3:0.6b", "qwen3.5": "qwen3.5:0.8b", "qwen2.5": "qwen2.5:1.5b", "deepseek-r1": "deepseek-r1:1.5b",
	"smollm2": "smollm2:360m",
	"smollm3": "smollm3:3b", "minicpm4": "minicpm4:0.5b", "minicpm5": "minicpm5:1b", "gemma3": "gemma3:1b",
	"gemma4": "gemma4:e2b", "hunyuan-mt": "hunyuan-mt:1.8b",
	"qwen3-embedding": "qwen3-embedding:0.6b", "qwen3-asr": "qwen3-asr:0.6b", "kokoro": "kokoro:82m",
	"zipformer": "zipformer:zh-en", "whisper": "whisper:base", "qwen2.5vl": "qwen2.5vl:3b",
	"qwen3-vl": "qwen3-vl:2b", "internvl3": "internvl3:1b", "internvl3.5": "internvl3.5:2b", "fastvlm": "fastvlm:1.5b",
	"qwenpaw-flash": "qwenpaw-flash:2b", "minicpm-v4.6": "minicpm-v4.6:1b", "smolvlm": "smolvlm:256m", "smolvlm2": "smolvlm2:500m",
	"paddleocr-vl": "paddleocr-vl:0.9b", "mimo-vl": "mimo-vl:7b", "locateanything": "locateanything:3b",
	"qwen3-vl-embedding": "qwen3-vl-embedding:2b", "jina-embeddings-v5-omni": "jina-embeddings-v5-omni:small",
}
