package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// plainErrors say themselves what is wrong and what to do, or tell of a fault in a caller's code rather than of a machine.
var plainErrors = map[string]string{
	"closed":                    "a library's misuse",
	"models: package is closed": "a library's misuse",
	"engine: closed":            "a library's misuse",
	"axcl: bad pass":            "a library's misuse",
	"axcl: called from a thread that does not own the device": "a library's misuse",
	"neither 'from' or 'files' was specified":                 "Ollama's own text, for who calls /api/create",
	"invalid digest format":                                   "Ollama's own text",
	"not kept in the store":                                   "the error names the model and where it lies",
	"engine: bad request":                                     "always followed by the field and its bounds",
	"parameter out of range":                                  "always followed by the parameter and its bounds",
	"sampler: mirostat has no fixed distribution, use Sample": "a library's misuse",
}

// TestTroubleshooting: every sentinel's text that people may meet is found in docs/troubleshooting.md.
func TestTroubleshooting(t *testing.T) {
	doc, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, dir := range []string{"axcl", "models", "models/store", "models/hub", "engine", "tokenizer", "sampler", "axmodel"} {
		more, err := filepath.Glob("../../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	seen := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != 1 || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Err") {
				return true
			}
			call, ok := spec.Values[0].(*ast.CallExpr)
			if !ok || len(call.Args) != 1 {
				return true
			}
			if lit, ok := call.Args[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				seen[text] = true
				// The package's prefix is left out in headings.
				bare := text
				if _, after, ok := strings.Cut(text, ": "); ok {
					bare = after
				}
				if plainErrors[text] == "" && !strings.Contains(strings.ToLower(string(doc)), strings.ToLower(bare)) {
					t.Errorf("docs/troubleshooting.md does not know %q (%s)", bare, spec.Names[0].Name)
				}
			}
			return true
		})
	}
	if len(seen) < 25 {
		t.Errorf("only %d sentinels found", len(seen))
	}
	for text, why := range plainErrors {
		if !seen[text] {
			t.Errorf("%q (%s) is no sentinel any more", text, why)
		}
	}
}
