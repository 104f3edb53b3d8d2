package pool

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/models"
)

// Loading lists the models that are on their way to the card, the first that was asked for first,
// and says how many requests wait for one.
func (ms *Models) Loading() (out []Pending, waiting int) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, s := range ms.slots {
		select {
		case <-s.ready:
		default:
			out = append(out, Pending{Model: s.entry.Name.String(), Since: s.since, Waiting: s.waits})
		}
	}
	slices.SortFunc(out, func(a, b Pending) int { return a.Since.Compare(b.Since) })
	return out, ms.waiting
}

// Wrong says of each model that was not loaded because its answers were wrong why that was, in the
// order of names. A model that was loaded later, or deleted, is not in the list.
func (ms *Models) Wrong() (out []string) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(ms.wrong)) {
		out = append(out, name+" is not loaded: "+ms.wrong[name].Error())
	}
	return out
}

// Maps draws the cache of a loaded model, of the one used last where name is empty. A name is a
// model's or its whole name; one that is not loaded has no map, which is no error. Error:
// models.ErrName.
func (ms *Models) Maps(ctx context.Context, name string) (string, []ask.CellMap, error) {
	var full string
	if name != "" {
		n, err := models.ParseName(name)
		if err != nil {
			return "", nil, err
		}
		full = n.Full()
	}
	ms.mu.Lock()
	var found *slot
	for _, s := range ms.slots {
		if s.model == nil || full != "" && s.entry.Name.Full() != full {
			continue
		}
		if found == nil || s.used.After(found.used) {
			found = s
		}
	}
	var m ask.Model
	if found != nil {
		m, name = found.model, found.entry.Name.String()
	}
	ms.mu.Unlock()
	if m == nil {
		return name, nil, nil
	}
	return name, m.Maps(ctx), nil
}

// Pending is a model that is on its way to the card, or waits for room there.
type Pending struct {
	Model   string
	Since   time.Time
	Waiting bool
}
