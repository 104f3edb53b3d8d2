//go:build cgo && !fake && linux

package engine

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/axle-llm/axle/engine/speech"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestWhisperBeside: text is streamed beside speech that is written down, on a Raspberry Pi 5's
// clock. Each answer is as alone. A token waits, beside its own pass, until Whisper has had as much
// time as the stream's last pass took, and for at most one call then: of the encoder or of a
// decoder.
func TestWhisperBeside(t *testing.T) {
	//proves:G26 text beside a Whisper on the simulated card's clock
	lane.Slow(t)
	lane.NoRace(t)
	for _, layout := range []string{"A", "B"} {
		t.Run(layout, func(t *testing.T) {
			open, sim := onSim(t, "hazards=strict\nclock=virtual\nprofile=pi5")
			c, err := OpenCard(open, CardOptions{Check: -1, CheckWork: -1, Clock: clockOf(sim)})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			dir := t.TempDir()
			if err := (modelstest.Whisper{Seed: 4, Layout: layout, Layers: 1}).Write(dir); err != nil {
				t.Fatal(err)
			}
			p, err := models.OpenAny(dir)
			if err != nil {
				t.Fatal(err)
			}
			m, err := OpenAny(t.Context(), p, OpenOptions{Card: c})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			text, err := Open(t.Context(), compiled(t, "qwen3"), OpenOptions{Card: c})
			if err != nil {
				t.Fatal(err)
			}
			defer text.Close()
			b := m.b.(*whisper)
			single := &timed{WhisperNets: &whisperTurns{b, "key"}, c: c}
			want := segments(t, b.hears, single, TranscribeRequest{Sound: hearing(babble(1, 10))})
			if used := c.Used(b.encoder().line); used < single.all*99/100 {
				t.Errorf("%v of %v are in the model's account", used, single.all)
			}
			alone, passes := streamed(t, text)
			calls, result := m.Stats().Passes["transcribe"], make(chan error, 3)
			for i := range cap(result) {
				go func() {
					r := TranscribeRequest{Sound: hearing(babble(1, 10)), Key: fmt.Sprint(i)}
					got, err := transcribed(context.Background(), m, r)
					if err == nil && (len(want) == 0 || !reflect.DeepEqual(got, want)) {
						err = fmt.Errorf("%+v, alone %+v", got, want)
					}
					result <- err
				}()
			}
			for m.Stats().Passes["transcribe"] == calls && len(result) == 0 {
				runtime.Gosched()
			}
			late := 0
			for left := cap(result); left > 0; {
				got, gaps := streamed(t, text)
				if !slices.Equal(got, alone) {
					t.Errorf("%v, alone %v", got, alone)
				}
				for i, gap := range gaps {
					last := slices.Max(passes) // the prompt's own is not among them
					if i > 0 {
						last = passes[i-1]
					}
					if most := last + single.longest + passes[i]; gap > most*101/100 {
						t.Errorf("token %d came after %v: a pass of %v, a call of at most %v and its own pass of %v", i+1, gap, last,
							single.longest, passes[i])
					}
					if gap > passes[i]*11/10 {
						late++
					}
				}
				select {
				case err := <-result:
					if left--; err != nil {
						t.Error(err)
					}
				default:
				}
			}
			if late < 20 {
				t.Errorf("%d tokens waited for Whisper", late)
			}
		})
	}
}

// streamed is an answer of sixty tokens, and the time from each to the next.
func streamed(t *testing.T, m *Model) (ids []int32, gaps []time.Duration) {
	t.Helper()
	job := greedy([]int32{7, 8, 9}, 60)
	job.Speculate, job.IgnoreStop = new(bool), true
	var before time.Duration
	for tok, err := range m.b.Complete(t.Context(), job) {
		if err != nil {
			t.Fatal(err)
		}
		if tok.Final != "" {
			break
		}
		if ids = append(ids, tok.ID); len(ids) > 1 {
			gaps = append(gaps, tok.Usage.Decode-before)
		}
		before = tok.Usage.Decode
	}
	return ids, gaps
}

// timed notes how long the longest call and all of them take.
type timed struct {
	speech.WhisperNets
	c            *Card
	longest, all time.Duration
}

func (n *timed) Hear(ctx context.Context, mel []byte) error {
	return n.took(func() error { return n.WhisperNets.Hear(ctx, mel) })
}

func (n *timed) Say(ctx context.Context, at int, tokens []int32, logits []byte) error {
	return n.took(func() error { return n.WhisperNets.Say(ctx, at, tokens, logits) })
}

func (n *timed) took(call func() error) error {
	t0 := n.c.Now()
	err := call()
	took := n.c.Now() - t0
	n.longest, n.all = max(n.longest, took), n.all+took
	return err
}
