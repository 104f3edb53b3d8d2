// Package cluster looks which of several servers may be sent requests, and writes that down for a
// router that reads a file of endpoints and checks no server's health.
//
// [Watch] may be called from any goroutine.
package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	mostHosts = 256
	checkTime = time.Second // longest that one check of a server may take
	silent    = 2           // checks in a row without an answer after which a server is left out
)

// Host is a server.
type Host struct {
	name string // as it was given
	url  string // of /readyz
	host string
	port string
}

// Name is the server as it was given.
func (h Host) Name() string { return h.name }

// URL is where its API is.
func (h Host) URL() string { return strings.TrimSuffix(h.url, "/readyz") }

// ParseHosts reads servers, separated by commas: host, host:port, or a URL. The port is 11434 where
// none is given, and a URL's own otherwise.
func ParseHosts(list string) (all []Host, err error) {
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		h, err := parseHost(word)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(o Host) bool { return o.host == h.host && o.port == h.port }) {
			return nil, fmt.Errorf("%q is in the list twice", word)
		}
		all = append(all, h)
	}
	if len(all) == 0 || len(all) > mostHosts {
		return nil, fmt.Errorf("%d servers are named; 1 to %d may be, with commas: a:11434,b:11434", len(all), mostHosts)
	}
	return all, nil
}

func parseHost(word string) (Host, error) {
	text := word
	if !strings.Contains(word, "://") {
		text = "http://" + word
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" ||
		u.RawQuery != "" || u.Fragment != "" {
		return Host{}, fmt.Errorf("%q is no server: host, host:port or http://host:port is", word)
	}
	port := u.Port()
	if port == "" && strings.Contains(word, "://") {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	h := Host{name: word, host: u.Hostname(), port: cmp.Or(port, "11434")}
	h.url = u.Scheme + "://" + net.JoinHostPort(h.host, h.port) + "/readyz"
	return h, nil
}

// Options say what is looked at, and where what was found goes.
type Options struct {
	Hosts  []Host
	File   string        // replaced as a whole when something has changed; "": Out is written to instead
	Out    io.Writer     // of the endpoints without a file, and with one of what changed
	Every  time.Duration // between two looks; 0: one look
	Client *http.Client  // nil: one that follows no redirects
}

// Watch writes the endpoints of the servers that may be sent requests: those whose /readyz answers
// 200. A server that answers something else is left out at once, one that does not answer the
// second time. It ends with ctx, which is no error, or after one look, with an error if no server
// was ready.
func Watch(ctx context.Context, o Options) error {
	if o.Client == nil {
		o.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		defer o.Client.CloseIdleConnections()
	}
	all := make([]server, len(o.Hosts))
	for i, h := range o.Hosts {
		all[i] = server{Host: h, failures: silent} // out until it has answered
	}
	var written []byte
	for first := true; ; first = false {
		changed := look(ctx, o.Client, all)
		if ctx.Err() != nil {
			return nil
		}
		text := endpoints(all)
		if first || !bytes.Equal(text, written) {
			if err := write(o, text); err != nil {
				return err
			}
			written = text
		}
		if o.File != "" {
			for _, s := range changed {
				fmt.Fprintln(o.Out, s)
			}
		}
		if o.Every <= 0 {
			return unready(all)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.Every):
		}
	}
}

// server is what is known of one.
type server struct {
	Host
	address  string // IPv4
	ready    bool
	failures int   // checks in a row without an answer
	err      error // why it is not ready
}

// look checks all servers at once, and says what changed.
func look(ctx context.Context, c *http.Client, all []server) (changed []string) {
	var wg sync.WaitGroup
	before := slices.Clone(all)
	for i := range all {
		wg.Go(func() { all[i].look(ctx, c) })
	}
	wg.Wait()
	for i, s := range all {
		switch was := before[i]; {
		case s.ready && !was.ready:
			changed = append(changed, s.name+" is ready")
		case !s.ready && (was.ready || was.err == nil):
			changed = append(changed, fmt.Sprintf("%s is left out: %v", s.name, s.err))
		}
	}
	return changed
}

// look checks a server.
func (s *server) look(ctx context.Context, c *http.Client) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	said, err := ask(ctx, c, s.url)
	switch {
	case err != nil:
		if s.failures++; s.failures >= silent {
			s.ready, s.err = false, err
		}
		return
	case said != "":
		s.ready, s.failures, s.err = false, 0, errors.New(said)
		return
	}
	address, err := ipv4(ctx, s.host)
	if s.failures = 0; err != nil {
		s.ready, s.err = false, err
		return
	}
	s.ready, s.err, s.address = true, nil, address
}

// ask asks /readyz. said is why the server is not ready; "": it is.
func ask(ctx context.Context, c *http.Client, url string) (said string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 512))
	if err != nil {
		return "", err
	}
	if resp.StatusCode == http.StatusOK {
		return "", nil
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", resp.StatusCode, b)), nil
}

// ipv4 is a host's address, of the kind that the picker's file may have.
func ipv4(ctx context.Context, host string) (string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		if a = a.Unmap(); a.Is4() {
			return a.String(), nil
		}
		return "", fmt.Errorf("%s is no IPv4 address, which llm-d's file of endpoints wants", host)
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", host)
	if err != nil {
		return "", err
	}
	slices.SortFunc(found, netip.Addr.Compare) // the same each time
	return found[0].Unmap().String(), nil
}

// endpoints is the file of those that are ready: YAML, as llm-d's file-discovery reads it.
func endpoints(all []server) []byte {
	var b bytes.Buffer
	for _, s := range all {
		if !s.ready {
			continue
		}
		if b.Len() == 0 {
			b.WriteString("endpoints:\n")
		}
		name := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, strings.ToLower(net.JoinHostPort(s.host, s.port)))
		fmt.Fprintf(&b, "  - {name: %q, address: %q, port: %q, labels: {\"llm-d.ai/engine-type\": \"axle\"}}\n", name, s.address, s.port)
	}
	if b.Len() == 0 {
		return []byte("endpoints: []\n")
	}
	return b.Bytes()
}

// write writes the endpoints. A reader of the file sees the old ones or the new ones, never a part.
func write(o Options, text []byte) error {
	if o.File == "" {
		_, err := o.Out.Write(text)
		return err
	}
	dir := filepath.Dir(o.File)
	f, err := os.CreateTemp(dir, "."+filepath.Base(o.File)+"-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(0o644) // the picker is another user
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), o.File)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// unready is an error where no server may be sent requests.
func unready(all []server) error {
	var why []error
	for _, s := range all {
		if s.ready {
			return nil
		}
		why = append(why, fmt.Errorf("%s: %w", s.name, s.err))
	}
	return fmt.Errorf("no server is ready: %w", errors.Join(why...))
}
