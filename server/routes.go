package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/axle-llm/axle/server/exchange"
)

func (s *Server) routes() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.Use(s.logged(exchange.Form{}), s.recovered)
	work := r.Group("", s.work)         // what the orderly end waits for, and a server that ends refuses
	ask := work.Group("", s.looks.Seen) // what a model answers: it is listed while it runs, and its owner can end it
	h, models, answers, looks := exchange.Handler, s.manager, s.answers, s.looks

	r.HEAD("/", h(s.root))
	r.GET("/", h(s.root))
	r.HEAD("/api/version", h(s.version))
	r.GET("/api/version", h(s.version))
	r.GET("/api/status", h(s.cloud))
	r.HEAD("/api/tags", h(models.Tags))
	r.GET("/api/tags", h(models.Tags))
	r.GET("/api/ps", h(models.Running))
	r.POST("/api/show", h(models.Show))
	ask.POST("/api/generate", h(answers.OllamaGenerate))
	ask.POST("/api/chat", h(answers.OllamaChat))
	ask.POST("/api/embed", h(answers.Embed))
	ask.POST("/api/embeddings", h(answers.Embeddings))
	ask.POST("/api/rerank", h(answers.Rerank))

	work.POST("/api/create", h(models.Create))
	work.POST("/api/copy", h(models.Copy))
	work.POST("/api/pull", h(models.Pull))
	work.POST("/api/push", h(models.Push))
	work.DELETE("/api/delete", h(models.Delete))
	r.HEAD("/api/blobs/:digest", h(models.HasBlob))
	work.POST("/api/blobs/:digest", h(models.PutBlob))

	r.POST("/api/me", h(s.account))
	r.POST("/api/signout", h(s.signout))
	r.DELETE("/api/user/keys/:key", h(s.signout))
	r.POST("/api/experimental/web_search", s.noCloud("web search is unavailable"))
	r.POST("/api/experimental/web_fetch", s.noCloud("web fetch is unavailable"))
	r.GET("/api/experimental/model-recommendations", h(s.recommendations))

	ask.POST("/v1/chat/completions", h(answers.OpenAIChat))
	ask.POST("/v1/completions", h(answers.OpenAICompletions))
	ask.POST("/v1/embeddings", h(answers.OpenAIEmbeddings))
	ask.POST("/v1/rerank", h(answers.Rerank))
	r.GET("/v1/models", h(models.OpenAIModels))
	r.GET("/v1/models/*model", h(models.OpenAIModel))
	ask.POST("/v1/responses", h(answers.OpenAIResponses))
	ask.POST("/v1/responses/compact", h(answers.OpenAICompact))
	work.POST("/v1/audio/transcriptions", h(answers.OpenAITranscriptions))
	ask.POST("/v1/messages", h(answers.AnthropicMessages))
	work.POST("/v1/messages/count_tokens", h(answers.AnthropicCount))

	r.GET("/api/axle/state", h(looks.State))
	r.GET("/api/axle/cells", h(looks.Cells))
	r.DELETE("/api/axle/streams/:id", h(looks.Stop))
	r.GET("/api/axle/catalogue", h(looks.Catalogue))
	r.GET("/api/axle/bench", h(looks.Bench))
	work.POST("/api/axle/bench", h(looks.Start))
	r.DELETE("/api/axle/bench", h(looks.End))

	r.GET("/health", h(s.health))
	r.HEAD("/health", h(s.health))
	r.GET("/metrics", h(s.metricsPage))
	r.GET("/ui", h(s.page))
	r.HEAD("/ui", h(s.page))
	r.GET("/ui/*file", h(s.pageFile))
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
