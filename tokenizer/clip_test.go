package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/goldentest"
)

// TestCLIP compares CLIP's files, in each of their forms, with the Rust library: see
// testdata/tokenizer/clip.mjs.
func TestCLIP(t *testing.T) {
	t.Parallel()
	g := readCLIP(t)
	var hard []string
	for _, s := range hardStrings(t) {
		if !strings.Contains(s, "<|") { // the library makes control tokens of text
			hard = append(hard, s)
		}
	}
	if len(hard) != len(g.Hashes) {
		t.Fatalf("%d strings and %d hashes", len(hard), len(g.Hashes))
	}
	for name, tok := range map[string]*Tokenizer{
		"vocab.json": openCLIP(t, g.files()), "tokenizer.json": openBytes(t, "tokenizer.json", g.hf(), Config{}),
	} {
		for i, s := range g.Strings {
			ids, cut, err := tok.Window(t.Context(), s, 77, 49407)
			want := slices.Clone(g.IDs[i])
			for len(want) < 77 {
				want = append(want, 49407)
			}
			if !slices.Equal(ids, want) || cut != 0 || err != nil {
				t.Errorf("%s: %q: %v, %d cut, %v, want %v", name, s, ids, cut, err, want)
			}
		}
		bad := 0
		for i, s := range hard {
			ids := slices.Concat(tok.Prefix(), tok.Encode(nil, s, true), tok.Suffix())
			if hashIDs(ids)[:8] != g.Hashes[i] {
				t.Errorf("%s: string %d %q: ids %v differ", name, i, s, ids)
				if bad++; bad > 5 {
					t.Fatal("too many differences")
				}
			}
		}
	}
}

// TestCLIPLines reads vocab.txt, which has no merges: words become the same tokens as with them.
func TestCLIPLines(t *testing.T) {
	t.Parallel()
	g := readCLIP(t)
	want := openCLIP(t, g.files())
	names := g.tokens()
	tok := openBytes(t, "vocab.txt", []byte(strings.Join(names, "\n")+"\n"), Config{})
	if len(tok.Prefix()) != 1 || names[tok.Prefix()[0]] != clipStart || len(tok.Suffix()) != 1 || names[tok.Suffix()[0]] != clipEnd {
		t.Errorf("around a text: %v, %v", tok.Prefix(), tok.Suffix())
	}
	for _, s := range slices.Concat(g.Strings, hardStrings(t)) {
		if a, b := pieces(want, want.Encode(nil, s, true)), pieces(tok, tok.Encode(nil, s, true)); !slices.Equal(a, b) {
			t.Fatalf("%q: %q, want %q", s, b, a)
		}
	}
}

func TestWindow(t *testing.T) {
	t.Parallel()
	g := readCLIP(t)
	tok := openCLIP(t, g.files())
	long := strings.Repeat("a cat ", 50)
	for _, x := range []struct {
		n, pad, cut int
		want        []int32
	}{
		{2, 0, 100, []int32{49406, 49407}},
		{5, 0, 97, []int32{49406, 320, 2368, 320, 49407}},
	} {
		if ids, cut, err := tok.Window(t.Context(), long, x.n, int32(x.pad)); !slices.Equal(ids, x.want) || cut != x.cut || err != nil {
			t.Errorf("%d ids: %v, %d cut, %v", x.n, ids, cut, err)
		}
	}
	padded := []int32{49406, 2368, 49407, 0, 0}
	if ids, cut, err := tok.Window(t.Context(), "cat", 5, 0); !slices.Equal(ids, padded) || cut != 0 || err != nil {
		t.Errorf("padded: %v, %d, %v", ids, cut, err)
	}
	if _, _, err := tok.Window(t.Context(), "cat", 1, 0); err == nil {
		t.Error("a window of 1")
	}
	// A prompt is text, whatever it spells.
	ids, _, err := tok.Window(t.Context(), "a <|endoftext|> cat", 77, 49407)
	if err != nil || slices.Index(ids, 49407) < 4 {
		t.Errorf("a control token came from text: %v, %v", ids, err)
	}
}

func TestCLIPErrors(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"merges missing":  {fstest.MapFS{"vocab.json": {Data: []byte(`{}`)}}, "merges.txt: cannot be read, and vocab.json needs it"},
		"another model's": {fstest.MapFS{"vocab.json": {Data: []byte(`{"a": 1}`)}, "merges.txt": {}}, "which is not CLIP's"},
		"no JSON":         {fstest.MapFS{"vocab.json": {Data: []byte(`{"a"`)}, "merges.txt": {}}, "not valid JSON"},
		"merge unknown": {fstest.MapFS{"vocab.json": {Data: []byte(`{"a": 1, "<|startoftext|>": 2, "<|endoftext|>": 3}`)},
			"merges.txt": {Data: []byte("#version: 0.2\na b\n")}}, `needs a token that is not in the vocabulary`},
	} {
		_, err := OpenFS(x.files, "vocab.json")
		var e *Error
		if !errors.As(err, &e) || e.File == "" || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
	for name, text := range map[string]string{
		"no merge":      clipHead + "abc\n" + clipStart + "\n" + clipEnd + "\n",
		"there twice":   clipHead + "!\n" + clipStart + "\n" + clipEnd + "\n",
		"is not CLIP's": clipHead,
	} {
		_, err := OpenFS(fstest.MapFS{"vocab.txt": {Data: []byte(text)}}, "vocab.txt")
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenFS(fstest.MapFS{}, "vocab.json"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func FuzzCLIP(f *testing.F) {
	f.Add([]byte(`{"a": 0, "a</w>": 1, "aa</w>": 2, "<|startoftext|>": 3, "<|endoftext|>": 4}`), []byte("#version: 0.2\na a</w>\n"))
	f.Add([]byte(clipHead+"a\na</w>\naa</w>\n"+clipStart+"\n"+clipEnd+"\n"), []byte(nil))
	f.Fuzz(func(t *testing.T, b, merges []byte) {
		fuzzguard.Check(t, len(b)+len(merges), func() {
			for _, name := range []string{"vocab.json", "vocab.txt"} {
				tok, err := OpenFS(fstest.MapFS{name: {Data: b}, "merges.txt": {Data: merges}}, name)
				if err != nil {
					var e *Error
					if !errors.As(err, &e) || e.File == "" {
						t.Fatalf("error without a file: %v", err)
					}
					continue
				}
				ids, _, err := tok.Window(t.Context(), "Aaa a <|endoftext|> 中1", 8, 0)
				if err == nil && len(ids) != 8 {
					t.Fatalf("%d ids", len(ids))
				}
				for _, id := range ids {
					if id < 0 || int(id) >= tok.Vocab() {
						t.Fatalf("id %d of %d", id, tok.Vocab())
					}
				}
			}
		})
	})
}

// clipGolden is CLIP's vocabulary cut down, its ids unchanged.
type clipGolden struct {
	Vocab   map[string]int
	Merges  []string
	Strings []string
	IDs     [][]int32
	Hashes  []string
}

func readCLIP(t testing.TB) (g clipGolden) {
	t.Helper()
	goldentest.JSON(t, goldens+"clip.json.gz", &g)
	return g
}

func (g clipGolden) files() fstest.MapFS {
	vocab, _ := json.Marshal(g.Vocab)
	return fstest.MapFS{"vocab.json": {Data: vocab}, "merges.txt": {Data: []byte("#version: 0.2\n" + strings.Join(g.Merges, "\n") + "\n")}}
}

func openCLIP(t testing.TB, files fstest.MapFS) *Tokenizer {
	t.Helper()
	tok, err := OpenFS(files, "vocab.json")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// tokens are the tokens in the order of their ids.
func (g clipGolden) tokens() []string {
	var names []string
	for s := range g.Vocab {
		names = append(names, s)
	}
	slices.SortFunc(names, func(a, b string) int { return g.Vocab[a] - g.Vocab[b] })
	return names
}

// hf is the vocabulary in a tokenizer.json as models on the hub have it.
func (g clipGolden) hf() []byte {
	b, _ := json.Marshal(map[string]any{
		"added_tokens": []any{map[string]any{"id": 49406, "content": clipStart, "special": true},
			map[string]any{"id": 49407, "content": clipEnd, "special": true}},
		"normalizer": json.RawMessage(`{"type": "Sequence", "normalizers": [{"type": "NFC"},
			{"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}, {"type": "Lowercase"}]}`),
		"pre_tokenizer": json.RawMessage(`{"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Removed", "invert": true,
			"pattern": {"Regex": "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"}},
			{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true}]}`),
		"decoder":        json.RawMessage(`{"type": "ByteLevel"}`),
		"post_processor": map[string]any{"type": "RobertaProcessing", "cls": []any{clipStart, 49406}, "sep": []any{clipEnd, 49407}},
		"model": map[string]any{"type": "BPE", "unk_token": clipEnd, "continuing_subword_prefix": "", "end_of_word_suffix": "</w>",
			"vocab": g.Vocab, "merges": g.Merges},
	})
	return b
}
