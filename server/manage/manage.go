// Package manage answers the requests that look at the models on this machine and change them:
// list, show, create, copy, delete, pull and the upload of files. How a model answers is package
// answer's.
//
// A [Manager] is used from any goroutine. It owns nothing: its store and its loaded models are its
// maker's.
package manage

import (
	"sync"

	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
)

// Options are a manager's settings.
type Options struct {
	Store    catalog.Store
	Loaded   *pool.Models
	Puller   catalog.Puller // nil: nothing can be pulled
	NoPull   bool           // pull and upload are refused
	NoDelete bool           // delete is refused, and replacing a model with it
	// ContextLength is num_ctx where neither a request nor a Modelfile has one; 0: the model's.
	ContextLength int
}

// Manager answers the requests about models.
type Manager struct {
	o      Options
	making sync.Map // names of models that are made now, while deleting is switched off
}

// New makes a manager.
func New(o Options) *Manager { return &Manager{o: o} }
