package manage

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/ollama/ollama/api"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
	"github.com/axle-llm/axle/tokenizer/chat"
)

func (m *Manager) Create(x *request.Exchange) error {
	var req api.CreateRequest
	if err := x.Decode(&req); err != nil {
		return err
	}
	r, err := createRequest(req)
	if err != nil {
		return err
	}
	if r.Template != nil && m.ownTemplate(r.From, *r.Template) {
		r.Template = nil // as /api/show gave it
	}
	if r.Template != nil && *r.Template != "" {
		if _, err := chat.NewGo(*r.Template); err != nil {
			return body.Fail(http.StatusBadRequest, "template error: %s", err)
		}
	}
	return progress(x, req.Stream, func(ctx context.Context, status func(catalog.Progress)) error {
		done, err := m.claim(r.Name)
		if err != nil {
			return err
		}
		defer done()
		say := func(line string) { status(catalog.Progress{Status: line}) }
		create := func() error {
			if err := m.ownFormat(req, r.From); err != nil {
				return err
			}
			return m.o.Store.Create(ctx, r, say)
		}
		err = create()
		if errors.Is(err, store.ErrNotFound) && r.From != "" && m.o.Puller != nil && !m.o.NoPull {
			from, cerr := m.claim(r.From)
			if cerr != nil {
				return cerr
			}
			defer from()
			if err = m.o.Puller.Pull(ctx, r.From, status); err == nil {
				err = create()
			}
		}
		switch {
		case errors.Is(err, store.ErrNoBase):
			return body.Fail(http.StatusBadRequest, "%s", body.Ours(store.ErrNoBase.Error()))
		case errors.Is(err, store.ErrNotFound): // and nothing that could fetch it
			return prompt.ErrMissing(prompt.Missing, req.From)
		case len(r.Files) > 0 && r.From == "" && errors.As(err, new(*models.Error)):
			return request.Because(http.StatusBadRequest, err) // what was uploaded is no package
		}
		return err
	})
}

// ownTemplate: text is the template of the package that the model from is made of. Such a model
// keeps it without being told to.
func (m *Manager) ownTemplate(from, text string) bool {
	if from == "" {
		return false
	}
	name, err := models.ParseName(from)
	if err != nil {
		return false
	}
	e, err := m.o.Store.Get(name)
	return err == nil && e.Custom == (ask.Template{}) && e.Template != "" && strings.TrimSpace(text) == strings.TrimSpace(e.Template)
}

// ownFormat refuses a renderer or a parser that is not the one of the package that the model from
// is made of: that is used in any case. A model that is not here is no matter of this.
func (m *Manager) ownFormat(req api.CreateRequest, from string) error {
	if req.Renderer == "" && req.Parser == "" {
		return nil
	}
	name, err := models.ParseName(from)
	if err != nil {
		return err
	}
	e, err := m.o.Store.Get(name)
	if err != nil {
		return err
	}
	own := []string{e.Info.Family, e.Info.Architecture}
	if by := chat.FamilyOf(e.Template); by != "plain" { // whose answers may be of another family than its layers
		own = append(own, by)
	}
	for _, f := range []struct {
		what body.Ours
		name string
	}{{"renderer", req.Renderer}, {"parser", req.Parser}} {
		if f.name != "" && !isFamily(f.name, own) {
			return body.Fail(http.StatusBadRequest,
				"%s %q is not that of %s, whose package is of the family %s and has its own: leave it out",
				f.what, f.name, e.Name, cmp.Or(e.Info.Family, own[len(own)-1], "unknown"))
		}
	}
	return nil
}

// forms are what Ollama's names of renderers and parsers have behind a family's.
var forms = []string{"", "-instruct", "-thinking", "-think", "-no-thinking", "-small", "-large"}

// isFamily reports whether Ollama's name of a renderer or a parser is one of the families', however
// they are spelled.
func isFamily(name string, families []string) bool {
	plain := strings.NewReplacer("-", "", "_", "", ".", "")
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	for _, form := range forms {
		base, ok := strings.CutSuffix(name, form)
		for _, f := range families {
			if ok && f != "" && plain.Replace(base) == plain.Replace(strings.ToLower(f)) {
				return true
			}
		}
	}
	return false
}

// createRequest checks a create request in Ollama's order and turns it into the store's.
func createRequest(req api.CreateRequest) (r store.CreateRequest, err error) {
	if req.Parameters["typical_p"] != nil {
		return r, body.Fail(http.StatusBadRequest, "typical_p is no longer supported")
	}
	if len(req.Adapters) > 0 {
		return r, body.Fail(http.StatusBadRequest, "LoRA adapters are no longer supported")
	}
	for _, f := range []struct {
		name  body.Ours
		given bool
	}{{"requires", req.Requires != ""}, {"draft_files", len(req.DraftFiles) > 0}} {
		if f.given { // what would be taken and not kept would be missed later
			return r, body.Fail(http.StatusBadRequest, "%s means nothing to a compiled model, which has its own: leave it out", f.name)
		}
	}
	if (req.Renderer != "" || req.Parser != "") && req.From == "" {
		return r, body.Fail(http.StatusBadRequest,
			"renderer and parser say nothing of a package that is uploaded, which has its own: leave them out, or name a model with from")
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
				return r, body.Fail(http.StatusBadRequest, "license must be a string or a list of strings: element %d is %T", i, v)
			}
			r.License = append(r.License, text)
		}
	default:
		return r, body.Fail(http.StatusBadRequest, "license must be a string or a list of strings: got %T", l)
	}
	name, err := models.ParseName(cmp.Or(req.Model, req.Name))
	if err != nil {
		return r, body.Fail(http.StatusBadRequest, "invalid model name")
	}
	r.Name = name.Full()
	if req.From == "" && req.Files == nil {
		return r, body.Fail(http.StatusBadRequest, "%s", body.Ours(store.ErrNoBase.Error()))
	}
	if cmp.Or(req.Quantize, req.Quantization) != "" {
		return r, body.Fail(http.StatusBadRequest,
			"create-time quantization is only supported for safetensors imports; axle runs compiled packages, see 'axle compile'")
	}
	if req.From != "" {
		ref, err := prompt.ParseRef(req.From, body.Fail(http.StatusBadRequest, "invalid model name"),
			body.Fail(http.StatusBadRequest, "invalid model name"))
		if err != nil {
			return r, err
		}
		if ref.Cloud { // never the model here that has the rest of the name
			return r, prompt.ErrCloud
		}
		r.From = ref.Name.Full()
	}
	for file, digest := range req.Files {
		d, err := models.ParseDigest(digest)
		if err != nil {
			return r, body.Fail(http.StatusBadRequest, "invalid digest for %s: invalid digest format", file)
		}
		if r.Files == nil {
			r.Files = map[string]models.Digest{}
		}
		r.Files[file] = d
	}
	if err := prompt.CheckOptions(nil, req.Parameters); err != nil {
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
