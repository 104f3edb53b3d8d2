package main

import (
	"go.uber.org/zap"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/kvevents"
	"github.com/axle-llm/axle/server/peers"
	"github.com/axle-llm/axle/server/pool"
)

// machine is what a server runs on: the models of this machine, and what loads and fetches them.
type machine struct {
	store  catalog.Store
	loader pool.Loader
	puller catalog.Puller // nil: nothing can be pulled
	// hello is a sentence on the device, once it is known.
	hello func() (string, error)
	// leave says on disk that the store was left in order; nil where nothing is said. close does it
	// too.
	leave  func() error
	close  func() error
	peers  *peers.Server // gives rows to other servers; nil: to none
	others *peers.Peers  // these other servers; nil: there are none
}

// machineOptions are the settings a machine depends on.
type machineOptions struct {
	device     string
	models     string // folder of the store; empty: the default
	paths      []string
	parallel   int
	maxQueue   int
	ending     <-chan struct{}   // closed when the process is told to end; nil: it is not
	noPrune    bool              // keep what pulls left in the store
	noSpec     bool              // no guessing
	repeatable bool              // every request is alone on the card, in fresh cells
	head       engine.HeadPlace  // where LM heads are computed
	cacheDisk  int64             // bytes that rows may take on disk; 0: none are kept
	rows       string            // folder of these; empty: in the store's
	peers      []string          // other servers whose rows are fetched, and that fetch ours
	peersCA    string            // file of who vouches for them; empty: those that the system trusts
	objects    string            // an object store of rows; empty: there is none
	rowsSecret string            // file of a secret that several servers have; empty: the folder has its own
	cacheRAM   int64             // bytes of this machine's memory that rows of all models may take; 0: none are kept
	drafts     map[string]string // model to the package that guesses for it, a name in the store or a folder
	lost       func(error)
	fewer      func(error)           // a card was lost, others go on
	loading    func(engine.Progress) // a file of a model was loaded; it may be nil
	events     *kvevents.Publisher   // is told what the caches hold; nil: none
	log        *zap.Logger
}
