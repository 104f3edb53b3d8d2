package server

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"go.uber.org/zap"

	"github.com/axle-llm/axle/server/ui"
)

// page is the one page for people.
func (s *Server) page(c *gin.Context) {
	h := c.Writer.Header()
	h.Set("Content-Security-Policy", ui.Policy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	s.reply(c).whole(http.StatusOK, "text/html; charset=utf-8", ui.Page())
}

func anyField(p any) zap.Field { return zap.Any("panic", p) }
func stackField() zap.Field    { return zap.Stack("stack") }
