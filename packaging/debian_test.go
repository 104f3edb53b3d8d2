package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDebian makes a package of a program that stands for ours, and has lintian look at it: what is of the program itself (that it is
// position independent, which `make deb-test` sees) is pinned in the Makefile.
func TestDebian(t *testing.T) {
	mk, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^GOBUILD .*-buildmode=pie`).Match(mk) {
		t.Error("the Makefile builds no position-independent program")
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		b, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, "systemctl") && !strings.Contains(line, "daemon-reload") {
				t.Errorf("%s calls systemctl itself, past what the machine's owner has masked and its policy: %s", script,
					strings.TrimSpace(line))
			}
		}
	}
	for _, name := range []string{"dpkg-deb", "bash", "gzip"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("SKIPPED: the package is not made, ", err)
		}
	}
	// deb.sh writes into the tree it lies in: a copy has what it takes.
	dir := t.TempDir()
	for _, f := range []string{"packaging", "README.md", "CHANGELOG.md", "third_party/LICENCES"} {
		to := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if f == "packaging" {
			err = os.CopyFS(to, os.DirFS("."))
		} else {
			var b []byte
			if b, err = os.ReadFile("../" + f); err == nil {
				err = os.WriteFile(to, b, 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(dir, "program")
	stand := "#!/bin/sh\n[ \"$1\" != man ] || printf '.TH axle 1\\n.SH NAME\\naxle \\\\- a program\\n' >\"$2/axle.1\"\n[ \"$1\" != " +
		"completion ] || echo '#'\n"
	if err := os.WriteFile(program, []byte(stand), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", filepath.Join(dir, "packaging/deb.sh"), "1.2.3", "all", program)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1767225600")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	deb := filepath.Join(dir, "dist/axle_1.2.3_all.deb")
	b, err := exec.Command("dpkg-deb", "-c", deb).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	for _, want := range []string{`-rw-r--r-- root/root .* \./usr/share/doc/axle/changelog\.gz`, `\./usr/share/doc/axle/copyright`,
		`-rw-r----- root/root .* \./etc/axle/axle\.env`, `\./usr/share/lintian/overrides/axle`} {
		if !regexp.MustCompile(want).Match(b) {
			t.Errorf("the package lacks %s:\n%s", want, b)
		}
	}
	if _, err := exec.LookPath("lintian"); err != nil {
		t.Skip("SKIPPED: lintian is not installed")
	}
	out, err := exec.Command("bash", "lint.sh", deb).CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
