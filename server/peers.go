package server

import (
	"net/http"
	"time"

	"github.com/axle-llm/axle/server/request"
)

// peerPath is where other servers fetch rows, and hand them over.
const peerPath = "/rows/:package/:name"

// peerRows answers another server. It is no work that the orderly end waits for, and goes on while
// the server drains: that is when rows are wanted. A server that ends takes nothing over.
func (s *Server) peerRows(x *request.Exchange) {
	r := x.Request
	if s.o.Rows == nil {
		x.Drain(time.Now().Add(request.DrainTime))
		x.Fail(request.Error(http.StatusNotFound, "this server gives no rows to others: see --peers and --rows-secret in docs/cluster.md"))
		return
	}
	if r.Method == http.MethodPut && s.leaving.Load() {
		x.Header("Connection", "close")
		x.Fail(request.Error(http.StatusServiceUnavailable, "this server is ending: it takes no rows"))
		return
	}
	if err := s.o.Rows.Answer(x.Writer, r, x.Param("package")+"/"+x.Param("name")); err != nil {
		x.Log.Error = err.Error()
	}
}
