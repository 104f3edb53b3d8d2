package server

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/request"
)

// standing is what the name in a Host header is to this server (promise T4).
//
// Rebinding needs a name that an attacker can register: a page under evil.example makes that name
// point here, and the browser takes our answers for the page's own. So a name that could be
// registered is answered only where it is configured. These are answered on every bind:
//
//   - addresses, which no name server can forge, and what every machine gives itself: localhost, what is under .localhost, its own name;
//   - single labels: no registry sells a name without a dot, and ICANN forbids its own to answer for one. A network's search domain
//     completes them, which its administrator chooses. A dot at the end would ask the root for them, so that a name with one is not
//     answered;
//   - .local (RFC 6762, asked of the wire), .internal (ICANN keeps it for networks of one's own), .home.arpa (RFC 8375), .lan (what home
//     routers call their network) and .svc (a service's name within a Kubernetes cluster): the root knows none of them, so no page of the
//     internet is under one.
//
// A container on Linux, a phone, or the machine next to this one has no other way here than such a
// name or an address.
//
// What is left is a machine on the same wire that answers a question for evil.local itself. Where
// we listen on that wire it gains nothing: it can speak to us without a browser, and where keys are
// set its page has none. On a loopback listener it would gain this machine's own browser, led to a
// page under evil.local that then points to 127.0.0.1. Programs cannot be led there; a page can,
// and its requests say that they come from a page of the name they ask for. There, and only there,
// such requests are refused (see rebound), so that machine gains nothing.
type standing int

const (
	foreign      standing = iota // a name that can be registered, or none at all
	unregistered                 // a name that cannot be registered
	own                          // localhost, this machine's name, or a configured one
	address
)

// unregistrable are the ends of names that no registry hands out.
var unregistrable = []string{".local", ".internal", ".lan", ".home.arpa", ".svc"}

// host says what a Host header is to us, and which name it has, without its port and in lower case.
func (g *guard) host(h string) (standing, string) {
	if strings.Contains(h, ":") { // else there is no port, and no error need be made to say so
		if name, port, err := net.SplitHostPort(h); err == nil {
			if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) {
				return foreign, ""
			}
			h = name
		}
	}
	h = strings.ToLower(h)
	if strings.ContainsAny(h, ".:") { // every address has one
		if a, err := netip.ParseAddr(strings.Trim(h, "[]")); err == nil {
			if a.Zone() != "" {
				return foreign, ""
			}
			return address, h
		}
	}
	switch {
	case h == "", h == "localhost", slices.Contains(g.hosts, h),
		g.self != "" && (h == g.self || h == g.self+".local" || h == g.short+".local"):
		return own, h
	case !isName(h):
		return foreign, ""
	case strings.HasSuffix(h, ".localhost"):
		return own, h
	case !strings.Contains(h, "."), slices.ContainsFunc(unregistrable, func(end string) bool { return strings.HasSuffix(h, end) }):
		return unregistered, h
	}
	//rule:T4 TestGuardMatrix foreign => own
	return foreign, h
}

// isName: h is labels of letters, digits, hyphens and (in services of a compose file) underscores,
// as DNS can carry them.
func isName(h string) bool {
	if len(h) > 253 {
		return false
	}
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// rebound: the request says that it comes from a page which has our own name, and no configured
// origin allows such a page. See [standing] for when that matters.
func (g *guard) rebound(r *http.Request) bool {
	if g.allows("http://"+r.Host) || g.allows("https://"+r.Host) {
		return false
	}
	for _, page := range []string{r.Header.Get("Origin"), r.Header.Get("Referer")} {
		if _, rest, ok := strings.Cut(page, "://"); ok {
			if at, _, _ := strings.Cut(rest, "/"); strings.EqualFold(at, r.Host) {
				return true
			}
		}
	}
	return r.Header.Get("Sec-Fetch-Site") == "same-origin"
}

// refuseHost answers a Host that is not allowed, and tells the log: a container that cannot come in
// shows its user nothing but our answer.
func (g *guard) refuseHost(w http.ResponseWriter, r *http.Request, name string) {
	text := "the Host header holds no name and no address that this server could answer to"
	if name != "" {
		text = fmt.Sprintf("this server does not answer to the name %q: start it with --allow-host %s, or AXLE_HOSTS=%s, to allow it",
			name, name, name)
	}
	if g.said.first("host " + name) {
		fields := []zap.Field{zap.String("host", request.Clip(r.Host)), zap.String("client", r.RemoteAddr)}
		if name != "" {
			fields = append(fields, zap.String("allow", "--allow-host "+name))
		}
		g.log.Warn("refused: the Host of a request is not allowed", fields...)
	}
	g.refuse(w, r, http.StatusForbidden, text)
}

// tellOrigin tells the log of a page that may not ask. The page itself could read no answer.
func (g *guard) tellOrigin(r *http.Request, from string) {
	if g.said.first("origin " + from) {
		g.log.Warn("refused: the Origin of a request is not allowed; OLLAMA_ORIGINS or --origins allows it",
			zap.String("origin", request.Clip(from)), zap.String("client", r.RemoteAddr))
	}
}

// refuse answers with an error in the dialect of the path.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, code int, text string) {
	d := request.DialectOf(g.dialects, r.URL.Path)
	w.Header().Set("Content-Type", d.ErrorType)
	w.WriteHeader(code)
	_, _ = w.Write(d.Error(nil, code, text))
}

// What the log says once of each thing, it says again after an hour; of more things than these it
// says nothing until then.
const (
	sayAgain = time.Hour
	mostSaid = 64
)

// teller keeps the log from saying the same of every request: who asks chooses the words, and how
// often. The zero value is ready.
type teller struct {
	mu    ranked.Mutex[ranked.Told]
	since time.Time
	said  map[string]bool
}

// first: this was not said within the last hour, and there is room to say it.
func (t *teller) first(what string) bool {
	what = request.Clip(what)
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.said == nil || now.Sub(t.since) >= sayAgain {
		t.since, t.said = now, map[string]bool{}
	}
	if t.said[what] || len(t.said) >= mostSaid {
		return false
	}
	t.said[what] = true
	return true
}
