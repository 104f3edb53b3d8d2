package tokenizer

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/internal/fuzzguard"
)

// bertLines is a list as CN-CLIP's is, with its ids of the tokens around a text, and U+2028, which
// ends lines elsewhere.
var bertLines = bertHead + strings.Join(bertUnused(99), "\n") + "\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n\u2028\n一\n只\n猫\n,\n!\ncat\n##s\na\n"

// TestBERTLines reads a list of BERT's tokens: a token's id is its line, Chinese characters are
// words, and Latin words are lower-cased and cut.
func TestBERTLines(t *testing.T) {
	t.Parallel()
	tok := openBytes(t, "cn_vocab.txt", []byte(bertLines), Config{})
	if !slices.Equal(tok.Prefix(), []int32{101}) || !slices.Equal(tok.Suffix(), []int32{102}) || tok.Vocab() != 113 {
		t.Errorf("around a text: %v %v, %d tokens", tok.Prefix(), tok.Suffix(), tok.Vocab())
	}
	for text, want := range map[string][]int32{
		"一只猫":                 {105, 106, 107},
		"A Cat, cats! 狗":      {112, 110, 108, 110, 111, 109, 100},
		"[CLS]":               {100, 100, 100},
		"":                    nil,
		"一\u2028猫":            {105, 107},
		"á" + "猫猫" + "\u0000": {112, 107, 107},
	} {
		if got := tok.Encode(nil, text, false); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	ids, cut, err := tok.Window(t.Context(), strings.Repeat("猫", 60), 52, 0)
	if err != nil || cut != 10 || len(ids) != 52 || ids[0] != 101 || ids[51] != 102 {
		t.Errorf("%v, %d cut, %v", ids, cut, err)
	}
	windows := openBytes(t, "cn_vocab.txt", []byte(strings.ReplaceAll(bertLines, "\n", "\r\n")), Config{})
	if got := windows.Encode(nil, "猫", false); !slices.Equal(got, []int32{107}) {
		t.Errorf("with other ends of lines: %v", got)
	}
	for name, text := range map[string]string{
		"there twice":  bertLines + "a\n",
		"is no token":  bertLines + "\nb\n",
		"lacks [CLS]":  strings.Replace(bertLines, "[CLS]", "x", 1),
		"line 114 is ": bertLines + "\xff\n",
	} {
		_, err := OpenFS(fstest.MapFS{"vocab.txt": {Data: []byte(text)}}, "vocab.txt")
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzBERTLines(f *testing.F) {
	f.Add([]byte("[UNK]\n[CLS]\n[SEP]\na\n##a\n"), "aaa b")
	f.Fuzz(func(t *testing.T, b []byte, text string) {
		fuzzguard.Check(t, len(b)+len(text), func() {
			tok, err := OpenFS(fstest.MapFS{"vocab.txt": {Data: append([]byte(bertHead), b...)}}, "vocab.txt")
			if err != nil {
				return
			}
			for _, id := range tok.Encode(nil, text, false) {
				if id < 0 || int(id) >= tok.Vocab() {
					t.Fatalf("id %d of %d", id, tok.Vocab())
				}
			}
		})
	})
}

func bertUnused(n int) (all []string) {
	for i := range n {
		all = append(all, "[unused"+strings.Repeat("1", i+1)+"]")
	}
	return all
}
