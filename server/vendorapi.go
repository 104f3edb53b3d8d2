package server

import (
	"context"
	"net"
	"net/http"
	"time"
)

// ServeVendor answers the vendor's older API on a port of its own, as Serve does the main one.
func (s *Server) ServeVendor(ctx context.Context, ln net.Listener, grace time.Duration) error {
	return s.serve(ctx, ln, s.guarded(s.vendorRoutes()), grace)
}

func (s *Server) vendorRoutes() http.Handler { return http.NotFoundHandler() }
