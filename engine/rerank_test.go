package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestRerank: a model that writes scores documents by its logits of yes and no after the prompt
// that Qwen3's rerankers know; what all documents have in common is computed once; one that is too
// long loses its end and no more.
func TestRerank(t *testing.T) {
	lane.NoRace(t)
	dir, ck := rerankPackage(t)
	testRerank(t, dir, ck, openSoft)
}

// The tokens that the package of TestRerank has beside the small tokenizer's: the answer's words,
// and what merges to them.
const (
	idYe  = 300
	idYes = 301
	idNo  = 302
)

// rerankPackage is a Qwen3 package that has the words yes and no, in the vendor's text tokenizer.
func rerankPackage(t *testing.T) (string, *axmodeltest.Checkpoint) {
	dir := t.TempDir()
	ck, err := axmodeltest.RandomCheckpoint(dir, "qwen3", 9)
	if err != nil {
		t.Fatal(err)
	}
	r, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 767, Chunk: 64,
		History: []int{0, 64, 128, 256, 384, 512, 640}, Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	words, err := tokenizer.Open(filepath.Join(r.Dir, "m_tokenizer"))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("430 1\n4 1 0\n%d %d %d %d %d\n%d\n", axmodeltest.IDEnd, axmodeltest.IDStart, axmodeltest.IDStop,
		axmodeltest.IDStop+1, axmodeltest.IDStop, words.Vocab())
	for id := range int32(words.Vocab()) {
		b := words.Bytes(id)
		switch id {
		case idYe:
			b = []byte("ye")
		case idYes:
			b = []byte("yes")
		case idNo:
			b = []byte("no")
		}
		text += base64.StdEncoding.EncodeToString(b) + "\n"
	}
	config, err := os.ReadFile(filepath.Join(r.Dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	config = bytes.Replace(config, []byte(`"m_tokenizer"`), []byte(`"m_tokenizer.txt"`), 1)
	for name, b := range map[string][]byte{"m_tokenizer.txt": []byte(text), "config.json": config} {
		if err := os.WriteFile(filepath.Join(r.Dir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return r.Dir, ck
}

func testRerank(t *testing.T, dir string, ck *axmodeltest.Checkpoint, open func() (axcl.Device, string, error)) {
	m, b := load(t, dir, open, OpenOptions{CardOptions: still})
	ctx := context.Background()
	r := RerankRequest{Query: "WHO", Instruction: "FIND", Documents: []string{"A FOX", "THE DOG OF THE HOUSE", "<|im_end|>", "yes", ""}}
	pieces := "<|im_start|>system\n" + rerankSystem + "<|im_end|>\n<|im_start|>user\n<Instruct>: FIND\n<Query>: WHO\n<Document>: "
	common, err := b.Encode(context.Background(), []chat.Piece{{Text: pieces, Control: true}}, false)
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Rerank(ctx, r)
	if err != nil || got.Scoring != ScoringYesNo || len(got.Scores) != len(r.Documents) {
		t.Fatalf("%+v, %v", got, err)
	}
	prompt := 0
	for i, d := range r.Documents {
		ids, err := judge(ctx, m, r, d)
		if err != nil {
			t.Fatal(err)
		}
		if said := m.Detokenize(ids); !strings.HasPrefix(said, pieces+d+"<|im_end|>\n<|im_start|>assistant\n") {
			t.Fatalf("the prompt is %q", said)
		}
		prompt += len(ids)
		rows := ck.Oracle(axmodeltest.Causal(ids))
		row := rows[len(rows)-1]
		if want := 1 / (1 + math.Exp(row[idNo]-row[idYes])); math.Abs(got.Scores[i]-want) > 0.02 {
			t.Errorf("document %d: %.4f, the oracle says %.4f", i, got.Scores[i], want)
		}
	}
	if least := (len(r.Documents) - 1) * (len(common) - 1); got.Prompt != prompt || got.Cached < least {
		t.Errorf("%d tokens in all (%d were sent), %d of them cached: %d documents have %d in common", got.Prompt, prompt, got.Cached,
			len(r.Documents), len(common))
	}
	if st := b.Stats(); st.Passes["prefill"]+st.Passes["mixed"] == 0 {
		t.Errorf("every row went alone: %v", st.Passes)
	}
	long := RerankRequest{Query: "WHO", Documents: []string{strings.Repeat("FAR ", 400)}, Truncate: true}
	whole, err := judge(ctx, m, long, long.Documents[0])
	if err != nil {
		t.Fatal(err)
	}
	tail, err := b.Encode(context.Background(), []chat.Piece{{Text: "<|im_end|>\n<|im_start|>assistant\n", Control: true}}, false)
	if err != nil {
		t.Fatal(err)
	}
	one, err := m.Rerank(ctx, long)
	most := m.Info().Context
	if err != nil || one.Prompt != most || !slices.Equal(one.Cuts, []Cut{{Limit: most, Prompt: len(whole), Kept: most}}) {
		t.Fatalf("too long: %+v, %v", one, err)
	}
	end := len(whole) - len(tail)
	for whole[end-1] != 'R' && whole[end-1] != ' ' {
		end-- // where the template has more to say after the tag
	}
	kept := append(append([]int32(nil), whole[:most-(len(whole)-end)]...), whole[end:]...)
	rows := ck.Oracle(axmodeltest.Causal(kept))
	row := rows[len(rows)-1]
	if want := 1 / (1 + math.Exp(row[idNo]-row[idYes])); math.Abs(one.Scores[0]-want) > 0.02 {
		t.Errorf("cut: %.4f, the oracle says %.4f of what was kept", one.Scores[0], want)
	}
	var ce *ContextError
	long.Truncate = false
	if _, err := m.Rerank(ctx, long); !errors.As(err, &ce) || ce.Have != len(whole) {
		t.Errorf("too long, and not to be cut: %v", err)
	}
	if _, err := m.Rerank(ctx, RerankRequest{Query: strings.Repeat("FAR ", 400), Documents: []string{"X"}, Truncate: true}); !errors.As(err,
		&ce) {
		t.Errorf("a query that is too long: %v", err)
	}
	if _, err := m.Rerank(ctx, RerankRequest{Query: "WHO"}); !errors.Is(err, ErrRequest) {
		t.Errorf("no documents: %v", err)
	}
	clean(t, b)
}

// TestRerankElse: an embedding model compares vectors and says so, Qwen3's with the query's task
// before it; a model without the words says what it lacks.
func TestRerankElse(t *testing.T) {
	dir := t.TempDir()
	if _, err := axmodeltest.RandomCheckpoint(dir, "qwen3", 9); err != nil {
		t.Fatal(err)
	}
	for _, embedding := range []bool{true, false} {
		r, err := compile.Run(context.Background(), compile.Options{From: dir, Out: filepath.Join(dir, fmt.Sprint(embedding)), Context: 255,
			Chunk: 64, History: []int{0, 64, 128}, Name: "m", Embedding: embedding})
		if err != nil {
			t.Fatal(err)
		}
		m, _ := load(t, r.Dir, openSoft, OpenOptions{CardOptions: still})
		ask := RerankRequest{Query: "WHO", Documents: []string{"A FOX", "A DOG"}}
		got, err := m.Rerank(context.Background(), ask)
		if !embedding {
			if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), `"yes"`) {
				t.Errorf("without the words: %v", err)
			}
			continue
		}
		if err != nil || got.Scoring != ScoringCosine {
			t.Fatalf("%+v, %v", got, err)
		}
		e, err := m.Embed(context.Background(), EmbedRequest{Input: append([]string{"Instruct: " + rerankTask + "\nQuery:WHO"},
			ask.Documents...)})
		if err != nil {
			t.Fatal(err)
		}
		if i := m.Info(); !slices.Equal(i.Prompts, []string{"document", "query"}) {
			t.Errorf("prompts %q", i.Prompts)
		}
		for _, tt := range []struct {
			name, task string
			vector     int
			text       string
		}{{"query", "", 0, "WHO"}, {"", rerankTask, 0, "WHO"}, {"document", "", 1, "A FOX"}, {"", "", 1, "A FOX"},
			{"", "", 0, "Instruct: " + rerankTask + "\nQuery:WHO"}} {
			one, err := m.Embed(t.Context(), EmbedRequest{Input: []string{tt.text}, PromptName: tt.name, Instruction: tt.task})
			if err != nil || cosine(one.Vectors[0], e.Vectors[tt.vector]) < 0.999999 {
				t.Errorf("%+v: %v", tt, err)
			}
		}
		for i, s := range got.Scores {
			var want float64
			for k, v := range e.Vectors[0] {
				want += float64(v) * float64(e.Vectors[1+i][k])
			}
			if math.Abs(s-want) > 1e-6 || math.Abs(s) > 1.0001 || got.Prompt != e.Prompt {
				t.Errorf("document %d: %.4f, its vectors say %.4f; %d tokens, %d", i, s, want, got.Prompt, e.Prompt)
			}
		}
	}
}
