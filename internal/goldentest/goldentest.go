// Package goldentest reads goldens that are kept packed, for the tests of several packages. Its
// functions end the test where a file is missing or broken; they may be called from the test's
// goroutine only, and leave nothing to be closed.
package goldentest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"testing"
)

// Read returns what a gzip file holds.
func Read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if b, err = io.ReadAll(z); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

// JSON reads a gzip file of JSON into v.
func JSON(t testing.TB, name string, v any) {
	t.Helper()
	if err := json.Unmarshal(Read(t, name), v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
