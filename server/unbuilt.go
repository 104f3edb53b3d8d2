package server

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/request"
)

// unbuilt are the routes of OpenAI's API that axle does not answer yet. Who asks one learns that,
// in the form of the API's errors, instead of a text that no client can read.
func (s *Server) unbuilt() (table []route) {
	for _, u := range []struct {
		what  string
		paths []string
	}{
		{"axle does not make variations of a picture without a prompt: /v1/images/edits takes one", []string{"/v1/images/variations"}},
		{noCalls, []string{"/v1/realtime/*what"}},
	} {
		for _, path := range u.paths {
			for _, method := range []string{"GET", "POST"} {
				table = append(table, route{method, path, access.Ask, plain, s.notYet(u.what)})
			}
		}
	}
	return append(table, route{"POST", "/v1/realtime", access.Ask, plain, s.notYet(noCalls)})
}

const noCalls = "axle does not have the rest of the Realtime API yet: GET /v1/realtime is a WebSocket"

// notYet refuses a request with a sentence. Its body is read as far as any refused one's.
func (s *Server) notYet(what string) gin.HandlerFunc {
	return request.Try(func(x *request.Exchange) error {
		x.Drain(time.Now().Add(s.shared.ReadTimeout))
		return request.Error(http.StatusNotImplemented, what)
	})
}
