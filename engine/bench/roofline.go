package bench

import (
	"fmt"
	"strings"

	"github.com/axle-llm/axle/models"
)

// Roofline is the most a card could do for one token at a time, were memory its only limit, and how
// near a measured case comes.
type Roofline struct {
	Weights   int64   `json:"weight_bytes_per_token"`          // layers and head, read once a token
	Cache     int64   `json:"cache_bytes_per_token"`           // K and V of every cell that the decode group reads
	States    int64   `json:"state_bytes_per_token,omitempty"` // read and written, of layers that keep them; 0: there are none
	Bandwidth float64 `json:"bandwidth_bytes_per_second"`
	Source    string  `json:"bandwidth_source"`
	Probes    []Probe `json:"probes,omitempty"` // everything that was learnt of the bandwidth
	Limit     float64 `json:"limit_tps"`
	Reached   float64 `json:"reached_tps"`
	Share     float64 `json:"share_percent"` // of the limit, 100 at most, where Reached is above it too
	Memory    float64 `json:"memory_ms_per_token"`
	// the card's time beyond reading: the engine's fixed cost of each call, and arithmetic
	Fixed float64 `json:"fixed_ms_per_token"`
	Link  float64 `json:"link_ms_per_token"`
	Host  float64 `json:"host_ms_per_token"`
	Text  string  `json:"text"`
}

// NewRoofline judges cases by what a token reads: weights, cache, and states where layers keep
// them. calls is how many executes a token takes.
func NewRoofline(weights, cache, states int64, bandwidth float64, source string, calls int, cases []Case) Roofline {
	r := Roofline{Weights: weights, Cache: cache, States: states, Bandwidth: bandwidth, Source: source}
	if bandwidth <= 0 || weights+cache+states <= 0 {
		r.Text = "The card's bandwidth is not known: give --profile."
		return r
	}
	r.Limit = bandwidth / float64(weights+cache+states)
	r.Memory = 1e3 / r.Limit
	var one *Case
	for i := range cases {
		c := &cases[i]
		if c.Clients == 1 && !c.Speculate && c.Decode.Median > 0 && (one == nil || c.Decode.Median > one.Decode.Median) {
			one = c
		}
	}
	if one == nil {
		r.Text = "No case with one client and more than one token was measured."
		return r
	}
	r.Reached = one.Decode.Median
	r.Share = min(100*r.Reached/r.Limit, 100)
	t := one.Token
	r.Link = ms(t.Upload + t.Down)
	r.Fixed = max(ms(t.Layers+t.Head)-r.Memory, 0)
	// What the card and the link do not explain is ours, the gaps between passes included.
	r.Host = max(1e3/r.Reached-ms(t.Layers+t.Head)-r.Link, 0)
	r.Text = r.judge(calls)
	return r
}

// Beaten says that a case was faster than memory allows: what it read was elsewhere, in part.
func (r *Roofline) Beaten() bool { return r.Reached > r.Limit }

// Reads says what a token reads: "595 MB of weights and 234 MB of cache".
func (r *Roofline) Reads() string {
	parts := models.HumanBytes(r.Weights) + " of weights"
	if r.States > 0 {
		return fmt.Sprintf("%s, %s of cache and %s of states, which are written too,", parts, models.HumanBytes(r.Cache),
			models.HumanBytes(r.States/2))
	}
	return fmt.Sprintf("%s and %s of cache", parts, models.HumanBytes(r.Cache))
}

func (r *Roofline) judge(calls int) string {
	all := 1e3 / r.Reached
	share := func(v float64) float64 { return 100 * v / all }
	switch {
	case r.Beaten():
		return fmt.Sprintf("It is faster than memory allows: weights stayed in a cache of the processor or the card, or the bandwidth "+
			"that %s gives is too low.", r.Source)
	case r.States > 0 && r.Memory >= max(r.Fixed, r.Link, r.Host):
		return fmt.Sprintf("Memory holds it back: %.0f %% of a token is reading weights, cache and states. A smaller quantization would "+
			"help; more clients at once would not, since layers that keep a state take rows of one sequence a call.", share(r.Memory))
	case r.Memory >= max(r.Fixed, r.Link, r.Host):
		return fmt.Sprintf("Memory holds it back: %.0f %% of a token is reading weights and cache. A smaller quantization or a shorter "+
			"context would help, and more clients at once share the weights.", share(r.Memory))
	case r.States > 0 && r.Fixed >= max(r.Link, r.Host):
		return fmt.Sprintf("The engine's fixed cost holds it back: %.0f %% of a token goes to the card's %d calls beyond what reading "+
			"takes. Layers that keep a state take rows of one sequence a call, so more clients at once do not help; fewer, larger layers "+
			"would.",
			share(r.Fixed), calls)
	case r.Fixed >= max(r.Link, r.Host):
		return fmt.Sprintf("The engine's fixed cost holds it back: %.0f %% of a token goes to the card's %d calls beyond what reading "+
			"takes. Guesses and more clients at once put more rows into each call; fewer, larger layers would help a compiler do the same.",
			share(r.Fixed), calls)
	case r.Link >= r.Host:
		return fmt.Sprintf("The link holds it back: %.0f %% of a token goes to copies over it. A head that finds the largest logit on "+
			"the card, or a wider PCIe link, would help.", share(r.Link))
	}
	return fmt.Sprintf("The host holds it back: %.0f %% of a token is this program's, or the system's, between passes. The CPU "+
		"governor, the card's interrupt and the server's priority are worth a look: 'Making it fast' in the documentation.", share(r.Host))
}

// Bandwidths lists what was learnt of the memory's bandwidth: "a read probe on the card 20.5 GB/s,
// the profile pi5 25.0 GB/s".
func (r *Roofline) Bandwidths() string {
	var out []string
	for _, p := range r.Probes {
		out = append(out, fmt.Sprintf("%s %.1f GB/s", p.Name, p.Rate/1e9))
	}
	return strings.Join(out, ", ")
}
