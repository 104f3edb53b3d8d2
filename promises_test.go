package axle

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A proof is a test, or a target of the Makefile, that holds a promise of docs/promises.md. A mark
// says so, in the test's body or above the target:
//
//	//proves:ROW what it shows
//	#proves:ROW what it shows
//
// The text may be left out. A test that a rule's mark names proves the rule's row: see
// rules_test.go.
type proof struct {
	row   string
	where string // the test's folder; "": it is a target
	name  string
	rule  bool   // a rule is taken out of the code for it
	says  string // what it shows
}

var (
	promiseRow  = regexp.MustCompile(`(?m)^\| ([TDG]\d+) \| (.+) \|$`)
	proves      = regexp.MustCompile(`(?m)^(?:.*[ \t])?(?://|#)proves:(\S+)(?: (.*))?$`)
	provingMake = regexp.MustCompile(`(?m)^((?:#proves:.*\n)+)([a-z0-9-]+):`)
	row         = regexp.MustCompile(`^[TDG]\d+$`)
)

// TestPromises: each promise is one line of docs/promises.md, without a gap in the numbers, and
// something proves it; each mark of a proof names a promise; and docs/proofs.md is what the marks
// say. `go test . -run TestPromises -update` writes it.
func TestPromises(t *testing.T) {
	page, err := os.ReadFile("docs/promises.md")
	if err != nil {
		t.Fatal(err)
	}
	all := proofs(t)
	var ids []string
	for _, m := range promiseRow.FindAllStringSubmatch(string(page), -1) {
		id := m[1]
		if n := 1 + len(slices.DeleteFunc(slices.Clone(ids), func(o string) bool { return o[0] != id[0] })); id[1:] != strconv.Itoa(n) {
			t.Errorf("docs/promises.md: %s stands where %c%d should", id, id[0], n)
		}
		ids = append(ids, id)
		if !slices.ContainsFunc(all, func(p proof) bool { return p.row == id }) {
			t.Errorf("docs/promises.md: nothing proves %s", id)
		}
	}
	if len(ids) < 60 {
		t.Errorf("docs/promises.md: only %d promises were found", len(ids))
	}
	for _, p := range all {
		if !slices.Contains(ids, p.row) {
			t.Errorf("%s %s proves %q, which is no promise", p.where, p.name, p.row)
		}
	}
	want := proofsPage(ids, all)
	if *redraw {
		if err := os.WriteFile("docs/proofs.md", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile("docs/proofs.md"); err != nil || !bytes.Equal(b, want) {
		t.Errorf("docs/proofs.md is not what the marks say (%v): write it with go test . -run TestPromises -update", err)
	}
}

// proofs finds the marks in git's tests and in the Makefile, and what the rules' marks name.
func proofs(t *testing.T) (all []proof) {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*_test.go").Output()
	if err != nil {
		t.Skipf("SKIPPED: the marks are looked for in git's files: %v", err)
	}
	add := func(p proof) {
		at := slices.IndexFunc(all, func(o proof) bool { return o.row == p.row && o.where == p.where && o.name == p.name })
		if at < 0 {
			all = append(all, p)
			return
		}
		all[at].rule, all[at].says = all[at].rule || p.rule, cmp.Or(all[at].says, p.says)
	}
	tests := map[string]bool{}
	fset := token.NewFileSet()
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		src, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(fset, name, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil {
				continue
			}
			tests[path.Dir(name)+" "+fn.Name.Name] = true
			from, to := fset.Position(fn.Pos()).Offset, fset.Position(fn.End()).Offset
			if end := bytes.IndexByte(src[to:], '\n'); end >= 0 {
				to += end // of a function in one line the mark is behind it
			}
			if name == "promises_test.go" {
				continue // the mark's form is told here
			}
			for _, m := range proves.FindAllSubmatch(src[from:to], -1) {
				if !row.Match(m[1]) {
					t.Errorf("%s, %s: %q is no promise's number", name, fn.Name.Name, m[1])
				}
				add(proof{row: string(m[1]), where: path.Dir(name), name: fn.Name.Name, says: string(m[2])})
			}
		}
	}
	for _, r := range rules(t) {
		for name := range strings.SplitSeq(r.test, "|") {
			p := proof{row: r.row, where: strings.TrimPrefix(r.pkg, "./"), name: strings.TrimSuffix(name, "$"), rule: true}
			if !tests[p.where+" "+p.name] {
				t.Errorf("%s:%d: a rule is taken out for %s, which is no test of %s", r.file, r.line, p.name, r.pkg)
			}
			add(p)
		}
	}
	mk, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range provingMake.FindAllSubmatch(mk, -1) {
		for _, line := range proves.FindAllSubmatch(m[1], -1) {
			add(proof{row: string(line[1]), name: "make " + string(m[2]), says: string(line[2])})
		}
	}
	return all
}

// proofsPage is docs/proofs.md.
func proofsPage(ids []string, all []proof) []byte {
	var b bytes.Buffer
	b.WriteString("# What proves our promises\n\n" +
		"This page is generated from marks in the code: `go test . -run TestPromises -update` writes it. A mark `//proves:D4`\n" +
		"in a test, or `#proves:D4` above a target of the Makefile, names a promise of [promises.md](promises.md). Names in bold\n" +
		"are folders. ✗ means that a mark `//rule:D4` names the test: the test fails if that line of code is changed.\n" +
		"`make rules` tries all of these changes, one by one.\n\n" +
		"| | proofs |\n|---|---|\n")
	for _, id := range ids {
		var of []proof
		for _, p := range all {
			if p.row == id {
				of = append(of, p)
			}
		}
		slices.SortFunc(of, func(a, b proof) int {
			return cmp.Or(strings.Compare(a.where, b.where), strings.Compare(a.name, b.name))
		})
		fmt.Fprintf(&b, "| %s |", id)
		dir := ""
		for i, p := range of {
			if i > 0 {
				b.WriteString(",")
			}
			if p.where != dir {
				dir = p.where
				fmt.Fprintf(&b, " **%s**", dir)
			}
			fmt.Fprintf(&b, " `%s`", p.name)
			if p.rule {
				b.WriteString(" ✗")
			}
			if p.says != "" {
				fmt.Fprintf(&b, " (%s)", strings.ReplaceAll(p.says, "|", `\|`))
			}
		}
		b.WriteString(" |\n")
	}
	return b.Bytes()
}
