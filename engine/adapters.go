package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/axle-llm/axle/models"
)

// This file has LoRA adapters, which some models' layers take as inputs. All of a package's
// adapters are on the card. A pass computes with one or with none, so sequences of different
// adapters do not share passes. Nor do they share rows: what one adapter has made of a text is
// nothing to another. Rows are kept by key, on the card, in memory and on disk, and an adapter's
// have a key of their own.

// adapterMark stands between a client's key and the adapter.
const adapterMark = "\x00lora\x00"

// key is what requests of a client are kept by.
func (o *Options) key(client string) string {
	if o.Adapter == "" {
		return client
	}
	return client + adapterMark + o.Adapter
}

// Adapted returns a model that computes with one of m's LoRA adapters, which a package lists. name
// is what it is called in errors. It shares everything else with m, so only one of them is to be
// closed. A request to an adapter that is not there is ErrRequest.
func Adapted(m *Model, adapter, name string) *Model {
	own := *m
	own.o.Adapter, own.info.Name = adapter, name
	return &own
}

// adapted takes apart what Options.key made: the client's key, and the adapter's number. key is
// what rows are kept by.
func (m *lm) adapted(job string) (key, client string, adapter int, err error) {
	client, name, ok := strings.Cut(job, adapterMark)
	if !ok {
		return job, job, 0, nil
	}
	i := slices.IndexFunc(m.adapters, func(a *models.Adapter) bool { return a.Name == name })
	if i < 0 {
		return "", "", 0, fmt.Errorf("%w: the model has no adapter %.100q", ErrRequest, name)
	}
	return job + "@" + m.adapters[i].Digest, client, i + 1, nil
}

// sameAdapter returns the sequences that may be in a pass with lead.
func sameAdapter(ready []*seq, lead *seq) []*seq {
	return slices.DeleteFunc(ready, func(s *seq) bool { return s.adapter != lead.adapter })
}

// adapterLayers are a package's adapters, as a card takes them.
func adapterLayers(p *models.Package) (all []func(int) ([]byte, error)) {
	for _, a := range p.Adapters {
		all = append(all, a.Layer)
	}
	return all
}
