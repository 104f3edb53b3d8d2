package axle

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var docLink = regexp.MustCompile(`\[([^\]\n]+)\]\(([^)\s]+)\)`)

// TestDocLinks: what the documents link to in the tree is there, and where the text of a link is
// code, the file defines that name: [`Sampler.Sample`](../sampler/sampler.go).
func TestDocLinks(t *testing.T) {
	docs, err := filepath.Glob("docs/*.md")
	if err != nil || len(docs) < 5 {
		t.Fatal(docs, err)
	}
	named := 0
	for _, doc := range append(docs, "README.md", "CONTRIBUTING.md", "RATIONALE.md", "SECURITY.md") {
		src, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range docLink.FindAllStringSubmatch(string(src), -1) {
			text, to, _ := m[1], m[2], 0
			if strings.Contains(to, "://") || strings.HasPrefix(to, "#") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			to, _, _ = strings.Cut(to, "#")
			file := filepath.Join(filepath.Dir(doc), to)
			st, err := os.Stat(file)
			if err != nil {
				t.Errorf("%s links to %s, which is not there", doc, to)
				continue
			}
			name, code := strings.CutPrefix(text, "`")
			if name = strings.TrimSuffix(name, "`"); !code || st.IsDir() || name == filepath.Base(file) || strings.HasSuffix(file, ".md") {
				continue
			}
			named++
			if !defines(t, file, name) {
				t.Errorf("%s: %s does not define %s", doc, to, name)
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d names were looked up", named)
	}
}

// defines: the file declares this function, type, variable, constant, or Type.method; of a file
// that is not Go, it has the word. A package's name counts too.
func defines(t *testing.T, file, name string) bool {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(file, ".go") {
		return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).Match(src)
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name.Name == name {
		return true
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			of := ""
			if d.Recv != nil {
				typ := d.Recv.List[0].Type
				if p, ok := typ.(*ast.StarExpr); ok {
					typ = p.X
				}
				if g, ok := typ.(*ast.IndexExpr); ok {
					typ = g.X
				}
				of = typ.(*ast.Ident).Name + "."
			}
			if of+d.Name.Name == name {
				return true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Name.Name == name {
						return true
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						if n.Name == name {
							return true
						}
					}
				}
			}
		}
	}
	return false
}
