package bench

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/engine"
)

// Served measures a model that a server has loaded, by the host's clock.
func Served(ctx context.Context, model ask.Model, prompt, output, clients, repeats int) (ask.Figures, error) {
	m, ok := model.(*engine.Model)
	if !ok {
		return ask.Figures{}, fmt.Errorf("%s is on no card of this machine", model.Info().Name)
	}
	start := time.Now()
	meter := Meter{Backend: m.Backend(), Clock: func() time.Duration { return time.Since(start) }, Prompt: Words(m)}
	c, _, err := meter.Measure(ctx, Load{Prompt: prompt, Output: output, Clients: clients}, repeats)
	if err != nil {
		return ask.Figures{}, err
	}
	return ask.Figures{First: finite(c.First.Median), Prefill: finite(c.Prefill.Median), Decode: finite(c.Decode.Median),
		P50: finite(c.P50.Median), P95: finite(c.P95.Median), P99: finite(c.P99.Median), Busy: finite(c.Busy.Median),
		Latency: c.Latency}, nil
}

// finite is v, or 0 where it is no number that JSON can tell.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
