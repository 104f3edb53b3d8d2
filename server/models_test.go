package server_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/scripted"
)

// /v1/models tells what contexts take: the model's, the server's default and the Modelfile's, no
// more than the model's.
func TestModelLengths(t *testing.T) {
	for _, c := range []struct{ def, plain, made int }{{0, 4096, 1024}, {2000, 2000, 1024}, {1 << 20, 4096, 1024}} {
		r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.ContextLength = c.def })
		if a := r.post("/api/create", `{"model":"mine","from":"scripted-chat","parameters":{"num_ctx":1024},"stream":false}`); a.code != 200 {
			t.Fatal(a.body)
		}
		all := r.models()
		for id, want := range map[string]int{"scripted-chat:latest": c.plain, "mine:latest": c.made} {
			want := listedModel{ID: id, Object: "model", Model: want, Prefill: 4096, Tokens: 4096}
			if all[id] != want {
				t.Errorf("%+v, want %+v", all[id], want)
			}
			a := r.do("GET", "/v1/models/"+id, "")
			var one listedModel
			if err := json.Unmarshal([]byte(a.body), &one); err != nil || one != want {
				t.Errorf("%s: %+v, want %+v", a.body, one, want)
			}
		}
	}
}

type listedModel struct {
	ID      string
	Object  string
	Model   int `json:"max_model_len"`
	Prefill int `json:"prefill_max_token_num"`
	Tokens  int `json:"max_token_len"`
	Says    string
}

// models are those of /v1/models, by id.
func (r *rig) models() map[string]listedModel {
	r.t.Helper()
	var list struct {
		Object string
		Data   []listedModel
	}
	a := r.do("GET", "/v1/models", "")
	if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.code != 200 || list.Object != "list" {
		r.t.Fatalf("%d %s: %v", a.code, a.body, err)
	}
	all := map[string]listedModel{}
	for _, m := range list.Data {
		all[m.ID] = m
	}
	return all
}

// A package of another kind is listed with its sentence, one that cannot be opened with what is
// wrong; neither is said to complete texts, and neither tells a context. Of a package with prefill
// groups it is told how far those reach.
func TestModelsOfOtherKinds(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"good", "broken"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := modelstest.Write(filepath.Join(dir, name), "A"); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "broken", "*l0*.axmodel"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 100); err != nil {
		t.Fatal(err)
	}
	kind := modelstest.Kinds()[0]
	if err := kind.Write(filepath.Join(dir, "other")); err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(store.Options{Dir: t.TempDir(), Paths: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s := server.New(local.New(st, local.Options{}), &scripted.Loader{}, nil, server.Options{Loopback: true})
	ts := httptest.NewServer(s.Handler())
	defer ts.Close()
	defer s.Close(context.Background())
	r := &rig{Server: s, t: t, url: ts.URL, store: st}
	all := r.models()
	good, broken, other := all["good:latest"], all["broken:latest"], all["other:latest"]
	if good.Says != "" || good.Tokens == 0 || good.Model != good.Tokens || good.Prefill == 0 || good.Prefill > good.Tokens {
		t.Errorf("%+v", good)
	}
	if good.Prefill == good.Tokens {
		t.Errorf("prefill groups reach the whole context: %+v", good)
	}
	if !strings.HasPrefix(broken.Says, "a package that cannot be opened: ") || !strings.Contains(broken.Says, filepath.Base(files[0])) ||
		broken.Tokens+broken.Model+broken.Prefill != 0 {
		t.Errorf("%+v", broken)
	}
	if !strings.Contains(other.Says, kind.Name+" package (") || other.Tokens+other.Model+other.Prefill != 0 {
		t.Errorf("%+v", other)
	}
	var tags struct {
		Models []struct {
			Name, Says   string
			Capabilities []string
		}
	}
	a := r.do("GET", "/api/tags", "")
	if err := json.Unmarshal([]byte(a.body), &tags); err != nil || len(tags.Models) != 3 {
		t.Fatal(a.body, err)
	}
	for _, m := range tags.Models {
		if completes := strings.Contains(strings.Join(m.Capabilities, " "), "completion"); completes != (m.Name == "good:latest") ||
			completes != (m.Says == "") {
			t.Errorf("%+v", m)
		}
	}
}

// What axle does not have of OpenAI's API says so as that API does, whatever is sent and by
// whichever method.
func TestUnbuilt(t *testing.T) {
	r := newRig(t)
	for path, want := range map[string]string{
		"/v1/images/variations":       "does not make variations of a picture",
		"/v1/realtime/client_secrets": "does not have the rest of the Realtime API yet"} {
		for _, method := range []string{"GET", "POST"} {
			body := ""
			if method == "POST" {
				body = `{"model":"x","input":"` + strings.Repeat("a", 3<<20) + `"}`
			}
			a := r.do(method, path, body)
			var e struct {
				Error struct{ Message, Type string }
			}
			if err := json.Unmarshal([]byte(a.body), &e); err != nil || a.code != 501 || !strings.Contains(e.Error.Message, want) ||
				!strings.HasPrefix(e.Error.Message, "axle does not") || e.Error.Type == "" ||
				a.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s: %d %s %v", method, path, a.code, a.body, a.header)
			}
		}
		if a := r.do("DELETE", path, ""); a.code != 405 {
			t.Errorf("DELETE %s: %d", path, a.code)
		}
	}
}
