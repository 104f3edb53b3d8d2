//go:build scripted

package main

import (
	"context"
	"errors"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// newMachine makes a machine of the scripted models: bin/axle-scripted, for tests only.
func newMachine(o machineOptions) (*machine, error) {
	so := store.FromEnv()
	if o.models != "" {
		so.Dir = o.models
	}
	so.Paths = nil
	so.Builtin = scripted.Builtin()
	st, err := store.Open(so)
	if err != nil {
		return nil, err
	}
	l := &scripted.Loader{Config: scripted.Config{Parallel: o.parallel, MaxQueue: o.maxQueue}}
	return &machine{store: local.New(st, local.Options{Describe: scripted.Describe}), loader: l,
		hello: func() (string, error) { return "the scripted engine, which is no model at all", nil },
		close: st.Close}, nil
}

// storeAlone is what models of a server are found by; scripted models have no files.
func storeAlone(context.Context, *connection) string { return "" }

// openPackage is doctor's; scripted models have no package.
func openPackage(string) (*models.Package, error) {
	return nil, errors.New("this build has scripted models only: no package can be opened")
}
