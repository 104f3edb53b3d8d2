package ui

import (
	"os"
	"os/exec"
	"path"
	"testing"
)

// Formulas are found where they are and prices are not, a browser's policy allows their markup, and
// what would take many steps or become a deep tree is shown as its source: counted as what regular
// expressions are asked to look at, not timed.
func TestFormulas(t *testing.T) {
	//proves:T21
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("nothing was read: there is no node here")
	}
	dir := t.TempDir()
	for _, name := range []string{"app/marking.js", "app/formula.js", "vendor/marked.js", "vendor/temml.js"} {
		b, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(path.Join(dir, path.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script, err := os.ReadFile("../../testdata/ui/formulas_check.mjs")
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"check.mjs": script, "package.json": []byte(`{"type":"module"}`)} {
		if err := os.WriteFile(path.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), node, "check.mjs")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
