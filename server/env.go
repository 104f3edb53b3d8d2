package server

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/axle-llm/axle/server/pool"
)

// Yes reads a switch: AXLE_name, or OLLAMA_name where that is not set. It is false where neither
// is.
func Yes(getenv func(string) string, name string) bool {
	_, v := Setting(getenv, name)
	return v != "" && ParseYes(v)
}

// Setting is what the environment says of a name: the value of AXLE_name, or of OLLAMA_name where
// that is not set, and the variable that has it; "" where neither is set.
func Setting(getenv func(string) string, name string) (variable, value string) {
	for _, prefix := range []string{"AXLE_", "OLLAMA_"} {
		if v := strings.Trim(strings.TrimSpace(getenv(prefix+name)), `"'`); v != "" {
			return prefix + name, v
		}
	}
	return "", ""
}

// ParseYes reads a switch: as in Ollama every word says yes that is not a word for no.
func ParseYes(v string) bool {
	b, err := strconv.ParseBool(v)
	return b || err != nil
}

// ParseKeepAlive reads a duration as Go writes it, or seconds; what is negative means for ever.
func ParseKeepAlive(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		n, nerr := strconv.ParseInt(v, 10, 64)
		if nerr != nil || n > int64(pool.Forever/time.Second) {
			return 0, fmt.Errorf("%q is not a duration such as 5m, nor a number of seconds", v)
		}
		d = time.Duration(max(n, -1)) * time.Second
	}
	if d < 0 {
		return pool.Forever, nil
	}
	return d, nil
}

// MaxDrainDelay is the longest that a server may go on after it was told to end. systemd waits 300
// seconds, the running answers' 30 included.
const MaxDrainDelay = 4 * time.Minute

// ParseDrainDelay reads how long work is still taken after the server was told to end: 0 to
// MaxDrainDelay.
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

// ParseNode reads a name for Axle-Node: 1 to 253 letters, digits, dots, hyphens and underscores, so
// that it is one word of a header and of a log.
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
	return "", fmt.Errorf("%q is neither axle (our names) nor vllm (some of them under vLLM's names too)", clip(v))
}

// ParseAddr reads the address of a port beside the API's: host:port or :port.
func ParseAddr(v string) (string, error) {
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

// ParseHost reads OLLAMA_HOST in its forms: host, :port, host:port, with or without a scheme and a
// path.
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
