package models

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/internal/plain"
)

func sqrt32(n int) float32 { return float32(math.Sqrt(float64(n))) }

// Memory is what loading the package will take.
type Memory = ask.Memory

// page is what a card's memory is handed out in.
const page = 4096

// Memory predicts what the package takes when it is loaded: what axcl/native asks the card for, in
// whole pages.
func (p *Package) Memory() Memory {
	m := p.TextMemory()
	v, err := p.Vision()
	if err != nil || v == nil {
		return m
	}
	for _, n := range []int64{v.Weights, int64(v.Input.Size), int64(v.Output.Size)} {
		m.Encoder += pages(n)
	}
	for _, t := range v.Deep {
		m.Encoder += pages(int64(t.Size))
	}
	//rule:D3 TestMemoryOfEncoder m.Encoder => 0 * m.Encoder
	m.Card += m.Encoder
	m.Load = max(m.Load, m.Card+pages(max(v.Size, v.Weights)))
	return m
}

// pages is n bytes in whole pages.
func pages(n int64) int64 { return (n + page - 1) &^ (page - 1) }

// TextMemory is Memory without the encoder of pictures: what the package takes on a card that has
// no room for both. A recogniser is of no use without its encoder of sound, which is part of it.
func (p *Package) TextMemory() Memory {
	m := p.layersMemory()
	if h := p.hears; h != nil {
		for _, n := range []NetFile{h.Front, h.Encoder} {
			m.Encoder += pages(n.Size)
		}
		for _, t := range []axcl.Tensor{h.Mel, h.Between.To, h.Mask, h.Output} {
			m.Encoder += pages(int64(t.Size))
		}
		m.Card += m.Encoder
		m.Load = max(m.Load, m.Card+pages(max(h.Front.Size, h.Encoder.Size)))
	}
	return m
}

// layersMemory is what layers and head take.
func (p *Package) layersMemory() Memory {
	var m Memory
	take := func(what *int64, n int64) {
		*what += n
		m.IO += -n & (page - 1) // what a page holds in addition
	}
	s := p.Shape
	rows, hidden, kv := int64(s.Shape().MaxRows()), int64(s.Hidden), int64(p.widest())
	masks := 1
	if d := p.Whole; d != nil {
		return p.decoderMemory()
	}
	shared := p.sharedKV()
	adapter, zeros := p.adapterMemory()
	take(&m.IO, zeros)
	for i, l := range p.Facts {
		take(&m.Layers, l.Weights)
		if l.Kind == LinearAttention {
			slots := int64(p.Slots()) + 1 // a pass may leave the new state where it read the old one: the card keeps one more
			take(&m.States, slots*int64(l.State.K.Size))
			take(&m.States, slots*int64(l.State.V.Size))
			continue
		}
		row, cells := 2*int64(l.Shape.KV), int64(l.Shape.Cells)
		if shared.sources[i] {
			cells += shared.extra
		}
		for range 2 { // K and V
			//rule:D3 TestGemma4$ false
			if l.Shares {
				break // they are another's
			}
			take(&m.Cache, cells*row)
			if rows > 1 { // a wide pass's new rows wait in buffers of each layer's own
				take(&m.IO, rows*row)
			}
			if shared.sources[i] && shared.second > 0 {
				take(&m.IO, shared.second*row)
			}
		}
		for range p.Adapters {
			take(&m.Adapters, adapter)
		}
		if s.LayerInputs > 0 { // the layer's inputs of a pass's rows
			take(&m.IO, 2*rows*int64(s.LayerInputs))
		}
		if l.Kind == SlidingAttention && l.Window > 0 && l.Window < s.Cells {
			masks = 2 // what such layers see has a mask of its own
		}
	}
	for range 2 {
		take(&m.IO, 2*rows*hidden) // hidden states, turn about
		take(&m.IO, 2*kv)          // a row's new K, and V
	}
	take(&m.IO, 4*rows*int64(s.Pos))
	for range masks {
		for _, g := range s.Groups {
			take(&m.IO, 2*int64(g.Rows)*int64(g.Cells+g.Rows))
		}
	}
	take(&m.Head, p.headBytes)
	take(&m.IO, 2*hidden)
	width := int64(2)
	if p.head.Type == axcl.FP32 {
		width = 4
	}
	take(&m.IO, width*int64(p.head.Out))
	if p.head.Argmax {
		take(&m.IO, 4)
	}
	if len(shared.sources) > 0 { // K and V that layers put out which use another's: they are not read
		take(&m.IO, 2*rows*kv)
		take(&m.IO, 2*rows*kv)
	}
	if m.States > 0 { // a mask and positions of their own, which is where a row counts and where it is only filled up
		take(&m.IO, 2*rows)
		take(&m.IO, 4*rows)
	}
	m.Card = m.Layers + m.Head + m.Cache + m.States + m.Adapters + m.IO
	//rule:D3 TestMemoryWhileLoading p.loading() => p.loading()*0
	m.Load = max(m.Card, p.loading())
	m.Host = p.Embed.Bytes() + p.PerLayer.Bytes()
	return m
}

// loading is the most that files and the weights loaded from them take, in the order that
// axcl/native loads them; caches and buffers come after.
func (p *Package) loading() (most int64) {
	type part struct{ file, weights int64 }
	parts := []part{{max(p.headFile, p.headBytes), p.headBytes}} // a file without weights stands for a larger one
	for _, l := range p.Facts {
		parts = append(parts, part{max(l.Size, l.Weights), l.Weights})
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.file, a.file) })
	sum := int64(0)
	for _, f := range parts {
		sum += pages(f.weights)
		most = max(most, sum+pages(f.file))
	}
	return most
}

// Info is a package in numbers and words, for people and for /api/show. Zero numbers are unknown.
type Info struct {
	Name string `json:"name"`
	// Kind is that of a package that is no language model (Whisper); empty for one that is.
	Kind string `json:"-"`
	// Says is, where axle does not run the kind, that in a sentence, as a [KindError] has it. Most
	// of the rest is empty then.
	Says          string      `json:"-"`
	Architecture  string      `json:"architecture"`
	Family        string      `json:"family"`
	Layout        string      `json:"layout"`
	Path          string      `json:"path"`
	Source        string      `json:"configuration"`
	Digest        string      `json:"digest"`
	TokenizerType string      `json:"tokenizer_type"`
	Quantization  string      `json:"quantization"` // W8A16, W4A16, BF16 …; empty when nothing says
	Parameters    int64       `json:"parameters"`
	Estimated     bool        `json:"parameters_estimated"` // Parameters is a guess by name or size, not a count
	ParameterSize string      `json:"-"`                    // 596M, 4.0B
	Context       int         `json:"context"`
	Prefill       int         `json:"-"` // tokens of a prompt that prefill groups take; 0: there are none
	Hidden        int         `json:"hidden"`
	Layers        int         `json:"layers"`
	Heads         int         `json:"heads,omitempty"`
	KVHeads       int         `json:"kv_heads,omitempty"`
	HeadDim       int         `json:"head_dim,omitempty"`
	FeedForward   int         `json:"feed_forward,omitempty"`
	Vocab         int         `json:"vocab"`
	Cells         int         `json:"cells"`
	KV            int         `json:"kv"`
	Groups        []string    `json:"groups"` // decode 1+2047, prefill 128+0 …
	Capabilities  []string    `json:"capabilities"`
	Languages     []string    `json:"languages,omitempty"` // that a recogniser hears, ISO 639-1; empty where that is not known
	Live          bool        `json:"-"`                   // a recogniser writes down while somebody speaks
	Voices        []ask.Voice `json:"-"`                   // that it speaks with
	Pooling       string      `json:"pooling,omitempty"`
	Adapters      []string    `json:"adapters,omitempty"` // LoRA adapters, each a model of its own: NAME:ADAPTER
	Prompts       []string    `json:"prompts,omitempty"`  // names of what may stand before a text that becomes a vector
	Encoder       string      `json:"encoder,omitempty"`  // of pictures or of sound, in a line; empty where there is none
	Pictures      string      `json:"pictures,omitempty"` // what a picture costs, or why none is read
	Places        []int       `json:"places,omitempty"`   // parts of a picture's width and height that an answer's coordinates count; empty where that is not known
	Size          int64       `json:"size_bytes"`
	Memory        Memory      `json:"memory"`
	Mixed         string      `json:"kinds_of_layers,omitempty"` // kinds of layers, when they differ
	Each          []LayerInfo `json:"each_layer,omitempty"`      // of layers, when they differ
	LayerInputs   string      `json:"layer_inputs,omitempty"`    // the layer inputs of a token, in words; empty where there are none
	State         string      `json:"state,omitempty"`           // what a layer with a state keeps, in words
	StateBytes    int64       `json:"state_bytes,omitempty"`     // what a sequence has in all of them: a slot, and a snapshot
	Slots         int         `json:"slots,omitempty"`           // how many of those a load takes room for, unless it is told otherwise
	Notes         []string    `json:"notes"`
}

// Info collects what is known. It loads the template, to see what it can do; a template that fails
// only costs its capabilities.
func (p *Package) Info() Info {
	f := p.p.facts
	i := Info{
		Name: p.Name, Architecture: p.Architecture, Family: p.Family, Layout: p.Layout, Path: p.Dir, Source: p.Source, Digest: p.digest,
		TokenizerType: p.TokenizerType, Context: p.Context, Hidden: p.Hidden, Layers: len(p.Layers), Heads: f.heads, KVHeads: f.kv,
		HeadDim:     f.headDim,
		FeedForward: f.intermediate, Vocab: p.Vocab, Cells: p.Shape.Cells, KV: p.Shape.KV, Capabilities: p.Capabilities(),
		Pooling: p.Pooling, Prompts: p.Prompts().Names(), Adapters: p.adapterNames(),
		Size: p.Size, Memory: p.Memory(), Notes: p.Notes,
	}
	if h := p.softHeader; h != nil {
		i.Heads, i.KVHeads, i.HeadDim, i.FeedForward = h.Heads, h.KVHeads, h.HeadDim, h.Intermediate
	}
	if i.HeadDim == 0 && i.KVHeads > 0 && i.KV%i.KVHeads == 0 {
		i.HeadDim = i.KV / i.KVHeads
	}
	for _, g := range p.Shape.Groups {
		kind := "prefill"
		if g.Rows == 1 {
			kind = "decode"
		} else {
			i.Prefill = min(max(i.Prefill, g.Rows+g.Cells), p.Context)
		}
		i.Groups = append(i.Groups, fmt.Sprintf("%s %d+%d", kind, g.Rows, g.Cells))
	}
	if v, err := p.Vision(); err != nil {
		i.Encoder, i.Pictures = strings.Join(p.Encoders, ", "), "cannot be read: "+err.Error()
	} else if v != nil {
		i.Encoder, i.Pictures = v.String(), v.pictures()
		if v.Places[0] > 0 {
			i.Places = v.Places[:]
		}
	}
	i.Each, i.LayerInputs = p.each(), p.PerLayer.words()
	i.Mixed = kindsOf(i.Each)
	if at := slices.IndexFunc(p.Facts, func(l Layer) bool { return l.Kind == LinearAttention }); at >= 0 {
		s := p.Facts[at].State
		i.State = fmt.Sprintf("%v %v and %v %v", s.K.Type, s.K.Shape, s.V.Type, s.V.Shape)
		i.StateBytes, i.Slots = p.StateBytes(), p.Slots()
	}
	if d := p.Whole; d != nil {
		i.Layers = d.Layers
	}
	i.Quantization = p.quantization()
	i.Parameters, i.Estimated = p.parameters(i)
	i.ParameterSize = humanCount(i.Parameters)
	return i
}

var quantNames = []struct{ re, name string }{
	{`w4a16|int4|_s4|q4`, "W4A16"}, {`w8a16|int8|_s8|q8`, "W8A16"}, {`bf16|bfloat16`, "BF16"}, {`fp16|f16`, "F16"},
}

func (p *Package) quantization() string {
	if p.softHeader != nil {
		// The software card keeps what the compiler was asked for; bytes a weight tell which.
		size := int64(0)
		for _, l := range p.Facts {
			size += l.Size
		}
		switch per := float64(size) / float64(max(p.softCount, 1)); {
		case per > 3:
			return "F32"
		case per > 1.5:
			return "BF16"
		default:
			return "Q8_0"
		}
	}
	s := strings.ToLower(strings.Join([]string{p.p.template, p.Config.ModelName, p.p.source, p.Name}, " "))
	for _, q := range quantNames {
		if regexp.MustCompile(q.re).MatchString(s) {
			return q.name
		}
	}
	return ""
}

// softLayerCount is how many parameters a layer has.
func softLayerCount(h *axmodel.Header) int64 {
	d, q, kv, inputs := int64(h.Hidden), int64(h.Heads)*int64(h.HeadDim), int64(h.KVHeads)*int64(h.HeadDim), int64(0)
	mixer := 2*q + 2*kv
	switch {
	case h.Kind == axmodel.Linear:
		mixer = 2*kv + 3*q + 2*int64(h.Heads) // what the state is made of, a gate as wide as the values, decay and share, and the way out
	case h.Flags&axmodel.FlagShares != 0:
		mixer = 2 * q
	case h.Flags&axmodel.FlagGate != 0:
		mixer += q
	}
	if h.Flags&axmodel.FlagGemma4 != 0 {
		inputs = int64(h.Out)
	}
	return d * (mixer + 3*int64(h.Intermediate) + 2*inputs + 2)
}

// Gemma says E2B, for the parameters that are not in tables.
var sizeName = regexp.MustCompile(`(?i)(?:^|[^0-9a-z.])e?(\d+(?:\.\d+)?)(b|m)(?:[^a-z]|$)`)

// parameters counts where dimensions are known, else reads the size out of the name, else guesses
// from the bytes.
func (p *Package) parameters(i Info) (n int64, estimated bool) {
	if p.softHeader != nil {
		return p.softCount + p.PerLayer.parameters() + int64(p.Vocab)*int64(p.Hidden) + int64(p.Hidden), false
	}
	if i.Heads > 0 && i.FeedForward > 0 && i.HeadDim > 0 && i.Mixed == "" {
		d, f, q, kv := int64(i.Hidden), int64(i.FeedForward), int64(i.Heads)*int64(i.HeadDim), int64(i.KV)
		return int64(i.Layers)*(2*d*q+2*d*kv+3*d*f+2*d) + int64(i.Vocab)*d + d, false
	}
	for _, s := range []string{p.Config.ModelName, p.Name, p.p.template} {
		if m := sizeName.FindStringSubmatch(s); m != nil {
			v, err := strconv.ParseFloat(m[1], 64)
			if err == nil && v > 0 && v < 1e4 {
				if strings.EqualFold(m[2], "b") {
					return int64(v * 1e9), true
				}
				return int64(v * 1e6), true
			}
		}
	}
	per := 1.0
	switch i.Quantization {
	case "W4A16":
		per = 0.5
	case "BF16", "F16":
		per = 2
	}
	return int64(float64(i.Memory.Layers)/per) + int64(p.Vocab)*int64(p.Hidden), true
}

// humanCount prints counts as Ollama does: 596.05M, 4.0B.
func humanCount(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1fB", float64(n)/1e9)
	case n >= 1e6:
		return strings.TrimSuffix(fmt.Sprintf("%.2f", float64(n)/1e6), ".00") + "M"
	case n >= 1e3:
		return fmt.Sprintf("%dK", n/1e3)
	case n > 0:
		return strconv.FormatInt(n, 10)
	}
	return ""
}

// Write prints the info as `axle inspect` shows it.
func (i Info) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(key string, v any) {
		if s := fmt.Sprint(v); s != "" && s != "0" {
			fmt.Fprintf(t, "%s\t%s\n", key, plain.Line(s))
		}
	}
	row("name", i.Name)
	if i.Says != "" {
		row("kind", i.Says)
		row("path", i.Path)
		row("size on disk", HumanBytes(i.Size))
		row("digest", i.Digest)
		return t.Flush()
	}
	row("kind", i.Kind)
	row("architecture", i.Architecture)
	if i.Family != i.Architecture {
		row("family", i.Family)
	}
	row("layout", i.Layout)
	row("path", i.Path)
	row("configuration", cmp.Or(i.Source, "inferred"))
	row("parameters", i.ParameterSize+map[bool]string{true: " (estimated)"}[i.Estimated])
	row("quantization", i.Quantization)
	row("context", i.Context)
	row("layers", i.Layers)
	row("kinds of layers", i.Mixed)
	row("hidden", i.Hidden)
	row("heads", i.Heads)
	row("kv heads", i.KVHeads)
	row("head dim", i.HeadDim)
	row("feed forward", i.FeedForward)
	row("vocabulary", i.Vocab)
	row("tokenizer", i.TokenizerType)
	if i.Cells > 0 {
		row("cache", fmt.Sprintf("%d rows of %s", i.Cells, caches(i.Each, i.KV)))
	}
	row("window", windows(i.Each))
	row("shared k and v", shared(i.Each))
	row("layer inputs", i.LayerInputs)
	if i.State != "" {
		row("states", fmt.Sprintf("%s a layer, %s a sequence or snapshot, room for %d", i.State, HumanBytes(i.StateBytes), i.Slots))
	}
	row("groups", strings.Join(ladder(i.Groups), ", "))
	row("capabilities", strings.Join(i.Capabilities, ", "))
	row("voices", voices(i.Voices))
	row("pooling", i.Pooling)
	row("adapters", strings.Join(i.Adapters, ", "))
	row("prompts", strings.Join(i.Prompts, ", "))
	row("encoder", i.Encoder)
	row("pictures", i.Pictures)
	row("size on disk", HumanBytes(i.Size))
	m := i.Memory
	states := ""
	if m.States > 0 {
		states = ", states " + HumanBytes(m.States)
	}
	if m.Adapters > 0 {
		states += ", adapters " + HumanBytes(m.Adapters)
	}
	if m.Encoder > 0 {
		states += ", encoder " + HumanBytes(m.Encoder)
	}
	if i.Cells == 0 {
		row("card memory", fmt.Sprintf("%s (net %s, buffers %s)", HumanBytes(m.Card), HumanBytes(m.Layers), HumanBytes(m.IO)))
	} else {
		row("card memory", fmt.Sprintf("%s (layers %s, head %s, cache %s%s, buffers %s)", HumanBytes(m.Card), HumanBytes(m.Layers),
			HumanBytes(m.Head), HumanBytes(m.Cache), states, HumanBytes(m.IO)))
	}
	if m.Load > m.Card {
		row("while loading", HumanBytes(m.Load)+" of card memory: the library holds each file beside what is loaded")
	}
	row("a card of", CardWords(m.Load)+" holds it")
	if m.Host > 0 {
		row("host memory", HumanBytes(m.Host)+" mapped")
	}
	row("digest", i.Digest)
	for _, n := range i.Notes {
		row("note", n)
	}
	return t.Flush()
}

// voices names them by their languages: en-US af_heart, am_adam; en-GB bf_emma.
func voices(all []ask.Voice) string {
	var b strings.Builder
	for i, v := range all {
		switch {
		case i == 0:
			b.WriteString(v.Language + " ")
		case v.Language != all[i-1].Language:
			b.WriteString("; " + v.Language + " ")
		default:
			b.WriteString(", ")
		}
		b.WriteString(v.Name)
	}
	return b.String()
}

// ladder shortens a list of groups for people: of four and more on end that differ in nothing but
// what they look back on, the first and the last are told, and how many there are.
func ladder(groups []string) (out []string) {
	for at := 0; at < len(groups); {
		kind, first, _ := strings.Cut(groups[at], "+")
		end, last := at+1, first
		for ; end < len(groups); end++ {
			k, cells, _ := strings.Cut(groups[end], "+")
			if k != kind {
				break
			}
			last = cells
		}
		if end-at >= 4 {
			out = append(out, fmt.Sprintf("%s+%s to %s (%d)", kind, first, last, end-at))
		} else {
			out = append(out, groups[at:end]...)
		}
		at = end
	}
	return out
}

// HumanBytes prints sizes as Ollama does, in powers of ten: 1.2 GB.
func HumanBytes(n int64) string { return ask.HumanBytes(n) }
