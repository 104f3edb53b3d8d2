package manage

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/types/model"

	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/body"
	"github.com/axle-llm/axle/server/catalog"
	"github.com/axle-llm/axle/server/ollamatype"
	"github.com/axle-llm/axle/server/prompt"
	"github.com/axle-llm/axle/server/request"
)

// copilot is how the client begins its User-Agent that shows general.basename to people.
const copilot = "GitHubCopilotChat/"

func (m *Manager) Show(x *request.Exchange) error {
	var req api.ShowRequest
	if err := x.Decode(&req); err != nil {
		return err
	}
	req.Model = cmp.Or(req.Model, req.Name)
	e, resp, err := m.describe(req)
	if err != nil {
		return err
	}
	m.compared(e, resp)
	//rule:T6 ./server TestRoleWithin access.Admin => access.Ask
	if !x.Who().May(access.Admin) { // what a model was told is for who makes models
		resp.System, resp.Template, resp.Modelfile, resp.Messages = "", "", "", nil
	}
	if strings.HasPrefix(x.Request.UserAgent(), copilot) {
		resp.ModelInfo["general.basename"] = req.Model
	}
	x.Reply().JSON(http.StatusOK, resp)
	return nil
}

// compared tells of a loaded model with what its answers were compared, and where its LM head is
// computed.
func (m *Manager) compared(e *catalog.Entry, resp *api.ShowResponse) {
	for _, r := range m.o.Loaded.Loaded() {
		if r.Entry.Name != e.Name {
			continue
		}
		if with := r.Stats.Compared; with != "" {
			resp.ModelInfo["axle.compared"] = string(with)
		}
		if h := r.Stats.Head; h.Place != "" {
			resp.ModelInfo["axle.head"] = h.String()
		}
	}
}

func (m *Manager) describe(req api.ShowRequest) (*catalog.Entry, *api.ShowResponse, error) {
	e, err := catalog.Find(m.o.Store, req.Model, prompt.ErrUnnamed, prompt.Missing)
	if err != nil {
		// As Ollama does here, and only here, the 404 names the model with its tag.
		switch code, _ := request.Status(err); code {
		case http.StatusForbidden:
			err = body.Fail(http.StatusForbidden, "ollama cloud is disabled: remote model details are unavailable")
		case http.StatusNotFound:
			if ref, perr := prompt.ParseRef(req.Model, err, err); perr == nil {
				err = prompt.ErrMissing(prompt.Missing, ref.Name.String())
			}
		}
		return nil, nil, err
	}
	system := cmp.Or(req.System, e.System)
	resp := &api.ShowResponse{License: strings.Join(e.License, "\n"), System: system, Template: e.Template, Details: details(e),
		Capabilities: capabilities(e), ModifiedAt: e.Modified.UTC(), ModelInfo: info(e, req.Verbose),
		Parameters: parameters(e.Params)}
	for _, m := range e.Messages {
		resp.Messages = append(resp.Messages, ollamatype.Said(m))
	}
	resp.Details.ParentModel = e.Parent
	if e.Caps.Thinking {
		resp.Thinking = &model.Thinking{Values: []any{true, false}, Default: true}
	}
	if req.Verbose {
		resp.Tensors = []api.Tensor{}
		for i := range e.Info.Layers {
			resp.Tensors = append(resp.Tensors, api.Tensor{Name: fmt.Sprintf("blk.%d", i), Type: cmp.Or(e.Info.Quantization, "AXMODEL"),
				Shape: []uint64{uint64(max(e.Info.Hidden, 0))}})
		}
	}
	params := maps.Clone(e.Params)
	if params == nil {
		params = map[string]any{}
	}
	maps.Copy(params, req.Options)
	resp.Modelfile = modelfile(e, system, params)
	return e, resp, nil
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
func info(e *catalog.Entry, verbose bool) map[string]any {
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
	if i.Says != "" {
		m["general.description"] = i.Says
		delete(m, "tokenizer.ggml.model")
	}
	for key, n := range map[string]int{"context_length": i.Context, "embedding_length": i.Hidden, "block_count": i.Layers,
		"attention.head_count":    i.Heads,
		"attention.head_count_kv": i.KVHeads, "feed_forward_length": i.FeedForward, "vocab_size": i.Vocab} {
		if n > 0 {
			m[arch+"."+key] = n
		}
	}
	if len(i.Places) > 0 {
		m["axle.places"] = i.Places
	}
	if len(i.Adapters) > 0 {
		m["axle.adapters"] = strings.Join(i.Adapters, ", ")
	}
	if len(i.Prompts) > 0 {
		m["axle.prompts"] = strings.Join(i.Prompts, ", ")
	}
	if verbose {
		for _, key := range []string{"tokenizer.ggml.merges", "tokenizer.ggml.token_type", "tokenizer.ggml.tokens"} {
			m[key] = []string{}
		}
	}
	return m
}
