package hub

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"syscall"
)

// unreached is an error of a host that gave no answer, in words: what the operating system says of
// it tells most people nothing.
func (c *Client) unreached(what, host string, err error) *Error {
	e := &Error{What: what, Host: host, Detail: unreachedWords(err), Err: err, away: true}
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &cert):
		e.Fix = "check this machine's clock, and what stands between it and the hub"
	case slices.ContainsFunc(c.Endpoints, func(at string) bool { return at == DefaultEndpoint }):
		e.Fix = "check this machine's network; where the hub is blocked, set HF_ENDPOINT=https://hf-mirror.com"
	default:
		e.Fix = "check the network of this machine, and HF_ENDPOINT, which names the hub"
	}
	return e
}

func unreachedWords(err error) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var slow net.Error
	switch {
	case errors.As(err, &dns):
		return "there is no network, or no DNS server that knows " + dns.Name
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETDOWN):
		return "this machine has no network that leads there"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there, or a firewall refuses the connection"
	case errors.As(err, &cert):
		return "its certificate is not accepted: " + cert.Err.Error()
	case errors.As(err, &slow) && slow.Timeout():
		return "no answer in time"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed without an answer"
	}
	return err.Error()
}

// quickly says that a host cannot be reached at all, which no short wait changes: while none has
// answered yet, one is told of it soon.
func quickly(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && !dns.IsTimeout || errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.ENETDOWN) ||
		errors.Is(err, syscall.ECONNREFUSED)
}
