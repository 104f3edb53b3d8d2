package server

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"go.uber.org/zap"

	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// logged begins and ends the exchange of each request, and writes one line of it. Names and paths
// come from clients: they are fields, never parts of a message. form is that of errors; without a
// body it is the path's.
func (s *Server) logged(dialect *prompt.Dialect) gin.HandlerFunc {
	return func(c *gin.Context) {
		start := time.Now()
		x := s.shared.Begin(c, dialect)
		if s.leaving.Load() {
			c.Header("Connection", "close")
		}
		s.metrics.inFlight.Add(1)
		defer s.metrics.inFlight.Add(-1)
		defer func() { // also of an answer that is broken off
			x.End()
			code := c.Writer.Status()
			if x.Log.Status != 0 {
				code = x.Log.Status
			}
			s.metrics.request(c.FullPath(), code)
			s.line(x, code, time.Since(start))
		}()
		c.Next()
	}
}

func (s *Server) line(x *request.Exchange, code int, took time.Duration) {
	r := x.Request
	level := zap.InfoLevel
	switch {
	case code == http.StatusNotImplemented: // asked for what is not served; Immich does so for each photo
	case code >= 500 && code != http.StatusServiceUnavailable:
		level = zap.ErrorLevel
	case r.Method == http.MethodGet && code < 400:
		level = zap.DebugLevel
	}
	entry := s.log.Check(level, "request")
	if entry == nil {
		return
	}
	key := ""
	if k := x.Who(); k != nil {
		key = k.Name
	}
	fields := []zap.Field{zap.String("method", r.Method), zap.String("path", request.Clip(r.URL.Path)), zap.Int("status", code),
		zap.Duration("took", took), zap.String("client", r.RemoteAddr)}
	for _, f := range [][2]string{{"model", x.Log.Model}, {"key", key}, {"error", x.Log.Error}} {
		if f[1] != "" {
			fields = append(fields, zap.String(f[0], f[1]))
		}
	}
	entry.Write(fields...)
}

// recovered turns a panic outside an answer into a status, if that is still possible.
func (s *Server) recovered(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p == http.ErrAbortHandler { //nolint:errorlint // the very value
			panic(p)
		}
		s.log.Error("panic in a handler", zap.Any("panic", p), zap.Stack("stack"))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler) // never an end that looks clean
		}
		request.Of(c).Fail(request.Error(http.StatusInternalServerError, "internal error"))
		c.Abort()
	}()
	c.Next()
}
