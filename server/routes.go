package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

func (s *Server) routes() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.Use(s.logged, s.recovered)
	work, workV1 := r.Group("", s.work(s.fail)), r.Group("", s.work(s.failV1))

	r.HEAD("/", s.root)
	r.GET("/", s.root)
	r.HEAD("/api/version", s.version)
	r.GET("/api/version", s.version)
	r.GET("/api/status", s.cloud)
	r.HEAD("/api/tags", s.tags)
	r.GET("/api/tags", s.tags)
	r.GET("/api/ps", s.ps)
	r.POST("/api/show", s.show)
	work.POST("/api/generate", s.nativeGenerate)
	work.POST("/api/chat", s.nativeChat)
	work.POST("/api/embed", s.embed)
	work.POST("/api/embeddings", s.embeddings)

	work.POST("/api/create", s.create)
	work.POST("/api/copy", s.copy)
	work.POST("/api/pull", s.pull)
	work.POST("/api/push", s.push)
	work.DELETE("/api/delete", s.delete)
	r.HEAD("/api/blobs/:digest", s.hasBlob)
	work.POST("/api/blobs/:digest", s.putBlob)

	r.POST("/api/me", s.account)
	r.POST("/api/signout", s.signout)
	r.DELETE("/api/user/keys/:key", s.signout)
	r.POST("/api/experimental/web_search", s.noCloud("web search is unavailable"))
	r.POST("/api/experimental/web_fetch", s.noCloud("web fetch is unavailable"))
	r.GET("/api/experimental/model-recommendations", s.recommendations)

	workV1.POST("/v1/chat/completions", s.openaiChat)
	workV1.POST("/v1/completions", s.openaiCompletions)
	workV1.POST("/v1/embeddings", s.openaiEmbeddings)
	r.GET("/v1/models", s.openaiModels)
	r.GET("/v1/models/*model", s.openaiModel)
	workV1.POST("/v1/responses", s.openaiResponses)
	workV1.POST("/v1/responses/compact", s.openaiCompact)
	workV1.POST("/v1/audio/transcriptions", s.openaiTranscriptions)
	workV1.POST("/v1/messages", s.anthropicMessages)
	workV1.POST("/v1/messages/count_tokens", s.anthropicCount)

	r.GET("/health", s.health)
	r.HEAD("/health", s.health)
	r.GET("/metrics", s.metricsPage)
	r.GET("/ui", s.page)
	return r
}

// methods says which methods a path knows, in the router's order; none where the path is not known.
func methods(routes gin.RoutesInfo) func(path string) string {
	return func(path string) string {
		var known []string
		for _, r := range routes {
			if !slices.Contains(known, r.Method) && leads(r.Path, path) {
				known = append(known, r.Method)
			}
		}
		return strings.Join(known, ", ")
	}
}

// leads: a route's pattern has the path.
func leads(pattern, path string) bool {
	for {
		p, prest, pmore := strings.Cut(pattern, "/")
		s, rest, more := strings.Cut(path, "/")
		switch {
		case strings.HasPrefix(p, "*"):
			return true
		case p != s && !(strings.HasPrefix(p, ":") && s != ""), pmore != more:
			return false
		case !pmore:
			return true
		}
		pattern, path = prest, rest
	}
}
