package tokenizer

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/internal/goldentest"
	"github.com/axle-llm/axle/internal/lane"
)

// TestSmall compares every part of the format with the Rust library: see
// testdata/tokenizer/small.mjs.
func TestSmall(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	var all []variant
	goldentest.JSON(t, goldens+"small.json.gz", &all)
	list := fewer(hardStrings(t))
	for _, v := range all {
		t.Run(v.Name, func(t *testing.T) {
			tok := openBytes(t, "tokenizer.json", v.file(t, all), Config{})
			bad, got := 0, []int32(nil)
			for i, s := range list {
				got = tok.Encode(got[:0], s, true)
				if h := hashIDs(got)[:8]; h != v.IDs[8*i:8*i+8] {
					t.Errorf("string %d %q: ids %v differ: %q", i, s, got, pieces(tok, got))
					bad++
				} else if text := tok.Decode(got, true); hashIDs([]byte(text))[:8] != v.Text[8*i:8*i+8] {
					t.Errorf("string %d %q: %q decodes to %q", i, s, pieces(tok, got), text)
					bad++
				}
				if bad > 6 {
					t.Fatal("too many differences")
				}
			}
			if both := slices.Concat(tok.Prefix(), tok.Suffix()); !slices.Equal(both, v.Prefix) {
				t.Errorf("around an empty text: %v, want %v", both, v.Prefix)
			}
		})
	}
}

// variant is a small tokenizer: one of the cut-down real ones with parts replaced, and what the
// Rust library says about it.
type variant struct {
	Name, Base, ModelOf string
	Patch, Model        map[string]json.RawMessage
	IDs, Text           string // eight hex digits a string
	Prefix              []int32
}

// file puts the tokenizer.json of a variant together.
func (v variant) file(t testing.TB, all []variant) []byte {
	t.Helper()
	var j map[string]json.RawMessage
	if err := json.Unmarshal(goldentest.Read(t, goldens+"small/"+v.Base+".json.gz"), &j); err != nil {
		t.Fatal(err)
	}
	maps.Copy(j, v.Patch)
	if len(v.Model) > 0 {
		from := j["model"]
		for _, o := range all {
			if o.Name == v.ModelOf {
				from = o.Patch["model"]
			}
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(from, &m); err != nil {
			t.Fatal(err)
		}
		maps.Copy(m, v.Model)
		j["model"], _ = json.Marshal(m)
	}
	b, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func smallTokenizer(t testing.TB, name string) *Tokenizer {
	t.Helper()
	var all []variant
	goldentest.JSON(t, goldens+"small.json.gz", &all)
	for _, v := range all {
		if v.Name == name {
			return openBytes(t, "tokenizer.json", v.file(t, all), Config{})
		}
	}
	t.Fatalf("no small tokenizer %s", name)
	return nil
}

func openBytes(t testing.TB, name string, b []byte, c Config) *Tokenizer {
	t.Helper()
	tok, err := OpenWith(fstest.MapFS{name: {Data: b}}, name, c)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func pieces(tok *Tokenizer, ids []int32) (out []string) {
	for _, id := range ids {
		out = append(out, string(tok.Bytes(id)))
	}
	return out
}
