package server

import (
	"time"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// Room is how many bytes of large bodies are held.
func (s *Server) Room() int64 { return s.shared.Large() }

// InFlight is how many requests are being answered.
func (s *Server) InFlight() int64 { return s.metrics.inFlight.Load() }

// Route is a route as tests see it.
type Route struct{ Method, Path, Role string }

// Routes are those of the main port, and those of the vendor's.
func (s *Server) Routes() (main, vendor []Route) {
	of := func(table []route) (all []Route) {
		for _, t := range table {
			all = append(all, Route{t.method, t.path, t.role.String()})
		}
		return all
	}
	return of(s.table()), of((&vendorAPI{s: s}).table())
}

// Mount gives a router a route of that role.
func (s *Server) Mount(role access.Role) {
	s.router(nil, []route{{"GET", "/new", role, plain, request.Handler(s.version)}})
}

// Decode reads the body of a dialect's route.
func Decode(path string, b []byte) (r *prompt.Request, err error) {
	for _, d := range dialects() {
		for _, to := range d.Routes {
			if to.Path == path {
				r, _, err = to.Read(keyless{}, b)
			}
		}
	}
	return r, err
}

// keyless is a request without a key.
type keyless struct{}

func (keyless) Owner() string            { return "" }
func (keyless) Began() time.Time         { return time.Now() }
func (keyless) Weigh([]byte, bool) error { return nil }

// LookPieces is what LookAtCards does of late pictures, of models that are loaded.
func (s *Server) LookPieces(models []pool.Running) { s.lookPieces(models) }

// Satellites is how many connections the Wyoming port has.
func (s *Server) Satellites() int64 { return s.rooms.Load() }
