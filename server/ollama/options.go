package ollama

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/sampler"
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

// DefaultOptions start from a model's own sampling defaults.
func DefaultOptions(base sampler.Params) Options {
	d := ollamas
	return Options{Sampling: base, NumPredict: d.NumPredict, NumKeep: d.NumKeep}
}

// ollamas are Ollama's own, which looks for some of them in the environment.
var ollamas = api.DefaultOptions()

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
		return nil, Fail(400, "typical_p is no longer supported")
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
			return true, Fail(500, "option %q must be of type boolean", Ours(key))
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

// own are the options that Ollama has not. All are switches.
var own = []string{"speculate", "repeatable"}

// Param reads an option as a Modelfile has it, a text for each PARAMETER line of its name, into
// what a request would hold. Errors: a name that is none, a value that is not of the option's type.
func Param(name string, vals []string) (any, error) {
	if slices.Contains(own, name) {
		b, err := strconv.ParseBool(vals[0])
		if err != nil {
			return nil, fmt.Errorf("parameter %q must be true or false, got %q", name, vals[0])
		}
		return b, nil
	}
	typed, err := api.FormatParams(map[string][]string{name: vals})
	return typed[name], err
}

// check leaves the floats' ranges to the sampler, whose error names field and range.
func (o *Options) check() error {
	//rule:T3 ./server TestNumbers false
	if err := o.Sampling.Check(); err != nil {
		return Fail(400, "option %s", Ours(strings.TrimPrefix(err.Error(), "sampler: ")))
	}
	return nil
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
		return Fail(500, "option %q must be of type float32", Ours(key))
	}
	*to = float32(f)
	return nil
}

func integer(key string, val any, lim [2]float64) (int64, error) {
	f, ok := number(val)
	if !ok {
		return 0, Fail(500, "option %q must be of type integer", Ours(key))
	}
	//rule:T3 ./server TestNumbers false
	if !(f >= lim[0] && f <= lim[1]) {
		return 0, Fail(400, "option %q must be between %.0f and %.0f, got %v", Ours(key), lim[0], lim[1], f)
	}
	return int64(f), nil
}

func strs(key string, val any) ([]string, error) {
	if s, ok := val.([]string); ok {
		return s, nil
	}
	list, ok := val.([]any)
	if !ok {
		return nil, Fail(500, "option %q must be of type array", Ours(key))
	}
	out := make([]string, len(list))
	for i, v := range list {
		if out[i], ok = v.(string); !ok {
			return nil, Fail(500, "option %q must be of an array of strings", Ours(key))
		}
	}
	return out, nil
}
