package peers

import (
	"context"
	"encoding/hex"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/models/rows"
	"github.com/axle-llm/axle/prefix"
	"github.com/axle-llm/axle/server/kvevents"
)

// peer is one of the other servers.
type peer struct {
	url   *url.URL
	pause rows.Pause

	mu     ranked.Mutex[ranked.Peers]
	port   string // of its events; "": it has none
	events *kvevents.Subscriber
	closed bool
}

func (p *peer) String() string { return p.url.String() }

// up reports whether the peer may be asked.
func (p *peer) up() bool { return p.pause.Over() }

// failed notes that the peer did not answer as it should, and returns err.
func (p *peer) failed(ctx context.Context, err error) error { return p.pause.Failed(ctx, err) }

// follow subscribes to the peer's events, at the port that it has told, where it is not done.
func (p *peer) follow(port string) {
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || n == 65535 {
		port = ""
	}
	p.mu.Lock()
	var old *kvevents.Subscriber
	if !p.closed && port != p.port {
		old, p.events, p.port = p.events, nil, port
		if port != "" {
			at := func(n uint64) string { return net.JoinHostPort(p.url.Hostname(), strconv.FormatUint(n, 10)) }
			p.events = kvevents.Subscribe(at(n), at(n+1), nil)
		}
	}
	p.mu.Unlock()
	old.Close()
}

// known is how many of the names, from the first on, the peer's events say that it has; −1 where
// its events are not known. States are not told.
func (p *peer) known(names []string) int {
	p.mu.Lock()
	events := p.events
	p.mu.Unlock()
	if !events.Live() {
		return -1
	}
	for i, name := range names {
		_, base, _ := strings.Cut(name, "/")
		b, err := hex.DecodeString(base)
		if err != nil || len(b) != len(prefix.Name{}) || !events.On(prefix.Name(b)) {
			return i
		}
	}
	return len(names)
}

func (p *peer) close() {
	p.mu.Lock()
	events := p.events
	p.events, p.closed = nil, true
	p.mu.Unlock()
	events.Close()
}
