//go:build !scripted

package main

import (
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
)

// storeOptions are the store of this machine, with the model that ships inside the program.
func storeOptions() store.Options { return store.FromEnv() }

// newPuller fetches models into a store.
func newPuller(*store.Store) server.Puller { return nil }
