package server

import (
	"net/http"

	"github.com/axle-llm/axle/server/exchange"
	"github.com/axle-llm/axle/server/ui"
)

// page is the one page for people.
func (s *Server) page(x *exchange.Exchange) {
	h := x.Writer.Header()
	h.Set("Content-Security-Policy", ui.Policy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	x.Reply().Whole(http.StatusOK, "text/html; charset=utf-8", ui.Page())
}
