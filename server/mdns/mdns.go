package mdns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/net/ipv4"
)

const (
	every     = 10 * time.Second // how often the machine's addresses are looked at
	again     = time.Second      // between the two announcements of what is new, and the answers on a network
	announces = 2                // of what is new
	maxPacket = 9000             // bytes
)

var group = &net.UDPAddr{IP: net.IPv4(224, 0, 0, 251), Port: 5353}

// Service is one that is announced. [NewService] makes it.
type Service struct {
	kind string
	addr netip.Addr // unspecified: all that the machine has
	port uint16
}

// NewService is the service of a kind, "_wyoming._tcp" for one, that listens on an address of TCP.
// It fails where no other machine reaches that, or only over IPv6.
func NewService(kind string, on net.Addr) (s Service, err error) {
	at, err := netip.ParseAddrPort(on.String())
	addr := at.Addr().Unmap()
	switch {
	case err != nil:
		return s, fmt.Errorf("mdns: %w", err)
	case addr.IsLoopback():
		return s, fmt.Errorf("mdns: %s is reached from this machine only: listen on :%d, or on an address of the network", at, at.Port())
	case !addr.IsUnspecified() && !addr.Is4():
		return s, fmt.Errorf("mdns: %s is of IPv6, and only addresses of IPv4 are announced: listen on :%d", at, at.Port())
	}
	return Service{kind, addr, at.Port()}, nil
}

// Options are what is announced.
type Options struct {
	Node     string // the machine's name
	Services []Service
	Log      func(error) // is told once of each thing that is in the way
}

// Announce tells the networks that this machine is on of the services, also those that come later,
// until ctx ends. Then it tells that they are gone. Where it cannot, it tries again.
func Announce(ctx context.Context, o Options) {
	all, _ := net.Interfaces()
	(&announcer{Options: o, name: named(o.Node, all), listen: listen, links: links, told: map[string]bool{}}).run(ctx)
}

// link is a network that this machine is on.
type link struct {
	*net.Interface
	addrs []netip.Prefix // of this machine there, of IPv4
}

// reaches says whether an address is one of the network.
func (l link) reaches(addr netip.Addr) bool {
	return slices.ContainsFunc(l.addrs, func(own netip.Prefix) bool { return own.Contains(addr.Unmap()) })
}

// packets is a socket of the group.
type packets interface {
	JoinGroup(on *net.Interface, group net.Addr) error
	ReadFrom(b []byte) (n int, cm *ipv4.ControlMessage, from net.Addr, err error)
	WriteTo(b []byte, cm *ipv4.ControlMessage, to net.Addr) (int, error)
	Close() error
}

// packet is one that came.
type packet struct {
	data []byte
	link int
	from *net.UDPAddr
}

// reached is a network that the services are announced on.
type reached struct {
	link
	left int       // announcements to come
	sent time.Time // when all was last told
}

type announcer struct {
	Options
	name   string // of the machine, and no other
	listen func(*net.Interface) (packets, error)
	links  func() ([]link, error)
	told   map[string]bool

	conn   packets // nil: it is to be opened
	came   chan packet
	joined map[int]bool     // by the interface's index; also of one that is down for now
	on     map[int]*reached // those that are up
}

// run does everything but read.
func (a *announcer) run(ctx context.Context) {
	defer a.close()
	defer func() { a.each(func(r *reached) { a.tell(r, a.records(r.addrs).gone()) }) }()
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
			look.Reset(a.look())
		case p, more := <-a.came:
			if !more {
				a.close() // it is broken; the next look opens another
				break
			}
			if b, to := a.reply(p); b != nil {
				select { // so that all who know an answer do not answer at once
				case <-time.After(20*time.Millisecond + rand.N(100*time.Millisecond)):
					a.send(b, p.link, to)
				case <-ctx.Done():
				}
			}
		}
	}
}

// look finds the networks that there are, and announces what is new on them. It returns when it is
// to be called again.
func (a *announcer) look() time.Duration {
	all, err := a.links()
	switch {
	case err != nil:
		a.fail(fmt.Errorf("mdns: this machine's networks: %w", err))
	case len(all) == 0:
		a.fail(errors.New("mdns: no network is up that carries multicasts: the services are announced when one is"))
	}
	now := map[int]*reached{}
	for _, l := range all {
		if a.records(l.addrs) == nil {
			continue // no service is reached there
		}
		r := a.on[l.Index]
		if r == nil {
			r = &reached{left: announces}
		} else if !slices.Equal(r.addrs, l.addrs) {
			r.left = announces
		}
		if err := a.join(l.Interface); err != nil {
			a.fail(fmt.Errorf("mdns: listening to multicasts on %s: %w", l.Name, err))
			continue
		}
		r.link, now[l.Index] = l, r
	}
	a.on = now
	next := every
	a.each(func(r *reached) {
		if r.left > 0 {
			r.left--
			a.tell(r, a.records(r.addrs))
		}
		if r.left > 0 {
			next = again
		}
	})
	return next
}

func (a *announcer) each(f func(*reached)) {
	for _, r := range a.on {
		f(r)
	}
}

// join takes part in what is said on a network.
func (a *announcer) join(on *net.Interface) (err error) {
	switch {
	case a.joined[on.Index]:
		return nil
	case a.conn != nil:
		err = a.conn.JoinGroup(on, group)
	default:
		if a.conn, err = a.listen(on); err != nil {
			return err
		}
		a.came, a.joined = make(chan packet), map[int]bool{}
		go read(a.conn, a.came)
	}
	if err == nil {
		a.joined[on.Index] = true
	}
	return err
}

func (a *announcer) close() {
	if a.conn == nil {
		return
	}
	_ = a.conn.Close()
	for range a.came { //nolint:revive // until the reader has ended
	}
	a.conn, a.came, a.joined, a.on = nil, nil, nil, nil
}

// read gives what comes to a channel, which it closes when nothing more can come.
func read(from packets, to chan<- packet) {
	defer close(to)
	for b := make([]byte, maxPacket); ; {
		n, cm, addr, err := from.ReadFrom(b)
		if err != nil {
			return
		}
		if udp, ok := addr.(*net.UDPAddr); ok && cm != nil {
			to <- packet{slices.Clone(b[:n]), cm.IfIndex, udp}
		}
	}
}

// reply is the answer to a packet, and whom it is for; nil: there is none.
func (a *announcer) reply(p packet) ([]byte, *net.UDPAddr) {
	r := a.on[p.link]
	if r == nil {
		return nil, nil
	}
	all := a.records(r.addrs)
	if p.from.Port != group.Port { // it hears no multicasts
		// The source may be forged, and an answer is larger: none leaves the network.
		if p.from.Port == 0 || !r.reaches(p.from.AddrPort().Addr()) {
			return nil, nil
		}
		return all.reply(p.data, true), p.from
	}
	if time.Since(r.sent) < again {
		return nil, nil
	}
	b := all.reply(p.data, false)
	if b != nil {
		r.sent = time.Now()
	}
	return b, group
}

// tell multicasts all records.
func (a *announcer) tell(r *reached, all records) {
	if b := all.pack(); b != nil {
		r.sent = time.Now()
		a.send(b, r.Index, group)
	}
}

func (a *announcer) send(b []byte, on int, to *net.UDPAddr) {
	if _, err := a.conn.WriteTo(b, &ipv4.ControlMessage{IfIndex: on}, to); err != nil {
		if op := (*net.OpError)(nil); errors.As(err, &op) {
			err = op.Err // without the address, or it would be told once of each
		}
		a.fail(fmt.Errorf("mdns: sending to the network: %w", err))
	}
}

// fail tells of what is in the way, once.
func (a *announcer) fail(err error) {
	if text := err.Error(); !a.told[text] && len(a.told) < 100 {
		a.told[text] = true
		a.Log(err)
	}
}

// records are those of what is reached at a network's addresses; nil: nothing is.
func (a *announcer) records(addrs []netip.Prefix) (out records) {
	told := map[string]bool{}
	for _, s := range a.Services {
		var at []netip.Addr
		for _, own := range addrs {
			if s.addr.IsUnspecified() || s.addr == own.Addr() {
				at = append(at, own.Addr())
			}
		}
		if at == nil {
			continue
		}
		out = append(out, service(s.kind, a.name+"-"+strconv.Itoa(int(s.port)), s.port, at, !told[s.kind])...)
		told[s.kind] = true
	}
	return out
}
