package monitor

import (
	"net/http"
	"slices"
	"time"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/manage"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/request"
)

type viewCard struct {
	Device      string   `json:"device"`
	Kind        string   `json:"kind"`
	Name        string   `json:"name"`
	Says        string   `json:"says"`
	Software    bool     `json:"software"`
	Bus         string   `json:"bus"`
	Driver      string   `json:"driver"`
	Firmware    string   `json:"firmware"`
	State       string   `json:"state"`
	Temperature *float64 `json:"temperature_celsius"`
	Load        *float64 `json:"npu_load"`
	Memory      int64    `json:"memory_bytes"`
	Free        int64    `json:"memory_free_bytes"`
	MemoryOf    string   `json:"memory_of"`
}

// kindWords say what a device is to a person who has not chosen it.
var kindWords = map[string]string{
	"axcl":     "an Axera card on the PCIe bus",
	"axengine": "the NPU of this board",
	"soft":     "no card: this machine's own processor computes, which is slow",
}

type viewMemory struct {
	Layers  int64 `json:"layers"`
	Head    int64 `json:"head"`
	Cache   int64 `json:"cache"`
	States  int64 `json:"states"`
	Encoder int64 `json:"encoder"`
	Buffers int64 `json:"buffers"`
	Draft   int64 `json:"draft"`
	Total   int64 `json:"total"`
}

type viewModel struct {
	Name    string            `json:"name"`
	Device  string            `json:"device"`
	State   string            `json:"state"`
	Context int               `json:"context"`
	InUse   int               `json:"in_use"`
	Expires time.Time         `json:"expires_at"`
	Memory  viewMemory        `json:"memory"`
	Busy    float64           `json:"busy_seconds"`
	Passes  map[string]uint64 `json:"passes"`
	Cells   int               `json:"cells"`
	Used    int               `json:"cells_used"`
	Cached  int               `json:"cells_cached"`
	Shared  int               `json:"cells_shared"`
	Running int               `json:"running"`
	Queued  int               `json:"queued"`
	Slots   int               `json:"slots"`
	InSlots int               `json:"slots_used"`
	Kept    int               `json:"slots_kept"`
	Tiers   []manage.Tier     `json:"tiers"`
}

type viewBench struct {
	Allowed bool   `json:"allowed"`
	Why     string `json:"why"`
	Running bool   `json:"running"`
}

type viewState struct {
	Status   string        `json:"status"`
	Admin    bool          `json:"admin"` // who asks may pull, delete, unload and measure
	Uptime   float64       `json:"uptime_seconds"`
	Rate     float64       `json:"tokens_per_second"`
	First    float64       `json:"first_token_ms"`
	Warnings []viewWarning `json:"warnings"`
	Cards    []viewCard    `json:"cards"`
	Models   []viewModel   `json:"models"`
	Loads    []Load        `json:"loads"`
	Waiting  int           `json:"waiting_for_load"`
	Streams  []Answer      `json:"streams"`
	Bench    viewBench     `json:"benchmark"`
}

// State answers GET /api/axle/state.
func (v *Views) State(x *request.Exchange) error {
	owner, err := v.Owner(x)
	if err != nil {
		return err
	}
	running := v.o.Loaded.Loaded()
	pending, waiting := v.o.Loaded.Loading()
	st := viewState{Status: "ok", Admin: x.Who().May(access.Admin), Uptime: time.Since(v.started).Seconds(), Rate: v.o.Rate(),
		First: float64(v.streams.FirstToken()) / float64(time.Millisecond), Cards: v.cards(running), Models: []viewModel{},
		Loads: v.loads.Of(pending), Waiting: waiting, Streams: v.streams.List(owner)}
	for _, r := range running {
		st.Models = append(st.Models, modelOf(r))
	}
	st.Status, st.Warnings = v.warnings(st.Cards, st.Models)
	if err := v.mayBench(x); err != nil {
		st.Bench.Why = err.Error()
	}
	st.Bench.Allowed, st.Bench.Running = st.Bench.Why == "", v.bench.Running()
	x.Reply().JSON(http.StatusOK, st)
	return nil
}

func modelOf(r pool.Running) viewModel {
	m := viewModel{Name: r.Entry.Name.String(), Device: r.Device, State: r.Stats.State, Context: r.NumCtx, InUse: r.InUse,
		Expires: r.Expires.UTC(),
		Busy:    r.Stats.Busy.Seconds(), Passes: r.Stats.Passes, Cells: r.Stats.Cells, Used: r.Stats.CellsUsed, Cached: r.Stats.CellsCached,
		Shared: r.Stats.CellsShared, Running: r.Stats.Running, Queued: r.Stats.Queued,
		Slots: r.Stats.Slots, InSlots: r.Stats.SlotsUsed, Kept: r.Stats.SlotsKept, Tiers: manage.Tiers(r.Stats)}
	mem := r.Memory
	m.Memory = viewMemory{Layers: mem.Layers, Head: mem.Head, Cache: mem.Cache, States: mem.States, Encoder: mem.Encoder, Buffers: mem.IO,
		Draft: r.Draft, Total: r.Bytes + r.Draft}
	return m
}

// cards are the loader's cards; where it does not tell of any, those that models run on.
func (v *Views) cards(models []pool.Running) []viewCard {
	out := []viewCard{}
	for _, c := range v.o.Loaded.Cards() {
		l := viewCard{Device: c.ID, Kind: c.Kind, Name: c.Name, Says: kindWords[c.Kind], Software: c.Kind == "soft", Bus: c.Bus,
			Driver:   c.Version,
			Firmware: c.Firmware, State: "lost", Memory: c.TotalCMM, Free: c.FreeCMM, MemoryOf: "card"}
		if c.Host {
			l.Memory, l.Free, l.MemoryOf = c.TotalMem, c.FreeMem, "host"
		}
		if c.Err == nil {
			l.State, l.Temperature, l.Load = "ready", Known(c.Temperature), Known(c.NPULoad)
		}
		out = append(out, l)
	}
	for _, r := range models {
		if len(v.o.Loaded.Cards()) == 0 && !slices.ContainsFunc(out, func(c viewCard) bool { return c.Device == r.Device }) {
			out = append(out, viewCard{Device: r.Device, Kind: r.Device, Name: r.Device, Says: kindWords[r.Device], State: r.Stats.State,
				Temperature: Known(r.Stats.Temperature), Load: Known(r.Stats.NPULoad), Memory: r.Stats.CardTotal, Free: r.Stats.CardFree,
				MemoryOf: "card"})
		}
	}
	return out
}
