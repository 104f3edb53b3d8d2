package axle

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// This file is the laws of the text: how long lines and how complex functions may be.

// TestComplexity: few functions have more than 30 ways through them (ifs, loops, cases and their
// conditions).
func TestComplexity(t *testing.T) {
	const most, functions = 30, 15
	var over []string
	goFiles(t, func(name string, f *ast.File, _ []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ways := 1
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
					ways++
				case *ast.CaseClause:
					ways += min(len(n.List), 1)
				case *ast.BinaryExpr:
					if n.Op == token.LAND || n.Op == token.LOR {
						ways++
					}
				}
				return true
			})
			if ways > most {
				over = append(over, fmt.Sprintf("%s in %s has %d", fn.Name.Name, name, ways))
			}
		}
	})
	if len(over) > functions {
		t.Errorf("%d functions have more than %d ways through them, %d may: %s", len(over), most, functions, strings.Join(over, "; "))
	}
}

// TestTypeSizes: a type of the engine fits in the head.
func TestTypeSizes(t *testing.T) {
	const mostFields, mostMethods = 20, 40
	methods := map[string]map[string]bool{}
	goFiles(t, func(name string, f *ast.File, _ []byte) {
		if strings.HasSuffix(name, "_test.go") || !strings.HasPrefix(name, "engine/") || strings.HasPrefix(name, "engine/bench/") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && !spec.Name.IsExported() && s.Fields.NumFields() > mostFields {
				t.Errorf("%s: %s has %d fields, %d may be", name, spec.Name.Name, s.Fields.NumFields(), mostFields)
			}
			return true
		})
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil {
				continue
			}
			typ := path.Dir(name) + "." + strings.TrimLeft(types.ExprString(fn.Recv.List[0].Type), "*")
			if methods[typ] == nil {
				methods[typ] = map[string]bool{}
			}
			methods[typ][fn.Name.Name] = true // those under several build tags count once
		}
	})
	for typ, m := range methods {
		if len(m) > mostMethods {
			t.Errorf("%s has %d methods, %d may be", typ, len(m), mostMethods)
		}
	}
}

// widest is how many columns a line may have, and a line of a comment's text; a tab counts four.
const widest, widestText = 140, 100

// prose is a line that is a comment's text: no list, code or mark.
var prose = regexp.MustCompile(`^\s*// [^\s|#*+•-]`)

// TestLineLength: lines fit a screen. What cannot be broken is let through: raw strings in Go,
// which are data, and what a program wrote; tables, headings and code in documents.
func TestLineLength(t *testing.T) {
	over := func(line string, most int) bool {
		return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > most
	}
	wide := func(line string) bool { return over(line, widest) }
	goFiles(t, func(name string, _ *ast.File, src []byte) {
		if bytes.HasPrefix(src, []byte("// Code generated ")) {
			return
		}
		raw := rawLines(src)
		for i, line := range strings.Split(string(src), "\n") {
			if wide(line) && !raw[i+1] &&
				!(strings.HasSuffix(name, "example_test.go") && strings.HasPrefix(strings.TrimSpace(line), "//")) {
				t.Errorf("%s:%d is over %d columns", name, i+1, widest)
			}
			if over(line, widestText) && !raw[i+1] && prose.MatchString(line) && !strings.HasSuffix(name, "example_test.go") {
				t.Errorf("%s:%d: a comment's text is over %d columns", name, i+1, widestText)
			}
		}
	})
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() {
			if name != "." && (base[0] == '.' || slices.Contains([]string{"testdata", "node_modules", "build", "dist", "third_party"},
				base)) {
				return fs.SkipDir
			}
			return nil
		}
		ext := filepath.Ext(name)
		if !slices.Contains([]string{".c", ".h", ".md", ".sh"}, ext) {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fence := false
		for i, line := range strings.Split(string(src), "\n") {
			text := strings.TrimSpace(line)
			if strings.HasPrefix(text, "```") {
				fence = !fence
			}
			free := ext == ".md" && (fence || strings.HasPrefix(text, "|") || strings.HasPrefix(text, "#") ||
				strings.HasPrefix(line, "    "))
			if wide(line) && !free {
				t.Errorf("%s:%d is over %d columns", name, i+1, widest)
			}
			if (ext == ".c" || ext == ".h") && over(line, widestText) && prose.MatchString(line) {
				t.Errorf("%s:%d: a comment's text is over %d columns", name, i+1, widestText)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// rawLines are the lines of a Go file that hold a raw string, or a part of one.
func rawLines(src []byte) map[int]bool {
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.STRING && lit[0] == '`' {
			first := file.Line(pos)
			for i := range strings.Count(lit, "\n") + 1 {
				lines[first+i] = true
			}
		}
	}
}

// TestTestsFirst: a test file shows first how a thing is used: its first function is an example or
// a test, and what tests are made with (helpers, doubles, benchmarks) comes after it.
func TestTestsFirst(t *testing.T) {
	kind := regexp.MustCompile(`^(Test|Example|Fuzz)([^a-z]|$)`)
	files := 0
	goFiles(t, func(name string, file *ast.File, _ []byte) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		first, shows := "", false
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil && (fn.Name.Name == "TestMain" || fn.Name.Name == "init") {
				continue
			}
			if first == "" {
				first = fn.Name.Name
			}
			shows = shows || fn.Recv == nil && kind.MatchString(fn.Name.Name)
		}
		if !shows {
			return
		}
		if files++; !kind.MatchString(first) {
			t.Errorf("%s begins with %s: tests and examples come first", name, first)
		}
	})
	if files < 200 {
		t.Errorf("%d files were looked at", files)
	}
}
