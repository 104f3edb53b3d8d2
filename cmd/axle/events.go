package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/server/kvevents"
)

// This file opens the ports on which the events of the caches are published.

// eventSettings are those of the events.
type eventSettings struct {
	addr  string // "": none are published
	allow []netip.Prefix
}

// parseNetworks reads addresses and networks, separated by commas.
func (e *eventSettings) parseNetworks(v string) error {
	for word := range strings.SplitSeq(v, ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		n, err := netip.ParsePrefix(word)
		if a, aerr := netip.ParseAddr(word); aerr == nil {
			n, err = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
		}
		if err != nil {
			return fmt.Errorf("%q is neither an address nor a network, such as 10.0.0.7 or 10.0.0.0/24", clip(word))
		}
		e.allow = append(e.allow, n.Masked())
	}
	return nil
}

// eventPorts are the listeners of the events, and of those who missed some.
type eventPorts struct{ events, replay net.Listener }

// open opens both ports: the address, and the next port. Beyond this machine a list has to say who
// may connect: the events have the tokens of everything that people write.
func (e eventSettings) open() (p eventPorts, err error) {
	if e.addr == "" {
		return p, nil
	}
	host, port, err := net.SplitHostPort(e.addr)
	if err != nil {
		return p, fmt.Errorf("serve: --kv-events: %w", err)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n >= 65535 {
		return p, usageError("--kv-events: %q has no next port, on which missed events are told", clip(e.addr))
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); len(e.allow) == 0 && (err != nil || !ip.IsLoopback()) {
		return p, usageError("--kv-events: %s can be reached by other machines, and the events have the tokens of everything that people "+
			"write: say with --kv-events-allow which addresses may connect, or listen on 127.0.0.1", clip(e.addr))
	}
	if p.events, err = net.Listen("tcp", net.JoinHostPort(host, port)); err != nil {
		return p, fmt.Errorf("serve: --kv-events: %w", err)
	}
	if n > 0 { // 0: whichever is free, of the other too
		n++
	}
	if p.replay, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(n))); err != nil {
		return eventPorts{}, errors.Join(fmt.Errorf("serve: --kv-events, missed events: %w", err), p.events.Close())
	}
	return p, nil
}

// close closes the ports, where there are any.
func (p eventPorts) close() error {
	if p.events == nil {
		return nil
	}
	return errors.Join(p.events.Close(), p.replay.Close())
}

// publisher publishes on the ports; nil: there are none.
func (s *service) publisher() *kvevents.Publisher {
	if s.eventPorts.events == nil {
		return nil
	}
	if len(s.settings.events.allow) > 0 {
		s.log.Warn("what people write is told beyond this machine, token by token, to the addresses of --kv-events-allow")
	}
	return kvevents.New(s.eventPorts.events, s.eventPorts.replay, kvevents.Options{Node: s.settings.server.Node,
		Allowed: s.settings.events.allow, Log: s.log})
}
