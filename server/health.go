package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/server/monitor"
	"github.com/axle-llm/axle/server/request"
)

// health is the state of the server for supervisors and for people.
type health struct {
	Status  string        `json:"status"` // ok, starting, draining, lost, no device
	Error   string        `json:"error,omitempty"`
	Fewer   []string      `json:"lost_cards,omitempty"` // with which errors cards were lost while others go on
	Uptime  float64       `json:"uptime_seconds"`
	Rate    float64       `json:"tokens_per_second"`
	Version string        `json:"version"`
	Cards   []healthCard  `json:"cards"`
	Models  []healthModel `json:"models"`
	// Warnings are what an operator should look at, in sentences: models that are refused because
	// the card gives wrong answers.
	Warnings []string `json:"warnings,omitempty"`
}

type healthModel struct {
	Name        string   `json:"name"`
	State       string   `json:"state"`
	Device      string   `json:"device,omitempty"`
	Running     int      `json:"running"`
	Queued      int      `json:"queued"`
	Cells       int      `json:"cells"`
	CellsUsed   int      `json:"cells_used"`
	CellsCached int      `json:"cells_cached"`
	Temperature *float64 `json:"temperature_celsius"` // null where the device has none to tell
	Warning     string   `json:"warning,omitempty"`
	Load        *float64 `json:"npu_load"`
	CardFree    int64    `json:"card_free_bytes"`
	CardTotal   int64    `json:"card_total_bytes"`
}

// live says whether the process has to be started anew: 503 once the card is lost, which is final
// for a process, else 200. While it drains it lives.
func (s *Server) live(x *request.Exchange) {
	if s.Lost() != nil {
		x.Reply().JSON(http.StatusServiceUnavailable, told{"lost"})
		return
	}
	x.Reply().JSON(http.StatusOK, told{"ok"})
}

// ready says whether requests may be sent here: as /health does, and, where it is asked with ?room,
// 503 too while requests are about to be refused. A proxy that asks no other machine after a
// refusal leaves this one out in time; one that does is better off with the whole room.
func (s *Server) ready(x *request.Exchange) {
	status, _ := s.state()
	if x.Request.URL.Query().Has("room") && s.nearlyFull() && status == "ok" {
		status = "nearly full"
	}
	code := http.StatusOK
	if status != "ok" {
		code = http.StatusServiceUnavailable
	}
	x.Reply().JSON(code, told{status})
}

// nearlyFull says that a queue, or the memory that requests share, is full to three quarters, and
// goes on saying so until it is full to a half: a machine at the mark would else come and go with
// each request.
func (s *Server) nearlyFull() bool {
	_, waiting := s.models.Loading()
	for _, m := range s.models.Loaded() {
		waiting = max(waiting, m.Stats.Queued)
	}
	full := max(float64(waiting)/float64(s.o.MaxQueue), float64(s.shared.Large())/float64(budget.Get().Requests))
	switch {
	//rule:D10 TestNearlyFull false
	case full >= 0.75:
		s.full.Store(true)
	//rule:D10 TestNearlyFull false
	case full <= 0.5:
		s.full.Store(false)
	}
	return s.full.Load()
}

// told is what /livez and /readyz answer.
type told struct {
	Status string `json:"status"`
}

// health is for supervisors and people. Where there are keys, who has none learns that we are here,
// and no more.
func (s *Server) health(x *request.Exchange) { s.tellHealth(x, s.o.Keys == nil || x.Who() != nil) }

func (s *Server) tellHealth(x *request.Exchange, all bool) {
	h := health{Fewer: *s.fewer.Load(), Uptime: time.Since(s.started).Seconds(), Rate: s.answers.Figures.PerSecond(),
		Version: s.o.Version, Models: []healthModel{}}
	code := http.StatusOK
	models, cards := s.models.Loaded(), s.models.Cards()
	if !all {
		models, cards, h.Fewer = nil, nil, nil
	}
	if all {
		h.Warnings = s.models.Wrong()
	}
	h.Cards = healthCards(cards)
	for _, r := range models {
		m := healthModel{Name: r.Entry.Name.String(), State: r.Stats.State, Device: r.Device, Running: r.Stats.Running,
			Queued: r.Stats.Queued,
			Cells:  r.Stats.Cells, CellsUsed: r.Stats.CellsUsed, CellsCached: r.Stats.CellsCached,
			Temperature: monitor.Known(r.Stats.Temperature), Warning: modelWarning(r.Stats), Load: monitor.Known(r.Stats.NPULoad),
			CardFree: r.Stats.CardFree, CardTotal: r.Stats.CardTotal}
		h.Models = append(h.Models, m)
	}
	var err error
	if h.Status, err = s.state(); h.Status != "ok" {
		code = http.StatusServiceUnavailable
	}
	// What went wrong names files and folders of this machine: that is for who has a key.
	//rule:T6 TestNoDevice && all =>
	if err != nil && all {
		h.Error = err.Error()
	}
	x.Reply().JSON(code, h)
}

// modelWarning is what is to be known of a model that runs: its card is hot, gets wide passes
// wrong, or was never compared.
func modelWarning(st ask.Stats) string {
	warnings := []string{warning(st.Temperature)}
	if wide, has := st.Proven["wide"]; has && !wide {
		warnings = append(warnings, ask.NoWidePasses)
	}
	if st.Compared == ask.ComparedNever {
		warnings = append(warnings, ask.NeverCompared)
	}
	return strings.Join(slices.DeleteFunc(warnings, func(s string) bool { return s == "" }), "; ")
}

func (s *Server) metricsPage(x *request.Exchange) {
	var b bytes.Buffer
	code, err := http.StatusOK, s.Lost()
	if err == nil {
		err = s.models.Failed()
	}
	if err == nil && s.models.Opening() {
		err = errors.New("starting: the device is being opened")
	}
	if err != nil { // a comment of the format, in one line; what scrapes sees the status
		code = http.StatusServiceUnavailable
		fmt.Fprintf(&b, "# %s\n", strings.Join(strings.Fields(err.Error()), " "))
	}
	s.metrics.write(&b, s, err == nil, x.Who())
	x.Reply().Whole(code, "text/plain; version=0.0.4; charset=utf-8", b.Bytes())
}
