package tokenizer

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/dlclark/regexp2"

	"github.com/axle-llm/axle/internal/goldentest"
	"github.com/axle-llm/axle/internal/lane"
)

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
	goldentest.JSON(t, goldens+"small.json.gz", &all)
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
	if tok = smallTokenizer(t, "gemma"); len(tok.EOS()) == 0 {
		t.Error("no usual end was found")
	}
}

func TestPickOrder(t *testing.T) {
	dir := t.TempDir()
	var all []variant
	goldentest.JSON(t, goldens+"small.json.gz", &all)
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

// TestOpenNames: errors name what was named, and nothing waits for a pipe's writer.
func TestOpenNames(t *testing.T) {
	dir := t.TempDir()
	pipe, bad := filepath.Join(dir, "pipe"), filepath.Join(dir, "sub", "bad")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o700), os.WriteFile(bad, []byte("x"), 0o600),
		os.Symlink(bad, filepath.Join(dir, "link")), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", dir, pipe, bad, filepath.Join(dir, "link"), filepath.Join(dir, "none"), filepath.Join(bad, "below"),
		"/dev/null"} {
		_, err := Open(name)
		var e *Error
		if !errors.As(err, &e) || e.File != name || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	// The same beside a sound tokenizer, where it would be read on the way.
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(tinyJSON[0]), 0o600),
		os.Rename(pipe, filepath.Join(dir, "tokenizer_config.json"))); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err != nil {
		t.Error(err)
	}
}

// TestOpenLink: a file may be a link out of its folder, as in the hub's cache; a folder's own files
// may not.
func TestOpenLink(t *testing.T) {
	var all []variant
	goldentest.JSON(t, goldens+"small.json.gz", &all)
	blob := filepath.Join(t.TempDir(), "blob")
	if err := os.WriteFile(blob, all[0].file(t, all), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link := filepath.Join(dir, "tokenizer.json")
	if err := os.Symlink(blob, link); err != nil {
		t.Skip(err)
	}
	if _, err := Open(link); err != nil {
		t.Error(err)
	}
	if _, err := Open(dir); err == nil {
		t.Error("a link in a folder led out of it")
	}
}

// TestHostileSizes opens a megabyte of the worst of each kind and checks what it takes.
func TestHostileSizes(t *testing.T) {
	//proves:T1
	if lane.Race {
		t.Skip("the race detector takes memory of its own")
	}
	const size = 1 << 20
	fill := func(head string, item func(i int) string, tail string) string {
		var b strings.Builder
		b.WriteString(head)
		for i := 0; b.Len() < size-64; i++ {
			b.WriteString(item(i))
		}
		b.WriteString(tail)
		return b.String()
	}
	for name, in := range map[string]string{
		"vocab": fill(`{"model":{"type":"BPE","vocab":{"a":0`, func(i int) string { return fmt.Sprintf(`,"%x":%d`, i, i+1) },
			`},"merges":[]}}`),
		"sparse": fill(`{"model":{"type":"BPE","vocab":{"a":0`, func(i int) string { return fmt.Sprintf(`,"%x":%d`, i, 16*i) },
			`},"merges":[]}}`),
		"unigram": fill(`{"model":{"type":"Unigram","vocab":[["a",0]`,
			func(i int) string { return fmt.Sprintf(`,["%x%s",1]`, i*7919, strings.Repeat("q", i%200)) }, `]}}`),
		"added": fill(`{"model":{"type":"BPE","vocab":{},"merges":[]},"added_tokens":[{"id":0,"content":"a"}`,
			func(i int) string { return fmt.Sprintf(`,{"id":%d,"content":"%x"}`, i+1, i) }, `]}`),
		"ranked": fill("YQ== 0\n", func(i int) string { return "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFh " + fmt.Sprint(i+1) + "\n" }, ""),
		"vendor": fill("430 1\n0 0 0\n\n50000\n", func(i int) string { return "YWFhYWFhYWFhYWFh\n" }, ""),
		"braces": strings.Repeat(`{"a":`, size/5),
		"string": `{"model":"` + strings.Repeat(`\u0041`, size/6),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			tok, err := OpenWith(fstest.MapFS{"f": {Data: []byte(in)}}, "f", Config{})
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 96<<20 {
				t.Errorf("%d MB were allocated (%v)", took>>20, err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if live := int64(after.HeapAlloc) - int64(before.HeapAlloc); live > 64<<20 {
				t.Errorf("%d MB stay", live>>20)
			}
			runtime.KeepAlive(tok)
		})
	}
}

// TestConcurrent uses one tokenizer from many goroutines; run it with -race.
func TestConcurrent(t *testing.T) {
	tok := smallTokenizer(t, "qwen3")
	list := hardStrings(t)[:300]
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

// TestPatternTries: a pattern that took too long once, on a machine that was busy elsewhere, is
// tried again with more time.
func TestPatternTries(t *testing.T) {
	good := regexp2.MustCompile(patGPT2, regexp2.None)
	if slowProbe(good, 0, 0) == "" || slowProbe(good, 0, time.Minute) != "" {
		t.Error("the last try does not decide")
	}
	if hostile := regexp2.MustCompile(`(a+)+$|(a|aa)+!`, regexp2.None); slowProbe(hostile, time.Second, time.Second) != "a" {
		t.Error("a pattern without end is not found")
	}
}

// TestSlowPatternAgrees: regexp2 takes patterns that have no scanner, and agrees with the
// scanners where there is one.
func TestSlowPatternAgrees(t *testing.T) {
	for _, p := range []string{patGPT2, patCL100K, patQwen2, patQwen35, patO200K, patDigits3, patDeepseek} {
		fast := scanMatcher{knownPattern(p)}
		m, err := compilePattern("(?:" + p + ")")
		if err != nil {
			t.Fatal(err)
		}
		slow, free := m.(slowPattern), roomFor(1<<30, nil)
		for _, s := range fewer(hardStrings(t)) {
			// regexp2 folds ſ not to s, and its Unicode is Go's, as ours is.
			if strings.Contains(s, "ſ") || len(s) > 600 {
				continue
			}
			if f, w := fmt.Sprint(spans(fast, s, &free)), fmt.Sprint(spans(slow, s, &free)); f != w {
				t.Fatalf("%s on %q: %s, want %s", p, s, f, w)
			}
		}
	}
}

func TestLongText(t *testing.T) {
	tok := smallTokenizer(t, "gemma")
	// One word of a megabyte, the worst there is, must not take quadratic time.
	size := 1 << 17
	if lane.Race {
		size >>= 4
	}
	text := strings.Repeat("中文", size)
	if n := len(tok.Encode(nil, text, false)); n == 0 {
		t.Fatal("nothing came out")
	}
}

// spans are all that a matcher finds.
func spans(x matcher, s string, m *room) (out []span) {
	x.each(s, m, func(p span) { out = append(out, p) })
	return out
}
