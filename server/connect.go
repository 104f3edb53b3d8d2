package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/server/programs"
	"github.com/axle-llm/axle/server/request"
)

// viewConnect is what the page's view Connect shows.
type viewConnect struct {
	Addresses []viewAddress      `json:"addresses"`
	Keys      bool               `json:"keys"` // the server wants one
	Programs  []programs.Program `json:"programs"`
}

// viewAddress is one by which programs reach this server.
type viewAddress struct {
	URL  string `json:"url"`
	From string `json:"from"` // who reaches it: "here", this machine's programs only; "lan", other machines too
}

// mostAddresses of a machine's networks are told.
const mostAddresses = 8

// connect tells how programs reach this server, and what to set in them.
func (s *Server) connect(x *request.Exchange) {
	scheme := "http"
	if s.o.TLS != nil {
		scheme = "https"
	}
	x.Reply().JSON(http.StatusOK, viewConnect{Addresses: addresses(scheme, listens(x.Request.Context()), s.o.Loopback, machine{}),
		Keys: s.o.Keys != nil, Programs: programs.Table})
}

// listens is the address that a request's listener listens on. Where it is not known, it is the one
// that the request reached.
func listens(ctx context.Context) netip.AddrPort {
	if srv, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
		if at, err := netip.ParseAddrPort(srv.Addr); err == nil {
			return at
		}
	}
	if at, ok := ctx.Value(http.LocalAddrContextKey).(net.Addr); ok {
		if at, err := netip.ParseAddrPort(at.String()); err == nil {
			return at
		}
	}
	return netip.AddrPort{}
}

// networks is what a machine's networks call it.
type networks interface {
	names() []string // that its network finds
	addrs() []net.Addr
}

// machine is this one.
type machine struct{}

// names are those that multicast DNS tells: where Avahi runs, this machine's in .local.
func (machine) names() []string {
	host, err := os.Hostname()
	if _, runs := os.Stat("/run/avahi-daemon/socket"); err != nil || runs != nil {
		return nil
	}
	host, _, _ = strings.Cut(host, ".")
	return []string{host + ".local"}
}

func (machine) addrs() []net.Addr {
	list, _ := net.InterfaceAddrs()
	return list
}

// addresses are those of a listener. on is what it listens on, loopback that nothing but this
// machine reaches it.
func addresses(scheme string, on netip.AddrPort, loopback bool, m networks) (list []viewAddress) {
	add := func(host, from string) {
		url := scheme + "://" + net.JoinHostPort(host, strconv.Itoa(int(on.Port())))
		if !slices.ContainsFunc(list, func(a viewAddress) bool { return a.URL == url }) && len(list) < mostAddresses {
			list = append(list, viewAddress{url, from})
		}
	}
	ip := on.Addr().Unmap()
	switch {
	case !ip.IsValid():
		return nil
	case ip.IsLoopback() || loopback:
		add(ip.String(), "here")
		return list
	case !ip.IsUnspecified():
		add(ip.String(), "lan")
		return list
	}
	for _, name := range m.names() {
		add(name, "lan")
	}
	var later []netip.Addr // of IPv6, which change and are long
	for _, a := range m.addrs() {
		p, err := netip.ParsePrefix(a.String())
		one := p.Addr().Unmap()
		if err != nil || one.IsLoopback() || one.IsLinkLocalUnicast() || one.IsMulticast() {
			continue
		}
		if one.Is4() {
			add(one.String(), "lan")
		} else if !ip.Is4() {
			later = append(later, one)
		}
	}
	for _, one := range later {
		add(one.String(), "lan")
	}
	add("127.0.0.1", "here")
	return list
}
