package main

import (
	"cmp"
	"context"
	"crypto/tls"
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

	"github.com/axle-llm/axle/cmd/internal/client"
	"github.com/axle-llm/axle/server"
)

// connection is a server to talk to: one that runs, or one of our own.
type connection struct {
	*client.Client
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
	return fmt.Sprintf("no server answers at %s (%v): AXLE_HOST or OLLAMA_HOST names it; start it there, or unset them to work on "+
		"this machine", e.url, e.err)
}

func (e *noServerError) Unwrap() error { return e.err }

// connect finds the server that AXLE_HOST or OLLAMA_HOST names. Where none answers on this machine
// it starts one inside this program, unless needRunning. It fails with a noServerError where that
// does not help.
func connect(ctx context.Context, needRunning bool) (*connection, error) {
	e, err := readSettings(os.Getenv, nil)
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(server.ClientURL(e.host))
	if err != nil {
		return nil, usageError("%w", err)
	}
	if strings.HasPrefix(cmp.Or(os.Getenv("AXLE_HOST"), os.Getenv("OLLAMA_HOST")), "https://") {
		base.Scheme = "https" // a proxy in front of the server
	}
	c := &connection{Client: client.New(base, os.Getenv("AXLE_KEY")), stop: func() error { return nil }}
	probe, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err = c.Heartbeat(probe); err == nil {
		return c, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.As(err, new(api.AuthorizationError)) {
		return nil, client.Error(err)
	}
	if client.StatusIs(err, http.StatusServiceUnavailable) {
		return nil, fmt.Errorf("the server at %s takes no requests now: it is ending, or its card was lost; ask again once it runs", base)
	}
	if ve := new(tls.CertificateVerificationError); errors.As(err, &ve) {
		return nil, fmt.Errorf("the server at %s cannot be trusted (%w): SSL_CERT_FILE names a file of certificates to trust, "+
			"such as the server's own", base, ve.Err)
	}
	if client.StatusIs(err, http.StatusBadRequest) && base.Scheme == "http" { // it asks for nothing that could be wrong but the scheme
		return nil, fmt.Errorf("the server at %s takes no plain http: if it speaks TLS, name it with https://, in AXLE_HOST or OLLAMA_HOST",
			base.Host)
	}
	if ue := new(url.Error); errors.As(err, &ue) {
		err = ue.Err // the address is told anyway
	}
	none := &noServerError{base, c.Local(), err}
	if needRunning || !none.local || !errors.As(err, new(*net.OpError)) {
		return nil, none
	}
	return startOwn(ctx, e)
}

// startOwn runs a server inside this program, on a loopback port that only this program knows.
func startOwn(ctx context.Context, e settings) (*connection, error) {
	log := newLog(io.Discard, false)
	r, err := newMachine(machineOptions{parallel: e.runsOn.parallel, maxQueue: e.runsOn.maxQueue, noPrune: true, log: log,
		lost: func(error) {}})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	s := server.New(r.store, r.loader, r.puller, server.Options{Version: ollamaVersion, Loopback: true,
		KeepAlive: e.server.KeepAlive, MaxLoaded: e.server.MaxLoaded, MaxQueue: e.server.MaxQueue,
		LoadTimeout: e.server.LoadTimeout, ContextLength: e.server.ContextLength, Log: log})
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- s.Serve(run, ln, time.Second) }()
	base := &url.URL{Scheme: "http", Host: ln.Addr().String()}
	return &connection{Client: client.New(base, ""), own: true, stop: func() error {
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

// with runs f on a connection and ends the connection after it.
func with(ctx context.Context, needRunning bool, f func(*connection) error) (err error) {
	c, err := connect(ctx, needRunning)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	return f(c)
}
