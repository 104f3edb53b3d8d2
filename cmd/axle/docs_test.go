//go:build !scripted

package main

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestDocs: every command in the documents is one that we have, with flags that it has, and what is
// marked to be run works.
func TestDocs(t *testing.T) {
	unraced(t)
	t.Setenv("AXLE_MODELS", t.TempDir())
	t.Setenv("AXLE_HOST", "127.0.0.1:1")
	t.Setenv("AXLE_DEVICE", "soft")
	lines := docLines(t)
	t.Chdir("../..") // where their reader is
	for _, l := range lines {
		t.Run(l.where, func(t *testing.T) {
			root := newRootCmd()
			c, rest, err := root.Find(l.args)
			if err != nil || c == root && len(l.args) > 0 && !strings.HasPrefix(l.args[0], "-") {
				t.Fatalf("axle %s: no such command (%v)", strings.Join(l.args, " "), err)
			}
			if err := c.ParseFlags(rest); err != nil {
				t.Fatalf("axle %s: %v", strings.Join(l.args, " "), err)
			}
			if !l.run {
				return
			}
			root = newRootCmd()
			root.SetArgs(l.args)
			root.SetOut(io.Discard)
			if err := root.ExecuteContext(t.Context()); err != nil {
				t.Errorf("axle %s: %v", strings.Join(l.args, " "), err)
			}
		})
	}
}

// docLine is a command in a document.
type docLine struct {
	where string
	args  []string
	run   bool // in a block marked "sh run": it must work on any machine
}

// docLines finds every axle command in the fenced shell blocks of the documents.
func docLines(t *testing.T) (out []docLine) {
	t.Helper()
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, "../../README.md") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		block := ""
		for i, line := range strings.Split(string(b), "\n") {
			if after, ok := strings.CutPrefix(line, "```"); ok {
				if block != "" {
					block = ""
				} else if block = after; block == "" {
					block = "text"
				}
				continue
			}
			if block != "sh" && block != "sh run" {
				continue
			}
			line, _, _ = strings.Cut(line, " #")
			line = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(line), "$ "), "sudo ")
			for _, prefix := range []string{"axle ", "bin/axle "} {
				if rest, ok := strings.CutPrefix(line, prefix); ok && !strings.ContainsAny(rest, "|<>") {
					out = append(out, docLine{filepath.Base(name) + ":" + strconv.Itoa(i+1), shellWords(t, rest), block == "sh run"})
				}
			}
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d commands found in the documents", len(out))
	}
	return out
}

// shellWords splits a line as a shell would, as far as documents go: spaces, and quotes.
func shellWords(t *testing.T, line string) (out []string) {
	t.Helper()
	var w strings.Builder
	quote, any := rune(0), false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			w.WriteRune(c)
		case c == '"' || c == '\'':
			quote, any = c, true
		case c == ' ':
			if w.Len() > 0 || any {
				out = append(out, w.String())
			}
			w.Reset()
			any = false
		default:
			w.WriteRune(c)
		}
	}
	if quote != 0 {
		t.Fatalf("%q: a quote is not closed", line)
	}
	if w.Len() > 0 || any {
		out = append(out, w.String())
	}
	return out
}
