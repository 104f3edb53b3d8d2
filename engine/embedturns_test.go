package engine

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/internal/fair"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestEmbedTurns: vectors of a picture, of a text and of both are those of the weights, computed in
// float64 from the pixels on. A picture that is known is not encoded again.
func TestEmbedTurns(t *testing.T) {
	//proves:G19
	lane.NoRace(t)
	testEmbedTurns(t, openSoft)
}

func testEmbedTurns(t *testing.T, open func() (axcl.Device, string, error)) {
	dir, c := turnsPackage(t)
	m, b := load(t, dir, open, OpenOptions{})
	if i := m.Info(); !i.Embedding || !i.Capabilities.Vision || !slices.Equal(i.Prompts, []string{"document", "query"}) {
		t.Fatalf("%+v: %v", i, b.m.pictures.blind)
	}
	random := rand.New(rand.NewPCG(3, 4))
	var files [][]byte
	var pixels [][]byte
	for range 3 {
		p := axmodeltest.RandomPicture(c, random)
		files, pixels = append(files, filed(t, p)), append(pixels, p.Pix)
	}
	const usual, search = "Represent the user's input.", "Retrieve images or text relevant to the user's query."
	type input struct {
		text string
		of   int // the picture; −1: none
	}
	calls := 0
	for _, tt := range []struct {
		name, prompt, task, system string
		inputs                     []input
		calls                      int // of the encoder, new ones
	}{
		{"a picture", "", "", usual, []input{{"", 0}}, 1},
		{"a text", "", "", usual, []input{{"is it", -1}}, 0},
		{"both", "", "", usual, []input{{"is it", 0}}, 0},
		{"an instruction", "", "Say it.", "Say it.", []input{{"", 0}, {"is it", -1}}, 0},
		{"a query", "query", "", search, []input{{"is it <|image_pad|>", -1}}, 0},
		{"a document", "document", "", usual, []input{{"", 0}}, 0},
		{"many", "", "", usual, []input{{"a", 1}, {"b", -1}, {"", 2}, {"c", 0}, {"d", 1}, {"e", 2}, {"", -1}, {"f", 1}}, 2},
	} {
		r := EmbedRequest{PromptName: tt.prompt, Instruction: tt.task}
		for _, in := range tt.inputs {
			var file []byte
			if in.of >= 0 {
				file = files[in.of]
			}
			r.Input, r.Pictures = append(r.Input, in.text), append(r.Pictures, file)
		}
		got, err := m.Embed(t.Context(), r)
		if err != nil || len(got.Vectors) != len(tt.inputs) {
			t.Fatalf("%s: %d vectors (%v)", tt.name, len(got.Vectors), err)
		}
		tokens := 0
		for i, in := range tt.inputs {
			var look []byte
			if in.of >= 0 {
				look = pixels[in.of]
			}
			want, n := turnVector(t, m, c, tt.system, in.text, look)
			tokens += n
			cos, length := 0.0, 0.0
			for k, x := range got.Vectors[i] {
				cos, length = cos+float64(x)*want[k], length+float64(x)*float64(x)
			}
			if cos < 0.9999 || math.Abs(length-1) > 1e-3 {
				t.Errorf("%s, input %d: cosine %.6f with the oracle, length %.4f", tt.name, i, cos, math.Sqrt(length))
			}
		}
		if got.Prompt != tokens {
			t.Errorf("%s: %d tokens, want %d", tt.name, got.Prompt, tokens)
		}
		if calls += tt.calls; int(b.Stats().Encoded) != calls {
			t.Errorf("%s: the encoder was called %d times so far, want %d", tt.name, b.Stats().Encoded, calls)
		}
	}
	// Another client's pictures are its own.
	if _, err := m.Embed(t.Context(), EmbedRequest{Input: []string{""}, Pictures: files[:1], Key: "eve"}); err != nil ||
		int(b.Stats().Encoded) != calls+1 {
		t.Errorf("%d calls, want %d (%v)", b.Stats().Encoded, calls+1, err)
	}
	got, err := m.Rerank(t.Context(), RerankRequest{Query: "is it", Documents: []string{"it is", "no"}})
	if err != nil {
		t.Fatal(err)
	}
	query, _ := turnVector(t, m, c, search, "is it", nil)
	for i, text := range []string{"it is", "no"} {
		document, _ := turnVector(t, m, c, usual, text, nil)
		cos := 0.0
		for k, x := range document {
			cos += x * query[k]
		}
		if math.Abs(cos-got.Scores[i]) > 0.02 {
			t.Errorf("document %d scores %.4f, want %.4f", i, got.Scores[i], cos)
		}
	}
	clean(t, b)
}

// TestEmbedTurnsRefused: what cannot become a vector is refused, or cut where that is allowed.
func TestEmbedTurnsRefused(t *testing.T) {
	dir, c := turnsPackage(t)
	m, b := load(t, dir, openSoft, OpenOptions{})
	good := filed(t, axmodeltest.RandomPicture(c, rand.New(rand.NewPCG(5, 6))))
	for name, tt := range map[string]struct {
		r    EmbedRequest
		want error
		says string
	}{
		"no picture": {EmbedRequest{Input: []string{"", "a", ""}, Pictures: [][]byte{good, nil, []byte("GIF?")}}, ErrRequest,
			"picture"},
		"dimensions":      {EmbedRequest{Input: []string{"a"}, Dimensions: 65}, ErrRequest, "between 0 and 64"},
		"too few":         {EmbedRequest{Input: []string{"a", "b"}, Pictures: [][]byte{good}}, ErrRequest, "1 pictures for 2 inputs"},
		"a prompt's name": {EmbedRequest{Input: []string{"a"}, PromptName: "quarry"}, ErrRequest, "take one of document, query"},
		"two tasks": {EmbedRequest{Input: []string{"a"}, PromptName: "document", Instruction: "b"}, ErrRequest,
			"takes no instruction"},
	} {
		_, err := m.Embed(t.Context(), tt.r)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
		if pe := (*PictureError)(nil); name == "no picture" && (!errors.As(err, &pe) || pe.Index != 2) {
			t.Errorf("%s: %v does not name the third", name, err)
		}
	}
	long := strings.Repeat("is it ", 300)
	r := EmbedRequest{Input: []string{long, long}, Pictures: [][]byte{nil, good}}
	if _, err := m.Embed(t.Context(), r); !errors.As(err, new(*ContextError)) {
		t.Errorf("a long text: %v", err)
	}
	r.Truncate = true
	got, err := m.Embed(t.Context(), r)
	if err != nil || len(got.Cuts) != 2 || got.Cuts[0].Kept > m.Info().Context || got.Cuts[0].Kept < m.Info().Context-8 {
		t.Fatalf("%+v (%v)", got.Cuts, err)
	}
	for _, n := range []int{10, 40} { // the turn alone, and the turn with the picture, have more
		r := EmbedRequest{Input: []string{long}, Pictures: [][]byte{good}, Truncate: true, NumCtx: n}
		if _, err := m.Embed(t.Context(), r); !errors.As(err, new(*ContextError)) {
			t.Errorf("%d tokens: %v", n, err)
		}
	}
	if _, err := m.Embed(t.Context(), EmbedRequest{Input: []string{""}, Pictures: [][]byte{good}, Dimensions: 8}); err != nil {
		t.Error(err)
	}
	clean(t, b)
}

// TestEmbedTurnsRoom: requests of two keys with more pictures than there is room for at once get
// their vectors, and give the room back.
func TestEmbedTurnsRoom(t *testing.T) {
	dir, c := turnsPackage(t)
	m, b := load(t, dir, openSoft, OpenOptions{Parallel: 2, MaxQueue: 4})
	g := b.m.pictures.encoder
	g.most = 2 * g.each // a group of four asks for more, and gets all
	g.room = fair.New(0, g.most)
	random := rand.New(rand.NewPCG(7, 8))
	var r EmbedRequest
	for i := range 10 {
		r.Input, r.Pictures = append(r.Input, strings.Repeat("a", i%3)), append(r.Pictures, filed(t, axmodeltest.RandomPicture(c, random)))
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	all := make([]Embeddings, 2)
	var wg sync.WaitGroup
	for i, key := range []string{"a", "b"} {
		wg.Go(func() {
			own, err := r, error(nil)
			own.Key = key
			if all[i], err = m.Embed(ctx, own); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i := range r.Input {
		one, err := m.Embed(ctx, EmbedRequest{Input: r.Input[i : i+1], Pictures: r.Pictures[i : i+1]})
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range all {
			for k, x := range got.Vectors[i] {
				if math.Abs(float64(x-one.Vectors[0][k])) > 1e-3 {
					t.Fatalf("picture %d has %v among others, and alone %v", i, got.Vectors[i][:4], one.Vectors[0][:4])
				}
			}
		}
	}
	if len(g.held) != 0 || g.room.Left() != g.most {
		t.Errorf("%d pictures are held, %d of %d bytes are left", len(g.held), g.room.Left(), g.most)
	}
	clean(t, b)
}

// TestEmbedTurnsCopies: two cards hold a copy each; one that is lost leaves the other at work. A
// picture that cannot be read is named by its place in the request.
func TestEmbedTurnsCopies(t *testing.T) {
	dir, c := turnsPackage(t)
	var o OpenOptions
	for range 2 {
		c, err := OpenCard(openSoft, CardOptions{Check: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		o.Copies = append(o.Copies, c)
	}
	m, err := Open(t.Context(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	file := filed(t, axmodeltest.RandomPicture(c, rand.New(rand.NewPCG(9, 9))))
	r := EmbedRequest{Input: []string{"", "a", "b", "c"}, Pictures: [][]byte{file, nil, file, []byte("GIF?")}}
	if _, err := m.Embed(t.Context(), r); func() bool { pe := (*PictureError)(nil); return !errors.As(err, &pe) || pe.Index != 3 }() {
		t.Errorf("%v does not name the fourth", err)
	}
	r.Pictures[3] = file
	want, err := m.Embed(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	o.Copies[0].Lose(&axcl.Error{Op: "test", Layer: axcl.NoLayer, Kind: axcl.ErrLost})
	got, err := m.Embed(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want.Vectors {
		for k, x := range want.Vectors[i] {
			if math.Abs(float64(x-got.Vectors[i][k])) > 1e-3 {
				t.Fatalf("input %d: %v, before the loss %v", i, got.Vectors[i][:4], want.Vectors[i][:4])
			}
		}
	}
	o.Copies[1].Lose(&axcl.Error{Op: "test", Layer: axcl.NoLayer, Kind: axcl.ErrLost})
	if _, err := m.Embed(t.Context(), r); !errors.Is(err, axcl.ErrLost) {
		t.Errorf("all cards lost: %v", err)
	}
}

// turnsPackage compiles a random Qwen3-VL that makes vectors.
func turnsPackage(t *testing.T) (string, *axmodeltest.Checkpoint) {
	t.Helper()
	dir := t.TempDir()
	a, _ := axmodeltest.Find("qwen3_vl")
	c, err := axmodeltest.WriteCheckpoint(dir, a, 6)
	if err != nil {
		t.Fatal(err)
	}
	o := compile.Options{From: dir, Out: filepath.Join(dir, "package"), Context: 255, Chunk: 16, History: []int{0, 16, 64, 239}, Name: "m",
		Embedding: true}
	o.Width, o.Height = c.PictureSize()
	p, err := compile.Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return p.Dir, c
}

// turnVector is the oracle's vector of a turn, and how many tokens it has. The turn is written here
// by hand, as the model's makers write it.
func turnVector(t *testing.T, m *Model, c *axmodeltest.Checkpoint, system, text string, look []byte) ([]float64, int) {
	t.Helper()
	across, down := c.Sight.Across/c.Sight.Merge, c.Sight.Down/c.Sight.Merge
	pieces := []chat.Piece{{Text: "<|im_start|>system\n", Control: true}, {Text: system},
		{Text: "<|im_end|>\n<|im_start|>user\n", Control: true}}
	if look != nil {
		pieces = append(pieces, chat.Piece{Text: "<|vision_start|>" + strings.Repeat("<|image_pad|>", across*down) + "<|vision_end|>",
			Control: true})
	}
	pieces = append(pieces, chat.Piece{Text: text}, chat.Piece{Text: "<|im_end|>\n<|im_start|>assistant\n", Control: true})
	ids, err := m.b.Encode(t.Context(), pieces, true)
	if err != nil {
		t.Fatal(err)
	}
	ids = append(ids, m.b.Ends()...)
	var seen []*axmodeltest.Seen
	if look != nil {
		rows, deep := c.Look(look)
		for i, row := range rows {
			s := &axmodeltest.Seen{Row: row}
			for k := range deep {
				s.Deep = append(s.Deep, deep[k][i])
			}
			seen = append(seen, s)
		}
	}
	all := c.Hiddens(pictureRowsOf(t, ids, m.o.Sees.Placeholder, across, down, c.Section != nil, seen))
	v := all[len(all)-1]
	length := 0.0
	for _, x := range v {
		length += x * x
	}
	for k := range v {
		v[k] /= math.Sqrt(length)
	}
	return v, len(ids)
}
