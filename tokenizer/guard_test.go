package tokenizer

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func openJSON(t testing.TB, src string) *Tokenizer {
	t.Helper()
	tok, err := OpenFS(fstest.MapFS{"tokenizer.json": {Data: []byte(src)}}, ".")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestSlowPattern: a pattern that only some texts make slow ends with an error, for one long word as for many short ones.
func TestSlowPattern(t *testing.T) {
	if raceOn {
		t.Skip("it waits for time to pass")
	}
	for pattern, text := range map[string]string{
		`(q+)+z|[^q]`:     strings.Repeat("q", 40) + "!",
		`(?:q+q+q+q+z|q)`: strings.Repeat(strings.Repeat("q", 200)+" ", 200),
	} {
		tok := openJSON(t, `{"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
			{"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": false},
			{"type": "Split", "pattern": {"Regex": "`+pattern+`"}, "behavior": "Isolated", "invert": false}]},
			"model": {"type": "BPE", "vocab": {"q": 0, "!": 1, " ": 2, "z": 3}, "merges": []}}`)
		if ids, err := tok.TryEncodeParts(nil, []Part{{Text: "qz !"}}); err != nil || len(ids) != 4 {
			t.Errorf("%s: %v %v", pattern, ids, err)
		}
		begun := time.Now()
		ids, err := tok.TryEncodeParts([]int32{7}, []Part{{Text: text}})
		if !errors.Is(err, ErrSlow) || len(ids) != 1 {
			t.Errorf("%s: %d ids, %v", pattern, len(ids), err)
		}
		if d := time.Since(begun); d > 10*time.Second {
			t.Errorf("%s took %v", pattern, d)
		}
		if ids := tok.Encode(nil, "q", false); len(ids) != 1 {
			t.Errorf("afterwards: %v", ids)
		}
	}
}
