package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/ollama/ollama/api"

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

// connect finds the server that AXLE_HOST or OLLAMA_HOST names. Where none answers it starts one inside this program, unless needRunning.
func connect(ctx context.Context, needRunning bool) (*connection, error) {
	e, err := server.ReadEnv(os.Getenv)
	if err != nil {
		return nil, usageError("%w", err)
	}
	base, err := url.Parse(server.ClientURL(e.Host))
	if err != nil {
		return nil, usageError("%w", err)
	}
	hc := &http.Client{Transport: keyed{os.Getenv("AXLE_KEY"), http.DefaultTransport}}
	c := &connection{Client: api.NewClient(base, hc), url: base, http: hc, stop: func() error { return nil }}
	probe, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err = c.Heartbeat(probe); err == nil {
		return c, nil
	}
	var ne *net.OpError
	if needRunning || !errors.As(err, &ne) {
		return nil, fmt.Errorf("no server answers at %s (%w): start one with 'axle serve'", base, err)
	}
	return startOwn(ctx, e)
}

// startOwn runs a server inside this program, on a port of the loopback that nobody knows.
func startOwn(ctx context.Context, e server.Env) (*connection, error) {
	log := newLog(io.Discard, false)
	r, err := newRig(rigOptions{parallel: e.NumParallel, maxQueue: e.MaxQueue, log: log, lost: func(error) {}})
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

// apiError makes Ollama's client errors read as the server meant them.
func apiError(err error) error {
	var se api.StatusError
	if errors.As(err, &se) && se.ErrorMessage != "" {
		return errors.New(se.ErrorMessage)
	}
	return err
}

func statusIs(err error, code int) bool {
	var se api.StatusError
	return errors.As(err, &se) && se.StatusCode == code
}
