package axle

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	promiseRow = regexp.MustCompile(`(?m)^\| ([TDG]\d+) \|(.*)\|\s*$`)
	// engine/TestHang where several packages have one
	testName = regexp.MustCompile("`(?:([a-z/]+|\\.)/)?((?:Test|Fuzz|Example|Benchmark)[A-Za-z0-9_]+)`")
	makeName = regexp.MustCompile("`make ([a-z0-9-]+)`")
)

// TestPromises: docs/promises.md has a row for every threat, fault and number, every row names a test or a make target that proves it, and
// what it names is there and can be nothing else, and tests that `make rules` proves are marked.
func TestPromises(t *testing.T) {
	b, err := os.ReadFile("docs/promises.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string][]string{} // where they are
	fset := token.NewFileSet()
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if b := d.Name(); name != "." && (strings.HasPrefix(b, ".") || b == "node_modules" || b == "build" || b == "bin" ||
				b == "dist") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				tests[fn.Name.Name] = append(tests[fn.Name.Name], filepath.ToSlash(filepath.Dir(name)))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mk, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range promiseRow.FindAllStringSubmatch(string(b), -1) {
		if _, twice := rows[m[1]]; twice {
			t.Errorf("%s has two rows", m[1])
		}
		rows[m[1]] = m[2]
	}
	for _, r := range rules(t) {
		for name := range strings.SplitSeq(r.test, "|") {
			name = strings.TrimSuffix(name, "$")
			if !strings.Contains(rows[r.row], "`"+name+"` ✗") && !strings.Contains(rows[r.row], "`"+strings.TrimPrefix(r.pkg, "./")+"/"+
				name+"` ✗") {
				t.Errorf("%s: a rule is taken out for %s, and the row has no `%s` ✗", r.row, name, name)
			}
		}
	}
	for kind, n := range map[string]int{"T": 18, "D": 17, "G": 14} {
		for i := 1; i <= n; i++ {
			id := fmt.Sprint(kind, i)
			row, ok := rows[id]
			if !ok {
				t.Errorf("docs/promises.md has no row %s", id)
				continue
			}
			named := 0
			for _, m := range testName.FindAllStringSubmatch(row, -1) {
				named++
				in := tests[m[2]]
				if m[1] != "" {
					in = slices.DeleteFunc(slices.Clone(in), func(dir string) bool { return dir != m[1] })
				}
				switch {
				case len(in) == 0:
					t.Errorf("%s names %s, which is no test", id, m[0])
				case len(in) > 1:
					t.Errorf("%s names %s, which %s have: say whose, as in `%s/%s`", id, m[0], strings.Join(in, " and "), in[0], m[2])
				}
			}
			for _, m := range makeName.FindAllStringSubmatch(row, -1) {
				named++
				if !strings.Contains(string(mk), "\n"+m[1]+":") {
					t.Errorf("%s names make %s, which is no target", id, m[1])
				}
			}
			if named == 0 {
				t.Errorf("%s names nothing that proves it", id)
			}
		}
	}
}
