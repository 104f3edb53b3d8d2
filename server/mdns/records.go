package mdns

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// How long what was heard holds, in seconds: of names that many machines may have, of what this one
// alone has, and for who asks but hears no multicasts.
const (
	ttlShared = 4500
	ttlOwn    = 120
	ttlLegacy = 10
)

// kinds is the name whose records are the kinds of services that there are.
const kinds = "_services._dns-sd._udp.local."

// flush is the bit of a class which says that a record replaces what was heard before, and in a
// question that the answer may come to who asks alone.
const flush = 1 << 15

// records are what is said of services.
type records []dnsmessage.Resource

// service are the records of a service, which has a host's name for itself: one that listens on
// fewer addresses than another must not be looked for on all of them. The first of its kind tells
// that there is the kind.
func service(kind, name string, port uint16, at []netip.Addr, first bool) (out records) {
	const local = ".local."
	add := func(of string, t dnsmessage.Type, body dnsmessage.ResourceBody) {
		h := dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName(of), Type: t, Class: dnsmessage.ClassINET | flush, TTL: ttlOwn}
		if t == dnsmessage.TypePTR {
			h.Class, h.TTL = dnsmessage.ClassINET, ttlShared
		}
		out = append(out, dnsmessage.Resource{Header: h, Body: body})
	}
	instance, host := name+"."+kind+local, dnsmessage.MustNewName(name+local)
	if first {
		add(kinds, dnsmessage.TypePTR, &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(kind + local)})
	}
	add(kind+local, dnsmessage.TypePTR, &dnsmessage.PTRResource{PTR: dnsmessage.MustNewName(instance)})
	add(instance, dnsmessage.TypeSRV, &dnsmessage.SRVResource{Port: port, Target: host})
	add(instance, dnsmessage.TypeTXT, &dnsmessage.TXTResource{TXT: []string{""}})
	for _, a := range at {
		add(host.String(), dnsmessage.TypeA, &dnsmessage.AResource{A: a.As4()})
	}
	return out
}

// gone are the records that say that there is nothing any more. That there is the kind, other
// machines may say too: it is left to be forgotten.
func (all records) gone() records {
	none := all.with(func(h *dnsmessage.ResourceHeader) { h.TTL = 0 })
	return slices.DeleteFunc(none, func(r dnsmessage.Resource) bool { return r.Header.Name.String() == kinds })
}

func (all records) with(f func(*dnsmessage.ResourceHeader)) (out records) {
	for _, r := range all {
		f(&r.Header)
		out = append(out, r)
	}
	return out
}

// pack is the message that tells all of it unasked.
func (all records) pack() []byte { return packed(dnsmessage.Message{Answers: all}) }

func packed(m dnsmessage.Message) []byte {
	m.Response, m.Authoritative = true, true
	b, err := m.Pack()
	if err != nil {
		return nil // no name and no list of ours is too long
	}
	return b
}

// reply is the answer to a packet; nil: it asks for nothing that is here, or knows it already. A
// legacy one is for who asks as DNS servers are asked.
func (all records) reply(b []byte, legacy bool) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil || h.Response || h.OpCode != 0 || h.RCode != dnsmessage.RCodeSuccess {
		return nil
	}
	var asked []dnsmessage.Question
	wanted := make([]bool, len(all))
	for {
		q, err := p.Question()
		if err == dnsmessage.ErrSectionDone { //nolint:errorlint // it is never wrapped
			break
		}
		if err != nil {
			return nil
		}
		here := false
		for i, r := range all {
			if asks(q, r.Header) {
				wanted[i], here = true, true
			}
		}
		if here && len(asked) < len(all) { // more of them ask for the same
			asked = append(asked, q)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	if !legacy && !all.unknown(&p, wanted) {
		return nil
	}
	m := dnsmessage.Message{}
	for i, r := range all {
		if wanted[i] {
			m.Answers = append(m.Answers, r)
		} else {
			m.Additionals = append(m.Additionals, r)
		}
	}
	if legacy {
		m.ID, m.Questions = h.ID, asked
		short := func(h *dnsmessage.ResourceHeader) {
			h.Class &^= flush
			h.TTL = min(h.TTL, ttlLegacy)
		}
		m.Answers, m.Additionals = records(m.Answers).with(short), records(m.Additionals).with(short)
	}
	return packed(m)
}

// unknown takes out of what is wanted what the question says that it knows, and will for a while.
// It says whether anything is left.
func (all records) unknown(p *dnsmessage.Parser, wanted []bool) bool {
	for {
		known, err := p.Answer()
		if err != nil { // also where they end
			break
		}
		for i, r := range all {
			if known.Header.TTL >= r.Header.TTL/2 && same(known.Header.Name, r.Header.Name) && known.Header.Type == r.Header.Type &&
				known.Body.GoString() == r.Body.GoString() {
				wanted[i] = false
			}
		}
	}
	for _, w := range wanted {
		if w {
			return true
		}
	}
	return false
}

// asks says whether a question is for a record.
func asks(q dnsmessage.Question, r dnsmessage.ResourceHeader) bool {
	class := q.Class &^ flush
	return same(q.Name, r.Name) && (q.Type == r.Type || q.Type == dnsmessage.TypeALL) &&
		(class == dnsmessage.ClassINET || class == dnsmessage.ClassANY)
}

func same(a, b dnsmessage.Name) bool { return strings.EqualFold(a.String(), b.String()) }
