package hub

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// ErrNear is a redirect to an address of this machine or of its network, by a hub that is not there
// itself: it would make us ask a neighbour what no client outside may ask.
var ErrNear = errors.New("models: a redirect to an address of this network")

func nearError(what, host string) error {
	return &Error{What: what, Host: host, Detail: "the hub redirects to an address of this machine or network",
		Fix: "if the hub may, name one in HF_ENDPOINT that is there itself", Err: ErrNear}
}

// route is where a request went first, and whether redirects may lead to near addresses from there.
type route struct {
	c          *Client
	from       string // host and port
	allowed    bool   // by its name
	redirected bool
}

type routeKey struct{}

// near says whether a redirect may lead to a host as far as its name tells; dial looks at the
// address that a name has.
func (r *route) near(host string) bool { return !nearName(host) || r.mayNear() }

func (r *route) mayNear() bool {
	_, found := r.c.close.Load(r.from)
	return r.allowed || found
}

// nearName says whether a name or an address in a URL is this machine's or network's without a
// look-up.
func nearName(host string) bool {
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return nearAddr(a)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") ||
		strings.HasSuffix(host, ".internal")
}

var shared = netip.MustParsePrefix("100.64.0.0/10") // between a provider and its customers

func nearAddr(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsLinkLocalMulticast() || a.IsMulticast() || a.IsUnspecified() ||
		shared.Contains(a)
}

// dial connects, unless a redirect's host turns out to have a near address. It learns from it where
// the hub itself is. Behind a proxy the address is the proxy's, and says nothing.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	r, ok := ctx.Value(routeKey{}).(*route)
	if !ok || proxied(address) {
		return d.DialContext(ctx, network, address)
	}
	d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		switch {
		case err != nil || !nearAddr(a.Addr()):
		case !r.redirected:
			r.c.close.Store(r.from, true)
		//rule:T11 TestNearDial false
		case !r.mayNear():
			return ErrNear
		}
		return nil
	}
	return d.DialContext(ctx, network, address)
}

// proxied says whether an address that is dialled is a proxy's.
func proxied(address string) bool {
	for _, scheme := range []string{"http", "https"} {
		req, err := http.NewRequest(http.MethodGet, scheme+"://proxied.invalid/", nil)
		if err != nil {
			continue
		}
		p, err := http.ProxyFromEnvironment(req)
		if err != nil || p == nil {
			continue
		}
		port := p.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[p.Scheme]
		}
		if strings.EqualFold(net.JoinHostPort(p.Hostname(), port), address) {
			return true
		}
	}
	return false
}
