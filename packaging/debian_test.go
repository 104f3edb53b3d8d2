package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestInstalled: the package says once what runs, where, and what to type next; and purging leaves
// no keys.
func TestInstalled(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("SKIPPED: there is no sh: ", err)
	}
	// The scripts find nothing of this machine's own but what stands here.
	tools := t.TempDir()
	for _, name := range []string{"sed", "tail", "rm"} {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(tools, name))
		}
		if err != nil {
			t.Skip("SKIPPED: ", err)
		}
	}
	stand := func(name, text string) {
		if err := os.WriteFile(filepath.Join(tools, name), []byte("#!"+sh+"\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	stand("getent", "exit 0")
	run := func(root, script string, args ...string) string {
		t.Helper()
		cmd := exec.Command(sh, append([]string{script}, args...)...)
		cmd.Env = []string{"PATH=" + tools, "DPKG_ROOT=" + root}
		b, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s %v: %v: %s", script, args, err, b)
		}
		return string(b)
	}
	for _, tt := range []struct {
		name           string
		systemd, runs  bool
		env, old, want string
	}{
		{"it runs", true, true, "#OLLAMA_HOST=127.0.0.1:11434\n", "", "axle.service runs at 127.0.0.1:11434."},
		{"elsewhere", true, true, "OLLAMA_HOST=0.0.0.0:11434\n", "", "axle.service runs at 0.0.0.0:11434."},
		{"masked", true, false, "", "", "no server was started. 'sudo systemctl start axle'"},
		{"no systemd", false, true, "", "", "'axle serve' without systemd, starts one at 127.0.0.1:11434."},
		{"an upgrade", true, true, "", "0.0.9", ""},
	} {
		root := t.TempDir()
		for _, dir := range []string{"etc/axle", "var/lib/axle/models", "var/cache/axle"} {
			if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if tt.systemd {
			if err := os.MkdirAll(filepath.Join(root, "run/systemd/system"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for name, text := range map[string]string{"axle.env": tt.env, "keys": "ann: secret-of-ann\n", "key.pem": "x"} {
			if err := os.WriteFile(filepath.Join(root, "etc/axle", name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		stand("systemctl", map[bool]string{true: "exit 0", false: `[ "$2" != is-active ]`}[tt.runs])
		said := run(root, "postinst", "configure", tt.old)
		if !strings.Contains(said, tt.want) || strings.Contains(said, "axle run pocket") != (tt.old == "") {
			t.Errorf("%s: it says %q", tt.name, said)
		}
		run(root, "postrm", "remove")
		if _, err := os.Stat(filepath.Join(root, "etc/axle/keys")); err != nil {
			t.Errorf("%s: removing takes the keys: %v", tt.name, err)
		}
		run(root, "postrm", "purge")
		for _, dir := range []string{"etc/axle", "var/lib/axle", "var/cache/axle"} {
			if _, err := os.Stat(filepath.Join(root, dir)); !os.IsNotExist(err) {
				t.Errorf("%s: purging leaves %s: %v", tt.name, dir, err)
			}
		}
	}
}

// TestDebian makes a package of a program that stands for ours, and has lintian look at it: what is
// of the program itself (that it is position independent, which `make deb-test` sees) is pinned in
// the Makefile.
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
			if strings.Contains(line, "systemctl ") && !regexp.MustCompile(`daemon-reload|is-active|'sudo systemctl`).MatchString(line) {
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
