package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/server"
)

func init() { register(newServeCmd) }

// exitLost is the exit code that tells a supervisor to start us again: the card was lost.
const exitLost = 75

// graceTime is how long running answers may take once we are told to end.
const graceTime = 30 * time.Second

// serveFlags are the flags of serve, which win over the environment.
type serveFlags struct {
	host, models, device, keepAlive, loadTimeout, keys, vendor string
	cacheDisk, cacheRAM                                        string
	paths, origins, hosts                                      []string
	parallel, maxLoaded, maxQueue, context                     int
	noPull, noDelete, debug, logPrompts, hello, noSpec         bool
	repeatable, allowBench                                     bool
	drafts                                                     map[string]string
}

func newServeCmd() *cobra.Command {
	var f serveFlags
	c := &cobra.Command{
		Use:     "serve",
		Aliases: []string{"start"},
		Short:   "Answer the Ollama, OpenAI and Anthropic APIs",
		Long: "Answer the Ollama, OpenAI and Anthropic APIs, on 127.0.0.1:11434 unless told otherwise.\n\n" +
			"Environment: AXLE_HOST, AXLE_DEVICE, AXLE_MODELS, AXLE_MODEL_PATH, AXLE_KEEP_ALIVE, AXLE_NUM_PARALLEL, " +
			"AXLE_MAX_LOADED_MODELS, AXLE_MAX_QUEUE,\n" +
			"AXLE_CONTEXT_LENGTH, AXLE_ORIGINS, AXLE_HOSTS, AXLE_LOAD_TIMEOUT, AXLE_DEBUG, AXLE_KEYS_FILE, AXLE_NO_PULL, " +
			"AXLE_NO_DELETE,\n" +
			"AXLE_ALLOW_BENCH, AXLE_CACHE_RAM, AXLE_NOPRUNE; the names that Ollama knows are read as OLLAMA_… too. Flags win over " +
			"AXLE_…, which wins over OLLAMA_….",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c.Context(), c, f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.host, "host", "", "address to listen on (host, :port or host:port)")
	fl.StringVar(&f.models, "models", "", "folder of the model store")
	fl.StringSliceVar(&f.paths, "model-path", nil, "folders that hold model packages, or are one")
	fl.StringVar(&f.device, "device", "", "device: auto, axcl, axcl:N, axengine, soft; several with commas hold a copy each, with "+
		"+ a part each")
	fl.StringVar(&f.keepAlive, "keep-alive", "", "how long an idle model stays loaded (5m; -1: for ever)")
	fl.StringVar(&f.loadTimeout, "load-timeout", "", "longest time to load a model")
	fl.IntVar(&f.parallel, "num-parallel", 0, "answers at once on each model")
	fl.IntVar(&f.maxLoaded, "max-loaded-models", 0, "most models loaded (0: as many as fit)")
	fl.IntVar(&f.maxQueue, "max-queue", 0, "most requests waiting")
	fl.IntVar(&f.context, "context-length", 0, "context of requests that do not say (0: the model's)")
	fl.StringSliceVar(&f.origins, "origins", nil, "further web origins to allow")
	fl.StringSliceVar(&f.hosts, "allow-host", nil, "further host names to answer to")
	fl.StringVar(&f.keys, "keys-file", "", "file of bearer keys, one a line; only they may ask")
	fl.BoolVar(&f.noPull, "no-pull", false, "refuse to pull models")
	fl.BoolVar(&f.noDelete, "no-delete", false, "refuse to delete models")
	fl.BoolVar(&f.allowBench, "allow-bench", false, "let clients start benchmarks, though others than this machine can ask")
	fl.StringVar(&f.cacheRAM, "cache-ram", "",
		"keep what has to leave the card in this machine's memory, up to this size for all models together (2GB); 0: do not\n"+
			"(default an eighth of the machine's memory, 4 GiB at most)")
	fl.StringVar(&f.cacheDisk, "cache-disk", "",
		"keep evaluated conversations on disk, in the store's folder, up to this size (20GB), also over restarts; 0: do not")
	fl.StringVar(&f.vendor, "vendor-api", "", "also answer the vendor's older API on this address (:8000)")
	fl.BoolVar(&f.noSpec, "no-speculate", false, "never guess tokens ahead")
	fl.BoolVar(&f.repeatable, "repeatable", false,
		"the same answers each time at temperature 0 or with a seed: one request at a time, nothing reused or guessed, slower")
	fl.StringToStringVar(&f.drafts, "draft", nil, "MODEL=FOLDER: a smaller package with the same vocabulary that guesses for MODEL")
	fl.BoolVar(&f.debug, "debug", false, "log more")
	fl.BoolVar(&f.logPrompts, "log-prompts", false, "write prompts to the log")
	fl.BoolVar(&f.hello, "hello", false, "say how to talk to the server once it listens")
	return c
}

// settings merges environment and flags.
func (f serveFlags) settings(c *cobra.Command, getenv func(string) string) (server.Env, error) {
	e, err := server.ReadEnv(getenv)
	if err != nil {
		return e, usageError("%w", err)
	}
	set := func(name string, do func() error) {
		if c.Flags().Changed(name) && err == nil {
			if err = do(); err != nil {
				err = usageError("--%s: %w", name, err)
			}
		}
	}
	set("host", func() (err error) { e.Host, err = server.ParseHost(f.host); return err })
	set("keep-alive", func() (err error) { e.KeepAlive, err = server.ParseKeepAlive(f.keepAlive); return err })
	set("load-timeout", func() (err error) { e.LoadTimeout, err = server.ParseKeepAlive(f.loadTimeout); return err })
	for _, n := range []struct {
		name string
		v    int
		to   *int
	}{{"num-parallel", f.parallel, &e.NumParallel}, {"max-loaded-models", f.maxLoaded, &e.MaxLoaded},
		{"max-queue", f.maxQueue, &e.MaxQueue}, {"context-length", f.context, &e.ContextLength}} {
		set(n.name, func() error {
			if n.v < 0 {
				return errors.New("must not be negative")
			}
			*n.to = n.v
			return nil
		})
	}
	set("keys-file", func() error { e.KeysFile = f.keys; return nil })
	e.Origins, e.Hosts = append(e.Origins, f.origins...), append(e.Hosts, f.hosts...)
	e.NoPull, e.NoDelete, e.Debug, e.AllowBench = e.NoPull || f.noPull, e.NoDelete || f.noDelete, e.Debug || f.debug, e.AllowBench ||
		f.allowBench
	return e, err
}

// newLog writes JSON lines to w: whatever a client sends, each event stays one line. Nothing is kept back, so nothing is synced at the
// end: that can take a disk seconds.
func newLog(w io.Writer, debug bool) *zap.Logger {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.RFC3339TimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	level := zapcore.InfoLevel
	if debug {
		level = zapcore.DebugLevel
	}
	// What libraries say through slog would come out in another form: it is not ours to show.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(cfg), zapcore.Lock(zapcore.AddSync(&plain.Writer{W: w})), level))
}

func serve(ctx context.Context, c *cobra.Command, f serveFlags) error {
	e, err := f.settings(c, os.Getenv)
	if err != nil {
		return err
	}
	log := newLog(os.Stderr, e.Debug)
	var keys *server.Keys
	if e.KeysFile != "" {
		if keys, err = server.LoadKeys(e.KeysFile); err != nil {
			return err
		}
	}
	cacheDisk, err := parseSize(cmp.Or(f.cacheDisk, "0"))
	if err != nil {
		return usageError("--cache-disk: %w", err)
	}
	cacheRAM, err := ramSize(f.cacheRAM, os.Getenv, os.DirFS("/"))
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", e.Host)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("serve: %w: another server is running there; --host or AXLE_HOST chooses another address", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("serve: %w: ports below 1024 are the system's; --host or AXLE_HOST chooses another address", err)
	case err != nil:
		return fmt.Errorf("serve: %w; --host or AXLE_HOST chooses another address", err)
	}
	var vendorLn net.Listener
	if f.vendor != "" {
		addr := f.vendor
		if strings.HasPrefix(addr, ":") {
			addr = "127.0.0.1" + addr
		}
		if vendorLn, err = net.Listen("tcp", addr); err != nil {
			return errors.Join(fmt.Errorf("serve: --vendor-api: %w", err), ln.Close())
		}
	}
	// Losing the card ends the process within seconds, whatever the library's threads do (promise D7).
	lost := make(chan error, 1)
	var s *server.Server // made before anything opens a card
	r, err := newMachine(machineOptions{cacheDisk: cacheDisk, cacheRAM: cacheRAM,
		ending: ctx.Done(), device: f.device, models: f.models, paths: f.paths, parallel: e.NumParallel,
		maxQueue: e.MaxQueue, log: log, prune: true, noSpec: f.noSpec, repeatable: f.repeatable, drafts: f.drafts,
		lost: func(err error) {
			select {
			case lost <- err:
			default:
			}
		},
		fewer:   func(err error) { s.SetFewer(err) },
		loading: func(p engine.Progress) { s.Loading(p) }})
	if err != nil {
		return errors.Join(err, ln.Close())
	}
	loopback := isLoopback(ln.Addr())
	if keys == nil {
		warnOpen(log, ln, vendorLn)
	}
	s = server.New(r.store, r.loader, r.puller, server.Options{Version: ollamaVersion, Hosts: e.Hosts, Origins: e.Origins,
		Loopback: loopback, Keys: keys,
		NoPull: e.NoPull, NoDelete: e.NoDelete, Bench: e.AllowBench, KeepAlive: e.KeepAlive, MaxLoaded: e.MaxLoaded, MaxQueue: e.MaxQueue,
		LoadTimeout:   e.LoadTimeout,
		ContextLength: e.ContextLength, LogPrompts: f.logPrompts, Log: log})
	log.Info("listening", zap.String("address", ln.Addr().String()), zap.String("version", version), zap.String("models", r.store.Dir()))
	run, stop := context.WithCancel(ctx)
	defer stop()
	// The card is opened now, not with the first request: what is wrong with it is said at the start (promise D1).
	go func() {
		line, err := r.hello()
		if err != nil {
			log.Error("no device to run on", zap.Error(err))
		}
		if errors.Is(err, axcl.ErrLost) {
			s.SetLost(err) // no request will find it any better
		}
		if f.hello {
			hello(os.Stdout, os.Args[0], line, err, server.ClientURL(ln.Addr().String()))
		}
		if err != nil {
			err = lookAgain(run, func() error { _, err := r.hello(); return err })
			if errors.Is(err, axcl.ErrLost) {
				s.SetLost(err)
			}
		}
	}()
	go func() {
		select {
		case err := <-lost:
			s.SetLost(err)
		case <-run.Done():
			again := make(chan os.Signal, 1)
			signal.Notify(again, os.Interrupt, syscall.SIGTERM)
			log.Info("ending: what runs has its time; a second signal ends it at once", zap.Duration("time", graceTime))
			<-again
			os.Exit(1)
		}
	}()
	vendorDone := make(chan error, 1)
	if vendorLn != nil {
		log.Info("listening", zap.String("address", vendorLn.Addr().String()), zap.String("api", "vendor"))
		go func() { vendorDone <- s.ServeVendor(run, vendorLn, graceTime) }()
	} else {
		vendorDone <- nil
	}
	err = s.Serve(run, ln, graceTime)
	stop()
	if s.Lost() != nil {
		// The disk is not the card: what is on it was left in order.
		if left := make(chan error, 1); r.leave != nil {
			go func() { left <- r.leave() }()
			select {
			case <-left:
			case <-time.After(time.Second):
			}
		}
		return &exitError{code: exitLost, err: err} // nothing is closed: the library may never answer
	}
	<-vendorDone
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
	defer cancel()
	closed := make(chan error, 1)
	go func() { closed <- errors.Join(s.Close(end), r.close()) }()
	var cerr error
	select {
	case cerr = <-closed:
	case <-end.Done():
		cerr = errors.New("serve: the card did not let go in time")
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	log.Info("ended")
	return errors.Join(err, cerr)
}

// lookEvery is how often a device that is not there is looked for. A module can be loaded and a library installed after we have started,
// and while health says that there is no device a supervisor sends no request that would look for it.
const lookEvery = 15 * time.Second

// lookAgain opens the device until that succeeds, it was lost, or ctx ends. Who opens it tells of it.
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

// warnOpen says of each listener that others than this machine reach it, where nobody is asked for a key.
func warnOpen(log *zap.Logger, ln, vendor net.Listener) {
	if !isLoopback(ln.Addr()) {
		log.Warn("listening beyond this machine without keys: whoever reaches this port may use, pull and delete models; see "+
			"--keys-file, --no-pull, --no-delete",
			zap.String("address", ln.Addr().String()))
	}
	if vendor != nil && !isLoopback(vendor.Addr()) {
		log.Warn("listening beyond this machine without keys: whoever reaches this port may use models, and read and end the one "+
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
