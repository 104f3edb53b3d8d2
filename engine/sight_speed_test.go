//go:build cgo && !fake && linux

package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/axle-llm/axle/axcl/simcard/profiles"
	"github.com/axle-llm/axle/axmodel"
)

// TestPictureTime: on a Raspberry Pi 5's clock a question about a picture has its first token when
// the encoder and the passes of its rows are done, a second question costs no encoder. A stream
// beside it waits for a call of the encoder at most, or for a pass of a prompt that has waited
// longer, which sees fewer cells and goes without the stream's row. Then comes the pass that has
// it.
func TestPictureTime(t *testing.T) {
	//proves:G21
	// What the worker does in between, while this machine is busy with other work, takes the card's
	// time too: one of three must be undisturbed.
	var wrong []string
	for range 3 {
		t.Run("", func(t *testing.T) { wrong = pictureTime(t) }) // which closes its card
		if len(wrong) == 0 {
			return
		}
		t.Log(wrong)
	}
	t.Error(wrong)
}

// pictureTime says what takes longer than it should on a card that has done nothing yet.
func pictureTime(t *testing.T) (wrong []string) {
	s := axmodel.Qwen3VLSmall()
	b, _ := simPi5(t, s, OpenOptions{})
	p, err := profiles.Load("pi5")
	if err != nil {
		t.Fatal(err)
	}
	encoder, ok := p.EncoderTime(s.Sight.Down*s.Sight.Across, s.Hidden)
	if !ok || encoder != 192*time.Millisecond || s.Sight.Rows() != 144 {
		t.Fatalf("an encoder of %v and %d rows", encoder, s.Sight.Rows())
	}
	layer := profiles.Layer{Hidden: s.Hidden, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Intermediate: s.Intermediate,
		Weights: s.LayerBytes}
	pass := func(cells int) time.Duration {
		one, _ := p.LayerTime(layer, s.Chunk, cells)
		return time.Duration(s.Layers) * one
	}
	head := p.HeadTime(s.HeadBytes)
	ask := func(seed uint64, more int) Job {
		job := greedy(nil, 1)
		for i := range 15 {
			job.IDs = append(job.IDs, int32(10+i))
		}
		for range s.Sight.Rows() {
			job.IDs = append(job.IDs, s.Placeholder())
		}
		for i := range 12 + more {
			job.IDs = append(job.IDs, int32(40+i))
		}
		job.Images = [][]byte{shot(seed)}
		return job
	}
	first := func(what string, job Job, want time.Duration) {
		t.Helper()
		_, last, err := run(b, job)
		if err != nil {
			t.Fatal(err)
		}
		got := last.Usage.FirstToken
		t.Logf("%s: %d rows, %d known, %v to the first token, %v by arithmetic: %.2f times", what, len(job.IDs), last.Usage.Cached, got,
			want, got.Seconds()/want.Seconds())
		if got > want*11/10 || got < want*95/100 {
			wrong = append(wrong, fmt.Sprintf("%s: the first token after %v, by arithmetic %v", what, got, want))
		}
	}
	first("a picture", ask(1, 0), encoder+pass(0)+pass(128)+head)
	first("the same, and more text", ask(1, 20), pass(256)+head)
	first("a further picture", ask(2, 0), encoder+pass(128)+pass(256)+head)

	// A stream beside three pictures that come one after another.
	long := greedy([]int32{7, 8, 9}, 60)
	long.Speculate = new(bool)
	tokens, asked := 0, make(chan error, 3)
	var before, widest time.Duration
	for tok, err := range b.Complete(t.Context(), long) {
		if err != nil {
			t.Fatal(err)
		}
		if tok.Final != "" {
			break
		}
		if tokens++; tokens > 1 {
			widest = max(widest, tok.Usage.Decode-before)
		}
		if before = tok.Usage.Decode; tokens == 10 {
			go func() {
				for seed := range uint64(3) {
					_, _, err := run(b, ask(10+seed, 0))
					asked <- err
				}
			}()
		}
	}
	for range 3 {
		if err := <-asked; err != nil {
			t.Error(err)
		}
	}
	most := max(encoder, pass(256)+head) + pass(512) + 2*head
	t.Logf("beside three pictures: no gap above %v, a call of the encoder or a pass, and a pass take %v", widest, most)
	if widest > most*105/100 {
		wrong = append(wrong, fmt.Sprintf("a gap of %v, where a call of the encoder or a pass, and a pass take %v", widest, most))
	}
	if n := b.Stats().Encoded; n != 5 {
		t.Errorf("%d calls of the encoder for five pictures", n)
	}
	return wrong
}
