package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/audio/vad"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/documents/index"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/mdns"
)

// This file is a server's process, from its listeners to its orderly end. What it runs on is in
// machine.go.

// exitLost is the exit code that tells a supervisor to start us again: the card was lost.
const exitLost = 75

// graceTime is how long running answers may take once we are told to end.
const graceTime = 30 * time.Second

// serviceOptions are the settings of a server's process.
type serviceOptions struct {
	settings
	keys *access.Keys        // nil: everyone may ask
	tls  *server.Certificate // nil: TLS is not spoken, unless the settings say that we make one
	log  *zap.Logger
}

// service is a server's process.
type service struct {
	serviceOptions
	main    net.Listener
	old     net.Listener // the vendor's API's; nil: none
	figures net.Listener // of metrics and health; nil: none of their own
	rooms   net.Listener // of voice satellites that are heard; nil: none
	said    net.Listener // of those for which text is spoken; nil: none, or rooms answers them too
	photos  net.Listener // of Immich; nil: none
	eventPorts
	lost    chan error    // the card is lost
	ending  chan struct{} // closed when no more work is taken
	machine *machine
	server  *server.Server
	library *index.Library // of documents; nil: none are kept
	reloads []reloading    // on SIGHUP
}

// runService serves until ctx ends or the card is lost.
func runService(ctx context.Context, o serviceOptions) error {
	s := &service{serviceOptions: o, lost: make(chan error, 1), ending: make(chan struct{})}
	if err := s.listen(); err != nil {
		return err
	}
	if err := s.build(); err != nil {
		return errors.Join(err, s.main.Close())
	}
	s.log.Info("listening", zap.String("address", s.main.Addr().String()), zap.String("version", version),
		zap.String("models", s.machine.store.Dir()))
	run, stop := context.WithCancel(ctx)
	defer stop()
	go s.open(run)
	go s.watch(run)
	go s.server.Preload(run, s.preload)
	s.server.IndexDocuments(run)
	s.reload(run)
	var others sync.WaitGroup
	for _, at := range []struct {
		ln    net.Listener
		what  string
		serve func(context.Context, net.Listener, time.Duration) error
	}{{s.old, "vendor", s.server.ServeVendor}, {s.figures, "metrics", s.server.ServeMetrics},
		{s.rooms, "wyoming", satellites(s.server, server.Wyoming{Hear: true, Say: s.wyomingSay == s.wyoming})},
		{s.said, "wyoming", satellites(s.server, server.Wyoming{Say: true})},
		{s.photos, "immich", s.server.ServeImmich}} {
		if at.ln != nil {
			s.log.Info("listening", zap.String("address", at.ln.Addr().String()), zap.String("api", at.what))
			others.Go(func() { _ = at.serve(run, at.ln, graceTime) })
		}
	}
	if s.mdns {
		others.Go(func() { s.announce(run) })
	}
	err := s.server.Serve(run, s.main, graceTime)
	stop()
	if s.server.Lost() != nil {
		return s.abandon(err)
	}
	others.Wait()
	cerr := s.close(ctx)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, cerr)
}

// satellites serves a port of the Wyoming protocol.
func satellites(s *server.Server, w server.Wyoming) func(context.Context, net.Listener, time.Duration) error {
	return func(ctx context.Context, ln net.Listener, grace time.Duration) error {
		return s.ServeWyoming(ctx, ln, grace, w)
	}
}

// announce tells the local network of the ports of the Wyoming protocol, until ctx ends. The server
// runs on whatever is wrong with that.
func (s *service) announce(ctx context.Context) {
	warn := func(err error) {
		s.log.Warn("Home Assistant may not find this server by itself: enter host and port there, or see docs/home-assistant.md",
			zap.Error(err))
	}
	o := mdns.Options{Node: s.settings.server.Node, Log: warn}
	if s.rooms == nil && s.said == nil {
		warn(errors.New("--mdns has nothing to announce: set --wyoming or --wyoming-say"))
	}
	for _, ln := range []net.Listener{s.rooms, s.said} {
		if ln == nil {
			continue
		}
		one, err := mdns.NewService("_wyoming._tcp", ln.Addr())
		if err != nil {
			warn(err)
			continue
		}
		o.Services = append(o.Services, one)
	}
	if len(o.Services) > 0 {
		mdns.Announce(ctx, o)
	}
}

// listen opens the listeners, before anything else is: an address in use is found at once.
func (s *service) listen() (err error) {
	s.main, err = net.Listen("tcp", s.host)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("serve: %w: another server is running there; --host or AXLE_HOST chooses another address", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("serve: %w: ports below 1024 are the system's; --host or AXLE_HOST chooses another address", err)
	case err != nil:
		return fmt.Errorf("serve: %w; --host or AXLE_HOST chooses another address", err)
	}
	vendor := s.vendor
	if strings.HasPrefix(vendor, ":") {
		vendor = "127.0.0.1" + vendor
	}
	say := s.wyomingSay
	if say == s.wyoming {
		say = "" // one listener answers both
	}
	opened := []net.Listener{s.main}
	for _, at := range []struct {
		flag, addr string
		ln         *net.Listener
	}{{"vendor-api", vendor, &s.old}, {"metrics-addr", s.metricsAddr, &s.figures}, {"wyoming", s.wyoming, &s.rooms},
		{"wyoming-say", say, &s.said}, {"immich", s.immich, &s.photos}} {
		if at.addr == "" {
			continue
		}
		if *at.ln, err = net.Listen("tcp", at.addr); err != nil {
			err = fmt.Errorf("serve: --%s: %w", at.flag, err)
			for _, ln := range opened {
				err = errors.Join(err, ln.Close())
			}
			return err
		}
		opened = append(opened, *at.ln)
	}
	if s.eventPorts, err = s.settings.events.open(); err != nil {
		for _, ln := range opened {
			err = errors.Join(err, ln.Close())
		}
	}
	return err
}

// build makes the machine, and the server on it. It opens no card.
func (s *service) build() (err error) {
	o := s.runsOn
	o.ending, o.log = s.ending, s.log
	// Losing the card ends the process within seconds, whatever the library's threads do (promise
	// D7).
	o.lost = func(err error) {
		select {
		case s.lost <- err:
		default:
		}
	}
	o.fewer = func(err error) { s.server.SetFewer(err) }
	o.loading = func(p engine.Progress) { s.server.Loading(p) }
	o.events = s.publisher()
	if s.machine, err = newMachine(o); err != nil {
		return errors.Join(err, o.events.Close())
	}
	closed := s.machine.close
	s.machine.close = func() error { return errors.Join(closed(), o.events.Close()) }
	if s.keys != nil {
		s.reloads = append(s.reloads, reloading{"keys", s.keys.Reload})
	} else {
		warnOpen(s.log, s.main, s.old)
	}
	if s.figures != nil && s.keys != nil && !isLoopback(s.figures.Addr()) {
		s.log.Warn("metrics are told beyond this machine without a key: anyone who reaches this port sees which models "+
			"and keys there are, and how much they are used", zap.String("address", s.figures.Addr().String()))
	}
	for _, ln := range []net.Listener{s.rooms, s.said} {
		if ln != nil && !isLoopback(ln.Addr()) {
			s.log.Warn("voice satellites are answered beyond this machine: anyone who reaches this port may have speech written down "+
				"or text spoken, without a key", zap.String("address", ln.Addr().String()))
		}
	}
	if s.photos != nil && !isLoopback(s.photos.Addr()) {
		s.log.Warn("Immich is answered beyond this machine: anyone who reaches this port may have vectors made of texts and pictures, and "+
			"faces found, without a key", zap.String("address", s.photos.Addr().String()))
	}
	so := s.settings.server
	if so.VAD, err = readVAD(s.vad); err != nil {
		return errors.Join(err, s.machine.close())
	}
	if s.tlsSelf {
		dir, names := filepath.Join(s.machine.store.Dir(), "tls"), server.OwnNames(s.main.Addr(), so.Hosts)
		if s.tls, err = server.SelfSigned(dir, names); err != nil {
			return errors.Join(err, s.machine.close())
		}
		for _, n := range names {
			if s.tls.Leaf().VerifyHostname(n) != nil {
				s.log.Warn("the certificate does not have a name or address of this server: remove its folder to have a new one made",
					zap.String("name", n), zap.String("folder", dir))
			}
		}
	}
	if s.tls != nil {
		s.reloads = append(s.reloads, reloading{"certificate", s.tls.Reload})
		s.log.Info("TLS", zap.Time("until", s.tls.Leaf().NotAfter), zap.String("sha256", s.tls.Fingerprint()))
	}
	kept, err := s.chats.open(s.log, s.keys != nil || isLoopback(s.main.Addr()))
	if err != nil {
		return errors.Join(err, s.machine.close())
	}
	so.Conversations = kept
	s.machine.close = func() error { return errors.Join(kept.Close(), closed(), o.events.Close()) }
	if so.Tools, err = s.tools(); err != nil {
		return errors.Join(err, s.machine.close())
	}
	so.Version, so.Release, so.Loopback = ollamaVersion, version, isLoopback(s.main.Addr())
	so.Keys, so.TLS, so.Log, so.Rows, so.Peers = s.keys, s.tls, s.log, s.machine.peers, s.machine.others
	so.Measure, so.Ending = bench.Served, func() { close(s.ending) }
	if so.Documents.Library, err = s.settings.documents.open(s.machine.store.Dir(), s.log); err != nil {
		return errors.Join(err, s.machine.close())
	}
	s.library = so.Documents.Library
	s.server = server.New(s.machine.store, s.machine.loader, s.machine.puller, so)
	return nil
}

const maxVAD = 64 << 20 // bytes; Silero's file has 2.3 MB

// readVAD reads the net that finds speech; nil: no file is named.
func readVAD(file string) (*vad.Silero, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("serve: --vad: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxVAD+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("serve: --vad: %w", err)
	case len(b) > maxVAD:
		return nil, fmt.Errorf("serve: --vad: %s has more than %d MiB: Silero's file has 2 MiB", file, maxVAD>>20)
	}
	m, err := vad.ReadSilero(b)
	if err != nil {
		return nil, fmt.Errorf("serve: --vad %s: %w", file, err)
	}
	return m, nil
}

// open opens the card now, not with the first request: what is wrong with it is said at the start
// (promise D1).
func (s *service) open(run context.Context) {
	line, err := s.machine.hello()
	if err != nil {
		s.log.Error("no device to run on", zap.Error(err))
	}
	if errors.Is(err, axcl.ErrLost) {
		s.server.SetLost(err) // no request will find it any better
	}
	if s.hello {
		url := server.ClientURL(s.main.Addr().String())
		if s.tls != nil {
			url = "https" + strings.TrimPrefix(url, "http")
		}
		hello(os.Stdout, os.Args[0], line, err, url)
	}
	if err != nil {
		err = lookAgain(run, func() error { _, err := s.machine.hello(); return err })
		if errors.Is(err, axcl.ErrLost) {
			s.server.SetLost(err)
		}
	}
}

// watch waits for the card's loss, or for the end: then a second signal ends the process at once.
func (s *service) watch(run context.Context) {
	select {
	case err := <-s.lost:
		s.server.SetLost(err)
	case <-run.Done():
		again := make(chan os.Signal, 1)
		signal.Notify(again, os.Interrupt, syscall.SIGTERM)
		s.log.Info("ending: what runs has its time; a second signal ends it at once", zap.Duration("time", graceTime),
			zap.Duration("drain_delay", s.settings.server.DrainDelay))
		<-again
		os.Exit(1)
	}
}

// abandon ends without closing the card, whose library may never answer. What is on disk is still
// left in order.
func (s *service) abandon(err error) error {
	if left := make(chan error, 1); s.machine.leave != nil {
		go func() { left <- s.machine.leave() }()
		select {
		case <-left:
		case <-time.After(time.Second):
		}
	}
	if errors.Is(err, axcl.ErrTooOld) {
		return &exitError{code: exitUsage, err: err}
	}
	//rule:G10 TestHotCard exitLost => 1
	return &exitError{code: exitLost, err: err}
}

// close unloads the models and closes the card, as long as graceTime allows.
func (s *service) close(ctx context.Context) (err error) {
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
	defer cancel()
	closed := make(chan error, 1)
	go func() {
		err := s.server.Close(end)
		if s.library != nil {
			err = errors.Join(err, s.library.Close())
		}
		closed <- errors.Join(err, s.machine.close())
	}()
	select {
	case err = <-closed:
	case <-end.Done():
		err = errors.New("serve: the card did not let go in time")
	}
	s.log.Info("ended")
	return err
}

// lookEvery is how often a device that is not there is looked for. A module can be loaded and a
// library installed after the start. No request would look for the device then: while /health says
// that there is none, a proxy sends no requests.
const lookEvery = 15 * time.Second

// lookAgain opens the device until that succeeds, the device is lost, or ctx ends. open logs what
// it finds.
func lookAgain(ctx context.Context, open func() error) error {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		if err := open(); err == nil || errors.Is(err, axcl.ErrLost) || errors.Is(err, engine.ErrClosed) {
			return err
		}
	}
}

func isLoopback(a net.Addr) bool {
	host, _, _ := net.SplitHostPort(a.String())
	return net.ParseIP(host).IsLoopback()
}

// warnOpen warns of each listener that other machines reach without a key.
func warnOpen(log *zap.Logger, ln, vendor net.Listener) {
	if !isLoopback(ln.Addr()) {
		log.Warn("listening beyond this machine without keys: anyone who reaches this port may use, pull and delete models; see "+
			"--keys-file, --no-pull, --no-delete",
			zap.String("address", ln.Addr().String()))
	}
	if vendor != nil && !isLoopback(vendor.Addr()) {
		log.Warn("listening beyond this machine without keys: anyone who reaches this port may use models, and read and end the one "+
			"conversation there is; see --keys-file",
			zap.String("address", vendor.Addr().String()), zap.String("api", "vendor"))
	}
}

// hello says how to talk to the server; program is how it was started.
func hello(w io.Writer, program, line string, err error, url string) {
	if err == nil {
		fmt.Fprintf(w, "\nDevice: %s.\n", line)
	} else {
		fmt.Fprintf(w, "\nDevice: none: %v\n", err)
	}
	fmt.Fprintf(w, "\nThree ways to talk to it:\n\n  open   %s/ui\n  curl   curl %s/api/chat -d "+
		"'{\"model\":\"pocket\",\"messages\":[{\"role\":\"user\",\"content\":\"hello\"}]}'\n  chat   %s run pocket\n\n", url, url, program)
}
