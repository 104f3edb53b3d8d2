package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

func TestEncodeParts(t *testing.T) {
	tok := smallTokenizer(t, "qwen3")
	start, _ := tok.ID("<|im_start|>")
	end, _ := tok.ID("<|im_end|>")
	count := func(parts ...Part) (n int) {
		for _, id := range tok.EncodeParts(nil, parts) {
			if id == start || id == end {
				n++
			}
		}
		return n
	}
	if n := count(Part{"<|im_start|>user\n", true}, Part{"<|im_end|><|im_start|>", false}, Part{"<|im_end|>", true}); n != 2 {
		t.Errorf("%d control tokens, want the template's 2", n)
	}
	if n := count(Part{"<|im_", true}, Part{"start|>", true}); n != 1 {
		t.Errorf("a control token over two control parts was found %d times", n)
	}
	if n := count(Part{"<|im_", true}, Part{"start", false}, Part{"|>", true}); n != 0 {
		t.Errorf("text inside made %d control tokens", n)
	}
	// Words go across borders: as one text.
	whole := tok.Encode(nil, "<|im_start|>user\n\nHello wor ld", true)
	parts := tok.EncodeParts(nil, []Part{{"<|im_start|>user\n", true}, {"\nHello wor", false}, {" ld", true}})
	if !slices.Equal(whole, parts) {
		t.Errorf("parts %v, whole %v", parts, whole)
	}
}

func TestIDsAndBytes(t *testing.T) {
	for _, name := range []string{"qwen3", "gemma", "llama2"} {
		tok := smallTokenizer(t, name)
		if tok.Bytes(-1) != nil || tok.Bytes(int32(tok.Vocab())) != nil {
			t.Errorf("%s: bytes for an id there is not", name)
		}
		for id := range int32(tok.Vocab()) {
			lit := string(tok.vocab.bytes(id))
			if tok.dec.byteLevel && tok.flags[id]&flagAdded == 0 {
				lit = toAlphabet([]byte(lit))
			}
			if got, ok := tok.ID(lit); !ok || got != id {
				t.Fatalf("%s: ID(%q) = %d, %v, want %d", name, lit, got, ok, id)
			}
		}
		if _, ok := tok.ID("no such token at all"); ok {
			t.Errorf("%s: found a token there is not", name)
		}
	}
	tok := smallTokenizer(t, "llama2")
	for lit, want := range map[string]string{"▁the": " the", "<0x0A>": "\n", "</s>": "</s>"} {
		id, ok := tok.ID(lit)
		if !ok || string(tok.Bytes(id)) != want {
			t.Errorf("%q stands for %q, want %q", lit, tok.Bytes(id), want)
		}
	}
}

func TestEnds(t *testing.T) {
	all := []variant{}
	readGolden(t, "small.json.gz", &all)
	fsys := fstest.MapFS{
		"m/tokenizer.json":         {Data: all[0].file(t, all)},
		"m/tokenizer_config.json":  {Data: []byte(`{"bos_token":null,"eos_token":{"content":"<|im_end|>"}}`)},
		"m/generation_config.json": {Data: []byte(`{"eos_token_id":[5,6]}`)},
	}
	tok, err := OpenFS(fsys, "m")
	if err != nil {
		t.Fatal(err)
	}
	end, _ := tok.ID("<|im_end|>")
	if want := []int32{end, 5, 6}; !slices.Equal(tok.EOS(), want) {
		t.Errorf("eos %v, want %v", tok.EOS(), want)
	}
	if _, ok := tok.BOS(); ok {
		t.Error("Qwen has no BOS")
	}
	if tok, err = OpenWith(fsys, "m/tokenizer.json", Config{EOS: []string{"7", "<|endoftext|>"}, BOS: "3"}); err != nil {
		t.Fatal(err)
	}
	eot, _ := tok.ID("<|endoftext|>")
	if bos, _ := tok.BOS(); bos != 3 || !slices.Equal(tok.EOS(), []int32{7, eot}) {
		t.Errorf("the configuration says otherwise: bos %d, eos %v", bos, tok.EOS())
	}
	if tok = smallTokenizer(t, "gemma"); len(tok.EOS()) == 0 {
		t.Error("no usual end was found")
	}
}

func TestPickOrder(t *testing.T) {
	dir := t.TempDir()
	var all []variant
	readGolden(t, "small.json.gz", &all)
	qwen, llama := all[0].file(t, all), all[3].file(t, all)
	write := func(name string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tokenizer.model", modelProto(smallTokenizer(t, "llama2"), true))
	write("q_tokenizer.txt", vendorText(smallTokenizer(t, "qwen3"), vendorHuggingFace, true))
	want := smallTokenizer(t, "qwen3").Vocab()
	if tok, err := Open(dir); err != nil || tok.Vocab() != want {
		t.Fatalf("the vendor's file should win over tokenizer.model: %v", err)
	}
	write("tokenizer.json", llama)
	if tok, err := Open(dir); err != nil || tok.Vocab() == want {
		t.Fatalf("tokenizer.json should win: %v", err)
	}
	write("tokenizer.json", qwen)
	if tok, err := Open(filepath.Join(dir, "tokenizer.json")); err != nil || tok.Vocab() != want {
		t.Fatal(err)
	}
}

// TestConcurrent uses one tokenizer from many goroutines; run it with -race.
func TestConcurrent(t *testing.T) {
	tok := smallTokenizer(t, "qwen3")
	list := hardStrings(t)
	want := make([][]int32, len(list))
	for i, s := range list {
		want[i] = smallEncode(tok, s)
	}
	fresh := smallTokenizer(t, "qwen3")
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range list {
				k := (i*7 + g*101) % len(list)
				if got := smallEncode(fresh, list[k]); !slices.Equal(got, want[k]) {
					t.Errorf("%q: %v, want %v", list[k], got, want[k])
					return
				}
			}
		})
	}
	wg.Wait()
}

func smallEncode(tok *Tokenizer, s string) []int32 { return tok.Encode(nil, s, true) }

// TestUnknownPattern: regexp2 takes patterns nobody wrote a scanner for, and agrees with the scanners where there is one.
func TestSlowPatternAgrees(t *testing.T) {
	for _, p := range []string{patGPT2, patCL100K, patQwen2, patQwen35, patO200K, patDigits3, patDeepseek} {
		fast := scanMatcher{knownPattern(p)}
		m, err := compilePattern("(?:" + p + ")")
		if err != nil {
			t.Fatal(err)
		}
		slow := m.(slowPattern)
		for _, s := range hardStrings(t) {
			// regexp2 folds ſ not to s, and its Unicode is Go's, as ours is.
			if strings.Contains(s, "ſ") || len(s) > 600 {
				continue
			}
			if f, w := fmt.Sprint(fast.find(s)), fmt.Sprint(slow.find(s)); f != w {
				t.Fatalf("%s on %q: %s, want %s", p, s, f, w)
			}
		}
	}
}

func TestLongText(t *testing.T) {
	tok := smallTokenizer(t, "gemma")
	// One word of a megabyte, the worst there is, must not take quadratic time.
	text := strings.Repeat("中文", 1<<17)
	if n := len(tok.Encode(nil, text, false)); n == 0 {
		t.Fatal("nothing came out")
	}
}

func ExampleTokenizer_Stream() {
	fsys := fstest.MapFS{"tokenizer.json": {Data: []byte(`{
		"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
		"model": {"type": "BPE", "vocab": {"h": 0, "i": 1, "hi": 2, "Ã": 3, "¼": 4}, "merges": ["h i"]}}`)}}
	tok, err := OpenFS(fsys, ".")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := tok.Stream(false)
	for _, id := range tok.Encode(nil, "hiü", false) {
		fmt.Printf("%d:%q ", id, s.Next(id))
	}
	fmt.Printf("%q\n", s.Flush())
	// Output: 2:"hi" 3:"" 4:"ü" ""
}
