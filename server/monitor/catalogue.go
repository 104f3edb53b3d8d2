package monitor

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/request"
)

type viewHere struct {
	Name   string `json:"name"`
	Card   int64  `json:"card_bytes"`
	Most   int64  `json:"load_bytes"`
	Cards  []int  `json:"cards_gb"` // sizes of cards that hold it
	Fits   string `json:"fits"`
	Loaded bool   `json:"loaded"`
}

type viewEntry struct {
	Name       string  `json:"name"`
	Repo       string  `json:"repository"`
	Parameters string  `json:"parameters"`
	Quant      string  `json:"quantization"`
	Kind       string  `json:"kind"`
	Size       int64   `json:"size_bytes"`
	Estimated  bool    `json:"size_estimated"`
	Card       int64   `json:"card_bytes"`     // of a card's memory
	Published  bool    `json:"card_published"` // it was seen to take that much; else it is estimated
	Cards      []int   `json:"cards_gb"`       // sizes of cards that hold it
	Speed      float64 `json:"tokens_per_second"`
	Note       string  `json:"note"`
	NotYet     string  `json:"not_yet"`
	NeedsCard  bool    `json:"needs_card"` // it is built for the chip, and there is none here
	Here       bool    `json:"here"`
	Fits       string  `json:"fits"`
}

type viewCatalogue struct {
	Memory    int64       `json:"memory_bytes"`
	Free      int64       `json:"memory_free_bytes"`
	CanPull   bool        `json:"can_pull"`
	First     string      `json:"first"` // the model to begin with, where there are none but built-in ones and a card is known
	Here      []viewHere  `json:"here"`
	Catalogue []viewEntry `json:"catalogue"`
}

// Catalogue answers GET /api/axle/catalogue.
func (v *Views) Catalogue(x *request.Exchange) error {
	list, err := v.o.Store.List(x.Ctx())
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b *catalog.Entry) int { return cmp.Compare(a.Name.String(), b.Name.String()) })
	running := v.o.Loaded.Loaded()
	out := viewCatalogue{CanPull: v.o.CanPull && x.Who().May(access.Admin), Here: []viewHere{}, Catalogue: []viewEntry{}}
	cards := v.cards(running)
	// The catalogue's packages are built for the chip.
	none := len(cards) > 0 && !slices.ContainsFunc(cards, func(c viewCard) bool { return !c.Software })
	for _, card := range cards { // a model goes on one card: the best there is for it
		if card.State == "ready" {
			out.Memory, out.Free = max(out.Memory, card.Memory), max(out.Free, card.Free)
		}
	}
	if !none {
		out.First = first(list, out.Memory)
	}
	fits := func(need int64) string { return Fits(need, out.Free, out.Memory) }
	here := map[string]bool{}
	for _, e := range list {
		h := viewHere{Name: e.Name.String(), Card: e.Info.Memory.Card, Most: e.Info.Memory.Load,
			Cards: models.CardsFor(e.Info.Memory.Load)}
		h.Loaded = slices.ContainsFunc(running, func(r pool.Running) bool { return r.Entry.Key == e.Key })
		if h.Fits = fits(h.Most); h.Loaded {
			h.Fits = "now"
		}
		here[e.Name.Full()] = true
		out.Here = append(out.Here, h)
	}
	for _, e := range hub.Catalogue {
		size, told := e.Size()
		l := viewEntry{Name: e.Name, Repo: e.Repo, Parameters: e.Parameters, Quant: e.Quant, Kind: cmp.Or(e.Kind, "text"), Size: size,
			Estimated: !told, Speed: e.Speed, Note: e.SpeedNote, NotYet: e.NotYet}
		l.Card, l.Published = e.CardMemory()
		l.Cards, l.Fits = models.CardsFor(l.Card), fits(l.Card)
		if none {
			l.NeedsCard, l.Fits, l.Speed = true, "unknown", 0
		}
		if n, err := models.ParseName(e.Name); err == nil {
			l.Here = here[n.Full()]
		}
		out.Catalogue = append(out.Catalogue, l)
	}
	x.Reply().JSON(http.StatusOK, out)
	return nil
}

// first names the model to begin with on a card with this much memory, where all models that are
// here are built in; else it is empty.
func first(list []*catalog.Entry, memory int64) string {
	if slices.ContainsFunc(list, func(e *catalog.Entry) bool { return !e.Builtin() }) {
		return ""
	}
	if e := hub.First(models.CardSize{Room: memory}); e != nil {
		return e.Name
	}
	return ""
}
