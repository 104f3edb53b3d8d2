package zmtp

import "net"

// Router answers requests.
type Router struct{ socket }

// NewRouter returns a ROUTER socket that accepts peers from ln, which it closes: REQ or DEALER.
// answer is called for each request, on a goroutine of the peer, with the frames behind the empty
// one that ends a REQ's address. It returns the messages to send; each gets that frame
// where the request had it: a DEALER may leave it out. An error ends the connection.
func NewRouter(ln net.Listener, o Options, answer func(request [][]byte) (reply [][][]byte, err error)) *Router {
	r := &Router{socket{o: o, kind: "ROUTER", peers: []string{"REQ", "DEALER"}}}
	r.take = func(p *peer, message [][]byte) error {
		before := 0
		if len(message) > 1 && len(message[0]) == 0 {
			before = 1
		}
		reply, err := answer(message[before:])
		if err != nil {
			return err
		}
		var b []byte
		for _, frames := range reply {
			b = append(b, encoded(append(message[:before:before], frames...)...)...)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.send(p, b)
		return nil
	}
	r.start(ln)
	return r
}
