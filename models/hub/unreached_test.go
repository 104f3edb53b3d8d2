package hub_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/models/hub"
)

// What a hub that cannot be reached means is told in words, with the way out, and soon where a wait
// changes nothing.
func TestUnreached(t *testing.T) {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	for _, tt := range []struct {
		name      string
		endpoint  string
		err       error
		want, fix string
		tries     int
	}{
		{"no network", hub.DefaultEndpoint,
			&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "huggingface.co", IsNotFound: true}},
			"there is no network, or no DNS server that knows huggingface.co", "HF_ENDPOINT=https://hf-mirror.com", 3},
		{"no way", hub.DefaultEndpoint, dial(syscall.ENETUNREACH), "this machine has no network that leads there", "set HF_ENDPOINT=", 3},
		{"refused", "https://hub.example", dial(syscall.ECONNREFUSED), "nothing listens there", "HF_ENDPOINT, which names the hub", 3},
		{"slow", hub.DefaultEndpoint, dial(syscall.ETIMEDOUT), "no answer in time", "set HF_ENDPOINT=", 6},
		{"reset", hub.DefaultEndpoint, dial(syscall.ECONNRESET), "closed without an answer", "set HF_ENDPOINT=", 6},
		{"cut", hub.DefaultEndpoint, io.EOF, "closed without an answer", "set HF_ENDPOINT=", 6},
		{"clock", hub.DefaultEndpoint, &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}},
			"its certificate is not accepted", "clock", 6},
		{"something else", hub.DefaultEndpoint, errors.New("strange"), "strange", "set HF_ENDPOINT=", 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &failing{err: tt.err}
				c := &hub.Client{Endpoints: []string{tt.endpoint}, Transport: f}
				began := time.Now()
				_, err := c.Snapshot(t.Context(), "some/thing", "main")
				host := strings.TrimPrefix(tt.endpoint, "https://")
				for _, want := range []string{host + " could not be reached for some/thing: ", tt.want, tt.fix} {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%v, want %q", err, want)
					}
				}
				if err != nil && (strings.Contains(err.Error(), "dial tcp") || !errors.Is(err, tt.err)) {
					t.Errorf("%v: Go's own words, or without its cause", err)
				}
				if took := time.Since(began); f.tries != tt.tries || tt.tries == 3 && took > 2*time.Second {
					t.Errorf("%d tries in %v, want %d", f.tries, took, tt.tries)
				}
			})
		})
	}
}

type failing struct {
	err   error
	tries int
}

func (f *failing) RoundTrip(*http.Request) (*http.Response, error) {
	f.tries++
	return nil, f.err
}
