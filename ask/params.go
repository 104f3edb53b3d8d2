package ask

import (
	"errors"
	"fmt"
	"math"
)

// Params says how tokens are chosen. Start from [DefaultParams]: the zero value has no
// RepeatPenalty and fails [Params.Check].
type Params struct {
	Temperature float32 // 0: the largest logit always
	TopK        int     // keep the k largest; 0 or −1: all
	TopP        float32 // keep the smallest set whose probabilities reach p; 1: all, 0: one token
	MinP        float32 // drop what is less likely than MinP times the likeliest; 0: off
	TypicalP    float32 // keep the most typical tokens up to this mass; 0 or 1: off

	RepeatLastN      int     // how many of the last tokens the penalties look at; 0: none, −1: all
	RepeatPenalty    float32 // divides positive and multiplies negative logits of repeated tokens; 1: off
	PresencePenalty  float32 // subtracted once from a token that occurred
	FrequencyPenalty float32 // subtracted once for every time it occurred

	Seed      int64             // < 0: a random one
	LogitBias map[int32]float32 // added to the logits first of all

	Mirostat    int     // 0: off, 1 or 2: that version, in place of the filters above
	MirostatTau float32 // the surprise aimed at, in bits
	MirostatEta float32 // how fast the aim is corrected

	DRYMultiplier    float32 // 0: off
	DRYBase          float32 // the penalty is Multiplier · Base^(length − AllowedLength)
	DRYAllowedLength int     // repeats shorter than this cost nothing
	DRYPenaltyLastN  int     // how far back repeats are looked for; 0: off, −1: all
	DRYBreakers      []int32 // tokens that no repeat reaches across; see sampler.Breakers

	Logprobs    bool // fill Choice.Logprob
	TopLogprobs int  // fill Choice.Top with this many; implies Logprobs
}

// DefaultParams are Ollama's. LogitBias and DRYBreakers are nil.
func DefaultParams() Params {
	return Params{
		Temperature: 0.8, TopK: 40, TopP: 0.9, MinP: 0, TypicalP: 1,
		RepeatLastN: 64, RepeatPenalty: 1,
		Seed:        -1,
		MirostatTau: 5, MirostatEta: 0.1,
		DRYBase: 1.75, DRYAllowedLength: 2, DRYPenaltyLastN: -1,
	}
}

// Ranges that [Params.Check] enforces. They are wide: they keep out what is certainly a mistake,
// not what is unwise.
const (
	MaxTopK        = math.MaxInt32
	MaxLastN       = 1 << 20
	MaxTopLogprobs = 20
	MaxLogitBias   = 100
)

// ErrParams is in the chain of every error [Params.Check] returns.
var ErrParams = errors.New("parameter out of range")

// Check returns nil when every field is in range, or an error that names the first field that is
// not, by its name in the API, with the range. It never clamps. NaN and infinities are out of every
// range; −0 counts as 0.
func (p Params) Check() error {
	for _, f := range []struct {
		name   string
		v      float32
		lo, hi float32
	}{
		{"temperature", p.Temperature, 0, 100},
		{"top_p", p.TopP, 0, 1},
		{"min_p", p.MinP, 0, 1},
		{"typical_p", p.TypicalP, 0, 1},
		{"repeat_penalty", p.RepeatPenalty, 0.01, 100},
		{"presence_penalty", p.PresencePenalty, -100, 100},
		{"frequency_penalty", p.FrequencyPenalty, -100, 100},
		{"mirostat_tau", p.MirostatTau, 0, 100},
		{"mirostat_eta", p.MirostatEta, 0, 1},
		{"dry_multiplier", p.DRYMultiplier, 0, 100},
		{"dry_base", p.DRYBase, 0, 100},
	} {
		if !(f.v >= f.lo && f.v <= f.hi) { // written so that NaN fails
			return fmt.Errorf("sampler: %s: %w: %v is not between %v and %v", f.name, ErrParams, f.v, f.lo, f.hi)
		}
	}
	for _, f := range []struct {
		name      string
		v, lo, hi int
	}{
		{"top_k", p.TopK, -1, MaxTopK},
		{"repeat_last_n", p.RepeatLastN, -1, MaxLastN},
		{"mirostat", p.Mirostat, 0, 2},
		{"dry_allowed_length", p.DRYAllowedLength, 0, MaxLastN},
		{"dry_penalty_last_n", p.DRYPenaltyLastN, -1, MaxLastN},
		{"top_logprobs", p.TopLogprobs, 0, MaxTopLogprobs},
	} {
		if f.v < f.lo || f.v > f.hi {
			return fmt.Errorf("sampler: %s: %w: %d is not between %d and %d", f.name, ErrParams, f.v, f.lo, f.hi)
		}
	}
	for id, b := range p.LogitBias {
		if !(b >= -MaxLogitBias && b <= MaxLogitBias) {
			return fmt.Errorf("sampler: logit_bias[%d]: %w: %v is not between %d and %d", id, ErrParams, b, -MaxLogitBias, MaxLogitBias)
		}
	}
	return nil
}
