// Package plan predicts what a model would do on a card that is not here, from the model's shapes
// and the card's known costs. It measures nothing (package benchmark does), opens no card and looks
// for no model: the caller opens packages. Every function may be called from any goroutine.
package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/engine/hosthead"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
)

// Shapes are the models that have a real model's shapes and no weights, by their names.
var Shapes = map[string]func() axmodel.Shape{"qwen3-0.6b": axmodel.Qwen3Small, "qwen3-0.6b-long": axmodel.Qwen3Long,
	"qwen3-1.7b": axmodel.Qwen3Medium, "qwen3-4b": axmodel.Qwen3Large,
	"qwen3.5-0.8b": axmodel.Qwen35SmallInt4, "qwen3-vl-2b": axmodel.Qwen3VLSmall}

// Names are those of Shapes, as a sentence has them.
const Names = "qwen3-0.6b, qwen3-0.6b-long, qwen3-1.7b, qwen3-4b, qwen3.5-0.8b and qwen3-vl-2b"

// Model is what a plan needs to know of a model. What a report says of it has a name in JSON.
type Model struct {
	Name      string           `json:"model"`
	Layers    []profiles.Layer `json:"-"`
	HeadBytes int64            `json:"-"`
	Groups    []axcl.Group     `json:"-"`
	Context   int              `json:"context"`
	Hidden    int              `json:"-"`
	Out       int              `json:"-"`
	Card      int64            `json:"card_memory_bytes"`         // bytes on the card
	Most      int64            `json:"card_memory_loading_bytes"` // bytes on the card while it is loaded
	Files     int64            `json:"-"`                         // bytes to load
	// bytes on the card that the encoder of pictures takes
	Encoder int64 `json:"card_memory_encoder_bytes,omitempty"`
	Text    int64 `json:"-"` // Most without it
	// of a picture; 0 where the encoder's input does not tell
	Patches int `json:"-"`
	// of a picture, and in how many calls of the encoder
	Rows  int `json:"picture_rows,omitempty"`
	Calls int `json:"-"`
	// bytes of the states of a sequence, or of a snapshot
	State   int64 `json:"state_bytes,omitempty"`
	Slots   int   `json:"slots,omitempty"`        // of those, for which a load takes room
	Slotted int64 `json:"states_bytes,omitempty"` // bytes on the card that they take
	// head counts are not known and were assumed
	Guessed bool `json:"head_counts_assumed"`
	// bytes of a token's row of K and V, all layers'
	Row    int `json:"-"`
	Cached int `json:"-"` // layers that keep rows
	// values of a row that layers take next to the hidden state, which go over the link
	LayerInputs int `json:"-"`
	// bytes of the machine's memory that tables are mapped to, which it keeps as far as they are
	// used
	Host int64 `json:"host_memory_mapped_bytes,omitempty"`
	// bytes of the LM head's weights on disk and in the machine's memory, if it is computed there
	HostHead int64 `json:"host_head_bytes,omitempty"`
	// Card is what the model was seen to take
	Published bool `json:"card_memory_published,omitempty"`
	// it is not here: this is what the catalogue knows of it
	Listed bool `json:"catalogue_only,omitempty"`
	// what it was compiled for is not known, and the most common build was assumed
	Assumed bool `json:"build_assumed,omitempty"`
	// tokens a second that others have published, as the catalogue has it; 0: none is published
	Speed float64 `json:"published_tokens_per_second,omitempty"`
	Note  string  `json:"published_note,omitempty"` // what is said of that
	// nets of another kind than a language model, which is called so
	Net  bool   `json:"single_net,omitempty"`
	Kind string `json:"kind,omitempty"`
	// it finds things in pictures
	Detects bool `json:"-"`
	// bytes of the tensors of all nets, which go over the link
	IO int64 `json:"-"`
}

// Shape describes one of Shapes, as far as the catalogue has the model with what it is known to
// take of a card.
func Shape(name string) (Model, bool) {
	name = strings.ToLower(name)
	shape, ok := Shapes[name]
	if !ok {
		return Model{}, false
	}
	m := modelOfShape(name, shape())
	if i := slices.IndexFunc(hub.Catalogue, func(e hub.Entry) bool { return shapeOf(e) == name }); i >= 0 {
		m.atLeast(hub.Catalogue[i])
	}
	return m, true
}

// shapeOf is the name that an entry of the catalogue would have among Shapes.
func shapeOf(e hub.Entry) string { return strings.ReplaceAll(e.Name, ":", "-") }

// Listed describes a model that is not here by what the catalogue knows of it. For some models that
// is only the memory that they take.
func Listed(e hub.Entry) Model {
	m, ok := Shape(shapeOf(e))
	switch {
	case ok:
	case e.Kind == "audio" || e.Kind == "speech":
		m.Net = true
		m.atLeast(e)
		m.Files = min(m.Files, m.Card) // the rest of a download stays on the machine
	default:
		h, known := e.Shape()
		if known {
			m = modelOfShape(e.Name, h)
		}
		b, told := e.Build()
		m.Context, m.Assumed = b.Context, known && !told
		m.atLeast(e)
	}
	m.Name, m.Listed, m.Speed, m.Note = e.Name, true, e.Speed, e.SpeedNote
	return m
}

// atLeast makes the model take no less than the catalogue says.
func (m *Model) atLeast(e hub.Entry) {
	need, published := e.CardMemory()
	if published = published && need >= m.Card; need > m.Card {
		m.Card = need
	}
	m.Published, m.Most, m.Text = published, max(m.Most, m.Card), max(m.Text, m.Card-m.Encoder)
	if m.Files == 0 {
		m.Files, _ = e.Size()
	}
}

// Pulled describes an open package that was fetched from a repository of the catalogue: it takes no
// less of a card than it was seen to take.
func Pulled(p *models.Package, e *hub.Entry) Model {
	m := Package(p)
	if e != nil && e.Card > m.Card {
		m.Card, m.Published = e.Card, true
		m.Most, m.Text = max(m.Most, m.Card), max(m.Text, m.Card-m.Encoder)
	}
	return m
}

// Net describes a package of another kind by the memory that it takes. No profile tells how long a
// call takes.
func Net(i models.Info) Model {
	return Model{Net: true, Kind: i.Kind, Name: i.Name, Context: i.Context, Hidden: i.Hidden, Card: i.Memory.Card, Most: i.Memory.Load,
		Files: i.Memory.Layers, IO: i.Memory.IO, Detects: slices.Contains(i.Capabilities, "detection")}
}

// modelOfShape describes a shape without weights. Compiled files hold more than the weights, and a
// card's memory with them.
func modelOfShape(name string, s axmodel.Shape) Model {
	m := Model{Name: name, HeadBytes: s.HeadBytes, Context: s.Context, Hidden: s.Hidden, Out: s.Vocab}
	m.Files = s.HeadBytes
	m.HostHead, _ = hosthead.Work(s.Hidden, s.Vocab, 1)
	most := int64(0) // of a layer
	for i := range s.Layers {
		l := profiles.Layer{Hidden: s.Hidden, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Intermediate: s.Intermediate,
			Weights: s.LayerBytes}
		state := s.StateBytes(i)
		if state > 0 {
			l.Heads, l.KVHeads, l.HeadDim, l.Weights = s.Linear.ValueHeads, s.Linear.KeyHeads, s.Linear.KeyDim, s.Linear.Bytes
		} else {
			m.Card += int64(s.Context) * int64(s.KVHeads*s.HeadDim) * 4
			m.Row, m.Cached = m.Row+s.KVHeads*s.HeadDim*4, m.Cached+1
		}
		l.State = state
		m.State += state
		m.Layers = append(m.Layers, l)
		m.Files += l.Weights
		most = max(most, l.Weights)
	}
	if m.State > 0 {
		m.Slots = models.SlotsFor(m.State)
		m.Slotted = int64(m.Slots+1) * m.State
	}
	for _, g := range s.Groups() {
		m.Groups = append(m.Groups, axcl.Group{Rows: g.Rows, Cells: g.Cells})
	}
	m.Card += hub.Overhead(m.Files) + m.Slotted
	// The largest file, the head, is loaded first, and each lies beside what is loaded while it is;
	// the encoder comes last.
	m.Most = max(m.Card, hub.Overhead(2*s.HeadBytes), hub.Overhead(m.Files+most))
	m.Text = m.Most
	if v := s.Sight; v != nil {
		m.Rows, m.Calls, m.Patches = v.Rows(), 1, v.Down*v.Across
		m.Encoder = v.Bytes + int64(m.Patches*2*v.Patch*v.Patch*3) + int64(4*m.Rows*s.Hidden*(1+v.Deep))
		m.Card += m.Encoder
		m.Files += v.Bytes
		m.Most = max(m.Most, m.Card+v.Bytes)
	}
	return m
}

// Package describes an open package.
func Package(p *models.Package) Model {
	i, mem := p.Info(), p.Memory()
	m := Model{Name: p.Name, HeadBytes: mem.Head, Context: p.Context, Hidden: p.Hidden, Out: p.Out, Card: mem.Card, Most: mem.Load,
		Files: mem.Layers + mem.Head, Encoder: mem.Encoder, Text: p.TextMemory().Load, Groups: p.Shape.Shape().Groups,
		LayerInputs: len(p.Facts) * p.Shape.LayerInputs, Host: mem.Host}
	if p.Out > 1 && !p.Embedding {
		m.HostHead, _ = hosthead.Work(p.Hidden, p.Out, 1)
	}
	if v, err := p.Vision(); err == nil && v != nil {
		across, down := v.Layout.Grid()
		m.Rows, m.Calls, m.Patches = v.Rows, v.Tiles*v.Tiles+1, across*down
		m.Files += v.Weights
	}
	l := profiles.Layer{Hidden: p.Hidden, Heads: i.Heads, KVHeads: i.KVHeads, HeadDim: i.HeadDim, Intermediate: i.FeedForward}
	if l.Heads == 0 || l.HeadDim == 0 || l.KVHeads == 0 {
		// The tensors tell only the width of K: 128 a head and as many query values as hidden ones
		// is what most models have.
		m.Guessed = true
		l.HeadDim, l.KVHeads, l.Heads = 128, max(p.Shape.KV/128, 1), max(p.Hidden/128, 1)
	}
	if l.Intermediate == 0 {
		m.Guessed = true
		l.Intermediate = 3 * p.Hidden
	}
	for _, f := range p.Facts {
		l.Weights, l.State = f.Weights, f.State.Bytes()
		one := l
		if f.Shape.KV > 0 { // by the layer, in some models: a layer reads a cache though it is another's
			one.HeadDim = f.Shape.KV / l.KVHeads
		}
		m.Layers = append(m.Layers, one)
		if f.Kind != models.LinearAttention && !f.Shares {
			m.Row, m.Cached = m.Row+4*f.Shape.KV, m.Cached+1
		}
	}
	m.State, m.Slots, m.Slotted = i.StateBytes, i.Slots, mem.States
	return m
}

// Report is what `axle plan` says; the field names are its JSON.
type Report struct {
	Model
	Profile  string        `json:"profile"`
	Modelled bool          `json:"modelled"` // always true: nothing here was measured on this model and card
	Measured bool          `json:"layers_measured"`
	Limit    int64         `json:"card_memory_limit_bytes"`
	Fits     bool          `json:"fits"`
	Holds    []int         `json:"cards_gb"`                      // sizes of cards that hold it
	TextFits bool          `json:"text_fits,omitempty"`           // it does not fit with its encoder of pictures, and does without
	Encoding time.Duration `json:"picture_encoding_ns,omitempty"` // 0: what such an encoder takes is not published
	Load     time.Duration `json:"load_ns"`
	Token    time.Duration `json:"token_ns"`
	Alone    float64       `json:"tokens_per_second"`
	Roofline float64       `json:"roofline_tokens_per_second"`
	Clients  []Clients     `json:"clients"`
	Prompts  []Prompt      `json:"prompts"`

	Row          int           `json:"row_bytes"`           // of a token's K and V; 0: nothing is told of Kept
	Conversation int           `json:"conversation_tokens"` // that Kept is told for
	Evaluate     time.Duration `json:"conversation_ns"`     // evaluating as many
	Kept         []Kept        `json:"kept"`
}

// Clients is what this many clients at once would get.
type Clients struct {
	Clients int     `json:"clients"`
	Total   float64 `json:"tokens_per_second"`
	Each    float64 `json:"tokens_per_second_each"`
	Wide    bool    `json:"wide_passes"`
	// tokens a second of all, if the host may compute the LM head and that is quicker
	Host float64 `json:"tokens_per_second_host_head,omitempty"`
}

// Prompt is how long a prompt's first token would take.
type Prompt struct {
	Tokens int           `json:"prompt_tokens"`
	First  time.Duration `json:"first_token_ns"`
}

// Make plans m on a card of profile p, of whose memory models may take limit bytes, while the
// clients' sequences hold used tokens together, with rows kept as keep says.
func Make(m Model, p *profiles.Profile, limit int64, used int, keep Keep) Report {
	r := Report{Model: m, Profile: p.Name, Modelled: true, Measured: true, Limit: limit, Fits: m.Most <= limit,
		Holds: models.CardsFor(m.Most), TextFits: m.Encoder > 0 && m.Most > limit && m.Text <= limit}
	if t, ok := p.EncoderTime(m.Patches, m.Hidden); ok && m.Rows > 0 {
		r.Encoding = time.Duration(m.Calls) * t
	}
	layers := func(rows, cells int) time.Duration {
		t, measured := m.layers(p, rows, cells)
		r.Measured = r.Measured && measured
		return t
	}
	shape := axcl.Shape{Groups: m.Groups, Cells: m.Context}
	link := func(rows, cells, wanted int) time.Duration { return m.link(p, rows, cells, wanted) }
	head := p.HeadTime(m.HeadBytes)
	// A lone row runs on the smallest group that reaches what it sees.
	lone := func(cells int) (time.Duration, axcl.Group, bool) {
		g := shape.GroupFor(1, min(cells, m.Context))
		if g < 0 {
			return 0, axcl.Group{}, false
		}
		d := m.Groups[g]
		return layers(d.Rows, d.Cells) + link(1, d.Cells, 0), d, true
	}
	if p.Load > 0 {
		r.Load = time.Duration(float64(m.Files) / p.Load * 1e9)
	}
	one, d, ok := lone(used)
	if !ok {
		return r
	}
	logits := p.Copies["d2h-pinned"].Time(int64(m.Out) * 2)
	r.Token = one + head + logits
	if r.Token <= 0 { // a profile in which nothing costs anything
		return r
	}
	r.Alone = 1 / r.Token.Seconds()
	var bytes float64
	for _, l := range m.Layers {
		if bytes += float64(l.Weights) + 2*float64(l.State); l.State == 0 {
			bytes += float64(4 * d.Cells * l.KVHeads * l.HeadDim)
		}
	}
	if p.Memory > 0 {
		r.Roofline = p.Memory / (bytes + float64(m.HeadBytes))
	}
	host := func(n int) time.Duration { return p.HostTime(hosthead.Work(m.Hidden, m.Out, n)) }
	wide := shape.GroupFor(2, min(used, m.Context))
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		t := time.Duration(n) * one
		c := Clients{Clients: n}
		if wide >= 0 && n > 1 && m.State == 0 { // where layers have a state, a pass carries rows of one sequence
			g := m.Groups[wide]
			passes := (n + g.Rows - 1) / g.Rows
			if w := time.Duration(passes) * (layers(g.Rows, g.Cells) + link(g.Rows, g.Cells*g.Rows, 0)); w < t {
				t, c.Wide = w, true
			}
		}
		hosts := max(time.Duration(n)*one, one+host(1)) // a row a pass, while the host computes the head of the row before
		if c.Wide {
			hosts = min(hosts, t+host(n))
		}
		t += time.Duration(n) * (head + logits)
		if m.HostHead > 0 && p.HostMemory > 0 && n > 1 && hosts < t {
			c.Host = float64(n) / hosts.Seconds()
		}
		c.Total = float64(n) / t.Seconds()
		c.Each = c.Total / float64(n)
		r.Clients = append(r.Clients, c)
	}
	first := func(n int) (t time.Duration) {
		for done := 0; done < n; {
			g := shape.GroupFor(min(2, n-done), done)
			one, _, _ := lone(done)
			if g < 0 || m.Groups[g].Rows == 1 {
				t += one
				done++
				continue
			}
			rows := min(m.Groups[g].Rows, n-done)
			if alone := time.Duration(rows) * one; alone < layers(m.Groups[g].Rows, m.Groups[g].Cells) {
				t += alone
			} else {
				t += layers(m.Groups[g].Rows, m.Groups[g].Cells) + link(m.Groups[g].Rows, m.Groups[g].Cells*m.Groups[g].Rows, 0)
			}
			done += rows
		}
		return t + head + logits
	}
	for _, n := range []int{16, 128, 512, 1024, 2048, 4096, 8192, 14336} {
		if n < m.Context {
			r.Prompts = append(r.Prompts, Prompt{Tokens: n, First: first(n)})
		}
	}
	r.keep(m, p, keep, first)
	return r
}

// layers is what all layers take for a call of a group, and whether each such layer was measured.
func (m Model) layers(p *profiles.Profile, rows, cells int) (t time.Duration, measured bool) {
	measured = true
	for _, l := range m.Layers {
		d, known := p.LayerTime(l, rows, cells)
		t += d
		measured = measured && known
	}
	return t, measured
}

// link is how long what goes over the link for rows rows takes: embeddings, positions, mask; and
// logits for each wanted row.
func (m Model) link(p *profiles.Profile, rows, cells, wanted int) time.Duration {
	up, down := p.Copies["h2d-pinned"], p.Copies["d2h-pinned"]
	t := up.Time(int64(rows*m.Hidden*2)) + up.Time(int64(rows*4)) + up.Time(int64(cells+rows)*2) + p.Sync
	if m.LayerInputs > 0 {
		t += time.Duration(len(m.Layers)) * up.Time(int64(rows*m.LayerInputs/len(m.Layers))*2)
	}
	return t + time.Duration(wanted)*down.Time(int64(m.Out)*2)
}

// Text writes the plan as tables for a person, as wide as w's terminal.
func (r Report) Text(w io.Writer) error {
	t := terminal.TabsFor(w)
	fmt.Fprintf(t, "%s on %s: modelled, not measured\n\n", r.Name, r.Profile)
	fits := "fits"
	if !r.Fits {
		fits = "DOES NOT FIT"
	}
	loading := ""
	if r.Most > r.Card {
		loading = ", " + models.HumanBytes(r.Most) + " while it is loaded"
	}
	fmt.Fprintf(t, "card memory\t%s%s, of %s: %s\n", models.HumanBytes(r.Card), loading, models.HumanBytes(r.Limit), fits)
	seen := ""
	if r.Published {
		seen = "; the memory is a published figure"
	}
	fmt.Fprintf(t, "a card of\t%s holds it%s\n", models.CardWords(r.Most), seen)
	if r.Encoder > 0 {
		text := ""
		if r.TextFits {
			text = "; text alone fits, and pictures are refused then"
		}
		fmt.Fprintf(t, "encoder\t%s of that%s\n", models.HumanBytes(r.Encoder), text)
		took := "not published"
		if r.Encoding > 0 {
			took = r.Encoding.Round(time.Millisecond).String()
		}
		fmt.Fprintf(t, "a picture\t%d rows of the prompt, and the encoder before them: %s\n", r.Rows, took)
	}
	if r.Host > 0 {
		fmt.Fprintf(t, "host memory\t%s mapped; what is used of it stays there\n", models.HumanBytes(r.Host))
	}
	if r.HostHead > 0 {
		fmt.Fprintf(t, "LM head\t%s on disk and in this machine's memory, if this machine computes it (--head)\n",
			models.HumanBytes(r.HostHead))
	}
	if r.Context > 0 {
		fmt.Fprintf(t, "context\t%d tokens\n", r.Context)
	}
	if r.State > 0 {
		fmt.Fprintf(t, "states\t%s a sequence or snapshot, room for %d: %s of that memory; a pass carries rows of one sequence\n",
			models.HumanBytes(r.State), r.Slots, models.HumanBytes(r.Slotted))
	}
	if r.Load > 0 {
		fmt.Fprintf(t, "loading\t%v\n", r.Load.Round(100*time.Millisecond))
	}
	if r.Alone > 0 {
		fmt.Fprintf(t, "a token\t%v, %.1f tokens/s alone\n", r.Token.Round(10*time.Microsecond), r.Alone)
	}
	if r.Speed > 0 {
		fmt.Fprintf(t, "published\t%.4g tokens/s on a Raspberry Pi 5 with the vendor's runtime; %s\n", r.Speed,
			cmp.Or(r.Note, "one request at a time"))
	} else if r.Note != "" {
		fmt.Fprintf(t, "note\t%s\n", r.Note)
	}
	if r.Roofline > 0 {
		fmt.Fprintf(t, "roofline\t%.1f tokens/s: weights and the whole cache once a token at the card's bandwidth; this reaches %.0f %%\n",
			r.Roofline, 100*r.Alone/r.Roofline)
	}
	if r.Listed {
		fmt.Fprintf(t, "from\tthe catalogue: the model is not here, 'axle pull %s' fetches it\n", r.Name)
	}
	if r.Net {
		fmt.Fprintf(t, "\nHow long a call of its nets takes is known once it is measured.\n")
		return t.Flush()
	}
	if r.Listed && len(r.Clients) == 0 {
		fmt.Fprintf(t, "\nThe sizes of this model's layers are not published. Times can be computed once it is pulled.\n")
		return t.Flush()
	}
	if len(r.Clients) == 0 {
		fmt.Fprintf(t, "\nThe profile says no costs, or the model has no group for one row: there is nothing to compute times from.\n")
		return t.Flush()
	}
	fmt.Fprintf(t, "\nclients\ttokens/s\teach\tLM head on the host\t\n")
	for _, c := range r.Clients {
		how, host := "a row a pass", "-"
		if c.Wide {
			how = "wide passes"
		}
		if c.Host > 0 {
			host = fmt.Sprintf("%.1f", c.Host)
		}
		fmt.Fprintf(t, "%d\t%.1f\t%.1f\t%s\t%s\n", c.Clients, c.Total, c.Each, host, how)
	}
	fmt.Fprintf(t, "\nprompt tokens\tfirst token after\t\n")
	for _, p := range r.Prompts {
		fmt.Fprintf(t, "%d\t%v\t\n", p.Tokens, p.First.Round(time.Millisecond))
	}
	r.writeKept(t)
	if !r.Measured {
		fmt.Fprintln(t, "\nTimes of such a layer are not published: they are computed from weights, cache and the card's bandwidth.")
	}
	if r.Assumed {
		fmt.Fprintf(t, "\nWhat the package was compiled for is not known: %d tokens in calls of 128 were assumed.\n", r.Context)
	}
	if r.Guessed {
		fmt.Fprintln(t, "The package does not tell its head counts: 128 values a head were assumed.")
	}
	return t.Flush()
}
