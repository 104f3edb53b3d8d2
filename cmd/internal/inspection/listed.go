package inspection

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
)

// Listed is a model that is not here, as far as the catalogue knows it.
type Listed struct {
	Name         string   `json:"name"`
	Here         bool     `json:"here"`         // false
	Repositories []string `json:"repositories"` // in the order in which a pull tries them
	Parameters   string   `json:"parameters"`
	Quantization string   `json:"quantization,omitempty"`
	Layout       string   `json:"layout,omitempty"`
	Layers       int      `json:"layers,omitempty"`
	Context      int      `json:"context,omitempty"` // 0: the repository's name does not tell
	Kind         string   `json:"kind"`
	Pictures     string   `json:"pictures,omitempty"`
	Download     int64    `json:"download_bytes"`
	Estimated    bool     `json:"download_estimated"`
	Card         int64    `json:"card_bytes"`
	Published    bool     `json:"card_published"` // it was seen to take that much; else it is estimated
	Cards        []int    `json:"cards_gb"`       // sizes of cards that hold it
	Speed        float64  `json:"published_tokens_per_second,omitempty"`
	Note         string   `json:"published_note,omitempty"`
	NotYet       string   `json:"not_yet,omitempty"`
}

// OfEntry is the report of a model that is not here.
func OfEntry(e hub.Entry) *Listed {
	r := &Listed{Name: e.Name, Repositories: append([]string{e.Repo}, e.Also...), Parameters: e.Parameters, Quantization: e.Quant,
		Layout: e.Layout, Layers: e.Layers, Kind: cmp.Or(e.Kind, "text"), Pictures: e.Sees, Speed: e.Speed, Note: e.SpeedNote,
		NotYet: e.NotYet}
	if b, told := e.Build(); told {
		r.Context = b.Context
	}
	size, told := e.Size()
	r.Download, r.Estimated = size, !told
	r.Card, r.Published = e.CardMemory()
	r.Cards = models.CardsFor(r.Card)
	return r
}

// Print writes it for people.
func (r *Listed) Print(w io.Writer) error {
	t := terminal.TabsFor(w)
	row := func(key, v string) {
		if v != "" {
			fmt.Fprintf(t, "%s\t%s\n", key, plain.Line(v))
		}
	}
	about := func(n int64, estimated bool) string {
		return map[bool]string{true: "estimated ", false: "about "}[estimated] + models.HumanBytes(n)
	}
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	row("name", r.Name)
	row("here", "no: 'axle pull "+r.Name+"' fetches it; what follows is the catalogue's")
	row("repository", strings.Join(r.Repositories, ", or "))
	row("kind", r.Kind)
	row("not yet", r.NotYet)
	row("parameters", r.Parameters)
	row("quantization", r.Quantization)
	row("layout", r.Layout)
	row("layers", number(r.Layers))
	row("context", number(r.Context))
	row("pictures", r.Pictures)
	row("download", about(r.Download, r.Estimated))
	row("card memory", about(r.Card, !r.Published))
	row("a card of", models.CardWords(r.Card)+" holds it")
	if r.Speed > 0 {
		row("published", fmt.Sprintf("%.4g tokens/s on a Raspberry Pi 5 with the vendor's runtime", r.Speed))
	}
	row("note", r.Note)
	return t.Flush()
}
