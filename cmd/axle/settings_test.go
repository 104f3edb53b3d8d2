package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestSettingsTable: every row has a flag and a variable that change what the server is told, and what
// cannot be read is refused with its name.
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

// TestSettingsFiles: the package's file and the page are those that the table makes. AXLE_TEST_SETTINGS
// writes them (make settings).
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
