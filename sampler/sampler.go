// Package sampler turns a row of bf16 logits into a token.
//
// A [Sampler] belongs to one request and one goroutine; it holds memory only, so nothing needs
// closing. It has its own random numbers: with the same seed, history and logits it gives the same
// tokens, whatever else runs in the process. After the first tokens it allocates nothing.
//
// Order of operations, as llama.cpp's default chain (which Ollama runs) has it:
//
//	logit_bias → repeat, frequency and presence penalties → DRY → top_k → typical_p → top_p → min_p → temperature → draw
//
// Every filter looks at the softmax of what the one before it left, at temperature 1: temperature
// comes last and only shapes the draw. Temperature 0 takes the largest logit after bias, penalties
// and DRY. With mirostat the chain is logit_bias → temperature → mirostat → draw, again as in
// llama.cpp: penalties and filters do not apply.
//
// A mask (a grammar) is tested first, as in llama.cpp: a token is drawn as if there were no mask,
// and only if the mask forbids it are the logits masked, the chain run again and a second token
// drawn. The token that is drawn is therefore from the mixture p·[allowed] + (1−A)·q, where p is
// the distribution without the mask, A its allowed mass and q the distribution under the mask.
// Without top_k and top_p it is p restricted.
//
// Log probabilities are of the model's own distribution: the softmax of the raw logits, before all
// of the above.
//
// Equal logits are common in bf16; the lower id wins wherever an order is needed.
package sampler

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

var (
	// ErrNoToken is returned when the mask allows no token at all.
	ErrNoToken = errors.New("sampler: the grammar allows no token here")
	// ErrBadLogits is returned for logits that hold a NaN or an infinity or are all equal: the card
	// computed nonsense.
	ErrBadLogits = errors.New("sampler: logits are NaN, infinite or all equal")
)

// Mask restricts which tokens may be drawn. Fill overwrites bits, bit id&63 of word id>>6 being set
// for each allowed id and every other bit clear, past the end of the vocabulary too.
type Mask interface {
	Allowed(id int32) bool
	Fill(bits []uint64)
}

// Choice is a drawn token. Logprob and Top are filled only when asked for; Top is sorted, likeliest
// first, and its memory is reused by the next Sample.
type Choice struct {
	ID      int32
	Logprob float32
	Top     []TokenLogprob
}

// TokenLogprob is a token and its natural log probability in the raw distribution.
type TokenLogprob struct {
	ID      int32
	Logprob float32
}

// cand is a token that may still be drawn: its logit after bias and penalties, then its weight.
type cand struct {
	v  float32
	w  float32
	id int32
}

// before is the order of candidates: larger logit first, then lower id.
func (a cand) before(b cand) bool { return a.v > b.v || a.v == b.v && a.id < b.id }

func compare(a, b cand) int {
	switch {
	case a.before(b):
		return -1
	case b.before(a):
		return 1
	}
	return 0
}

// Sampler draws tokens for one request.
type Sampler struct {
	p     Params
	vocab int
	rng   rand.PCG

	hist     []int32 // the last tokens, at least need of them
	need     int     // how many the penalties look at; −1: all
	adj      []adjusted
	adjIndex index

	cands []cand
	exp   expMemo
	bits  []uint64
	top   []TokenLogprob
	raw   []cand // top_logprobs, collected from the raw logits
	z     []int32
	mu    float32 // mirostat's state
}

// heapLimit is the largest top_k kept in a heap while scanning; beyond it all candidates are
// gathered and partitioned.
const heapLimit = 1024

// coldest is the lowest temperature that is not 0 for a float32's sake: what is below divides
// logits beyond its range.
const coldest = 1e-7

// New returns a sampler for rows of vocab logits. It fails when p does not pass [Params.Check] or a
// biased token is outside the vocabulary.
func New(p Params, vocab int) (*Sampler, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	if vocab < 2 || vocab > math.MaxInt32 {
		return nil, fmt.Errorf("sampler: a vocabulary of %d tokens cannot be sampled from", vocab)
	}
	for id := range p.LogitBias {
		if id < 0 || int(id) >= vocab {
			return nil, fmt.Errorf("sampler: logit_bias[%d]: %w: the vocabulary has %d tokens", id, ErrParams, vocab)
		}
	}
	if p.Temperature < coldest {
		p.Temperature = 0
	}
	seed := uint64(p.Seed)
	if p.Seed < 0 {
		seed = rand.Uint64()
	}
	s := &Sampler{p: p, vocab: vocab, mu: 2 * p.MirostatTau}
	s.rng.Seed(seed, 0x9e3779b97f4a7c15)
	if penalises(&p) {
		s.need = p.RepeatLastN
	}
	if p.DRYMultiplier > 0 && s.need >= 0 && p.DRYPenaltyLastN != 0 {
		s.need = max(s.need, p.DRYPenaltyLastN)
		if p.DRYPenaltyLastN < 0 {
			s.need = -1
		}
	}
	s.hist = make([]int32, 0, 2*max(s.need, 0))
	n := min(max(p.TopK, 1), heapLimit)
	s.cands = make([]cand, 0, n+1)
	s.adj = make([]adjusted, 0, len(p.LogitBias)+max(s.need, 0))
	if p.TopLogprobs > 0 {
		s.p.Logprobs = true
		s.raw = make([]cand, 0, p.TopLogprobs+1)
		s.top = make([]TokenLogprob, 0, p.TopLogprobs)
	}
	return s, nil
}

func penalises(p *Params) bool {
	return p.RepeatLastN != 0 && (p.RepeatPenalty != 1 || p.PresencePenalty != 0 || p.FrequencyPenalty != 0)
}

// Greedy reports whether every token is simply the largest logit, so that an argmax taken on the
// card may stand in for Sample. A grammar is not known here: with one, the argmax must still be
// allowed.
func (s *Sampler) Greedy() bool {
	return s.p.Temperature == 0 && !s.p.Logprobs && len(s.p.LogitBias) == 0 &&
		(s.p.Mirostat != 0 || !penalises(&s.p) && s.p.DRYMultiplier == 0)
}

// Accept adds tokens, of the prompt or drawn, to the history that penalties look at.
func (s *Sampler) Accept(ids ...int32) {
	if s.need == 0 {
		return
	}
	if s.need > 0 {
		if len(ids) > s.need {
			ids = ids[len(ids)-s.need:]
		}
		if len(s.hist)+len(ids) > cap(s.hist) {
			keep := min(s.need, len(s.hist))
			s.hist = s.hist[:copy(s.hist, s.hist[len(s.hist)-keep:])]
		}
	}
	s.hist = append(s.hist, ids...)
}

// Sample draws the next token from one row of logits; m may be nil. It does not Accept the token.
//
// Errors: [ErrBadLogits], [ErrNoToken], and one that tells both numbers when the row is not as long
// as the vocabulary.
func (s *Sampler) Sample(logits []uint16, m Mask) (Choice, error) {
	if len(logits) != s.vocab {
		return Choice{}, fmt.Errorf("sampler: %d logits for a vocabulary of %d", len(logits), s.vocab)
	}
	if err := s.distribution(logits, nil); err != nil {
		return Choice{}, err
	}
	c := s.draw()
	if m != nil && !m.Allowed(c.id) {
		if s.bits == nil {
			s.bits = make([]uint64, (s.vocab+63)/64)
		}
		m.Fill(s.bits)
		if err := s.distribution(logits, s.bits); err != nil {
			return Choice{}, err
		}
		c = s.draw()
	}
	if s.p.Mirostat != 0 && s.p.Temperature > 0 {
		surprise := -math.Log2(float64(c.w))
		s.mu -= s.p.MirostatEta * (float32(surprise) - s.p.MirostatTau)
	}
	choice := Choice{ID: c.id}
	if s.p.Logprobs {
		s.logprobs(logits, &choice)
	}
	return choice, nil
}

// draw picks one of s.cands, whose weights sum to 1.
func (s *Sampler) draw() cand {
	u := s.uniform()
	last := s.cands[0]
	for _, c := range s.cands {
		if c.w == 0 {
			continue
		}
		last = c
		if u -= float64(c.w); u < 0 {
			break
		}
	}
	return last
}

// uniform returns a number in [0, 1).
func (s *Sampler) uniform() float64 { return float64(s.rng.Uint64()>>11) / (1 << 53) }

// distribution leaves in s.cands the tokens that can be drawn, their weights summing to 1. allowed
// restricts them when it is not nil. The first call for a row, without a mask, also checks the
// logits.
func (s *Sampler) distribution(logits []uint16, allowed []uint64) error {
	p := &s.p
	s.adjust(logits)
	k := s.vocab
	if p.TopK > 0 && p.Mirostat == 0 {
		k = min(p.TopK, k)
	}
	if p.Temperature == 0 {
		k = 1
	}
	if k <= heapLimit {
		var ok bool
		if s.cands, ok = s.largest(s.cands[:0], k, logits, allowed, true); !ok {
			return ErrBadLogits
		}
		slices.SortFunc(s.cands, compare)
	} else {
		if allowed == nil && bad(logits) {
			return ErrBadLogits
		}
		s.gather(logits, allowed)
		if k < len(s.cands) {
			partition(s.cands, k)
			s.cands = s.cands[:k]
		}
	}
	if len(s.cands) == 0 {
		return ErrNoToken
	}
	if p.Temperature == 0 {
		s.cands[0].w = 1
		s.cands = s.cands[:1]
		return nil
	}
	if p.Mirostat != 0 {
		s.mirostat()
		return nil
	}
	if p.TypicalP > 0 && p.TypicalP < 1 {
		s.typical(p.TypicalP)
	}
	if p.TopP < 1 {
		s.topP(p.TopP)
	}
	if p.MinP > 0 {
		s.minP(p.MinP)
	}
	s.softmax(p.Temperature)
	return nil
}

// logprobs fills c from the raw distribution.
func (s *Sampler) logprobs(logits []uint16, c *Choice) {
	top := logits[Argmax(logits)]
	s.exp.reset(f32(top), 1)
	var sum float64
	for _, x := range logits {
		sum += float64(s.exp.of(f32(x)))
	}
	norm := float64(f32(top)) + math.Log(sum)
	c.Logprob = float32(float64(f32(logits[c.ID])) - norm)
	if s.p.TopLogprobs == 0 {
		return
	}
	s.raw, _ = s.largest(s.raw[:0], s.p.TopLogprobs, logits, nil, false)
	slices.SortFunc(s.raw, compare)
	s.top = s.top[:0]
	for _, r := range s.raw {
		s.top = append(s.top, TokenLogprob{r.id, float32(float64(r.v) - norm)})
	}
	c.Top = s.top
}
