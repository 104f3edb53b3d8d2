package prompt

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/axle-llm/axle/sampler"
	"github.com/axle-llm/axle/server/body"
)

// Options are what a request's "options" and a Modelfile's PARAMETERs set.
type Options struct {
	Sampling   sampler.Params
	NumPredict int
	NumCtx     int // 0: the model's
	NumKeep    int
	Stop       []string
	Speculate  *bool
	Repeatable bool
}

// DefaultOptions start from a model's own sampling defaults, and have Ollama's for the rest.
func DefaultOptions(base sampler.Params) Options {
	return Options{Sampling: base, NumPredict: -1, NumKeep: 4}
}

// CheckOptions finds what is wrong with a Modelfile's and a request's options before a model is
// loaded for them.
func CheckOptions(params, opts map[string]any) error {
	if len(params)+len(opts) == 0 {
		return nil
	}
	o := DefaultOptions(sampler.Defaults())
	if _, err := o.Set(params); err != nil {
		return err
	}
	_, err := o.Set(opts)
	return err
}

// limits of the integer options: what is outside is certainly a mistake, and is refused rather than
// cut.
var intLimits = map[string][2]float64{
	"num_predict":       {-2, math.MaxInt32},
	"num_ctx":           {0, math.MaxInt32},
	"num_keep":          {-1, math.MaxInt32},
	"top_k":             {-1, math.MaxInt32},
	"repeat_last_n":     {-1, 1 << 20},
	"seed":              {-(1 << 63), 1<<63 - 1024}, // the largest number below 2⁶³ that JSON's doubles have
	"num_batch":         {math.MinInt32, math.MaxInt32},
	"num_gpu":           {math.MinInt32, math.MaxInt32},
	"main_gpu":          {math.MinInt32, math.MaxInt32},
	"num_thread":        {math.MinInt32, math.MaxInt32},
	"draft_num_predict": {math.MinInt32, math.MaxInt32},
}

// Set applies options in Ollama's way: null is skipped, what Ollama no longer knows is ignored, a
// wrong type is Ollama's own error (status 500, as there), a number out of range is status 400 and
// names the option. Unknown names are returned for the log.
func (o *Options) Set(m map[string]any) (unknown []string, err error) {
	if len(m) == 0 {
		return nil, nil
	}
	if m["typical_p"] != nil {
		return nil, body.Fail(400, "typical_p is no longer supported")
	}
	for key, val := range m {
		if val == nil {
			continue
		}
		known, err := o.set(key, val)
		if err != nil {
			return unknown, err
		}
		if !known {
			unknown = append(unknown, key)
		}
	}
	return unknown, o.check()
}

func (o *Options) set(key string, val any) (known bool, err error) {
	s := &o.Sampling
	switch key {
	case "temperature":
		return true, float(key, val, &s.Temperature)
	case "top_p":
		return true, float(key, val, &s.TopP)
	case "min_p":
		return true, float(key, val, &s.MinP)
	case "repeat_penalty":
		return true, float(key, val, &s.RepeatPenalty)
	case "presence_penalty":
		return true, float(key, val, &s.PresencePenalty)
	case "frequency_penalty":
		return true, float(key, val, &s.FrequencyPenalty)
	case "stop":
		o.Stop, err = strs(key, val)
		return true, err
	case "use_mmap", "speculate", "repeatable":
		b, ok := val.(bool)
		if !ok {
			return true, body.Fail(500, "option %q must be of type boolean", body.Ours(key))
		}
		switch key {
		case "speculate":
			o.Speculate = &b
		case "repeatable":
			o.Repeatable = b
		}
		return true, nil
	}
	lim, ok := intLimits[key]
	if !ok {
		return false, nil
	}
	n, err := integer(key, val, lim)
	if err != nil {
		return true, err
	}
	switch key {
	case "num_predict":
		o.NumPredict = int(n)
	case "num_ctx":
		if o.NumCtx = int(n); n > 0 {
			o.NumCtx = max(o.NumCtx, 4)
		}
	case "num_keep":
		if o.NumKeep = int(n); n < 0 {
			o.NumKeep = math.MaxInt32
		}
	case "top_k":
		s.TopK = int(n)
	case "repeat_last_n":
		s.RepeatLastN = int(n)
	case "seed":
		s.Seed = n
	}
	return true, nil
}

// check leaves the floats' ranges to the sampler, whose error names field and range.
func (o *Options) check() error {
	//rule:T3 ./server TestNumbers false
	if err := o.Sampling.Check(); err != nil {
		return body.Fail(400, "option %s", body.Ours(strings.TrimPrefix(err.Error(), "sampler: ")))
	}
	return nil
}

// NumCtx is the context that the first options ask for which have a number there, or def.
func NumCtx(def int, options ...map[string]any) int {
	for _, o := range options {
		switch n := o["num_ctx"].(type) {
		case float64:
			return int(min(max(n, 4), math.MaxInt32))
		case int64:
			return int(min(max(n, 4), math.MaxInt32))
		}
	}
	return def
}

func number(val any) (float64, bool) {
	switch t := val.(type) {
	case float64:
		return t, true
	case float32:
		return float64(t), true
	case int64:
		return float64(t), true
	case int:
		return float64(t), true
	case json.Number:
		f, err := t.Float64()
		return f, err == nil
	}
	return 0, false
}

func float(key string, val any, to *float32) error {
	f, ok := number(val)
	if !ok {
		return body.Fail(500, "option %q must be of type float32", body.Ours(key))
	}
	*to = float32(f)
	return nil
}

func integer(key string, val any, lim [2]float64) (int64, error) {
	f, ok := number(val)
	if !ok {
		return 0, body.Fail(500, "option %q must be of type integer", body.Ours(key))
	}
	//rule:T3 ./server TestNumbers false
	if !(f >= lim[0] && f <= lim[1]) {
		return 0, body.Fail(400, "option %q must be between %.0f and %.0f, got %v", body.Ours(key), lim[0], lim[1], f)
	}
	return int64(f), nil
}

func strs(key string, val any) ([]string, error) {
	if s, ok := val.([]string); ok {
		return s, nil
	}
	list, ok := val.([]any)
	if !ok {
		return nil, body.Fail(500, "option %q must be of type array", body.Ours(key))
	}
	out := make([]string, len(list))
	for i, v := range list {
		if out[i], ok = v.(string); !ok {
			return nil, body.Fail(500, "option %q must be of an array of strings", body.Ours(key))
		}
	}
	return out, nil
}
