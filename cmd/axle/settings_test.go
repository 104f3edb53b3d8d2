package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestSettingsTable: every row has a flag and a variable that change what the server is told, and
// what cannot be read is refused with its name.
func TestSettingsTable(t *testing.T) {
	flagsSeen, variables, read := map[string]bool{}, map[string]bool{}, 0
	none := func(string) string { return "" }
	was, err := readSettings(none, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table {
		value := r.example
		switch {
		case r.kind == "":
			value = "true"
		case r.kind == "number":
			value = "7"
		case r.kind == "duration":
			value = "77s"
		case r.flag == "host":
			value = "0.0.0.0:80"
		case r.flag == "metrics":
			value = "vllm"
		case r.flag == "device":
			value = "soft"
		}
		var given flags
		c := &cobra.Command{}
		given.add(c.Flags())
		if err := c.ParseFlags([]string{"--" + r.flag + "=" + value}); err != nil {
			t.Errorf("--%s=%s: %v", r.flag, value, err)
			continue
		}
		if help := c.Flags().FlagUsages(); !strings.Contains(help, "--"+strings.TrimSpace(r.flag+" "+r.kind)+" ") {
			t.Errorf("the help does not show --%s %s", r.flag, r.kind)
		}
		by, err := readSettings(none, &given)
		if err != nil || reflect.DeepEqual(by, was) {
			t.Errorf("--%s=%s changes nothing, or fails: %v", r.flag, value, err)
		}
		name := r.env()
		if flagsSeen[r.flag] || name != "" && variables[name] {
			t.Errorf("--%s, AXLE_%s: there are two of them", r.flag, name)
		}
		flagsSeen[r.flag], variables[name] = true, true
		if name == "" || r.everywhere {
			continue
		}
		read++
		for _, prefix := range []string{"AXLE_", "OLLAMA_"} {
			env := func(k string) string { return map[string]string{prefix + name: value}[k] }
			if e, err := readSettings(env, nil); err != nil || !reflect.DeepEqual(e, by) {
				t.Errorf("%s%s=%s says something else than the flag: %v", prefix, name, value, err)
			}
		}
		if r.kind == "number" || r.kind == "size" || r.kind == "duration" || r.kind == "model=folder" {
			for _, bad := range []string{"much", "1e99", "-"} {
				_, err := readSettings(func(k string) string { return map[string]string{"AXLE_" + name: bad}[k] }, nil)
				if err == nil || !strings.Contains(err.Error(), "AXLE_"+name) {
					t.Errorf("AXLE_%s=%s: %v", name, bad, err)
				}
			}
		}
	}
	if read < 25 {
		t.Errorf("only %d variables are read", read)
	}
}

// TestSettingsFiles: the package's file and the page are those that the table makes.
// AXLE_TEST_SETTINGS writes them (make settings).
func TestSettingsFiles(t *testing.T) {
	for name, want := range made() {
		path := filepath.Join("..", "..", filepath.FromSlash(name))
		if os.Getenv("AXLE_TEST_SETTINGS") != "" {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%s is not what the table of settings makes: run make settings (%v)", name, err)
		}
	}
	if on := regexp.MustCompile(`(?m)^[A-Z].*`).FindString(envFile()); on != "" {
		t.Errorf("axle.env switches a setting on: %s", on)
	}
}

// envFile is packaging/axle.env: every variable, each switched off, with what it does above it.
func envFile() string {
	var b strings.Builder
	b.WriteString("# Settings of the axle server. A line without # takes effect at the next start of the service.\n" +
		"# Made from the table in cmd/axle/settings.go by `make settings`; docs/settings.md has the same table.\n")
	for _, r := range table {
		name := r.env()
		if name == "" {
			continue
		}
		fmt.Fprintf(&b, "\n# %s.\n", sentence(r.text))
		if r.more != "" {
			fmt.Fprintf(&b, "# %s\n", r.more)
		}
		value := r.example
		switch {
		case value != "":
		case r.kind == "":
			value = "1"
		default:
			value = r.def
		}
		fmt.Fprintf(&b, "#AXLE_%s=%s\n", name, value)
	}
	b.WriteString("\n# Where packages come from: a mirror where huggingface.co is blocked, as in China.\n" +
		"#HF_ENDPOINT=https://hf-mirror.com\n" +
		"\n# Where the dictionaries of models that speak come from: the address of a folder with the same files.\n" +
		"#AXLE_DICTIONARIES=http://nas/misaki\n")
	return b.String()
}

// settingsPage is docs/settings.md.
func settingsPage() string {
	var b strings.Builder
	b.WriteString(`# Settings of the server

This page is made from the table in cmd/axle/settings.go by ` + "`make settings`" + `.

A flag of ` + "`axle serve`" + ` wins over its variable. ` + "`AXLE_X`" + ` wins over ` + "`OLLAMA_X`" + `, which is read where
the former is not set. Where several values are allowed, commas stand between them, and the flag adds to the variable. A value that
cannot be read ends the server at its start with an error that names the flag or the variable, and exit code 2. A variable that switches
something on says yes with every word but 0, f and false. The package's service reads its variables from ` + "`/etc/axle/axle.env`" + `.

| Flag | Variable | Default | What it does |
|---|---|---|---|
`)
	for _, r := range table {
		flag, variable, def := "`--"+r.flag+"`", "", r.def
		if r.kind != "" {
			flag = "`--" + r.flag + " " + strings.ToUpper(r.kind) + "`"
		}
		if name := r.env(); name != "" {
			variable = "`AXLE_" + name + "`"
		}
		if r.kind == "" {
			def = "off"
		}
		if r.packaged != "" {
			def += "; " + r.packaged + " in the package"
		}
		about := sentence(r.text) + "."
		if r.more != "" {
			about += " " + r.more
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", flag, variable, def, about)
	}
	b.WriteString("\n`HF_ENDPOINT` names a mirror of the hub that packages are pulled from, and `AXLE_DICTIONARIES` the address of a\n" +
		"folder with the dictionaries of models that speak.\n")
	return b.String()
}

// sentence is a text with a capital first letter.
func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// made are the files that come from the table, by their paths from the repository's root.
func made() map[string]string {
	return map[string]string{"packaging/axle.env": envFile(), "docs/settings.md": settingsPage()}
}
