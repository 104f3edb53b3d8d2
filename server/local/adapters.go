package local

import (
	"slices"
	"strings"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/server/catalog"
)

// This file makes a model of each LoRA adapter of a package: NAME:ADAPTER, and where the package's
// model has a tag NAME:TAG-ADAPTER. All of them share what is loaded.

// adapterTag is the tag of an adapter's model.
func adapterTag(base models.Name, adapter string) string {
	if strings.EqualFold(base.Tag(), "latest") {
		return adapter
	}
	return base.Tag() + "-" + adapter
}

// withTag is the name with another tag.
func withTag(n models.Name, tag string) (models.Name, error) {
	return models.ParseName(n.Host() + "/" + n.Namespace() + "/" + n.Model() + ":" + tag)
}

// loaded is the name that an entry is loaded by. Whichever of a package's models is asked first, it
// is the package's own: draft models are looked up by it, and routers know it.
func loaded(e *catalog.Entry) models.Name {
	if e.Adapter != "" {
		if n, err := models.ParseName(e.Parent); err == nil {
			return n
		}
	}
	return e.Name
}

// adapters are the models of an entry's adapters.
func adapters(e *catalog.Entry) (all []*catalog.Entry) {
	for _, adapter := range e.Info.Adapters {
		name, err := withTag(e.Name, adapterTag(e.Name, adapter))
		if err != nil {
			continue
		}
		own := *e
		own.Name, own.Adapter, own.Parent = name, adapter, e.Name.String()
		all = append(all, &own)
	}
	return all
}

// adapter finds the model that a name means of those of adapters; nil: there is none.
func (s *Models) adapter(name models.Name) *catalog.Entry {
	bases := []string{"latest"}
	for i, c := range name.Tag() {
		if c == '-' {
			bases = append(bases, name.Tag()[:i])
		}
	}
	for _, tag := range bases {
		base, err := withTag(name, tag)
		if err != nil {
			continue
		}
		e, err := s.stored(base)
		if err != nil {
			continue
		}
		all := adapters(e)
		if i := slices.IndexFunc(all, func(e *catalog.Entry) bool { return e.Name.EqualFold(name) }); i >= 0 {
			return all[i]
		}
	}
	return nil
}
