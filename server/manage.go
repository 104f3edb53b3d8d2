package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/types/model"

	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/ollama"
)

// capabilities are an entry's, in Ollama's words and order.
func (e *Entry) capabilities() []model.Capability {
	if e.Embedding {
		return []model.Capability{model.CapabilityEmbedding}
	}
	out := []model.Capability{model.CapabilityCompletion}
	for _, c := range []struct {
		has bool
		cap model.Capability
	}{{e.Caps.Vision, model.CapabilityVision}, {e.Caps.Tools, model.CapabilityTools}, {e.Caps.Insert, model.CapabilityInsert},
		{e.Caps.Thinking, model.CapabilityThinking}} {
		if c.has {
			out = append(out, c.cap)
		}
	}
	return out
}

func (s *Server) list(ctx context.Context) (api.ListResponse, error) {
	out := api.ListResponse{Models: []api.ListModelResponse{}}
	entries, err := s.store.List(ctx)
	if err != nil {
		return out, err
	}
	slices.SortStableFunc(entries, func(a, b *Entry) int { return cmp.Compare(b.Modified.Unix(), a.Modified.Unix()) })
	for _, e := range entries {
		d := e.details()
		d.ParentModel, d.ContextLength, d.EmbeddingLength = e.Parent, e.Info.Context, e.Info.Hidden
		out.Models = append(out.Models, api.ListModelResponse{Name: e.Name.String(), Model: e.Name.String(), ModifiedAt: e.Modified.UTC(), Size: e.Size,
			Digest: e.Digest, Details: d, Capabilities: e.capabilities()})
	}
	return out, nil
}

func (s *Server) tags(c *gin.Context) {
	list, err := s.list(c.Request.Context())
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c).json(http.StatusOK, list)
}

func (s *Server) ps(c *gin.Context) {
	out := api.ProcessResponse{Models: []api.ProcessModelResponse{}}
	for _, r := range s.host.Loaded() {
		name := r.Entry.Name.String()
		out.Models = append(out.Models, api.ProcessModelResponse{Name: name, Model: name, Size: r.Bytes, SizeVRAM: r.Bytes, Digest: r.Entry.Digest,
			Details: r.Entry.details(), ExpiresAt: r.Expires, ContextLength: r.NumCtx})
	}
	s.reply(c).json(http.StatusOK, out)
}

// copilot is how the client begins its User-Agent that shows general.basename to people.
const copilot = "GitHubCopilotChat/"

func (s *Server) show(c *gin.Context) {
	var req api.ShowRequest
	b, err := s.body(c, maxSmallBody)
	if err == nil {
		err = ollama.Decode(b, &req)
	}
	var resp *api.ShowResponse
	if err == nil {
		req.Model = cmp.Or(req.Model, req.Name)
		resp, err = s.describe(req)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	if strings.HasPrefix(c.Request.UserAgent(), copilot) {
		resp.ModelInfo["general.basename"] = req.Model
	}
	s.reply(c).json(http.StatusOK, resp)
}

func (s *Server) describe(req api.ShowRequest) (*api.ShowResponse, error) {
	e, err := s.entry(req.Model, errModelRequired, missingSingle)
	if err != nil {
		// As Ollama does here, and only here, the 404 names the model with its tag.
		switch code, _ := status(err); code {
		case http.StatusForbidden:
			err = ollama.Fail(http.StatusForbidden, "ollama cloud is disabled: remote model details are unavailable")
		case http.StatusNotFound:
			if ref, perr := ollama.ParseRef(req.Model, err, err); perr == nil {
				err = notFound(missingSingle, ref.Name.String())
			}
		}
		return nil, err
	}
	system := cmp.Or(req.System, e.System)
	resp := &api.ShowResponse{License: strings.Join(e.License, "\n"), System: system, Template: e.Template, Details: e.details(),
		Messages: e.Messages, Capabilities: e.capabilities(), ModifiedAt: e.Modified.UTC(), ModelInfo: e.info(req.Verbose), Parameters: parameters(e.Params)}
	resp.Details.ParentModel = e.Parent
	if e.Caps.Thinking {
		resp.Thinking = &model.Thinking{Values: []any{true, false}, Default: true}
	}
	if req.Verbose {
		resp.Tensors = []api.Tensor{}
		for i := range e.Info.Layers {
			resp.Tensors = append(resp.Tensors, api.Tensor{Name: fmt.Sprintf("blk.%d", i), Type: cmp.Or(e.Info.Quantization, "AXMODEL"), Shape: []uint64{uint64(max(e.Info.Hidden, 0))}})
		}
	}
	params := maps.Clone(e.Params)
	if params == nil {
		params = map[string]any{}
	}
	maps.Copy(params, req.Options)
	resp.Modelfile = e.modelfile(system, params)
	return resp, nil
}

func values(v any) []any {
	switch t := v.(type) {
	case []any:
		return t
	case []string:
		out := make([]any, len(t))
		for i, s := range t {
			out[i] = s
		}
		return out
	}
	return []any{v}
}

// parameters are a Modelfile's, a line a value, as /api/show prints them.
func parameters(params map[string]any) string {
	var lines []string
	for _, k := range slices.Sorted(maps.Keys(params)) {
		for _, v := range values(params[k]) {
			lines = append(lines, fmt.Sprintf("%-30s %#v", k, v))
		}
	}
	return strings.Join(lines, "\n")
}

// info is what /api/show calls model_info.
func (e *Entry) info(verbose bool) map[string]any {
	i := e.Info
	arch := cmp.Or(i.Architecture, i.Family, "axmodel")
	m := map[string]any{
		"general.architecture":         arch,
		"general.basename":             e.Name.Model(),
		"general.parameter_count":      i.Parameters,
		"general.file_type":            0,
		"general.size_label":           i.ParameterSize,
		"general.quantization_version": 2,
		"tokenizer.ggml.model":         cmp.Or(i.TokenizerType, "gpt2"),
	}
	for key, n := range map[string]int{"context_length": i.Context, "embedding_length": i.Hidden, "block_count": i.Layers, "attention.head_count": i.Heads,
		"attention.head_count_kv": i.KVHeads, "feed_forward_length": i.FeedForward, "vocab_size": i.Vocab} {
		if n > 0 {
			m[arch+"."+key] = n
		}
	}
	if verbose {
		for _, key := range []string{"tokenizer.ggml.merges", "tokenizer.ggml.token_type", "tokenizer.ggml.tokens"} {
			m[key] = []string{}
		}
	}
	return m
}

func (s *Server) copy(c *gin.Context) {
	var req api.CopyRequest
	b, err := s.body(c, maxSmallBody)
	if err == nil {
		err = ollama.Decode(b, &req)
	}
	if err == nil {
		err = s.copyModel(req)
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c).whole(http.StatusOK, "", nil)
}

func (s *Server) copyModel(req api.CopyRequest) error {
	src, err := models.ParseName(req.Source)
	if err != nil {
		return ollama.Fail(http.StatusBadRequest, "source %q is invalid", req.Source)
	}
	dst, err := models.ParseName(req.Destination)
	if err != nil {
		return ollama.Fail(http.StatusBadRequest, "destination %q is invalid", req.Destination)
	}
	done, err := s.claim(dst.Full())
	if err != nil {
		return err
	}
	defer done()
	if err = s.store.Copy(src, dst); isNotFound(err) {
		return notFound("model %q not found", req.Source)
	}
	return err
}

// claim takes a name for a model to be made. Where deleting is switched off the name must be free, since what has it would be replaced, which
// deletes it, and nobody else makes a model of that name until done is called.
func (s *Server) claim(asked string) (done func(), err error) {
	if !s.o.NoDelete {
		return func() {}, nil
	}
	name, err := models.ParseName(asked)
	if err != nil {
		return nil, err
	}
	key := strings.ToLower(name.Full()) // as the store compares names
	if _, taken := s.making.LoadOrStore(key, true); !taken {
		if _, err := s.store.Get(name); errors.Is(err, store.ErrNotFound) {
			return func() { s.making.Delete(key) }, nil
		}
		s.making.Delete(key)
	}
	return nil, ollama.Fail(http.StatusForbidden, "model '%s' exists: deleting models is switched off on this server, and replacing them with it", name)
}

func (s *Server) delete(c *gin.Context) {
	var req api.DeleteRequest
	b, err := s.body(c, maxSmallBody)
	if err == nil {
		err = ollama.Decode(b, &req)
	}
	if err == nil {
		err = s.deleteModel(c.Request.Context(), cmp.Or(req.Model, req.Name))
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c).whole(http.StatusOK, "", nil)
}

func (s *Server) deleteModel(ctx context.Context, asked string) error {
	ref, err := ollama.ParseRef(asked, errModelRequired, ollama.Fail(http.StatusBadRequest, "name %q is invalid", asked))
	if err != nil {
		return err
	}
	if ref.Cloud { // never the model here that has the rest of the name
		if ref.Name, err = models.ParseName(asked); err != nil {
			return notFound(missingSingle, asked)
		}
	}
	if s.o.NoDelete {
		return ollama.Fail(http.StatusForbidden, "deleting models is switched off on this server")
	}
	e, err := s.store.Get(ref.Name)
	if err != nil { // what cannot be opened can go all the same
		e = &Entry{Place: ref.Name.Full()}
	}
	switch err := s.store.Delete(ref.Name); {
	case isNotFound(err):
		return notFound(missingSingle, asked)
	case err != nil:
		return err
	}
	s.host.Unload(ctx, e)
	return nil
}

// digest reads a blob's name from the path.
func digest(c *gin.Context) (models.Digest, error) {
	d, err := models.ParseDigest(c.Param("digest"))
	if err != nil {
		return d, ollama.Fail(http.StatusBadRequest, "invalid digest format")
	}
	return d, nil
}

func (s *Server) hasBlob(c *gin.Context) {
	d, err := digest(c)
	if err == nil {
		var ok bool
		if _, ok, err = s.store.HasBlob(d); err == nil && !ok {
			err = ollama.Fail(http.StatusNotFound, "blob %q not found", c.Param("digest"))
		}
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	s.reply(c).whole(http.StatusOK, "", nil)
}

func (s *Server) putBlob(c *gin.Context) {
	d, err := digest(c)
	created := false
	switch {
	case err != nil:
	case s.o.NoPull:
		err = ollama.Fail(http.StatusForbidden, "pulling models is switched off on this server, and uploading them with it")
	case c.Request.ContentLength > maxBlob:
		err = tooLarge(maxBlob)
	default:
		if _, ok, herr := s.store.HasBlob(d); herr != nil || ok {
			err = herr
			break
		}
		body := &slowBody{c: c, rc: http.NewResponseController(c.Writer), most: s.o.ReadTimeout, left: s.o.ReadTimeout}
		created, err = s.store.PutBlob(c.Request.Context(), d, body)
		switch {
		case body.err != nil:
			err = body.err
		case errors.Is(err, store.ErrMismatch):
			err = ollama.Fail(http.StatusBadRequest, "%s", strings.TrimPrefix(err.Error(), "models: "))
		case errors.Is(err, store.ErrSpace):
			err = &httpError{http.StatusInsufficientStorage, err.Error()}
		case err != nil:
			err = plain(err)
		}
	}
	if err != nil {
		s.fail(c, err)
		return
	}
	code := http.StatusOK
	if created {
		code = http.StatusCreated
	}
	s.reply(c).whole(code, "", nil)
}

// slowBody reads a large body that comes no slower than slowest: waiting uses up the time that is left, what comes earns some.
type slowBody struct {
	c          *gin.Context
	rc         *http.ResponseController
	most, left time.Duration
	n          int64 // how much has come
	err        error // why no more came
}

const (
	slowest = 64 << 10 // bytes a second
	maxBlob = 64 << 30
)

// Announced is how long the client says that the body is, −1 where it does not say.
func (b *slowBody) Announced() int64 { return b.c.Request.ContentLength }

func (b *slowBody) Read(p []byte) (int, error) {
	start := time.Now()
	_ = b.rc.SetReadDeadline(start.Add(b.left))
	if b.err = b.c.Request.Context().Err(); b.err != nil { // after the deadline was set: see Server.work
		return 0, b.err
	}
	n, err := b.c.Request.Body.Read(p)
	b.left = min(b.left-time.Since(start)+time.Duration(n)*time.Second/slowest, b.most)
	switch b.n += int64(n); {
	case b.n > maxBlob:
		b.err = tooLarge(maxBlob)
	case err == io.EOF: //nolint:errorlint // as io.Reader has it
		_ = b.rc.SetReadDeadline(time.Time{}) // it is written out now, however long that takes
		return n, err
	case err != nil:
		b.err = &httpError{http.StatusBadRequest, err.Error()}
	}
	return n, b.err
}
