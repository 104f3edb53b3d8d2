package grammar

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestThinking(t *testing.T) {
	seven := mustSchema(t, `{"type":"integer"}`)
	must := func(ways ...Thought) *Grammar {
		t.Helper()
		g, err := Thinking(seven, ways...)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for _, c := range []struct {
		name string
		g    *Grammar
		want map[string]bool
	}{
		{"begun by the prompt", must(Thought{End: "</think>"}), map[string]bool{
			"hm </thin </think>\n\n7": true, "</think>7": true, "\xff</think>\n7": true, "<</</think></think>7": false,
			"x</think>\n\n\n\n\n7": false,
			"<</think>-3":          true, "7": false, "</think>": false, "a\xff</think>1": true, "</thi\xff</think>1": true,
			"<think>a</think>1": true,
		}},
		{"up to the model", must(Thought{Open: "<think>", End: "</think>"}), map[string]bool{
			"7": true, "\n7": true, "<think>\nhm\n</think>\n\n7": true, "\xff<think>hm\xff</think>7": true, "\n<think></think>7": true,
			"hm</think>7": false, "hm 7": false, "<think>7": false, "<think></think><think></think>7": false,
		}},
		{"two ways", must(Thought{Open: "<think>", End: "</think>"}, Thought{Open: "<|channel>thought\n", End: "<channel|>"}),
			map[string]bool{
				"7": true, "<think>a</think>7": true, "<|channel>thought\na<channel|>7": true,
				"\xff<|channel>thought\na\xff<channel|>7": true,
				"<think>a<channel|>7":                     false, "\xff<|channel>thought\na</think>7": false,
			}},
		{"without a call", must(Thought{End: "</think>", Not: []string{"<tool_call>", "<|python_tag|>"}}), map[string]bool{
			"<tool_cal</think>7": true, "<<tool_<tool_call</think>7": true, "<tool_call></think>7": false,
			"<|python<|python_tag|></think>7": false, "a<tool_</think>7": true,
		}},
	} {
		for s, want := range c.want {
			if got := accepts(c.g, s); got != want {
				t.Errorf("%s: %q: %v", c.name, s, got)
			}
		}
	}
	for name, err := range map[string]error{
		"no grammar":     second(Thinking(nil, Thought{End: "</think>"})),
		"no end":         second(Thinking(seven, Thought{Open: "<think>"})),
		"no way":         second(Thinking(seven)),
		"a long opening": second(Thinking(seven, Thought{Open: strings.Repeat("x", 1001), End: "</think>"})),
	} {
		if err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	a, b := must(Thought{End: "</think>"}), must(Thought{End: "</think>"})
	if a != b {
		t.Error("what was made of a grammar is made again")
	}
}

func second[T any](_ T, err error) error { return err }

// TestThinkingEnds: whatever a text thinks, after as many tokens as it may there is only the way to
// the end tag, from where the tag stands, and a character is not cut.
func TestThinkingEnds(t *testing.T) {
	null := mustSchema(t, `{"type":"null"}`)
	const end = "</think>"
	for _, open := range []string{"", "<think>"} {
		g, err := Thinking(null, Thought{Open: open, End: end, Not: []string{"<tool_call>"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int{-1, 0, 1, 2, 7, 40} {
			for seed := range uint64(40) {
				r := rand.New(rand.NewPCG(seed, uint64(limit)))
				m := g.Matcher(testTrie())
				m.LimitThinking(limit)
				if !m.AcceptText(open) {
					t.Fatal("the tag that begins thinking is refused")
				}
				bits := make([]uint64, (m.t.vocab+63)/64)
				var text []byte
				spent := 0 // tokens before the end tag is begun for good
				for n := 0; ; n++ {
					if n > max(limit, 1)+late+2*len(end)+10 {
						t.Fatalf("limit %d: %d tokens and no end: %q", limit, n, text)
					}
					m.Fill(bits)
					if n%5 == 0 {
						checkMask(t, m)
					}
					// Characters of several bytes, starts of the tag, anything else: but never the
					// tag itself.
					var ids []int32
					for id := range int32(m.t.vocab) {
						if bits[id>>6]>>(id&63)&1 == 1 && !(m.left > 0 && strings.HasSuffix(string(text)+string(m.t.words[id]), end)) {
							ids = append(ids, id)
						}
					}
					if len(ids) == 0 {
						t.Fatalf("limit %d: no token behind %q", limit, text)
					}
					id := ids[r.IntN(len(ids))]
					if id == 256 {
						break
					}
					if err := m.Accept(id); err != nil {
						t.Fatal(err)
					}
					if text = append(text, m.t.words[id]...); !strings.Contains(string(text), "think>") {
						spent++
					}
				}
				said := strings.ReplaceAll(string(text), "\xff", "")
				if !strings.HasSuffix(said, "null") || strings.Count(said, end) != 1 || strings.Contains(said, "<tool_call>") {
					t.Fatalf("limit %d: %q", limit, said)
				}
			}
		}
	}
	// In the middle of a character, and of the tag.
	for _, c := range []struct{ pre, next string }{{"日", end}, {"a</thi", "nk>"}, {"</think</", "think>"}, {"<", "/think>"}} {
		m := must2(Thinking(null, Thought{End: end})).Matcher(testTrie())
		m.LimitThinking(len(c.pre))
		for i := range len(c.pre) {
			if m.left <= 0 || m.Accept(int32(c.pre[i])) != nil {
				t.Fatalf("%q: cut too soon", c.pre)
			}
		}
		if !m.Clone().AcceptText(c.next) || m.Clone().AcceptText("x") {
			t.Errorf("behind %q comes not %q", c.pre, c.next)
		}
	}
	m := must2(Thinking(null, Thought{End: end})).Matcher(testTrie())
	m.LimitThinking(2)
	for _, b := range []byte("日") {
		if err := m.Accept(int32(b)); err != nil {
			t.Fatalf("a character is cut: %v", err)
		}
	}
	if m.Allowed('x') || !m.Allowed('<') {
		t.Error("thinking goes on behind the whole character")
	}
	// What may have been the answer all along stays the answer.
	g, err := GBNF(`root ::= [a-z<>/]+`)
	if err != nil {
		t.Fatal(err)
	}
	m = must2(Thinking(g, Thought{Open: "<think>", End: end})).Matcher(testTrie())
	m.LimitThinking(3)
	for _, b := range []byte("<think>abcdef") {
		if err := m.Accept(int32(b)); err != nil {
			t.Fatal(err)
		}
	}
	if !m.Done() {
		t.Error("a text that the grammar has is not complete")
	}
}

func must2(g *Grammar, err error) *Grammar {
	if err != nil {
		panic(err)
	}
	return g
}

func TestOr(t *testing.T) {
	g, err := Or(mustSchema(t, `{"type":"integer"}`), mustSchema(t, `{"type":"boolean"}`))
	if err != nil {
		t.Fatal(err)
	}
	for s, want := range map[string]bool{"1": true, "true": true, " false": true, "1true": false, `"a"`: false, "": false} {
		if accepts(g, s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
	for i := range 2 * maxMade { // what is kept is bounded, and of the right pair
		o := mustSchema(t, fmt.Sprintf(`{"const":"c%d"}`, i))
		if g := must2(Or(JSON(), o)); !accepts(g, fmt.Sprintf(`"c%d"`, i)) || !accepts(g, "{}") {
			t.Error(i)
		}
	}
}
