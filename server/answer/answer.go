// Package answer handles the requests that a model answers: conversations and bare prompts in every
// dialect, vectors, counts of tokens. How models come and go is package manage's.
//
// A dialect's route has its body read, weighed and decoded into a [prompt.Request]
// ([request.Exchange.ReadPrompt]), and all go the same way from there: check (check.go) makes of
// it an engine request that nothing is wrong with, run (run.go) takes the engine's events and sends
// them as the dialect's encoder writes them. An [Answers] is used from any goroutine and owns
// nothing.
package answer

import (
	"go.uber.org/zap"

	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/request"
)

// Options are what answers need.
type Options struct {
	Store         catalog.Store
	Loaded        *pool.Models
	Shared        *request.Shared
	ContextLength int    // num_ctx where a request has none; 0: the model's
	Detector      string // the model that finds things where a request names none; "": the first that does
}

// Answers answers requests.
type Answers struct {
	o   Options
	log *zap.Logger

	Figures Figures
}

// New makes Answers.
func New(o Options) *Answers { return &Answers{o: o, log: o.Shared.Log} }
