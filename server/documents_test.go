package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/documents/index"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/access"
	"github.com/axle-llm/axle/server/documents"
	"github.com/axle-llm/axle/server/scripted"
)

// TestDocuments: a file is uploaded, put into a vector store, searched, shown, and deleted, as
// OpenAI's clients do it.
func TestDocuments(t *testing.T) {
	r := documentsRig(t, readPlain)
	if a := r.do("GET", "/api/axle/documents", ""); !strings.Contains(a.body, `"on":true`) {
		t.Error(a.body)
	}
	file := r.upload("", "cards.md", "# Cards\n\nA card has memory.\n\n## Heat\n\nA hot card is slow: put a fan beside it.\n")
	var store struct {
		ID, Status string
		FileCounts struct{ Completed, Failed, InProgress, Total int } `json:"file_counts"`
	}
	r.ask("", "POST", "/v1/vector_stores", `{"name":"docs","metadata":{"a":"b"}}`, &store)
	var entry struct {
		Status    string
		LastError *struct{ Code, Message string } `json:"last_error"`
		Passages  int
	}
	r.ask("", "POST", "/v1/vector_stores/"+store.ID+"/files", `{"file_id":"`+file+`","attributes":{"lang":"en","year":2026}}`, &entry)
	r.indexed("", store.ID)
	r.ask("", "GET", "/v1/vector_stores/"+store.ID+"/files/"+file, "", &entry)
	if entry.Status != "completed" || entry.Passages != 2 {
		t.Errorf("%+v", entry)
	}
	var found searched
	search := func(body string) {
		t.Helper()
		found = searched{}
		r.ask("", "POST", "/v1/vector_stores/"+store.ID+"/search", body, &found)
	}
	search(`{"query":"What helps a card that is hot?"}`)
	if len(found.Data) == 0 || found.Data[0].FileID != file || found.Data[0].Filename != "cards.md" ||
		!strings.HasPrefix(found.Data[0].Content[0].Text, "## Heat") || found.Data[0].Heading != "Cards › Heat" ||
		found.Data[0].Score <= 0.3 {
		t.Fatalf("%+v", found)
	}
	at := found.Data[0]
	var page struct {
		Text, Filename string
		Pages          int
	}
	r.ask("", "GET", fmt.Sprintf("/api/axle/documents/files/%s/pages/%d", file, at.Page), "", &page)
	if page.Filename != "cards.md" || page.Text[at.Place.Start:at.Place.End] != at.Content[0].Text || page.Pages != 1 {
		t.Errorf("%+v", page)
	}
	for body, n := range map[string]int{
		`{"query":["hot","memory"],"max_num_results":1}`:                                                                                         1,
		`{"query":"card","filters":{"type":"eq","key":"lang","value":"de"}}`:                                                                     0,
		`{"query":"card","filters":{"type":"and","filters":[{"type":"eq","key":"lang","value":"en"},{"type":"gte","key":"year","value":2026}]}}`: 2,
		`{"query":"card","filters":{"type":"or","filters":[{"type":"lt","key":"year","value":2026},{"type":"in","key":"lang","value":["en"]}]}}`: 2,
		`{"query":"card","filters":{"type":"nin","key":"lang","value":["en"]}}`:                                                                  0,
		`{"query":"card","filters":{"type":"ne","key":"none","value":"x"},"ranking_options":{"ranker":"none"}}`:                                  2,
		`{"query":"card","ranking_options":{"score_threshold":1}}`:                                                                               0,
		`{"query":"zebra"}`: 0,
	} {
		if search(body); len(found.Data) != n {
			t.Errorf("%s found %d, want %d", body, len(found.Data), n)
		}
	}
	if a := r.do("GET", "/v1/files/"+file+"/content", ""); !strings.HasPrefix(a.body, "# Cards") ||
		!strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%v %s", a.header, a.body)
	}
	if a := r.do("DELETE", "/v1/files/"+file, ""); a.code != 200 {
		t.Error(a.body)
	}
	if search(`{"query":"card"}`); len(found.Data) != 0 {
		t.Errorf("%+v of a file that was deleted", found)
	}
	if a := r.do("DELETE", "/v1/vector_stores/"+store.ID, ""); a.code != 200 || !strings.Contains(a.body, "vector_store.deleted") {
		t.Error(a.body)
	}
}

// TestDocumentsOfKey (T17): no route tells a key of what another has.
func TestDocumentsOfKey(t *testing.T) {
	//proves:T17 files and vector stores
	r := documentsRig(t, readPlain, access.Line{Name: "a", Key: askKey, Role: access.Ask}, access.Line{Name: "b", Key: adminKey,
		Role: access.Admin})
	file := r.upload(askKey, "secret.txt", "The password of the shed is rhubarb.")
	var store struct{ ID string }
	r.ask(askKey, "POST", "/v1/vector_stores", `{"name":"private","file_ids":["`+file+`"]}`, &store)
	r.indexed(askKey, store.ID)
	var mine struct{ ID string }
	r.ask(adminKey, "POST", "/v1/vector_stores", `{}`, &mine)
	main, _ := r.Routes()
	tried := 0
	for _, route := range main {
		if !strings.HasPrefix(route.Path, "/v1/files") && !strings.HasPrefix(route.Path, "/v1/vector_stores") &&
			!strings.HasPrefix(route.Path, "/api/axle/documents") {
			continue
		}
		id := store.ID
		if strings.Contains(route.Path, "files/:id") {
			id = file
		}
		path := strings.NewReplacer(":id", id, ":file", file, ":page", "0").Replace(route.Path)
		a := r.do(route.Method, path, `{"query":"password","file_id":"`+file+`","name":"x"}`, "Authorization", "Bearer "+adminKey)
		if strings.Contains(a.body, "secret") || strings.Contains(a.body, "rhubarb") || strings.Contains(a.body, "private") ||
			strings.Contains(route.Path, ":id") && a.code != 404 {
			t.Errorf("%s %s tells another key: %d %s", route.Method, path, a.code, a.body)
		}
		tried++
	}
	if tried < 18 {
		t.Errorf("only %d routes", tried)
	}
	if a := r.do("POST", "/v1/vector_stores/"+mine.ID+"/files", `{"file_id":"`+file+`"}`, "Authorization",
		"Bearer "+adminKey); a.code != 404 {
		t.Errorf("another key's file goes into a vector store: %d %s", a.code, a.body)
	}
	var found searched
	r.ask(askKey, "POST", "/v1/vector_stores/"+store.ID+"/search", `{"query":"password"}`, &found)
	if len(found.Data) != 1 {
		t.Errorf("its own key finds %+v", found)
	}
}

// What is wrong with a request is said, and nothing is kept of it.
func TestDocumentsRefused(t *testing.T) {
	r := documentsRig(t, readPlain)
	var store struct{ ID string }
	r.ask("", "POST", "/v1/vector_stores", "", &store)
	file := r.upload("", "a.txt", "text")
	at := "/v1/vector_stores/" + store.ID
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"POST", "/v1/files", "{}", 400, "multipart/form-data"},
		{"GET", "/v1/files/..%2f..%2fetc", "", 404, ""},
		{"GET", "/v1/files/file-0", "", 404, "No such file"},
		{"GET", "/v1/files?limit=0", "", 400, "limit"},
		{"GET", "/v1/files?order=up", "", 400, "order"},
		{"POST", "/v1/vector_stores", `{"file_ids":["file-0"]}`, 404, "No such file"},
		{"POST", "/v1/vector_stores", `{"expires_after":{"anchor":"last_active_at","days":0}}`, 400, "days"},
		{"POST", "/v1/vector_stores", `{"metadata":{"":"x"}}`, 400, "metadata"},
		{"POST", "/v1/vector_stores", `{"name":"` + strings.Repeat("n", 600) + `"}`, 400, "name"},
		{"POST", at + "/files", `{}`, 404, "No such file"},
		{"POST", at + "/files", `{"file_id":"` + file + `","attributes":{"a":[]}}`, 400, "attributes"},
		{"POST", at + "/files", `{"file_id":"` + file + `","chunking_strategy":{"type":"static","static":{"max_chunk_size_tokens":5}}}`, 400,
			"max_chunk_size_tokens"},
		{"POST", at + "/files", `{"file_id":"` + file +
			`","chunking_strategy":{"type":"static","static":{"max_chunk_size_tokens":200,"chunk_overlap_tokens":101}}}`, 400, "overlap"},
		{"POST", at + "/search", `{}`, 400, "query"},
		{"POST", at + "/search", `{"query":" "}`, 400, "query"},
		{"POST", at + "/search", `{"query":5}`, 400, "query"},
		{"POST", at + "/search", `{"query":"a","max_num_results":51}`, 400, "max_num_results"},
		{"POST", at + "/search", `{"query":"a","filters":{"type":"like"}}`, 400, "filters"},
		{"POST", at + "/search", `{"query":"a","filters":{"type":"and","filters":[]}}`, 400, "filters"},
		{"POST", at + "/search", `{"query":"a","filters":{"type":"in","key":"a","value":1}}`, 400, "list"},
		{"POST", at + "/search", `{"query":"a","filters":` + strings.Repeat(`{"type":"and","filters":[`, 10) + `{}` +
			strings.Repeat("]}", 10) + `}`,
			400, "filters"},
		{"POST", at + "/search", `{"query":"a","ranking_options":{"score_threshold":2}}`, 400, "score_threshold"},
		{"GET", "/api/axle/documents/files/" + file + "/pages/x", "", 400, "page"},
		{"GET", "/api/axle/documents/files/" + file + "/pages/0", "", 404, "not been read"},
	} {
		if a := r.do(c.method, c.path, c.body); a.code != c.code || !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s %.60s: %d %s, want %d and %q", c.method, c.path, c.body, a.code, a.body, c.code, c.want)
		}
	}
	for name, form := range map[string]func(w *multipart.Writer){
		"no file":      func(w *multipart.Writer) { _ = w.WriteField("purpose", "assistants") },
		"no purpose":   func(w *multipart.Writer) { part(w, "a.txt", "x") },
		"another":      func(w *multipart.Writer) { part(w, "a.txt", "x"); _ = w.WriteField("purpose", "fine-tune") },
		"two files":    func(w *multipart.Writer) { part(w, "a.txt", "x"); part(w, "b.txt", "x") },
		"a long field": func(w *multipart.Writer) { _ = w.WriteField("purpose", strings.Repeat("a", 5<<10)) },
	} {
		if code, body := r.form("", form); code != 400 {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	if code, body := r.form("", func(w *multipart.Writer) {
		_ = w.WriteField("purpose", "assistants")
		part(w, "a.txt", strings.Repeat("x", 2<<20))
	}); code != 413 {
		t.Errorf("a file that is too large: %d %s", code, body)
	}
	var files struct{ Data []struct{ ID string } }
	if r.ask("", "GET", "/v1/files", "", &files); len(files.Data) != 1 {
		t.Errorf("%d files are kept", len(files.Data))
	}
	if a := newRig(t).do("GET", "/v1/files", ""); a.code != 501 || !strings.Contains(a.body, "--documents") {
		t.Errorf("without a folder: %d %s", a.code, a.body)
	}
}

// TestDocumentsFail: a file that cannot be read says why, and one that is deleted while it is read
// ends the reading.
func TestDocumentsFail(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	r := documentsRig(t, func(ctx context.Context, name string, _ io.ReaderAt, _ int64) (*index.Document, error) {
		switch name {
		case "panic.txt":
			panic("broken")
		case "slow.txt":
			close(began)
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, ctx.Err()
		}
		return nil, &documents.Unread{Code: "unsupported_file", Message: "it is a picture"}
	})
	var store struct{ ID string }
	a, b, c := r.upload("", "picture.png", "x"), r.upload("", "panic.txt", "x"), r.upload("", "slow.txt", "x")
	r.ask("", "POST", "/v1/vector_stores", `{"file_ids":["`+a+`","`+b+`","`+c+`"]}`, &store)
	<-began
	for file, want := range map[string]string{a: "it is a picture", b: "internal error"} {
		var e struct {
			Status    string
			LastError struct{ Code, Message string } `json:"last_error"`
		}
		r.ask("", "GET", "/v1/vector_stores/"+store.ID+"/files/"+file, "", &e)
		if e.Status != "failed" || !strings.Contains(e.LastError.Message, want) {
			t.Errorf("%+v, want %q", e, want)
		}
	}
	if a := r.do("DELETE", "/v1/files/"+c, ""); a.code != 200 {
		t.Error(a.body)
	}
	if err := <-ended; err == nil {
		t.Error("what was deleted is read on")
	}
}

// TestDocumentsVectors: where an embedding model is loaded, its vectors help; files that were
// indexed before get theirs with the next question. A reranker reads the best again.
func TestDocumentsVectors(t *testing.T) {
	r := documentsRig(t, readPlain)
	early := r.upload("", "early.md", "red green blue\n")
	var store struct{ ID string }
	r.ask("", "POST", "/v1/vector_stores", `{"file_ids":["`+early+`"]}`, &store)
	r.indexed("", store.ID)
	model := func(file string) string {
		var e struct {
			Model string `json:"embedding_model"`
		}
		r.ask("", "GET", "/v1/vector_stores/"+store.ID+"/files/"+file, "", &e)
		return e.Model
	}
	if m := model(early); m != "" {
		t.Errorf("vectors of %q, and no model is loaded", m)
	}
	if a := r.post("/api/embed", `{"model":"scripted-embed","input":"x","keep_alive":-1}`); a.code != 200 {
		t.Fatal(a.body)
	}
	late := r.upload("", "late.md", "circles and squares\n")
	var entry struct{ Status string }
	r.ask("", "POST", "/v1/vector_stores/"+store.ID+"/files", `{"file_id":"`+late+`"}`, &entry)
	r.indexed("", store.ID)
	var found searched
	r.ask("", "POST", "/v1/vector_stores/"+store.ID+"/search", `{"query":"red green blue"}`, &found)
	if len(found.Data) == 0 {
		t.Error("nothing is found")
	}
	for _, file := range []string{early, late} {
		for model(file) == "" {
			select {
			case <-t.Context().Done():
				t.Fatal("no vectors")
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	// The vectors find what has none of the words.
	found = searched{}
	r.ask("", "POST", "/v1/vector_stores/"+store.ID+"/search", `{"query":"red green blue"}`, &found)
	if len(found.Data) != 2 || found.Data[0].Score > 1 {
		t.Errorf("%+v", found)
	}
	found = searched{}
	r.ask("", "POST", "/v1/vector_stores/"+store.ID+"/search", `{"query":"red green blue","ranking_options":{"ranker":"none"}}`, &found)
	if len(found.Data) != 1 {
		t.Errorf("without rankers: %+v", found)
	}
	for _, to := range []string{"my-reranker"} {
		if a := r.post("/api/copy", `{"source":"scripted","destination":"`+to+`"}`); a.code != 200 {
			t.Fatal(a.body)
		}
		if a := r.post("/api/generate", `{"model":"`+to+`","keep_alive":-1}`); a.code != 200 {
			t.Fatal(a.body)
		}
	}
	found = searched{}
	r.ask("", "POST", "/v1/vector_stores/"+store.ID+"/search", `{"query":"circles"}`, &found)
	if len(found.Data) == 0 || found.Data[0].FileID != late || found.Data[0].Score < 0.5 {
		t.Errorf("with a reranker: %+v", found)
	}
}

type searched struct {
	Data []struct {
		FileID   string `json:"file_id"`
		Filename string
		Heading  string
		Page     int
		Score    float64
		Content  []struct{ Text string }
		Place    struct{ Start, End, Line int }
	}
}

// TestDocumentsExpiry: expires_after is kept by a change that does not say it, and ended by null.
func TestDocumentsExpiry(t *testing.T) {
	r := documentsRig(t, readPlain)
	var store struct {
		ID    string
		After *struct{ Days int } `json:"expires_after"`
	}
	r.ask("", "POST", "/v1/vector_stores", `{"expires_after":{"anchor":"last_active_at","days":3}}`, &store)
	for _, c := range []struct {
		body string
		days int
	}{{`{"name":"a"}`, 3}, {`{"expires_after":{"anchor":"last_active_at","days":5}}`, 5}, {`{"expires_after":null}`, 0}} {
		store.After = nil
		r.ask("", "POST", "/v1/vector_stores/"+store.ID, c.body, &store)
		if days := store.After; days == nil && c.days != 0 || days != nil && days.Days != c.days {
			t.Errorf("%s: %+v, want %d days", c.body, days, c.days)
		}
	}
}

// TestDocumentsHalf: a vector store that has no room for all of its files is not made at all.
func TestDocumentsHalf(t *testing.T) {
	const room = 3000
	r := limitedRig(t, readPlain, index.Limits{Bytes: room})
	var ids []string
	for range 8 {
		ids = append(ids, `"`+r.upload("", "a.md", "a")+`"`)
	}
	var state struct {
		Used int `json:"used_bytes"`
	}
	r.ask("", "GET", "/api/axle/documents", "", &state)
	r.upload("", "fill.md", strings.Repeat("x", room-state.Used-600)) // 600 bytes are some records
	if a := r.do("POST", "/v1/vector_stores", `{"file_ids":[`+strings.Join(ids, ",")+`]}`); a.code != http.StatusInsufficientStorage {
		t.Errorf("%d %s", a.code, a.body)
	}
	if a := r.do("GET", "/v1/vector_stores", ""); !strings.Contains(a.body, `"data":[]`) {
		t.Error(a.body)
	}
}

// documentsRig is a server that keeps documents.
func documentsRig(t *testing.T, read index.Reader, keys ...access.Line) *rig {
	t.Helper()
	return limitedRig(t, read, index.Limits{File: 1 << 20}, keys...)
}

func limitedRig(t *testing.T, read index.Reader, limits index.Limits, keys ...access.Line) *rig {
	t.Helper()
	lib, err := index.OpenLibrary(filepath.Join(t.TempDir(), "documents"), limits)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(o *server.Options, _ *scripted.Config) {
		o.Documents = documents.Options{Library: lib, Read: read}
		if len(keys) > 0 {
			o.Keys = access.New(keys...)
		}
	})
	t.Cleanup(func() {
		_ = r.Close(context.Background())
		if err := lib.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// readPlain takes every file for Markdown.
func readPlain(_ context.Context, name string, data io.ReaderAt, size int64) (*index.Document, error) {
	b, err := io.ReadAll(io.NewSectionReader(data, 0, size))
	return &index.Document{Title: "Cards", Kind: "markdown", Pages: []index.Page{{Text: string(b), Line: 1}}}, err
}

func part(w *multipart.Writer, name, text string) {
	p, _ := w.CreateFormFile("file", name)
	_, _ = io.WriteString(p, text)
}

// form sends a form to /v1/files.
func (r *rig) form(key string, fill func(w *multipart.Writer)) (int, string) {
	r.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	fill(w)
	_ = w.Close()
	req, _ := http.NewRequest(http.MethodPost, r.url+"/v1/files", &b)
	req.Header.Set("Content-Type", w.FormDataContentType())
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

// upload uploads a file, and gives its id.
func (r *rig) upload(key, name, text string) string {
	r.t.Helper()
	code, body := r.form(key, func(w *multipart.Writer) {
		_ = w.WriteField("purpose", "assistants")
		part(w, name, text)
	})
	var f struct{ ID string }
	if err := json.Unmarshal([]byte(body), &f); err != nil || code != 200 {
		r.t.Fatalf("%d %s", code, body)
	}
	return f.ID
}

// ask asks a route that answers, and decodes what it says.
func (r *rig) ask(key, method, path, body string, to any) {
	r.t.Helper()
	var header []string
	if key != "" {
		header = []string{"Authorization", "Bearer " + key}
	}
	a := r.do(method, path, body, header...)
	if err := json.Unmarshal([]byte(a.body), to); err != nil || a.code != 200 {
		r.t.Fatalf("%s %s: %d %s", method, path, a.code, a.body)
	}
}

// indexed waits until a vector store has indexed its files.
func (r *rig) indexed(key, store string) {
	r.t.Helper()
	for ctx := r.t.Context(); ; {
		var s struct{ Status string }
		r.ask(key, "GET", "/v1/vector_stores/"+store, "", &s)
		if s.Status != "in_progress" {
			return
		}
		select {
		case <-ctx.Done():
			r.t.Fatal(ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
