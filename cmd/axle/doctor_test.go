package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/cmd/internal/diagnosis"
	"github.com/axle-llm/axle/internal/lane"
)

func TestDoctorSoft(t *testing.T) {
	lane.NoRace(t) // axcl/axcltest runs the suite on this card under it
	out, code := doctor(t, "--device", "soft", "--json", "--conformance")
	var d diagnosis.Diagnosis
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil || code != 0 || !d.OK || d.Device != "soft" || len(d.Conformance) < 10 || len(d.Devices) != 1 {
		t.Fatalf("exit %d, %v:\n%s", code, err, out)
	}
	for _, c := range d.Conformance {
		if !c.OK {
			t.Errorf("%+v", c)
		}
	}
}

// doctor runs the command and gives what it printed and its exit code.
func doctor(t *testing.T, args ...string) (string, int) {
	t.Helper()
	c := newDoctorCmd()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	c.SilenceUsage, c.SilenceErrors = true, true
	err := c.Execute()
	var exit *exitError
	switch {
	case err == nil:
		return out.String(), 0
	case errors.As(err, &exit):
		return out.String(), exit.code
	}
	t.Fatalf("doctor %v: %v", args, err)
	return "", 0
}

func TestDoctorNothing(t *testing.T) {
	t.Setenv("AXLE_AXCL_LIB", t.TempDir())
	t.Setenv("AXLE_AXENGINE_LIB", t.TempDir())
	out, code := doctor(t)
	if code != 1 || !strings.Contains(out, "PROBLEM") || !strings.Contains(out, "No card can be used; axle runs on the software card") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	for _, device := range []string{"axcl", "axcl:3", "axengine"} {
		if out, code := doctor(t, "--device", device, "--conformance"); code != 1 || !strings.Contains(out, "No card can be used.") {
			t.Errorf("%s: exit %d:\n%s", device, code, out)
		}
	}
	out, code = doctor(t, "--model", "pocket", "--conformance", "--vision", "pocket")
	for _, option := range []string{"--model", "--conformance", "--vision"} {
		if want := "note    " + option + ": not used: it needs a card"; code != 1 || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q:\n%s", code, want, out)
		}
	}
	out, code = doctor(t, "--json", "--device", "gpu")
	var d diagnosis.Diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 1 || d.OK || len(d.Findings) == 0 ||
		!strings.Contains(d.Why, `"gpu"`) {
		t.Errorf("exit %d, %v:\n%s", code, err, out)
	}
}

// TestDoctorOneProblem: one missing card is one problem, whatever else would have to be there too;
// and no line is wider than a terminal.
func TestDoctorOneProblem(t *testing.T) {
	t.Setenv("AXLE_AXCL_LIB", t.TempDir())
	t.Setenv("AXLE_AXENGINE_LIB", t.TempDir())
	for _, device := range []string{"auto", "axcl", "axcl:3", "axengine", "gpu"} {
		out, _ := doctor(t, "--device", device)
		if n := strings.Count(out, "PROBLEM"); n != 1 {
			t.Errorf("%s: %d problems:\n%s", device, n, out)
		}
		narrow(t, out)
	}
}

func narrow(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > 80 && strings.Contains(strings.TrimSpace(line), " ") {
			t.Errorf("%d columns: %s", n, line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("ends in white space: %q", line)
		}
	}
}

// TestDoctorModel: the suite with a model of the user's, as a vendor's card needs it.
func TestDoctorModel(t *testing.T) {
	dir := tinyPackage(t, 1)
	out, code := doctor(t, "--device", "soft", "--json", "--conformance", "--model", dir)
	var d diagnosis.Diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 0 || d.Abilities == nil || !d.Abilities.Mixed || !d.Abilities.Chunk ||
		!d.Abilities.Scatter || !d.Abilities.Ordered || !d.Abilities.Anywhere {
		t.Errorf("exit %d, %v:\n%s", code, err, out)
	}
	if d.Head != nil { // it has no tokenizer, so the engine cannot load it
		t.Errorf("the LM head: %+v", d.Head)
	}
	// Without the suite one layer is loaded and executed.
	var one diagnosis.Diagnosis
	out, code = doctor(t, "--device", "soft", "--json", "--model", dir)
	if err := json.Unmarshal([]byte(out), &one); err != nil || code != 0 || len(one.Conformance) != 1 || one.Abilities != nil {
		t.Errorf("exit %d, %v:\n%s", code, err, out)
	}
	// Layers that use the K and V of others.
	from, gemma := t.TempDir(), filepath.Join(t.TempDir(), "gemma")
	if _, err := axmodeltest.RandomCheckpoint(from, "gemma4", 5); err != nil {
		t.Fatal(err)
	}
	o := compile.Options{From: from, Out: gemma, Context: 63, Chunk: 16, History: []int{0, 16}}
	if _, err := compile.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if out, code := doctor(t, "--device", "soft", "--conformance", "--model", gemma); code != 0 ||
		!strings.Contains(out, "LM head: this machine's processor can compute it") {
		t.Errorf("Gemma-4: exit %d:\n%s", code, out)
	}
	if out, code := doctor(t, "--device", "soft", "--conformance", "--model", t.TempDir()); code != 1 ||
		!strings.Contains(out, "PROBLEM conformance") {
		t.Errorf("an empty folder: exit %d:\n%s", code, out)
	}
}

// tinyPackage is the folder of a small package with weights by seed.
func tinyPackage(t *testing.T, seed uint64) string {
	t.Helper()
	dir, y := t.TempDir(), axcltest.DefaultTiny()
	y.Seed = seed
	if _, err := y.Write(dir, "qwen3"); err != nil {
		t.Fatal(err)
	}
	var table []byte
	for _, v := range axcltest.Rows(1, y.Vocab, y.Hidden) {
		table = binary.LittleEndian.AppendUint16(table, v)
	}
	if err := os.WriteFile(filepath.Join(dir, "model.embed_tokens.weight.bfloat16.bin"), table, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestDoctorBaseline: what one run of the suite saves the next is compared with; that of another
// model is refused by name, and so is a baseline without the suite.
func TestDoctorBaseline(t *testing.T) {
	//proves:G13
	dir, path := tinyPackage(t, 1), filepath.Join(t.TempDir(), "before.json")
	line := []string{"--device", "soft", "--conformance", "--model", dir}
	if out, code := doctor(t, append(line, "--save", path)...); code != 0 || !strings.Contains(out, "is written") {
		t.Fatalf("exit %d:\n%s", code, out)
	}
	out, code := doctor(t, append(line, "--baseline", path)...)
	if code != 0 || !strings.Contains(out, "rows have moved from the baseline's by 0.00 %") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := bytes.Cut(raw, []byte(`"rows":[[`))
	_, after, _ = bytes.Cut(after, []byte(","))
	spoilt := append(append(before, `"rows":[[17000,`...), after...) // a large value in place of the first
	if err := os.WriteFile(path+".spoilt", spoilt, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := doctor(t, append(line, "--baseline", path+".spoilt")...); code != 1 || !strings.Contains(out, "PROBLEM") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	for _, args := range [][]string{{"--conformance", "--model", tinyPackage(t, 2), "--baseline", path},
		{"--conformance", "--baseline", path}, {"--model", dir, "--baseline", path}, {"--save", path}} {
		c := newDoctorCmd()
		c.SetArgs(append([]string{"--device", "soft"}, args...))
		c.SilenceUsage, c.SilenceErrors = true, true
		want := "add --conformance"
		if args[0] == "--conformance" {
			want = "is of model "
		}
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestDoctorVision: the nine probes of a model that sees; one of random weights names no colour,
// and one that is not there is an error.
func TestDoctorVision(t *testing.T) {
	//proves:G21
	dir := t.TempDir()
	a := axmodeltest.SightArchs()[0]
	c, err := axmodeltest.WriteCheckpoint(dir, a, 5)
	if err != nil {
		t.Fatal(err)
	}
	o := compile.Options{From: dir, Out: filepath.Join(dir, "sees"), Context: 255, Chunk: 16, History: []int{0, 16, 64, 239}, Name: "sees"}
	o.Width, o.Height = c.PictureSize()
	p, err := compile.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	out, code := doctor(t, "--device", "soft", "--json", "--vision", p.Dir)
	var d diagnosis.Diagnosis
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 1 || d.OK || len(d.Vision) != 9 {
		t.Fatalf("exit %d, %v:\n%s", code, err, out)
	}
	for i, p := range d.Vision {
		if (p.State == cards.Problem) != (i == 1 || i == 2) {
			t.Errorf("%d: %+v", i+1, p)
		}
	}
	var text bytes.Buffer
	d.Print(&text)
	narrow(t, text.String())
	if !strings.Contains(text.String(), "does not see what it is shown") {
		t.Errorf("%s", text.String())
	}
	// The model inside sees what it is shown, the corners and colours that are asked for in words
	// included.
	t.Setenv("AXLE_MODELS", t.TempDir())
	out, code = doctor(t, "--device", "soft", "--json", "--vision", "pocket")
	if err := json.Unmarshal([]byte(out), &d); err != nil || code != 0 || !d.OK || len(d.Vision) != 9 {
		t.Fatalf("pocket: exit %d, %v:\n%s", code, err, out)
	}
	for i, p := range d.Vision {
		if p.State != cards.OK {
			t.Errorf("pocket, %d: %+v", i+1, p)
		}
	}
	cmd := newDoctorCmd()
	cmd.SetArgs([]string{"--device", "soft", "--vision", filepath.Join(dir, "none")})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "no such folder") {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// What docs/getting-started.md says that doctor says is in the code that says it.
func TestDoctorInDocs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/getting-started.md")
	if err != nil {
		t.Fatal(err)
	}
	var code []byte
	for _, pattern := range []string{"*.go", "../../cmd/internal/diagnosis/*.go", "../../axcl/cards/*.go", "../../axcl/native/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f, "_test.go") {
				b, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				code = append(code, b...)
			}
		}
	}
	_, table, _ := strings.Cut(string(doc), "| it says | then |\n|---|---|\n")
	n := 0
	for line := range strings.Lines(table) {
		said, ok := strings.CutPrefix(line, "| `")
		if !ok {
			break
		}
		said, _, _ = strings.Cut(said, "`")
		if n++; !bytes.Contains(code, []byte(said)) {
			t.Errorf("docs/getting-started.md: nothing says %q", said)
		}
	}
	if n < 5 {
		t.Errorf("only %d lines found", n)
	}
}

// --fix shows what it would do, does nothing without a yes, and looks again where it did something.
func TestDoctorFix(t *testing.T) {
	t.Setenv("AXLE_AXCL_LIB", t.TempDir())
	t.Setenv("AXLE_AXENGINE_LIB", t.TempDir())
	for _, args := range [][]string{{"--yes"}, {"--dry-run"}, {"--fix", "--yes", "--dry-run"}, {"--fix", "--json"},
		{"--fix", "--conformance"}} {
		c := newDoctorCmd()
		c.SetArgs(args)
		c.SilenceUsage, c.SilenceErrors = true, true
		if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "--fix") {
			t.Errorf("%v: %v", args, err)
		}
	}
	if out, code := doctor(t, "--fix"); code != 1 || !strings.Contains(out, "nothing here that this command can mend") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	root, ran, looked := t.TempDir(), "", ""
	was, again := mender, examineAnew
	defer func() { mender, examineAnew = was, again }()
	mender = diagnosis.Mender{Root: root, Superuser: true, Ask: func(string) (bool, error) { return true, nil },
		Run: func(_ context.Context, argv []string) ([]byte, error) {
			ran += strings.Join(argv, " ")
			return nil, nil
		}}
	examineAnew = func(_ *cobra.Command, device string) error { looked = device; return nil }
	d := &diagnosis.Diagnosis{Findings: []cards.Finding{{Name: "driver", State: cards.Problem, Text: "not loaded",
		Mend: []cards.Action{{Run: []string{"modprobe", "axcl_host"}}}}}}
	c := newDoctorCmd()
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetContext(t.Context())
	if err := mend(c, d, "axcl", false, false); err != nil || ran != "modprobe axcl_host" || looked != "axcl" {
		t.Errorf("%v, ran %q, looked at %q\n%s", err, ran, looked, &out)
	}
	d.Findings[0].Mend = []cards.Action{{File: "/boot/config.txt", Lines: []string{"dtparam=pciex1"}, After: cards.Reboot}}
	ran, looked = "", ""
	err := mend(c, d, "auto", true, false)
	if err == nil || looked != "" || !strings.Contains(out.String(), "Now reboot; then 'axle doctor'") {
		t.Errorf("%v, looked at %q\n%s", err, looked, &out)
	}
}
