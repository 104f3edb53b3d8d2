package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/hub"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/manage"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/scripted"
)

// An answer is one's own by the session it was asked in. Who asked ends it from elsewhere, and the
// answer says so. No other client can end it, or sees more of it than numbers.
func TestEndOwn(t *testing.T) {
	r := newRig(t)
	rest := r.streaming("Axle-Session", session)
	var mine, others, none state
	r.monitor("state", &mine, "Axle-Session", session)
	r.monitor("state", &others, "Axle-Session", stranger)
	r.monitor("state", &none)
	if len(mine.Streams) != 1 || !mine.Streams[0].Own || mine.Streams[0].State != "answering" ||
		mine.Streams[0].Model != "scripted-chat:latest" ||
		mine.Streams[0].Route != "/api/chat" || mine.Streams[0].Prompt == 0 || mine.Streams[0].Load <= 0 || mine.Streams[0].Queue == nil {
		t.Fatalf("%+v", mine.Streams)
	}
	if len(others.Streams) != 1 || others.Streams[0].Own || none.Streams[0].Own {
		t.Errorf("others see %+v and %+v", others.Streams, none.Streams)
	}
	id := mine.Streams[0].ID
	if b := r.do("GET", "/api/axle/state", "", "Axle-Session", stranger).body; strings.Contains(b, "secretword") ||
		strings.Contains(b, session) {
		t.Errorf("others are told %s", b)
	}
	for _, c := range []struct {
		id   string
		code int
		with []string
	}{{id, 403, []string{"Axle-Session", stranger}}, {id, 403, nil}, {"999", 404, []string{"Axle-Session", session}},
		{"x", 404, []string{"Axle-Session", session}},
		{id, 400, []string{"Axle-Session", "short"}}, {id, 204, []string{"Axle-Session", session}}} {
		if a := r.do("DELETE", "/api/axle/streams/"+c.id, "", c.with...); a.code != c.code {
			t.Errorf("ending %s with %q: %d %s, want %d", c.id, c.with, a.code, a.body, c.code)
		}
	}
	if got := <-rest; !strings.HasSuffix(got, "{\"error\":\"the answer was ended by its owner\"}\n") {
		t.Errorf("the answer ends with %q", got[max(0, len(got)-200):])
	}
	if a := r.do("DELETE", "/api/axle/streams/"+id, "", "Axle-Session", session); a.code != 404 {
		t.Errorf("ended twice: %d", a.code)
	}
	if a := r.post("/api/chat", chatBody("scripted-chat", "hello", ""), "Axle-Session", "white space!"); a.code != 400 ||
		!strings.Contains(a.body, "Axle-Session") {
		t.Errorf("a session of another form: %d %s", a.code, a.body)
	}
}

const session, stranger = "0123456789abcdef", "fedcba9876543210"

// monitor gets one of the routes under /api/axle into v.
func (r *rig) monitor(path string, v any, header ...string) {
	r.t.Helper()
	a := r.do("GET", "/api/axle/"+path, "", header...)
	if a.code != 200 {
		r.t.Fatalf("%s: %d %s", path, a.code, a.body)
	}
	d := json.NewDecoder(strings.NewReader(a.body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		r.t.Fatalf("%s: %v in %s", path, err, a.body)
	}
}

// state is what the page reads of /api/axle/state. A field that is not here is one that docs/api.md
// does not name.
type state struct {
	Status   string  `json:"status"`
	Admin    bool    `json:"admin"`
	Uptime   float64 `json:"uptime_seconds"`
	Rate     float64 `json:"tokens_per_second"`
	First    float64 `json:"first_token_ms"`
	Warnings []struct {
		ID, About, Text string
		Values          map[string]any
	} `json:"warnings"`
	Cards []struct {
		Device, Kind, Name, Says, Bus, Driver, Firmware, State string
		Software                                               bool
		Temperature                                            *float64 `json:"temperature_celsius"`
		Load                                                   *float64 `json:"npu_load"`
		Memory                                                 int64    `json:"memory_bytes"`
		Free                                                   int64    `json:"memory_free_bytes"`
		Of                                                     string   `json:"memory_of"`
	} `json:"cards"`
	Models []struct {
		Name, Device, State string
		Context             int
		InUse               int              `json:"in_use"`
		Expires             time.Time        `json:"expires_at"`
		Memory              map[string]int64 `json:"memory"`
		Busy                float64          `json:"busy_seconds"`
		Passes              map[string]uint64
		Cells               int
		Used                int `json:"cells_used"`
		Cached              int `json:"cells_cached"`
		Shared              int `json:"cells_shared"`
		Running, Queued     int
		Slots               int
		InSlots             int           `json:"slots_used"`
		Kept                int           `json:"slots_kept"`
		Tiers               []manage.Tier `json:"tiers"`
	} `json:"models"`
	Loads []struct {
		Model, State, File string
		Files              int
		Done               int `json:"files_done"`
		Bytes              int64
		Have               int64    `json:"bytes_done"`
		Rate               float64  `json:"bytes_per_second"`
		Elapsed            float64  `json:"elapsed_seconds"`
		Left               *float64 `json:"left_seconds"`
	} `json:"loads"`
	Waiting int `json:"waiting_for_load"`
	Streams []struct {
		ID, Model, Route, State string
		Own                     bool
		Age                     float64  `json:"age_seconds"`
		Prompt                  int      `json:"prompt_tokens"`
		Cached                  int      `json:"cached_tokens"`
		Tokens                  int      `json:"tokens"`
		Rate                    float64  `json:"tokens_per_second"`
		Load                    float64  `json:"load_seconds"`
		Queue                   *float64 `json:"queue_seconds"`
	} `json:"streams"`
	Bench struct {
		Allowed, Running bool
		Why              string
	} `json:"benchmark"`
}

// streaming begins an answer that goes on until it is ended, and reads its first part. The rest
// comes from rest.
func (r *rig) streaming(header ...string) (rest <-chan string) {
	r.t.Helper()
	say := "[[delay:5]][[say:" + strings.Repeat("secretword |", 100000) + "]]"
	req, err := http.NewRequest("POST", r.url+"/api/chat", strings.NewReader(chatBody("scripted-chat", say, "")))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = resp.Body.Close() })
	if _, err := resp.Body.Read(make([]byte, 16)); err != nil {
		r.t.Fatal(err)
	}
	out := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(resp.Body)
		out <- string(b)
	}()
	return out
}

// Where there are keys, an answer is its key's, whatever session a client names; without a key
// nothing is told.
func TestEndOwnByKey(t *testing.T) {
	const ann, bob = "secret-of-ann", "secret-of-bob"
	r := newRig(t, func(o *server.Options, _ *scripted.Config) {
		o.Keys = newKeys("ann", ann, "bob", bob)
	})
	rest := r.streaming("Authorization", "Bearer "+ann, "Axle-Session", session)
	for _, path := range []string{"state", "cells", "catalogue", "store", "bench"} {
		if a := r.do("GET", "/api/axle/"+path, ""); a.code != 401 {
			t.Errorf("%s without a key: %d", path, a.code)
		}
	}
	var anns, bobs state
	r.monitor("state", &anns, "Authorization", "Bearer "+ann)
	r.monitor("state", &bobs, "Authorization", "Bearer "+bob, "Axle-Session", session)
	if len(anns.Streams) != 1 || !anns.Streams[0].Own || bobs.Streams[0].Own {
		t.Fatalf("ann %+v, bob %+v", anns.Streams, bobs.Streams)
	}
	id := anns.Streams[0].ID
	if a := r.do("DELETE", "/api/axle/streams/"+id, ""); a.code != 401 {
		t.Errorf("without a key: %d", a.code)
	}
	if a := r.do("DELETE", "/api/axle/streams/"+id, "", "Authorization", "Bearer "+bob, "Axle-Session", session); a.code != 403 {
		t.Errorf("with another's key: %d", a.code)
	}
	if a := r.do("DELETE", "/api/axle/streams/"+id, "", "Authorization", "Bearer "+ann); a.code != 204 {
		t.Errorf("with the same key: %d", a.code)
	}
	<-rest
}

// Nothing under /api/axle is reachable by a page of another origin, or under a name that can be
// registered.
func TestMonitorGuarded(t *testing.T) {
	//proves:T19
	r := newRig(t)
	for _, c := range [][2]string{{"GET", "state"}, {"GET", "cells"}, {"DELETE", "streams/1"}, {"GET", "catalogue"}, {"GET", "store"},
		{"GET", "bench"}, {"POST", "bench"}, {"DELETE", "bench"}} {
		for _, h := range [][]string{{"Origin", "https://evil.example"}, {"Host", "evil.example"}} {
			if a := r.do(c[0], "/api/axle/"+c[1], "", h...); a.code != 403 {
				t.Errorf("%s %s with %q: %d", c[0], c[1], h, a.code)
			}
		}
		if c[0] != "GET" {
			if a := r.do(c[0], "/api/axle/"+c[1], "", "Sec-Fetch-Site", "cross-site"); a.code != 403 {
				t.Errorf("%s %s from another site: %d", c[0], c[1], a.code)
			}
		}
	}
}

// The state tells of cards and models; a machine whose models are on no card says what they are on.
func TestMonitorState(t *testing.T) {
	r := newRig(t)
	var st state
	r.monitor("state", &st)
	if st.Status != "ok" || len(st.Models) != 0 || len(st.Cards) != 0 || !st.Bench.Allowed {
		t.Errorf("with nothing loaded: %+v", st)
	}
	r.post("/api/chat", chatBody("scripted-chat", "hello", ""))
	r.monitor("state", &st)
	if len(st.Models) != 1 || len(st.Cards) != 1 || st.Cards[0].Temperature == nil || st.First <= 0 || len(st.Streams) != 0 {
		t.Fatalf("%+v", st)
	}
	if m := st.Models[0]; m.Name != "scripted-chat:latest" || m.Memory["total"] != 512<<20 || m.Cells == 0 || m.Passes["decode"] == 0 {
		t.Errorf("%+v", m)
	}
	var cells struct {
		Model  string
		Copies []struct {
			Device                            string
			Age                               int64 `json:"age_ms"`
			Cells, Free, Used, Cached, Shared int
			Branches                          []struct {
				ID     int
				Own    bool
				State  string
				Tokens int
				Shared int `json:"shared_tokens"`
			}
			Map   [][2]int
			Tiers []struct {
				Name        string
				Cells, Used int
				Bytes       int64
			}
		}
	}
	r.monitor("cells?model=scripted-chat", &cells)
	sum := 0
	for _, c := range cells.Copies {
		for _, run := range c.Map {
			sum += run[0]
		}
		if sum != c.Cells || c.Free+c.Used != c.Cells || len(c.Branches) != 1 || !c.Branches[0].Own || c.Branches[0].State != "cached" {
			t.Errorf("%d cells in runs: %+v", sum, c)
		}
	}
	if cells.Model != "scripted-chat:latest" || len(cells.Copies) != 1 {
		t.Errorf("%+v", cells)
	}
	r.monitor("cells?model=scripted-embed", &cells)
	if len(cells.Copies) != 0 {
		t.Errorf("a model that is not loaded has a map: %+v", cells)
	}
	if a := r.do("GET", "/api/axle/cells?model="+strings.Repeat("x", 999), ""); a.code != 400 {
		t.Errorf("no model's name: %d %s", a.code, a.body)
	}
}

// The catalogue says what is here and what could be.
func TestMonitorCatalogue(t *testing.T) {
	r := newRig(t)
	r.post("/api/chat", chatBody("scripted-chat", "hello", ""))
	a := r.do("GET", "/api/axle/catalogue", "").object(t)
	here, all := a["here"].([]any), a["catalogue"].([]any)
	if len(here) < 4 || len(all) < 20 || a["can_pull"] != false {
		t.Fatalf("%d here, %d in all: %v", len(here), len(all), a["can_pull"])
	}
	if f := hub.First(models.CardSize{Room: int64(a["memory_bytes"].(float64))}); f == nil || a["first"] != f.Name {
		t.Errorf("the model to begin with is %v, not %+v", a["first"], f)
	}
	for _, h := range here {
		if m := h.(map[string]any); m["loaded"] != (m["name"] == "scripted-chat:latest") {
			t.Errorf("%v", m)
		}
	}
	if e := all[0].(map[string]any); e["fits"] != "now" || e["here"] != false || e["size_bytes"].(float64) < 1e8 ||
		e["card_bytes"].(float64) < 1e8 || len(e["cards_gb"].([]any)) != 3 {
		t.Errorf("%v", e)
	}
	i := slices.IndexFunc(all, func(e any) bool { return e.(map[string]any)["name"] == "qwen3:4b" })
	if e := all[i].(map[string]any); e["card_bytes"] != 6.3e9 || e["card_published"] != true || fmt.Sprint(e["cards_gb"]) != "[8 16]" {
		t.Errorf("%v", e)
	}
}

// cardless is a loader on a machine whose card is software, as id.
type cardless struct {
	*scripted.Loader
	id string
}

func (s *cardless) Cards() []pool.Card {
	return []pool.Card{{Info: axcl.Info{ID: s.id, Kind: "soft", Host: true, TotalMem: 8 << 30, FreeMem: 8 << 30}}}
}

// Without a card the catalogue says of its packages, which are built for the chip, that they need
// it, and no figure of a card; and what is loaded is on the processor, which Ollama's clients read
// from a size_vram of 0.
func TestMonitorWithoutCard(t *testing.T) {
	with := newRig(t)
	catalogue := func(r *rig, without bool) {
		a := r.do("GET", "/api/axle/catalogue", "").object(t)
		if a["first"] != "" { // with, the card is not known yet
			t.Errorf("without a card %v, begin with %q", without, a["first"])
		}
		for _, e := range a["catalogue"].([]any) {
			m := e.(map[string]any)
			if m["needs_card"] != without || without && (m["tokens_per_second"] != 0.0 || m["fits"] != "unknown") {
				t.Fatalf("without a card %v: %v", without, m)
			}
		}
	}
	catalogue(with, false)
	with.post("/api/chat", chatBody("scripted-chat", "hello", ""))
	var st state
	with.monitor("state", &st)
	l := &cardless{Loader: &scripted.Loader{Config: scripted.Config{Delay: time.Microsecond}}, id: st.Models[0].Device}
	s := server.New(local.New(with.store, local.Options{Describe: scripted.Describe}), l, nil, server.Options{Loopback: true,
		KeepAlive: 5 * time.Minute})
	ts := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		ts.Close()
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	r := &rig{s, t, ts.URL, l.Loader, with.store}
	catalogue(r, true)
	r.post("/api/chat", chatBody("scripted-chat", "hello", ""))
	if a := r.do("GET", "/api/ps", ""); !strings.Contains(a.body, `"size_vram":0,`) || strings.Contains(a.body, `"size":0,`) {
		t.Errorf("ps on the software card: %s", a.body)
	}
}

// Where models are kept is told to this machine only, and to no client from elsewhere, also not
// through a proxy on this machine.
func TestWhereModelsAre(t *testing.T) {
	r := newRig(t)
	var w struct{ Folder, User string }
	if a := r.do("GET", "/api/axle/store", ""); a.code != 200 || json.Unmarshal([]byte(a.body), &w) != nil || !filepath.IsAbs(w.Folder) ||
		w.User != runsAs() || !strings.Contains(a.body, `"paths":[`) {
		t.Errorf("%d %s", a.code, a.body)
	}
	for _, h := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"} {
		if a := r.do("GET", "/api/axle/store", "", h, "127.0.0.1"); a.code != 403 || strings.Contains(a.body, w.Folder) ||
			!strings.Contains(a.body, "own machine only") {
			t.Errorf("%s: %d %s", h, a.code, a.body)
		}
	}
}

// wait polls until ok.
func (r *rig) wait(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(patience); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("never came: " + what)
		}
	}
}

type benched struct {
	Allowed bool
	Why     string
	Running *struct {
		Model, Load string
		Step, Steps int
		Elapsed     float64 `json:"elapsed_seconds"`
		Own         bool
	}
	Error   string
	Results []struct {
		Model, Digest, Device, Name, Driver string
		When                                time.Time
		Disturbed                           bool
		Cases                               []map[string]any
		Last                                json.RawMessage
	}
}

// A benchmark runs one at a time, is kept in the store, and the one before stays to compare with. A
// second server finds both.
func TestBench(t *testing.T) {
	r := newRig(t)
	run := func() (b benched) {
		if a := r.post("/api/axle/bench", `{"model":"scripted","prompt_tokens":8,"output_tokens":4,"clients":[1,2],"repeats":2}`,
			"Axle-Session", session); a.code != 202 {
			t.Fatalf("%d %s", a.code, a.body)
		}
		r.wait("the end of the benchmark", func() bool { b = benched{}; r.monitor("bench", &b); return b.Running == nil })
		return b
	}
	b := run()
	if b.Error != "" || len(b.Results) != 1 || b.Results[0].Model != "scripted:latest" || len(b.Results[0].Cases) != 2 ||
		b.Results[0].Cases[1]["load"] != "p8 n4 c2" ||
		b.Results[0].Disturbed || string(b.Results[0].Last) != "null" {
		t.Fatalf("%+v", b)
	}
	first := b.Results[0].When
	if b = run(); !strings.Contains(string(b.Results[0].Last), first.Format(time.RFC3339)) {
		t.Errorf("the one before: %s", b.Results[0].Last)
	}
	files, _ := filepath.Glob(filepath.Join(r.store.Dir(), "bench", "*"))
	if len(files) != 1 || filepath.Base(files[0]) != "scripted_3alatest.json" {
		t.Fatalf("kept in %q", files)
	}
	other := newRig(t)
	if err := os.CopyFS(filepath.Join(other.store.Dir(), "bench"), os.DirFS(filepath.Dir(files[0]))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other.store.Dir(), "bench", "odd.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	other.monitor("bench", &b)
	if len(b.Results) != 1 || !strings.Contains(string(b.Results[0].Last), first.Format(time.RFC3339)) {
		t.Errorf("another server finds %+v", b.Results)
	}
}

// What is asked of a benchmark is bounded, one runs at a time, it can be ended, and a server's end
// ends it.
func TestBenchBounds(t *testing.T) {
	//proves:T19
	r := newRig(t, func(_ *server.Options, c *scripted.Config) { c.Delay = time.Minute }) // it never gets anywhere
	for body, code := range map[string]int{
		`{"model":"scripted","prompt_tokens":4097}`: 400, `{"model":"scripted","output_tokens":-1}`: 400,
		`{"model":"scripted","clients":[33]}`: 400, `{"model":"scripted","clients":[0]}`: 400,
		`{"model":"scripted","clients":[1,2,3,4,5,6,7,8,9]}`: 400, `{"model":"scripted","repeats":11}`: 400, `{"model":"nope"}`: 404,
		`{}`: 400, `{"model":7}`: 400,
	} {
		if a := r.post("/api/axle/bench", body); a.code != code {
			t.Errorf("%s: %d %s, want %d", body, a.code, a.body, code)
		}
	}
	if a := r.do("DELETE", "/api/axle/bench", ""); a.code != 404 {
		t.Errorf("ending none: %d", a.code)
	}
	start := func() { // as soon as the one before is gone
		r.wait("a benchmark", func() bool {
			return r.post("/api/axle/bench", `{"model":"scripted"}`, "Axle-Session", session).code == 202
		})
	}
	start()
	if a := r.post("/api/axle/bench", `{"model":"scripted"}`); a.code != 409 {
		t.Errorf("a second one: %d %s", a.code, a.body)
	}
	var b benched
	r.monitor("bench", &b, "Axle-Session", session)
	if b.Running == nil || !b.Running.Own || b.Running.Steps != 2 {
		t.Errorf("%+v", b.Running)
	}
	if a := r.do("DELETE", "/api/axle/bench", ""); a.code != 204 {
		t.Errorf("ending it: %d %s", a.code, a.body)
	}
	r.wait("its end", func() bool { b = benched{}; r.monitor("bench", &b); return b.Running == nil })
	if b.Error != "the benchmark was ended" {
		t.Errorf("it ended with %q", b.Error)
	}
	start() // and the server closes with it under way
}

// Where others than this machine can ask, benchmarks are off until the operator allows them.
func TestBenchAllowed(t *testing.T) {
	for _, allow := range []bool{false, true} {
		r := newRig(t, func(o *server.Options, _ *scripted.Config) { o.Loopback, o.Bench = false, allow })
		want := 403
		if allow {
			want = 202
		}
		if a := r.post("/api/axle/bench", `{"model":"scripted","prompt_tokens":4,"output_tokens":2,"clients":[1],"repeats":1}`); a.code !=
			want {
			t.Errorf("allowed %v: %d %s", allow, a.code, a.body)
		}
		if a := r.do("DELETE", "/api/axle/bench", ""); !allow && a.code != 403 {
			t.Errorf("ending: %d", a.code)
		}
		var b benched
		if r.monitor("bench", &b); b.Allowed != allow || (b.Why == "") != allow {
			t.Errorf("%v %q", b.Allowed, b.Why)
		}
	}
}

// runsAs is the user's name; empty where the machine has none for the number, as in some
// containers.
func runsAs() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}
