package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/loaded"
	"github.com/axle-llm/axle/server/look"
	"github.com/axle-llm/axle/server/manage"
	"github.com/axle-llm/axle/server/ollama"
)

// This file is what the page and `axle top` look at: docs/api.md describes it. Nothing in it waits for the card.

// Loading takes note of how far a model is on its way to the card.
func (s *Server) Loading(p engine.Progress) { s.loads.Progress(p) }

// owner is who asks.
func (s *Server) owner(x *exchange.Exchange) (look.Owner, error) {
	o, err := look.OwnerOf(x.Key(), s.o.Keys != nil, x.Request.Header)
	if err != nil {
		err = exchange.Error(http.StatusBadRequest, err.Error())
	}
	return o, err
}

// seen frames each request that a model answers: it is listed, and its owner can end it.
func (s *Server) seen(c *gin.Context) {
	x := exchange.Of(c)
	owner, err := s.owner(x)
	if err != nil {
		x.Fail(err)
		c.Abort()
		return
	}
	ctx, stream := s.streams.Begin(x.Asked(), owner, c.FullPath())
	defer stream.End()
	c.Request = c.Request.WithContext(ctx)
	c.Next()
}

type lookedCard struct {
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

// kindWords say what a device is to somebody who has not chosen it.
var kindWords = map[string]string{
	"axcl":     "an Axera card on the PCIe bus",
	"axengine": "the NPU of this board",
	"soft":     "no card: this machine's own processor computes, which is slow",
}

type lookedMemory struct {
	Layers  int64 `json:"layers"`
	Head    int64 `json:"head"`
	Cache   int64 `json:"cache"`
	States  int64 `json:"states"`
	Buffers int64 `json:"buffers"`
	Draft   int64 `json:"draft"`
	Total   int64 `json:"total"`
}

type lookedModel struct {
	Name    string            `json:"name"`
	Device  string            `json:"device"`
	State   string            `json:"state"`
	Context int               `json:"context"`
	InUse   int               `json:"in_use"`
	Expires time.Time         `json:"expires_at"`
	Memory  lookedMemory      `json:"memory"`
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

type lookedWarning struct {
	ID    string `json:"id"`
	About string `json:"about"`
	Text  string `json:"text"`
}

type lookedBench struct {
	Allowed bool   `json:"allowed"`
	Why     string `json:"why"`
	Running bool   `json:"running"`
}

type lookedState struct {
	Status   string          `json:"status"`
	Uptime   float64         `json:"uptime_seconds"`
	Rate     float64         `json:"tokens_per_second"`
	First    float64         `json:"first_token_ms"`
	Warnings []lookedWarning `json:"warnings"`
	Cards    []lookedCard    `json:"cards"`
	Models   []lookedModel   `json:"models"`
	Loads    []look.Load     `json:"loads"`
	Waiting  int             `json:"waiting_for_load"`
	Streams  []look.Answer   `json:"streams"`
	Bench    lookedBench     `json:"benchmark"`
}

func (s *Server) lookState(x *exchange.Exchange) {
	owner, err := s.owner(x)
	if err != nil {
		x.Fail(err)
		return
	}
	running := s.models.Loaded()
	pending, waiting := s.models.Loading()
	st := lookedState{Status: "ok", Uptime: time.Since(s.started).Seconds(), Rate: s.answers.Figures.PerSecond(),
		First: float64(s.streams.FirstToken()) / float64(time.Millisecond), Cards: s.lookCards(running), Models: []lookedModel{},
		Loads: s.loads.Of(pending), Waiting: waiting, Streams: s.streams.List(owner)}
	for _, r := range running {
		st.Models = append(st.Models, lookModel(r))
	}
	st.Status, st.Warnings = s.lookWarnings(st.Cards, st.Models)
	st.Bench.Allowed, st.Bench.Why = s.mayBench()
	st.Bench.Running = s.bench.Running()
	x.Reply().JSON(http.StatusOK, st)
}

func lookModel(r loaded.Running) lookedModel {
	m := lookedModel{Name: r.Entry.Name.String(), Device: r.Device, State: r.Stats.State, Context: r.NumCtx, InUse: r.InUse,
		Expires: r.Expires.UTC(),
		Busy:    r.Stats.Busy.Seconds(), Passes: r.Stats.Passes, Cells: r.Stats.Cells, Used: r.Stats.CellsUsed, Cached: r.Stats.CellsCached,
		Shared: r.Stats.CellsShared, Running: r.Stats.Running, Queued: r.Stats.Queued,
		Slots: r.Stats.Slots, InSlots: r.Stats.SlotsUsed, Kept: r.Stats.SlotsKept, Tiers: manage.Tiers(r.Stats)}
	mem := r.Memory
	m.Memory = lookedMemory{Layers: mem.Layers, Head: mem.Head, Cache: mem.Cache, States: mem.States, Buffers: mem.IO, Draft: r.Draft,
		Total: r.Bytes + r.Draft}
	return m
}

// lookCards are the loader's cards; where it does not tell of any, those that models run on.
func (s *Server) lookCards(models []loaded.Running) []lookedCard {
	out := []lookedCard{}
	for _, c := range s.models.Cards() {
		l := lookedCard{Device: c.ID, Kind: c.Kind, Name: c.Name, Says: kindWords[c.Kind], Software: c.Kind == "soft", Bus: c.Bus,
			Driver:   c.Version,
			Firmware: c.Firmware, State: "lost", Memory: c.TotalCMM, Free: c.FreeCMM, MemoryOf: "card"}
		if c.Host {
			l.Memory, l.Free, l.MemoryOf = c.TotalMem, c.FreeMem, "host"
		}
		if c.Err == nil {
			l.State, l.Temperature, l.Load = "ready", known(c.Temperature), known(c.NPULoad)
		}
		out = append(out, l)
	}
	for _, r := range models {
		if len(s.models.Cards()) == 0 && !slices.ContainsFunc(out, func(c lookedCard) bool { return c.Device == r.Device }) {
			out = append(out, lookedCard{Device: r.Device, Kind: r.Device, Name: r.Device, Says: kindWords[r.Device], State: r.Stats.State,
				Temperature: known(r.Stats.Temperature), Load: known(r.Stats.NPULoad), Memory: r.Stats.CardTotal, Free: r.Stats.CardFree,
				MemoryOf: "card"})
		}
	}
	return out
}

// lookWarnings are what somebody should do something about, in words.
func (s *Server) lookWarnings(cards []lookedCard, on []lookedModel) (status string, out []lookedWarning) {
	out = []lookedWarning{}
	warn := func(id, about, format string, args ...any) {
		out = append(out, lookedWarning{id, about, fmt.Sprintf(format, args...)})
	}
	status = "ok"
	err, none := s.Lost(), s.models.Failed()
	switch {
	case err != nil:
		status = "lost"
		warn("lost", "", "the card was lost: %v; the server ends, and its supervisor should start it anew", err)
	case s.draining.Load():
		status = "draining"
		warn("draining", "", "the server is shutting down: what runs may finish, nothing new is taken")
	case none != nil:
		status = "no device"
		warn("no device", "", "%v", none)
	}
	for _, text := range *s.fewer.Load() {
		warn("fewer", "", "a card was lost, the others go on: %s; restart the server to have it back", text)
	}
	for _, c := range cards {
		if c.Temperature != nil && *c.Temperature >= hot {
			warn("hot", c.Device, "%s", hotWarning)
		}
		if c.Memory > 0 && c.Free < c.Memory/50 && c.MemoryOf == "card" {
			warn("memory", c.Device, "the card's memory is all but full: unload a model that is not needed, or choose smaller ones")
		}
	}
	for _, m := range on {
		if m.Queued > 0 && m.Queued > 2*m.Running {
			warn("queue", m.Name, "%d answers wait for %d that run: they take turns; a smaller model, shorter prompts or another "+
				"card would help", m.Queued, m.Running)
		}
	}
	return status, out
}

func (s *Server) lookStop(x *exchange.Exchange) {
	owner, err := s.owner(x)
	if err == nil {
		switch err = s.streams.Stop(x.Param("id"), owner); {
		case errors.Is(err, look.ErrOthers):
			err = exchange.Error(http.StatusForbidden, err.Error())
		case errors.Is(err, look.ErrOver):
			err = exchange.Error(http.StatusNotFound, look.ErrOver.Error())
		}
	}
	if err != nil {
		x.Fail(err)
		return
	}
	x.Reply().Whole(http.StatusNoContent, "", nil)
}

type lookedBranch struct {
	ID     int    `json:"id"`
	Own    bool   `json:"own"`
	State  string `json:"state"`
	Tokens int    `json:"tokens"`
	Shared int    `json:"shared_tokens"`
}

type lookedTier struct {
	Name  string `json:"name"`
	Cells int    `json:"cells"`
	Used  int    `json:"used"`
	Bytes int64  `json:"bytes"`
}

type lookedCopy struct {
	Device   string         `json:"device"`
	Age      int64          `json:"age_ms"`
	Cells    int            `json:"cells"`
	Free     int            `json:"free"`
	Used     int            `json:"used"`
	Cached   int            `json:"cached"`
	Shared   int            `json:"shared"`
	Branches []lookedBranch `json:"branches"`
	Map      [][2]int       `json:"map"`
	Tiers    []lookedTier   `json:"tiers"`
}

type lookedCells struct {
	Model  string       `json:"model"`
	Copies []lookedCopy `json:"copies"`
}

func (s *Server) lookCells(x *exchange.Exchange) {
	name, maps, err := s.models.Maps(x.Asked(), x.Query("model"))
	if err != nil {
		x.Fail(err)
		return
	}
	key, keyed := x.Key(), s.o.Keys != nil
	out := lookedCells{Model: name, Copies: []lookedCopy{}}
	for _, m := range maps {
		l := lookedCopy{Device: m.Device, Age: time.Since(m.At).Milliseconds(), Cells: m.Cells, Free: m.Free, Used: m.Used,
			Cached: m.Cached, Shared: m.Shared,
			Branches: []lookedBranch{}, Map: make([][2]int, 0, len(m.Runs)), Tiers: []lookedTier{}}
		for _, b := range m.Branches {
			state := "cached"
			if b.Running {
				state = "running"
			}
			l.Branches = append(l.Branches, lookedBranch{ID: b.ID, Own: !keyed || b.Key == key, State: state, Tokens: b.Tokens,
				Shared: b.Shared})
		}
		for _, r := range m.Runs {
			l.Map = append(l.Map, [2]int{r.Cells, r.What})
		}
		for _, t := range m.Tiers {
			l.Tiers = append(l.Tiers, lookedTier(t))
		}
		out.Copies = append(out.Copies, l)
	}
	x.Reply().JSON(http.StatusOK, out)
}

type lookedHere struct {
	Name   string `json:"name"`
	Card   int64  `json:"card_bytes"`
	Most   int64  `json:"load_bytes"`
	Fits   string `json:"fits"`
	Loaded bool   `json:"loaded"`
}

type lookedEntry struct {
	Name       string  `json:"name"`
	Repo       string  `json:"repository"`
	Parameters string  `json:"parameters"`
	Quant      string  `json:"quantization"`
	Kind       string  `json:"kind"`
	Size       int64   `json:"size_bytes"`
	Estimated  bool    `json:"size_estimated"`
	Speed      float64 `json:"tokens_per_second"`
	Note       string  `json:"note"`
	NotYet     string  `json:"not_yet"`
	Here       bool    `json:"here"`
	Fits       string  `json:"fits"`
}

type lookedCatalogue struct {
	Memory    int64         `json:"memory_bytes"`
	Free      int64         `json:"memory_free_bytes"`
	CanPull   bool          `json:"can_pull"`
	Here      []lookedHere  `json:"here"`
	Catalogue []lookedEntry `json:"catalogue"`
}

func (s *Server) lookCatalogue(x *exchange.Exchange) {
	list, err := s.store.List(x.Asked())
	if err != nil {
		x.Fail(err)
		return
	}
	slices.SortFunc(list, func(a, b *catalog.Entry) int { return cmp.Compare(a.Name.String(), b.Name.String()) })
	running := s.models.Loaded()
	out := lookedCatalogue{CanPull: s.canPull, Here: []lookedHere{}, Catalogue: []lookedEntry{}}
	for _, card := range s.lookCards(running) { // a model goes on one card: the best there is for it
		if card.State == "ready" {
			out.Memory, out.Free = max(out.Memory, card.Memory), max(out.Free, card.Free)
		}
	}
	fits := func(need int64) string { return look.Fits(need, out.Free, out.Memory) }
	here := map[string]bool{}
	for _, e := range list {
		h := lookedHere{Name: e.Name.String(), Card: e.Info.Memory.Card, Most: e.Info.Memory.Load}
		h.Loaded = slices.ContainsFunc(running, func(r loaded.Running) bool { return r.Entry.Key == e.Key })
		if h.Fits = fits(h.Most); h.Loaded {
			h.Fits = "now"
		}
		here[e.Name.Full()] = true
		out.Here = append(out.Here, h)
	}
	for _, e := range hub.Catalogue {
		size, told := e.Size()
		l := lookedEntry{Name: e.Name, Repo: e.Repo, Parameters: e.Parameters, Quant: e.Quant, Kind: cmp.Or(e.Kind, "text"), Size: size,
			Estimated: !told,
			Speed:     e.Speed, Note: e.SpeedNote, NotYet: e.NotYet, Fits: fits(size)}
		if n, err := models.ParseName(e.Name); err == nil {
			l.Here = here[n.Full()]
		}
		out.Catalogue = append(out.Catalogue, l)
	}
	x.Reply().JSON(http.StatusOK, out)
}

// mayBench says whether benchmarks may be started, and why not.
func (s *Server) mayBench() (bool, string) {
	if s.o.Bench || s.o.Loopback {
		return true, ""
	}
	return false, "benchmarks are off, since others than this machine can ask: axle serve --allow-bench allows them"
}

type lookedBenchmark struct {
	Allowed bool           `json:"allowed"`
	Why     string         `json:"why"`
	Running *look.Running  `json:"running"`
	Error   string         `json:"error"`
	Results []*look.Result `json:"results"`
}

func (s *Server) lookBench(x *exchange.Exchange) {
	owner, err := s.owner(x)
	if err != nil {
		x.Fail(err)
		return
	}
	var out lookedBenchmark
	out.Allowed, out.Why = s.mayBench()
	out.Running, out.Error, out.Results = s.bench.Tell(owner)
	x.Reply().JSON(http.StatusOK, out)
}

func (s *Server) lookStart(x *exchange.Exchange) {
	owner, err := s.owner(x)
	if ok, why := s.mayBench(); err == nil && !ok {
		err = exchange.Error(http.StatusForbidden, why)
	}
	var ask look.Ask
	if err == nil {
		err = x.Decode(&ask)
	}
	var e *catalog.Entry
	if err == nil {
		e, err = catalog.Find(s.store, ask.Model, ollama.ErrUnnamed, ollama.Missing)
	}
	if err == nil {
		ask.Model = e.Name.String()
		switch err = s.bench.Start(ask, owner, func(ctx context.Context) (*look.Subject, error) { return s.subject(ctx, e) }); {
		case errors.Is(err, look.ErrTry):
			err = exchange.Error(http.StatusBadRequest, err.Error())
		case errors.Is(err, look.ErrRunning):
			err = exchange.Error(http.StatusConflict, err.Error())
		}
	}
	if err != nil {
		x.Fail(err)
		return
	}
	x.Reply().JSON(http.StatusAccepted, map[string]string{"status": "started"})
}

// subject takes a model to be measured.
func (s *Server) subject(ctx context.Context, e *catalog.Entry) (*look.Subject, error) {
	l, err := s.models.Acquire(ctx, e, nil, 0)
	if err != nil {
		return nil, err
	}
	sub := &look.Subject{Model: l.Model, Name: e.Name.String(), Digest: e.Digest, Release: l.Release, Others: s.streams.Answering}
	for _, card := range s.lookCards(s.models.Loaded()) {
		if card.Device == l.Info().Device {
			sub.Card, sub.Driver = card.Name, card.Driver
		}
	}
	return sub, nil
}

func (s *Server) lookEnd(x *exchange.Exchange) {
	err := error(nil)
	if ok, why := s.mayBench(); !ok {
		err = exchange.Error(http.StatusForbidden, why)
	} else if err = s.bench.Stop(); err != nil {
		err = exchange.Error(http.StatusNotFound, err.Error())
	}
	if err != nil {
		x.Fail(err)
		return
	}
	x.Reply().Whole(http.StatusNoContent, "", nil)
}
