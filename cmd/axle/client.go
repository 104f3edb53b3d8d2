package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
)

// connection is a server to talk to: one that runs, or one of our own.
type connection struct {
	*api.Client
	url  *url.URL
	http *http.Client
	own  bool
	stop func() error
}

// noServerError is that no server answers where one was looked for.
type noServerError struct {
	url   *url.URL
	local bool // on this machine: it can be done without
	err   error
}

func (e *noServerError) Error() string {
	if e.local {
		return fmt.Sprintf("no server answers at %s (%v): start one with 'axle serve'", e.url, e.err)
	}
	return fmt.Sprintf("no server answers at %s (%v): AXLE_HOST or OLLAMA_HOST names it; start it there, or unset them to work on this machine", e.url, e.err)
}

func (e *noServerError) Unwrap() error { return e.err }

// connect finds the server that AXLE_HOST or OLLAMA_HOST names. Where none answers on this machine it starts one inside this program, unless
// needRunning. It fails with a noServerError where that does not help.
func connect(ctx context.Context, needRunning bool) (*connection, error) {
	e, err := server.ReadEnv(os.Getenv)
	if err != nil {
		return nil, usageError("%w", err)
	}
	base, err := url.Parse(server.ClientURL(e.Host))
	if err != nil {
		return nil, usageError("%w", err)
	}
	if strings.HasPrefix(cmp.Or(os.Getenv("AXLE_HOST"), os.Getenv("OLLAMA_HOST")), "https://") {
		base.Scheme = "https" // a proxy in front of the server
	}
	hc := &http.Client{Transport: keyed{os.Getenv("AXLE_KEY"), http.DefaultTransport}}
	c := &connection{Client: api.NewClient(base, hc), url: base, http: hc, stop: func() error { return nil }}
	probe, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err = c.Heartbeat(probe); err == nil {
		return c, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.As(err, new(api.AuthorizationError)) {
		return nil, apiError(err)
	}
	if ue := new(url.Error); errors.As(err, &ue) {
		err = ue.Err // the address is told anyway
	}
	host := base.Hostname()
	var ne *net.OpError
	none := &noServerError{base, host == "localhost" || net.ParseIP(host).IsLoopback(), err}
	if needRunning || !none.local || !errors.As(err, &ne) {
		return nil, none
	}
	return startOwn(ctx, e)
}

// startOwn runs a server inside this program, on a port of the loopback that nobody knows.
func startOwn(ctx context.Context, e server.Env) (*connection, error) {
	log := newLog(io.Discard, false)
	r, err := newMachine(machineOptions{parallel: e.NumParallel, maxQueue: e.MaxQueue, log: log, lost: func(error) {}})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	s := server.New(r.store, r.loader, r.puller, server.Options{Version: ollamaVersion, Loopback: true, KeepAlive: e.KeepAlive, MaxLoaded: e.MaxLoaded,
		MaxQueue: e.MaxQueue, LoadTimeout: e.LoadTimeout, ContextLength: e.ContextLength, Log: log})
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Serve(run, ln, time.Second) }()
	base := &url.URL{Scheme: "http", Host: ln.Addr().String()}
	return &connection{Client: api.NewClient(base, http.DefaultClient), url: base, http: http.DefaultClient, own: true, stop: func() error {
		cancel()
		err := <-done
		if s.Lost() != nil {
			return &exitError{code: exitLost, err: err}
		}
		end, stop := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
		defer stop()
		return errors.Join(err, s.Close(end), r.close())
	}}, nil
}

// keyed sends the key in AXLE_KEY with every request.
type keyed struct {
	key  string
	next http.RoundTripper
}

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	if k.key != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+k.key)
	}
	return k.next.RoundTrip(r)
}

// with runs f on a connection and ends the connection after it.
func with(ctx context.Context, needRunning bool, f func(*connection) error) (err error) {
	c, err := connect(ctx, needRunning)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	return f(c)
}

// pull has the server fetch a model.
func (c *connection) pull(ctx context.Context, name string, report func(store.Progress)) error {
	return c.told(ctx, func(status api.PullProgressFunc) error { return c.Pull(ctx, &api.PullRequest{Model: name}, status) }, func(p api.ProgressResponse) {
		report(store.Progress{Status: p.Status, Digest: p.Digest, Total: p.Total, Completed: p.Completed})
	})
}

// create has the server make a model.
func (c *connection) create(ctx context.Context, req *api.CreateRequest, report func(status string)) error {
	return c.told(ctx, func(status api.PullProgressFunc) error { return c.Create(ctx, req, api.CreateProgressFunc(status)) }, func(p api.ProgressResponse) { report(p.Status) })
}

// told runs long work of the server. Its last word is success: Ollama's client takes a stream that ends without for a good one.
func (c *connection) told(ctx context.Context, work func(api.PullProgressFunc) error, report func(api.ProgressResponse)) error {
	done := false
	err := work(func(p api.ProgressResponse) error {
		done = p.Status == "success"
		report(p)
		return nil
	})
	switch {
	case err != nil:
		return apiError(err)
	case done:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return errBrokeOff
}

// apiError makes Ollama's client errors read as the server meant them.
func apiError(err error) error {
	if errors.As(err, new(api.AuthorizationError)) {
		return errors.New("the server wants a key: set AXLE_KEY to one of those in its keys file")
	}
	var se api.StatusError
	if !errors.As(err, &se) || se.ErrorMessage == "" {
		return err
	}
	if strings.HasPrefix(strings.TrimSpace(se.ErrorMessage), "<") {
		return fmt.Errorf("what answers there is no model server (%d and a page of HTML): does AXLE_HOST or OLLAMA_HOST name the right port?", se.StatusCode)
	}
	return errors.New(se.ErrorMessage)
}

func statusIs(err error, code int) bool {
	var se api.StatusError
	return errors.As(err, &se) && se.StatusCode == code
}
