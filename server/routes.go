package server

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

func (s *Server) routes() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	r := gin.New()
	r.HandleMethodNotAllowed = true
	r.Use(s.logged, s.recovered)

	r.HEAD("/", s.root)
	r.GET("/", s.root)
	r.HEAD("/api/version", s.version)
	r.GET("/api/version", s.version)
	r.GET("/api/status", s.cloud)
	r.HEAD("/api/tags", s.tags)
	r.GET("/api/tags", s.tags)
	r.GET("/api/ps", s.ps)
	r.POST("/api/show", s.show)
	r.POST("/api/generate", s.nativeGenerate)
	r.POST("/api/chat", s.nativeChat)
	r.POST("/api/embed", s.embed)
	r.POST("/api/embeddings", s.embeddings)

	r.POST("/api/create", s.create)
	r.POST("/api/copy", s.copy)
	r.POST("/api/pull", s.pull)
	r.POST("/api/push", s.push)
	r.DELETE("/api/delete", s.delete)
	r.HEAD("/api/blobs/:digest", s.hasBlob)
	r.POST("/api/blobs/:digest", s.putBlob)

	r.POST("/api/me", s.account)
	r.POST("/api/signout", s.signout)
	r.DELETE("/api/user/keys/:key", s.signout)
	r.POST("/api/experimental/web_search", s.noCloud("web search is unavailable"))
	r.POST("/api/experimental/web_fetch", s.noCloud("web fetch is unavailable"))
	r.GET("/api/experimental/model-recommendations", s.recommendations)

	r.POST("/v1/chat/completions", s.openaiChat)
	r.POST("/v1/completions", s.openaiCompletions)
	r.POST("/v1/embeddings", s.openaiEmbeddings)
	r.GET("/v1/models", s.openaiModels)
	r.GET("/v1/models/*model", s.openaiModel)
	r.POST("/v1/responses", s.openaiResponses)
	r.POST("/v1/responses/compact", s.openaiCompact)
	r.POST("/v1/audio/transcriptions", s.openaiTranscriptions)
	r.POST("/v1/messages", s.anthropicMessages)
	r.POST("/v1/messages/count_tokens", s.anthropicCount)

	r.GET("/health", s.health)
	r.HEAD("/health", s.health)
	r.GET("/metrics", s.metricsPage)
	r.GET("/ui", s.page)
	return r
}
