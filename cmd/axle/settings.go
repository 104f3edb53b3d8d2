package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/pool"
)

// This file is the table of the settings of `axle serve`. A row is all that is said of a setting:
// its flag, its variable, its default, what it does, and how its value is read. The flags, their
// help, the environment, packaging/axle.env and docs/settings.md come from the table. To add a
// setting, add a row and the field that it sets.

// settings is what a server is told.
type settings struct {
	server      server.Options // what the server takes as it is
	runsOn      machineOptions
	host        string // host:port to listen on
	vendor      string // address of the vendor's older API; "": it is not answered
	wyoming     string // address of the Wyoming protocol for recognition; "": it is not answered
	wyomingSay  string // and for synthesis
	mdns        bool   // announce both on the local network
	immich      string // address of Immich's machine-learning service; "": it is not answered
	metricsAddr string // address of metrics and health apart from the API; "": there is none
	events      eventSettings
	chats       chatSettings
	documents   documentSettings
	mcp         mcpSettings
	keysFile    string
	tlsCert     string
	tlsKey      string
	tlsSelf     bool
	vad         string // file of the net that finds speech; "": there is none
	debug       bool
	preload     []string // models to load at the start
	hello       bool     // say how to talk to the server once it listens
}

// setting is a row of the table.
type setting struct {
	flag     string
	variable string // without AXLE_; "": the flag's name in capitals
	kind     string // what the value is, in help: "address"; "": a switch
	def      string // the default as it is told; the field's value before anything is read is the true one
	text     string // what it does: the first line of help
	more     string // further lines, for help and docs/settings.md
	example  string // in axle.env; "": the default
	packaged string // in docs/settings.md: the package's own default, where that is another
	many     bool   // the flag adds to what the variable says
	read     func(s *settings, v string) error

	// everywhere: not only the server reads the variable, so it is read where the folder or the
	// card is chosen, in one place for every command.
	everywhere bool
	flagOnly   bool // it has no variable: what it does is for who starts the server by hand
}

// table is every setting, in the order of the documentation.
var table = []setting{
	{flag: "host", kind: "address", def: "127.0.0.1:11434", text: "address to listen on: host, :port or host:port",
		more:    "Anything but loopback can be reached from your network: give the server a file of keys too.",
		example: "127.0.0.1:11434",
		read:    as(func(s *settings) *string { return &s.host }, server.ParseHost)},
	{flag: "keys-file", kind: "file", text: "file of bearer keys, one a line; only clients that send one of them are answered",
		more:    "Its mode is 0600 and the server's user owns it. `axle key add` makes keys. It is read again on SIGHUP.",
		example: "/etc/axle/keys",
		read:    text(func(s *settings) *string { return &s.keysFile })},
	{flag: "allow-host", variable: "HOSTS", kind: "names", text: "further host names to answer to", example: "ai.example.org", many: true,
		read: list(func(s *settings) *[]string { return &s.server.Hosts })},
	{flag: "origins", kind: "origins", text: "further web origins to allow", example: "https://example.org", many: true,
		read: list(func(s *settings) *[]string { return &s.server.Origins })},
	{flag: "tls-cert", kind: "file", text: "file of the TLS certificate and its chain; read again on SIGHUP",
		example: "/etc/axle/cert.pem", read: text(func(s *settings) *string { return &s.tlsCert })},
	{flag: "tls-key", kind: "file", text: "file of the certificate's private key", example: "/etc/axle/key.pem",
		read: text(func(s *settings) *string { return &s.tlsKey })},
	{flag: "tls-self-signed", text: "speak TLS with a certificate that the server makes for itself and keeps",
		read: yes(func(s *settings) *bool { return &s.tlsSelf })},

	{flag: "models", kind: "folder", text: "folder of the model store", example: "/var/lib/axle/models", everywhere: true,
		read: text(func(s *settings) *string { return &s.runsOn.models })},
	{flag: "model-path", kind: "folders", text: "folders that are or contain model packages; nothing is copied",
		more:    "In the variable, colons separate the folders, as in PATH.",
		example: "/opt/models", everywhere: true, many: true,
		read: list(func(s *settings) *[]string { return &s.runsOn.paths })},
	{flag: "device", kind: "device", def: "auto", text: "the card: auto, axcl, axcl:N, axengine or soft",
		more:       "With commas (axcl:0,axcl:1) each card holds a copy of the model; with + (axcl:0+axcl:1) each holds a part.",
		everywhere: true,
		read:       text(func(s *settings) *string { return &s.runsOn.device })},
	{flag: "draft", kind: "model=draft",
		text:    "a smaller model with the same vocabulary that guesses tokens for a model; a draft is a name or a folder",
		example: "qwen3:4b=qwen3:0.6b", many: true,
		read: func(s *settings, v string) error {
			for pair := range strings.SplitSeq(v, ",") {
				name, draft, ok := strings.Cut(strings.TrimSpace(pair), "=")
				if !ok || name == "" || draft == "" {
					return fmt.Errorf("%q is not MODEL=DRAFT", clip(pair))
				}
				if s.runsOn.drafts == nil {
					s.runsOn.drafts = map[string]string{}
				}
				s.runsOn.drafts[name] = draft
			}
			return nil
		}},

	{flag: "keep-alive", kind: "duration", def: "5m", text: "how long an idle model stays loaded; -1: for ever",
		read: as(func(s *settings) *time.Duration { return &s.server.KeepAlive }, server.ParseKeepAlive)},
	{flag: "preload", kind: "models", text: "models to load at the start, in this order; they stay until others need the memory",
		more: "A model for which another of them would have to go is left out, with a line in the log. `axle plan MODEL --with A,B` " +
			"computes whether models fit on a card together.",
		example: "qwen3:1.7b,sensevoice", many: true, read: list(func(s *settings) *[]string { return &s.preload })},
	{flag: "load-timeout", kind: "duration", def: "5m", text: "longest time to load a model; 0: for ever",
		read: func(s *settings, v string) (err error) {
			if s.server.LoadTimeout, err = server.ParseKeepAlive(v); s.server.LoadTimeout == 0 {
				s.server.LoadTimeout = pool.Forever // as in Ollama
			}
			return err
		}},
	{flag: "num-parallel", kind: "number", def: "0", text: "how many answers each model generates at once; 0: as many as suit the model",
		read: number(func(s *settings) *int { return &s.runsOn.parallel })},
	{flag: "max-loaded-models", kind: "number", def: "0", text: "how many models may be loaded at once; 0: as many as fit",
		read: number(func(s *settings) *int { return &s.server.MaxLoaded })},
	{flag: "max-queue", kind: "number", def: "512", text: "how many requests may wait for their turn",
		read: number(func(s *settings) *int { return &s.server.MaxQueue })},
	{flag: "context-length", kind: "number", def: "0", text: "context, in tokens, of requests that do not say one; 0: the model's",
		read: number(func(s *settings) *int { return &s.server.ContextLength })},
	{flag: "cache-ram", kind: "size",
		text:    "keep conversations that have to leave the card in this machine's memory, up to this size in all; 0: none",
		more:    "The default is an eighth of the machine's memory, 4 GiB at most.",
		example: "1GB", read: as(func(s *settings) *int64 { return &s.runsOn.cacheRAM }, parseSize)},
	{flag: "cache-disk", kind: "size", def: "0",
		text: "keep evaluated conversations on disk, in the store's folder, up to this size; 0: none",
		more: "They outlive a restart.", example: "20GB", read: as(func(s *settings) *int64 { return &s.runsOn.cacheDisk }, parseSize)},
	{flag: "documents", kind: "folder", def: "documents in the store's folder",
		text: "folder of the documents that people add to be searched, and of their indexes; none: no documents are kept",
		more: "Its mode becomes 0700. Each key has its own; SECURITY.md says what is kept.", example: "/var/lib/axle/documents",
		read: text(func(s *settings) *string { return &s.documents.folder })},
	{flag: "documents-size", kind: "size", def: "2GB", text: "how much of the disk the documents of one key may take, indexes included",
		example: "10GB", read: as(func(s *settings) *int64 { return &s.documents.limits.Bytes }, parseLimit)},
	{flag: "documents-file", kind: "size", def: "64MB", text: "how large a document may be; 64MB at most",
		example: "16MB", read: as(func(s *settings) *int64 { return &s.documents.limits.File }, parseFileLimit)},
	{flag: "rows", kind: "folder", text: "folder of the conversations on disk; by default rows in the store's folder",
		more:    "Several servers may share it: each continues what the others evaluated. `axle cache` reads AXLE_ROWS too.",
		example: "/srv/axle-rows", read: text(func(s *settings) *string { return &s.runsOn.rows })},
	{flag: "rows-secret", kind: "file", text: "file of a secret, the same on several servers, which then find each other's conversations",
		more: "It holds 32 or more random bytes, or a line of 64 or more hexadecimal digits (`openssl rand -hex 32`). Its mode is 0600 " +
			"and the server's user owns it. By default each folder of rows has a secret of its own.",
		example: "/etc/axle/rows-secret", read: text(func(s *settings) *string { return &s.runsOn.rowsSecret })},
	{flag: "peers", kind: "servers", text: "other servers whose evaluated conversations this one fetches, and which may fetch its own",
		more: "With --rows-secret and --cache-disk, on all of them. A server is HOST, HOST:PORT or https://HOST:PORT. A server that ends " +
			"hands its conversations over to one of them. docs/cluster.md says how.",
		example: "board-2,board-3", many: true, read: list(func(s *settings) *[]string { return &s.runsOn.peers })},
	{flag: "peers-ca", kind: "file", text: "certificates (PEM) of who vouches for peers of https; by default those that the system trusts",
		example: "/etc/axle/peers.pem", read: text(func(s *settings) *string { return &s.runsOn.peersCA })},
	{flag: "rows-objects", kind: "place",
		text: "an object store with the S3 API where evaluated conversations are also kept, and looked for",
		more: "With --rows-secret and --cache-disk. docs/cluster.md has its form. Its keys are those of AWS_ACCESS_KEY_ID and " +
			"AWS_SECRET_ACCESS_KEY, or of the file AWS_SHARED_CREDENTIALS_FILE.",
		example: "s3://axle/rows?endpoint=https://nas:3900&region=garage",
		read:    text(func(s *settings) *string { return &s.runsOn.objects })},
	{flag: "no-speculate", text: "never guess tokens ahead", read: yes(func(s *settings) *bool { return &s.runsOn.noSpec })},
	{flag: "repeatable", text: "give the same answers each time at temperature 0 or with a seed",
		more: "One request runs at a time, and nothing is reused or guessed: it is slower.",
		read: yes(func(s *settings) *bool { return &s.runsOn.repeatable })},

	{flag: "head", kind: "place", def: "auto", text: "where LM heads are computed: auto, card or host",
		more: "auto takes the card or this machine's processor, whichever is quicker for a pass. It needs a model whose embedding table " +
			"is also the head's matrix, and keeps a file of that in the store's folder.",
		example: "card", read: as(func(s *settings) *engine.HeadPlace { return &s.runsOn.head }, engine.ParseHead)},

	{flag: "no-pull", text: "refuse to pull models", read: yes(func(s *settings) *bool { return &s.server.NoPull })},
	{flag: "no-delete", text: "refuse to delete models", read: yes(func(s *settings) *bool { return &s.server.NoDelete })},
	{flag: "no-prune", variable: "NOPRUNE", text: "keep what unfinished pulls left behind",
		read: yes(func(s *settings) *bool { return &s.runsOn.noPrune })},
	{flag: "allow-bench", text: "let clients start benchmarks, even where the server listens beyond this machine",
		read: yes(func(s *settings) *bool { return &s.server.Bench })},

	{flag: "mcp", kind: "file", text: "file of MCP servers whose tools are run: for the page, and where a request asks",
		more: "Its form is that of other programs: {\"mcpServers\": {…}}; docs/tools.md says how. Its mode is 0600 and the server's user " +
			"owns it. It is read again on SIGHUP.",
		example: "/etc/axle/mcp.json", read: text(func(s *settings) *string { return &s.mcp.file })},
	{flag: "mcp-socket", kind: "socket", packaged: "/run/axle-mcp.socket",
		text:    "the Unix socket behind which systemd starts MCP servers as another user; empty: axle starts them itself",
		example: "/run/axle-mcp.socket", read: text(func(s *settings) *string { return &s.mcp.socket })},
	{flag: "allow-mcp", text: "run tools for everyone, even where the server listens beyond this machine without keys",
		read: yes(func(s *settings) *bool { return &s.server.AllowMCP })},

	{flag: "drain-delay", kind: "duration", def: "0", packaged: "5s",
		text: "how long the server still takes work after SIGTERM, while /readyz and /health say 503; 4m at most",
		more: "It is for a proxy in front. A second signal ends the server at once.", example: "5s",
		read: as(func(s *settings) *time.Duration { return &s.server.DrainDelay }, server.ParseDrainDelay)},
	{flag: "node", kind: "name", text: "what the header Axle-Node of answers says; empty: it is not sent",
		more: "The default is the machine's name.", example: "board-1",
		read: as(func(s *settings) *string { return &s.server.Node }, orNone(server.ParseNode))},
	{flag: "metrics", kind: "names", def: "axle", text: "names in /metrics: axle, or vllm",
		more: "With vllm, the metrics that load balancers read also appear under vLLM's names.",
		read: func(s *settings, v string) error {
			names, err := server.ParseMetrics(v)
			s.server.VLLM = names == "vllm"
			return err
		}},
	{flag: "metrics-addr", kind: "address",
		text:    "also serve /metrics, /health, /livez and /readyz on this address, without the API, its keys and TLS",
		example: "127.0.0.1:9091",
		read:    as(func(s *settings) *string { return &s.metricsAddr }, orNone(server.ParseAddr))},
	{flag: "kv-events", kind: "address",
		text: "tell a router which texts the caches hold: vLLM's events over ZeroMQ, on this address and the next port",
		more: "The events have the tokens of everything that people write, in clear. Beyond loopback, --kv-events-allow says who may " +
			"connect. docs/cluster.md says how.",
		example: "127.0.0.1:5557",
		read:    as(func(s *settings) *string { return &s.events.addr }, orNone(server.ParseAddr))},
	{flag: "kv-events-allow", kind: "networks", text: "addresses and networks that may connect to the port of --kv-events",
		example: "10.0.0.7,10.0.1.0/24", many: true,
		read: func(s *settings, v string) error { return s.events.parseNetworks(v) }},
	{flag: "wyoming", kind: "address",
		text:    "also write speech down for voice satellites on this address: the Wyoming protocol, without keys and TLS",
		more:    "Home Assistant dials it; docs/home-assistant.md says how. Everyone who reaches the port may have speech written down.",
		example: ":10300",
		read:    as(func(s *settings) *string { return &s.wyoming }, orNone(server.ParseAddr))},
	{flag: "wyoming-model", kind: "model",
		text: "the model that writes down what satellites and sessions of /v1/realtime send, where they name none",
		more: "The default is the first model that hears, by name.", example: "sensevoice",
		read: text(func(s *settings) *string { return &s.server.WyomingModel })},
	{flag: "wyoming-say", kind: "address",
		text:    "also speak for voice satellites on this address: the Wyoming protocol, without keys and TLS",
		more:    "It may be the address of --wyoming, which then answers both. Everyone who reaches the port may have text spoken.",
		example: ":10200",
		read:    as(func(s *settings) *string { return &s.wyomingSay }, orNone(server.ParseAddr))},
	{flag: "wyoming-say-model", kind: "model",
		text: "the model that speaks for satellites and sessions of /v1/realtime, where they name no voice of another",
		more: "The default is the first model that speaks, by name.", example: "kokoro",
		read: text(func(s *settings) *string { return &s.server.WyomingVoices })},
	{flag: "mdns", text: "announce the ports of --wyoming and --wyoming-say on the local network, so that Home Assistant finds them",
		more: "By multicast DNS, over IPv4. Everyone on the network learns of them. A port of 127.0.0.1 is not announced.",
		read: yes(func(s *settings) *bool { return &s.mdns })},
	{flag: "immich", kind: "address",
		text:    "also answer as Immich's machine-learning service on this address, without keys and TLS",
		more:    "Immich dials it; docs/immich.md says how. Everyone who reaches the port may have vectors made and faces found.",
		example: ":3003",
		read:    as(func(s *settings) *string { return &s.immich }, orNone(server.ParseAddr))},
	{flag: "vad", kind: "file", text: "file of the net Silero VAD, version 5 or 6, which finds speech in what comes to /v1/realtime",
		more:    "Without it speech is what is louder than the noise. Some packages of recognisers have the file, Qwen3-ASR for one.",
		example: "silero_vad.onnx", read: text(func(s *settings) *string { return &s.vad })},
	{flag: "detector", kind: "model", text: "the model that finds things in pictures where a request names none",
		more: "The default is the first model that does, by name.", example: "yolo11s",
		read: text(func(s *settings) *string { return &s.server.Detector })},
	{flag: "vendor-api", kind: "address", text: "also answer the vendor's older API on this address", example: ":8000",
		read: text(func(s *settings) *string { return &s.vendor })},
	{flag: "conversations", kind: "folder", text: "keep the page's conversations in this folder, for those who switch it on in the page",
		more: "Phone and PC see the same ones then, each key its own. They are kept in clear, for the server's user only. " +
			"docs/conversations.md says how.",
		example: "/var/lib/axle/conversations", read: text(func(s *settings) *string { return &s.chats.dir })},
	{flag: "conversations-size", kind: "size", def: "1GiB", text: "most that the conversations of one key may take",
		example: "1GiB", read: as(func(s *settings) *int64 { return &s.chats.size }, parseChatSize)},
	{flag: "debug", text: "log more", read: yes(func(s *settings) *bool { return &s.debug })},
	{flag: "log-prompts", text: "write prompts to the log", read: yes(func(s *settings) *bool { return &s.server.LogPrompts })},
	{flag: "hello", text: "print how to talk to the server once it listens", flagOnly: true,
		read: yes(func(s *settings) *bool { return &s.hello })},
}

// env is the name of a setting's variable, without AXLE_ or OLLAMA_.
func (r setting) env() string {
	switch {
	case r.flagOnly:
		return ""
	case r.variable != "":
		return r.variable
	}
	return strings.ToUpper(strings.ReplaceAll(r.flag, "-", "_"))
}

// defaults are the settings of a server that is told nothing.
func defaults() settings {
	s := settings{host: "127.0.0.1:11434", server: server.Options{KeepAlive: 5 * time.Minute, LoadTimeout: 5 * time.Minute, MaxQueue: 512},
		runsOn: machineOptions{cacheRAM: -1}}
	if name, err := os.Hostname(); err == nil {
		s.server.Node, _ = server.ParseNode(name) // a name that is no word is not sent
	}
	return s
}

// readSettings reads the environment through getenv (os.Getenv), and then the flags that were
// given. What cannot be read is an error that names the variable or the flag: a server that ignored
// its settings would be worse than one that does not start.
func readSettings(getenv func(string) string, given *flags) (settings, error) {
	s := defaults()
	for _, r := range table {
		if name := r.env(); name != "" && !r.everywhere {
			if variable, v := server.Setting(getenv, name); v != "" {
				if err := r.read(&s, v); err != nil {
					return s, usageError("%s: %w", variable, err)
				}
			}
		}
		if given == nil {
			continue
		}
		for _, v := range given.values[r.flag] {
			if err := r.read(&s, v); err != nil {
				return s, usageError("--%s: %w", r.flag, err)
			}
		}
	}
	s.runsOn.maxQueue = s.server.MaxQueue
	return s, nil
}

// flags are the values that a command line gives, by the setting's name.
type flags struct{ values map[string][]string }

// add gives a command the table's flags.
func (f *flags) add(to *pflag.FlagSet) {
	f.values = map[string][]string{}
	for _, r := range table {
		about := r.text
		if r.more != "" {
			about += ".\n" + strings.TrimSuffix(r.more, ".")
		}
		if name := r.env(); name != "" {
			about += " [AXLE_" + name + "]"
		}
		about = strings.ReplaceAll(about, "`", "'") // pflag takes what is in backquotes for the value's name
		v := to.VarPF(&flagValue{f, r}, r.flag, "", about)
		if v.DefValue = r.def; r.kind == "" {
			v.DefValue, v.NoOptDefVal = "false", "true"
		}
	}
}

// flagValue is a flag of the table.
type flagValue struct {
	to  *flags
	row setting
}

func (v *flagValue) String() string { return "" }

func (v *flagValue) Type() string {
	if v.row.kind == "" {
		return "bool"
	}
	return v.row.kind
}

// Set keeps the value; it is read where the environment is.
func (v *flagValue) Set(s string) error {
	if v.row.kind == "" {
		if _, err := strconv.ParseBool(s); err != nil {
			return fmt.Errorf("%q is neither true nor false", clip(s))
		}
	}
	if !v.row.many {
		v.to.values[v.row.flag] = nil
	}
	v.to.values[v.row.flag] = append(v.to.values[v.row.flag], s)
	return nil
}

func text(at func(*settings) *string) func(*settings, string) error {
	return func(s *settings, v string) error { *at(s) = v; return nil }
}

// yes reads a switch as Ollama does: every word says yes that is not a word for no.
func yes(at func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, v string) error { *at(s) = server.ParseYes(v); return nil }
}

func number(at func(*settings) *int) func(*settings, string) error {
	return func(s *settings, v string) error {
		n, err := strconv.ParseUint(v, 10, 31)
		if err != nil {
			return fmt.Errorf("%q is not a number from 0 to 2147483647", clip(v))
		}
		*at(s) = int(n)
		return nil
	}
}

// as is a setting that parse understands.
func as[T any](at func(*settings) *T, parse func(string) (T, error)) func(*settings, string) error {
	return func(s *settings, v string) (err error) { *at(s), err = parse(v); return err }
}

// orNone is parse of a value that may also be empty.
func orNone(parse func(string) (string, error)) func(string) (string, error) {
	return func(v string) (string, error) {
		if v == "" {
			return "", nil
		}
		return parse(v)
	}
}

// list reads what has commas between, and adds it.
func list(at func(*settings) *[]string) func(*settings, string) error {
	return func(s *settings, v string) error {
		for e := range strings.SplitSeq(v, ",") {
			if e = strings.TrimSpace(e); e != "" {
				*at(s) = append(*at(s), e)
			}
		}
		return nil
	}
}

func clip(v string) string { return v[:min(len(v), 300)] }
