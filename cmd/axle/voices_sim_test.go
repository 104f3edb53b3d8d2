//go:build cgo && !fake && linux && !scripted

package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/axle-llm/axle/audio"
	"github.com/axle-llm/axle/axcl/native"
	"github.com/axle-llm/axle/axcl/simcard/simcardtest"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
)

// TestVoices: every kind that hears or speaks is pulled, listed, shown, inspected, planned and
// tried with a card as any model. On the card it does its work, takes the memory that was foreseen,
// goes when another needs its place, and goes by its keep_alive.
func TestVoices(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	v := newVoices(t)
	h := modelstest.NewHub()
	defer h.Close()
	t.Setenv("HF_ENDPOINT", h.URL)
	t.Setenv("HF_TOKEN", "")
	t.Setenv("AXLE_HOST", "127.0.0.1:1") // no server yet: doctor wants the card
	t.Setenv("AXLE_MODELS", v.folder)
	run := func(want string, args ...string) string {
		t.Helper()
		out, errs, err := command(t, args...)
		if words := strings.Join(strings.Fields(out+errs), " "); err != nil || !strings.Contains(words, want) {
			t.Errorf("%v: %v, want %q\n%s", args, err, want, words)
		}
		return out
	}
	for _, k := range v.kinds {
		if k.write != nil {
			dir := filepath.Join(t.TempDir(), "package")
			if err := k.write(dir); err != nil {
				t.Fatal(err)
			}
			if err := h.AddDir(k.name, dir); err != nil {
				t.Fatal(err)
			}
			run("success", "pull", k.name)
			run("kind "+k.kind, "inspect", dir)
		}
		run("kind "+k.kind, "inspect", k.name)
		run(k.name, "list")
		run(k.can, "show", k.name)
		run("fits", "plan", k.name)
		run("fits axle serve --preload ", "plan", "pocket", "--with", k.name)
		run("ok conformance: a layer of "+k.name, "doctor", "--model", k.name, "--device", "axcl")
	}

	host := v.serve(t, server.Options{Loopback: true, KeepAlive: time.Hour, MaxLoaded: 1})
	ask := func(name string, keep int, done string) {
		t.Helper()
		body := fmt.Sprintf(`{"model":%q,"keep_alive":%d}`, name, keep)
		resp, err := http.Post(host+"/api/generate", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if b, _ := io.ReadAll(resp.Body); !strings.Contains(string(b), `"done_reason":"`+done+`"`) {
			t.Errorf("%s: %s", body, b)
		}
	}
	before := ""
	for _, k := range v.kinds {
		if k.can == "speech" {
			run("", "say", "-m", k.name, "-o", filepath.Join(v.folder, "said.wav"), "Hello")
		} else if text := run("", "transcribe", "-m", k.name, v.wav); k.write != nil && strings.TrimSpace(text) == "" {
			t.Errorf("%s hears nothing", k.name)
		}
		if ps := run(k.name, "ps"); before != "" && strings.Contains(ps, before) {
			t.Errorf("%s stays beside %s", before, k.name)
		}
		before = k.name
		v.weigh(t, host, k.name)
	}
	for _, k := range v.kinds {
		ask(k.name, 3600, "load")
		run(k.name, "ps")
		ask(k.name, 0, "unload")
		if ps := run("NAME", "ps"); strings.Contains(ps, k.name) {
			t.Errorf("%s stays after its keep_alive:\n%s", k.name, ps)
		}
	}
}

// TestPreloadFits: of a set that the card does not hold, what fits is loaded and stays, and the
// rest is refused with the names of what is loaded.
func TestPreloadFits(t *testing.T) {
	lane.NoRace(t)
	v := newVoices(t)
	t.Setenv("AXSIM_CMM", "60") // MiB, and 18 of them are taken
	place := t.TempDir()
	for _, k := range v.kinds {
		if name := filepath.Base(k.name); name == "zip-hy" || name == "whisper-c" || name == "sense-axera" {
			if err := k.write(filepath.Join(place, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	v.paths = []string{place}
	core, logs := observer.New(zap.InfoLevel)
	v.serve(t, server.Options{Loopback: true, KeepAlive: time.Hour, Log: zap.New(core)})
	v.server.Preload(t.Context(), []string{"zip-hy", "whisper-c", "sense-axera", "zip-hy"})
	if failed := logs.FilterMessage("a model is not preloaded").All(); len(failed) != 1 || failed[0].ContextMap()["model"] != "whisper-c" ||
		!strings.Contains(fmt.Sprint(failed[0].ContextMap()["error"]), "is free beside zip-hy:latest (36 MB): leave one of them out") {
		t.Errorf("refused: %v", failed)
	}
	if n := logs.FilterMessage("preloaded").Len(); n != 3 {
		t.Errorf("%d are preloaded", n)
	}
	ps, _, err := command(t, "ps")
	if err != nil || !strings.Contains(ps, "zip-hy") || !strings.Contains(ps, "sense-axera") || strings.Contains(ps, "whisper") {
		t.Errorf("loaded: %v\n%s", err, ps)
	}
}

// voiceModels are packages that hear or speak, and a simulated card to run them on.
type voiceModels struct {
	folder, wav string
	paths       []string
	kinds       []voiceKind
	server      *server.Server
}

type voiceKind struct {
	name, kind, can string
	write           func(dir string) error // nil: it is inside the program
}

func newVoices(t *testing.T) *voiceModels {
	t.Setenv(native.EnvAXCL, simcardtest.Lib(t))
	t.Setenv("AXSIM_ROOT", t.TempDir())
	t.Setenv("AXSIM_VERSION", "3.16.0") // older ones run no Zipformer
	t.Setenv("AXSIM_HAZARDS", "strict,-wedge")
	t.Setenv("AXLE_MODEL_PATH", "")
	v := &voiceModels{folder: filepath.Join(t.TempDir(), "models"), wav: filepath.Join(t.TempDir(), "a.wav")}
	if err := os.WriteFile(v.wav, audio.AppendPCM(audio.AppendWAVHeader(nil, 16000, -1), murmur(3)), 0o644); err != nil {
		t.Fatal(err)
	}
	add := func(name, kind string, write func(string) error) {
		v.kinds = append(v.kinds, voiceKind{"axle/" + strings.ToLower(name), kind, "audio", write})
	}
	for _, l := range []string{"A", "B", "C"} {
		add("whisper-"+l, "Whisper", modelstest.Whisper{Seed: 1, Layout: l}.Write)
	}
	for _, l := range []string{"Axera", "sherpa"} {
		add("sense-"+l, "SenseVoice", modelstest.SenseVoice{Seed: 1, Layout: l}.Write)
	}
	for _, l := range []string{"Axera", "HY"} {
		add("zip-"+l, "Zipformer", modelstest.Zipformer{Seed: 2, Layout: l}.Write)
	}
	add("qwen-asr", "Qwen3-ASR", modelstest.QwenASR{Seed: 1}.Write)
	for _, l := range []string{"A", "B"} {
		add("kokoro-"+l, "Kokoro", func(dir string) error {
			if err := (modelstest.Kokoro{Seed: 1, Layout: l}).Write(dir); err != nil {
				return err
			}
			for _, name := range []string{"us_gold.json", "us_silver.json"} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(`{"hello":"həlˈO"}`), 0o644); err != nil {
					return err
				}
			}
			return nil
		})
		v.kinds[len(v.kinds)-1].can = "speech"
	}
	v.kinds = append(v.kinds, voiceKind{"pocket-hearing", "SenseVoice", "audio", nil})
	return v
}

// serve starts a server on the card, and makes AXLE_HOST name it.
func (v *voiceModels) serve(t *testing.T, o server.Options) (host string) {
	t.Helper()
	so := storeOptions()
	so.Dir, so.Paths = v.folder, v.paths
	st, err := store.Open(so)
	if err != nil {
		t.Fatal(err)
	}
	loader := local.NewLoader(local.LoaderOptions{Device: "axcl"})
	t.Cleanup(func() { _ = loader.Close() })
	v.server = server.New(local.New(st, local.Options{}), loader, newPuller(st), o)
	host = listening(t, v.server, st)
	t.Setenv("AXLE_HOST", host)
	return host
}

// weigh compares what a model was foreseen to take with what the card says once the one before it
// is gone.
func (v *voiceModels) weigh(t *testing.T, host, name string) {
	t.Helper()
	var foreseen, took float64
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		resp, err := http.Get(host + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		value := func(metric string) (n float64) {
			for line := range strings.Lines(string(all)) {
				if rest, ok := strings.CutPrefix(line, metric+`{model="`+name+`:latest"} `); ok {
					_, _ = fmt.Sscan(rest, &n)
				}
			}
			return n
		}
		foreseen = value("axle_model_card_bytes")
		took = value("axle_card_memory_bytes") - value("axle_card_memory_free_bytes") - 18<<20 // which the card began with
		if foreseen > 1e6 && took > 0.97*foreseen && took < 1.03*foreseen+64<<10 {
			return
		}
	}
	t.Errorf("%s takes %.0f bytes of the card, and %.0f were foreseen", name, took, foreseen)
}
