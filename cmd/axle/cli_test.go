package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/terminal/terminaltest"
	"github.com/axle-llm/axle/models/store"
	"github.com/axle-llm/axle/server"
	"github.com/axle-llm/axle/server/local"
	"github.com/axle-llm/axle/server/pool"
	"github.com/axle-llm/axle/server/scripted"
)

func TestCommands(t *testing.T) {
	scriptedServer(t)
	file := filepath.Join(t.TempDir(), "Modelfile")
	if err := os.WriteFile(file, []byte("FROM scripted-chat\nSYSTEM \"\"\"be\nbrief\"\"\"\nPARAMETER temperature 0.5\nPARAMETER stop "+
		"<END>\nPARAMETER stop x\nLICENSE free\nMESSAGE user hi\nMESSAGE assistant hello\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		stdin, args string
		want        []string // in the output
		fails       string   // in the error
	}{
		{"", "list", []string{"NAME", "ID", "SIZE", "CARD OF", "MODIFIED", "scripted-chat:latest"}, ""},
		{"", "run scripted-chat [[say:Hello|_there]]", []string{"Hello_there\n"}, ""},
		{"[[say:from|_a|_pipe]]", "run scripted-chat", []string{"from_a_pipe\n"}, ""},
		{"piped\n", "run scripted-chat [[say:both]]", []string{"both\n"}, ""},
		{"", "run scripted-chat --think=false [[say:x]]", []string{"x\n"}, ""},
		{"", "run scripted-chat [[say:<think>|hm|</think>|yes]]", []string{"Thinking...\nhm\n...done thinking.\n\nyes\n"}, ""},
		{"", "run scripted-chat --hidethinking [[say:<think>|hm|</think>|yes]]", []string{"yes\n"}, ""},
		{"", "run scripted-chat --think=false --format json [[say:prose]]", []string{"{}\n"}, ""},
		{"", "run scripted-chat --keepalive 1h --verbose [[say:a|b]]", []string{"ab\n"}, ""},
		{"", "run scripted-embed text", []string{"[", ",", "]"}, ""},
		{"", "run scripted-embed", nil, "embedding models need something"},
		{"", "run nope x", nil, "model 'nope:latest' not found"},
		{"", "cluster", []string{"endpoints"}, ""},
		{"", "top --hosts a/b", nil, `--hosts: "a/b" is no server`},
		{"", "top --once --every 100ms --hosts 127.0.0.1:1", []string{"SERVER", "all"}, "127.0.0.1:1: "},
		{"", "cluster endpoints", nil, "--hosts: 0 servers are named"},
		{"", "cluster endpoints --hosts 127.0.0.1:1 --every 1ms", nil, "--every must be between"},
		{"", "cluster endpoints --hosts 127.0.0.1:1", []string{"endpoints: []"}, "no server is ready"},
		{"", "run scripted-chat --think=banana x", nil, "invalid think value"},
		{"", "run scripted-chat --format yaml x", nil, "neither json nor a JSON schema"},
		{"", "run scripted-chat --keepalive banana x", nil, "not a duration"},
		{"", "ps", []string{"NAME", "PROCESSOR", "CONTEXT", "UNTIL", "scripted-chat:latest", "100% NPU", "4096"}, ""},
		{"", "create mine -f " + file, nil, ""},
		{"", "show mine", []string{"Model", "architecture", "scripted", "context length", "4096", "Capabilities", "completion",
			"Parameters", "temperature", "0.5", "System", "be", "License", "free"}, ""},
		{"", "show mine --modelfile", []string{"FROM ", "SYSTEM ", "PARAMETER stop <END>", "MESSAGE user hi"}, ""},
		{"", "show mine --parameters", []string{"stop                           \"<END>\"\n"}, ""},
		{"", "show mine --system --template", nil, "only one of"},
		{"", "show nope", nil, "model 'nope:latest' not found"},
		{"", "cp mine other", []string{"copied 'mine' to 'other'\n"}, ""},
		{"", "list OTH", []string{"other:latest"}, ""},
		{"", "rm mine other", []string{"deleted 'mine'\ndeleted 'other'\n"}, ""},
		{"", "rm mine", nil, "model 'mine' not found"},
		{"", "stop scripted-chat", nil, ""},
		{"", "stop nope", nil, `couldn't find model "nope" to stop`},
		{"", "create bad -f " + file + ".not", nil, "-f names the Modelfile"},
	} {
		args := strings.Fields(tt.args)
		for i := range args {
			if strings.Contains(args[i], "[[say:") {
				args[i] = strings.ReplaceAll(args[i], "_", " ")
			}
		}
		out, errOut, err := axle(t, strings.ReplaceAll(tt.stdin, "_", " "), args...)
		if (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("axle %s: %v (%s)", tt.args, err, errOut)
		}
		for _, w := range tt.want {
			if !strings.Contains(out, strings.ReplaceAll(w, "_", " ")) {
				t.Errorf("axle %s: no %q in %q", tt.args, w, out)
			}
		}
	}
	for name, as := range map[string]string{"cat.png": "%s", "my cat.png": "'%s'", "a \"cat.JPG": "'%s'", "two cats.webp": `"%s"`} {
		picture := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(picture, []byte("\x89PNG\r\n\x1a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{fmt.Sprintf(as, picture), regexp.MustCompile(`[ "]`).ReplaceAllString(picture, `\$0`)} {
			out, errOut, err := axle(t, "", "run", "scripted-vision", "what's in", path, "[[say:a| cat]]")
			if err != nil || out != "a cat\n" || !strings.Contains(errOut, "Added image '"+picture+"'") {
				t.Errorf("an image %s: %q %q %v", path, out, errOut, err)
			}
		}
	}
	if _, errOut, _ := axle(t, "", "run", "scripted-chat", "--verbose", "[[say:a|b]]"); !strings.Contains(errOut,
		"eval count:           2 token(s)\n") || !strings.Contains(errOut, "tokens/s") {
		t.Errorf("--verbose: %q", errOut)
	}
}

func TestTerminal(t *testing.T) {
	scriptedServer(t)
	s := terminaltest.Open(t)
	root := newRootCmd()
	root.SetIn(s.TTY)
	root.SetOut(s.TTY)
	root.SetErr(s.TTY)
	root.SetArgs([]string{"run", "scripted-chat"})
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(t.Context()) }()
	s.Wait(">>> ")
	s.Type("[[say:Hello| there]]\r")
	s.Wait("Hello there")
	s.Wait(">>> ")
	s.Type("\"\"\"two\r")
	s.Wait("... ")
	s.Type("lines [[say:and| both]]\"\"\"\r")
	s.Wait("and both")
	s.Wait(">>> ")
	s.Type("\x1b[A\x1b[A") // up, up
	s.Type("\x15")         // and away
	s.Type("/set parameter temperature 0.5\r")
	s.Wait("Set parameter 'temperature' to '0.5'")
	s.Wait(">>> ")
	s.Type("/set system You are brief.\r")
	s.Wait("Set system message.")
	s.Wait(">>> ")
	s.Type("/set verbose\r")
	s.Wait("Set 'verbose' mode.")
	s.Wait(">>> ")
	s.Type("[[say:timed]]\r")
	s.Wait("eval rate:")
	s.Wait(">>> ")
	s.Type("/show parameters\r")
	s.Wait("User defined parameters:\r\n  temperature                    0.5\r\n")
	s.Wait(">>> ")
	s.Type("/save kept\r")
	s.Wait("Created new model 'kept'")
	s.Wait(">>> ")
	s.Type("/load kept\r")
	s.Wait("Loading model 'kept'")
	s.Wait(">>> ")
	s.Type("/show system\r")
	s.Wait("You are brief.")
	s.Wait(">>> ")
	s.Type("/clear\r")
	s.Wait("Cleared session context")
	s.Wait(">>> ")
	s.Type("/?\r")
	s.Wait("Available Commands:")
	s.Wait(">>> ")
	s.Type("/nonsense\r")
	s.Wait("Unknown command '/nonsense'")
	s.Wait(">>> ")
	s.Type("half a line\x03") // Ctrl-C at the prompt
	s.Wait("Use Ctrl + d or /bye to exit.")
	s.Wait(">>> ")
	s.Type("[[delay:200]][[say:one| two| three| four| five| six| seven| eight| nine| ten]]\r")
	s.Wait("one two")                                           // the answer, not the echo of what was typed
	if err := unix.Kill(os.Getpid(), unix.SIGINT); err != nil { // Ctrl-C while it answers
		t.Fatal(err)
	}
	s.Wait(">>> ")
	if strings.Contains(s.Seen, "nine ten") {
		t.Error("the answer went on")
	}
	s.Type("[[say:still| here]]\r")
	s.Wait("still here")
	s.Wait(">>> ")
	s.Type("/bye\r")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(os.Getenv("HOME"), ".axle", "history")); err != nil ||
		!strings.Contains(string(b), "/save kept") {
		t.Errorf("history: %q, %v", b, err)
	}
}

// listening lets a server answer until the test ends, and returns its address.
func listening(t *testing.T, s *server.Server, st *store.Store) string {
	t.Helper()
	ts := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ts.CloseClientConnections()
		ts.Close()
		if err := errors.Join(s.Close(context.Background()), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return ts.URL
}

// scriptedServer makes AXLE_HOST name a server over the scripted models.
func scriptedServer(t *testing.T) {
	t.Helper()
	st, err := store.Open(store.Options{Dir: t.TempDir(), Builtin: scripted.Builtin()})
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(local.New(st, local.Options{Describe: scripted.Describe}), &scripted.Loader{}, nil,
		server.Options{Loopback: true, KeepAlive: time.Minute})
	t.Setenv("AXLE_HOST", listening(t, s, st))
	t.Setenv("HOME", t.TempDir())
}

// axle runs a command line and returns what it printed.
func axle(t *testing.T, stdin string, args ...string) (out, errOut string, err error) {
	t.Helper()
	root := newRootCmd()
	var o, e bytes.Buffer
	root.SetOut(&o)
	root.SetErr(&e)
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(args)
	err = root.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

func TestNoServer(t *testing.T) {
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	if _, _, err := axle(t, "", "ps"); err == nil || !strings.Contains(err.Error(), "axle serve") {
		t.Errorf("ps without a server: %v", err)
	}
	t.Setenv("AXLE_HOST", "http://[::1")
	if _, _, err := axle(t, "", "ps"); err == nil {
		t.Error("a host that cannot be read")
	}
}

func TestSettings(t *testing.T) {
	//proves:T6
	for _, tt := range []struct {
		env   map[string]string
		flags []string
		check func(settings) bool
		fails string
	}{
		{nil, nil, func(e settings) bool {
			return e.host == "127.0.0.1:11434" && e.server.KeepAlive == 5*time.Minute && e.server.MaxQueue == 512 &&
				e.server.LoadTimeout == 5*time.Minute
		}, ""},
		{map[string]string{"OLLAMA_HOST": "0.0.0.0", "OLLAMA_KEEP_ALIVE": "10m"}, nil,
			func(e settings) bool { return e.host == "0.0.0.0:11434" && e.server.KeepAlive == 10*time.Minute }, ""},
		{map[string]string{"OLLAMA_HOST": "0.0.0.0", "AXLE_HOST": "http://box:80/x"}, nil,
			func(e settings) bool { return e.host == "box:80" }, ""},
		{map[string]string{"AXLE_HOST": "box"}, []string{"--host", ":9"}, func(e settings) bool { return e.host == ":9" }, ""},
		{map[string]string{"OLLAMA_HOST": "https://box"}, nil, func(e settings) bool { return e.host == "box:443" }, ""},
		{map[string]string{"OLLAMA_HOST": "[::1]:5"}, nil, func(e settings) bool { return e.host == "[::1]:5" }, ""},
		{map[string]string{"OLLAMA_HOST": "box:66000"}, nil, nil, "OLLAMA_HOST"},
		{map[string]string{"OLLAMA_KEEP_ALIVE": "-1"}, nil, func(e settings) bool { return e.server.KeepAlive == pool.Forever }, ""},
		{map[string]string{"OLLAMA_KEEP_ALIVE": "30"}, []string{"--keep-alive", "0"},
			func(e settings) bool { return e.server.KeepAlive == 0 },
			""},
		{map[string]string{"OLLAMA_KEEP_ALIVE": "banana"}, nil, nil, "OLLAMA_KEEP_ALIVE"},
		{map[string]string{"OLLAMA_NUM_PARALLEL": "4", "OLLAMA_MAX_LOADED_MODELS": "2", "OLLAMA_MAX_QUEUE": "9",
			"OLLAMA_CONTEXT_LENGTH": "2048", "OLLAMA_ORIGINS": "a, b", "OLLAMA_LOAD_TIMEOUT": "1m", "OLLAMA_DEBUG": "1"}, nil,
			func(e settings) bool {
				return e.runsOn.parallel == 4 && e.server.MaxLoaded == 2 && e.server.MaxQueue == 9 && e.server.ContextLength == 2048 &&
					len(e.server.Origins) == 2 &&
					e.server.LoadTimeout == time.Minute && e.debug
			}, ""},
		{map[string]string{"AXLE_NUM_PARALLEL": "8", "OLLAMA_NUM_PARALLEL": "4"}, []string{"--num-parallel", "2"},
			func(e settings) bool { return e.runsOn.parallel == 2 }, ""},
		{map[string]string{"OLLAMA_MAX_QUEUE": "-1"}, nil, nil, "OLLAMA_MAX_QUEUE"},
		{nil, []string{"--max-queue", "-1"}, nil, "--max-queue"},
		{nil, nil, func(e settings) bool {
			name, _ := os.Hostname()
			return e.server.DrainDelay == 0 && e.server.Node == name && !e.server.VLLM && e.metricsAddr == ""
		}, ""},
		{map[string]string{"AXLE_DRAIN_DELAY": "5s", "AXLE_NODE": "board-1", "AXLE_METRICS": "vllm", "AXLE_METRICS_ADDR": ":9091"}, nil,
			func(e settings) bool {
				return e.server.DrainDelay == 5*time.Second && e.server.Node == "board-1" && e.server.VLLM && e.metricsAddr == ":9091"
			}, ""},
		{map[string]string{"AXLE_DRAIN_DELAY": "5s", "AXLE_NODE": "a", "AXLE_METRICS": "vllm", "AXLE_METRICS_ADDR": ":9091"},
			[]string{"--drain-delay", "0", "--node", "", "--metrics", "axle", "--metrics-addr", ""}, func(e settings) bool {
				return e.server.DrainDelay == 0 && e.server.Node == "" && !e.server.VLLM && e.metricsAddr == ""
			}, ""},
		{map[string]string{"AXLE_DRAIN_DELAY": "5 s"}, nil, nil, "AXLE_DRAIN_DELAY"},
		{nil, []string{"--drain-delay", "241"}, nil, "--drain-delay: \"241\" is not from 0 to 4m"},
		{nil, []string{"--drain-delay=-1s"}, nil, "--drain-delay"},
		{map[string]string{"AXLE_NODE": "two words"}, nil, nil, "AXLE_NODE"},
		{nil, []string{"--node", "a\r\nSet-Cookie: b"}, nil, "--node"},
		{nil, []string{"--node", strings.Repeat("a", 254)}, nil, "--node"},
		{nil, []string{"--metrics", "prometheus"}, nil, "--metrics: \"prometheus\" is neither axle"},
		{nil, []string{"--metrics-addr", "9091"}, nil, "--metrics-addr: \"9091\" is not host:port"},
		{map[string]string{"AXLE_KV_EVENTS": ":5557", "AXLE_KV_EVENTS_ALLOW": "10.1.2.3/24"},
			[]string{"--kv-events-allow", "::1, 10.0.0.7"}, func(e settings) bool {
				return e.events.addr == ":5557" && fmt.Sprint(e.events.allow) == "[10.1.2.0/24 ::1/128 10.0.0.7/32]"
			}, ""},
		{nil, []string{"--kv-events", "5557"}, nil, "--kv-events: \"5557\" is not host:port"},
		{nil, []string{"--kv-events-allow", "all"}, nil, "--kv-events-allow: \"all\" is neither an address nor a network"},
		{map[string]string{"AXLE_WYOMING": ":10300", "AXLE_WYOMING_MODEL": "ears"}, nil,
			func(e settings) bool { return e.wyoming == ":10300" && e.server.WyomingModel == "ears" }, ""},
		{map[string]string{"AXLE_WYOMING": ":10300"}, []string{"--wyoming", ""}, func(e settings) bool { return e.wyoming == "" }, ""},
		{nil, []string{"--wyoming", "10300"}, nil, "--wyoming: \"10300\" is not host:port"},
		{map[string]string{"AXLE_WYOMING_SAY": ":10200", "AXLE_WYOMING_SAY_MODEL": "mouth"}, nil, func(e settings) bool {
			return e.wyomingSay == ":10200" && e.wyoming == "" && e.server.WyomingVoices == "mouth" && e.server.WyomingModel == ""
		}, ""},
		{map[string]string{"AXLE_DETECTOR": "eyes"}, nil, func(e settings) bool { return e.server.Detector == "eyes" }, ""},
		{map[string]string{"AXLE_IMMICH": ":3003"}, nil, func(e settings) bool { return e.immich == ":3003" }, ""},
		{nil, []string{"--immich", "3003"}, nil, "--immich: \"3003\" is not host:port"},
		{map[string]string{"AXLE_MDNS": "1"}, nil, func(e settings) bool { return e.mdns }, ""},
		{nil, []string{"--wyoming-say", "10200"}, nil, "--wyoming-say: \"10200\" is not host:port"},
		{map[string]string{"AXLE_VAD": "a.onnx"}, nil, func(e settings) bool { return e.vad == "a.onnx" }, ""},
		{nil, []string{"--metrics-addr", ":66000"}, nil, "--metrics-addr: \"66000\" is no port"},
	} {
		var given flags
		c := &cobra.Command{}
		given.add(c.Flags())
		if err := c.ParseFlags(tt.flags); err != nil {
			t.Fatal(err)
		}
		e, err := readSettings(func(k string) string { return tt.env[k] }, &given)
		if (err != nil) != (tt.fails != "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%v %v: %v", tt.env, tt.flags, err)
		}
		if err == nil && !tt.check(e) {
			t.Errorf("%v %v: %+v", tt.env, tt.flags, e)
		}
	}
}

// What is wrong with the command line ends with 2, and says how it is used.
func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"frobnicate": "see 'axle --help'", "ru pocket": "Did you mean", "run": "usage: axle run MODEL [PROMPT]",
		"cp a": "usage: axle cp SOURCE DESTINATION", "run --nope x": "see 'axle run --help'",
		"list a b": "usage: axle list", "pull a b": "takes one name",
	} {
		err := failure(t.Context(), os.Stdout, strings.Fields(args))
		if err == nil || err.code != 2 || !strings.Contains(err.Error(), want) {
			t.Errorf("axle %s: %v, want %q", args, err, want)
		}
	}
}

// TestEachCommand: some test runs every command.
func TestEachCommand(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	for _, c := range newRootCmd().Commands() {
		if !c.Hidden && !regexp.MustCompile(`"`+c.Name()+`[ "]|(?i:new`+c.Name()+`cmd\(\))`).Match(all) {
			t.Errorf("no test calls axle %s", c.Name())
		}
	}
}

// What answers and is no model server is told in a line, not in its own page.
func TestOtherServer(t *testing.T) {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodHead {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "<!DOCTYPE html>\n<html>no</html>")
		}
	}))
	defer ts.Close()
	t.Setenv("AXLE_HOST", ts.URL)
	if _, _, err := axle(t, "", "list"); err == nil || !strings.Contains(err.Error(), "no model server") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("list: %v", err)
	}
}
