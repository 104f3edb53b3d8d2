package server

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/axle-llm/axle/server/loaded"
)

// Env are the settings that the environment gives: AXLE_X, or OLLAMA_X where that is not set.
type Env struct {
	Host          string // host:port to listen on
	KeepAlive     time.Duration
	LoadTimeout   time.Duration
	NumParallel   int
	MaxLoaded     int
	MaxQueue      int
	ContextLength int
	Origins       []string
	Hosts         []string
	Debug         bool
	KeysFile      string
	TLSCert       string
	TLSKey        string
	TLSSelfSigned bool
	NoPull        bool
	NoDelete      bool
	AllowBench    bool
	DrainDelay    time.Duration // how long work is still taken after SIGTERM, while /readyz says 503
	Node          string        // what Axle-Node says; "": the machine's name
	Metrics       string        // whose names /metrics has next to ours: "" or "vllm"
	MetricsAddr   string        // host:port to serve metrics and health on, apart from the API; "": nowhere
}

// ReadEnv reads the settings through getenv (os.Getenv). What cannot be read is an error that names the variable: a server that ignored
// its settings would be worse than one that does not start.
func ReadEnv(getenv func(string) string) (Env, error) {
	e := Env{Host: "127.0.0.1:11434", KeepAlive: 5 * time.Minute, LoadTimeout: 5 * time.Minute, MaxQueue: 512}
	var firstErr error
	get := func(name string, set func(v string) error) {
		variable, v := setting(getenv, name)
		if v == "" {
			return
		}
		if err := set(v); err != nil && firstErr == nil {
			firstErr = fmt.Errorf("server: %s: %w", variable, err)
		}
	}
	number := func(to *int) func(string) error {
		return func(v string) error {
			n, err := strconv.ParseUint(v, 10, 31)
			if err != nil {
				return fmt.Errorf("%q is not a number from 0 to 2147483647", v)
			}
			*to = int(n)
			return nil
		}
	}
	duration := func(to *time.Duration) func(string) error {
		return func(v string) (err error) { *to, err = ParseKeepAlive(v); return err }
	}
	boolean := func(to *bool) func(string) error {
		return func(v string) error { *to = yes(v); return nil }
	}
	list := func(to *[]string) func(string) error {
		return func(v string) error {
			for s := range strings.SplitSeq(v, ",") {
				if s = strings.TrimSpace(s); s != "" {
					*to = append(*to, s)
				}
			}
			return nil
		}
	}
	text := func(to *string) func(string) error { return func(v string) error { *to = v; return nil } }
	get("HOST", func(v string) (err error) { e.Host, err = ParseHost(v); return err })
	get("KEEP_ALIVE", duration(&e.KeepAlive))
	get("LOAD_TIMEOUT", duration(&e.LoadTimeout))
	get("NUM_PARALLEL", number(&e.NumParallel))
	get("MAX_LOADED_MODELS", number(&e.MaxLoaded))
	get("MAX_QUEUE", number(&e.MaxQueue))
	get("CONTEXT_LENGTH", number(&e.ContextLength))
	get("ORIGINS", list(&e.Origins))
	get("HOSTS", list(&e.Hosts))
	get("DEBUG", boolean(&e.Debug))
	get("KEYS_FILE", text(&e.KeysFile))
	get("TLS_CERT", text(&e.TLSCert))
	get("TLS_KEY", text(&e.TLSKey))
	get("TLS_SELF_SIGNED", boolean(&e.TLSSelfSigned))
	get("NO_PULL", boolean(&e.NoPull))
	get("NO_DELETE", boolean(&e.NoDelete))
	get("ALLOW_BENCH", boolean(&e.AllowBench))
	get("DRAIN_DELAY", func(v string) (err error) { e.DrainDelay, err = ParseDrainDelay(v); return err })
	get("NODE", func(v string) (err error) { e.Node, err = ParseNode(v); return err })
	get("METRICS", func(v string) (err error) { e.Metrics, err = ParseMetrics(v); return err })
	get("METRICS_ADDR", func(v string) (err error) { e.MetricsAddr, err = ParseMetricsAddr(v); return err })
	if e.LoadTimeout == 0 {
		e.LoadTimeout = loaded.Forever // as in Ollama
	}
	return e, firstErr
}

// Yes reads a switch that is not in Env: AXLE_name, or OLLAMA_name where that is not set. It is false where neither is.
func Yes(getenv func(string) string, name string) bool {
	_, v := setting(getenv, name)
	return v != "" && yes(v)
}

// Setting is the value of AXLE_name, or of OLLAMA_name where that is not set; "" where neither is.
func Setting(getenv func(string) string, name string) string {
	_, v := setting(getenv, name)
	return v
}

// setting is what the environment says of a name, and the variable that says it.
func setting(getenv func(string) string, name string) (variable, value string) {
	for _, prefix := range []string{"AXLE_", "OLLAMA_"} {
		if v := strings.Trim(strings.TrimSpace(getenv(prefix+name)), `"'`); v != "" {
			return prefix + name, v
		}
	}
	return "", ""
}

// yes: v means yes. As in Ollama every word does that is not a word for no.
func yes(v string) bool {
	b, err := strconv.ParseBool(v)
	return b || err != nil
}

// ParseKeepAlive reads a duration as Go writes it, or seconds; what is negative means for ever.
func ParseKeepAlive(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		n, nerr := strconv.ParseInt(v, 10, 64)
		if nerr != nil || n > int64(loaded.Forever/time.Second) {
			return 0, fmt.Errorf("%q is not a duration such as 5m, nor a number of seconds", v)
		}
		d = time.Duration(max(n, -1)) * time.Second
	}
	if d < 0 {
		return loaded.Forever, nil
	}
	return d, nil
}

// MaxDrainDelay is the longest that a server may go on after it was told to end. systemd waits 300 seconds, the running answers' 30
// included.
const MaxDrainDelay = 4 * time.Minute

// ParseDrainDelay reads how long work is still taken after the server was told to end: 0 to MaxDrainDelay.
func ParseDrainDelay(v string) (time.Duration, error) {
	d, err := ParseKeepAlive(v)
	if err != nil {
		return 0, err
	}
	if d > MaxDrainDelay { // also what is negative
		return 0, fmt.Errorf("%q is not from 0 to 4m", v)
	}
	return d, nil
}

// ParseNode reads a name for Axle-Node: 1 to 253 letters, digits, dots, hyphens and underscores, so that it is one word of a header and of
// a log.
func ParseNode(v string) (string, error) {
	if v == "" || len(v) > 253 || strings.Trim(v, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") != "" {
		return "", fmt.Errorf("%q is no name of 1 to 253 letters, digits, dots, hyphens and underscores", clip(v))
	}
	return v, nil
}

// ParseMetrics reads whose names /metrics has next to ours.
func ParseMetrics(v string) (string, error) {
	switch v {
	case "axle":
		return "", nil
	case "vllm":
		return v, nil
	}
	return "", fmt.Errorf("%q is neither axle (our names) nor vllm (some of them under vLLM's names besides)", clip(v))
}

// ParseMetricsAddr reads where metrics are served apart from the API: host:port or :port.
func ParseMetricsAddr(v string) (string, error) {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return "", fmt.Errorf("%q is not host:port or :port, such as :9091", clip(v))
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", fmt.Errorf("%q is no port (0 to 65535)", clip(port))
	}
	return net.JoinHostPort(host, port), nil
}

func clip(v string) string { return v[:min(len(v), 300)] }

// ParseHost reads OLLAMA_HOST in its forms: host, :port, host:port, with or without a scheme and a path.
func ParseHost(v string) (string, error) {
	port := "11434"
	scheme, rest, ok := strings.Cut(v, "://")
	switch {
	case !ok:
		rest = v
	case scheme == "http":
		port = "80"
	case scheme == "https":
		port = "443"
	default:
		return "", fmt.Errorf("%q begins with an unknown scheme", v)
	}
	rest, _, _ = strings.Cut(rest, "/")
	host, p, err := net.SplitHostPort(rest)
	if err != nil {
		host, p = strings.Trim(rest, "[]"), port
	}
	if host == "" && rest == "" {
		host = "127.0.0.1"
	}
	if n, err := strconv.ParseUint(p, 10, 16); err != nil {
		return "", fmt.Errorf("%q is no port (0 to 65535)", p)
	} else {
		p = strconv.FormatUint(n, 10)
	}
	return net.JoinHostPort(host, p), nil
}

// ClientURL is where a client on this machine reaches a server that listens on hostport.
func ClientURL(hostport string) string {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return "http://" + hostport
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if host = "127.0.0.1"; ip != nil && ip.To4() == nil {
			host = "::1"
		}
	}
	return "http://" + net.JoinHostPort(host, port)
}
