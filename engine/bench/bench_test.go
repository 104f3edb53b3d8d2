//go:build cgo && !fake && linux

package bench

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/axcl/native/simhook"
	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/axmodel"
	"github.com/axle-llm/axle/engine"
)

// TestVirtual: on the virtual clock, figures are the profile's arithmetic and repeat exactly.
func TestVirtual(t *testing.T) {
	r, _ := meter(t, "virtual", few(6))
	load := Load{Prompt: 100, Output: 6, Clients: 1}
	a, run, err := r.Measure(t.Context(), load, 3)
	if err != nil {
		t.Fatal(err)
	}
	if a.First.Spread() > 0.01 || a.Decode.Spread() > 0.1 {
		t.Errorf("the virtual clock is not repeatable: first token %v, decode %v", a.First.Values, a.Decode.Values)
	}
	p, err := profiles.Load("pi5")
	if err != nil {
		t.Fatal(err)
	}
	want := 6*1.5 + 7.9 + 0.6
	if got := 1e3 / a.Decode.Median; got < 0.97*want || got > 1.03*want {
		t.Errorf("a token takes %.2f ms, %.2f by arithmetic", got, want)
	}
	if a.Rest > 2 || a.Rest < -2 {
		t.Errorf("%.1f %% of the time is in no stage: %+v", a.Rest, a.Stages)
	}
	if a.NPU == nil || a.NPU.Median < 85 || a.NPU.Median > 100 || a.Busy.Median < 95 || a.Busy.Median > 100.1 {
		t.Errorf("busy %v, NPU %v", a.Busy, a.NPU)
	}
	if a.Second == nil || a.Second.Median > 2*a.First.Median || len(a.Latency) != 5 || a.P99.Median-a.P50.Median > 1e-3 {
		t.Errorf("second turn %v, latencies %v", a.Second, a.Latency)
	}
	if len(run.Passes) < 6 || len(run.Requests) != 1 || run.Requests[0].Tokens != 6 {
		t.Errorf("%d passes, requests %+v", len(run.Passes), run.Requests)
	}
	roof := NewRoofline(100e6, 0, 0, p.Memory, "pi5", 7, []Case{a})
	if roof.Reached != a.Decode.Median || roof.Text == "" || roof.Limit != p.Memory/100e6 {
		t.Errorf("%+v", roof)
	}
	many, _, err := r.Measure(t.Context(), Load{Prompt: 8, Output: 6, Clients: 8}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if many.Rows <= many.Passes || many.Decode.Median <= a.Decode.Median {
		t.Errorf("eight clients: %v tokens/s in %.0f passes of %.0f rows, one client %v", many.Decode, many.Passes, many.Rows, a.Decode)
	}
	b, _, err := r.Measure(t.Context(), load, 3)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a.First.Values, b.First.Values) || a.P50.Median != b.P50.Median {
		t.Errorf("the same again: first token %v and %v, p50 %v and %v", a.First, b.First, a.P50, b.P50)
	}
}

// TestReal: on the real clock the stages are the wall time, but for what a busy machine takes
// between two of them, or in two at once. TestVirtual holds the share to 2 % on the virtual clock.
func TestReal(t *testing.T) {
	r, _ := meter(t, "real", few(4))
	var c Case
	for range 10 {
		var err error
		if c, _, err = r.Measure(t.Context(), Load{Prompt: 64, Output: 8, Clients: 1}, 2); err != nil {
			t.Fatal(err)
		}
		if math.Abs(c.Rest) <= 30 {
			break
		}
		t.Logf("%.2f %% of the wall time is in no stage: %+v", c.Rest, c.Stages)
	}
	if math.Abs(c.Rest) > 30 {
		t.Errorf("in ten tries %.2f %% of the wall time was in no stage", c.Rest)
	}
	for _, s := range c.Stages {
		if s.Token < 0 {
			t.Errorf("stage %s takes %v", s.Name, s.Token)
		}
	}
}

// onSim opens a simulated card of a Raspberry Pi 5; clock is virtual or real.
func onSim(t *testing.T, clock string, trace func(*engine.PassTrace)) (*engine.Card, *simhook.Sim, func() time.Duration) {
	t.Helper()
	sim := simcardtest.Attach(t, "profile=pi5,load 0\nclock="+clock, false)
	start := time.Now()
	now := func() time.Duration { return time.Since(start) }
	if clock == "virtual" {
		now = func() time.Duration { return time.Duration(sim.Clock()) }
	}
	card, err := engine.OpenCard(func() (axcl.Device, string, error) { return cards.Open("axcl") },
		engine.CardOptions{Clock: now, Trace: trace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = card.Close() })
	return card, sim, now
}

func meter(t *testing.T, clock string, s axmodel.Shape) (*Meter, *simhook.Sim) {
	t.Helper()
	rec := &Recorder{}
	card, sim, now := onSim(t, clock, rec.Add)
	b, err := engine.OpenShape(t.Context(), card, t.TempDir(), s, engine.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return &Meter{Backend: b, Clock: now, Recorder: rec, Virtual: clock == "virtual",
		NPU: func() time.Duration { return time.Duration(sim.Busy()) }}, sim
}

// few is the Qwen3-0.6B shape with fewer layers: quick, and still the profile's measured lines.
func few(layers int) axmodel.Shape {
	s := axmodel.Qwen3Small()
	s.Layers = layers
	return s
}

// TestErrors: a load that cannot run gives its error and leaves nothing hanging.
func TestErrors(t *testing.T) {
	r, _ := meter(t, "virtual", few(1))
	var ce *engine.ContextError
	if _, _, err := r.Measure(t.Context(), Load{Prompt: 5000, Output: 1, Clients: 2}, 1); !errors.As(err, &ce) {
		t.Errorf("a prompt longer than the context: %v", err)
	}
	if _, _, err := r.Measure(t.Context(), Load{Prompt: 5, Output: 2, Clients: 2}, 1); err != nil {
		t.Errorf("after that: %v", err)
	}
}
