package mdns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

// TestReply: what is asked for stands in the answer, and the rest beside it; what is known, or not
// here, is not told.
func TestReply(t *testing.T) {
	const kinds, kind = "_services._dns-sd._udp.local", "_wyoming._tcp.local"
	const one, two = "axle-a-1." + kind, "axle-a-2." + kind
	ptr1, ptr2, host1 := "PTR "+kind+" "+one, "PTR "+kind+" "+two, "A axle-a-1.local 10.0.0.1"
	srv1, txt1, all := "SRV "+one+" axle-a-1.local:1", "TXT "+one+` [""]`, "PTR "+kinds+" "+kind
	knows := func(ttl uint32) []byte {
		b := ask(0, question(kind, 12, 1))
		b[7] = 1
		b = append(nameOf(b, kind), 0, 12, 0, 1)
		b = binary.BigEndian.AppendUint32(b, ttl)
		b = append(b, 0, 11)
		return append(b, "\x08axle-a-1\xc0\x0c"...)
	}
	for name, tt := range map[string]struct {
		in   []byte
		want []string // nil: no answer
	}{
		"which services":   {ask(0, question(kind, 12, 1)), []string{ptr1, ptr2}},
		"in capitals":      {ask(0, question("_WYOMING._Tcp.Local", 12, 1)), []string{ptr1, ptr2}},
		"to be told alone": {ask(0, question(kind, 12, 1|flush)), []string{ptr1, ptr2}},
		"of any kind":      {ask(0, question(kind, 255, 255)), []string{ptr1, ptr2}},
		"which kinds":      {ask(0, question(kinds, 12, 1)), []string{all}},
		"where":            {ask(0, question(one, 33, 1)), []string{srv1}},
		"all of one":       {ask(0, question(one, 255, 1)), []string{srv1, txt1}},
		"the address":      {ask(0, question("axle-a-1.local", 1, 1)), []string{host1}},
		"two of three": {ask(0, question("axle-a-1.local", 1, 1), question("b.local", 1, 1), question(one, 33, 1)),
			[]string{srv1, host1}},
		"one is known":       {knows(ttlShared / 2), []string{ptr2}},
		"not for long":       {knows(ttlShared/2 - 1), []string{ptr1, ptr2}},
		"IPv6":               {ask(0, question("axle-a-1.local", 28, 1)), nil},
		"another class":      {ask(0, question(kind, 12, 3)), nil},
		"another kind":       {ask(0, question("_http._tcp.local", 12, 1)), nil},
		"another domain":     {ask(0, question("_wyoming._tcp.lan", 12, 1)), nil},
		"an answer":          {ask(0x8400, question(kind, 12, 1)), nil},
		"no query":           {ask(0x2800, question(kind, 12, 1)), nil},
		"an error":           {ask(0x0003, question(kind, 12, 1)), nil},
		"no question":        {ask(0), nil},
		"half a question":    {ask(0, question(kind, 12, 1))[:30], nil},
		"less than a head":   {[]byte{0, 0, 0}, nil},
		"nothing":            {nil, nil},
		"a name in a circle": {append([]byte{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, 0xc0, 12, 0, 12, 0, 1), nil},
	} {
		got := both().reply(tt.in, false)
		if tt.want == nil {
			if got != nil {
				t.Errorf("%s: %q", name, got)
			}
			continue
		}
		h, answers, more := told(t, got)
		if !slices.Equal(answers, tt.want) || len(answers)+len(more) != len(both()) || h.ID != 0 || !h.Response || !h.Authoritative {
			t.Errorf("%s: %q and %q, %+v: want %q", name, answers, more, h, tt.want)
		}
	}
}

// TestReplyLegacy: who asks from a port of its own is answered as by a DNS server.
func TestReplyLegacy(t *testing.T) {
	in := ask(0, question("_wyoming._tcp.local", 12, 1))
	in[0], in[1] = 0x12, 0x34
	var m dnsmessage.Message
	if err := m.Unpack(both().reply(in, true)); err != nil {
		t.Fatal(err)
	}
	if m.ID != 0x1234 || len(m.Questions) != 1 || m.Questions[0].Name.String() != "_wyoming._tcp.local." || len(m.Answers) != 2 {
		t.Errorf("%+v", m)
	}
	for _, r := range append(m.Answers, m.Additionals...) {
		if r.Header.TTL != ttlLegacy || r.Header.Class != dnsmessage.ClassINET {
			t.Errorf("%+v", r.Header)
		}
	}
	in = binary.BigEndian.AppendUint16(nil, 7)
	in = append(in, 0, 0, 0x07, 0, 0, 0, 0, 0, 0, 0) // 1792 questions
	in = append(in, bytes.Repeat(question("_wyoming._tcp.local", 12, 1), 0x700)...)
	if got := both().reply(in, true); len(got) > 1000 {
		t.Errorf("%d bytes answer many questions", len(got))
	}
}

// TestPack: an announcement is byte for byte what RFC 1035 and 6762 say.
func TestPack(t *testing.T) {
	s := service("_w._tcp", "ax-80", 80, []netip.Addr{netip.MustParseAddr("10.0.0.7")}, false)
	want := "\x00\x00\x84\x00\x00\x00\x00\x04\x00\x00\x00\x00" +
		"\x02_w\x04_tcp\x05local\x00" + "\x00\x0c\x00\x01\x00\x00\x11\x94" + "\x00\x08\x05ax-80\xc0\x0c" + // PTR, 4500 s
		"\xc0\x25" + "\x00\x21\x80\x01\x00\x00\x00\x78" + "\x00\x13\x00\x00\x00\x00\x00\x50\x05ax-80\x05local\x00" + // SRV
		"\xc0\x25" + "\x00\x10\x80\x01\x00\x00\x00\x78" + "\x00\x01\x00" + // TXT
		"\x05ax-80\xc0\x14" + "\x00\x01\x80\x01\x00\x00\x00\x78" + "\x00\x04\x0a\x00\x00\x07" // A
	if got := s.pack(); string(got) != want {
		t.Errorf("%q, want %q", got, want)
	}
	gone := append(service("_w._tcp", "ax-80", 80, nil, true)[:1], s...).gone()
	if len(gone) != len(s) {
		t.Fatalf("%d of %d records are gone", len(gone), len(s))
	}
	for i, r := range gone {
		if r.Header.TTL != 0 || r.Header.Name != s[i].Header.Name {
			t.Errorf("%+v", r.Header)
		}
	}
	if s[0].Header.TTL != ttlShared {
		t.Error("what is gone was changed in place")
	}
}

// FuzzReply: whatever comes, the answer is small, readable and about these services.
func FuzzReply(f *testing.F) {
	//proves:G5
	f.Add(ask(0, question("_wyoming._tcp.local", 12, 1), question("axle-a-1.local", 1, 1|flush)), false)
	f.Add(ask(0, question("_services._dns-sd._udp.local", 255, 255)), true)
	f.Add(both().pack(), false)
	f.Fuzz(func(t *testing.T, b []byte, legacy bool) {
		fuzzguard.Check(t, len(b), func() {
			got := both().reply(b, legacy)
			if got == nil {
				return
			}
			h, answers, more := told(t, got)
			if len(answers) == 0 || len(answers)+len(more) != len(both()) || !h.Response || len(got) > 9000 {
				t.Fatalf("%q and %q, %+v", answers, more, h)
			}
		})
	})
}

// both are two services on a machine.
func both() records {
	at := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	return append(service("_wyoming._tcp", "axle-a-1", 1, at, true), service("_wyoming._tcp", "axle-a-2", 2, at, false)...)
}

// ask is a packet as a client writes it.
func ask(flags uint16, questions ...[]byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0, 0}, flags)
	b = binary.BigEndian.AppendUint16(b, uint16(len(questions)))
	return append(append(b, 0, 0, 0, 0, 0, 0), bytes.Join(questions, nil)...)
}

func question(name string, kind, class uint16) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nameOf(nil, name), kind), class)
}

func nameOf(b []byte, name string) []byte {
	for part := range strings.SplitSeq(name, ".") {
		b = append(append(b, byte(len(part))), part...)
	}
	return append(b, 0)
}

// told are the answers of a packet, and what stands beside them, as words.
func told(t *testing.T, b []byte) (h dnsmessage.Header, answers, more []string) {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatalf("%v: %q", err, b)
	}
	words := func(all []dnsmessage.Resource) (out []string) {
		for _, r := range all {
			kind, body := strings.TrimPrefix(r.Header.Type.String(), "Type"), ""
			switch b := r.Body.(type) {
			case *dnsmessage.PTRResource:
				body = b.PTR.String()
			case *dnsmessage.SRVResource:
				body = fmt.Sprintf("%s:%d", strings.TrimSuffix(b.Target.String(), "."), b.Port)
			case *dnsmessage.TXTResource:
				body = fmt.Sprintf("%q", b.TXT)
			case *dnsmessage.AResource:
				body = netip.AddrFrom4(b.A).String()
			}
			name := strings.TrimSuffix(r.Header.Name.String(), ".")
			out = append(out, strings.Join([]string{kind, name, strings.TrimSuffix(body, ".")}, " "))
		}
		return out
	}
	return m.Header, words(m.Answers), words(m.Additionals)
}
