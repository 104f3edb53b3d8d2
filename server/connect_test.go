package server

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

// The page tells programs no address that they cannot reach.
func TestAddresses(t *testing.T) {
	home := known{[]string{"pi.local"}, []string{"127.0.0.1/8", "::1/128", "192.168.1.7/24", "fe80::1/64", "2001:db8::7/64", "10.0.0.2/8"}}
	for _, c := range []struct {
		name, on string
		loopback bool
		want     []string
	}{
		{"loopback", "127.0.0.1:11434", true, []string{"here http://127.0.0.1:11434"}},
		{"loopback of IPv6", "[::1]:1", true, []string{"here http://[::1]:1"}},
		{"one of a network", "192.168.1.7:80", false, []string{"lan http://192.168.1.7:80"}},
		{"all", "[::]:11434", false, []string{"lan http://pi.local:11434", "lan http://192.168.1.7:11434", "lan http://10.0.0.2:11434",
			"lan http://[2001:db8::7]:11434", "here http://127.0.0.1:11434"}},
		{"all of IPv4", "0.0.0.0:11434", false, []string{"lan http://pi.local:11434", "lan http://192.168.1.7:11434",
			"lan http://10.0.0.2:11434", "here http://127.0.0.1:11434"}},
	} {
		var got []string
		for _, a := range addresses("http", netip.MustParseAddrPort(c.on), c.loopback, home) {
			got = append(got, a.From+" "+a.URL)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if got := addresses("http", netip.AddrPort{}, false, home); got != nil {
		t.Errorf("of a listener that is not known: %v", got)
	}
	many := known{under: slices.Repeat([]string{"10.0.0.1/8"}, 3)}
	for i := range 20 {
		many.under = append(many.under, netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}).String()+"/8")
	}
	if got := addresses("http", netip.MustParseAddrPort("[::]:1"), false, many); len(got) != mostAddresses {
		t.Errorf("%d of many are told", len(got))
	}
}

type known struct {
	name  []string
	under []string
}

func (k known) names() []string { return k.name }

func (k known) addrs() (list []net.Addr) {
	for _, text := range k.under {
		p := netip.MustParsePrefix(text)
		list = append(list, &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())})
	}
	return list
}
