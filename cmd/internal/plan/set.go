package plan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/models"
)

// Set is several models on a card together.
type Set struct {
	Models []SetModel `json:"models"` // in the order in which loading them takes the least memory
	Card   int64      `json:"card_memory_bytes"`
	Most   int64      `json:"card_memory_loading_bytes"` // while they are loaded in that order
	Limit  int64      `json:"card_memory_limit_bytes"`
	Fits   bool       `json:"fits"`
	// where one of them finds things in pictures
	Detection *Detection `json:"detection,omitempty"`
}

// SetModel is one of them.
type SetModel struct {
	Name string `json:"model"`
	Card int64  `json:"card_memory_bytes"`
	Most int64  `json:"card_memory_loading_bytes"`
}

// Together computes whether models fit into limit bytes of a card of profile p. A model takes more
// while it is loaded than afterwards, so those that take the most more are loaded first.
func Together(p *profiles.Profile, limit int64, all ...Model) Set {
	s := Set{Limit: limit, Detection: detection(p, all)}
	for _, m := range all {
		s.Models = append(s.Models, SetModel{m.Name, m.Card, max(m.Most, m.Card)})
	}
	slices.SortStableFunc(s.Models, func(a, b SetModel) int { return cmp.Compare(b.Most-b.Card, a.Most-a.Card) })
	for _, m := range s.Models {
		s.Most = max(s.Most, s.Card+m.Most)
		s.Card += m.Card
	}
	s.Fits = s.Most <= limit
	return s
}

// Text prints the set for people.
func (s Set) Text(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(t, "model\tcard memory\twhile loading\n")
	var names []string
	for _, m := range s.Models {
		names = append(names, m.Name)
		fmt.Fprintf(t, "%s\t%s\t%s\n", m.Name, models.HumanBytes(m.Card), models.HumanBytes(m.Most))
	}
	fits := "fits"
	if !s.Fits {
		fits = "does not fit"
	}
	fmt.Fprintf(t, "together\t%s\t%s of %s: %s\n", models.HumanBytes(s.Card), models.HumanBytes(s.Most), models.HumanBytes(s.Limit), fits)
	if s.Fits {
		fmt.Fprintf(t, "\naxle serve --preload %s\n", strings.Join(names, ","))
	}
	if err := t.Flush(); err != nil || s.Detection == nil {
		return err
	}
	return s.Detection.write(w)
}
