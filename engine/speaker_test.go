package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestSpeakPieces: a text sounds as its sentences do, with silence between them.
func TestSpeakPieces(t *testing.T) {
	lane.NoRace(t)
	m, _, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), softCard, OpenOptions{})
	sentences := []string{"Hello, world!", "The cat, the cat.", "World?"}
	var want []Speech
	for i, s := range sentences {
		alone := spokenAll(t, m, SpeakRequest{Text: s})
		if i > 0 {
			alone[0].Samples = slices.Concat(make([]float32, 6000), alone[0].Samples)
		}
		want = append(want, alone...)
	}
	if got := spokenAll(t, m, SpeakRequest{Text: strings.Join(sentences, " ")}); len(got) != 3 || !slices.EqualFunc(got, want, sameSpeech) {
		t.Errorf("%d pieces, or others than %d", len(got), len(want))
	}
	other := spokenAll(t, m, SpeakRequest{Text: sentences[0], Voice: "am_adam"})
	slow := spokenAll(t, m, SpeakRequest{Text: sentences[0], Speed: 0.25})
	if sameSpeech(other[0], want[0]) || len(slow[0].Samples) <= len(want[0].Samples) {
		t.Error("voice and speed change nothing")
	}
}

// TestSpeakLong: a piece that takes too many frames is split between its words.
func TestSpeakLong(t *testing.T) {
	lane.NoRace(t)
	var d *overheard
	m, _, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 1, Layout: "A"}), hearingOn(&d, softCard), OpenOptions{})
	text := "The world of cats and cats of hello and the world of the cat and the cats."
	got := spokenAll(t, m, SpeakRequest{Text: text, Speed: 0.25})
	var starts, whole []byte
	for _, c := range d.calls {
		if ids := c.in["input_ids"]; ids != nil && c.in["en"] != nil {
			starts = append(starts, firstIDs(ids)...)
		}
	}
	d.calls = nil
	spokenAll(t, m, SpeakRequest{Text: text, Speed: 4})
	for _, c := range d.calls {
		if c.in["en"] != nil {
			whole = append(whole, firstIDs(c.in["input_ids"])...)
		}
	}
	if len(got) < 3 || string(starts) != string(whole) || len(whole) < 40 {
		t.Errorf("%d pieces of %d symbols, %d are in the text", len(got), len(starts), len(whole))
	}
	for _, s := range got {
		if len(s.Samples) > 115200+6000 {
			t.Errorf("a piece of %d samples", len(s.Samples))
		}
	}
}

// firstIDs are the ids of a call, as bytes and without spaces, up to the zero that ends them.
func firstIDs(ids []byte) (all []byte) {
	for i := 4; ids[i] != 0; i += 4 {
		if ids[i] != 16 {
			all = append(all, ids[i])
		}
	}
	return all
}

// TestSpeakTurns: two keys take turns, a piece each, and both sound as alone.
func TestSpeakTurns(t *testing.T) {
	lane.NoRace(t)
	synctest.Test(t, func(t *testing.T) {
		var d *overheard
		m, _, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), hearingOn(&d, softCard), OpenOptions{})
		texts := []string{"Cat. Cat. Cat. Cat.", "World. World. World. World."}
		var want [2][]Speech
		for i, text := range texts {
			want[i] = spokenAll(t, m, SpeakRequest{Text: text})
		}
		d.calls = nil
		d.before.Store(&synctestWait) // all who will come for a turn wait for it
		var g sync.WaitGroup
		for i, text := range texts {
			g.Go(func() {
				got, err := spokenText(t.Context(), m, SpeakRequest{Text: text, Key: fmt.Sprint(i)})
				if err != nil || !slices.EqualFunc(got, want[i], sameSpeech) {
					t.Errorf("%s: %d pieces, %v", text, len(got), err)
				}
			})
		}
		g.Wait()
		d.before.Store(nil)
		order := ""
		for _, c := range d.calls {
			if c.in["en"] != nil {
				order += map[bool]string{true: "w", false: "c"}[c.in["input_ids"][4] != d.calls[0].in["input_ids"][4]]
			}
		}
		if order != "cwcwcwcw" && order != "ccwcwcww" {
			t.Errorf("the turns are %s", order)
		}
	})
}

var synctestWait = func() { synctest.Wait() }

// TestSpeakAhead: one piece is made while the one before is used, and no more. Leaving the loop
// ends it: nothing is made any more, and the next request is served.
func TestSpeakAhead(t *testing.T) {
	lane.NoRace(t)
	synctest.Test(t, func(t *testing.T) {
		m, _, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), softCard, OpenOptions{MaxQueue: 1})
		long := SpeakRequest{Text: strings.Repeat("Hello, cat. ", 20)}
		n := uint64(0)
		for _, err := range m.Speak(t.Context(), long) {
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if n++; m.Stats().Passes["speak"] != 3*(n+1) {
				t.Errorf("piece %d is used, and %d calls are made", n, m.Stats().Passes["speak"])
			}
			if _, err := spokenText(t.Context(), m, long); !errors.Is(err, ErrBusy) {
				t.Errorf("a full queue: %v", err)
			}
			if n == 3 {
				break
			}
		}
		synctest.Wait()
		if got := m.Stats(); got.Passes["speak"] != 12 || got.Queued != 0 {
			t.Errorf("after leaving: %d calls, %d wait", got.Passes["speak"], got.Queued)
		}
		if got := spokenAll(t, m, SpeakRequest{Text: "Hello."}); len(got) != 1 {
			t.Errorf("afterwards: %d pieces", len(got))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, err := range m.Speak(ctx, long) {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			cancel()
		}
		t.Error("a caller that left has the whole text")
	})
}

// TestOneAhead: whatever ends the loop ends the sequence too, which is never more than one value
// ahead, and no value or error is lost.
func TestOneAhead(t *testing.T) {
	fail := errors.New("it fails")
	for _, c := range []struct{ leave, fail, want int }{{99, 99, 5}, {2, 99, 2}, {99, 3, 3}, {99, 0, 0}, {1, 1, 1}} {
		made, used, running := 0, 0, false
		sequence := func(ctx context.Context) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) {
				running = true
				defer func() { running = false }()
				for i := range 5 {
					if made++; i == c.fail {
						yield(0, fail)
						return
					}
					if !yield(i, nil) {
						if ctx.Err() == nil {
							t.Errorf("%+v: left, and the context lives", c)
						}
						return
					}
				}
			}
		}
		var last error
		for i, err := range oneAhead(t.Context(), sequence) {
			if last = err; err != nil {
				break
			}
			if i != used {
				t.Errorf("%+v: %d after %d", c, i, used)
			}
			if used++; used == c.leave {
				break
			}
		}
		if running || made > used+2 || used != c.want || (last != nil) != (c.fail == used && c.leave > used) {
			t.Errorf("%+v: %d of %d values, %v, running %v", c, used, made, last, running)
		}
	}
	running := false
	defer func() {
		if why := recover(); why != "it does not like this" || running {
			t.Errorf("a loop that panics: %v, running %v", why, running)
		}
	}()
	for range oneAhead(t.Context(), func(ctx context.Context) iter.Seq2[int, error] {
		return func(yield func(int, error) bool) {
			running = true
			for yield(0, nil) {
			}
			running = false
		}
	}) {
		panic("it does not like this")
	}
}

// TestSpeakRefused: what cannot be spoken is said, and loses nothing.
func TestSpeakRefused(t *testing.T) {
	mute, _, _ := onCard(t, modelstest.Kokoro{Seed: 3, Layout: "B"}.Write, softCard, OpenOptions{})
	m, _, _ := onCard(t, speaking(modelstest.Kokoro{Seed: 3, Layout: "A"}), softCard, OpenOptions{})
	text, _, _ := encoder(t, modelstest.TextEncoder{Seed: 4, Length: 128, Dims: 16, Layers: 1}, softCard, OpenOptions{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		m    *Model
		r    SpeakRequest
		want error
		text string
	}{
		{"an unknown voice", t.Context(), m, SpeakRequest{Text: "cat", Voice: "nova"}, ErrRequest, "af_heart, am_adam"},
		{"a speed", t.Context(), m, SpeakRequest{Text: "cat", Speed: 9}, ErrRequest, "0.25 to 4"},
		{"no text", t.Context(), m, SpeakRequest{}, ErrRequest, "no English words"},
		{"no dictionary", t.Context(), mute, SpeakRequest{Text: "cat"}, ErrUnsupported, "us_gold.json and us_silver.json"},
		{"a model of texts", t.Context(), text, SpeakRequest{Text: "cat"}, ErrUnsupported, "does not speak"},
		{"a caller that left", ended, m, SpeakRequest{Text: "cat"}, context.Canceled, ""},
	} {
		if _, err := spokenText(c.ctx, c.m, c.r); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, _, err := collect(m.Generate(t.Context(), Request{Prompt: "x"})); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a speaker writes: %v", err)
	}
	if _, err := transcribed(t.Context(), m, TranscribeRequest{Sound: hearing(nil)}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a speaker hears: %v", err)
	}
}

// speaking writes a package with a dictionary of a few words. The others are spelled.
func speaking(e modelstest.Kokoro) func(dir string) error {
	return func(dir string) error {
		if err := e.Write(dir); err != nil {
			return err
		}
		at := filepath.Join(dir, "dictionaries")
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(at, "us_gold.json"), []byte(`{"hello":"həlˈO","world":"wˈɜɹld","cat":"kˈæt"}`), 0o600)
	}
}

func spokenText(ctx context.Context, m *Model, r SpeakRequest) (all []Speech, err error) {
	for s, err := range m.Speak(ctx, r) {
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

func spokenAll(t *testing.T, m *Model, r SpeakRequest) []Speech {
	t.Helper()
	all, err := spokenText(t.Context(), m, r)
	if err != nil || len(all) == 0 {
		t.Fatalf("%q: %d pieces, %v", r.Text, len(all), err)
	}
	return all
}

func sameSpeech(a, b Speech) bool { return a.Text == b.Text && slices.Equal(a.Samples, b.Samples) }
