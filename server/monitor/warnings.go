package monitor

import (
	"fmt"
	"strings"
)

// Hot is where a card's temperature becomes a warning (promise D14), HotWarning its text.
const (
	Hot        = 85
	HotWarning = "the card is hot: check its heat sink and fan"
)

// Warnings are what an operator should act on, by id, in English. Braces hold a warning's values.
// The page has these sentences in its languages, and a test holds that it has all of them.
var Warnings = map[string]string{
	"lost":      "the card was lost: {error}; the server ends, and its supervisor should start it anew",
	"fewer":     "a card was lost, the others go on: {error}; restart the server to have it back",
	"no device": "{error}",
	"draining":  "the server is shutting down: what runs may finish, nothing new is taken",
	"hot":       HotWarning,
	"memory":    "the card's memory is all but full: unload a model that is not needed, or choose smaller ones",
	"queue": "{queued} answers wait for {running} that run: they take turns; a smaller model, shorter prompts or another card would " +
		"help",
}

type viewWarning struct {
	ID     string         `json:"id"`
	About  string         `json:"about"`
	Text   string         `json:"text"`
	Values map[string]any `json:"values"`
}

// warning is one of Warnings, with its values in their places.
func warning(id, about string, values map[string]any) viewWarning {
	holes := make([]string, 0, 2*len(values))
	for name, v := range values {
		holes = append(holes, "{"+name+"}", fmt.Sprint(v))
	}
	return viewWarning{id, about, strings.NewReplacer(holes...).Replace(Warnings[id]), values}
}

// warnings are those that stand now.
func (v *Views) warnings(cards []viewCard, on []viewModel) (status string, out []viewWarning) {
	out = []viewWarning{}
	warn := func(id, about string, values map[string]any) { out = append(out, warning(id, about, values)) }
	status, err := v.o.State()
	switch status {
	case "lost", "no device":
		warn(status, "", map[string]any{"error": fmt.Sprint(err)})
	case "draining":
		warn(status, "", map[string]any{})
	}
	for _, text := range v.o.Fewer() {
		warn("fewer", "", map[string]any{"error": text})
	}
	for _, c := range cards {
		if c.Temperature != nil && *c.Temperature >= Hot {
			warn("hot", c.Device, map[string]any{"temperature_celsius": *c.Temperature})
		}
		if c.Memory > 0 && c.Free < c.Memory/50 && c.MemoryOf == "card" {
			warn("memory", c.Device, map[string]any{"memory_free_bytes": c.Free, "memory_bytes": c.Memory})
		}
	}
	for _, m := range on {
		if m.Queued > 0 && m.Queued > 2*m.Running {
			warn("queue", m.Name, map[string]any{"queued": m.Queued, "running": m.Running})
		}
	}
	return status, out
}
