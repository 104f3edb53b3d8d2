package sampler

import "github.com/axle-llm/axle/ask"

// Params says how tokens are chosen. Start from [Defaults]: the zero value has no RepeatPenalty and
// fails its Check.
type Params = ask.Params

// Defaults are Ollama's. LogitBias and DRYBreakers are nil.
func Defaults() Params { return ask.DefaultParams() }

// MaxTopLogprobs is the most rivals of a token that may be told.
const MaxTopLogprobs = ask.MaxTopLogprobs

// ErrParams is in the chain of every error that Params.Check returns.
var ErrParams = ask.ErrParams
