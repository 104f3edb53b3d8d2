//go:build !scripted

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/engine/bench/report"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/pocket"
)

// TestBenchPocket measures the small model on the software card and reads back everything that is
// written.
func TestBenchPocket(t *testing.T) {
	lane.Slow(t)
	unraced(t)
	dir, tmp := benchDir(t), t.TempDir()
	trace := filepath.Join(tmp, "b.trace")
	text, err := benchRun(t, dir, "--device", "soft", "-p", "24", "-n", "6", "-r", "2", "-c", "1,3", "--json", "--trace", trace)
	if err != nil {
		t.Fatal(err)
	}
	first := text
	var r, again report.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(r, again) {
		t.Errorf("the report does not survive a round trip: %v", err)
	}
	if len(r.Models) != 1 || len(r.Models[0].Cases) != 3 || r.Facts.Cores == 0 || r.Facts.Card.Kind != "soft" {
		t.Fatalf("%+v", r)
	}
	for _, c := range r.Models[0].Cases {
		if len(c.First.Values) != 2 || c.First.Low <= 0 || c.Decode.Low <= 0 || c.Passes < 6 || len(c.Stages) != 12 || c.Short {
			t.Errorf("%s: %+v", c.Load, c)
		}
		stage := map[string]float64{}
		for _, s := range c.Stages {
			stage[s.Name] = s.Token
		}
		if stage["template"] <= 0 || stage["tokenize"] <= 0 || stage["layers"] <= 0 || stage["head"] <= 0 || stage["detokenize"] <= 0 ||
			stage["write"] <= 0 {
			t.Errorf("%s: a stage was not measured: %v", c.Load, stage)
		}
	}
	if roof := r.Models[0].Roofline; roof == nil || roof.Weights <= 0 || roof.Bandwidth <= 0 || roof.Text == "" {
		t.Errorf("%+v", roof)
	}
	checkTrace(t, trace)

	if text, err = benchRun(t, dir, "--device", "soft", "-p", "24", "-n", "6", "-r", "1", "-c", "1,3", "--draft", dir, "--json",
		"--trace", trace); err != nil {
		t.Fatal(err)
	}
	var by report.Report
	if err := json.Unmarshal([]byte(text), &by); err != nil {
		t.Fatal(err)
	}
	for _, c := range by.Models[0].Cases {
		if len(c.Stages) != 13 {
			t.Errorf("%s: %d stages", c.Load, len(c.Stages))
		}
	}
	checkTrace(t, trace)

	text = first
	before := filepath.Join(tmp, "a.json")
	if err := os.WriteFile(before, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err = benchRun(t, "--compare", before, before); err != nil || !strings.Contains(text, "~") ||
		!strings.Contains(text, "Fewer than four") {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err = benchRun(t, dir, "--device", "soft", "-p", "8", "-n", "2", "-r", "1", "-c", "1"); err != nil ||
		!strings.Contains(text, "in no stage") || !strings.Contains(text, "roofline:") {
		t.Errorf("%v\n%s", err, text)
	}
}

// benchRun runs a command line and gives what it printed.
func benchRun(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := newRootCmd()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{"bench"}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// pocketDir is the model that ships inside, as a folder.
func pocketDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, pocket.FS()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// benchDir is pocketDir, for a command that runs in this process, with an empty store.
func benchDir(t *testing.T) string {
	t.Helper()
	t.Setenv("AXLE_MODELS", t.TempDir())
	return pocketDir(t)
}

// TestBenchTalks: conversations that take turns are measured in one run with each place where rows
// can be kept, and shown as a table and as JSON.
func TestBenchTalks(t *testing.T) {
	lane.NoRace(t)
	dir, tmp := benchDir(t), t.TempDir()
	text, err := benchRun(t, dir, "--device", "soft", "--conversations", "3", "-p", "320", "-n", "2", "--turns", "1", "--cache-ram", "64MB",
		"--cache-disk", "64MB", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Models) != 1 || len(r.Models[0].Talks) != 1 || len(r.Models[0].Cases) != 0 {
		t.Fatalf("%+v", r)
	}
	c := r.Models[0].Talks[0]
	if want := (bench.Talk{Conversations: 3, Prompt: 320, Turns: 1, New: 32, Output: 2}); c.Talk != want || len(c.Ways) != 4 {
		t.Fatalf("%+v, want %+v and four ways", c, want)
	}
	for i, kept := range []string{bench.KeptCard, bench.KeptMemory, bench.KeptNoDisk, bench.KeptDisk} {
		w := &c.Ways[i]
		asked := uint64(3 * (320 + 2 + 32))
		if i >= 2 {
			asked = 3 * (320 + 2*(2+32))
		}
		if w.Kept != kept || len(w.First.Values) != 3 || w.First.Low <= 0 || w.Asked != asked ||
			w.Card+w.Memory+w.Disk+w.Evaluated() != asked || (w.Room > 0) != (kept == bench.KeptMemory) {
			t.Errorf("%s: %+v", kept, w)
		}
		t.Logf("%s: first token %v ms, of %d tokens %d on the card, %d in memory, %d on disk", kept, w.First, asked, w.Card, w.Memory,
			w.Disk)
	}
	before := filepath.Join(tmp, "a.json")
	if err := os.WriteFile(before, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if text, err = benchRun(t, "--compare", before, before); err != nil || !strings.Contains(text, "pocket, and memory: 3 of p320") {
		t.Errorf("%v\n%s", err, text)
	}
	var out strings.Builder
	if err := r.Text(&out); err != nil || !strings.Contains(out.String(), "3 conversations of 320 tokens take turns") ||
		!strings.Contains(out.String(), "the same, with disk") {
		t.Errorf("%v\n%s", err, out.String())
	}
	if left, err := filepath.Glob(filepath.Join(os.Getenv("AXLE_MODELS"), "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestBenchUsage(t *testing.T) {
	t.Setenv("AXLE_MODELS", t.TempDir())
	net := filepath.Join(t.TempDir(), "n.axmodel")
	if err := os.WriteFile(net, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"", "which model?"},
		{"m -p 0", "-p takes numbers between 1 and 1048576"},
		{"m -p -5", "-p takes numbers between 1 and 1048576"},
		{"m -p 99999999999999999999", "-p takes"},
		{"m -p 1,,2", "-p takes"},
		{"m -p " + strings.Repeat("1,", 40) + "1", "at most 32"},
		{"m -n 0", "-n takes"},
		{"m -n x", "-n takes"},
		{"m -c 0", "-c takes numbers between 1 and 256"},
		{"m -c 257", "-c takes"},
		{"m -r 0", "-r must be between 1 and 1000, got 0"},
		{"m -r -3", "-r must be"},
		{"m -r 1001", "-r must be"},
		{"m -r many", "invalid argument"},
		{"m --parallel -1", "--parallel must be between 0 and 256"},
		{"m --period -1", "--period must be"},
		{"m --speculate maybe", "--speculate is off, on or both"},
		{"m --profile nowhere", "nowhere"},
		{"qwen3-0.6b --device soft --draft d", "has no words"},
		{"m --against odd http://h", "--against is ollama or openai"},
		{"m --against ollama", "needs the server's URL"},
		{"m --against ollama ftp://h", "needs the server's URL"},
		{"--against ollama http://h", "which model?"},
		{"m --turns 3", "--turns is for --conversations"},
		{"m --cache-ram 1GB", "--cache-ram is for --conversations"},
		{"m --cache-disk 1GB", "--cache-disk is for --conversations"},
		{"m --conversations 0", "--conversations must be between 1 and 64, got 0"},
		{"m --conversations 65", "--conversations must be"},
		{"m --conversations 2 --turns -1", "--turns must be between 0 and 1000, got -1"},
		{"m --conversations 2 --turns 1001", "--turns must be"},
		{"m --conversations 2 -c 4", "--conversations and --clients cannot be had together"},
		{"m --conversations 2 -n 8,16", "one length of answers"},
		{"m --conversations 2 --cache-ram much", "is no size"},
		{"m --conversations 2 --cache-disk much", "is no size"},
		{"qwen3-0.6b --device soft --conversations 2 -p 2000", "reach 2096, the model's context is 2047"},
		{"qwen3-0.6b --device soft --conversations 2 -p 900 --turns 40", "the model's context is 2047"},
		{"m --conversations 2 --trace t.json", "cannot be had together"},
		{"m --trace t.json --against ollama http://h", "cannot be had together"},
		{net + " --trace t.json", "are for models"}, {net + " --md", "are for models"},
		{"qwen3-0.6b --json --md", "cannot be had together"},
		{"qwen3-0.6b --device soft --trace /nowhere/at/all.json", "there is no folder"},
		{"--compare a.json", "--compare takes two files"},
		{"qwen3-0.6b --device soft -p 2000 -n 500", "do not fit the model's context of 2047"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			_, err := benchRun(t, strings.Fields(tt.args)...)
			var exit *exitError
			if !errors.As(err, &exit) || exit.code != 2 || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want a usage error with %q", err, tt.want)
			}
		})
	}
}

// checkTrace: spans of a line follow each other, and each pass says whose rows it carried.
func checkTrace(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var tr struct {
		TraceEvents []struct {
			Name     string
			Ph       string
			Ts, Dur  float64
			Pid, Tid int
			Args     struct {
				Rows     int
				Requests []struct{ Request, Rows int }
			}
		}
	}
	if err := json.Unmarshal(b, &tr); err != nil {
		t.Fatal(err)
	}
	end := map[[2]int]float64{}
	passes := 0
	for _, e := range tr.TraceEvents {
		if e.Ph != "X" {
			continue
		}
		at := [2]int{e.Pid, e.Tid}
		if e.Ts < end[at]-1e-3 {
			t.Errorf("%s at %v begins before what was at %v ended", e.Name, e.Ts, end[at])
		}
		if e.Tid < 10 {
			end[at] = e.Ts + e.Dur
		}
		if e.Tid == 1 {
			passes++
			rows := 0
			for _, q := range e.Args.Requests {
				rows += q.Rows
			}
			if rows != e.Args.Rows || rows == 0 {
				t.Errorf("a pass of %d rows, %d of them of requests", e.Args.Rows, rows)
			}
		}
	}
	if passes < 10 {
		t.Errorf("%d passes", passes)
	}
}

func TestBenchCompare(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, speed float64, load bench.Load) string {
		r := report.Report{Version: 1, Models: []report.Model{{Name: "m", Cases: []bench.Case{{Load: load}}}}}
		var v []float64
		for i := range 5 {
			v = append(v, speed*(1+float64(i)/1000))
		}
		r.Models[0].Cases[0].Decode = bench.NewSample(v)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	l := bench.Load{Prompt: 1, Output: 2, Clients: 1}
	a, b := file("a.json", 10, l), file("b.json", 12, l)
	text, err := benchRun(t, "--compare", a, b)
	if err != nil || !strings.Contains(text, "+20.00%, 1.200 times [1.195, 1.205]") || !strings.Contains(text, "p=0.008") {
		t.Errorf("%v\n%s", err, text)
	}
	if text, err = benchRun(t, "--compare", a, file("c.json", 10.001, l)); err != nil || !strings.Contains(text, "~") ||
		strings.Contains(text, "times") {
		t.Errorf("%v\n%s", err, text)
	}
	for name, content := range map[string]string{"no.json": "{", "old.json": `{"version":0}`} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := benchRun(t, "--compare", a, path); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := benchRun(t, "--compare", a, file("d.json", 1, bench.Load{Prompt: 9})); err == nil ||
		!strings.Contains(err.Error(), "no case in common") {
		t.Error(err)
	}
}

// TestBenchAgainst asks a server that answers with three tokens in two chunks.
func TestBenchAgainst(t *testing.T) {
	lane.Slow(t)
	dir := benchDir(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q map[string]any
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q["model"] == "" || q["stream"] != true {
			t.Errorf("%v: %v", err, q)
		}
		if q["model"] == "broken" {
			http.Error(w, `{"error":"no such model"}`, http.StatusNotFound)
			return
		}
		switch r.URL.Path {
		case "/api/generate":
			fmt.Fprintln(w, `{"response":"a b","done":false}`)
			w.(http.Flusher).Flush()
			fmt.Fprintln(w, `{"response":"c","done":false}`)
			fmt.Fprintln(w, `{"done":true,"eval_count":3,"prompt_eval_count":9}`)
		case "/v1/chat/completions":
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a b\"}}]}\n\ndata: "+
				"{\"choices\":[{\"delta\":{\"content\":\"c\"}}]}\n\n")
			fmt.Fprint(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n")
		default:
			t.Errorf("asked for %s", r.URL.Path)
		}
	}))
	defer srv.Close()
	for _, kind := range []string{"ollama", "openai"} {
		text, err := benchRun(t, dir, "--device", "soft", "-p", "8", "-n", "3", "-c", "2", "-r", "2", "--json", "--against", kind, srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		var r report.Report
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatal(err)
		}
		a := r.Models[0].Against
		if a == nil || len(a.Cases) != 1 || a.Cases[0].There.Tokens != 6 || a.Cases[0].Here.Tokens < 2 || a.Cases[0].Here.Tokens > 6 ||
			a.Cases[0].There.Prompt != 18 || len(a.Cases[0].Here.First.Values) != 2 {
			t.Errorf("%s: %+v", kind, a)
		}
	}
	if _, err := benchRun(t, dir, "--device", "soft", "-p", "8", "-n", "3", "-c", "1", "-r", "1", "--against-model", "broken", "--against",
		"ollama", srv.URL); err == nil || !strings.Contains(err.Error(), "no such model") {
		t.Error(err)
	}
}

// TestBenchAgainstBad: what other servers get wrong is said in one line that names the server and
// what it did.
func TestBenchAgainstBad(t *testing.T) {
	lane.Slow(t)
	unraced(t)
	dir := benchDir(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct{ Model string }
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			t.Error(err)
		}
		switch q.Model {
		case "absent":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error":{"message":"no such thing","type":"x"}}`)
		case "busy":
			http.Error(w, `{"error":"all slots taken"}`, http.StatusServiceUnavailable)
		case "page":
			fmt.Fprintln(w, "<html>hello</html>")
		case "short":
			fmt.Fprintln(w, `{"response":"a","done":false}`)
		case "cut":
			w.Header().Set("Content-Length", "1000")
			fmt.Fprintln(w, `{"response":"a","done":false}`)
		case "midway":
			fmt.Fprint(w, "{\"response\":\"a\",\"done\":false}\n{\"error\":\"the card is lost\"}\n")
		case "mute":
			fmt.Fprintln(w, `{"response":"","done":true,"eval_count":3}`)
		case "odd":
			fmt.Fprintln(w, `{"response":`)
		case "hang":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer srv.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	ask := func(ctx context.Context, model, url string) error {
		root := newRootCmd()
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		root.SetArgs([]string{"bench", dir, "--device", "soft", "-p", "8", "-n", "3", "-c", "2", "-r", "1", "--against-model", model,
			"--against", "ollama", url})
		return root.ExecuteContext(ctx)
	}
	for model, want := range map[string]string{
		"absent": `404 Not Found: no such thing (the model is asked for as "absent": --against-model`,
		"busy":   "503 Service Unavailable: all slots taken",
		"page":   "is it ollama's API",
		"short":  "broke off after 1 pieces",
		"cut":    "broke off: unexpected EOF",
		"midway": "/api/generate: the card is lost",
		"mute":   "had no text",
		"odd":    "no JSON",
	} {
		if err := ask(t.Context(), model, srv.URL); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), srv.URL) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", model, err, want)
		}
	}
	if err := ask(t.Context(), "any", gone.URL); err == nil || !strings.Contains(err.Error(), "connection refused") ||
		strings.Count(err.Error(), gone.URL) != 1 {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := ask(ctx, "hang", srv.URL); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("a server that says nothing, and the user goes: ", err)
	}
}
