package hub

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/models"
)

// Entry is a model that has a short name. Zero numbers and empty texts are unknown.
type Entry struct {
	Name       string // as Ollama calls the model
	Repo       string
	Also       []string // other spellings of Repo, which a pull tries in this order where the hub has no Repo
	Layout     string   // of the package, A to H
	Parameters string
	Quant      string
	Layers     int
	Download   int64   // bytes, about, as its repository has them; see Size
	Card       int64   // bytes of card memory that somebody has seen it take; see CardMemory
	Speed      float64 // tokens a second on a Raspberry Pi 5 with the vendor's runtime, one request
	SpeedNote  string
	Kind       string // empty: text; else the capability: "embedding", "audio" (it hears), "speech" (it speaks)
	Sees       string // of a model that reads pictures: what is published of its encoder; empty for others
	NotYet     string // why axle does not run it yet; empty where it does

	shape   shape
	encoder int64 // bytes of the encoder of pictures; 0: there is none, or their size is not published
	beside  int64 // bytes of tables that only some models have, which stay on the machine
}

// shape is a model's architecture, from its checkpoint's config.json, or what of it is known. Where
// keys is set, three of four layers keep a state of that number of key and value heads, 128 values
// each; the others' queries have a gate.
type shape struct{ hidden, ffn, heads, kv, headDim, vocab, keys, values int64 }

// stateDim is how long a head of a layer with a state is, and interval which layer has attention.
const stateDim, interval = 128, 4

// attention is how many parameters a layer with attention has, state those of a layer with a state.
func (x shape) attention() int64 {
	queries := x.heads
	if x.keys > 0 {
		queries *= 2
	}
	return x.hidden*x.headDim*(x.heads+queries+2*x.kv) + 3*x.hidden*x.ffn
}

func (x shape) state() int64 {
	return x.hidden*(2*x.keys*stateDim+3*x.values*stateDim+2*x.values) + 3*x.hidden*x.ffn
}

// known says whether there is enough of the shape to count a layer's parameters.
func (x shape) known() bool { return x.headDim > 0 && x.ffn > 0 && x.vocab > 0 }

// overhead is what compiled files hold beyond the weights, for several groups of shapes: 1.2 GB of
// Qwen3-0.6B's repository, and the 6.3 GB of card memory that Qwen3-4B takes, are 1.45 times their
// weights beside embeddings and cache.
const overhead = 1.45

// Overhead is what files and card memory of compiled weights take, as a multiple of the weights.
func Overhead(weights int64) int64 { return int64(overhead * float64(weights)) }

// weight is how many bytes a parameter of a layer takes. What is not known is taken for the
// compiler's default, int8.
func (e *Entry) weight() float64 {
	switch e.Quant {
	case "W4A16":
		return 0.5
	case "BF16":
		return 2
	}
	return 1
}

// weights are the bytes of layers and head without what compiled files hold beyond them: from the
// architecture, or from the number of parameters alone.
func (e *Entry) weights() float64 {
	x := e.shape
	head := float64(x.vocab * x.hidden)
	layers := billions(strings.ToLower(e.Parameters))*1e9 - head
	if x.known() && e.Layers > 0 {
		full := int64(e.Layers)
		if x.keys > 0 {
			full /= interval
		}
		layers = float64(full*x.attention() + (int64(e.Layers)-full)*x.state())
	}
	return e.weight()*layers + head // the head in int8
}

// embeddings are the bytes of tables that stay on the machine.
func (e *Entry) embeddings() float64 { return float64(2*e.shape.vocab*e.shape.hidden + e.beside) }

// Size is how many bytes a pull fetches, about. Where that is unknown, it is estimated from the
// architecture, or from the number of parameters alone; told is false then. It is for people to
// choose by: a pull itself asks the hub.
func (e Entry) Size() (bytes int64, told bool) {
	if e.Download > 0 {
		return e.Download, true
	}
	size := overhead*e.weights() + e.embeddings() + float64(e.encoder)
	return int64(math.Round(size/1e8)) * 1e8, false
}

// CardMemory is how many bytes of a card's memory the model takes, about: what its files hold
// beside tables that stay on the machine, caches and states, and never less than somebody has seen
// it take; told says that it is what somebody has seen. An encoder of pictures whose size is not
// published is not in it.
func (e Entry) CardMemory() (bytes int64, told bool) {
	need := max(overhead*e.weights()+float64(e.encoder), float64(e.Download)-e.embeddings())
	if h, ok := e.Shape(); ok {
		state := int64(0)
		for i := range h.Layers {
			if s := h.StateBytes(i); s > 0 {
				state += s
				continue
			}
			need += float64(h.Context * h.KVHeads * h.HeadDim * 4) // K and V in bf16
		}
		if state > 0 {
			need += float64(int64(models.SlotsFor(state)+1) * state)
		}
	}
	return max(e.Card, int64(need)), e.Card > int64(need)
}

// First is the model to begin with on a card of some size: of those for text whose speed is known
// and that run without more ado, the largest that leaves a quarter of the card free and gives seven
// tokens a second, about as fast as one reads; nil: none does.
func First(card models.CardSize) *Entry {
	var best *Entry
	for i, e := range Catalogue {
		need, _ := e.CardMemory()
		if e.Kind != "" || e.NotYet != "" || e.Sees != "" || e.Speed < 7 || need > card.Room/4*3 {
			continue
		}
		if best == nil || e.weights() > best.weights() {
			best = &Catalogue[i]
		}
	}
	return best
}

// Shape is the model as a shape without weights, to plan by: its layers as its checkpoint has
// them, with the groups that the repository's name tells, else those of the vendor's most common
// build, 2047 rows in calls of 128. ok is false where too little of it is known.
func (e Entry) Shape() (s axmodel.Shape, ok bool) {
	x := e.shape
	if !x.known() || e.Layers == 0 {
		return s, false
	}
	b, _ := e.Build()
	s = axmodel.Shape{Name: "model", Layers: e.Layers, Hidden: int(x.hidden), Heads: int(x.heads), KVHeads: int(x.kv),
		HeadDim: int(x.headDim), Intermediate: int(x.ffn), Vocab: int(x.vocab), Context: b.Context, Chunk: b.Chunk,
		LayerBytes: int64(e.weight() * float64(x.attention())), HeadBytes: x.vocab * x.hidden}
	for h := 0; h < b.Prompt; h += b.Chunk {
		s.History = append(s.History, h)
	}
	if x.keys > 0 {
		s.Linear = &axmodel.ShapeStates{Interval: interval, KeyHeads: int(x.keys), ValueHeads: int(x.values), KeyDim: stateDim,
			ValueDim: stateDim, Conv: 4, Bytes: int64(e.weight() * float64(x.state()))}
	}
	return s, true
}

// Build is what a package was compiled for: rows of a prefill call, the longest prompt that such
// calls take, and rows of the cache.
type Build struct{ Chunk, Prompt, Context int }

var buildName = regexp.MustCompile(`(?i)-C(\d+)[-_]P(\d+)(k?)[-_]CTX(\d+)(k?)`)

// Build reads it out of the repository's name. ok is false where that does not tell; it is the most
// common one then.
func (e *Entry) Build() (b Build, ok bool) {
	m := buildName.FindStringSubmatch(e.Repo)
	if m == nil {
		return Build{128, 1152, 2047}, false
	}
	number := func(digits, k string) int {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 || n > 1<<24 {
			return 0
		}
		if k != "" {
			n *= 1024
		}
		return n
	}
	b = Build{number(m[1], ""), number(m[2], m[3]), number(m[4], m[5])}
	if b.Context%128 == 0 { // the context: the cache has a row less
		b.Context--
	}
	if b.Chunk < 1 || b.Prompt < b.Chunk || b.Context < b.Prompt {
		return Build{128, 1152, 2047}, false
	}
	return b, true
}

// Source is where a name's files come from.
type Source struct {
	Repo, Revision string
	Also           []string // other spellings of Repo, to try in this order where there is none of that name
	Entry          *Entry   // nil for a repository named directly
}

// UnknownError is a short name that the catalogue does not have.
type UnknownError struct {
	Name    string
	Nearest []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("models: %s is not in the catalogue (Ollama's library is GGUF files, which this chip cannot run); nearest here: "+
		"%s. `axle pull --list` lists all; a Hugging Face repository of .axmodel files is pulled as org/name", e.Name,
		strings.Join(e.Nearest, ", "))
}

// Unwrap makes it [ErrNotFound].
func (e *UnknownError) Unwrap() error { return ErrNotFound }

// Locate says where to fetch a model from: a name without a namespace comes from the catalogue, any
// other is a repository, whose tag is the revision. The hosts hf.co and huggingface.co mean the hub
// that the client is set to. It fails with an [UnknownError].
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
				return Source{Repo: Catalogue[i].Repo, Also: Catalogue[i].Also, Entry: &Catalogue[i]}, nil
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

// Of is the entry whose package a repository holds, by its name on the hub; nil where the catalogue
// has none.
func Of(repo string) *Entry {
	for i := range Catalogue {
		e := &Catalogue[i]
		if strings.EqualFold(e.Repo, repo) || slices.ContainsFunc(e.Also, func(a string) bool { return strings.EqualFold(a, repo) }) {
			return e
		}
	}
	return nil
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

// Nearest names the three models of the catalogue that are most like the one called s: of its
// family if there are any, then of its size.
func Nearest(s string) []string {
	s = strings.ToLower(s)
	want := strings.TrimRightFunc(sizeName.ReplaceAllString(strings.ReplaceAll(s, ":", "-"), "-"),
		func(r rune) bool { return r < 'a' || r > 'z' })
	want, _, _ = strings.Cut(want, "-")
	want = strings.TrimRight(want, "0123456789.")
	size, kind := billions(s), kindNamed(s)
	type scored struct {
		name string
		cost float64
	}
	var list []scored
	for i, e := range Catalogue {
		cost := float64(i) / 100 // as the catalogue has them, where nothing else tells
		if family, _, _ := strings.Cut(strings.FieldsFunc(e.Name, func(r rune) bool { return r == ':' || r >= '0' && r <= '9' })[0],
			"-"); want == "" || !strings.HasPrefix(e.Name, want) {
			if n := editDistance(want, family); n <= max(1, len(want)/2) {
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
		if e.Kind != kind {
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

// kindNames are what names of models that are not of text have in them.
var kindNames = []struct{ part, kind string }{{"embed", "embedding"}, {"whisper", "audio"}, {"asr", "audio"}, {"zip", "audio"},
	{"sense", "audio"}, {"stt", "audio"}, {"kok", "speech"}, {"tts", "speech"}, {"speech", "speech"}}

// kindNamed is the kind of model that a name asks for, as [Entry] has it.
func kindNamed(name string) string {
	for _, k := range kindNames {
		if strings.Contains(name, k.part) {
			return k.kind
		}
	}
	return ""
}

// editDistance is how many letters have to be changed, put in or left out to make b of a.
func editDistance(a, b string) int {
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
