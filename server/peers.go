package server

import (
	"net/http"
	"time"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/monitor"
	"github.com/axle-llm/axle/server/peers"
	"github.com/axle-llm/axle/server/request"
)

// peerPath is where other servers fetch rows, and hand them over.
const peerPath = "/rows/:package/:name"

// peerRows answers another server. It is no work that the orderly end waits for, and goes on while
// the server drains: that is when rows are wanted. A server that ends takes nothing over.
func (s *Server) peerRows(x *request.Exchange) {
	r := x.Request
	if s.o.Rows == nil {
		x.Drain(time.Now().Add(request.DrainTime))
		x.Fail(request.Error(http.StatusNotFound, "this server gives no rows to others: see --peers and --rows-secret in docs/cluster.md"))
		return
	}
	if r.Method == http.MethodPut && s.leaving.Load() {
		x.Header("Connection", "close")
		x.Fail(request.Error(http.StatusServiceUnavailable, "this server is ending: it takes no rows"))
		return
	}
	if err := s.o.Rows.Answer(x.Writer, r, x.Param("package")+"/"+x.Param("name")); err != nil {
		x.Log.Error = err.Error()
	}
}

// summaryPath is where other servers ask what this one does.
const summaryPath = "/rows"

// tellPeer tells another server what this one does.
func (s *Server) tellPeer(x *request.Exchange) {
	if s.o.Rows == nil {
		x.Fail(request.Error(http.StatusNotFound, "this server tells others nothing: see --peers and --rows-secret in docs/cluster.md"))
		return
	}
	if err := s.o.Rows.Tell(x.Writer, x.Request, s.summary); err != nil {
		x.Log.Error = err.Error()
	}
}

// summary is what this server does now. Nothing in it waits for a card.
func (s *Server) summary() peers.Summary {
	status, _ := s.state()
	_, waiting := s.models.Loading()
	out := peers.Summary{Node: s.o.Node, Version: s.o.Release, Status: status, Uptime: time.Since(s.started).Seconds(),
		Rate: s.answers.Figures.PerSecond(), Waiting: waiting, Cards: []peers.SummaryCard{}, Models: []string{}}
	for _, c := range s.models.Cards() {
		card := peers.SummaryCard{Name: c.Name, State: "lost", Memory: c.TotalCMM, Free: c.FreeCMM}
		if c.Host {
			card.Memory, card.Free = c.TotalMem, c.FreeMem
		}
		if c.Err == nil {
			card.State, card.Temperature, card.Load = "ready", monitor.Known(c.Temperature), monitor.Known(c.NPULoad)
		}
		out.Cards = append(out.Cards, card)
	}
	for _, r := range s.models.Loaded() {
		out.Models = append(out.Models, r.Entry.Name.String())
		out.Running, out.Waiting = out.Running+r.Stats.Running, out.Waiting+r.Stats.Queued
	}
	return out
}

type viewServer struct {
	peers.Summary
	Own     bool   `json:"own"`
	Error   string `json:"error"`
	Address string `json:"address,omitempty"` // for keys of the role admin, as the error's text, which may have addresses
	Why     string `json:"why,omitempty"`
}

// servers answers GET /api/axle/peers: this server and its peers.
func (s *Server) servers(x *request.Exchange) error {
	out := []viewServer{{Summary: s.summary(), Own: true}}
	if s.o.Peers != nil {
		seen, err := s.o.Peers.Look(x.Ctx())
		if err != nil {
			return err
		}
		for _, p := range seen {
			v := viewServer{Summary: p.Summary, Error: p.Error}
			if x.Who().May(access.Admin) {
				v.Address, v.Why = p.Address, p.Why
			}
			if v.Cards == nil {
				v.Cards = []peers.SummaryCard{}
			}
			if v.Models == nil {
				v.Models = []string{}
			}
			out = append(out, v)
		}
	}
	x.Reply().JSON(http.StatusOK, map[string]any{"servers": out})
	return nil
}
