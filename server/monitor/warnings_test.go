package monitor

import (
	"encoding/json"
	"errors"
	"regexp"
	"testing"
)

// TestWarnings: each kind of warning says what it says in English, and has what is in it as values,
// so that others can say it otherwise.
func TestWarnings(t *testing.T) {
	hot, warm := 91.5, 84.9
	card := func(c viewCard) []viewCard { c.Device, c.MemoryOf = "axcl:0", "card"; return []viewCard{c} }
	seen := map[string]bool{}
	for _, c := range []struct {
		name   string
		status string
		err    error
		fewer  []string
		cards  []viewCard
		models []viewModel
		want   string
	}{
		{name: "nothing", status: "ok", cards: card(viewCard{Temperature: &warm, Memory: 100, Free: 2}),
			models: []viewModel{{Running: 2, Queued: 4}}, want: `[]`},
		{name: "hot", status: "ok", cards: card(viewCard{Temperature: &hot}),
			want: `[{"id":"hot","about":"axcl:0","text":"the card is hot: check its heat sink and fan","values":{"temperature_celsius":91.5}}]`},
		{name: "full", status: "ok", cards: card(viewCard{Memory: 100, Free: 1}), want: `[{"id":"memory","about":"axcl:0","text":` +
			`"the card's memory is all but full: unload a model that is not needed, or choose smaller ones",` +
			`"values":{"memory_bytes":100,"memory_free_bytes":1}}]`},
		{name: "a queue", status: "ok", models: []viewModel{{Name: "m", Running: 1, Queued: 1200}}, want: `[{"id":"queue","about":"m","text":` +
			`"1200 answers wait for 1 that run: they take turns; a smaller model, shorter prompts or another card would help",` +
			`"values":{"queued":1200,"running":1}}]`},
		{name: "lost", status: "lost", err: errors.New("it {queued} fell"), want: `[{"id":"lost","about":"","text":"the card was lost: ` +
			`it {queued} fell; the server ends, and its supervisor should start it anew","values":{"error":"it {queued} fell"}}]`},
		{name: "fewer", status: "ok", fewer: []string{"axcl:1 is gone"}, want: `[{"id":"fewer","about":"","text":"a card was lost, ` +
			`the others go on: axcl:1 is gone; restart the server to have it back","values":{"error":"axcl:1 is gone"}}]`},
		{name: "none", status: "no device", err: errors.New("no card"),
			want: `[{"id":"no device","about":"","text":"no card","values":{"error":"no card"}}]`},
		{name: "draining", status: "draining", want: `[{"id":"draining","about":"","text":"the server is shutting down: ` +
			`what runs may finish, nothing new is taken","values":{}}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &Views{o: Options{State: func() (string, error) { return c.status, c.err }, Fewer: func() []string { return c.fewer }}}
			status, list := v.warnings(c.cards, c.models)
			got, err := json.Marshal(list)
			if err != nil || status != c.status || string(got) != c.want {
				t.Errorf("%s %s %v, want %s", status, got, err, c.want)
			}
			for _, w := range list {
				seen[w.ID] = true
				for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(Warnings[w.ID], -1) {
					if _, ok := w.Values[m[1]]; !ok {
						t.Errorf("%s has no value %s", w.ID, m[1])
					}
				}
			}
		})
	}
	if len(seen) != len(Warnings) {
		t.Errorf("%d kinds of warnings were seen, there are %d", len(seen), len(Warnings))
	}
}
