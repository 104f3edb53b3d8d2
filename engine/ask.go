package engine

import "github.com/axle-llm/axle/ask"

// Package ask has the types of requests and answers. These are their names for users of the
// library.
type (
	Request       = ask.Request
	Cut           = ask.Cut
	Format        = ask.Format
	Several       = ask.Several
	Choice        = ask.Choice
	EmbedRequest  = ask.EmbedRequest
	Embeddings    = ask.Embeddings
	RerankRequest = ask.RerankRequest
	Ranking       = ask.Ranking
	Event         = ask.Event
	Logprob       = ask.Logprob
	Result        = ask.Result
	Usage         = ask.Usage
	Info          = ask.Info
	Stats         = ask.Stats
	DiskTier      = ask.DiskTier
	MemoryTier    = ask.MemoryTier
	Compared      = ask.Compared
	CellMap       = ask.CellMap
	Tier          = ask.Tier
	HeadPlace     = ask.HeadPlace
	HeadStats     = ask.HeadStats
	Progress      = ask.Progress
	ContextError  = ask.ContextError
	MemoryError   = ask.MemoryError
	PictureError  = ask.PictureError
	FewerError    = ask.FewerError
)

// See package ask.
const (
	ReasonStop      = ask.ReasonStop
	ReasonLength    = ask.ReasonLength
	ScoringYesNo    = ask.ScoringYesNo
	ScoringCosine   = ask.ScoringCosine
	MostChoices     = ask.MostChoices
	ComparedKnown   = ask.ComparedKnown
	ComparedEarlier = ask.ComparedEarlier
	ComparedNever   = ask.ComparedNever
	NoWidePasses    = ask.NoWidePasses
	HeadAuto        = ask.HeadAuto
	HeadCard        = ask.HeadCard
	HeadHost        = ask.HeadHost
)

// The errors that a request can end with, except a device's (axcl) and ctx's.
var (
	ErrBusy        = ask.ErrBusy
	ErrDraining    = ask.ErrDraining
	ErrClosed      = ask.ErrClosed
	ErrUnsupported = ask.ErrUnsupported
	ErrRequest     = ask.ErrRequest
)

// ParseHead returns the place of that name; empty means HeadAuto.
func ParseHead(name string) (HeadPlace, error) { return ask.ParseHead(name) }
