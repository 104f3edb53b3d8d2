package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/ollama"
)

// progress runs a long piece of work and sends its status lines, each at once, or only the last. An error before the first line has its
// own status; a later one is the stream's last line.
func (s *Server) progress(c *gin.Context, stream bool, work func(ctx context.Context, status func(api.ProgressResponse)) error) {
	enc := native[api.ProgressResponse]{stream}
	guarded(s, c, enc, func(r *reply) error {
		ctx, cancel := context.WithCancel(c.Request.Context())
		defer cancel()
		out, over, sent := newOutbox(), make(chan struct{}), make(chan error, 1)
		if stream {
			go func() {
				err := out.send(over, func(p api.ProgressResponse) error {
					b, err := ollama.Line(p)
					if err == nil {
						err = r.part(typeNDJSON, b)
					}
					return err
				})
				if err != nil {
					cancel()
				}
				sent <- err
			}()
		} else {
			sent <- nil
		}
		var told error
		err := func() error {
			defer func() { // also where the work panics
				close(over)
				told = <-sent
			}()
			return work(ctx, out.put)
		}()
		if err := errors.Join(err, told); err != nil {
			return plain(err)
		}
		if stream {
			return nil
		}
		_, last := out.take()
		b, err := json.Marshal(last)
		if err != nil {
			return err
		}
		r.whole(http.StatusOK, jsonNative, b)
		return nil
	})
}

// plain keeps an error of management work from being told as one of a running model.
func plain(err error) error {
	var se api.StatusError
	if errors.As(err, &se) || errors.As(err, new(*httpError)) || errors.Is(err, context.Canceled) || errors.Is(err, models.ErrName) || errors.Is(err, store.ErrReadOnly) || errors.Is(err, store.ErrTaken) {
		return err
	}
	return becauseOf(managed(err), err)
}

// managed is the status of an error of management work: a name that nobody has, files that this chip cannot run and blobs that were not uploaded are
// the client's mistake, and trying again would not help; anything else is ours, the hub's or the disk's.
func managed(err error) int {
	switch {
	case errors.Is(err, hub.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, hub.ErrDenied):
		return http.StatusForbidden
	case errors.Is(err, store.ErrGGUF), errors.Is(err, store.ErrForeign), errors.Is(err, store.ErrRequest), errors.Is(err, models.ErrNotPackage):
		return http.StatusBadRequest
	case errors.Is(err, store.ErrSpace):
		return http.StatusInsufficientStorage
	}
	return http.StatusInternalServerError
}

func (s *Server) create(c *gin.Context) {
	var req api.CreateRequest
	b, err := s.body(c, maxSmallBody)
	if err == nil {
		err = ollama.Decode(b, &req)
	}
	var r store.CreateRequest
	if err == nil {
		r, err = createRequest(req)
	}
	if err == nil && r.Template != nil && s.ownTemplate(r.From, *r.Template) {
		r.Template = nil // as /api/show gave it
	}
	if err == nil && r.Template != nil && *r.Template != "" {
		if _, terr := parseTemplate(*r.Template); terr != nil {
			err = ollama.Fail(http.StatusBadRequest, "template error: %s", terr)
		}
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.progress(c, streams(req.Stream), func(ctx context.Context, status func(api.ProgressResponse)) error {
		done, err := s.claim(r.Name)
		if err != nil {
			return err
		}
		defer done()
		say := func(line string) { status(api.ProgressResponse{Status: line}) }
		err = s.store.Create(ctx, r, say)
		if errors.Is(err, store.ErrNotFound) && r.From != "" && s.puller != nil && !s.o.NoPull {
			from, cerr := s.claim(r.From)
			if cerr != nil {
				return cerr
			}
			defer from()
			if err = s.puller.Pull(ctx, r.From, status); err == nil {
				err = s.store.Create(ctx, r, say)
			}
		}
		switch {
		case errors.Is(err, store.ErrNoBase):
			return ollama.Fail(http.StatusBadRequest, "%s", ollama.Ours(store.ErrNoBase.Error()))
		case errors.Is(err, store.ErrNotFound): // and nothing that could fetch it
			return notFound(missingSingle, req.From)
		case len(r.Files) > 0 && r.From == "" && errors.As(err, new(*models.Error)):
			return becauseOf(http.StatusBadRequest, err) // what was uploaded is no package
		}
		return err
	})
}

// ownTemplate: text is the template of the package that the model from is made of. Such a model keeps it without being told to.
func (s *Server) ownTemplate(from, text string) bool {
	if from == "" {
		return false
	}
	name, err := models.ParseName(from)
	if err != nil {
		return false
	}
	e, err := s.store.Get(name)
	return err == nil && e.Custom == nil && e.Template != "" && strings.TrimSpace(text) == strings.TrimSpace(e.Template)
}

// createRequest checks a create request in Ollama's order and turns it into the store's.
func createRequest(req api.CreateRequest) (r store.CreateRequest, err error) {
	if req.Parameters["typical_p"] != nil {
		return r, ollama.Fail(http.StatusBadRequest, "typical_p is no longer supported")
	}
	if len(req.Adapters) > 0 {
		return r, ollama.Fail(http.StatusBadRequest, "LoRA adapters are no longer supported")
	}
	for _, f := range []struct {
		name  ollama.Ours
		given bool
	}{{"renderer", req.Renderer != ""}, {"parser", req.Parser != ""}, {"requires", req.Requires != ""}, {"draft_files", len(req.DraftFiles) > 0}} {
		if f.given { // what would be taken and not kept would be missed later
			return r, ollama.Fail(http.StatusBadRequest, "%s means nothing to a compiled model, which has its own: leave it out", f.name)
		}
	}
	switch l := req.License.(type) {
	case nil:
	case string:
		if l != "" {
			r.License = []string{l}
		}
	case []any:
		for i, v := range l {
			text, ok := v.(string)
			if !ok {
				return r, ollama.Fail(http.StatusBadRequest, "license must be a string or a list of strings: element %d is %T", i, v)
			}
			r.License = append(r.License, text)
		}
	default:
		return r, ollama.Fail(http.StatusBadRequest, "license must be a string or a list of strings: got %T", l)
	}
	name, err := models.ParseName(cmp.Or(req.Model, req.Name))
	if err != nil {
		return r, ollama.Fail(http.StatusBadRequest, "invalid model name")
	}
	r.Name = name.Full()
	if req.From == "" && req.Files == nil {
		return r, ollama.Fail(http.StatusBadRequest, "%s", ollama.Ours(store.ErrNoBase.Error()))
	}
	if cmp.Or(req.Quantize, req.Quantization) != "" {
		return r, ollama.Fail(http.StatusBadRequest, "create-time quantization is only supported for safetensors imports; axle runs compiled packages, see 'axle compile'")
	}
	if req.From != "" {
		ref, err := ollama.ParseRef(req.From, ollama.Fail(http.StatusBadRequest, "invalid model name"), ollama.Fail(http.StatusBadRequest, "invalid model name"))
		if err != nil {
			return r, err
		}
		if ref.Cloud { // never the model here that has the rest of the name
			return r, errCloud
		}
		r.From = ref.Name.Full()
	}
	for file, digest := range req.Files {
		d, err := models.ParseDigest(digest)
		if err != nil {
			return r, ollama.Fail(http.StatusBadRequest, "invalid digest for %s: invalid digest format", file)
		}
		if r.Files == nil {
			r.Files = map[string]models.Digest{}
		}
		r.Files[file] = d
	}
	if err := checkOptions(nil, req.Parameters); err != nil {
		return r, err
	}
	r.Params = req.Parameters
	if req.Template != "" {
		r.Template = &req.Template
	}
	if req.System != "" {
		r.System = &req.System
	}
	for _, m := range req.Messages {
		r.Messages = append(r.Messages, store.Message{Role: m.Role, Content: m.Content})
	}
	return r, nil
}

func (s *Server) pull(c *gin.Context) {
	var req api.PullRequest
	b, err := s.body(c, maxSmallBody)
	if err == nil {
		err = ollama.Decode(b, &req)
	}
	asked := cmp.Or(req.Model, req.Name)
	if err == nil {
		invalid := ollama.Fail(http.StatusBadRequest, "invalid model name")
		_, err = ollama.ParseRef(asked, invalid, invalid)
	}
	if err == nil && (s.o.NoPull || s.puller == nil) {
		err = ollama.Fail(http.StatusForbidden, "pulling models is switched off on this server")
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.progress(c, streams(req.Stream), func(ctx context.Context, status func(api.ProgressResponse)) error {
		done, err := s.claim(asked)
		if err != nil {
			return err
		}
		defer done()
		return s.puller.Pull(ctx, asked, status)
	})
}

// push answers as Ollama does for a model it cannot push: with a stream that ends in an error.
func (s *Server) push(c *gin.Context) {
	var req api.PushRequest
	b, err := s.body(c, maxSmallBody)
	if err == nil {
		err = ollama.Decode(b, &req)
	}
	asked := cmp.Or(req.Model, req.Name)
	if err == nil && asked == "" {
		err = errModelRequired
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.progress(c, streams(req.Stream), func(_ context.Context, status func(api.ProgressResponse)) error {
		status(api.ProgressResponse{Status: "retrieving manifest"})
		if n, err := models.ParseName(asked); err == nil {
			if _, err := s.store.Get(n); isNotFound(err) {
				status(api.ProgressResponse{Status: "couldn't retrieve manifest"})
				return ollama.Fail(http.StatusInternalServerError, "open %s: no such file or directory", s.store.Dir()+"/manifests/"+n.Path())
			}
		}
		return &httpError{http.StatusInternalServerError, "axle does not push models"}
	})
}

// health is the state of the server for supervisors and for people.
type health struct {
	Status  string        `json:"status"` // ok, draining, lost, no device
	Error   string        `json:"error,omitempty"`
	Fewer   []string      `json:"lost_cards,omitempty"` // with which errors cards were lost while others go on
	Uptime  float64       `json:"uptime_seconds"`
	Rate    float64       `json:"tokens_per_second"`
	Version string        `json:"version"`
	Cards   []healthCard  `json:"cards"`
	Models  []healthModel `json:"models"`
}

type healthModel struct {
	Name        string   `json:"name"`
	State       string   `json:"state"`
	Device      string   `json:"device,omitempty"`
	Running     int      `json:"running"`
	Queued      int      `json:"queued"`
	Cells       int      `json:"cells"`
	CellsUsed   int      `json:"cells_used"`
	CellsCached int      `json:"cells_cached"`
	Temperature *float64 `json:"temperature_celsius"` // null where the device has none to tell
	Warning     string   `json:"warning,omitempty"`
	Load        *float64 `json:"npu_load"`
	CardFree    int64    `json:"card_free_bytes"`
	CardTotal   int64    `json:"card_total_bytes"`
}

// known is v, or nil where it is NaN, which JSON cannot say.
func known(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

func (s *Server) health(c *gin.Context) {
	h := health{Status: "ok", Fewer: *s.fewer.Load(), Uptime: time.Since(s.started).Seconds(), Rate: s.metrics.recent.perSecond(time.Now()), Version: s.o.Version, Models: []healthModel{}}
	code := http.StatusOK
	loaded, cards := s.host.Loaded(), s.cards()
	stranger := s.o.Keys != nil && keyOf(c.Request.Context()) == ""
	if stranger {
		loaded, cards, h.Fewer = nil, nil, nil // who has no key learns that we are here, and no more
	}
	h.Cards = healthCards(cards)
	for _, r := range loaded {
		m := healthModel{Name: r.Entry.Name.String(), State: r.Stats.State, Device: r.Device, Running: r.Stats.Running, Queued: r.Stats.Queued,
			Cells: r.Stats.Cells, CellsUsed: r.Stats.CellsUsed, CellsCached: r.Stats.CellsCached,
			Temperature: known(r.Stats.Temperature), Warning: warning(r.Stats.Temperature), Load: known(r.Stats.NPULoad), CardFree: r.Stats.CardFree, CardTotal: r.Stats.CardTotal}
		h.Models = append(h.Models, m)
	}
	err := s.Lost()
	switch none := s.noDevice(); {
	case err != nil:
		h.Status, code = "lost", http.StatusServiceUnavailable
	case s.draining.Load():
		h.Status, code = "draining", http.StatusServiceUnavailable
	case none != nil:
		h.Status, err, code = "no device", none, http.StatusServiceUnavailable
	}
	// What went wrong names files and folders of this machine: that is for who has a key.
	if err != nil && !stranger {
		h.Error = err.Error()
	}
	s.reply(c).json(code, h)
}

func (s *Server) metricsPage(c *gin.Context) {
	var b writer
	code, err := http.StatusOK, s.Lost()
	if err == nil {
		err = s.noDevice()
	}
	if err != nil { // a comment of the format, in one line; what scrapes sees the status
		code = http.StatusServiceUnavailable
		fmt.Fprintf(&b, "# %s\n", strings.Join(strings.Fields(err.Error()), " "))
	}
	s.metrics.write(&b, s, err == nil)
	s.reply(c).whole(code, "text/plain; version=0.0.4; charset=utf-8", b)
}

type writer []byte

func (w *writer) Write(p []byte) (int, error) { *w = append(*w, p...); return len(p), nil }
