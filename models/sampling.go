package models

import "cmp"

// Sampling is what the package's makers recommend. A nil field was not said. The numbers are
// theirs, unchecked: the caller checks them.
type Sampling struct {
	Temperature       *float64 // 0: greedy
	TopK              *int
	TopP              *float64
	MinP              *float64
	RepetitionPenalty *float64
	PenaltyWindow     *int
	FrequencyPenalty  *float64
	PresencePenalty   *float64
	Source            []string // the files it comes from, the strongest first
}

// fill takes from o what s does not say.
func (s *Sampling) fill(o Sampling) {
	s.Temperature = cmp.Or(s.Temperature, o.Temperature)
	s.TopK = cmp.Or(s.TopK, o.TopK)
	s.TopP = cmp.Or(s.TopP, o.TopP)
	s.MinP = cmp.Or(s.MinP, o.MinP)
	s.RepetitionPenalty = cmp.Or(s.RepetitionPenalty, o.RepetitionPenalty)
	s.PenaltyWindow = cmp.Or(s.PenaltyWindow, o.PenaltyWindow)
	s.FrequencyPenalty = cmp.Or(s.FrequencyPenalty, o.FrequencyPenalty)
	s.PresencePenalty = cmp.Or(s.PresencePenalty, o.PresencePenalty)
	s.Source = append(s.Source, o.Source...)
}

func (o object) intp(keys ...string) *int {
	n, ok, err := o.num(-1, 1<<30, keys...)
	if !ok || err != nil {
		return nil
	}
	return new(int(n))
}

// vendorSampling reads post_config.json. Its switches mean what the vendor's runtime makes of them:
// a value whose switch is off does not apply, and with neither temperature, top-k nor top-p on the
// largest logit is taken.
func vendorSampling(o object) (s Sampling) {
	on := func(key string) bool { f := o.flag(key); return f != nil && *f }
	if !o.any("enable_temperature", "enable_top_k_sampling", "enable_top_p_sampling") {
		s.Temperature, s.TopK, s.TopP = o.float("temperature"), o.intp("top_k"), o.float("top_p")
	} else {
		s.TopP, s.TopK = new(1.0), new(0)
		switch {
		case on("enable_temperature"):
			s.Temperature = o.float("temperature")
		case on("enable_top_k_sampling") || on("enable_top_p_sampling"):
			s.Temperature = new(1.0)
		default:
			s.Temperature = new(0.0)
		}
		if on("enable_top_k_sampling") {
			s.TopK = o.intp("top_k")
		}
		if on("enable_top_p_sampling") {
			s.TopP = o.float("top_p")
		}
	}
	if on("enable_repetition_penalty") {
		s.RepetitionPenalty, s.PenaltyWindow = o.float("repetition_penalty"), o.intp("penalty_window")
	}
	s.FrequencyPenalty, s.PresencePenalty = o.float("frequency_penalty"), o.float("presence_penalty")
	return s
}

// hubSampling reads Hugging Face's generation_config.json.
func hubSampling(o object) (s Sampling) {
	s.Temperature, s.TopK, s.TopP, s.MinP = o.float("temperature"), o.intp("top_k"), o.float("top_p"), o.float("min_p")
	s.RepetitionPenalty = o.float("repetition_penalty")
	if f := o.flag("do_sample"); f != nil && !*f {
		s.Temperature = new(0.0)
	}
	return s
}

func (p *plan) sampling() (s Sampling, stops, bos []int32, err error) {
	for _, src := range []struct {
		name string
		read func(object) Sampling
	}{{p.postConfig, vendorSampling}, {p.genConfig, hubSampling}} {
		if src.name == "" {
			continue
		}
		o, err := p.object(src.name)
		if err != nil {
			return s, nil, nil, err
		}
		if len(o) == 0 {
			continue
		}
		one := src.read(o)
		one.Source = []string{src.name}
		s.fill(one)
		stops = append(stops, o.ids("eos_token_id")...)
		if bos == nil {
			bos = o.ids("bos_token_id")
		}
	}
	if len(s.Source) == 0 {
		s = familyTraits[p.family].sampling
	}
	return s, stops, bos, nil
}
