// Package report holds what a run of 'axle bench' found, and shows it: as JSON (with the types' own
// field names), as tables, as one Markdown table, and as two reports side by side. It measures
// nothing and knows no card: package bench measures, and cmd/internal/benchmark chooses what to
// measure. A Report may be read from any goroutine while no goroutine writes to it.
package report

import (
	"fmt"
	"time"

	"github.com/axle-llm/axle/engine/bench"
)

// Report is what a run of bench found; the field names are its JSON.
type Report struct {
	Version int       `json:"version"`
	When    time.Time `json:"when"`
	Facts   Machine   `json:"machine"`
	Models  []Model   `json:"models"`
}

// Model is a model's part of a report.
type Model struct {
	Name      string          `json:"name"`
	ShapeOnly bool            `json:"without_weights,omitempty"`
	Digest    string          `json:"digest,omitempty"`
	Context   int             `json:"context"`
	Layers    int             `json:"layers"`
	Bytes     int64           `json:"card_bytes"`
	Cases     []bench.Case    `json:"cases,omitempty"`
	Roofline  *bench.Roofline `json:"roofline,omitempty"`
	Draft     string          `json:"draft_model,omitempty"`
	Against   *Against        `json:"against,omitempty"`

	Talks []bench.TalkCase `json:"conversations,omitempty"`
}

// Machine is the machine that was measured.
type Machine struct {
	Axle     string `json:"axle"`
	Go       string `json:"go"`
	System   string `json:"system"`
	Kernel   string `json:"kernel"`
	Board    string `json:"board,omitempty"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Governor string `json:"governor,omitempty"`
	Load     string `json:"load_average,omitempty"`
	Memory   int64  `json:"memory_bytes,omitempty"`
	Held     string `json:"held_back,omitempty"` // what a Pi's firmware held it back for, at the end of the run or before
	Card     Card   `json:"card"`
}

type Card struct {
	Kind        string   `json:"kind"`
	Name        string   `json:"name"`
	ID          string   `json:"id"`
	Why         string   `json:"why"`
	Bus         string   `json:"bus,omitempty"`
	Driver      string   `json:"driver,omitempty"`
	Firmware    string   `json:"firmware,omitempty"`
	Link        *Link    `json:"link,omitempty"`
	Temperature *float64 `json:"temperature_celsius"`
	Warmest     *float64 `json:"temperature_at_end_celsius,omitempty"`
	Memory      int64    `json:"card_memory_bytes,omitempty"`
	Simulated   bool     `json:"simulated,omitempty"`
	Clock       string   `json:"clock,omitempty"`
	Profile     string   `json:"profile,omitempty"`
}

// Link is how a card hangs on the PCIe bus.
type Link struct {
	Bus      string `json:"bus"`
	Width    string `json:"width"` // lanes
	Speed    string `json:"speed"`
	MaxWidth string `json:"max_width"`
	MaxSpeed string `json:"max_speed"`
	Lost     bool   `json:"lost"` // the card does not answer
}

// String says in one line what was measured on.
func (f Machine) String() string {
	board := f.Board
	if board == "" {
		board = f.CPU
	}
	s := fmt.Sprintf("%s, %d cores, %s, Linux %s", board, f.Cores, f.System, f.Kernel)
	if f.Governor != "" {
		s += ", governor " + f.Governor
	}
	return s
}

// end says what is to be known of how the run ended: how warm the card was, and whether the machine
// was held back.
func (r *Report) end() string {
	s := ""
	if t := r.Facts.Card.Warmest; t != nil {
		s += fmt.Sprintf(", %.0f °C at the end", *t)
	}
	if r.Facts.Held != "" {
		s += "; the machine was held back: " + r.Facts.Held
	}
	return s
}

// wide is from which spread on a figure is not to be relied on, in per cent.
const wide = 20

// uneven says which figure varied most of those that the tables show, where one did by more than
// wide; "" where none did. A tail's percentiles vary by nature and are left out.
func (r *Report) uneven() string {
	most, what := float64(wide), ""
	for _, m := range r.Models {
		for i := range m.Cases {
			c := &m.Cases[i]
			for _, f := range []struct {
				name string
				s    *bench.Sample
			}{{"first token", &c.First}, {"prefill", &c.Prefill}, {"decode", &c.Decode}, {"p50", &c.P50}, {"next turn", c.Second}} {
				if f.s != nil && len(f.s.Values) > 1 && f.s.Spread() > most {
					most, what = f.s.Spread(), fmt.Sprintf("%s of %s, %s", f.name, m.Name, c.Load)
				}
			}
		}
	}
	if what == "" {
		return ""
	}
	return fmt.Sprintf("A repeat lies %.0f %% from the median (%s): something else was at work, or the machine or the card was throttled. "+
		"Measure again when it is idle, with more repeats (-r).", most, what)
}

// String says in one line what card it was.
func (c Card) String() string {
	s := fmt.Sprintf("%s %s", c.Kind, c.Name)
	if c.Driver != "" {
		s += ", driver " + c.Driver
	}
	s += c.link()
	if c.Temperature != nil {
		s += fmt.Sprintf(", %.0f °C", *c.Temperature)
	}
	return s + c.simulated()
}

// place says which card it was and how it was attached.
func (c Card) place() string { return c.Kind + " " + c.Name + c.link() + c.simulated() }

func (c Card) link() string {
	if c.Link == nil {
		return ""
	}
	return fmt.Sprintf(", PCIe %s x%s", c.Link.Speed, c.Link.Width)
}

func (c Card) simulated() string {
	if !c.Simulated {
		return ""
	}
	return fmt.Sprintf(" (SIMULATED: profile %s, clock %s)", c.Profile, c.Clock)
}

// versions are those of the card's driver, where it has one, and of axle.
func (f Machine) versions() string {
	if f.Card.Driver == "" {
		return "axle " + f.Axle
	}
	return "driver " + f.Card.Driver + ", axle " + f.Axle
}

// words name the model, and say where its figures are those of a shape.
func (m *Model) words() string {
	if m.ShapeOnly {
		return m.Name + " (a shape without weights)"
	}
	return m.Name
}
