//go:build !scripted

package main

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/axle-llm/axle/models/hearing"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/pocket"
	"github.com/axle-llm/axle/models/search"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/catalog"
)

// storeOptions are the store of this machine, with the models that ship inside the program.
func storeOptions() store.Options {
	o := store.FromEnv()
	o.Builtin = map[string]fs.FS{pocket.Name: pocket.FS(), hearing.Name: hearing.FS(), search.Name: search.FS()}
	return o
}

// hubPuller fetches models into a store, told in Ollama's status lines.
type hubPuller struct{ s *store.Store }

func newPuller(s *store.Store) catalog.Puller { return hubPuller{s} }

func (p hubPuller) Pull(ctx context.Context, name string, status func(catalog.Progress)) error {
	client := hub.FromEnv()
	client.Agent = "axle/" + version
	err := p.s.Pull(ctx, name, client, func(s store.Progress) {
		status(catalog.Progress{Status: s.Status, Digest: s.Digest, Total: s.Total, Completed: s.Completed})
	})
	if err != nil {
		return fmt.Errorf("pull model manifest: %w", err)
	}
	return nil
}
