package server

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/server/monitor"
	"github.com/axle-llm/axle/server/pool"
)

// lookHeat says once in the log that a card has become hot, and once that it is well again. Where
// the loader does not tell of cards, the models do; of those on one card the highest counts.
func (s *Server) lookHeat(models []pool.Running) {
	highest := map[string]float64{}
	see := func(device string, t float64) {
		if was, ok := highest[device]; !math.IsNaN(t) && (!ok || t > was) {
			highest[device] = t
		}
	}
	cards := s.models.Cards()
	for _, c := range cards {
		if c.Err == nil {
			see(c.ID, c.Temperature)
		}
	}
	if cards == nil {
		for _, r := range models {
			see(r.Device, r.Stats.Temperature)
		}
	}
	for device, t := range highest {
		v, _ := s.warm.LoadOrStore(device, new(atomic.Bool))
		switch warm := v.(*atomic.Bool); {
		case t >= monitor.Hot && !warm.Swap(true):
			s.log.Warn(monitor.HotWarning+"; from 100 °C on nothing new is taken until it is at 90", zap.String("device", device),
				zap.Float64("celsius", t))
		case t < monitor.Hot-5 && warm.Swap(false):
			s.log.Info("the card has cooled down", zap.String("device", device), zap.Float64("celsius", t))
		}
	}
}

// lookLost takes note of a request that ended because the card was lost. Of several cards the
// engine says when the last is lost.
func (s *Server) lookLost(err error) {
	if !errors.Is(err, axcl.ErrLost) {
		return
	}
	cards := s.models.Cards()
	if len(cards) <= 1 || !slices.ContainsFunc(cards, func(c pool.Card) bool { return c.Err == nil }) {
		s.SetLost(err)
	}
}

// healthCard is a card in /health.
type healthCard struct {
	Device      string   `json:"device"`
	State       string   `json:"state"`               // ready, lost
	Temperature *float64 `json:"temperature_celsius"` // null where the device has none to tell, and for one that is lost
	Warning     string   `json:"warning,omitempty"`
	Load        *float64 `json:"npu_load"`
	Free        int64    `json:"card_free_bytes"`
	Total       int64    `json:"card_total_bytes"`
}

func healthCards(cards []pool.Card) []healthCard {
	out := []healthCard{}
	for _, c := range cards {
		h := healthCard{Device: c.ID, State: "lost"}
		if c.Err == nil {
			h = healthCard{Device: c.ID, State: "ready", Temperature: monitor.Known(c.Temperature), Warning: warning(c.Temperature),
				Load: monitor.Known(c.NPULoad), Free: c.FreeCMM, Total: c.TotalCMM}
		}
		out = append(out, h)
	}
	return out
}

func warning(celsius float64) string {
	if celsius >= monitor.Hot {
		return monitor.HotWarning
	}
	return ""
}
