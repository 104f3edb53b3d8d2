package mdns

import (
	"cmp"
	"encoding/hex"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/ipv4"
)

// listen opens a socket of the group, beside those of other programs that do. It has joined the
// group on a network.
func listen(on *net.Interface) (packets, error) {
	conn, err := net.ListenMulticastUDP("udp4", on, group)
	if err != nil {
		return nil, err
	}
	p := ipv4.NewPacketConn(conn)
	// Without the interface a packet could not be answered there; programs of this machine have to
	// hear us too, and a limit of hops of 255 is the protocol's.
	for _, err := range []error{p.SetControlMessage(ipv4.FlagInterface, true), p.SetMulticastLoopback(true), p.SetMulticastTTL(255)} {
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
	}
	return p, nil
}

// links are the networks of this machine that carry multicasts.
func links() (out []link, err error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	const want = net.FlagUp | net.FlagRunning | net.FlagMulticast
	for _, on := range all {
		if on.Flags&(want|net.FlagLoopback|net.FlagPointToPoint) != want {
			continue
		}
		l := link{Interface: &on}
		addrs, err := on.Addrs()
		if err != nil {
			continue // it has gone
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && len(l.addrs) < 8 {
				l.addrs = append(l.addrs, p)
			}
		}
		if len(l.addrs) > 0 {
			out = append(out, l)
		}
	}
	return out, nil
}

// named is a name that no other machine has: it ends with a part of the first hardware address that
// a maker gave. Without one it is the node's alone.
func named(node string, all []net.Interface) string {
	name := "axle-" + cmp.Or(label(node), "server")
	for _, on := range all {
		if mac := on.HardwareAddr; len(mac) == 6 && mac[0]&2 == 0 && strings.Trim(mac.String(), "0:") != "" {
			return name + "-" + hex.EncodeToString(mac[3:])
		}
	}
	return name
}

// label is what of a name may stand in one of the network: its first part, in plain letters.
func label(s string) string {
	s, _, _ = strings.Cut(strings.ToLower(s), ".")
	s = strings.Map(func(r rune) rune {
		if r < 'a' || r > 'z' {
			if r < '0' || r > '9' {
				return '-'
			}
		}
		return r
	}, s)
	return strings.Trim(s[:min(len(s), 32)], "-")
}
