package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/request"
	"github.com/axle-llm/axle/server/wyoming"
)

// Limits of the Wyoming port. One house's hub holds all connections of its satellites, so an
// address may have as many as there are.
const (
	maxSatellites = 256
	tooManyRooms  = `{"type":"error","data":{"text":"too many connections from one address","code":"unavailable"}}` + "\n"
	wyomingRoute  = "wyoming transcribe"
)

// ServeWyoming answers the Wyoming protocol on a port of its own, as Serve does the main one. It
// knows neither keys nor TLS: all its clients are one client, which may ask.
func (s *Server) ServeWyoming(ctx context.Context, ln net.Listener, grace time.Duration) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	hearer := &satellites{s, access.Own("wyoming")}
	o := wyoming.Options{Hearer: hearer, Version: s.o.Release, Tell: hearer.tell, Idle: s.o.IdleTimeout, Read: s.o.ReadTimeout,
		Write: s.o.WriteTimeout}
	limited := newLimitListener(ln, min(maxSatellites, s.o.MaxConns), min(maxSatellites, s.o.MaxPerClient), tooManyRooms)
	failed := make(chan error, 1)
	var all sync.WaitGroup
	go func() {
		for {
			c, err := accept(base, limited)
			if err != nil {
				failed <- err
				return
			}
			all.Go(func() {
				s.rooms.Add(1)
				defer s.rooms.Add(-1)
				_ = s.shared.Caught(func() error { wyoming.Serve(base, c, o); return nil })
			})
		}
	}()
	err := s.until(ctx, grace, failed, cancel, func(time.Duration) {
		_ = limited.Close()
		cancel(request.ErrDrained)
	})
	cancel(request.ErrDrained)
	all.Wait() // writes have a deadline
	return err
}

// accept is the next connection. A process that has no more files, for one, has some later.
func accept(ctx context.Context, ln net.Listener) (net.Conn, error) {
	for {
		c, err := ln.Accept()
		var passes interface{ Temporary() bool }
		if err == nil || !errors.As(err, &passes) || !passes.Temporary() {
			return c, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// satellites are the clients of the Wyoming port. It implements [wyoming.Hearer].
type satellites struct {
	s   *Server
	key *access.Key
}

// Models implements wyoming.Hearer.
func (v *satellites) Models(ctx context.Context) (out []wyoming.Model, err error) {
	all, err := v.s.answers.Hearers(ctx, v.s.o.WyomingModel)
	for _, e := range all {
		out = append(out, wyoming.Model{Name: e.Name.String(), Description: cmp.Or(e.Info.Kind, e.Info.Name), Languages: e.Info.Languages})
	}
	return out, err
}

// Hear implements wyoming.Hearer.
func (v *satellites) Hear(ctx context.Context, name, language string, sound ask.Sound) (text, spoken string, err error) {
	s, start := v.s, time.Now()
	defer func() {
		code := 200
		fields := []zap.Field{zap.Duration("took", time.Since(start)), zap.String("key", v.key.Name)}
		if err != nil {
			code, _ = request.Status(err)
			fields = append(fields, zap.String("error", s.shared.Told(err)))
		}
		s.metrics.request(wyomingRoute, code)
		s.log.Info(wyomingRoute, append(fields, zap.Int("status", code))...)
	}()
	if !s.enter() {
		return "", "", cmp.Or(s.Lost(), ask.ErrDraining)
	}
	defer s.active.Add(-1)
	end, err := v.key.Begin()
	if err != nil {
		return "", "", err
	}
	defer end()
	ctx, over := s.views.See(request.WithKey(ctx, v.key), v.key.Owner, wyomingRoute)
	defer over()
	err = s.shared.Caught(func() (err error) {
		text, spoken, err = s.answers.Hear(ctx, cmp.Or(name, s.o.WyomingModel), language, sound)
		return err
	})
	if err != nil {
		s.lookLost(err)
		err = request.Ended(ctx, err)
	}
	return text, spoken, err
}

// tell is what an error is to a client.
func (v *satellites) tell(err error) (status int, text string) {
	if errors.Is(err, request.ErrDrained) {
		err = ask.ErrDraining
	}
	return request.Status(err)
}
