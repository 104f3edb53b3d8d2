package server

import (
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// guard is what stands before every handler: which hosts we answer to, which pages may ask, and
// with what key.
type guard struct {
	dialects []prompt.Dialect // of the errors
	loopback bool             // bound to a loopback address only
	hosts    []string         // configured names, lower case
	self     string           // this machine's name, lower case
	short    string           // its first label
	origins  []origin
	any      bool // OLLAMA_ORIGINS holds *
	keys     *access.Keys
	free     func(path string) bool         // paths that need no key, to look at them
	formed   func(method, path string) bool // routes whose key is not in the header: see formed
	log      *zap.Logger
	said     teller
	allow    func(path string) string // the methods that a path knows
	cross    *http.CrossOriginProtection
	write    time.Duration // longest a write may take
	read     time.Duration // longest we wait for a body that is not read
	node     string        // what Axle-Node says to those who may ask; "": it is not sent
	next     http.Handler
}

// newGuard takes the extra host names and origins that the configuration allows.
func newGuard(loopback bool, hosts, origins []string, keys *access.Keys, next http.Handler) *guard {
	g := &guard{loopback: loopback, keys: keys, free: free(nil), formed: formed(nil), log: zap.NewNop(), allow: methods(nil),
		cross: http.NewCrossOriginProtection(), next: next}
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
			before, after, star := strings.Cut(o, "*")
			g.origins = append(g.origins, origin{before, after, star})
		}
	}
	return g
}

// origin is an allowed origin with at most one star.
type origin struct {
	before, after string
	star          bool
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
	// Each answer has its own deadline: the last one's on this connection may be past. Before an
	// answer goes out, net/http reads what is left of the request's body, and would wait for it for
	// ever. Who reads a body sets a deadline of its own. Without a body there must be none: the
	// connection is watched while the answer is made, and a deadline there would end the answer.
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(g.write))
	//rule:T8 TestDeadlines false
	if r.ContentLength != 0 {
		_ = rc.SetReadDeadline(time.Now().Add(g.read))
	}
	who, name := g.host(r.Host)
	//rule:T4 TestRebound who == unregistered && g.loopback && g.rebound(r) => false
	//rule:T4 TestGuardMatrix who == foreign => false
	if who == foreign || who == unregistered && g.loopback && g.rebound(r) {
		g.refuseHost(w, r, name)
		return
	}
	from := r.Header.Get("Origin")
	sameOrigin := from != "" && (from == "http://"+r.Host || from == "https://"+r.Host)
	switch {
	case from == "" || sameOrigin:
		// No page, or one of our own. Fetch metadata may still say that a page elsewhere sent it.
		//rule:T5 TestCrossOrigin false
		if g.cross.Check(r) != nil {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if r.Method == http.MethodOptions && who != address && from == "" {
			g.allowed(w, r)
			w.WriteHeader(http.StatusNoContent)
			return
		}
	case !g.allows(from):
		g.tellOrigin(r, from)
		w.WriteHeader(http.StatusForbidden)
		return
	default:
		if g.cors(w, r, from) {
			return
		}
	}
	var key *access.Key
	if g.keys != nil {
		//rule:T6 TestKeys false
		if key = g.keys.Of(r); key == nil && !g.open(r) && !g.formed(r.Method, r.URL.Path) {
			g.unauthorized(w, r)
			return
		}
		if key != nil {
			r = r.WithContext(request.WithKey(r.Context(), key))
		}
	}
	if g.node != "" && (g.keys == nil || key != nil) { // who has no key need not know what machine this is
		w.Header().Set("Axle-Node", g.node)
	}
	g.next.ServeHTTP(w, r)
}

// open: the request needs no key.
func (g *guard) open(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && g.free(r.URL.Path)
}

// cors writes the headers for an allowed origin; true: it was a preflight, which is answered with
// that.
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
	g.allowed(w, r)
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

// allowed tells of a path's methods, as Ollama's router does before anything answers.
func (g *guard) allowed(w http.ResponseWriter, r *http.Request) {
	if m := g.allow(r.URL.Path); m != "" {
		w.Header().Set("Allow", m)
	}
}

func (g *guard) allows(from string) bool {
	//rule:T5 TestGuardMatrix g.any => true
	if g.any {
		return true
	}
	return slices.ContainsFunc(g.origins, func(o origin) bool { return o.match(from) })
}

// unauthorized answers a missing or wrong key in the dialect of the path.
func (g *guard) unauthorized(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="axle"`)
	g.refuse(w, r, http.StatusUnauthorized, noKey)
}

const noKey = "unauthorized: this server wants a key, as Authorization: Bearer KEY"

// isLoopback says whether a listener's address can be reached from this machine only.
func isLoopback(a net.Addr) bool {
	ap, err := netip.ParseAddrPort(a.String())
	return err != nil || ap.Addr().IsLoopback()
}
