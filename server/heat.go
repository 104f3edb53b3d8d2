package server

import (
	"errors"
	"math"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/axcl"
)

// hot is where a card's temperature becomes a warning (promise D14).
const hot = 85

const hotWarning = "the card is hot: check its heat sink and fan"

// Card is an open card.
type Card struct {
	axcl.Info
	Err error // why it takes no more work, or nil
}

// Carded is a [Loader] that tells of its open cards, without waiting for anything. Health says their temperatures though no model is loaded.
type Carded interface {
	Cards() []Card
}

// Failing is a [Loader] that tells why the device it is for could not be opened, without waiting for anything; nil where it is open, or nobody
// has tried yet. A server whose device is not there can load nothing, and health says so.
type Failing interface {
	Failed() error
}

// noDevice is why no model can be loaded at all, or nil.
func (s *Server) noDevice() error {
	if f, ok := s.host.loader.(Failing); ok {
		return f.Failed()
	}
	return nil
}

func (s *Server) cards() []Card {
	if c, ok := s.host.loader.(Carded); ok {
		return c.Cards()
	}
	return nil
}

// lookHeat says once in the log that a card has become hot, and once that it is well again. Where the loader does not tell of cards, the models
// do; of those on one card the highest counts.
func (s *Server) lookHeat(loaded []Running) {
	highest := map[string]float64{}
	see := func(device string, t float64) {
		if was, ok := highest[device]; !math.IsNaN(t) && (!ok || t > was) {
			highest[device] = t
		}
	}
	cards := s.cards()
	for _, c := range cards {
		if c.Err == nil {
			see(c.ID, c.Temperature)
		}
	}
	if cards == nil {
		for _, r := range loaded {
			see(r.Device, r.Stats.Temperature)
		}
	}
	for device, t := range highest {
		v, _ := s.warm.LoadOrStore(device, new(atomic.Bool))
		switch warm := v.(*atomic.Bool); {
		case t >= hot && !warm.Swap(true):
			s.log.Warn(hotWarning+"; from 100 °C on nothing new is taken until it is at 90", zap.String("device", device), zap.Float64("celsius", t))
		case t < hot-5 && warm.Swap(false):
			s.log.Info("the card has cooled down", zap.String("device", device), zap.Float64("celsius", t))
		}
	}
}

// lookLost takes note of a request that ended because the card was lost. Of several cards the engine says when the last is lost.
func (s *Server) lookLost(err error) {
	if !errors.Is(err, axcl.ErrLost) {
		return
	}
	if cards := s.cards(); len(cards) > 1 {
		for _, c := range cards {
			if c.Err == nil {
				return
			}
		}
	}
	s.SetLost(err)
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

func healthCards(cards []Card) []healthCard {
	out := []healthCard{}
	for _, c := range cards {
		h := healthCard{Device: c.ID, State: "lost"}
		if c.Err == nil {
			h = healthCard{Device: c.ID, State: "ready", Temperature: known(c.Temperature), Warning: warning(c.Temperature), Load: known(c.NPULoad), Free: c.FreeCMM, Total: c.TotalCMM}
		}
		out = append(out, h)
	}
	return out
}

func warning(celsius float64) string {
	if celsius >= hot {
		return hotWarning
	}
	return ""
}
