package axle

import (
	"go/ast"
	"go/build/constraint"
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

// TestRaceLane: in a package that the race lane leaves out nothing is shared by goroutines: none is
// started, and nothing is guarded.
func TestRaceLane(t *testing.T) {
	allowed := map[string]string{"axcl/simcard t.Parallel": "what runs at once are processes of C programs"}
	single, seen := listed(t, "SINGLE"), map[string]bool{".": true}
	goFiles(t, func(name string, file *ast.File, _ []byte) {
		dir := path.Dir(name)
		if !slices.Contains(single, dir) && dir != "." {
			return
		}
		seen[dir] = true
		for _, im := range file.Imports {
			if what, _ := strconv.Unquote(im.Path.Value); what == "sync" || strings.HasPrefix(what, "sync/") ||
				what == "golang.org/x/sync/errgroup" {
				t.Errorf("%s imports %s: the race lane must not leave %s out (SINGLE in the Makefile)", name, what, dir)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			what := ""
			switch n := n.(type) {
			case *ast.GoStmt:
				what = "a go statement"
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "Parallel" || s.Sel.Name == "Go" || s.Sel.Name == "AfterFunc") {
					what = "t." + s.Sel.Name
				}
			}
			if what != "" && allowed[dir+" "+what] == "" {
				t.Errorf("%s has %s: the race lane must not leave %s out (SINGLE in the Makefile)", name, what, dir)
			}
			return true
		})
	})
	for _, dir := range single {
		if !seen[dir] {
			t.Errorf("SINGLE in the Makefile names %s, which is no package", dir)
		}
	}
}

// TestLeftOut: what a lane leaves out by name is there.
func TestLeftOut(t *testing.T) {
	tests := map[string]bool{}
	goFiles(t, func(name string, file *ast.File, _ []byte) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasSuffix(name, "_test.go") && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	})
	for _, name := range listed(t, "SWEPT") {
		if !tests[name] {
			t.Errorf("SWEPT in the Makefile names %s, which is no test", name)
		}
	}
}

// TestPureLane: a package of which other files are compiled without cgo, or with the tag fake, is
// tested and vetted so.
func TestPureLane(t *testing.T) {
	_, recipe, _ := strings.Cut(makefile(t), "\nnocgo: ")
	recipe, _, _ = strings.Cut(recipe, "\n\n")
	pure := listed(t, "PURE")
	goFiles(t, func(name string, file *ast.File, _ []byte) {
		dir := path.Dir(name)
		for _, group := range file.Comments {
			for _, c := range group.List {
				if !constraint.IsGoBuild(c.Text) || !strings.Contains(c.Text, "cgo") && !strings.Contains(c.Text, "fake") {
					continue
				}
				if !slices.ContainsFunc(pure, func(p string) bool {
					return "./"+dir == p || strings.HasSuffix(p, "/...") && within("./"+dir, strings.TrimSuffix(p, "/..."))
				}) {
					t.Errorf("%s: PURE in the Makefile has not %s", name, dir)
				}
				if !strings.HasSuffix(name, "_test.go") && dir != "axcl/native/simhook" &&
					!regexp.MustCompile(`\./`+dir+`( |\n|$)`).MatchString(recipe) {
					t.Errorf("%s: make nocgo tests no ./%s", name, dir)
				}
			}
		}
	})
}

// TestMutantsApply: every defect that `make mutants` plants finds the code that it is planted in.
// Whether it is caught only that lane tells, which is too long for every change.
func TestMutantsApply(t *testing.T) {
	//proves:G2 on demand; that each still finds its place
	patches, err := filepath.Glob("axcl/native/testdata/mutants/*.patch")
	if err != nil || len(patches) < 12 {
		t.Fatalf("%d patches, %v", len(patches), err)
	}
	for _, p := range patches {
		if out, err := exec.Command("git", "apply", "--check", p).CombinedOutput(); err != nil {
			t.Errorf("%s: make it anew against the C as it is: %s", p, out)
		}
	}
}

// makefile is the Makefile, with lines that go on joined.
func makefile(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "\\\n", " ")
}

// listed are the words of a variable of the Makefile.
func listed(t *testing.T, name string) []string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^(?:ci: export )?` + name + `\s*:= (?:\$\(subst \$\(space\),\|,)?(.*?)\)?$`).FindStringSubmatch(makefile(t))
	if m == nil {
		t.Fatalf("the Makefile has no %s", name)
	}
	return strings.FieldsFunc(m[1], func(r rune) bool { return r == ' ' || r == '|' || r == '\t' })
}
