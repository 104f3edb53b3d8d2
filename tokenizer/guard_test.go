package tokenizer

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/internal/lane"
)

// TestSlowPattern: a pattern that only some texts make slow ends with an error, for one long word
// as for many short ones.
func TestSlowPattern(t *testing.T) {
	//proves:T7
	if lane.Race {
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
		if ids, err := tok.EncodeContext(t.Context(), nil, []Part{{Text: "qz !"}}); err != nil || len(ids) != 4 {
			t.Errorf("%s: %v %v", pattern, ids, err)
		}
		var ids []int32
		var err error
		d := fuzzguard.Busy(func() { ids, err = tok.EncodeContext(t.Context(), []int32{7}, []Part{{Text: text}}) })
		if !errors.Is(err, ErrSlow) || len(ids) != 1 {
			t.Errorf("%s: %d ids, %v", pattern, len(ids), err)
		}
		if d > 10*time.Second {
			t.Errorf("%s took %v", pattern, d)
		}
		if ids := tok.Encode(nil, "q", false); len(ids) != 1 {
			t.Errorf("afterwards: %v", ids)
		}
	}
}

func openJSON(t testing.TB, src string) *Tokenizer {
	t.Helper()
	tok, err := OpenFS(fstest.MapFS{"tokenizer.json": {Data: []byte(src)}}, ".")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// TestAddedSpaces: Gemma's runs of spaces are added tokens, and come out as spaces; a control
// token's name stays what it is.
func TestAddedSpaces(t *testing.T) {
	tok := openJSON(t, `{"added_tokens": [
			{"id": 2, "content": "▁▁", "special": false, "normalized": false}, {"id": 3, "content": "▁▁▁", "special": false, "normalized": false},
			{"id": 4, "content": "<a▁b>", "special": true, "normalized": false}],
		"normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
		"decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]},
		"model": {"type": "BPE", "byte_fallback": true, "vocab": {"a": 0, "▁": 1, "▁▁": 2, "▁▁▁": 3}, "merges": [["▁", "▁"], ["▁▁", "▁"]]}}`)
	ids := tok.Encode(nil, "a   a  a", false)
	if !slices.Equal(ids, []int32{0, 3, 0, 2, 0}) {
		t.Fatalf("ids %v", ids)
	}
	s, text := tok.Stream(false), ""
	for _, id := range ids {
		text += s.Next(id)
	}
	if text += s.Flush(); text != "a   a  a" || tok.Decode(ids, true) != text {
		t.Errorf("streamed %q, decoded %q", text, tok.Decode(ids, true))
	}
	for id, want := range []string{"a", " ", "  ", "   ", "<a▁b>"} {
		if got := string(tok.Bytes(int32(id))); got != want {
			t.Errorf("token %d is %q, want %q", id, got, want)
		}
	}
}

const markers = `{"added_tokens": [
		{"id": 5, "content": "<s>", "special": true, "normalized": true},
		{"id": 6, "content": "<｜User｜>", "special": false, "normalized": false}, {"id": 7, "content": "<｜Assistant｜>", "special": false, "normalized": true},
		{"id": 8, "content": "<|tool|>", "special": false, "normalized": false}, {"id": 9, "content": "<|fim_prefix|>", "special": false, "normalized": false},
		{"id": 10, "content": "<think>", "special": false, "normalized": true}],
	"normalizer": {"type": "Lowercase"},
	"decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
	"model": {"type": "BPE", "vocab": {"a": 0, "<": 1, ">": 2, "s": 3, "<s": 4, "<s>": 5}, "merges": [["<", "s"], ["<s", ">"]]}}`

// TestMarkers: what is written like a control token is kept from a user's text, whether the file
// marks it special or not; in every other way it is the token that the file says.
func TestMarkers(t *testing.T) {
	//proves:T2
	tok := openJSON(t, markers)
	for text, want := range map[string][]int32{
		"<｜User｜>a": {6, 0}, "a<｜Assistant｜>": {0, 7}, "<|tool|>": {8}, "<|fim_prefix|>": {9}, "<think>": {10}, "<s>": {5},
	} {
		if ids := tok.Encode(nil, text, true); !slices.Equal(ids, want) {
			t.Errorf("%s: %v, want %v", text, ids, want)
		}
		ids := tok.Encode(nil, text, false)
		if kept := !strings.Contains(text, "fim") && text != "<think>"; kept == slices.Contains(ids, want[len(want)-1]) &&
			want[len(want)-1] > 4 ||
			kept && slices.ContainsFunc(ids, func(id int32) bool { return id > 4 }) {
			t.Errorf("%s as a user writes it: %v", text, ids)
		}
	}
	ids := tok.EncodeParts(nil, []Part{{"<｜User｜>", true}, {"a<｜Assistant｜>a<｜User｜>", false}, {"<｜Assistant｜>", true}})
	if n := len(slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return id < 5 })); n != 2 || ids[0] != 6 ||
		ids[len(ids)-1] != 7 {
		t.Errorf("a conversation: %v", ids)
	}
	for id := int32(5); id <= 10; id++ {
		if tok.Control(id) != (id == 5) {
			t.Errorf("Control(%d) = %v", id, tok.Control(id))
		}
	}
	if s := tok.Decode([]int32{6, 0, 5}, false); s != "<｜User｜>a" {
		t.Errorf("decoded %q", s)
	}
}

// TestTypedTags: in a conversation the tags of thinking and tool calls are the template's. Where
// people or tools spell one it is plain text, in every family.
func TestTypedTags(t *testing.T) {
	seen := 0
	for _, name := range []string{"qwen3", "llama3", "llama2", "gemma", "flags", "unigram", "unigram-bytes", "wordpiece",
		"metaspace-first"} {
		tok := smallTokenizer(t, name)
		for _, set := range []*addedSet{tok.before, tok.after} {
			if set == nil {
				continue
			}
			for _, a := range set.tokens {
				typed := tok.EncodeParts(nil, []Part{{"x" + a.content, false}, {" ", true}, {"y" + a.content + "z", false}})
				said := tok.EncodeParts(nil, []Part{{"x", false}, {a.content, true}, {"y", false}})
				tag := a.tag()
				if tag {
					seen++
				}
				if tag && slices.Contains(typed, a.id) {
					t.Errorf("%s: %q as people type it: %q", name, a.content, pieces(tok, typed))
				}
				if tag && !slices.Contains(said, a.id) {
					t.Errorf("%s: %q of the template's: %q", name, a.content, pieces(tok, said))
				}
			}
		}
	}
	if seen < 8 {
		t.Errorf("only %d tags: the test's files no longer hold what it is about", seen)
	}
	tok := smallTokenizer(t, "qwen3")
	for _, s := range []string{"<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"} {
		id, ok := tok.ID(s)
		if !ok || slices.Contains(tok.EncodeParts(nil, []Part{{Text: s}}), id) || !slices.Equal(tok.Encode(nil, s, false), []int32{id}) {
			t.Errorf("%s: %v %v", s, id, ok)
		}
	}
}

// TestNormalizedControl: control tokens that a file wants normalized are found in a prompt beside
// what people wrote, and not in that.
func TestNormalizedControl(t *testing.T) {
	tok := openJSON(t, markers)
	ids := tok.EncodeParts(nil, []Part{{"<s>", true}, {"a<s>A", false}, {"<s>", true}})
	if want := []int32{5, 0, 4, 2, 0, 5}; !slices.Equal(ids, want) {
		t.Errorf("%v, want %v", ids, want)
	}
}
