package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultEndpoint is where models come from when nothing else is set.
const DefaultEndpoint = "https://huggingface.co"

// Client fetches from one hub, or from mirrors of it. The zero Client fetches from
// [DefaultEndpoint] without a token.
type Client struct {
	Endpoints   []string      // the hub, then its mirrors, tried in turn
	Token       Secret        // sent to the first endpoint's host and to no other
	Connections int           // at once; 0 means 6
	Part        int64         // bytes of a part; 0 means 32 MiB
	Stall       time.Duration // a connection without a byte for so long is given up; 0 means 30 s
	Retries     int           // failures in a row without progress; 0 means 6
	Backoff     time.Duration // before the second of these, doubling; 0 means 500 ms
	Agent       string
	Transport   http.RoundTripper

	Dictionaries []File // what packages that speak are fetched with; nil: those of [Dictionaries]

	answered atomic.Bool // somebody has

	once  sync.Once
	close sync.Map // hosts of hubs that were found at an address of this machine or network
	http  *http.Client
	sem   chan struct{}
}

// Secret is a token. It prints as ***, whatever prints it.
type Secret string

// Format hides the token from every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "***") }

// String hides the token.
func (Secret) String() string { return "***" }

// MarshalText hides the token.
func (Secret) MarshalText() ([]byte, error) { return []byte("***"), nil }

// FromEnv reads HF_ENDPOINT (one, or several separated by commas: a hub and its mirrors), HF_TOKEN,
// and AXLE_DICTIONARIES, the address of a folder with the dictionaries.
func FromEnv() *Client {
	c := &Client{Token: Secret(strings.TrimSpace(cmp.Or(os.Getenv("HF_TOKEN"), os.Getenv("HUGGING_FACE_HUB_TOKEN"))))}
	for e := range strings.SplitSeq(os.Getenv("HF_ENDPOINT"), ",") {
		if e = strings.TrimRight(strings.TrimSpace(e), "/"); e != "" {
			c.Endpoints = append(c.Endpoints, e)
		}
	}
	c.Dictionaries = Dictionaries(strings.TrimSpace(os.Getenv("AXLE_DICTIONARIES")))
	return c
}

// Error is a request that a hub did not answer as hoped.
type Error struct {
	What   string // what was asked for
	Host   string
	Status int // 0: there was no answer
	Detail string
	Fix    string
	Err    error

	after time.Duration // the hub asked to wait
	away  bool          // the host gave no answer
}

func (e *Error) Error() string {
	s := "models: " + e.What
	switch {
	case e.away:
		s = "models: " + e.Host + " could not be reached for " + e.What
	case e.Host != "":
		s += " from " + e.Host
	}
	if e.Status != 0 {
		s += fmt.Sprintf(": %d %s", e.Status, http.StatusText(e.Status))
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Sentinels for errors.Is.
var (
	ErrNotFound = errors.New("models: the hub has no such repository or file")
	ErrDenied   = errors.New("models: the hub refuses access")
	ErrStalled  = errors.New("models: the connection stalled")
	ErrChanged  = errors.New("models: the file on the hub is not the one that was listed")
)

func (c *Client) init() {
	c.once.Do(func() {
		if len(c.Endpoints) == 0 {
			c.Endpoints = []string{DefaultEndpoint}
		}
		c.Connections = cmp.Or(c.Connections, 6)
		c.Stall = cmp.Or(c.Stall, 30*time.Second)
		c.Retries = cmp.Or(c.Retries, 6)
		c.Backoff = cmp.Or(c.Backoff, 500*time.Millisecond)
		c.Agent = cmp.Or(c.Agent, "axle")
		if c.Dictionaries == nil {
			c.Dictionaries = Dictionaries("")
		}
		rt := c.Transport
		if rt == nil {
			rt = &http.Transport{
				Proxy:                 http.ProxyFromEnvironment,
				DialContext:           dial,
				TLSHandshakeTimeout:   15 * time.Second,
				ResponseHeaderTimeout: c.Stall,
				MaxIdleConnsPerHost:   c.Connections,
				IdleConnTimeout:       30 * time.Second,
				DisableCompression:    true,    // offsets count the bytes of the file, not of some encoding of it
				Protocols:             http1(), // parts share no connection: a stalled one then stalls only itself
			}
		}
		// Redirects are followed by hand, so that it is plain to see which host gets the token.
		c.http = &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		c.sem = make(chan struct{}, c.Connections)
	})
}

func http1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// CloseIdle ends connections that wait for a next request.
func (c *Client) CloseIdle() {
	c.init()
	c.http.CloseIdleConnections()
}

const maxRedirects = 5

// do sends one request and follows at most five redirects. The token goes only to the first
// endpoint's own scheme, host and port: a redirect to a storage host, a mirror, or down to plain
// http never carries it. follow=false returns redirects to other hosts unfollowed.
func (c *Client) do(ctx context.Context, what, method, target string, header http.Header, follow bool) (*http.Response, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, noAddress(what)
	}
	home, err := url.Parse(c.Endpoints[0])
	if err != nil {
		return nil, noAddress(what)
	}
	first := route{c: c, from: u.Host, allowed: nearName(u.Hostname())}
	for hop := 0; ; hop++ {
		if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
			return nil, noAddress(what)
		}
		sent := first // of this request: an earlier one's may still be dialling
		sent.redirected = hop > 0
		req, err := http.NewRequestWithContext(context.WithValue(ctx, routeKey{}, &sent), method, u.String(), nil)
		if err != nil {
			err = bare(err)
			return nil, &Error{What: what, Host: u.Host, Detail: err.Error(), Err: err}
		}
		for k, v := range header {
			req.Header[k] = v
		}
		req.Header.Set("User-Agent", c.Agent)
		//rule:T11 TestToken u.Scheme == home.Scheme && strings.EqualFold(u.Host, home.Host) => home.Host != ""
		if c.Token != "" && u.Scheme == home.Scheme && strings.EqualFold(u.Host, home.Host) {
			req.Header.Set("Authorization", "Bearer "+string(c.Token))
		}
		resp, err := c.http.Do(req)
		if err != nil {
			err = bare(err)
			if errors.Is(err, ErrNear) {
				return nil, nearError(what, u.Host)
			}
			return nil, c.unreached(what, u.Host, err)
		}
		c.answered.Store(true)
		switch resp.StatusCode {
		case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		default:
			return resp, nil
		}
		next, err := u.Parse(resp.Header.Get("Location"))
		if err != nil || resp.Header.Get("Location") == "" {
			drain(resp)
			return nil, &Error{What: what, Host: u.Host, Status: resp.StatusCode, Detail: "a redirect to nowhere"}
		}
		if !follow && !strings.EqualFold(next.Host, u.Host) {
			return resp, nil
		}
		drain(resp)
		if hop == maxRedirects {
			return nil, &Error{What: what, Host: u.Host, Detail: fmt.Sprintf("more than %d redirects", maxRedirects)}
		}
		next.User = nil // a redirect has no business to log us in anywhere
		//rule:T11 TestNear false
		if u = next; !first.near(u.Hostname()) {
			return nil, nearError(what, u.Host)
		}
	}
}

// noAddress is an endpoint that is no address. It is not told: a user and a password may be in it.
func noAddress(what string) error {
	return &Error{What: what, Detail: "the hub's address, or where it sends us, is no http address", Fix: "set HF_ENDPOINT to https://host"}
}

// drain lets a connection be used again, if what is left is little.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 16<<10)
	resp.Body.Close()
}

// bare is an error without the address, which signed links, and users' names in it, fill with
// secrets.
func bare(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

func networkText(err error) string { return bare(err).Error() }

// refuse makes an error of an answer that is not a success, and closes it.
func refuse(what string, resp *http.Response) error {
	e := &Error{What: what, Host: resp.Request.URL.Host, Status: resp.StatusCode}
	e.Detail = resp.Header.Get("X-Error-Message")
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.after = min(time.Duration(s)*time.Second, time.Minute)
	}
	drain(resp)
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		e.Err, e.Fix = ErrDenied, "check the name; if the repository is private, set HF_TOKEN"
	case http.StatusForbidden:
		e.Err, e.Fix = ErrDenied, "accept the repository's terms on the hub and set HF_TOKEN"
	case http.StatusNotFound:
		e.Err, e.Fix = ErrNotFound, "check the name and revision"
	}
	return e
}

// lasting says whether trying again would not help.
func lasting(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch {
	case e.Status == http.StatusTooManyRequests, e.Status == http.StatusRequestTimeout, e.Status >= 500:
		return false
	case e.Status >= 400:
		return true
	}
	return errors.Is(err, ErrChanged) || errors.Is(err, ErrListing) || errors.Is(err, ErrNear)
}

// wait sleeps before another try: doubling, or as long as the hub asked.
func (c *Client) wait(ctx context.Context, failures int, err error) error {
	d := c.Backoff << min(failures, 6)
	var e *Error
	if errors.As(err, &e) && e.after > d {
		d = e.after
	}
	t := time.NewTimer(min(d, time.Minute))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// try calls f for each endpoint, again and again, until it succeeds, fails for good everywhere, or
// has failed Retries times on each; three times where no host could be reached yet.
func (c *Client) try(ctx context.Context, f func(endpoint string) error) error {
	var last error
	dead := 0
	for failures := 0; failures < c.Retries; failures++ {
		dead = 0
		for _, e := range c.Endpoints {
			err := f(e)
			if err == nil {
				return nil
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// What the first endpoint says of a repository weighs more than a mirror's not having
			// it.
			if last == nil || !lasting(err) || !lasting(last) && e == c.Endpoints[0] {
				last = err
			}
			if lasting(err) {
				dead++
			}
		}
		if dead == len(c.Endpoints) || failures == 2 && !c.answered.Load() && quickly(last) {
			return last
		}
		if failures+1 < c.Retries {
			if err := c.wait(ctx, failures, last); err != nil {
				return err
			}
		}
	}
	return last
}

// stalled is a body that gives up when no byte comes for a while.
type stalled struct {
	r     io.ReadCloser
	timer *time.Timer
	limit time.Duration
	fired atomic.Bool
}

// watch arms a stall detector: cancel ends the request.
func watch(r io.ReadCloser, limit time.Duration, cancel context.CancelFunc) *stalled {
	s := &stalled{r: r, limit: limit}
	s.timer = time.AfterFunc(limit, func() { s.fired.Store(true); cancel() })
	return s
}

func (s *stalled) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if s.fired.Load() {
		return n, fmt.Errorf("%w: no byte for %v", ErrStalled, s.limit)
	}
	if n > 0 {
		s.timer.Reset(s.limit)
	}
	return n, err
}

func (s *stalled) Close() error {
	s.timer.Stop()
	return s.r.Close()
}
