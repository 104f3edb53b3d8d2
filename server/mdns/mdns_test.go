package mdns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/ipv4"
)

// TestNewService: only what others reach over IPv4 is announced.
func TestNewService(t *testing.T) {
	for addr, want := range map[string]string{
		"192.168.1.2:10300": "", "0.0.0.0:10300": "", "[::]:10300": "", "[::ffff:192.168.1.2]:10300": "",
		"127.0.0.1:10300":    "mdns: 127.0.0.1:10300 is reached from this machine only: listen on :10300",
		"[::1]:10300":        "mdns: [::1]:10300 is reached from this machine only",
		"[2001:db8::1]:1030": "mdns: [2001:db8::1]:1030 is of IPv6",
	} {
		_, err := NewService("_wyoming._tcp", net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", addr, err, want)
		}
	}
}

// TestNamed: a name is one label, and has a part of a maker's hardware address.
func TestNamed(t *testing.T) {
	card := func(mac ...byte) net.Interface { return net.Interface{HardwareAddr: mac} }
	for _, tt := range []struct {
		node, want string
		all        []net.Interface
	}{
		{"raspberrypi", "axle-raspberrypi-01abff", []net.Interface{{}, card(2, 0, 0, 1, 2, 3), card(0xb8, 0x27, 0xeb, 1, 0xab, 0xff)}},
		{"Pi.local", "axle-pi", []net.Interface{card(2, 0, 0, 1, 2, 3), card(0, 0, 0, 0, 0, 0)}},
		{"my böard_1 ", "axle-my-b-ard-1", nil},
		{"", "axle-server", nil},
		{"..", "axle-server", nil},
		{strings.Repeat("a", 250), "axle-" + strings.Repeat("a", 32), nil},
	} {
		if got := named(tt.node, tt.all); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.node, got, tt.want)
		}
	}
}

// TestAnnounce: what is there is told twice on each network, again where addresses change, and
// where a network comes later; questions are answered where they were asked, not twice in a second;
// and at the end all is taken back.
func TestAnnounce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{came: make(chan packet, 10), up: []link{at(1, "10.0.0.1"), at(2, "10.1.0.1")}}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		only := Service{"_wyoming._tcp", netip.MustParseAddr("10.1.0.1"), 2}
		go func() {
			defer close(done)
			n.announcer(t, Service{"_wyoming._tcp", netip.IPv4Unspecified(), 1}, only).run(ctx)
		}()
		const one, two = "axle-a-1", "axle-a-2"
		time.Sleep(every / 2)
		n.expect(t, "at the beginning", heard{1, one + " 10.0.0.1", 2}, heard{2, one + " 10.1.0.1, " + two + " 10.1.0.1", 2})

		wyoming := ask(0, question("_wyoming._tcp.local", 12, 1))
		n.came <- packet{wyoming, 2, &net.UDPAddr{IP: net.IPv4(10, 1, 0, 9), Port: 5353}}
		n.came <- packet{wyoming, 2, &net.UDPAddr{IP: net.IPv4(10, 1, 0, 8), Port: 5353}} // has heard the answer
		n.came <- packet{wyoming, 3, &net.UDPAddr{IP: net.IPv4(10, 3, 0, 8), Port: 5353}} // is not ours
		n.came <- packet{wyoming, 1, &net.UDPAddr{IP: net.IPv4(10, 0, 1, 7), Port: 777}}  // is of another network
		n.came <- packet{wyoming, 1, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 7)}}             // has no port
		n.came <- packet{wyoming, 1, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 777}}
		begun := time.Now()
		synctest.Wait()
		n.do(func() {
			if len(n.sent) > 0 {
				t.Error("it was answered without a pause")
			}
		})
		time.Sleep(250 * time.Millisecond)
		n.Lock()
		if len(n.sent) != 2 || n.sent[0].link != 2 || !n.sent[0].from.IP.Equal(group.IP) || n.sent[0].at.Sub(begun) < 20*time.Millisecond ||
			n.sent[1].link != 1 || n.sent[1].from.Port != 777 || n.sent[1].at.Sub(begun) > 240*time.Millisecond {
			t.Errorf("answers: %+v", n.sent)
		}
		n.sent = nil
		n.up = []link{at(1, "10.0.0.5"), at(3, "10.3.0.1")}
		n.Unlock()
		time.Sleep(2 * every)
		n.expect(t, "after a change", heard{1, one + " 10.0.0.5", 2}, heard{3, one + " 10.3.0.1", 2})
		n.do(func() {
			n.up = n.up[:1] // the other is down for a while
		})
		time.Sleep(2 * every)
		n.do(func() { n.up = n.up[:2] })
		time.Sleep(2 * every)
		n.expect(t, "after a network was down", heard{3, one + " 10.3.0.1", 2})
		n.do(func() {
			if want := []int{1, 2, 3}; !slices.Equal(n.joined, want) {
				t.Errorf("joined %v, want %v", n.joined, want)
			}
			close(n.came)
			n.came = make(chan packet)
		})
		time.Sleep(2 * every)
		n.expect(t, "after the socket was broken", heard{1, one + " 10.0.0.5", 2}, heard{3, one + " 10.3.0.1", 2})

		end()
		<-done
		if n.expect(t, "at the end", heard{1, one + " 10.0.0.5", 1}, heard{3, one + " 10.3.0.1", 1}); n.open != 0 || len(n.errs) > 0 {
			t.Errorf("%d sockets are open, %v", n.open, n.errs)
		}
	})
}

// TestAnnounceFails: what is in the way is told once, and tried again.
func TestAnnounceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{came: make(chan packet), fault: errors.New("address already in use")}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			n.announcer(t, Service{"_wyoming._tcp", netip.IPv4Unspecified(), 1}).run(ctx)
		}()
		time.Sleep(10 * every)
		n.do(func() { n.up = []link{at(1, "10.0.0.1")} })
		time.Sleep(10 * every)
		n.do(func() { n.fault = nil })
		time.Sleep(10 * every)
		n.expect(t, "at last", heard{1, "axle-a-1 10.0.0.1", 2})
		n.do(func() { n.fault, n.up = errors.New("network is unreachable"), []link{at(1, "10.0.0.2")} })
		time.Sleep(10 * every)
		end()
		<-done
		var got []string
		for _, err := range n.errs {
			got = append(got, err.Error())
		}
		want := []string{"mdns: no network is up that carries multicasts: the services are announced when one is",
			"mdns: listening to multicasts on net1: address already in use", "mdns: sending to the network: network is unreachable"}
		if !slices.Equal(got, want) || n.open != 0 {
			t.Errorf("%q, want %q; %d sockets are open", got, want, n.open)
		}
	})
}

// TestFail: what names many things is not told without end.
func TestFail(t *testing.T) {
	n := 0
	a := &announcer{Options: Options{Log: func(error) { n++ }}, told: map[string]bool{}}
	for i := range 200 {
		a.fail(fmt.Errorf("network %d", i))
	}
	if n != 100 || len(a.told) != 100 {
		t.Errorf("%d were told, %d are kept", n, len(a.told))
	}
}

// TestNetwork: a program on this machine that listens beside axle hears the announcement, an answer
// and the end, over the machine's own network.
func TestNetwork(t *testing.T) {
	all, err := links()
	if err != nil || len(all) == 0 {
		t.Skipf("no network here carries multicasts (%v)", err)
	}
	beside, err := net.ListenMulticastUDP("udp4", all[0].Interface, group)
	if err != nil {
		t.Skip("port 5353 is not to be had:", err)
	}
	defer beside.Close()
	hears := ipv4.NewPacketConn(beside)
	if err := hears.SetControlMessage(ipv4.FlagTTL, true); err != nil {
		t.Fatal(err)
	}
	s, err := NewService("_axle-test._tcp", &net.TCPAddr{IP: net.IPv4zero, Port: 4242})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	done := make(chan struct{})
	go func() {
		defer close(done)
		Announce(ctx, Options{"beside", []Service{s}, func(err error) { t.Log(err) }})
	}()
	hear := func(what string, ttl uint32) {
		t.Helper()
		_ = beside.SetReadDeadline(time.Now().Add(time.Minute))
		for b := make([]byte, maxPacket); ; {
			n, cm, _, err := hears.ReadFrom(b)
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if strings.Contains(string(b[:n]), "_axle-test") && b[2]&0x80 != 0 {
				if cm.TTL != 255 {
					t.Errorf("%s: may pass %d hops", what, cm.TTL)
				}
				if h, answers, _ := told(t, b[:n]); len(answers) == 0 || !h.Response {
					t.Errorf("%s: %q", what, answers)
				}
				if ttl == 0 && !strings.Contains(string(b[:n]), "\x00\x0c\x00\x01\x00\x00\x00\x00") {
					continue // an announcement or answer from before
				}
				return
			}
		}
	}
	hear("the announcement", ttlShared)
	from, err := net.ListenUDP("udp4", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	if err := ipv4.NewPacketConn(from).SetMulticastInterface(all[0].Interface); err != nil {
		t.Fatal(err)
	}
	if _, err := from.WriteTo(ask(0, question("_axle-test._tcp.local", 12, 1)), group); err != nil {
		t.Fatal(err)
	}
	_ = from.SetReadDeadline(time.Now().Add(time.Minute))
	b := make([]byte, maxPacket)
	n, _, err := from.ReadFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	if _, answers, more := told(t, b[:n]); len(answers) != 1 || len(more) < 4 || !strings.HasSuffix(more[1], ":4242") {
		t.Errorf("the answer: %q, and %q", answers, more)
	}
	end()
	<-done
	hear("the end", 0)
}

// heard is what was told of services on a network, and how often.
type heard struct {
	link  int
	what  string
	times int
}

// network stands for the machine's.
type network struct {
	sync.Mutex
	up     []link
	came   chan packet
	fault  error // of listening and sending
	sent   []sending
	joined []int
	errs   []error
	open   int
	shut   chan struct{}
}

type sending struct {
	packet
	at time.Time
}

func (n *network) announcer(t *testing.T, all ...Service) *announcer {
	tell := func(err error) { n.do(func() { n.errs = append(n.errs, err) }) }
	return &announcer{Options: Options{Services: all, Log: tell}, name: "axle-a",
		told: map[string]bool{}, links: func() (up []link, err error) {
			n.do(func() { up = n.up })
			return up, nil
		},
		listen: func(on *net.Interface) (packets, error) {
			n.Lock()
			defer n.Unlock()
			if n.fault != nil {
				return nil, n.fault
			}
			n.open++
			n.shut, n.joined = make(chan struct{}), []int{on.Index}
			return n, nil
		}}
}

func (n *network) do(f func()) {
	n.Lock()
	defer n.Unlock()
	f()
}

// expect looks at what was sent since it last looked, a second and more apart.
func (n *network) expect(t *testing.T, when string, want ...heard) {
	t.Helper()
	n.Lock()
	defer n.Unlock()
	var got []heard
	last := map[int]time.Time{}
	for _, s := range n.sent {
		var hosts []string
		_, answers, _ := told(t, s.data)
		if once := slices.Compact(slices.Sorted(slices.Values(answers))); len(once) != len(answers) {
			t.Errorf("%s: told twice in one message: %q", when, answers)
		}
		for _, a := range answers {
			if host, ok := strings.CutPrefix(a, "A "); ok {
				hosts = append(hosts, strings.Replace(host, ".local", "", 1))
			}
		}
		one := heard{s.link, strings.Join(hosts, ", "), 1}
		if i := slices.IndexFunc(got, func(x heard) bool { return x.link == one.link && x.what == one.what }); i >= 0 {
			got[i].times++
		} else {
			got = append(got, one)
		}
		if before := last[s.link]; s.at.Sub(before) < again {
			t.Errorf("%s: told twice within %v on %d", when, s.at.Sub(before), s.link)
		}
		if last[s.link] = s.at; !s.from.IP.Equal(group.IP) {
			t.Errorf("%s: told %v alone", when, s.from)
		}
	}
	slices.SortFunc(got, func(a, b heard) int { return a.link - b.link })
	if !slices.Equal(got, want) {
		t.Errorf("%s: %+v, want %+v", when, got, want)
	}
	n.sent = nil
}

func at(index int, addr string) link {
	return link{&net.Interface{Index: index, Name: "net" + string(rune('0'+index))}, []netip.Prefix{netip.MustParsePrefix(addr + "/24")}}
}

func (n *network) JoinGroup(on *net.Interface, _ net.Addr) error {
	n.Lock()
	defer n.Unlock()
	if slices.Contains(n.joined, on.Index) {
		return errors.New("address already in use")
	}
	n.joined = append(n.joined, on.Index)
	return nil
}

func (n *network) ReadFrom(b []byte) (int, *ipv4.ControlMessage, net.Addr, error) {
	n.Lock()
	came, shut := n.came, n.shut
	n.Unlock()
	select {
	case p, more := <-came:
		if !more {
			return 0, nil, nil, errors.New("broken")
		}
		return copy(b, p.data), &ipv4.ControlMessage{IfIndex: p.link}, p.from, nil
	case <-shut:
		return 0, nil, nil, net.ErrClosed
	}
}

func (n *network) WriteTo(b []byte, cm *ipv4.ControlMessage, to net.Addr) (int, error) {
	n.Lock()
	defer n.Unlock()
	if n.fault != nil {
		return 0, &net.OpError{Op: "write", Addr: to, Err: n.fault}
	}
	n.sent = append(n.sent, sending{packet{slices.Clone(b), cm.IfIndex, to.(*net.UDPAddr)}, time.Now()})
	return len(b), nil
}

func (n *network) Close() error {
	n.do(func() {
		n.open--
		close(n.shut)
	})
	return nil
}
