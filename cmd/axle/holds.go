package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/axle-llm/axle/cmd/internal/client"
)

// free looks, before a command opens a card, whether the server at AXLE_HOST holds it: a card has
// one owner. device is the command's own, as --device has it; doing is what it is about to do. The
// error says what to do. Where no server of axle's answers on this machine, or where it has no
// card, there is nothing to say.
func free(ctx context.Context, device, doing string) error {
	if device == "soft" {
		return nil
	}
	conn, err := connect(ctx, true)
	if errors.As(err, new(*noServerError)) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("whether a server holds the card cannot be asked: %w", err)
	}
	defer func() { _ = conn.stop() }()
	if !conn.Local() && !ours(conn.URL.Hostname()) {
		return nil
	}
	cards, err := conn.Cards(ctx)
	if errors.Is(err, client.ErrNoCards) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("the server at %s may hold the card, and what it answers is: %w; end it before %s", conn.URL, err, doing)
	}
	for _, c := range cards {
		kind, _, numbered := strings.Cut(device, ":")
		if c.Software || c.State != "ready" || numbered && c.Device != device || kind != "auto" && !strings.HasPrefix(c.Device, kind) {
			continue
		}
		return fmt.Errorf("the server at %s holds the card (%s), which has one owner: end it before %s ('sudo systemctl stop axle' where "+
			"it is the service, and 'start' afterwards), or measure through it, with the benchmark on its page %s%s", conn.URL, c.Device,
			doing, conn.URL.JoinPath("/ui"), storeAlone(ctx, conn))
	}
	return nil
}

// ours says whether a host is an address of this machine.
func ours(host string) bool {
	ip := net.ParseIP(host)
	all, err := net.InterfaceAddrs()
	return err == nil && ip != nil && slices.ContainsFunc(all, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	})
}
