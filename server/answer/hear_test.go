package answer

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/catalog"
)

// TestHearers: the models that hear come by name, and behind them the one that ships inside the
// program. One that is set is before all others.
func TestHearers(t *testing.T) {
	var all listed
	for _, m := range []struct {
		name    string
		builtin bool
		hears   bool
	}{{"whisper", false, true}, {"inside", true, true}, {"text", false, false}, {"sense", false, true}} {
		name, err := models.ParseName(m.name)
		if err != nil {
			t.Fatal(err)
		}
		e := &catalog.Entry{Name: name, Model: &store.Model{Builtin: m.builtin}}
		e.Caps.Audio = m.hears
		all.all = append(all.all, e)
	}
	a := &Answers{o: Options{Store: all}}
	for first, want := range map[string]string{"": "[sense whisper inside]", "whisper": "[whisper sense inside]",
		"inside": "[inside sense whisper]", "text": "[sense whisper inside]", "nope": "[sense whisper inside]"} {
		got, err := a.Hearers(t.Context(), first)
		var names []string
		for _, e := range got {
			names = append(names, e.Name.Model())
		}
		if fmt.Sprint(names) != want || err != nil {
			t.Errorf("%q first: %v, %v", first, names, err)
		}
	}
}

// listed is a store of these models, which can list them and no more.
type listed struct {
	catalog.Store
	all []*catalog.Entry
}

func (l listed) List(context.Context) ([]*catalog.Entry, error) { return l.all, nil }

func (l listed) Get(name models.Name) (*catalog.Entry, error) {
	if i := slices.IndexFunc(l.all, func(e *catalog.Entry) bool { return e.Name == name }); i >= 0 {
		return l.all[i], nil
	}
	return nil, store.ErrNotFound
}
