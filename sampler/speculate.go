package sampler

// Verify draws the token that follows and reports whether it is the drafted one: speculation with a
// draft that is not itself random (a look-up in the prompt, a greedy draft model). The draft is
// accepted with exactly its probability and the token kept otherwise is from the rest of the
// distribution, so the output has the target's distribution; and since the random numbers are used
// one a token as without speculation, the text is the same text too. Use Sample for the token after
// the last draft. Errors are Sample's.
func (s *Sampler) Verify(logits []uint16, m Mask, drafted int32) (c Choice, accepted bool, err error) {
	c, err = s.Sample(logits, m)
	return c, err == nil && c.ID == drafted, err
}

// Speculate decides about a token drawn from the distribution draft: it is kept with probability
// min(1, target/draft), and otherwise a token is drawn from what target has in excess of draft.
// Either way the result has the distribution target, which comes from [Sampler.Probs]. target must
// not be empty; a drafted token that draft says is impossible is rejected.
func (s *Sampler) Speculate(target, draft []Prob, drafted int32) (id int32, accepted bool) {
	var p, q float64
	for _, t := range target {
		if t.ID == drafted {
			p = float64(t.P)
			break
		}
	}
	s.found.reset(len(draft) + len(target))
	for i, d := range draft {
		*s.found.at(d.ID) = int32(i + 1)
		if d.ID == drafted {
			q = float64(d.P)
		}
	}
	if u := s.uniform(); q > 0 && u*q < p {
		return drafted, true
	}
	excess := func(t Prob) float64 {
		if at := *s.found.at(t.ID); at > 0 {
			return max(0, float64(t.P)-float64(draft[at-1].P))
		}
		return float64(t.P)
	}
	var sum float64
	for _, t := range target {
		sum += excess(t)
	}
	u := s.uniform() * sum
	id = target[0].ID
	for _, t := range target {
		if e := excess(t); e > 0 {
			id = t.ID
			if u -= e; u < 0 {
				break
			}
		}
	}
	return id, false
}
