package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
)

func init() { register(newServeCmd) }

// serveFlags are the flags of serve, which win over the environment.
type serveFlags struct {
	host, models, device, keepAlive, loadTimeout, keys, vendor string
	cacheDisk, cacheRAM                                        string
	paths, origins, hosts                                      []string
	parallel, maxLoaded, maxQueue, context                     int
	noPull, noDelete, debug, logPrompts, hello, noSpec         bool
	repeatable, allowBench                                     bool
	tlsCert, tlsKey                                            string
	tlsSelf                                                    bool
	drafts                                                     map[string]string
	drainDelay, node, metrics, metricsAddr                     string
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
			"AXLE_TLS_CERT, AXLE_TLS_KEY, AXLE_TLS_SELF_SIGNED, " +
			"AXLE_DRAIN_DELAY, AXLE_NODE, AXLE_METRICS, AXLE_METRICS_ADDR,\n" +
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
	fl.StringVar(&f.keys, "keys-file", "", "file of bearer keys, one a line; only they may ask (axle key makes them)")
	fl.StringVar(&f.tlsCert, "tls-cert", "", "file of the certificate to speak TLS with, and those that vouch for it; read again on SIGHUP")
	fl.StringVar(&f.tlsKey, "tls-key", "", "file of its private key")
	fl.BoolVar(&f.tlsSelf, "tls-self-signed", false, "speak TLS with a certificate that the server makes for itself and keeps")
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
	fl.StringVar(&f.drainDelay, "drain-delay", "",
		"how long work is still taken after SIGTERM, while /readyz and /health say 503 already (5s): for a proxy in front;\n"+
			"a second signal ends the server at once (default 0; 5s in the package)")
	fl.StringVar(&f.node, "node", "", "what the header Axle-Node of answers says (default the machine's name; \"\": it is not sent)")
	fl.StringVar(&f.metrics, "metrics", "axle", "names in /metrics: axle; vllm repeats what balancers ask for under vLLM's names")
	fl.StringVar(&f.metricsAddr, "metrics-addr", "",
		"also serve /metrics, /health, /livez and /readyz on this address (:9091), without the API, its keys and TLS")
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
	set("drain-delay", func() (err error) { e.DrainDelay, err = server.ParseDrainDelay(f.drainDelay); return err })
	if e.Node == "" {
		if name, herr := os.Hostname(); herr == nil {
			e.Node, _ = server.ParseNode(name) // a name that is no word is not sent
		}
	}
	set("node", func() (err error) {
		if e.Node = f.node; f.node != "" {
			e.Node, err = server.ParseNode(f.node)
		}
		return err
	})
	set("metrics", func() (err error) { e.Metrics, err = server.ParseMetrics(f.metrics); return err })
	set("metrics-addr", func() (err error) {
		if e.MetricsAddr = f.metricsAddr; f.metricsAddr != "" {
			e.MetricsAddr, err = server.ParseMetricsAddr(f.metricsAddr)
		}
		return err
	})
	set("keys-file", func() error { e.KeysFile = f.keys; return nil })
	set("tls-cert", func() error { e.TLSCert = f.tlsCert; return nil })
	set("tls-key", func() error { e.TLSKey = f.tlsKey; return nil })
	set("tls-self-signed", func() error { e.TLSSelfSigned = f.tlsSelf; return nil })
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
	o := serviceOptions{env: e, vendor: f.vendor, logPrompts: f.logPrompts, hello: f.hello, log: newLog(os.Stderr, e.Debug),
		runsOn: machineOptions{device: f.device, models: f.models, paths: f.paths, parallel: e.NumParallel, maxQueue: e.MaxQueue,
			prune: true, noSpec: f.noSpec, repeatable: f.repeatable, drafts: f.drafts}}
	if e.KeysFile != "" {
		if o.keys, err = access.Load(e.KeysFile); err != nil {
			return err
		}
	}
	switch {
	case (e.TLSCert == "") != (e.TLSKey == ""):
		return usageError("--tls-cert and --tls-key (AXLE_TLS_CERT, AXLE_TLS_KEY) go together")
	case e.TLSCert != "" && e.TLSSelfSigned:
		return usageError("--tls-self-signed is for a server that has no certificate: leave out --tls-cert and --tls-key, or it")
	case e.TLSCert != "":
		if o.tls, err = server.LoadCertificate(e.TLSCert, e.TLSKey); err != nil {
			return err
		}
	}
	if o.runsOn.cacheDisk, err = parseSize(cmp.Or(f.cacheDisk, "0")); err != nil {
		return usageError("--cache-disk: %w", err)
	}
	if o.runsOn.cacheRAM, err = ramSize(f.cacheRAM, os.Getenv, os.DirFS("/")); err != nil {
		return err
	}
	return runService(ctx, o)
}
