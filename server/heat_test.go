package server_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/scripted"
)

// TestWarm (D14): /health says each card's temperature though no model is loaded, and warns from 85
// °C on. The log says it once, and once that it has cooled down, whatever several cards have.
func TestWarm(t *testing.T) {
	//proves:D14
	r, l, log := cardRig(t)
	if a := r.do("GET", "/health", ""); !strings.Contains(a.body, `"cards":[]`) {
		t.Errorf("no card is open: %s", a.body)
	}
	told := 0
	for _, tt := range []struct {
		first, second float64
		warned        int // cards
		told          int // lines
	}{{84.9, 40, 0, 0}, {85, 40, 1, 1}, {88, 40, 1, 0}, {80, 40, 0, 0}, {86, math.NaN(), 1, 0}, {79.9, 40, 0, 1}, {40, 85, 1, 1},
		{85, 85, 2, 1}} {
		l.cards = []pool.Card{card("axcl:0", tt.first), card("axcl:1", tt.second)}
		for range 3 {
			r.LookAtCards()
			a := r.do("GET", "/health", "")
			if a.code != 200 || !strings.Contains(a.body, fmt.Sprintf(`"device":"axcl:0","state":"ready","temperature_celsius":%v,`,
				tt.first)) ||
				strings.Count(a.body, `"warning":"the card is hot`) != tt.warned {
				t.Errorf("at %v and %v °C: %d %s", tt.first, tt.second, a.code, a.body)
			}
		}
		told += tt.told
		if got := log.FilterField(zap.String("device", "axcl:0")).Len() + log.FilterField(zap.String("device", "axcl:1")).Len(); got !=
			told {
			t.Errorf("at %v and %v °C: %d lines in the log, want %d", tt.first, tt.second, got, told)
		}
	}
	l.cards[0].Err = axcl.ErrLost
	if a := r.do("GET", "/health", ""); !strings.Contains(a.body, `"device":"axcl:0","state":"lost","temperature_celsius":null`) {
		t.Errorf("a lost card's last temperature: %s", a.body)
	}
}

// carded is a loader with cards.
type carded struct {
	scripted.Loader
	cards []pool.Card
	err   error // of every load
}

func (c *carded) Load(ctx context.Context, e *catalog.Entry) (ask.Model, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.Loader.Load(ctx, e)
}

func (c *carded) Cards() []pool.Card { return c.cards }

func card(id string, celsius float64) pool.Card {
	return pool.Card{Info: axcl.Info{ID: id, Temperature: celsius, NPULoad: math.NaN(), TotalCMM: 8 << 30, FreeCMM: 1 << 30}}
}

// cardRig is a server over a loader with cards, and its log.
func cardRig(t *testing.T, cards ...pool.Card) (*rig, *carded, *observer.ObservedLogs) {
	t.Helper()
	old := newRig(t)
	core, log := observer.New(zap.InfoLevel)
	l := &carded{cards: cards}
	s := server.New(local.New(old.store, local.Options{Describe: scripted.Describe}), l, nil,
		server.Options{Loopback: true, KeepAlive: time.Minute, Log: zap.New(core)})
	ts := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		ts.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &rig{s, t, ts.URL, &l.Loader, old.store}, l, log
}

// TestLostOfSeveral: a load that says a card is lost ends the process only where no other card
// works.
func TestLostOfSeveral(t *testing.T) {
	lost := &axcl.Error{Op: "axclrtSetDevice", Layer: axcl.NoLayer, Kind: axcl.ErrLost}
	for _, others := range []bool{true, false} {
		r, l, _ := cardRig(t, card("axcl:0", 40), card("axcl:1", 40))
		l.cards[0].Err = lost
		if !others {
			l.cards[1].Err = lost
		}
		l.err = lost
		if a := r.post("/api/generate", `{"model":"scripted","prompt":"x","stream":false}`); a.code != 503 {
			t.Errorf("%d %s", a.code, a.body)
		}
		if err := r.Lost(); errors.Is(err, axcl.ErrLost) == others {
			t.Errorf("others work %v: %v", others, err)
		}
	}
}
