package main

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
)

// TestEventPorts: the events and their replay have two ports beside each other. Beyond loopback
// none is opened unless a list says who may connect.
func TestEventPorts(t *testing.T) {
	if p, err := (eventSettings{}).open(); err != nil || p.events != nil || p.close() != nil {
		t.Errorf("without an address: %v %v", p, err)
	}
	some := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, tt := range []struct {
		addr  string
		allow []netip.Prefix
		says  string // "": it opens
	}{
		{"127.0.0.1:0", nil, ""}, {"localhost:0", nil, ""}, {":0", some, ""},
		{":0", nil, "--kv-events-allow"}, {"0.0.0.0:0", nil, "--kv-events-allow"}, {"example.org:0", nil, "--kv-events-allow"},
		{"127.0.0.1:65535", nil, "no next port"},
	} {
		p, err := eventSettings{tt.addr, tt.allow}.open()
		if err != nil && (tt.says == "" || !strings.Contains(err.Error(), tt.says)) || err == nil && tt.says != "" {
			t.Errorf("%s %v: %v", tt.addr, tt.allow, err)
		}
		if err := p.close(); err != nil {
			t.Error(err)
		}
	}
	// A taken port is told, and the other one is closed again.
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	before := net.JoinHostPort("127.0.0.1", strconv.Itoa(taken.Addr().(*net.TCPAddr).Port-1))
	if _, err := (eventSettings{addr: before}).open(); err == nil || !strings.Contains(err.Error(), "--kv-events") {
		t.Errorf("the next port is taken: %v", err)
	}
}
