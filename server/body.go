package server

import (
	"bytes"
	"encoding/binary"
	"image"
	_ "image/gif" // the formats whose sizes we can tell
	_ "image/jpeg"
	_ "image/png"
	"io"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/server/ollama"
)

// Limits of a request (promise T7).
const (
	maxBody      = 32 << 20 // where images can be
	maxSmallBody = 1 << 20
	maxLarge     = 256 << 20 // what large requests cost at once; each is held until its answer ends
	freeCost     = 1 << 20   // what any request may cost
	drainTime    = 2 * time.Second
	maxImages    = 8
	maxPixels    = 20_000_000
)

// body reads a request's body, at most so many bytes of it and within the read deadline, and weighs it: who asks for more room than there
// is now is told to come again. Compressed bodies are refused: a few bytes could stand for gigabytes.
func (s *Server) body(c *gin.Context, limit int64) ([]byte, error) {
	if enc := c.GetHeader("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, &httpError{http.StatusUnsupportedMediaType, "request bodies must not be compressed"}
	}
	rc := http.NewResponseController(c.Writer)
	end := time.Now().Add(s.o.ReadTimeout)
	_ = rc.SetReadDeadline(end)
	if err := c.Request.Context().Err(); err != nil { // after the deadline was set: see Server.work
		return nil, err
	}
	b, err := s.read(c, c.Request.Body, c.Request.ContentLength, limit)
	if err != nil {
		s.drain(c, rc, end)
		return nil, err
	}
	_ = rc.SetReadDeadline(time.Time{})
	w, err := ollama.Weigh(b)
	if limit <= maxSmallBody { // where no image can be, no text is one
		w.Text += w.Coded
	}
	if err == nil && w.Text > ollama.MaxText {
		err = ollama.TextTooLong()
	}
	if err == nil {
		holdOf(c).text = w.Text
		err = s.room(c, w.Cost())
	}
	return b, err
}

// held is what a request holds of the room that all have together, what it needs, and how many bytes of text that was weighed with.
type held struct {
	room, need int64
	text       int
}

func holdOf(c *gin.Context) *held { return c.MustGet(ctxLarge).(*held) }

// drain reads what is left of a refused body, if that is little and comes soon, and no later than end: most clients send all before they
// read, and to those that find the connection closed the refusal is lost. Who asks before sending (Expect) has sent nothing. Unless all came,
// the deadline stays as it is, for net/http reads on before it answers, and the connection ends with the answer.
func (s *Server) drain(c *gin.Context, rc *http.ResponseController, end time.Time) {
	if c.GetHeader("Expect") == "" && c.Request.Context().Err() == nil {
		if soon := time.Now().Add(drainTime); soon.Before(end) {
			end = soon
		}
		_ = rc.SetReadDeadline(end)
		if n, err := io.CopyN(io.Discard, c.Request.Body, 2*maxBody); n < 2*maxBody && err == io.EOF { //nolint:errorlint // as io.CopyN has it
			_ = rc.SetReadDeadline(time.Time{})
			return
		}
	}
	c.Header("Connection", "close")
}

// room makes the request hold n bytes of the room that all have together, until the middleware that logs it gives them back. What any request
// may cost is free. Who needs more than there is now is told to come again, and who needs more than there ever is, that.
func (s *Server) room(c *gin.Context, n int64) error {
	h := holdOf(c)
	h.need = n
	if n <= freeCost && h.room == 0 {
		return nil
	}
	if n > maxLarge {
		return ollama.Fail(http.StatusRequestEntityTooLarge, "the request takes %d MiB of memory, and all requests together have %d MiB: send less at once", n>>20, maxLarge>>20)
	}
	if s.large.Add(n-h.room) > maxLarge && n > h.room {
		s.large.Add(h.room - n)
		return &httpError{http.StatusServiceUnavailable, ErrQueueFull.Error()}
	}
	h.room = n
	return nil
}

// more makes the request hold n bytes besides.
func (s *Server) more(c *gin.Context, n int64) error { return s.room(c, holdOf(c).need+n) }

// formatRoom takes room for the automaton that a request's format becomes, which package grammar keeps below 64 MiB.
func (s *Server) formatRoom(c *gin.Context, format []byte) error {
	n := min(1024*int64(len(format)), 64<<20)
	if n <= freeCost {
		return nil
	}
	return s.more(c, n)
}

// vectorRoom takes room for so many vectors, and refuses more of them than half of all the room is for.
func (s *Server) vectorRoom(c *gin.Context, inputs, hidden int) error {
	each := int64(hidden)*4 + 256 // 32-bit numbers, and what a queued text is kept in
	if most := maxLarge / 2 / each; int64(inputs) > most {
		return ollama.Fail(http.StatusRequestEntityTooLarge, "%d inputs give %d vectors of %d numbers, more than the server holds at once: send at most %d in a request",
			inputs, inputs, hidden, most)
	}
	return s.more(c, int64(inputs)*each)
}

// weighText weighs a request again once its text is decoded: before, what may be an image's was not counted as text. More of it than any context
// holds is refused.
func (s *Server) weighText(c *gin.Context, n int) error {
	if err := checkText(n); err != nil {
		return err
	}
	h := holdOf(c)
	if n <= h.text {
		return nil
	}
	extra := n - h.text
	h.text = n
	return s.more(c, int64(extra)*ollama.TextCost)
}

// read reads n bytes, or where n is negative all there are. The first mebibyte is read as it comes; for more, room is taken before any of
// it is read. A client has to send what it announced before memory is there for it.
func (s *Server) read(c *gin.Context, from io.Reader, n, limit int64) ([]byte, error) {
	if n > limit {
		return nil, tooLarge(limit)
	}
	known := n >= 0
	if !known {
		n = limit
	}
	var b []byte
	for {
		if len(b) == cap(b) {
			if int64(len(b)) > n { // the byte too many
				return nil, tooLarge(limit)
			}
			next := min(max(int64(2*cap(b)), 8<<10), n+1)
			if next > maxSmallBody+1 && holdOf(c).room == 0 {
				if err := s.room(c, 2*n); err != nil { // the old half and the new whole, while it grows
					return nil, err
				}
			}
			b = append(make([]byte, 0, next), b...)
		}
		k, err := from.Read(b[len(b):cap(b)])
		b = b[:len(b)+k]
		switch {
		case err == io.EOF && int64(len(b)) > limit:
			return nil, tooLarge(limit)
		case err == io.EOF: //nolint:errorlint // as io.ReadAll has it
			return b, nil
		case err != nil:
			return nil, &httpError{http.StatusBadRequest, err.Error()}
		}
	}
}

// text is how many bytes of text an engine's request has, images left out.
func text(er engine.Request) (n int) {
	n = len(er.Prompt) + len(er.Suffix) + len(er.System) + len(er.ToolChoice)
	for _, m := range er.Messages {
		n += len(m.Role) + len(m.Content) + len(m.Thinking) + len(m.ToolName) + len(m.ToolCallID)
		for _, call := range m.ToolCalls {
			n += len(call.ID) + len(call.Name) + len(call.Arguments)
		}
	}
	for _, t := range er.Tools {
		n += max(len(t.Raw), len(t.Type)+len(t.Name)+len(t.Description)+len(t.Parameters))
	}
	for key, v := range er.Kwargs {
		n += len(key) + len(v)
	}
	for _, s := range er.Stop {
		n += len(s)
	}
	return n
}

// checkText refuses more text than any context holds.
func checkText(n int) error {
	if n > ollama.MaxText {
		return ollama.TextTooLong()
	}
	return nil
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
