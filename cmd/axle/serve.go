package main

import (
	"context"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/axle-llm/axle/internal/plain"
	"github.com/axle-llm/axle/internal/ram"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
)

func init() { register(newServeCmd) }

func newServeCmd() *cobra.Command {
	var given flags
	c := &cobra.Command{
		Use:     "serve",
		Aliases: []string{"start"},
		Short:   "Answer the Ollama, OpenAI and Anthropic APIs",
		Long: `Serve answers the Ollama, OpenAI and Anthropic APIs, on 127.0.0.1:11434 unless
told otherwise.

Each setting is a flag, or the variable in brackets behind it. A flag wins over
AXLE_…, and AXLE_… wins over OLLAMA_…: serve also reads Ollama's variables.`,
		Example: `  axle serve
  axle serve --host :11434 --keys-file /etc/axle/keys
  AXLE_CACHE_RAM=2GB axle serve`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := readSettings(os.Getenv, &given)
			if err != nil {
				return err
			}
			return serve(c.Context(), s)
		},
	}
	given.add(c.Flags())
	return c
}

// newLog writes JSON lines to w: each event stays one line, whatever a client sends. It does not
// buffer, so there is nothing to sync at the end, which can take a disk seconds.
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

// serve runs a server as the settings say, until ctx ends or the card is lost.
func serve(ctx context.Context, s settings) (err error) {
	o := serviceOptions{settings: s, log: newLog(os.Stderr, s.debug)}
	if s.keysFile != "" {
		if o.keys, err = access.Load(s.keysFile); err != nil {
			return err
		}
	}
	switch {
	case (s.tlsCert == "") != (s.tlsKey == ""):
		return usageError("--tls-cert and --tls-key (AXLE_TLS_CERT, AXLE_TLS_KEY) go together")
	case s.tlsCert != "" && s.tlsSelf:
		return usageError("--tls-self-signed is for a server that has no certificate: leave out --tls-cert and --tls-key, or it")
	case s.tlsCert != "":
		if o.tls, err = server.LoadCertificate(s.tlsCert, s.tlsKey); err != nil {
			return err
		}
	}
	if o.runsOn.cacheRAM < 0 {
		total, _ := ram.Of(os.DirFS("/"))
		o.runsOn.cacheRAM = ramShare(total)
	}
	return runService(ctx, o)
}
