package server

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axle-llm/axle/server/ollama"
)

// guard is what stands before every handler: which hosts we answer to, which pages may ask, and with what key.
type guard struct {
	loopback bool     // bound to a loopback address only
	hosts    []string // configured names, lower case
	self     string   // this machine's name, lower case
	short    string   // its first label
	origins  []origin
	any      bool // OLLAMA_ORIGINS holds *
	keys     *Keys
	cross    *http.CrossOriginProtection
	write    time.Duration // longest a write may take
	read     time.Duration // longest we wait for a body that nobody reads
	next     http.Handler
}

// newGuard takes the extra host names and origins that the configuration allows.
func newGuard(loopback bool, hosts, origins []string, keys *Keys, next http.Handler) *guard {
	g := &guard{loopback: loopback, keys: keys, cross: http.NewCrossOriginProtection(), next: next}
	for _, h := range hosts {
		g.hosts = append(g.hosts, strings.ToLower(strings.TrimSpace(h)))
	}
	if name, err := os.Hostname(); err == nil {
		g.self = strings.ToLower(name)
		g.short, _, _ = strings.Cut(g.self, ".")
	}
	for _, h := range []string{"localhost", "127.0.0.1", "0.0.0.0"} {
		origins = append(origins, "http://"+h, "https://"+h, "http://"+h+":*", "https://"+h+":*")
	}
	origins = append(origins, "app://*", "file://*", "tauri://*", "vscode-webview://*", "vscode-file://*")
	for _, o := range origins {
		if o = strings.TrimSpace(o); o == "*" {
			g.any = true
		} else if o != "" {
			g.origins = append(g.origins, newOrigin(o))
		}
	}
	return g
}

// containerHosts are the names that Docker, Podman, Lima, OrbStack and minikube give the machine they run on.
var containerHosts = []string{"host.docker.internal", "gateway.docker.internal", "host.containers.internal", "host.lima.internal", "host.orb.internal", "host.minikube.internal"}

// origin is an allowed origin with at most one star.
type origin struct {
	before, after string
	star          bool
}

func newOrigin(s string) origin {
	var o origin
	o.before, o.after, o.star = strings.Cut(s, "*")
	return o
}

func (o origin) match(s string) bool {
	if !o.star {
		return s == o.before
	}
	return len(s) >= len(o.before)+len(o.after) && strings.HasPrefix(s, o.before) && strings.HasSuffix(s, o.after)
}

// The headers of CORS as Ollama gives them.
const (
	corsMethods = "GET,POST,PUT,PATCH,DELETE,HEAD,OPTIONS"
	corsHeaders = "Authorization,Content-Type,User-Agent,Accept,X-Requested-With,Openai-Beta,X-Stainless-Arch,X-Stainless-Async," +
		"X-Stainless-Custom-Poll-Interval,X-Stainless-Helper-Method,X-Stainless-Lang,X-Stainless-Os,X-Stainless-Package-Version," +
		"X-Stainless-Poll-Helper,X-Stainless-Retry-Count,X-Stainless-Runtime,X-Stainless-Runtime-Version,X-Stainless-Timeout"
	corsMaxAge = "43200"
)

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Each answer has its own deadline: the last one's on this connection may be past. Before an answer goes out, net/http reads what is left
	// of the request's body, and would wait for it for ever. Who reads a body sets a deadline of its own. Without a body there must be none:
	// the connection is watched while the answer is made, and a deadline there would end the answer.
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(g.write))
	if r.ContentLength != 0 {
		_ = rc.SetReadDeadline(time.Now().Add(g.read))
	}
	host, named := g.host(r.Host)
	if !host {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	from := r.Header.Get("Origin")
	sameOrigin := from != "" && (from == "http://"+r.Host || from == "https://"+r.Host)
	switch {
	case from == "" || sameOrigin:
		// No page, or one of our own. Fetch metadata may still say that a page elsewhere sent it.
		if g.cross.Check(r) != nil {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if r.Method == http.MethodOptions && named && from == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
	case !g.allows(from):
		w.WriteHeader(http.StatusForbidden)
		return
	default:
		if g.cors(w, r, from) {
			return
		}
	}
	if name, ok := g.keys.Check(r); !ok {
		unauthorized(w, r)
		return
	} else if name != "" {
		r = r.WithContext(withKey(r.Context(), name))
	}
	g.next.ServeHTTP(w, r)
}

// cors writes the headers for an allowed origin; true: it was a preflight, which is answered with that.
func (g *guard) cors(w http.ResponseWriter, r *http.Request, from string) bool {
	h := w.Header()
	if g.any {
		h.Set("Access-Control-Allow-Origin", "*")
	} else {
		h.Set("Access-Control-Allow-Origin", from)
		h.Add("Vary", "Origin")
	}
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", corsHeaders)
	h.Set("Access-Control-Max-Age", corsMaxAge)
	if !g.any {
		h.Add("Vary", "Access-Control-Request-Method")
		h.Add("Vary", "Access-Control-Request-Headers")
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

func (g *guard) allows(from string) bool {
	if g.any {
		return true
	}
	for _, o := range g.origins {
		if o.match(from) {
			return true
		}
	}
	return false
}

// host says whether a Host header may be answered, and whether it is a name rather than an address. The list is always in force (a page
// anywhere can make its own name point here): addresses, which no name server can forge, localhost, this machine's name and its .local
// form, and what is configured; on loopback also the names that containers have for their host. Ollama answers to every name under .local and
// .internal there, which a device of the local network can make its own: it answers a question for evil.local with 127.0.0.1.
func (g *guard) host(h string) (ok, named bool) {
	if name, port, err := net.SplitHostPort(h); err == nil {
		if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
			return false, false
		}
		h = name
	}
	h = strings.ToLower(h)
	if a, err := netip.ParseAddr(strings.Trim(h, "[]")); err == nil {
		return a.Zone() == "", false
	}
	switch {
	case h == "", h == "localhost", strings.HasSuffix(h, ".localhost"):
	case g.self != "" && (h == g.self || h == g.self+".local" || h == g.short+".local"):
	case g.loopback && slices.Contains(containerHosts, h):
	default:
		for _, name := range g.hosts {
			if h == name {
				return true, true
			}
		}
		return false, false
	}
	return true, true
}

// unauthorized answers a missing or wrong key in the dialect of the path.
func unauthorized(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="axle"`)
	const text = "unauthorized: this server wants a key, as Authorization: Bearer KEY"
	body, kind := ollama.ErrorBody(text), jsonNative
	if strings.HasPrefix(r.URL.Path, "/v1/") {
		body, kind = dialectError(r.URL.Path, http.StatusUnauthorized, text), jsonV1
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(http.StatusUnauthorized)
	_, _ = w.Write(body)
}

// isLoopback says whether a listener's address can be reached from this machine only.
func isLoopback(a net.Addr) bool {
	ap, err := netip.ParseAddrPort(a.String())
	return err != nil || ap.Addr().IsLoopback()
}
