package peers

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/models/rows"
)

const (
	mostPeers  = 16
	mostChosen = 8192 // names whose holders are known
	askTime    = 500 * time.Millisecond
	dialTime   = time.Second
	answerTime = 3 * time.Second
	defaultAt  = "11434"
)

// Options of [Peers].
type Options struct {
	Secret []byte         // of at least 32 bytes, the same for all servers
	CA     *x509.CertPool // who vouches for peers of https; nil: those that the system trusts
	// Told, if not nil, is told why a peer is left alone, and nil once it answers again.
	Told func(peer string, err error)
	Now  func() time.Time // nil: the system's clock
}

// Peers are the other servers. It is a rows.Blobs.
type Peers struct {
	o      Options
	sealer sealer
	client *http.Client
	peers  []*peer

	mu     ranked.Mutex[ranked.Peers]
	chosen map[string]*peer // by file
	giving int              // the peer that files are handed over to

	looks looks
}

var _ rows.Blobs = (*Peers)(nil)

// Parse reads the address of a peer: HOST, HOST:PORT or a URL of http or https without a path.
func Parse(text string) (*url.URL, error) {
	full := text
	if !strings.Contains(full, "://") {
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is no address of a server, such as 10.0.0.7, board-2:11434 or https://board-2:11434", clip(text))
	}
	u.Path = ""
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), defaultAt)
	}
	return u, nil
}

func clip(s string) string { return s[:min(len(s), 200)] }

// New returns peers at these addresses. Errors: an address that Parse does not take, or that is
// there twice; more than 16.
func New(addrs []string, o Options) (*Peers, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(o.Secret) < 32 {
		return nil, fmt.Errorf("peers: a secret of %d bytes; it has at least 32", len(o.Secret))
	}
	if len(addrs) > mostPeers {
		return nil, fmt.Errorf("peers: %d servers, %d may be", len(addrs), mostPeers)
	}
	p := &Peers{o: o, sealer: newSealer(o.Secret), chosen: map[string]*peer{}, looks: looks{turn: make(chan struct{}, 1), limit: lookTime}}
	p.looks.turn <- struct{}{}
	for _, a := range addrs {
		u, err := Parse(a)
		if err != nil {
			return nil, fmt.Errorf("peers: %w", err)
		}
		for _, other := range p.peers {
			if other.url.Host == u.Host {
				return nil, fmt.Errorf("peers: %s is there twice", u.Host)
			}
		}
		one := &peer{url: u}
		if one.pause.Now = o.Now; o.Told != nil {
			one.pause.Told = func(err error) { o.Told(one.String(), err) }
		}
		p.peers = append(p.peers, one)
	}
	p.client = &http.Client{
		Transport: &http.Transport{ // Proxy is nil: what people write goes to the peer and nowhere else
			DialContext:           (&net.Dialer{Timeout: dialTime}).DialContext,
			TLSClientConfig:       &tls.Config{RootCAs: o.CA, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:   dialTime,
			ResponseHeaderTimeout: answerTime,
			ExpectContinueTimeout: answerTime,
			MaxIdleConnsPerHost:   4,
			IdleConnTimeout:       time.Minute,
			DisableCompression:    true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p, nil
}

// Close ends connections and subscriptions.
func (p *Peers) Close() error {
	for _, one := range p.peers {
		one.close()
	}
	p.client.CloseIdleConnections()
	return nil
}

// Name implements rows.Blobs.
func (p *Peers) Name() string { return "peer" }

// Has implements rows.Blobs: it returns what the peer has that has most, and remembers which that
// is. Peers whose events are known are not asked. The others are, all at the same time, and those
// that have not answered within half a second are left out.
func (p *Peers) Has(ctx context.Context, names []string) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	type found struct {
		at  *peer
		n   int
		err error
	}
	answers, asked := make(chan found, len(p.peers)), 0
	for _, one := range p.peers {
		if !one.up() {
			continue
		}
		asked++
		go func() {
			n, err := p.ask(ctx, one, names)
			answers <- found{one, n, err}
		}()
	}
	var best found
	for range asked {
		f := <-answers
		if err = errors.Join(err, f.err); f.n > best.n || f.n == best.n && best.at != nil && f.n > 0 && p.before(f.at, best.at) {
			best = f
		}
	}
	if best.n == 0 {
		return 0, err
	}
	p.choose(best.at, names[:best.n])
	return best.n, nil
}

// before says which of two peers comes first in the list.
func (p *Peers) before(a, b *peer) bool {
	for _, one := range p.peers {
		if one == a || one == b {
			return one == a
		}
	}
	return false
}

func (p *Peers) choose(at *peer, names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.chosen)+len(names) > mostChosen {
		clear(p.chosen)
	}
	for _, name := range names {
		p.chosen[name] = at
	}
}

// ask finds out how many of the names, from the first on, a peer has.
func (p *Peers) ask(ctx context.Context, at *peer, names []string) (int, error) {
	from, known := 0, at.known(names)
	if known == 0 {
		return 0, nil
	}
	if known > 0 {
		from = known
		if from == len(names) || !strings.HasSuffix(names[from], ".state") { // events do not tell of states
			return from, nil
		}
	}
	n, err := rows.Gallop(len(names)-from, func(i int) (bool, error) {
		r, err := p.do(ctx, at, http.MethodHead, names[from+i], nil)
		if err != nil {
			return false, err
		}
		_ = r.Body.Close()
		at.follow(r.Header.Get(eventHeader))
		return r.StatusCode == http.StatusOK, nil
	})
	return from + n, err
}

// Get implements rows.Blobs.
func (p *Peers) Get(ctx context.Context, name string, most int64) ([]byte, error) {
	p.mu.Lock()
	at := p.chosen[name]
	p.mu.Unlock()
	if at == nil {
		if n, err := p.Has(ctx, []string{name}); n == 0 {
			return nil, errors.Join(fmt.Errorf("peers: %s: %w", name, fs.ErrNotExist), err)
		}
		p.mu.Lock()
		at = p.chosen[name]
		p.mu.Unlock()
	}
	if at == nil || !at.up() {
		return nil, fmt.Errorf("peers: %s: %w", name, fs.ErrNotExist)
	}
	going, stall := context.WithCancel(ctx)
	defer stall()
	r, err := p.do(going, at, http.MethodGet, name, nil)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	stalled := time.AfterFunc(pieceTime, stall)
	defer stalled.Stop()
	switch {
	case r.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("peers: %s at %s: %w", name, at, fs.ErrNotExist)
	case r.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("peers: %s: %s", at, r.Status)
	case r.ContentLength <= 0 || r.ContentLength > most:
		return nil, fmt.Errorf("peers: %s sends a file of %d bytes, %d may be", at, r.ContentLength, most)
	}
	data := make([]byte, 0, min(r.ContentLength, piece))
	for int64(len(data)) < r.ContentLength { // room is made as it comes
		from := len(data)
		data = append(data, make([]byte, min(r.ContentLength-int64(from), piece))...)
		if _, err := io.ReadFull(r.Body, data[from:]); err != nil {
			return nil, at.failed(ctx, fmt.Errorf("peers: %s: %w", at, err))
		}
		stalled.Reset(pieceTime)
	}
	return data, nil
}

// ErrNoRoom is that no peer takes a file over.
var ErrNoRoom = errors.New("no peer has room for it")

// Put implements rows.Blobs: it hands a file over to the first peer that has room. The next files
// go there too, so that a conversation stays together.
func (p *Peers) Put(ctx context.Context, name string, data []byte) (err error) {
	p.mu.Lock()
	first := p.giving
	p.mu.Unlock()
	for i := range p.peers {
		n := (first + i) % len(p.peers)
		at := p.peers[n]
		if !at.up() {
			continue
		}
		r, e := p.do(ctx, at, http.MethodPut, name, data)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		_ = r.Body.Close()
		if r.StatusCode == http.StatusNoContent {
			p.mu.Lock()
			p.giving = n
			p.mu.Unlock()
			return nil
		}
		err = errors.Join(err, fmt.Errorf("peers: %s: %s", at, r.Status))
	}
	return errors.Join(fmt.Errorf("peers: %s: %w", name, ErrNoRoom), err)
}

// do sends a request. An answer is what a peer says of the file; all else is an error.
func (p *Peers) do(ctx context.Context, at *peer, method, name string, data []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, at.url.String()+"/rows/"+name, nil)
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	if data != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
		r.Header.Set("Expect", "100-continue")
	}
	r.Header.Set("User-Agent", "axle")
	p.sealer.seal(r, p.o.Now())
	res, err := p.client.Do(r)
	if err != nil {
		return nil, at.failed(ctx, fmt.Errorf("peers: %w", err))
	}
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed:
		defer res.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(res.Body, 300))
		return nil, at.failed(ctx, fmt.Errorf("peers: %s refuses this server: %s: %s", at, res.Status, bytes.TrimSpace(said)))
	}
	at.pause.Well()
	return res, nil
}
