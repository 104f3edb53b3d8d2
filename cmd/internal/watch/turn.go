package watch

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ollama/ollama/format"

	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/internal/terminal"
)

// turn is a turn as JSON. What is not known is absent.
type turn struct {
	Time      time.Time `json:"time"`
	Uptime    float64   `json:"uptime_seconds"`
	Requests  float64   `json:"requests_in_flight"` // without the one that asks
	PerSecond float64   `json:"tokens_per_second"`
	CardsLost float64   `json:"cards_lost,omitempty"` // while others go on
	// Links are those of the machine that top runs on, where that is the server's.
	Links  []cards.Link `json:"links,omitempty"`
	Models []model      `json:"models"`
}

type model struct {
	Name        string   `json:"name"`
	Temperature *float64 `json:"temperature_celsius,omitempty"`
	Load        *float64 `json:"npu_load_percent,omitempty"`
	MemoryFree  *float64 `json:"card_memory_free_bytes,omitempty"`
	Memory      *float64 `json:"card_memory_bytes,omitempty"`
	Bytes       float64  `json:"model_bytes"`
	Cells       float64  `json:"cells"`
	Used        float64  `json:"cells_used"`
	Cached      float64  `json:"cells_cached"`
	Shared      float64  `json:"cells_shared"`
	Running     float64  `json:"running"`
	Queued      float64  `json:"queued"`
	Busy        *float64 `json:"busy_percent,omitempty"` // share of the last turn inside passes
	Passes      *float64 `json:"passes_per_second,omitempty"`
	Reused      *float64 `json:"reused_tokens_per_second,omitempty"`
	Accepted    *float64 `json:"guesses_right_percent,omitempty"` // since the model was loaded
	// Tiers are the places beside the card where rows are kept, counted since the model was loaded;
	// absent where there is none.
	Tiers []tier `json:"tiers,omitempty"`
}

// tier is a place beside the card where a model's cache rows are kept.
type tier struct {
	Name  string  `json:"name"`
	Rows  float64 `json:"rows,omitempty"` // that fit
	Used  float64 `json:"used,omitempty"`
	Hits  float64 `json:"hits"` // prompt tokens whose rows came back
	Moved float64 `json:"moved_bytes"`
	Saved float64 `json:"saved_seconds"`
}

func (t tier) String() string {
	room := ""
	if t.Rows > 0 {
		room = fmt.Sprintf("%.0f of %.0f rows, ", t.Used, t.Rows)
	}
	return fmt.Sprintf("%s: %s%.0f came back, %s moved, %.1f s saved", t.Name, room, t.Hits, format.HumanBytes(int64(t.Moved)), t.Saved)
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func newTurn(was, now sample) turn {
	l := turn{Time: now.at, Uptime: now.get("axle_up_seconds", ""), Requests: max(now.get("axle_requests_in_flight", "")-1, 0),
		PerSecond: now.get("axle_tokens_per_second", ""), Models: []model{}}
	if n := now.get("axle_cards_lost", ""); n > 0 {
		l.CardsLost = n
	}
	span := now.at.Sub(was.at).Seconds()
	for _, name := range slices.Sorted(maps.Keys(now.values["axle_cells"])) {
		v := func(metric string) float64 { return now.get(metric, name) }
		per := func(metric string, scale float64) *float64 {
			more := v(metric) - was.get(metric, name)
			if more < 0 {
				return nil // the model was loaded anew, and counts from nothing
			}
			return finite(more / span * scale)
		}
		m := model{Name: name, Temperature: finite(v("axle_card_temperature_celsius")), Load: finite(100 * v("axle_card_load_ratio")),
			Bytes: v("axle_model_card_bytes"), Cells: v("axle_cells"), Used: v("axle_cells_used"), Cached: v("axle_cells_cached"),
			Shared:  v("axle_cells_shared"),
			Running: v("axle_running"), Queued: v("axle_queued"), Busy: per("axle_card_busy_seconds_total", 100),
			Passes:   per("axle_passes_total", 1),
			Reused:   per("axle_reused_tokens_total", 1),
			Accepted: finite(100 * v("axle_speculation_accepted_total") / v("axle_speculation_drafted_total"))}
		if rows := v("axle_memory_rows"); rows > 0 {
			m.Tiers = append(m.Tiers, tier{"memory", rows, v("axle_memory_rows_used"), v("axle_memory_reused_tokens_total"),
				v("axle_memory_in_bytes_total") + v("axle_memory_out_bytes_total"), v("axle_memory_saved_seconds_total")})
		}
		if hits, moved := v("axle_disk_reused_tokens_total"), v("axle_disk_in_bytes_total")+v("axle_disk_out_bytes_total"); moved > 0 {
			m.Tiers = append(m.Tiers, tier{Name: "disk", Hits: hits, Moved: moved, Saved: v("axle_disk_saved_seconds_total")})
		}
		if total := v("axle_card_memory_bytes"); total > 0 {
			m.Memory, m.MemoryFree = &total, finite(v("axle_card_memory_free_bytes"))
		}
		l.Models = append(l.Models, m)
	}
	return l
}

// write writes it for people.
func (l turn) write(out io.Writer, columns int) {
	w := terminal.NewTabs(out, columns, false)
	defer w.Flush() // to memory
	requests := "requests in flight"
	if l.Requests == 1 {
		requests = "request in flight"
	}
	fmt.Fprintf(w, "axle  up %v   %.0f %s   %.1f tokens/s\n", time.Duration(l.Uptime*float64(time.Second)).Round(time.Second), l.Requests,
		requests, l.PerSecond)
	if l.CardsLost > 0 {
		fmt.Fprintf(w, "%.0f lost of several cards: /health says why, a restart of the server brings them back\n", l.CardsLost)
	}
	for _, k := range l.Links {
		if k.Lost {
			fmt.Fprintf(w, "card %s: gone from the bus\n", k.Bus)
			continue
		}
		fmt.Fprintf(w, "card %s: link %s x%s\n", k.Bus, k.Speed, k.Width)
	}
	fmt.Fprintln(w)
	if len(l.Models) == 0 {
		fmt.Fprintln(w, "no model is loaded")
		return
	}
	or := func(v *float64, form string) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf(form, *v)
	}
	fmt.Fprintln(w, "MODEL\tRUN\tWAIT\tBUSY\tTEMP\tLOAD\tCELLS\tUSED\tCACHED\tSHARED\tSIZE\tCARD FREE\tPASSES/S\tREUSED/S\tGUESSES")
	for _, m := range l.Models {
		free := "-"
		if m.MemoryFree != nil {
			free = format.HumanBytes(int64(*m.MemoryFree))
		}
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%s\t%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Running, m.Queued,
			or(m.Busy, "%.0f%%"),
			or(m.Temperature, "%.0f°C"), or(m.Load, "%.0f%%"), m.Cells, m.Used, m.Cached, m.Shared, format.HumanBytes(int64(m.Bytes)), free,
			or(m.Passes, "%.1f"), or(m.Reused, "%.1f"), or(m.Accepted, "%.0f%%"))
	}
	fmt.Fprintln(w, "BUSY: share of the time that axle waited for the card, inside passes. LOAD: what the card itself says of its NPU.")
	for _, m := range l.Models {
		if len(m.Tiers) > 0 {
			fmt.Fprintf(w, "\nrows of %s\n", m.Name)
		}
		for _, t := range m.Tiers {
			where := "in"
			if t.Name == "disk" {
				where = "on"
			}
			fmt.Fprintf(w, "  %s %s\n", where, t)
		}
	}
}
