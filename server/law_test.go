package server_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What the server's packages may import, with the reason.
func TestImports(t *testing.T) {
	//proves:T15
	dialects := map[string]bool{"ollama": true, "openai": true, "anthropic": true, "vendor": true, "ui": true}
	files := 0
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return err
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), p, src, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files++
		for _, im := range f.Imports {
			path, _ := strconv.Unquote(im.Path.Value)
			for bad, why := range map[string]string{
				"net/http/pprof":                       "profiles are never on the API's listener",
				"archive/":                             "no archive is ever unpacked",
				"compress/":                            "no request is ever decompressed",
				"testing":                              "tests stay out of the product",
				"github.com/axle-llm/axle/axcl/native": "the server knows no card but through the engine",
				"github.com/axle-llm/axle/server/scripted": "the script is no part of the product",
				"github.com/axle-llm/axle/cmd/":            "imports go one way",
				"github.com/klauspost/compress":            "no request is ever decompressed",
				"github.com/prometheus/client_golang":      "a hundred lines do",
			} {
				if bad == "compress/" && filepath.ToSlash(p) == "ui/ui.go" && !strings.Contains(string(src), "gzip.NewReader") {
					continue // it packs what the page is made of, once, and unpacks nothing
				}
				if strings.HasPrefix(path, bad) {
					t.Errorf("%s imports %s: %s", p, path, why)
				}
			}
			if dialects[strings.Split(filepath.ToSlash(p), "/")[0]] && path == "net/http" {
				t.Errorf("%s imports net/http: a dialect is functions over wire types", p)
			}
		}
		return nil
	})
	if err != nil || files < 20 {
		t.Errorf("%d files, %v", files, err)
	}
	main, err := filepath.Glob("../cmd/axle/*.go")
	if err != nil || len(main) == 0 {
		t.Fatal(err)
	}
	for _, p := range main {
		src, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(src), `"github.com/axle-llm/axle/server/scripted"`) && !strings.HasSuffix(p, "_test.go") &&
			!strings.HasPrefix(string(src), "//go:build scripted\n") {
			t.Errorf("%s brings the script into the product", p)
		}
	}
}
