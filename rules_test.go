package axle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRules: every mark names a row that says so of its test, and every rule can be taken out.
// AXLE_TEST_RULES takes them out one by one, all or those of the rows it names, in an overlay that
// touches no file: the test named must fail each time (make rules).
func TestRules(t *testing.T) {
	rows := os.Getenv("AXLE_TEST_RULES")
	all := rules(t)
	if len(all) < 200 {
		t.Errorf("%d marks were found: the code has more", len(all))
	}
	for _, r := range all {
		t.Run(r.row+" "+r.test, func(t *testing.T) {
			b, err := os.ReadFile(r.file)
			if err != nil {
				t.Fatal(err)
			}
			b, err = r.without(b)
			if err != nil {
				t.Fatalf("%s:%d: %v", r.file, r.line, err)
			}
			if strings.HasSuffix(r.file, ".go") {
				if _, err := parser.ParseFile(token.NewFileSet(), r.file, b, 0); err != nil {
					t.Fatalf("without the rule: %v", err)
				}
			}
			if rows == "" || rows != "all" && !strings.Contains(","+rows+",", ","+r.row+",") {
				return
			}
			dir := t.TempDir()
			changed, overlay := filepath.Join(dir, filepath.Base(r.file)), filepath.Join(dir, "overlay.json")
			full, err := filepath.Abs(r.file)
			if err != nil {
				t.Fatal(err)
			}
			o, _ := json.Marshal(map[string]map[string]string{"Replace": {full: changed}})
			if err := os.WriteFile(overlay, o, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(changed, b, 0o644); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("go", "test", "-vet=off", "-tags", "nomsgpack", "-count=1", "-failfast", "-timeout", "2m", "-overlay",
				overlay, "-run", r.test, r.pkg).CombinedOutput()
			switch {
			case err == nil:
				t.Errorf("%s:%d: without the rule nothing fails", r.file, r.line)
			case strings.Contains(string(out), "[build failed]") || strings.Contains(string(out), "setup failed"):
				t.Fatalf("%s:%d: it does not build:\n%s", r.file, r.line, out)
			}
		})
	}
}

// TestMarks: each way to take a rule out does what rules_test.go says of it, and what cannot be
// taken out is an error.
func TestMarks(t *testing.T) {
	const src = `package p

func f(a, b int) int {
	if c := a; c > b {
		return 1
	} else if a > 2 {
		return 2
	}
	a = g(b)
	h := T{
		A: a,
		B: b,
	}
	switch {
	case a == 1, b == 1:
	case a == 3:
	}
	for a < b {
	}
	return a + h.A
}
`
	for _, c := range []struct {
		line      int
		how, want string
	}{
		{4, "false", "	if c := a; false && (c > b) {\n"},
		{6, "false", "	} else if false && (a > 2) {\n"},
		{9, "drop", "	if false { a = g(b) }\n"},
		{11, "drop", "\t\t\n"},
		{16, "false", "	case false && (a == 3):\n"},
		{18, "false", "	for false && (a < b) {\n"},
		{9, "g(b) =>", "	a = \n"},
		{20, "a + => b -", "	return b - h.A\n"},
		{15, "false", ""},  // which of the two
		{2, "drop", ""},    // nothing is there
		{9, "false", ""},   // no condition
		{20, "r => b", ""}, // twice
		{20, "=> b", ""},
		{20, "leave", ""},
	} {
		got, err := rule{file: "p.go", line: c.line, how: c.how}.without([]byte(src))
		switch {
		case c.want == "" && err == nil:
			t.Errorf("line %d, %q: no error: %s", c.line, c.how, got)
		case c.want != "" && (err != nil || strings.SplitAfter(string(got), "\n")[c.line-1] != c.want):
			t.Errorf("line %d, %q: %v\n%s", c.line, c.how, err, got)
		}
	}
}

// A rule is a line of the code that keeps a promise of docs/promises.md. A mark above the line, or
// at its end, says which test must fail when the rule is taken out, and how it is:
//
//	//rule:ROW [./PACKAGE] TEST false        the condition of the statement never holds
//	//rule:ROW [./PACKAGE] TEST drop         the statement, or the field of a literal, is left out
//	//rule:ROW [./PACKAGE] TEST OLD => NEW   OLD, which the line has once, becomes NEW; NEW may be empty
//
// PACKAGE is where the test is, if not beside the line. What only a law, a library or a file keeps
// (T12, T13, T15, the unit of T18) has no line to mark.
type rule struct {
	file           string
	line           int // the marked line's number, from 1
	row, pkg, test string
	how            string
}

var mark = regexp.MustCompile(`//rule:([TDG]\d+) (?:(\./\S+) )?((?:Test|Fuzz)\S+) (\S.*)$`)

// rules finds the marks in every product file that git lists.
func rules(t *testing.T) []rule {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go", "*.c", "*.h", "*.js").Output()
	if err != nil {
		t.Skipf("SKIPPED: the marks are looked for in git's files: %v", err)
	}
	var all []rule
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		b, err := os.ReadFile(file)
		if os.IsNotExist(err) || strings.HasSuffix(file, "_test.go") || !bytes.Contains(b, []byte("//rule:")) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(b), "\n")
		for i, line := range lines {
			before, _, ok := strings.Cut(line, "//rule:")
			if !ok {
				continue
			}
			m := mark.FindStringSubmatch(line)
			if m == nil {
				t.Errorf("%s:%d: not a mark as rules_test.go says it: %s", file, i+1, strings.TrimSpace(line))
				continue
			}
			r := rule{file: file, line: i + 1, row: m[1], pkg: m[2], test: m[3], how: m[4]}
			if r.pkg == "" {
				r.pkg = "./" + path.Dir(file)
			}
			if strings.TrimSpace(before) == "" {
				for r.line++; r.line <= len(lines) && strings.Contains(lines[r.line-1], "//rule:"); r.line++ {
				}
			}
			all = append(all, r)
		}
	}
	return all
}

// without gives the file as it is when the rule is taken out.
func (r rule) without(src []byte) ([]byte, error) {
	lines := bytes.SplitAfter(src, []byte("\n"))
	at := 0
	for _, l := range lines[:r.line-1] {
		at += len(l)
	}
	code, _, _ := bytes.Cut(lines[r.line-1], []byte("//rule:"))
	if from, to, ok := strings.Cut(r.how+" ", " => "); ok {
		from, to = strings.TrimSpace(from), strings.TrimSpace(to)
		if n := bytes.Count(code, []byte(from)); n != 1 || from == "" {
			return nil, fmt.Errorf("the line has %q %d times", from, n)
		}
		at += bytes.Index(code, []byte(from))
		return slices.Concat(src[:at], []byte(to), src[at+len(from):]), nil
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, r.file, src, 0)
	if err != nil {
		return nil, err
	}
	begin, end, before, after := token.NoPos, token.NoPos, "", ""
	take := func(n ast.Node, b, a string) { begin, end, before, after = n.Pos(), n.End(), b, a }
	ast.Inspect(f, func(n ast.Node) bool {
		if n == nil || begin.IsValid() {
			return false
		}
		if fset.Position(n.Pos()).Line != r.line {
			return true
		}
		var cond ast.Expr
		switch s := n.(type) {
		case *ast.IfStmt:
			cond = s.Cond
		case *ast.ForStmt:
			cond = s.Cond
		case *ast.CaseClause:
			if len(s.List) == 1 {
				cond = s.List[0]
			}
		}
		_, literal := n.(*ast.KeyValueExpr)
		stmt, isStmt := n.(ast.Stmt)
		switch {
		case r.how == "false" && cond != nil:
			take(cond, "false && (", ")")
		case r.how == "drop" && literal:
			take(n, "/* ", " */")
		case r.how == "drop" && isStmt:
			take(stmt, "if false { ", " }") // what it uses stays in use
		}
		return !begin.IsValid()
	})
	if !begin.IsValid() {
		return nil, fmt.Errorf("nothing on the line can be made %q", r.how)
	}
	b, e := fset.Position(begin).Offset, fset.Position(end).Offset
	if before == "/* " {
		return slices.Concat(src[:b], bytes.TrimPrefix(src[e:], []byte(","))), nil
	}
	return slices.Concat(src[:b], []byte(before), src[b:e], []byte(after), src[e:]), nil
}
