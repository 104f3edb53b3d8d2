package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"time"
)

const (
	lookTime  = 2 * time.Second // for all peers, side by side
	lookOften = 2 * time.Second // between two looks, for all who ask
	mostTold  = 64 << 10        // bytes of what one peer tells
	lookPath  = "/rows"
)

// Why a peer tells nothing, in a word for programs.
const (
	Unreached = "unreached" // nothing answers at its address
	Late      = "late"      // it did not answer in time
	Refused   = "refused"   // it has another secret or another clock, or gives nothing to peers
	Wrong     = "wrong"     // what it answers is no summary: it is another program, or another version
)

// Summary is what a server does, as it tells its peers.
type Summary struct {
	Node    string  `json:"node"`
	Version string  `json:"version"`
	Status  string  `json:"status"`
	Uptime  float64 `json:"uptime_seconds"`
	Rate    float64 `json:"tokens_per_second"`
	Running int     `json:"running"`
	Waiting int     `json:"waiting"`

	Cards  []SummaryCard `json:"cards"`
	Models []string      `json:"models"` // those that are loaded
}

// SummaryCard is a card of a server. What the card does not tell is nil.
type SummaryCard struct {
	Name        string   `json:"name"`
	State       string   `json:"state"`
	Temperature *float64 `json:"temperature_celsius"`
	Load        *float64 `json:"npu_load"`
	Memory      int64    `json:"memory_bytes"`
	Free        int64    `json:"memory_free_bytes"`
}

// Seen is what was seen of a peer.
type Seen struct {
	Summary        // as it told; where it did not, only the name that it had before
	Address string // as this server asks it
	Error   string // Unreached, Late, Refused or Wrong; "": it told
	Why     string // the error's text: it may have addresses
}

// looks are what was seen of all peers, and when.
type looks struct {
	turn  chan struct{} // has one: who has taken it looks
	limit time.Duration
	at    time.Time
	seen  []Seen
}

// Look tells what all peers do. They are asked at the same time, within two seconds, and at most
// every two seconds, however many ask for it. Error: ctx's.
func (p *Peers) Look(ctx context.Context) ([]Seen, error) {
	select {
	case <-p.looks.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { p.looks.turn <- struct{}{} }()
	if now := p.o.Now(); !p.looks.at.IsZero() && now.Sub(p.looks.at) < lookOften {
		return p.looks.seen, nil
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.looks.limit) // the answer is for others too
	defer cancel()
	seen := make([]Seen, len(p.peers))
	var all sync.WaitGroup
	for i, one := range p.peers {
		all.Go(func() { seen[i] = p.look(asking, one) })
	}
	all.Wait()
	for i := range seen {
		if seen[i].Error != "" && p.looks.seen != nil {
			seen[i].Node = p.looks.seen[i].Node
		}
	}
	p.looks.seen, p.looks.at = seen, p.o.Now()
	return seen, nil
}

// look asks one peer. It is asked though it is left alone for rows: nothing waits for it.
func (p *Peers) look(ctx context.Context, at *peer) Seen {
	s := Seen{Address: at.url.Host}
	failed := func(word string, err error) Seen {
		s.Error, s.Why = word, err.Error()
		return s
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.url.String()+lookPath, nil)
	if err != nil {
		return failed(Unreached, err)
	}
	r.Header.Set("User-Agent", "axle")
	p.sealer.seal(r, p.o.Now())
	res, err := p.client.Do(r)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return failed(Late, err)
		}
		return failed(Unreached, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, mostTold+1))
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failed(Late, err)
	case err != nil:
		return failed(Unreached, err)
	case res.StatusCode == http.StatusUnauthorized, res.StatusCode == http.StatusForbidden, res.StatusCode == http.StatusNotFound:
		return failed(Refused, fmt.Errorf("%s: %s", res.Status, clip(string(data))))
	case res.StatusCode != http.StatusOK:
		return failed(Wrong, fmt.Errorf("%s: %s", res.Status, clip(string(data))))
	case len(data) > mostTold:
		return failed(Wrong, fmt.Errorf("it tells more than %d bytes", mostTold))
	}
	var told Summary
	if err := json.Unmarshal(data, &told); err != nil {
		return failed(Wrong, err)
	}
	if !nodeName.MatchString(told.Node) || told.Version == "" {
		return failed(Wrong, errors.New("what it tells is no summary of a server"))
	}
	s.Summary = told
	return s
}

// nodeName is what --node takes.
var nodeName = regexp.MustCompile(`^[0-9A-Za-z._-]{0,253}$`)

// Tell answers a peer that asks what this server does. It returns the error that the request failed
// with, for the log; the answer is sent.
func (s *Server) Tell(w http.ResponseWriter, r *http.Request, of func() Summary) error {
	err := s.admit(r)
	if err == nil {
		var data []byte
		if data, err = json.Marshal(of()); err == nil {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(data)
			return nil
		}
	}
	return s.refuse(w, r, err)
}
