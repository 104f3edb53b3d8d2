package server

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/openai"
	"github.com/axle-llm/axle/server/request"
)

// ServeMetrics answers /metrics, /health, /livez and /readyz on a port of its own, as Serve does
// the main one, and turns prompts into tokens: no key is asked for, no model answers or is loaded,
// and nothing can be changed there. What reads figures, or chooses among several servers, often has
// no way to send a key, and need not reach the API. TLS is not spoken.
func (s *Server) ServeMetrics(ctx context.Context, ln net.Listener, grace time.Duration) error {
	h := s.MetricsHandler(isLoopback(ln.Addr()))
	return s.serve(ctx, ln, grace, nil, func(context.Context) http.Handler { return h })
}

// MetricsHandler is what that port answers, on a listener that is loopback's or not.
func (s *Server) MetricsHandler(loopback bool) http.Handler {
	return s.guarded(loopback, nil, s.router(nil, s.monitored()), free(nil))
}

// monitored is every route of that port. A client that reaches it may see everything: it is the
// operator's.
func (s *Server) monitored() []route {
	var table []route
	for path, answer := range map[string]func(*request.Exchange){"/metrics": s.metricsPage, "/livez": s.live, "/readyz": s.ready,
		"/health": func(x *request.Exchange) { s.tellHealth(x, true) }} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			table = append(table, route{method, path, access.Anyone, plain, request.Handler(answer)})
		}
	}
	try, post := request.Try, func(path string, answer gin.HandlerFunc) {
		table = append(table, route{http.MethodPost, path, access.Anyone, worked, answer})
	}
	for _, r := range append(openai.Renders(), openai.Tokenizes()) {
		post(r.Path, try(s.answers.Tokens(r)))
	}
	post(openai.DetokenizePath, try(s.answers.Detokenize(openai.DecodeDetokenize, openai.Detokenized)))
	return table
}
