package hub

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/models"
)

// Entry is a model that has a short name. Zero numbers and empty texts are unknown.
type Entry struct {
	Name       string // as Ollama calls the model
	Repo       string
	Layout     string // of the package, A to H
	Parameters string
	Quant      string
	Layers     int
	Download   int64   // bytes, about, as its repository has them; see Size
	Speed      float64 // tokens a second on a Raspberry Pi 5 with the vendor's runtime, one request
	SpeedNote  string
	Kind       string // empty: text; "embedding"
	Sees       string // of a model that reads pictures: what is published of its encoder; empty for others
	NotYet     string // why axle does not run it yet; empty where it does

	shape  shape
	beside int64 // bytes of tables that only some models have, which stay on the machine
}

// shape is a model's architecture, from its checkpoint's config.json, or what of it is known.
type shape struct{ hidden, ffn, heads, kv, headDim, vocab int64 }

var (
	qwen3Small  = shape{1024, 3072, 16, 8, 128, 151936}
	qwen3Medium = shape{2048, 6144, 16, 8, 128, 151936}
	qwen3Large  = shape{2560, 9728, 32, 8, 128, 151936}
	qwen2Small  = shape{896, 4864, 14, 2, 64, 151936}
	qwen2Medium = shape{1536, 8960, 12, 2, 128, 151936}
	qwen2Large  = shape{2048, 11008, 16, 2, 128, 151936}
	qwen2Huge   = shape{3584, 18944, 28, 4, 128, 152064}
)

// untried is said of models that the software and the simulated card compute, and that nobody has told of on a real one.
const untried = "its states are proven when it is loaded; not yet tried on a real card"

// garbled is said of Gemma-4. Of E2B the table holds 256 values for each of 262,144 tokens and 35 layers, in bf16.
const (
	garbled = "4.7 GB of it is a table that stays on the machine's disk, mapped; the vendor's runtime garbles this model on cards over " +
		"PCIe: what a card computes is proven when it is loaded; not yet tried on a real card"
	e2bTable = 262_144 * 35 * 256 * 2
)

// overhead is what compiled files hold beyond the weights, for several groups of shapes: 1.2 GB of Qwen3-0.6B's repository, and the 6.3 GB
// of card memory that Qwen3-4B takes, are 1.45 times their weights beside embeddings and cache.
const overhead = 1.45

// Size is how many bytes a pull fetches, about. Where nobody has told, it is estimated from the architecture, or from the number of
// parameters alone; told is false then. It is for people to choose by: a pull itself asks the hub.
func (e Entry) Size() (bytes int64, told bool) {
	if e.Download > 0 {
		return e.Download, true
	}
	weight := 1.0 // bytes; what is not known is taken for the compiler's default, int8
	if e.Quant == "W4A16" {
		weight = 0.5
	}
	x := e.shape
	head := float64(x.vocab * x.hidden)
	layers := float64(int64(e.Layers) * (x.hidden*x.headDim*(x.heads+x.kv)*2 + 3*x.hidden*x.ffn))
	if layers == 0 {
		layers = billions(strings.ToLower(e.Parameters))*1e9 - head
	}
	size := overhead*(weight*layers+head) + 2*head + float64(e.beside) // the head in int8, and the embeddings in bf16
	return int64(math.Round(size/1e8)) * 1e8, false
}

// Catalogue lists the models with short names. Speeds are what others measured and published (docs/models.md names them); most are unknown.
var Catalogue = []Entry{
	{Name: "qwen3:0.6b", Repo: "AXERA-TECH/Qwen3-0.6B", Layout: "A", Parameters: "0.6B", Quant: "W8A16", Layers: 28,
		Download: 1_200_000_000, Speed: 10.2, SpeedNote: "vendor's newest runtime; 12.9 with an older one, 19.7 with a tuned host loop",
		shape: qwen3Small},
	{Name: "qwen3:0.6b-int4", Repo: "AXERA-TECH/Qwen3-0.6B-GPTQ-Int4", Layout: "A", Parameters: "0.6B", Quant: "W4A16", Layers: 28,
		SpeedNote: "24.5 with a third party's tuned host loop; the vendor's runtime is not measured", shape: qwen3Small},
	{Name: "qwen3:1.7b", Repo: "AXERA-TECH/Qwen3-1.7B", Layout: "A", Parameters: "1.7B", Quant: "W8A16", Layers: 28, Speed: 7.4,
		shape: qwen3Medium},
	{Name: "qwen3:1.7b-int4", Repo: "AXERA-TECH/Qwen3-1.7B-GPTQ-Int4", Parameters: "1.7B", Quant: "W4A16", Layers: 28, shape: qwen3Medium},
	{Name: "qwen3:4b", Repo: "AXERA-TECH/Qwen3-4B", Parameters: "4B", Quant: "W8A16", Layers: 36, Speed: 3.65,
		SpeedNote: "as its package says, which has 4.22 on the board itself; 4.5 with the vendor's C++ runtime; takes 6.3 of 7.0 GB " +
			"of card memory", shape: qwen3Large},
	{Name: "qwen3:4b-int4", Repo: "AXERA-TECH/Qwen3-4B-GPTQ-Int4", Layout: "A", Parameters: "4B", Quant: "W4A16", Layers: 36,
		shape: qwen3Large},
	{Name: "qwen3:4b-instruct", Repo: "AXERA-TECH/Qwen3-4B-Instruct-2507-GPTQ-Int8", Parameters: "4B", Quant: "W8A16", Layers: 36,
		shape: qwen3Large},
	{Name: "qwen3:4b-instruct-int4", Repo: "AXERA-TECH/Qwen3-4B-Instruct-2507-GPTQ-Int4", Parameters: "4B", Quant: "W4A16", Layers: 36,
		shape: qwen3Large},
	{Name: "qwen3.5:0.8b", Repo: "AXERA-TECH/Qwen3.5-0.8B-AX650-GPTQ-Int4-C128-P1152-CTX2047", Parameters: "0.8B", Quant: "W4A16",
		Speed: 13.0, SpeedNote: "27.0 with a third party's tuned host loop; " + untried,
		shape: shape{hidden: 1024, vocab: 248320}},
	{Name: "qwen3.5:0.8b-int8", Repo: "AXERA-TECH/Qwen3.5-0.8B-AX650-C128-P1152-CTX2047", Parameters: "0.8B", Quant: "W8A16",
		SpeedNote: untried, shape: shape{hidden: 1024, vocab: 248320}},
	{Name: "qwen3.5:2b", Repo: "AXERA-TECH/Qwen3.5-2B-AX650-GPTQ-Int4-C128-P1152-CTX2047", Parameters: "2B", Quant: "W4A16",
		SpeedNote: untried, shape: shape{hidden: 2048, vocab: 248320}},
	{Name: "qwen3.5:4b", Repo: "AXERA-TECH/Qwen3.5-4B-AX650-GPTQ-Int4-C128-P1152-CTX2047", Parameters: "4B", Quant: "W4A16", Speed: 5.8,
		SpeedNote: untried, shape: shape{hidden: 2560, vocab: 248320}},
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
	{Name: "deepseek-r1:1.5b", Repo: "AXERA-TECH/DeepSeek-R1-Distill-Qwen-1.5B", Layout: "E", Parameters: "1.5B", Quant: "W8A16",
		Layers: 28, shape: qwen2Medium},
	{Name: "deepseek-r1:1.5b-int4", Repo: "AXERA-TECH/DeepSeek-R1-Distill-Qwen-1.5B-GPTQ-Int4", Parameters: "1.5B", Quant: "W4A16",
		Layers: 28, shape: qwen2Medium},
	{Name: "deepseek-r1:7b", Repo: "AXERA-TECH/DeepSeek-R1-Distill-Qwen-7B-GPTQ-Int4", Parameters: "7B", Quant: "W4A16", Layers: 28,
		shape: qwen2Huge},
	{Name: "smollm2:360m", Repo: "AXERA-TECH/SmolLM2-360M-Instruct", Layout: "E", Parameters: "360M", Quant: "W8A16", Layers: 32,
		shape: shape{960, 2560, 15, 5, 64, 49152}},
	{Name: "smollm3:3b", Repo: "AXERA-TECH/SmolLM3-3B", Parameters: "3B", Layers: 36, shape: shape{2048, 11008, 16, 4, 128, 128256}},
	{Name: "minicpm4:0.5b", Repo: "AXERA-TECH/MiniCPM4-0.5B", Layout: "E", Parameters: "0.5B", Quant: "W8A16", Layers: 24,
		shape: shape{1024, 4096, 16, 2, 64, 73448}},
	{Name: "minicpm5:1b", Repo: "AXERA-TECH/MiniCPM5-1B", Parameters: "1B"},
	{Name: "gemma3:1b", Repo: "AXERA-TECH/Gemma-3-1B-it-AX650", Parameters: "1B", Layers: 26, shape: shape{1152, 6912, 4, 1, 256, 262144}},
	{Name: "gemma4:e2b", Repo: "AXERA-TECH/gemma-4-E2B-it", Parameters: "E2B", Layers: 35, SpeedNote: garbled,
		shape: shape{hidden: 1536, vocab: 262144}, beside: e2bTable},
	{Name: "gemma4:e2b-int4", Repo: "AXERA-TECH/gemma-4-E2B-it-GPTQ-INT4", Parameters: "E2B", Quant: "W4A16", Layers: 35,
		SpeedNote: garbled, shape: shape{hidden: 1536, vocab: 262144}, beside: e2bTable},
	{Name: "hunyuan-mt:1.8b", Repo: "AXERA-TECH/HY-MT1.5-1.8B_GPTQ_INT4", Parameters: "1.8B", Quant: "W4A16"},
	{Name: "qwen2.5vl:3b", Repo: "AXERA-TECH/Qwen2.5-VL-3B-Instruct", Parameters: "3B", Quant: "W8A16", Layers: 36, Speed: 4.8,
		SpeedNote: "6 with a newer runtime", Sees: "448×448 pixels to 256 rows in 774 ms, an encoder of 921 MB", shape: qwen2Large},
	{Name: "qwen3-vl:2b", Repo: "AXERA-TECH/Qwen3-VL-2B-Instruct", Layout: "E", Parameters: "2B", Quant: "W8A16", Layers: 28, Speed: 7.8,
		Sees: "384×384 pixels to 144 rows in 192 ms", shape: qwen3Medium},
	{Name: "internvl3:1b", Repo: "AXERA-TECH/InternVL3-1B", Parameters: "1B", Quant: "W8A16", Sees: "448×448 pixels to 256 rows",
		shape: qwen2Small},
	{Name: "internvl3:2b", Repo: "AXERA-TECH/InternVL3-2B", Parameters: "2B", Quant: "W8A16",
		SpeedNote: "11.5 on the board itself", Sees: "448×448 pixels to 256 rows in 365 ms on the board itself", shape: qwen2Medium},
	{Name: "internvl3.5:2b", Repo: "AXERA-TECH/InternVL3_5-2B", Parameters: "2B", Quant: "W8A16", Sees: "448×448 pixels to 256 rows"},
	{Name: "fastvlm:1.5b", Repo: "AXERA-TECH/FastVLM-1.5B", Parameters: "1.5B", Layers: 28,
		Sees: "512×512 pixels to 64 rows, or 1024×1024 to 256", shape: qwen2Medium},
	{Name: "qwen3-embedding:0.6b", Repo: "AXERA-TECH/Qwen3-Embedding-0.6B", Layout: "A", Parameters: "0.6B", Quant: "W8A16", Layers: 28,
		Kind: "embedding", shape: qwen3Small},
}

// aliases are names without a size, and spellings that people bring from elsewhere.
var aliases = map[string]string{
	"qwen3": "qwen3:0.6b", "qwen3.5": "qwen3.5:0.8b", "qwen2.5": "qwen2.5:1.5b", "deepseek-r1": "deepseek-r1:1.5b",
	"smollm2": "smollm2:360m",
	"smollm3": "smollm3:3b", "minicpm4": "minicpm4:0.5b", "minicpm5": "minicpm5:1b", "gemma3": "gemma3:1b",
	"gemma4": "gemma4:e2b", "hunyuan-mt": "hunyuan-mt:1.8b",
	"qwen3-embedding": "qwen3-embedding:0.6b", "qwen2.5vl": "qwen2.5vl:3b",
	"qwen3-vl": "qwen3-vl:2b", "internvl3": "internvl3:1b", "internvl3.5": "internvl3.5:2b", "fastvlm": "fastvlm:1.5b",
}

// Source is where a name's files come from.
type Source struct {
	Repo, Revision string
	Entry          *Entry // nil for a repository named directly
}

// UnknownError is a short name that the catalogue does not have.
type UnknownError struct {
	Name    string
	Nearest []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("models: %s is not in the catalogue, and Ollama's own library holds GGUF files, which this chip cannot run; "+
		"nearest here: %s. "+
		"`axle pull` without a name lists all; a Hugging Face repository of .axmodel files is pulled as org/name", e.Name,
		strings.Join(e.Nearest, ", "))
}

// Unwrap makes it [ErrNotFound].
func (e *UnknownError) Unwrap() error { return ErrNotFound }

// Locate says where to fetch a model from: a name without a namespace comes from the catalogue, any other is a repository, whose tag is
// the revision. The hosts hf.co and huggingface.co mean the hub that the client is set to. It fails with an [UnknownError].
func Locate(n models.Name) (Source, error) {
	host := strings.ToLower(n.Host())
	hubHost := host == "hf.co" || host == "huggingface.co" || host == "www.huggingface.co"
	if !hubHost && n.Namespace() == "library" {
		short := strings.ToLower(n.Model())
		if n.Tag() != "latest" {
			short += ":" + strings.ToLower(n.Tag())
		}
		short = cmp.Or(aliases[short], short)
		for i := range Catalogue {
			if Catalogue[i].Name == short {
				return Source{Repo: Catalogue[i].Repo, Entry: &Catalogue[i]}, nil
			}
		}
		return Source{}, &UnknownError{n.String(), Nearest(n.Model() + ":" + n.Tag())}
	}
	if !hubHost && host != "registry.ollama.ai" {
		return Source{}, &Error{What: n.String(), Host: n.Host(), Detail: "Ollama's registry protocol is not spoken",
			Fix: "set HF_ENDPOINT to a Hugging Face-compatible hub and name org/name", Err: ErrNotFound}
	}
	s := Source{Repo: n.Namespace() + "/" + n.Model(), Revision: n.Tag()}
	if s.Revision == "latest" {
		s.Revision = ""
	}
	return s, nil
}

// Gemma says e2b, for the parameters that are not in tables.
var sizeName = regexp.MustCompile(`(?:^|[^0-9a-z.])e?(\d+(?:\.\d+)?)([bm])(?:[^a-z]|$)`)

// billions reads the size out of a name; 0 when it says none.
func billions(s string) float64 {
	m := sizeName.FindStringSubmatch(s)
	if m == nil {
		return 0
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		return 0
	}
	if m[2] == "m" {
		v /= 1000
	}
	return v
}

// Nearest names the three models of the catalogue that are most like the one called s: of its family if there are any, then of its size.
func Nearest(s string) []string {
	s = strings.ToLower(s)
	want := strings.TrimRightFunc(sizeName.ReplaceAllString(strings.ReplaceAll(s, ":", "-"), "-"),
		func(r rune) bool { return r < 'a' || r > 'z' })
	want, _, _ = strings.Cut(want, "-")
	want = strings.TrimRight(want, "0123456789.")
	size := billions(s)
	type scored struct {
		name string
		cost float64
	}
	var list []scored
	for i, e := range Catalogue {
		cost := float64(i) / 100 // as the catalogue has them, where nothing else tells
		if family, _, _ := strings.Cut(strings.FieldsFunc(e.Name, func(r rune) bool { return r == ':' || r >= '0' && r <= '9' })[0],
			"-"); want == "" || !strings.HasPrefix(e.Name, want) {
			if n := slips(want, family); n <= max(1, len(want)/2) {
				cost += float64(n)
			} else {
				cost += 10
			}
		}
		if exact, _, _ := strings.Cut(s, ":"); !strings.HasPrefix(e.Name, exact+":") {
			cost++
		}
		if has := billions(e.Name); size > 0 && has > 0 {
			cost += math.Abs(math.Log2(size / has))
		}
		if strings.Contains(e.Name, "int4") != strings.Contains(s, "int4") {
			cost++
		}
		if (e.Kind != "") != strings.Contains(s, "embed") {
			cost += 20
		}
		list = append(list, scored{e.Name, cost})
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Compare(a.cost, b.cost) })
	var out []string
	for _, x := range list[:min(3, len(list))] {
		out = append(out, x.name)
	}
	return out
}

// slips is how many letters have to be changed, put in or left out to make b of a.
func slips(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		above := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := above
			if a[i] != b[j] {
				change++
			}
			above = row[j+1]
			row[j+1] = min(change, above+1, row[j]+1)
		}
	}
	return row[len(b)]
}
