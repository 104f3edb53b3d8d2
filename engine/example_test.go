package engine_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/axmodel/compile"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// A conversation: open a package, ask, read the answer as it comes.
func Example() {
	dir, remove := babble(false)
	defer remove()
	ctx := context.Background()
	m, err := engine.Open(ctx, dir, engine.OpenOptions{Device: "soft"})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	r := engine.Request{Messages: []chat.Message{{Role: "user", Content: "hello"}}, Sampling: m.Sampling(), Limit: 8}
	r.Sampling.Temperature = 0
	for e, err := range m.Chat(ctx, r) {
		if err != nil {
			log.Fatal(err)
		}
		if d := e.Done; d != nil {
			fmt.Printf("%d tokens of prompt, %d of answer, ended by %s\n", d.Usage.Prompt, d.Usage.Output, d.Reason)
		}
	}
	// Output: 22 tokens of prompt, 8 of answer, ended by length
}

// babble makes a package with random weights: what it says means nothing, and is always the same.
func babble(embedding bool) (dir string, remove func()) {
	tmp, err := os.MkdirTemp("", "babble")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := axmodeltest.RandomCheckpoint(tmp, "qwen3", 1); err != nil {
		log.Fatal(err)
	}
	r, err := compile.Run(context.Background(), compile.Options{From: tmp, Out: filepath.Join(tmp, "package"), Context: 127, Chunk: 16,
		History: []int{0, 64}, Embedding: embedding})
	if err != nil {
		log.Fatal(err)
	}
	return r.Dir, func() { os.RemoveAll(tmp) }
}

// The second turn of a conversation evaluates only what is new.
func ExampleModel_Generate() {
	dir, remove := babble(false)
	defer remove()
	ctx := context.Background()
	m, err := engine.Open(ctx, dir, engine.OpenOptions{Device: "soft"})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	for _, prompt := range []string{"once upon a time", "once upon a time there was"} {
		r := engine.Request{Prompt: prompt, Raw: true, Sampling: m.Sampling(), Limit: 1}
		for e, err := range m.Generate(ctx, r) {
			if err != nil {
				log.Fatal(err)
			}
			if e.Done != nil {
				fmt.Printf("%d tokens, %d of them cached\n", e.Done.Usage.Prompt, e.Done.Usage.Cached)
			}
		}
	}
	// Output:
	// 15 tokens, 0 of them cached
	// 24 tokens, 15 of them cached
}

// Leaving the loop ends the answer, and so does the end of ctx; what was evaluated stays as a cache for the next request.
func ExampleModel_Chat_cancel() {
	dir, remove := babble(false)
	defer remove()
	m, err := engine.Open(context.Background(), dir, engine.OpenOptions{Device: "soft", Progress: func(p engine.Progress) {
		if p.Done == p.Total {
			fmt.Printf("%d of %d files, %d bytes still to load\n", p.Done, p.Total, p.Of-p.Bytes)
		}
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	r := engine.Request{Messages: []chat.Message{{Role: "user", Content: "tell me everything"}}, Sampling: m.Sampling(), Shift: true}
	r.Sampling.Temperature = 0
	for _, err := range m.Chat(context.Background(), r) {
		fmt.Println("first event, error", err)
		break
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, err := range m.Chat(ctx, r) {
		if err != nil {
			fmt.Println(err)
		}
		cancel()
	}
	// Output:
	// 4 of 4 files, 0 bytes still to load
	// first event, error <nil>
	// context canceled
}

// An answer in a given form: whatever the model would rather say.
func ExampleModel_Chat_format() {
	dir, remove := babble(false)
	defer remove()
	ctx := context.Background()
	m, err := engine.Open(ctx, dir, engine.OpenOptions{Device: "soft"})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	r := engine.Request{Messages: []chat.Message{{Role: "user", Content: "is it so?"}}, Think: chat.ThinkOff, Sampling: m.Sampling(),
		Format: engine.Format{Schema: []byte(`{"enum": ["perhaps"]}`)}}
	for e, err := range m.Chat(ctx, r) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(e.Text)
	}
	fmt.Println()
	// Output: "perhaps"
}

// Vectors of texts; equal texts have equal ones.
func ExampleModel_Embed() {
	dir, remove := babble(true)
	defer remove()
	ctx := context.Background()
	m, err := engine.Open(ctx, dir, engine.OpenOptions{Device: "soft"})
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()

	e, err := m.Embed(ctx, engine.EmbedRequest{Input: []string{"sun", "rain", "sun"}})
	if err != nil {
		log.Fatal(err)
	}
	dot := func(a, b []float32) (sum float32) {
		for i := range a {
			sum += a[i] * b[i]
		}
		return sum
	}
	fmt.Printf("%d tokens; sun and sun %.2f, sun and rain less: %v\n", e.Prompt, dot(e.Vectors[0], e.Vectors[2]),
		dot(e.Vectors[0], e.Vectors[1]) < 0.99)
	// Output: 9 tokens; sun and sun 1.00, sun and rain less: true
}
