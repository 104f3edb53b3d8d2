package manage

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/types/model"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/request"
)

// Listing is the answer of /api/tags: Ollama's, and what is said of a model that axle does not run.
type Listing struct {
	Models []Listed `json:"models"`
}

// Listed is a model of [Listing].
type Listed struct {
	api.ListModelResponse
	Says string `json:"says,omitempty"`
	Card int64  `json:"card_bytes,omitempty"` // of a card's memory, while it is loaded
}

// entries are the models that there are, newest first.
func (m *Manager) entries(ctx context.Context) ([]*catalog.Entry, error) {
	entries, err := m.o.Store.List(ctx)
	slices.SortStableFunc(entries, func(a, b *catalog.Entry) int { return cmp.Compare(b.Modified.Unix(), a.Modified.Unix()) })
	return entries, err
}

// listed is a model as /api/tags has it.
func listed(e *catalog.Entry) Listed {
	d := details(e)
	d.ParentModel, d.ContextLength, d.EmbeddingLength = e.Parent, e.Info.Context, e.Info.Hidden
	return Listed{api.ListModelResponse{Name: e.Name.String(), Model: e.Name.String(), ModifiedAt: e.Modified.UTC(), Size: e.Size,
		Digest: e.Digest, Details: d, Capabilities: capabilities(e)}, e.Says(), e.Info.Memory.Load}
}

func (m *Manager) Tags(x *request.Exchange) error {
	entries, err := m.entries(x.Ctx())
	if err != nil {
		return err
	}
	list := Listing{Models: []Listed{}}
	for _, e := range entries {
		list.Models = append(list.Models, listed(e))
	}
	x.Reply().JSON(http.StatusOK, list)
	return nil
}

// Loaded is the answer of /api/ps: Ollama's, and where cache rows of each model lie.
type Loaded struct {
	Models []LoadedModel `json:"models"`
}

// LoadedModel is a model of [Loaded].
type LoadedModel struct {
	api.ProcessModelResponse
	Tiers []Tier `json:"tiers"`
}

// Tier is a place where cache rows of a model lie: card, memory, disk, or behind it peer or s3.
// What came back from it since the model was loaded is counted.
type Tier struct {
	Name  string  `json:"name"`
	Rows  int     `json:"rows,omitempty"` // that it has room for
	Used  int     `json:"used,omitempty"`
	Hits  uint64  `json:"hits"`      // prompt rows found there
	In    uint64  `json:"in_bytes"`  // onto the card
	Out   uint64  `json:"out_bytes"` // off it
	Saved float64 `json:"saved_seconds"`
}

// Tiers are those that a model has.
func Tiers(st ask.Stats) []Tier {
	m, d, f := st.Memory, st.Disk, st.Far
	all := []Tier{{Name: "card", Rows: st.Cells, Used: st.CellsUsed, Hits: st.CachedTokens - min(st.CachedTokens, m.Hits+d.Hits+f.Hits)}}
	if m.Rows > 0 {
		all = append(all, Tier{Name: "memory", Rows: m.Rows, Used: m.Used, Hits: m.Hits, In: m.In, Out: m.Out, Saved: m.Saved.Seconds()})
	}
	if d.On || d.Hits > 0 || d.Out > 0 {
		all = append(all, Tier{Name: "disk", Rows: d.Rows, Hits: d.Hits, In: d.In, Out: d.Out, Saved: d.Saved.Seconds()})
	}
	if f.Name != "" {
		all = append(all, Tier{Name: f.Name, Hits: f.Hits, In: f.In, Saved: f.Saved.Seconds()})
	}
	return all
}

// Running answers /api/ps.
func (m *Manager) Running(x *request.Exchange) {
	out := Loaded{Models: []LoadedModel{}}
	cards := m.o.Loaded.Cards()
	for _, r := range m.o.Loaded.Loaded() {
		name := r.Entry.Name.String()
		onCard := r.Bytes // from 0, Ollama's clients read 100% CPU
		if slices.ContainsFunc(cards, func(c pool.Card) bool { return c.ID == r.Device && c.Kind == "soft" }) {
			onCard = 0
		}
		out.Models = append(out.Models, LoadedModel{api.ProcessModelResponse{Name: name, Model: name, Size: r.Bytes, SizeVRAM: onCard,
			Digest:  r.Entry.Digest,
			Details: details(r.Entry), ExpiresAt: r.Expires, ContextLength: r.NumCtx}, Tiers(r.Stats)})
	}
	x.Reply().JSON(http.StatusOK, out)
}

// details are what every list of models says of one.
func details(e *catalog.Entry) api.ModelDetails {
	family := cmp.Or(e.Info.Architecture, e.Info.Family)
	return api.ModelDetails{Format: "axmodel", Family: family, Families: []string{family},
		ParameterSize: e.Info.ParameterSize, QuantizationLevel: e.Info.Quantization}
}

// capabilities are an entry's, in Ollama's words and order.
func capabilities(e *catalog.Entry) []model.Capability {
	//rule:G24 ./cmd/axle TestKindsAreTold false
	if e.Says() != "" {
		return []model.Capability{}
	}
	if e.Embedding && e.Caps.Vision {
		return []model.Capability{model.CapabilityEmbedding, model.CapabilityVision}
	}
	if e.Embedding {
		return []model.Capability{model.CapabilityEmbedding}
	}
	if e.Caps.Audio {
		return []model.Capability{model.CapabilityAudio}
	}
	if e.Caps.Speech {
		return []model.Capability{"speech"} // Ollama has no word for it
	}
	if e.Caps.Detection {
		return []model.Capability{"detection"} // nor for this
	}
	if e.Caps.Drawing {
		return []model.Capability{model.CapabilityImage}
	}
	if e.Caps.Faces {
		return []model.Capability{"faces"}
	}
	out := []model.Capability{model.CapabilityCompletion}
	for _, c := range []struct {
		has bool
		cap model.Capability
	}{{e.Caps.Vision, model.CapabilityVision}, {e.Caps.Tools, model.CapabilityTools}, {e.Caps.Insert, model.CapabilityInsert},
		{e.Caps.Thinking, model.CapabilityThinking}} {
		if c.has {
			out = append(out, c.cap)
		}
	}
	return out
}
