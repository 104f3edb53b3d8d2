package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"
	"go.uber.org/zap"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/vad"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/answer"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/conversations"
	"github.com/axle-llm/axle/server/documents"
	"github.com/axle-llm/axle/server/manage"
	"github.com/axle-llm/axle/server/mcp"
	"github.com/axle-llm/axle/server/monitor"
	"github.com/axle-llm/axle/server/peers"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/request"
)

// Options are a server's settings. The zero value of each field is a sound default, told beside it.
type Options struct {
	Version       string          // the Ollama whose API is answered, which /api/version says; "": 0.34.4
	Release       string          // axle's own version, which the Wyoming port says; "": none is said
	Hosts         []string        // further Host names to answer to
	Origins       []string        // further origins to allow, as OLLAMA_ORIGINS
	Loopback      bool            // the listener is reachable from this machine only
	Keys          *access.Keys    // who may ask; nil: everyone
	TLS           *Certificate    // what is shown to clients; nil: TLS is not spoken
	NoPull        bool            // pull is refused
	NoDelete      bool            // delete is refused
	Bench         bool            // benchmarks may be started though other machines can ask; with Loopback they always may
	KeepAlive     time.Duration   // of models whose requests do not say; 0: they go at once
	MaxLoaded     int             // most models loaded; 0: as many as fit
	MaxQueue      int             // most requests waiting for a load; 0: 512
	LoadTimeout   time.Duration   // longest load; 0: 5 minutes
	ContextLength int             // num_ctx where a request has none; 0: the model's
	WriteTimeout  time.Duration   // longest one write may take; 0: 30 s
	ReadTimeout   time.Duration   // longest a request's body may take; 0: 60 s
	HeaderTimeout time.Duration   // longest a request's header may take, and a body that is not read; 0: 10 s
	IdleTimeout   time.Duration   // longest a connection may have nothing to ask; 0: 2 minutes
	MaxConns      int             // most connections at once; 0: 1024
	MaxPerClient  int             // most connections of one address, this machine's excepted; 0: a quarter of MaxConns
	LogPrompts    bool            // write prompts to the log
	Log           *zap.Logger     // nil: none
	Lost          func(error)     // called once when the card is lost
	DrainDelay    time.Duration   // how long a server that was told to end still takes work, while /readyz already says 503; 0: not at all
	Ending        func()          // called once when no more work is taken
	Node          string          // what the header Axle-Node of answers says; "": there is none
	Measure       monitor.Measure // how a benchmark measures a model; nil: none can be started
	WyomingModel  string          // what satellites ask that name no model; "": the first that hears
	WyomingVoices string          // the model whose voices satellites are offered first; "": the first that speaks
	Detector      string          // the model that finds things in pictures where a request names none; "": the first that does
	VAD           *vad.Silero     // finds speech in what comes to /v1/realtime; nil: its level does
	Tools         *mcp.Tools      // servers whose tools are run; nil: there are none. Close does not close them
	AllowMCP      bool            // tools are run for everyone, though other machines can ask and there are no keys
	Rows          *peers.Server   // gives rows to other servers; nil: none are given
	Peers         *peers.Peers    // other servers, to tell what they do; nil: there are none. Close does not close them
	VLLM          bool            // /metrics repeats what balancers ask for under vLLM's names

	Conversations *conversations.Room // that devices share; nil: none are kept
	Documents     documents.Options   // files and vector stores; without a library none are kept
}

// Server answers requests. See the package comment.
type Server struct {
	o       Options
	store   catalog.Store
	models  *pool.Models
	manager *manage.Manager
	answers *answer.Answers
	shared  *request.Shared
	log     *zap.Logger
	metrics *metrics
	handler http.Handler
	started time.Time

	leaving  atomic.Bool  // told to end: who leads requests here is to lead them elsewhere
	draining atomic.Bool  // no more work is taken
	full     atomic.Bool  // /readyz said "nearly full", and nothing has changed since
	refused  sync.Once    // for Ending
	warm     sync.Map     // device to *atomic.Bool: the log says that it is hot
	late     sync.Map     // of models and a detector: the log says that pictures are late beside them
	active   atomic.Int64 // answers that run
	rooms    atomic.Int64 // connections of satellites
	calls    atomic.Int64 // sessions of the Realtime API
	lost     atomic.Pointer[error]
	lostOnce sync.Once
	fewer    atomic.Pointer[[]string] // with which errors cards were lost while others go on

	views *monitor.Views
	docs  *documents.Documents
}

// New makes a server over a store and a loader. puller may be nil: then nothing can be pulled.
func New(st catalog.Store, loader pool.Loader, puller catalog.Puller, o Options) *Server {
	o.Version, o.MaxQueue = cmp.Or(o.Version, "0.34.4"), cmp.Or(o.MaxQueue, 512)
	o.WriteTimeout, o.ReadTimeout = above(o.WriteTimeout, 30*time.Second), above(o.ReadTimeout, 60*time.Second)
	o.HeaderTimeout, o.IdleTimeout = above(o.HeaderTimeout, 10*time.Second), above(o.IdleTimeout, 2*time.Minute)
	o.MaxConns = above(o.MaxConns, 1024)
	o.MaxPerClient = above(o.MaxPerClient, max(o.MaxConns/4, 1))
	o.Log = cmp.Or(o.Log, zap.NewNop())
	o.Conversations = cmp.Or(o.Conversations, &conversations.Room{})
	s := &Server{o: o, store: st, log: o.Log, metrics: newMetrics(), started: time.Now()}
	s.fewer.Store(new([]string))
	s.shared = &request.Shared{Dialects: dialects(), ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, LogPrompts: o.LogPrompts,
		Log: o.Log, OnFailure: s.lookLost}
	s.models = pool.New(loader, pool.Options{KeepAlive: o.KeepAlive, MaxLoaded: o.MaxLoaded, MaxQueue: o.MaxQueue,
		LoadTimeout: o.LoadTimeout, Handed: func(model string, n ask.Handed, err error) {
			o.Log.Info("conversations were handed over", zap.String("model", model), zap.Int("conversations", n.Texts),
				zap.Int("blocks_to_disk", n.Saved), zap.Int("blocks_sent", n.Sent), zap.Error(err))
		}})
	s.manager = manage.New(manage.Options{Store: st, Loaded: s.models, Puller: puller, NoPull: o.NoPull, NoDelete: o.NoDelete,
		ContextLength: o.ContextLength})
	s.answers = answer.New(answer.Options{Store: st, Loaded: s.models, Shared: s.shared, ContextLength: o.ContextLength,
		Detector: o.Detector})
	o.Documents.Log, o.Documents.Models = o.Log, helpers{s}
	s.docs = documents.New(o.Documents)
	kept := ""
	if dir := st.Dir(); dir != "" {
		kept = filepath.Join(dir, "bench")
	}
	s.views = monitor.New(monitor.Options{Store: st, Loaded: s.models, Keys: o.Keys != nil, Loopback: o.Loopback, Bench: o.Bench,
		CanPull: puller != nil && !o.NoPull, Results: kept, Measure: o.Measure,
		State: s.state, Fewer: func() []string { return *s.fewer.Load() }, Rate: s.answers.Figures.PerSecond})
	table := s.table()
	g := s.guarded(o.Loopback, o.Keys, s.router(nil, table), free(table))
	g.formed = formed(table)
	s.handler = g
	return s
}

// above is n where it is more than 0, else def.
func above[N int | time.Duration](n, def N) N {
	if n > 0 {
		return n
	}
	return def
}

// guarded puts the guard before a router; free says which paths need none of the keys. The
// multiplexer between them cleans paths as net/http does.
func (s *Server) guarded(loopback bool, keys *access.Keys, h *gin.Engine, free func(path string) bool) *guard {
	mux := http.NewServeMux()
	mux.Handle("/", h)
	g := newGuard(loopback, s.o.Hosts, s.o.Origins, keys, mux)
	g.dialects = s.shared.Dialects
	g.allow, g.free, g.node = methods(h.Routes()), free, s.o.Node
	g.log, g.write, g.read = s.log, s.o.WriteTimeout, s.o.HeaderTimeout
	return g
}

// Handler is the API of the main port.
func (s *Server) Handler() http.Handler { return s.handler }

// Loading takes note of how far a model is on its way to the card.
func (s *Server) Loading(p ask.Progress) { s.views.Loading(p) }

// IndexDocuments takes up what was not indexed when the server last ended, in the background.
func (s *Server) IndexDocuments(ctx context.Context) { s.docs.Start(ctx) }

// Loaded lists the models that are loaded, the one that stays longest first.
func (s *Server) Loaded() []pool.Running { return s.models.Loaded() }

// Limits of the listener (promises T7 and T8).
const (
	maxHeader      = 64 << 10
	lostCheckEvery = 100 * time.Millisecond
	lostLinger     = time.Second             // how long a server that lost its card still says so
	lostLast       = 2500 * time.Millisecond // and then who still waits for its error: the process is to be gone within five seconds
	drainLinger    = 250 * time.Millisecond
)

// Serve answers on ln until ctx ends, goes on for Options.DrainDelay while /readyz says 503
// already, then lets what runs finish for as long as grace says, and ends the rest with an error.
// It returns nil after an orderly end, axcl.ErrLost's error when the card was lost, or the
// listener's error. It does not unload models: Close does.
func (s *Server) Serve(ctx context.Context, ln net.Listener, grace time.Duration) error {
	return s.serve(ctx, ln, grace, s.o.TLS, func(context.Context) http.Handler { return s.handler })
}

// serve is Serve with the handler that h makes, and TLS unless shown is nil. What h is given ends
// when the grace is over.
func (s *Server) serve(ctx context.Context, ln net.Listener, grace time.Duration, shown *Certificate,
	h func(context.Context) http.Handler) error {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	srv := &http.Server{
		Addr:           ln.Addr().String(), // for who asks how to reach it
		Handler:        h(base),
		MaxHeaderBytes: maxHeader,
		//rule:T8 TestDeadlines drop
		ReadHeaderTimeout: s.o.HeaderTimeout,
		IdleTimeout:       s.o.IdleTimeout,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          zap.NewStdLog(s.log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))),
	}
	failed := make(chan error, 1)
	limited := newLimitListener(ln, s.o.MaxConns, s.o.MaxPerClient, tooMany)
	go func() {
		if shown == nil {
			failed <- srv.Serve(limited)
			return
		}
		srv.TLSConfig = shown.config()
		srv.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){} // see config
		failed <- srv.ServeTLS(limited, "", "")
	}()
	err := s.until(ctx, grace, failed, cancel, func(limit time.Duration) {
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer stop()
		if srv.Shutdown(last) != nil {
			_ = srv.Close()
		}
	})
	cancel(request.ErrDrained)
	s.hangUp() // net/http has forgotten these connections
	return err
}

// until waits for the end of a listener, as Serve does: failed has the error of what accepts
// connections, cancel ends what still runs after the grace, and shut closes the listener and its
// connections within a limit.
func (s *Server) until(ctx context.Context, grace time.Duration, failed <-chan error, cancel context.CancelCauseFunc,
	shut func(limit time.Duration)) error {
	tick := time.NewTicker(lostCheckEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			s.leave(tick.C)
			// New work is refused, /health says so, and what runs gets its time.
			s.refuse()
			//rule:D10 TestDrain s.active.Load() > 0 => false
			for end := time.Now().Add(grace); s.active.Load() > 0 && time.Now().Before(end) && s.Lost() == nil; {
				<-tick.C
				s.LookAtCards()
			}
			cancel(request.ErrDrained) // what still runs ends with an error
			//rule:D10 TestDrainDoor drop
			<-time.After(drainLinger) // who asks anew as an answer ends is told, and not cut off
			shut(time.Second)
			<-failed
			return s.Lost()
		case <-tick.C:
			s.LookAtCards()
			if err := s.Lost(); err != nil {
				// The streams have ended or end now with the engine's error. The door stays open
				// for a moment, so that new requests and /health are told what is the matter
				// instead of finding no server.
				s.refuse()
				<-time.After(lostLinger)
				shut(lostLast)
				<-failed
				return err
			}
		}
	}
}

// Close unloads every model, waiting as long as ctx allows.
func (s *Server) Close(ctx context.Context) error {
	s.refuse()
	s.docs.Close()
	s.views.Close()
	return s.models.Close(ctx)
}

// Lost is the error the card was lost with, or nil.
func (s *Server) Lost() error {
	if p := s.lost.Load(); p != nil {
		return *p
	}
	return nil
}

// LookAtCards notes a card that was lost while no request ran on it, one that has become hot or
// cool, and models beside which detections are late. It is called again and again while the server
// serves.
func (s *Server) LookAtCards() {
	models := s.models.Loaded()
	s.lookHeat(models)
	s.lookPieces(models)
	for _, r := range models {
		if r.Stats.State == "lost" {
			s.SetLost(&axcl.Error{Op: "watchdog", Layer: axcl.NoLayer, Kind: axcl.ErrLost})
		}
	}
}

// state is how the server is: ok, starting, draining, lost or no device, and with which error.
func (s *Server) state() (string, error) {
	err, none := s.Lost(), s.models.Failed()
	switch {
	case err != nil:
		return "lost", err
	case s.leaving.Load(), s.draining.Load():
		return "draining", nil
	//rule:D1 TestNoDevice false
	case none != nil:
		return "no device", none
	case s.models.Opening():
		return "starting", nil
	}
	return "ok", nil
}

// SetLost notes that the card is gone: health says so, and Serve ends.
func (s *Server) SetLost(err error) {
	s.lostOnce.Do(func() {
		s.lost.Store(&err)
		if errors.Is(err, axcl.ErrTooOld) {
			s.log.Error("the card cannot be used with this runtime; starting again does not help", zap.Error(err))
		} else {
			s.log.Error("the card was lost; the process must be restarted", zap.Error(err))
		}
		if s.o.Lost != nil {
			go s.o.Lost(err)
		}
	})
}

// SetFewer notes that a card is gone while others go on: health and the metrics say so.
func (s *Server) SetFewer(err error) {
	s.log.Error("a card was lost, the others go on; restart the server to have it back", zap.Error(err))
	for {
		old := s.fewer.Load()
		if s.fewer.CompareAndSwap(old, new(append(slices.Clip(*old), err.Error()))) {
			return
		}
	}
}
