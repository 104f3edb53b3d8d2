package zmtp

import (
	"bytes"
	"fmt"
	"net"
	"slices"
)

// Pub publishes messages to who subscribed to their topics.
type Pub struct{ socket }

// NewPub returns a PUB socket that accepts subscribers from ln, which it closes.
func NewPub(ln net.Listener, o Options) *Pub {
	pub := &Pub{socket{o: o, kind: "PUB", peers: []string{"SUB", "XSUB"}}}
	pub.take = pub.subscribe
	pub.start(ln)
	return pub
}

// Send sends a message to those who subscribed to a beginning of its first frame. It does not wait
// for them: one who does not read in time loses its connection.
func (pub *Pub) Send(frames ...[]byte) {
	message := encoded(frames...)
	pub.mu.Lock()
	defer pub.mu.Unlock()
	for p := range pub.conns {
		if slices.ContainsFunc(p.topics, func(t []byte) bool { return bytes.HasPrefix(frames[0], t) }) {
			pub.send(p, message)
		}
	}
}

// Subscriptions is how many topics the peers have subscribed to, each for itself.
func (pub *Pub) Subscriptions() (n int) {
	pub.mu.Lock()
	defer pub.mu.Unlock()
	for p := range pub.conns {
		n += len(p.topics)
	}
	return n
}

// subscribe takes a subscription: 1 or 0, and a topic.
func (pub *Pub) subscribe(p *peer, message [][]byte) error {
	if len(message) != 1 || len(message[0]) == 0 || message[0][0] > 1 {
		return fmt.Errorf("zmtp: %d frames that are no subscription", len(message))
	}
	topic := message[0][1:]
	pub.mu.Lock()
	defer pub.mu.Unlock()
	if message[0][0] == 1 {
		if len(p.topics) == mostTopics {
			return fmt.Errorf("zmtp: more than %d topics", mostTopics)
		}
		p.topics = append(p.topics, topic)
		return nil
	}
	if i := slices.IndexFunc(p.topics, func(t []byte) bool { return bytes.Equal(t, topic) }); i >= 0 {
		p.topics = slices.Delete(p.topics, i, i+1)
	}
	return nil
}
