package tokenizer

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
)

// TestChains: rules that make a thousand texts of one end with an error, soon and in little memory,
// for one letter as for many; a decoder's are left out.
func TestChains(t *testing.T) {
	lane.Slow(t)
	lane.NoRace(t)
	for name, c := range hostileChains {
		for _, text := range []string{"aaaaaa", strings.Repeat("a a", 20_000)} {
			t.Run(fmt.Sprint(name, " ", len(text)), func(t *testing.T) {
				tok := openJSON(t, chained(c.normalizer, c.pre, c.decoder))
				fuzzguard.Check(t, len(text), func() {
					ids, err := tok.EncodeContext(t.Context(), []int32{7}, []Part{{Text: text}})
					slow := errors.Is(err, ErrSlow) && strings.Contains(name, "regex") // a machine at its limits
					if c.decoder == "" && (!errors.Is(err, ErrGrows) && !slow || len(ids) != 1) {
						t.Errorf("%d ids, %v", len(ids), err)
					}
					if got := tok.Decode(make([]int32, 0, 1), true); got != "" {
						t.Errorf("%q", got)
					}
					if c.decoder != "" {
						all := make([]int32, len(text))
						for i := range all {
							all[i] = 1
						}
						if got := tok.Decode(all, true); got != strings.Repeat("a", len(text)) {
							t.Errorf("%d bytes of %d tokens", len(got), len(text))
						}
					}
				})
			})
		}
	}
	// What is sound grows by less, and is not refused.
	for name, c := range map[string]struct{ normalizer, text string }{
		"spaces":      {`{"type":"Replace","pattern":{"String":" "},"content":"▁"}`, strings.Repeat(" ", 300_000)},
		"Hangul":      {`{"type":"NFD"}`, strings.Repeat("각", 100_000)},
		"Greek":       {`{"type":"NFD"}`, strings.Repeat("ᾂ", 100_000)},
		"a word":      {`{"type":"NFKD"}`, strings.Repeat("ﷺ", 100)},
		"Chinese":     {`{"type":"BertNormalizer"}`, strings.Repeat("中", 100_000)},
		"short words": {sequence(3, "normalizers", `{"type":"Prepend","prepend":"▁"}`), "a"},
	} {
		if _, err := openJSON(t, chained(c.normalizer, "", "")).EncodeContext(t.Context(), nil, []Part{{Text: c.text}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The added tokens that such rules are for are refused with the file, and so are more rules
	// than any tokenizer has.
	added := strings.Replace(chained(hostileChains["doublings"].normalizer, "", ""), `{"normalizer"`,
		`{"added_tokens":[{"id":4,"content":"aaa","normalized":true}],"normalizer"`, 1)
	for name, src := range map[string]string{
		"added": added, "normalizers": chained(sequence(maxChain+1, "normalizers", `{"type":"NFC"}`), "", ""),
		"pre-tokenizers": chained("", sequence(maxChain+1, "pretokenizers", `{"type":"Digits"}`), ""),
		"decoders":       chained("", "", sequence(maxChain+1, "decoders", `{"type":"Fuse"}`)),
		"prefix": strings.Replace(tinyJSON[3], `"type":"WordPiece","unk`, `"type":"WordPiece","continuing_subword_prefix":"`+
			strings.Repeat("#", maxToken+1)+`","unk`, 1),
	} {
		_, err := OpenFS(fstest.MapFS{"tokenizer.json": {Data: []byte(src)}}, ".")
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// chained is a tokenizer of bytes with the rules given; empty ones are none.
func chained(normalizer, pre, decoder string) string {
	if normalizer == "" {
		normalizer = "null"
	}
	if pre == "" {
		pre = "null"
	}
	if decoder == "" {
		decoder = "null"
	}
	return `{"normalizer":` + normalizer + `,"pre_tokenizer":` + pre + `,"decoder":` + decoder +
		`,"model":{"type":"BPE","unk_token":"u","vocab":{"u":0,"a":1,"b":2,"aa":3},"merges":[["a","a"]]}}`
}

// sequence is n rules, one after the other.
func sequence(n int, kind, rule string) string {
	return `{"type":"Sequence","` + kind + `":[` + strings.TrimSuffix(strings.Repeat(rule+",", n), ",") + `]}`
}

// charsmap is a normalization table that makes n bytes of every a.
func charsmap(n int) string {
	unit := func(offset, label uint32, leaf bool) uint32 {
		u := offset<<10 | label
		if leaf {
			u |= 1 << 8
		}
		return u
	}
	trie := make([]uint32, 512)
	trie[0] = unit(256, 0, false)      // the root's children begin at 256
	trie[256^'a'] = unit(1, 'a', true) // whose value is beside it
	trie[256^'a'^1] = 1<<31 | 0        // the first replacement
	var b []byte
	for _, u := range append([]uint32{uint32(4 * len(trie))}, trie...) {
		b = append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	}
	b = append(append(b, strings.Repeat("x", n)...), 0)
	return fmt.Sprintf(`{"type":"Precompiled","precompiled_charsmap":%q}`, base64.StdEncoding.EncodeToString(b))
}

var hostileChains = map[string]struct{ normalizer, pre, decoder string }{
	"doublings":          {normalizer: sequence(40, "normalizers", `{"type":"Replace","pattern":{"String":"a"},"content":"aa"}`)},
	"doublings by regex": {normalizer: sequence(40, "normalizers", `{"type":"Replace","pattern":{"Regex":"a"},"content":"aa"}`)},
	"a long replacement": {normalizer: sequence(3, "normalizers", `{"type":"Replace","pattern":{"Regex":"[a-z]"},"content":"`+
		strings.Repeat("a", 20_000)+`"}`)},
	"a long word": {normalizer: sequence(3, "normalizers", `{"type":"Replace","pattern":{"String":"a"},"content":"`+
		strings.Repeat("a", 20_000)+`"}`)},
	"prepends": {normalizer: sequence(200, "normalizers", `{"type":"Prepend","prepend":"`+strings.Repeat("a", 20_000)+`"}`)},
	"a table":  {normalizer: charsmap(1 << 20)},
	"metaspaces": {pre: sequence(3, "pretokenizers", `{"type":"Metaspace","replacement":"`+strings.Repeat("b ", 20_000)+
		`","prepend_scheme":"always","split":true}`)},
	"marks": {pre: sequence(200, "pretokenizers", `{"type":"Metaspace","replacement":"`+strings.Repeat("b", 20_000)+
		`","prepend_scheme":"always","split":false}`)},
	"decoded":          {decoder: sequence(40, "decoders", `{"type":"Replace","pattern":{"String":"a"},"content":"aa"}`)},
	"decoded by regex": {decoder: sequence(40, "decoders", `{"type":"Replace","pattern":{"Regex":"[a-z]"},"content":"aa"}`)},
	"decoded long": {decoder: sequence(2, "decoders", `{"type":"Replace","pattern":{"String":"a"},"content":"`+
		strings.Repeat("a", 20_000)+`"}`)},
}

// TestEncodeEnds: who no longer waits for an encoding is not worked for.
func TestEncodeEnds(t *testing.T) {
	//proves:T7 what a package's rules make of a text
	lane.Slow(t)
	lane.NoRace(t)
	rules := sequence(200, "normalizers", `{"type":"Replace","pattern":{"Regex":"[^a]"},"content":"b"}`)
	tok := openJSON(t, chained(rules, "", ""))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if ids, err := tok.EncodeContext(ctx, []int32{7}, []Part{{Text: "a"}}); !errors.Is(err, context.Canceled) || len(ids) != 1 {
		t.Errorf("%v %v", ids, err)
	}
	// In the middle of it: the rules are asked for between each other, and within a long one.
	asked := 0
	_, err := tok.encode(nil, strings.Repeat("b", 10_000), func() error {
		if asked++; asked > 20 {
			return context.Canceled
		}
		return nil
	}, func(int, int) bool { return false }, false)
	if !errors.Is(err, context.Canceled) || asked != 21 {
		t.Errorf("%v, asked %d times", err, asked)
	}
	if ids := tok.Encode(nil, "a", false); len(ids) != 1 {
		t.Errorf("afterwards: %v", ids)
	}
}

// FuzzChains: whatever rules a file has for a text and its tokens, neither time nor memory is
// without end, and what encoding gives are ids.
func FuzzChains(f *testing.F) {
	for name, c := range hostileChains {
		if !strings.Contains(name, "regex") { // each expression is tried out when a file is opened: forty take their time
			f.Add(c.normalizer, c.pre, c.decoder, "aaa a")
		}
	}
	f.Add(`{"type":"BertNormalizer"}`, `{"type":"Split","pattern":{"Regex":"a+"},"behavior":"MergedWithNext"}`, `{"type":"WordPiece"}`,
		"İ中ﷺ a\u0301")
	f.Add(sequence(4, "normalizers", `{"type":"NFKD"}`), `{"type":"ByteLevel"}`, `{"type":"Metaspace"}`, strings.Repeat("ﷺ", 50))
	f.Fuzz(func(t *testing.T, normalizer, pre, decoder, text string) {
		fuzzguard.CheckClock(t, len(normalizer)+len(pre)+len(decoder)+len(text), 20*time.Second, func() {
			tok, err := OpenFS(fstest.MapFS{"tokenizer.json": {Data: []byte(chained(normalizer, pre, decoder))}}, ".")
			if err != nil {
				return
			}
			ids, err := tok.EncodeContext(t.Context(), nil, []Part{{Text: text}})
			if err != nil && !errors.Is(err, ErrGrows) && !errors.Is(err, ErrSlow) {
				t.Fatal(err)
			}
			for _, id := range ids {
				if id < 0 || int(id) >= tok.Vocab() {
					t.Fatalf("id %d of %d", id, tok.Vocab())
				}
			}
			tok.Decode(ids, true)
		})
	})
}
