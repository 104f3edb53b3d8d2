package server

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/request"
)

// What is here answers the same to everyone: who we are, and what Ollama's clients ask of its
// cloud.

// root is what Ollama's client asks first, and some balancers ask for health: once no work is taken
// it must not say that all is well. The error itself may name files of this machine, and who asks
// need not have a key.
func (s *Server) root(x *request.Exchange) {
	if text := ""; s.draining.Load() || s.Lost() != nil {
		if text = "the server is shutting down"; s.Lost() != nil {
			text = "the card was lost"
		}
		x.Header("Retry-After", "1")
		x.Reply().Whole(http.StatusServiceUnavailable, "text/plain; charset=utf-8", []byte(text))
		return
	}
	x.Header("Vary", "Accept")
	if strings.Contains(x.GetHeader("Accept"), "text/html") { // a person with a browser
		x.Header("Location", "ui") // below a proxy's path too
		x.Reply().Whole(http.StatusFound, "", nil)
		return
	}
	x.Reply().Whole(http.StatusOK, "text/plain; charset=utf-8", []byte("Ollama is running"))
}

func (s *Server) version(x *request.Exchange) {
	x.Reply().JSON(http.StatusOK, map[string]string{"version": s.o.Version})
}

func (s *Server) recommendations(x *request.Exchange) {
	x.Reply().JSON(http.StatusOK, api.ModelRecommendationsResponse{Recommendations: []api.ModelRecommendation{}})
}

func (s *Server) cloud(x *request.Exchange) {
	x.Reply().JSON(http.StatusOK, api.StatusResponse{Cloud: api.CloudStatus{Disabled: true, Source: "env"}})
}

// account answers as Ollama does with its cloud off.
func (s *Server) account(*request.Exchange) error {
	return request.Error(http.StatusServiceUnavailable, "account unavailable")
}

func (s *Server) signout(*request.Exchange) error {
	return request.Error(http.StatusUnauthorized, "you are not currently signed in")
}

func (s *Server) noCloud(what string) gin.HandlerFunc {
	return request.Try(func(x *request.Exchange) error {
		_, err := request.Read(x, request.MaxSmallBody, func(b []byte) (any, error) {
			if len(strings.TrimSpace(string(b))) == 0 {
				return nil, body.Fail(http.StatusBadRequest, "missing request body")
			}
			return nil, body.Fail(http.StatusForbidden, "ollama cloud is disabled: %s", body.Ours(what))
		})
		return err
	})
}
