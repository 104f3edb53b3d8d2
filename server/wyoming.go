package server

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/answer"
	"github.com/axle-llm/axle/server/monitor"
	"github.com/axle-llm/axle/server/request"
	"github.com/axle-llm/axle/server/wyoming"
)

// Limits of the Wyoming port. One house's hub holds all connections of its satellites, so an
// address may have as many as there are.
const (
	maxSatellites = 256
	tooManyRooms  = `{"type":"error","data":{"text":"too many connections from one address","code":"unavailable"}}` + "\n"
	hearRoute     = "wyoming transcribe"
	sayRoute      = "wyoming synthesize"
)

// Wyoming is what a port of the Wyoming protocol answers.
type Wyoming struct {
	Hear bool // recognition
	Say  bool // synthesis
}

// ServeWyoming answers the Wyoming protocol on a port of its own, as Serve does the main one. It
// knows neither keys nor TLS: all its clients are one client, which may ask.
func (s *Server) ServeWyoming(ctx context.Context, ln net.Listener, grace time.Duration, w Wyoming) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	all := &satellites{s, access.Own("wyoming")}
	o := wyoming.Options{Version: s.o.Release, Tell: tell, Idle: s.o.IdleTimeout, Read: s.o.ReadTimeout, Write: s.o.WriteTimeout}
	if w.Hear {
		o.Hearer = all
	}
	if w.Say {
		o.Speaker = all
	}
	limited := newLimitListener(ln, min(maxSatellites, s.o.MaxConns), min(maxSatellites, s.o.MaxPerClient), tooManyRooms)
	failed := make(chan error, 1)
	var open sync.WaitGroup
	go func() {
		for {
			c, err := accept(base, limited)
			if err != nil {
				failed <- err
				return
			}
			open.Go(func() {
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
	open.Wait() // writes have a deadline
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

// satellites are the clients of the Wyoming port. It implements [wyoming.Hearer] and
// [wyoming.Speaker].
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
func (v *satellites) Hear(ctx context.Context, name, language string, sound ask.Sound, each func(text string)) (string, error) {
	return v.s.hear(ctx, v.from(hearRoute), cmp.Or(name, v.s.o.WyomingModel),
		ask.TranscribeRequest{Sound: sound, Language: language, Partial: true}, each)
}

// Voices implements wyoming.Speaker.
func (v *satellites) Voices(ctx context.Context) (out []wyoming.Voice, err error) {
	all, err := v.s.answers.Voices(ctx, "", v.s.o.WyomingVoices)
	for _, e := range all {
		w := wyoming.Voice{Name: e.Name, Description: e.Name + " (" + e.Model.Name.String() + ")"}
		if e.Language != "" {
			w.Languages = []string{e.Language}
		}
		out = append(out, w)
	}
	return out, err
}

// Say implements wyoming.Speaker.
func (v *satellites) Say(ctx context.Context, voice, language string, texts iter.Seq[string],
	play func(samples []float32, rate int) error) error {
	return v.s.asked(ctx, v.from(sayRoute), func(ctx context.Context) error {
		return v.s.answers.Say(ctx, answer.Saying{First: v.s.o.WyomingVoices, Voice: voice, Language: language}, texts, play)
	})
}

func (v *satellites) from(route string) asking {
	return asking{route, v.key, monitor.OwnerOfKey(v.key.Owner)}
}

// asking is for whom the server works without a request of HTTP.
type asking struct {
	route string // in logs and metrics
	key   *access.Key
	owner monitor.Owner
}

// hear has a sound written down as a request of its own.
func (s *Server) hear(ctx context.Context, of asking, name string, r ask.TranscribeRequest, each func(text string)) (spoken string,
	err error) {
	err = s.asked(ctx, of, func(ctx context.Context) (err error) {
		spoken, err = s.answers.Hear(ctx, name, r, each)
		return err
	})
	return spoken, err
}

// asked runs what a client asks for, as a request of the main port is: it is refused while the
// server ends, and counts against the key's limits.
func (s *Server) asked(ctx context.Context, of asking, f func(context.Context) error) (err error) {
	start := time.Now()
	defer func() { s.counted(of, time.Since(start), err) }()
	return s.admitted(ctx, of, f)
}

// counted puts what was asked for into the log and the metrics.
func (s *Server) counted(of asking, took time.Duration, err error) {
	code := 200
	fields := []zap.Field{zap.Duration("took", took)}
	if of.key != nil {
		fields = append(fields, zap.String("key", of.key.Name))
	}
	if err != nil {
		code, _ = request.Status(err)
		fields = append(fields, zap.String("error", s.shared.Told(err)))
	}
	s.metrics.request(of.route, code)
	s.log.Info(of.route, append(fields, zap.Int("status", code))...)
}

// admitted is asked, but for the log and the metrics.
func (s *Server) admitted(ctx context.Context, of asking, f func(context.Context) error) error {
	if !s.enter() {
		return cmp.Or(s.Lost(), ask.ErrDraining)
	}
	defer s.active.Add(-1)
	end, err := of.key.Begin()
	if err != nil {
		return err
	}
	defer end()
	ctx, over := s.views.See(request.WithKey(ctx, of.key), of.owner, of.route)
	defer over()
	if err = s.shared.Caught(func() error { return f(ctx) }); err != nil {
		s.lookLost(err)
		err = request.Ended(ctx, err)
	}
	return err
}

// tell is what an error is to a client of a protocol that has no statuses.
func tell(err error) (status int, text string) {
	if errors.Is(err, request.ErrDrained) {
		err = ask.ErrDraining
	}
	return request.Status(err)
}
