package axle

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/axle-llm/axle/"

// forbidden lists imports that must not be, each with its reason. Prefixes of a path inside the
// module, and of what it may not import.
var forbidden = []struct{ who, what, why string }{
	{"axcl", module + "engine", "a card does not know what it is used for"},
	{"axcl", module + "models", "a card is given files, not packages"},
	{"axcl", module + "server", "imports go one way: cmd, server, engine, axcl"},
	{"axmodel", module + "engine", "a file format knows nothing of its users"},
	{"axmodel", module + "models", "a file format knows nothing of its users"},
	{"models", module + "engine", "imports go one way"},
	{"models", module + "server", "imports go one way"},
	{"models", module + "axcl/native", "packages are parsed in Go only, before any card sees them"},
	{"sampler", module + "engine", "sampling knows nothing of cards"},
	{"sampler", module + "axcl", "sampling knows nothing of cards"},
	{"sampler", module + "models", "sampling knows nothing of packages"},
	{"tokenizer", module + "engine", "a tokenizer knows nothing of cards"},
	{"tokenizer", module + "axcl", "a tokenizer knows nothing of cards"},
	{"tokenizer", module + "models", "a tokenizer knows nothing of packages"},
	{"tokenizer", "github.com/ollama", "templates use the types of package ask, not those of an API"},
	{"vision", module, "pixels know nothing of cards, packages and servers"},
	{"ask", module, "requests and answers depend on nothing"},
	{"prefix", module, "the name of a prefix depends on nothing but its text"},
	{"vision", "net", "an image is data; nothing is fetched"},
	{"vision", "os", "a picture is bytes; nothing is opened"},
	{"audio", "net", "a sound is data; nothing is fetched"},
	{"audio", "os", "a sound is bytes; nothing is opened"},
	{"documents/extract", module, "a file becomes text without anything else of ours"},
	{"documents/extract", "net", "a document is data; nothing is fetched"},
	{"documents/extract", "os", "a document is bytes; nothing is opened, and nothing is written"},
	{"audio/features", module, "arithmetic on samples depends on nothing"},
	{"audio/onnx", module, "a file format knows nothing of its users"},
	{"audio/phonemes", module, "how English is read depends on nothing"},
	{"audio/vad", module + "axcl", "where speech is, the processor finds"},
	{"audio/vad", module + "engine", "where speech is, does not depend on who recognises it"},
	{"audio/vad", module + "models", "weights are bytes, wherever a package keeps them"},
	{"audio/vad", module + "server", "imports go one way"},
	{"axcl", module + "vision", "a card is given rows, not pictures"},
	{"axcl", module + "audio", "a card is given rows, not sound"},
	{"engine", module + "server", "imports go one way"},
	{"engine", module + "axcl/native", "the engine is given a card"},
	{"engine", module + "axcl/soft", "the engine is given a card"},
	{"engine", "net/http", "only the server speaks HTTP"},
	{"engine/prove", module + "models", "probes know a model by its shape"},
	{"engine/cache", module + "models", "the cache knows rows by their tokens, not by their model"},
	{"engine/speech", module + "axcl", "a recogniser is given its nets as functions"},
	{"engine/speech", module + "engine", "a recogniser is given its nets as functions"},
	{"engine/card", module + "engine", "the worker is given its tenants"},
	{"engine/card", module + "models", "the worker does not know what its tenants compute"},
	{"engine/card", module + "tokenizer", "the worker does not know what its tenants compute"},
	{"engine/card", module + "sampler", "the worker does not know what its tenants compute"},
	{"engine", "github.com/gin-gonic", "only the server speaks HTTP"},
	{"server", module + "engine", "the server knows what is asked and answered (package ask), not how"},
	{"server", module + "axcl/native", "the server knows nothing of C"},
	{"server", module + "axcl/soft", "the server knows nothing of cards"},
	{"server", "net/http/pprof", "debug endpoints are never on the API's listener"},
	{"server/answer", module + "server/ollama", "a prompt is answered the same way in every dialect"},
	{"server/answer", module + "server/openai", "a prompt is answered the same way in every dialect"},
	{"server/answer", module + "server/anthropic", "a prompt is answered the same way in every dialect"},
	{"server/answer", module + "server/deepstack", "a prompt is answered the same way in every dialect"},
	{"server/deepstack", module + "server/request", "dialects are functions over wire types"},
	{"server/deepstack", "net/http", "dialects are functions over wire types"},
	{"server/answer", module + "server/immich", "what is asked of a model does not depend on the protocol"},
	{"server/immich", module + "server/request", "dialects are functions over wire types"},
	{"server/immich", "net/http", "dialects are functions over wire types"},
	{"server/answer", "github.com/ollama", "a prompt is answered the same way in every dialect"},
	{"server/request", module + "server/ollama", "an error's form is its dialect's, which is handed in"},
	{"server/request", module + "server/openai", "an error's form is its dialect's, which is handed in"},
	{"server/request", module + "server/anthropic", "an error's form is its dialect's, which is handed in"},
	{"server/request", "github.com/ollama", "an error's form is its dialect's, which is handed in"},
	{"server/catalog", "github.com/ollama", "a model's description does not depend on the client"},
	{"server/prompt", "github.com/ollama", "a prompt is the same in every dialect"},
	{"server/body", "github.com/ollama", "a body is checked the same way in every dialect"},
	{"server/openai", module + "server/ollama", "dialects know nothing of each other"},
	{"server/anthropic", module + "server/ollama", "dialects know nothing of each other"},
	{"server/vendor", module + "server/ollama", "dialects know nothing of each other"},
	{"server/ollama", module + "server/openai", "dialects know nothing of each other"},
	{"server/wyoming", module + "server/ollama", "dialects know nothing of each other"},
	{"server/wyoming", module + "server/openai", "dialects know nothing of each other"},
	{"server/wyoming", module + "server/anthropic", "dialects know nothing of each other"},
	{"server/wyoming", module + "server/answer", "a protocol is handed who hears"},
	{"server/wyoming", module + "server/request", "the protocol knows nothing of HTTP"},
	{"server/wyoming", module + "server/pool", "a protocol is handed who hears"},
	{"server/wyoming", "net/http", "the protocol knows nothing of HTTP"},
	{"engine", module + "internal/zmtp", "what the caches hold is told to an interface"},
	{"server/kvevents", module + "server", "events know nothing of HTTP and its APIs"},
	{"server/kvevents", "net/http", "events know nothing of HTTP and its APIs"},
	{"server/conversations/journal", module + "server", "conversations on disk know nothing of requests"},
	{"server/conversations/journal", "net/http", "conversations on disk know nothing of requests"},
	{"server/conversations", module + "server/answer", "conversations are kept, not answered"},
	{"models/rows/objects", module + "models/store", "an object store knows rows, and nothing of packages"},
	{"models/rows/objects", module + "models/hub", "an object store knows rows, and nothing of packages"},
	{"server/peers", module + "server/request", "peers know rows, and nothing of the APIs"},
	{"server/peers", module + "server/pool", "peers know rows, and nothing of models"},
	{"server/peers", module + "server/local", "peers know rows, and nothing of models"},
	{"server/peers", "github.com/gin-gonic", "peers know rows, and nothing of the APIs"},
	{"server/mdns", module, "what is announced is handed in"},
	{"server/programs", module, "a table that the page, the commands and the documents read"},
	{"server/programs", "net", "a table that does nothing"},
	{"server/programs", "os", "a table that does nothing"},
	{"server/mdns", "net/http", "multicast DNS knows nothing of HTTP"},
	{"server/realtime", module + "server/ollama", "dialects know nothing of each other"},
	{"server/realtime", module + "server/openai", "dialects know nothing of each other"},
	{"server/realtime", module + "server/anthropic", "dialects know nothing of each other"},
	{"server/realtime", module + "server/answer", "a protocol is handed who hears"},
	{"server/realtime", module + "server/request", "a protocol is handed who hears, and what of an error is told"},
	{"server/realtime", module + "server/pool", "a protocol is handed who hears"},
	{"server/realtime", "net/http", "a session begins after its request"},
	{"server/answer", module + "server/manage", "answering and managing models are separate: what both need is in request, " +
		"catalog or pool"},
	{"server/manage", module + "server/answer", "answering and managing models are separate"},
	{"server/request", module + "server/answer", "a request and its answer do not depend on their subject"},
	{"server/request", module + "server/manage", "a request and its answer do not depend on their subject"},
	{"server/request", module + "server/monitor", "monitoring is built on requests, not under them"},
	{"server/pool", module + "server/monitor", "loading a model does not depend on monitoring"},
	{"server/monitor", module + "server/answer", "answers report to monitoring, through what they are given"},
	{"server/pool", module + "server/request", "loading a model does not depend on HTTP"},
	{"server/pool", "net/http", "loading a model does not depend on HTTP"},
	{"server/pool", "github.com/gin-gonic", "loading a model does not depend on HTTP"},
	{"server/catalog", module + "server/pool", "a model's description does not depend on whether it is loaded"},
	{"server/catalog", "net/http", "a model's description does not depend on the client"},
	{"server/local", module + "server/request", "the models of this machine know nothing of requests"},
	{"server/local", "net/http", "the models of this machine know nothing of requests"},
	{"server/ollama", module + "server/request", "dialects are functions over wire types"},
	{"server/openai", module + "server/request", "dialects are functions over wire types"},
	{"server/anthropic", module + "server/request", "dialects are functions over wire types"},
	{"server/vendor", module + "server/request", "dialects are functions over wire types"},
	{"server/ollama", "net/http", "dialects are functions over wire types"},
	{"server/openai", "net/http", "dialects are functions over wire types"},
	{"server/anthropic", "net/http", "dialects are functions over wire types"},
	{"server/vendor", "net/http", "dialects are functions over wire types"},
	{"documents/index", module + "documents", "an index is of texts, whatever they were in"},
	{"documents/index", module + "server", "imports go one way"},
	{"documents/index", module + "engine", "vectors are handed in"},
	{"documents/index", module + "models", "vectors are handed in"},
	{"documents/index", "net", "what is searched is on this disk"},
	{"server/documents", module + "server/answer", "models are handed in"},
	{"server/documents", module + "server/openai", "dialects know nothing of each other"},
	{"", "archive/", "no archive is ever unpacked"}, // but see allowed
	{"", "net/http/pprof", "debug endpoints are never on the API's listener"},
	{"", "github.com/sugarme/tokenizer", "it cannot do the work: see RATIONALE.md"},
	{"", "C", "only axcl/native is cgo"},
	{"", "testing", "test code stays in tests"},
}

// allowed are the exceptions, each for a reason.
var allowed = map[string]string{
	"axcl/native C": "the one binding",
	"engine/hosthead " + module + "axcl/soft": "it computes LM heads with the kernels, which are a leaf",
	"axcl/native/simhook C":                   "tests ask the simulated card what a vendor's library does not tell",
	"server/local " + module + "engine":       "it puts models on this machine's cards",
	"documents/extract archive/":              "a DOCX's text: sizes are checked first, parts are a counted stream, and nothing is written",
	"server/scripted " + module + "engine":    "a model that reads a script, for tests of everything above",
	"axcl/axcltest testing":                   "it is test code for others' tests",
	"axmodel/axmodeltest testing":             "it is test code for others' tests",
	"models/modelstest testing":               "it is test code for others' tests",
	"axcl/simcard/simcardtest testing":        "it is test code for others' tests",
	"internal/goldentest testing":             "it is test code for others' tests",
	"internal/terminal/terminaltest testing":  "it is test code for others' tests",
}

// leaves import no package of ours but those listed.
var leaves = map[string][]string{
	"axcl/soft/kernel": {"internal/bf16"}, // arithmetic, which whatever has weights may call
	"internal/bf16":    nil,
	"audio":            {"internal/fuzzguard", "internal/lane", "audio"}, // its tests do; samples know nothing of cards, models and servers
}

// parsed is every Go file of the module; nil until the first law asks.
var parsed []struct {
	name string
	file *ast.File
	src  []byte
}

func TestImports(t *testing.T) {
	//proves:T13
	goFiles(t, func(name string, file *ast.File, _ []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		dir := path.Dir(name)
		for _, spec := range file.Imports {
			what, _ := strconv.Unquote(spec.Path.Value)
			if within(dir, "internal") && strings.HasPrefix(what, module) && !strings.HasPrefix(what, module+"internal/") {
				t.Errorf("%s imports %s: leaf tools are below everything", name, what)
			}
			for _, law := range forbidden {
				hit := what == law.what || strings.HasSuffix(law.what, "/") && strings.HasPrefix(what, law.what) ||
					law.what != "net/http" && law.what != "C" && law.what != "testing" && strings.HasPrefix(what, law.what+"/")
				if !within(dir, law.who) || !hit {
					continue
				}
				if _, ok := allowed[dir+" "+law.what]; ok {
					continue
				}
				t.Errorf("%s imports %s: %s", name, what, law.why)
			}
		}
	})
}

// TestLeaves holds tests to it, too.
func TestLeaves(t *testing.T) {
	files := map[string]int{}
	goFiles(t, func(name string, file *ast.File, _ []byte) {
		dir := path.Dir(name)
		may, ok := leaves[dir]
		if !ok {
			return
		}
		files[dir]++
		for _, spec := range file.Imports {
			what, _ := strconv.Unquote(spec.Path.Value)
			if ours, ok := strings.CutPrefix(what, module); ok && !slices.Contains(may, ours) {
				t.Errorf("%s imports %s: %s is a leaf, which may import only %q", name, ours, dir, may)
			}
		}
	})
	for dir := range leaves {
		if files[dir] == 0 {
			t.Errorf("%s has no files, so this test sees nothing", dir)
		}
	}
}

// TestLinks: of these packages only those that load models link a card, directly or through another
// package.
func TestLinks(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", "nomsgpack", "-f", `{{.ImportPath}} {{join .Deps " "}}`, "./ask", "./prefix", "./vision/...",
		"./audio/...", "./axmodel/...", "./documents/...", "./models/...", "./sampler/...", "./tokenizer/...", "./server/...",
		"./internal/...").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	loads := []string{module + "server/local", module + "server/scripted"}
	linked := 0
	for line := range strings.Lines(string(out)) {
		name, deps, _ := strings.Cut(strings.TrimSpace(line), " ")
		for dep := range strings.FieldsSeq(deps) {
			if !strings.HasPrefix(dep, module+"axcl/native") && !strings.HasPrefix(dep, module+"axcl/soft") {
				continue
			}
			if linked++; !slices.Contains(loads, name) {
				t.Errorf("%s links %s: go list -deps shows through which package", name, dep)
			}
		}
	}
	if linked == 0 {
		t.Error("server/local links no card, so this test sees nothing")
	}
}

func TestPackageComments(t *testing.T) {
	commented := map[string]bool{}
	goFiles(t, func(name string, file *ast.File, _ []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		dir := path.Dir(name)
		commented[dir] = commented[dir] || file.Doc != nil && len(file.Doc.Text()) > 40
		switch file.Name.Name {
		case "util", "utils", "common", "helpers", "misc":
			t.Errorf("%s: a package named %s says nothing", name, file.Name.Name)
		}
	})
	for dir, ok := range commented {
		if !ok {
			t.Errorf("package in %s has no comment that says what it is for", dir)
		}
	}
}

// TestFileLength: a file over 600 lines says why at its top, with the words "This file is long".
func TestFileLength(t *testing.T) {
	goFiles(t, func(name string, _ *ast.File, src []byte) {
		if n := strings.Count(string(src), "\n"); n > 650 && !strings.HasSuffix(name, "_test.go") {
			head := strings.Join(strings.SplitN(string(src), "\n", 31)[:30], "\n")
			if !strings.Contains(head, "This file is long") {
				t.Errorf("%s has %d lines and no reason at its top (a comment that begins \"This file is long\")", name, n)
			}
		}
	})
}

var target = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `)

// TestMakefile: every target that the documents name exists, and has a line in `make help`.
func TestMakefile(t *testing.T) {
	b, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `).FindAllStringSubmatch(string(b), -1) {
		have[m[1]] = true
	}
	called := regexp.MustCompile("`make ([a-z0-9-]+)`")
	docs, _ := filepath.Glob("docs/*.md")
	for _, doc := range append(docs, "README.md", "CONTRIBUTING.md") {
		b, err := os.ReadFile(doc)
		if err != nil {
			t.Error(err)
		}
		for _, m := range called.FindAllStringSubmatch(string(b), -1) {
			if !have[m[1]] {
				t.Errorf("%s names `make %s`, which the Makefile does not have", doc, m[1])
			}
		}
	}
}

// TestMutantsApply: every defect that `make mutants` plants still applies to the C code. Whether a
// test catches it takes too long to check with every change.
func TestMutantsApply(t *testing.T) {
	//proves:G2 on demand; that each still applies
	patches, err := filepath.Glob("axcl/native/testdata/mutants/*.patch")
	if err != nil || len(patches) < 12 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	for _, p := range patches {
		if out, err := exec.Command("git", "apply", "--check", p).CombinedOutput(); err != nil {
			t.Errorf("%s: make it again for the C code as it is: %s", p, out)
		}
	}
}

// TestLeaks: a package that has tests looks for goroutines that they left behind.
func TestLeaks(t *testing.T) {
	looks, tests := map[string]bool{}, map[string]string{}
	goFiles(t, func(name string, file *ast.File, _ []byte) {
		dir := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") {
			tests[dir] = name
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if f, ok := call.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "VerifyTestMain" || f.Sel.Name == "Find") {
					if x, ok := f.X.(*ast.Ident); ok && x.Name == "goleak" {
						looks[dir] = true
					}
				}
			}
			return true
		})
	})
	for dir, name := range tests {
		if !looks[dir] {
			t.Errorf("%s has tests (%s) that never ask goleak", dir, path.Base(name))
		}
	}
}

// TestFamilies: what differs between families of models stands in the table of models/traits.go. No
// other code of the product asks for a family by its name.
func TestFamilies(t *testing.T) {
	asks := regexp.MustCompile(`\bswitch .*\.Family\b|\b([Ff]amily|Architecture)\)?\s*[!=]=\s*"[a-z0-9]|fix\([\w.]*([Ff]amily|Architecture), "`)
	looked := 0
	goFiles(t, func(name string, _ *ast.File, src []byte) {
		// A template's family, and a checkpoint's architecture in axmodel/compile, are others.
		if !slices.Contains([]string{"models", "engine", "server", "cmd"}, strings.Split(name, "/")[0]) ||
			strings.HasSuffix(name, "_test.go") || name == "models/traits.go" {
			return
		}
		looked++
		for i, line := range bytes.Split(src, []byte("\n")) {
			if asks.Match(line) {
				t.Errorf("%s:%d asks for a family by its name: that belongs into models/traits.go", name, i+1)
			}
		}
	})
	if looked < 200 {
		t.Errorf("only %d files were looked at", looked)
	}
}

// TestPageCache: nothing takes files out of the system's page cache, or goes past it: a model that
// was unloaded is found there again.
func TestPageCache(t *testing.T) {
	drops := regexp.MustCompile(`(FADV|MADV)_(DONTNEED|NOREUSE|COLD|PAGEOUT)|O_DIRECT\b`)
	may := map[string]bool{"laws_test.go": true, "engine/cache/hostmem_linux.go": true, // that is no file's memory
		"cmd/internal/benchmark/pages_linux.go": true} // rows that a benchmark wrote, to be read from the disk
	goFiles(t, func(name string, _ *ast.File, src []byte) {
		if what := drops.Find(src); what != nil && !may[name] {
			t.Errorf("%s has %s", name, what)
		}
	})
}

// TestRankedLocks: every lock of engine, server and store has its place in one order (package
// ranked): a plain mutex would escape the race lane's look at it.
func TestRankedLocks(t *testing.T) {
	plain := map[string]string{
		"server/scripted":   "the script is no part of the product",
		"models/modelstest": "a double",
		"engine/bench":      "one, of its own",
		"models/embed.go":   "one a row, with nothing else taken under it",
	}
	files := 0
	goFiles(t, func(name string, file *ast.File, _ []byte) {
		dir := path.Dir(name)
		if strings.HasSuffix(name, "_test.go") || plain[dir] != "" || plain[name] != "" ||
			!slices.Contains([]string{"engine", "server", "models"}, strings.Split(name, "/")[0]) {
			return
		}
		files++
		for _, im := range file.Imports {
			if im.Path.Value == `"sync"` && im.Name != nil {
				t.Errorf("%s imports sync under another name", name)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "sync" && (s.Sel.Name == "Mutex" || s.Sel.Name == "RWMutex" ||
					s.Sel.Name == "Cond") {
					t.Errorf("%s: sync.%s has no place in the order of locks: take ranked's", name, s.Sel.Name)
				}
			}
			return true
		})
	})
	if files < 60 {
		t.Errorf("%d files were looked at", files)
	}
}

// asleep are the tests' functions that sleep, and are not themselves the body of a synctest bubble,
// each with its reason.
var asleep = map[string]string{
	"engine/restart_test.go asleep.slept":            inBubble,
	"engine/restart_test.go onAsleep":                inBubble,
	"internal/fair/fair_test.go Line.piece":          inBubble,
	"models/ahead/ahead_test.go machine.fault":       inBubble,
	"models/ahead/ahead_test.go machine.load":        inBubble,
	"models/store/guard_test.go slowly.Read":         inBubble,
	"models/store/guard_test.go idleFile.Read":       inBubble,
	"engine/restart_test.go restSaved":               inBubble,
	"server/pool/pool_test.go cards.Load":            inBubble,
	"engine/corners_test.go TestNoEmbedding":         polls,
	"engine/corners_test.go TestInOrder":             polls,
	"models/store/hashed_test.go TestTouched":        polls,
	"internal/fuzzguard/fuzzguard_test.go TestCheck": "what it tests measures real time, and passes however long the sleep takes",
}

const (
	inBubble = "only tests in a bubble call it, and there the clock is the test's own"
	polls    = "asks again until it is so, however long that takes"
)

// TestSleep: a test that sleeps for something to happen waits too long on a fast machine and too
// short on a slow one. In a synctest bubble a sleep takes no time, and ends when all else waits.
func TestSleep(t *testing.T) {
	used := map[string]bool{}
	goFiles(t, func(name string, file *ast.File, _ []byte) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			where := name + " " + fn.Name.Name
			if fn.Recv != nil {
				where = name + " " + strings.TrimPrefix(types.ExprString(fn.Recv.List[0].Type), "*") + "." + fn.Name.Name
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				switch types.ExprString(call.Fun) {
				case "synctest.Test":
					return false
				case "time.Sleep":
					if used[where] = true; asleep[where] == "" {
						t.Errorf("%s sleeps outside of a bubble: wait for what it waits for, or say why in asleep", where)
					}
				}
				return true
			})
		}
	})
	for where := range asleep {
		if !used[where] {
			t.Errorf("%s sleeps no more", where)
		}
	}
}

// goFiles calls f with every Go file of the module, parsed.
func goFiles(t *testing.T, f func(name string, file *ast.File, src []byte)) {
	t.Helper()
	if parsed == nil {
		parse(t)
	}
	for _, p := range parsed {
		f(p.name, p.file, p.src)
	}
}

func parse(t *testing.T) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			base := d.Name()
			if name != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || base == "build" ||
				base == "dist" || base == "bin") {
				return fs.SkipDir
			}
			if name != "." {
				if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
					return fs.SkipDir // a nested module has its own laws
				}
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, name, src, parser.ParseComments)
		if err != nil {
			return err
		}
		parsed = append(parsed, struct {
			name string
			file *ast.File
			src  []byte
		}{filepath.ToSlash(name), file, src})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func within(dir, prefix string) bool {
	return prefix == "" || dir == prefix || strings.HasPrefix(dir, prefix+"/")
}
