package server

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	_ "image/gif" // the formats whose sizes we can tell
	_ "image/jpeg"
	_ "image/png"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/server/ollama"
)

// Limits of a request (promise T7).
const (
	maxBody      = 32 << 20 // where images can be
	maxSmallBody = 1 << 20
	maxLarge     = 512 << 20 // bytes of large bodies at once; each is held until its answer ends
	maxImages    = 8
	maxPixels    = 20_000_000
)

// body reads a request's body, at most so many bytes of it and within the read deadline. Compressed bodies are refused: a few bytes could
// stand for gigabytes.
func (s *Server) body(c *gin.Context, limit int64) ([]byte, error) {
	if enc := c.GetHeader("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, &httpError{http.StatusUnsupportedMediaType, "request bodies must not be compressed"}
	}
	if c.Request.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if n := c.Request.ContentLength; n < 0 || n > maxSmallBody {
		if n < 0 {
			n = limit
		}
		// Room for it is taken before any of it is read, and given back by the middleware that logs the request.
		if s.large.Add(n) > maxLarge {
			s.large.Add(-n)
			return nil, &httpError{http.StatusServiceUnavailable, ErrQueueFull.Error()}
		}
		c.Set(ctxLarge, n)
	}
	rc := http.NewResponseController(c.Writer)
	_ = rc.SetReadDeadline(time.Now().Add(s.o.ReadTimeout))
	b, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, limit))
	_ = rc.SetReadDeadline(time.Time{})
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		return nil, tooLarge(limit)
	case err != nil:
		return nil, &httpError{http.StatusBadRequest, "reading the request body: " + err.Error()}
	}
	return b, nil
}

func tooLarge(limit int64) error {
	return ollama.Fail(http.StatusRequestEntityTooLarge, "the request body is too large: the limit is %d MiB", limit>>20)
}

// images checks a request's images before anything decodes them.
func (s *Server) images(list []api.ImageData) error {
	if len(list) > maxImages {
		return ollama.Fail(http.StatusBadRequest, "too many images: %d, the limit is %d", len(list), maxImages)
	}
	for i, img := range list {
		w, h := imageSize(img)
		if int64(w)*int64(h) > maxPixels {
			return ollama.Fail(http.StatusBadRequest, "image %d has %d×%d pixels, the limit is %d megapixels", i, w, h, maxPixels/1_000_000)
		}
	}
	return nil
}

// imageSize reads the size that an image's header states; 0 for what is no image that we know.
func imageSize(b []byte) (w, h int) {
	if len(b) >= 30 && string(b[:4]) == "RIFF" && string(b[8:12]) == "WEBP" {
		switch string(b[12:16]) {
		case "VP8 ":
			return int(binary.LittleEndian.Uint16(b[26:]) & 0x3fff), int(binary.LittleEndian.Uint16(b[28:]) & 0x3fff)
		case "VP8L":
			v := binary.LittleEndian.Uint32(b[21:])
			return int(v&0x3fff) + 1, int(v>>14&0x3fff) + 1
		case "VP8X":
			return int(b[24]) | int(b[25])<<8 | int(b[26])<<16 + 1, int(b[27]) | int(b[28])<<8 | int(b[29])<<16 + 1
		}
		return 0, 0
	}
	cfg, _, err := image.DecodeConfig(bytes.NewReader(b))
	if err != nil {
		return 0, 0
	}
	return cfg.Width, cfg.Height
}
