package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTroubleshooting: every text that an error of the program, its server and its library is made
// with is found in docs/troubleshooting.md: a heading there has it in quotes, or a pattern whose …
// stands for what differs.
func TestTroubleshooting(t *testing.T) {
	doc, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var patterns []string
	for line := range strings.Lines(string(doc)) {
		if strings.HasPrefix(line, "### ") {
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				patterns = append(patterns, strings.ToLower(m[1]))
			}
		}
	}
	seen := map[string]bool{}
	for _, dir := range []string{"ask", "axcl", "axcl/cards", "axcl/native", "models", "models/store", "models/hub",
		"engine", "engine/cache", "engine/card", "engine/pictures", "engine/prove",
		"prefix", "tokenizer", "sampler", "axmodel",
		"server", "server/access", "server/answer", "server/catalog", "server/request", "server/pool", "server/monitor", "server/manage",
		"server/ollama", "server/body", "server/prompt", "server/ollamatype",
		"server/openai", "server/anthropic", "server/vendor", "server/mcp",
		"server/wyoming", "server/immich", "server/mdns", "server/realtime",
		"server/local", "cmd/internal/benchmark", "cmd/internal/call", "cmd/internal/diagnosis",
		"cmd/internal/inspection", "cmd/internal/singlenet", "cmd/internal/sound",
		"cmd/internal/transcript", "cmd/internal/watch", "cmd/internal/cluster", "cmd/axle"} {
		for _, r := range texts(t, dir) {
			seen[r.text] = true
			// Quotes are the headings' own, and the package's prefix is left out in them.
			text := strings.ToLower(prefix.ReplaceAllString(strings.ReplaceAll(r.text, `"`, `'`), ""))
			known := plainErrors[r.text] != ""
			known = known || slices.ContainsFunc(patterns, func(p string) bool { return matches(text, p) })
			if !known {
				t.Errorf("%s: docs/troubleshooting.md does not know %q", r.where, r.text)
			}
		}
	}
	if len(seen) < 200 {
		t.Errorf("only %d texts found", len(seen))
	}
	for text, why := range plainErrors {
		if !seen[text] {
			t.Errorf("%q (%s) is no error any more", text, why)
		}
	}
}

// Why a text needs no place in docs/troubleshooting.md.
const (
	misuse   = "a fault in a caller's code, neither a machine's nor a user's"
	internal = "a broken invariant: the log has more, and it is a bug"
	part     = "part of an error that names the file, and wraps one that has a place"
	followed = "always followed by the field and its bounds"
)

// plainErrors are those texts.
var plainErrors = map[string]string{
	"the server has no model that answers: 'axle pull' lists some to choose from":                           "it says it",
	"launch: the server has no model %s: 'axle pull %s' fetches it, 'axle list' lists those that are there": "it says it",
	"launch: %s does not answer text; 'axle list' lists the models that are there":                          "it says it",
	"the satellite left":                           "no client is there to read it",
	"the request failed":                           "the client was told why",
	"somebody speaks":                              "the client is told the reason turn_detected",
	"the client does not want the response":        "the client is told the reason client_cancelled",
	"the answer has no end":                        "the client is told the reason max_output_tokens",
	"the turn was dropped":                         "the client dropped it",
	"the turn went on":                             "it is written down when it is over",
	"nothing more of the turn came":                "it is written down when it is over, or the session is",
	"closed":                                       misuse,
	"models: package is closed":                    misuse,
	"engine: closed":                               misuse,
	"tool_use block missing required 'id' field":   misuse,
	"tool_use block missing required 'name' field": misuse,
	"axcl: bad pass":                               misuse,
	"axcl: called from a thread that does not own the device":       misuse,
	"this build has scripted models only: no package can be opened": "a build for tests of clients",
	"%q is no language of templates: there are %q and %q":           misuse,
	"another file":           "never shown: it ends a comparison",
	"the order has no end":   misuse,
	"run-net":                followed,
	"engine: bad request":    followed,
	"parameter out of range": followed,

	"%d cells are free, the account says %d":                                                                 internal,
	"node %d: seen %v, state %d, parent %d (want %d), prev %d (want %d)":                                     internal,
	"cell %d is a node that no root reaches":                                                                 internal,
	"cell %d was taken by a pass and neither kept nor given back":                                            internal,
	"cell %d: %d sequences are said to stand on it, %d do":                                                   internal,
	"cell %d: free bit %v, state %d":                                                                         internal,
	"a sequence stands on cell %d and does not see it":                                                       internal,
	"cell %d is reserved, for no sequence":                                                                   internal,
	"cell %d is in state %d with token %d under %d; a sequence has it for token %d (its number %d) under %d": internal,
	"pictures: positions of %d components":                                                                   misuse,
	"pictures: a picture of %d rows at row %d of %d, %d of them laid out":                                    misuse,
	"pictures: %d rows on a grid of %d×%d, and positions of %d components":                                   misuse,
	"models: room for %d values, an embedding has %d":                                                        misuse,
	"sampler: %d logits for a vocabulary of %d":                                                              misuse,
	"sampler: a vocabulary of %d tokens cannot be sampled from":                                              misuse,
	"%d bytes cannot be given to the library":                                                                part,
	"cell %d is kept as row %d, which is of cell %d; states %d and %d":                                       internal,
	"cell %d is kept as row %d, which spells another text":                                                   internal,
	"slot %d hangs on cell %d, which has slot %d and is in state %d":                                         internal,
	"a sequence of %d rows goes on from slot %d, which is not kept there":                                    internal,
	"slot %d is accounted for %d times":                                                                      internal,
	"engine: the row is to be run again":                                                                     internal,
	"sound: no %q is written":                                                                                misuse,
	"body: no empty list %q in the answer":                                                                   internal,
}

// raised is a text that an error is made with.
type raised struct{ text, where string }

// texts finds the texts of errors in a package's sources. What wraps another error (%w) leads to
// that one's place, and what is wrong with a command line (usageError) says itself what it should
// be.
func texts(t *testing.T, dir string) (out []raised) {
	t.Helper()
	files, err := filepath.Glob("../../" + dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		add := func(e ast.Expr) {
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return
			}
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			if bare := strings.TrimSpace(verbs.ReplaceAllString(text, "")); len(bare) > 3 && !strings.Contains(text, "%w") {
				out = append(out, raised{text, fset.Position(lit.Pos()).String()})
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.CallExpr:
				fn := ""
				switch f := x.Fun.(type) {
				case *ast.Ident:
					fn = f.Name
				case *ast.SelectorExpr:
					if id, ok := f.X.(*ast.Ident); ok {
						fn = id.Name + "." + f.Sel.Name
					}
				}
				switch fn {
				case "fmt.Errorf", "errors.New", "notFound":
					add(x.Args[0])
				case "Fail", "body.Fail":
					add(x.Args[1])
				}
			case *ast.CompositeLit:
				id, ok := x.Type.(*ast.Ident)
				if !ok {
					if sel, is := x.Type.(*ast.SelectorExpr); is {
						id, ok = sel.Sel, true
					}
				}
				switch {
				case !ok:
				case id.Name == "httpError" && len(x.Elts) == 2:
					add(x.Elts[1])
				case id.Name == "Error" && strings.HasPrefix(dir, "models"):
					// These print what is wrong with which file, the way out, and the sentinel they
					// wrap.
					helps := len(x.Elts) == 0
					for _, e := range x.Elts {
						if kv, ok := e.(*ast.KeyValueExpr); ok {
							key := kv.Key.(*ast.Ident).Name
							helps = helps || key == "Err" || key == "Fix" || key == "Status" || key == "Detail"
						}
					}
					if !helps {
						t.Errorf("%s: an error without a way out and without a cause", fset.Position(x.Pos()))
					}
				}
			}
			return true
		})
	}
	return out
}

var (
	verbs  = regexp.MustCompile(`%[#+.0-9]*[a-zA-Z]|%%`)
	quoted = regexp.MustCompile(`"([^"]+)"`)
	prefix = regexp.MustCompile(`^[a-z/]+: `)
)

// matches says whether the pieces of a pattern stand in text, in order.
func matches(text, pattern string) bool {
	for piece := range strings.SplitSeq(pattern, "…") {
		i := strings.Index(text, strings.TrimSpace(piece))
		if i < 0 {
			return false
		}
		text = text[i+len(strings.TrimSpace(piece)):]
	}
	return true
}
