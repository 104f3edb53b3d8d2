package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestSenseVoice: the text of sounds of any length is what the net's logits say, computed in
// float64, in both layouts.
func TestSenseVoice(t *testing.T) {
	lane.NoRace(t)
	testSenseVoice(t, softCard)
}

func testSenseVoice(t *testing.T, open func() (axcl.Device, string, error)) {
	for _, e := range []modelstest.SenseVoice{{Seed: 1, Layout: "Axera"}, {Seed: 2, Layout: "sherpa"}} {
		t.Run(e.Layout, func(t *testing.T) {
			m, _, dir := onCard(t, e.Write, open, OpenOptions{})
			if i := m.Info(); !i.Capabilities.Audio || i.Vocab != len(e.Tokens()) || i.CardBytes <= 0 {
				t.Errorf("%+v", i)
			}
			for _, c := range []struct {
				language string
				number   int32
				seconds  float64
			}{{"", 0, 9.3}, {"en", 4, 1.2}, {"zh", 3, 3.8}} {
				sound := babble(uint64(c.number), c.seconds)
				want, pieces := wantedText(t, e, dir, sound, c.number)
				got := ""
				last := time.Duration(0)
				for _, s := range heardAll(t, m, sound, c.language) {
					if got += s.Text + "|"; s.Start < last || s.End <= s.Start || s.Logprob >= 0 {
						t.Errorf("%v to %v after %v, log probability %g", s.Start, s.End, last, s.Logprob)
					}
					last = s.End
					words := ""
					for _, w := range s.Words {
						words += w.Text
					}
					if squeezed := strings.ReplaceAll(s.Text, " ", ""); words != squeezed || len(s.Tokens) == 0 {
						t.Errorf("the words %q, the text %q", words, squeezed)
					}
					// Without a mask the padding is heard too, and these random weights take it for
					// no language.
					forced := c.language != "" && e.Layout == "Axera"
					if forced && s.Language != c.language || s.Emotion != "NEUTRAL" || s.Event != "Speech" {
						t.Errorf("heard %q, %q, %q; the language was %q", s.Language, s.Emotion, s.Event, c.language)
					}
				}
				if last > time.Duration(c.seconds*float64(time.Second))+100*time.Millisecond {
					t.Errorf("the last segment ends at %v, the sound after %g s", last, c.seconds)
				}
				if got != want || len(want) < 20 {
					t.Errorf("%g s in %d pieces:\n got %q\nwant %q", c.seconds, pieces, got, want)
				}
			}
			if n := m.Stats().Passes["transcribe"]; n < 5 {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// TestSenseVoiceSilence: silence costs no call, and says nothing.
func TestSenseVoiceSilence(t *testing.T) {
	m, _, _ := onCard(t, modelstest.SenseVoice{Seed: 3, Layout: "Axera"}.Write, softCard, OpenOptions{})
	for _, n := range []int{0, 1, 399, 160000} {
		if got := heardAll(t, m, make([]float32, n), ""); len(got) > 0 {
			t.Errorf("%d samples of silence: %+v", n, got)
		}
	}
	if n := m.Stats().Passes["transcribe"]; n != 0 {
		t.Errorf("%d calls", n)
	}
}

// TestTranscribeRefused: what cannot be heard is said, and loses nothing.
func TestTranscribeRefused(t *testing.T) {
	m, _, _ := onCard(t, modelstest.SenseVoice{Seed: 3, Layout: "sherpa"}.Write, softCard, OpenOptions{})
	text, _, _ := encoder(t, modelstest.TextEncoder{Seed: 4, Length: 128, Dims: 16, Layers: 1}, softCard, OpenOptions{})
	broken := errors.New("the microphone is gone")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		m    *Model
		r    TranscribeRequest
		want error
	}{
		{"a language it does not know", context.Background(), m, TranscribeRequest{Language: "tlh"}, ErrRequest},
		{"a model of texts", context.Background(), text, TranscribeRequest{}, ErrUnsupported},
		{"a sound that fails", context.Background(), m, TranscribeRequest{Sound: &sound{samples: babble(1, 5), err: broken}}, broken},
		{"a caller that left", ended, m, TranscribeRequest{Sound: &sound{samples: babble(1, 5), err: io.EOF}}, context.Canceled},
	} {
		if _, err := transcribed(c.ctx, c.m, c.r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, _, err := collect(m.Generate(context.Background(), Request{Prompt: "x"})); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a recogniser writes: %v", err)
	}
	if _, err := m.Embed(context.Background(), EmbedRequest{Input: []string{"x"}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a recogniser embeds: %v", err)
	}
	if got := heardAll(t, m, babble(1, 5), ""); len(got) == 0 {
		t.Error("afterwards it hears nothing")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := transcribed(context.Background(), m, TranscribeRequest{Sound: &sound{samples: babble(1, 5), err: io.EOF}}); !errors.Is(err,
		ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestTranscribeReads: silence that does not end, and a sound that gives no samples, are read no
// further when the caller leaves. Without samples a hundred times the sound counts as broken.
// Samples that come with the end, or with an error, are heard as those that come before it.
func TestTranscribeReads(t *testing.T) {
	for name, write := range map[string]func(dir string) error{
		"SenseVoice": modelstest.SenseVoice{Seed: 3, Layout: "sherpa"}.Write,
		"Whisper":    modelstest.Whisper{Seed: 2, Layout: "B", Layers: 1}.Write,
		"Zipformer":  modelstest.Zipformer{Seed: 2, Layout: "HY"}.Write,
	} {
		m, _, _ := onCard(t, write, softCard, OpenOptions{})
		for _, c := range []struct {
			n, leave int
			want     error
		}{{0, 50, context.Canceled}, {0, 0, io.ErrNoProgress}, {16000, 50, context.Canceled}} {
			ctx, leave := context.WithCancel(t.Context())
			s := &silence{n: c.n, at: c.leave, leave: leave}
			if _, err := transcribed(ctx, m, TranscribeRequest{Sound: s}); !errors.Is(err, c.want) {
				t.Errorf("%s, %+v: %v after %d reads", name, c, err, s.reads)
			}
			leave()
		}
		want := heardAll(t, m, babble(1, 3), "")
		r := TranscribeRequest{Sound: &sound{samples: babble(1, 3), err: io.EOF, joined: true}}
		got, err := transcribed(t.Context(), m, r)
		if err != nil || len(want) == 0 || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: with the end in the last read: %+v, %v; want %+v", name, got, err, want)
		}
		broken := errors.New("the microphone is gone")
		r.Sound = &sound{samples: babble(1, 3), err: broken, joined: true}
		if _, err := transcribed(t.Context(), m, r); !errors.Is(err, broken) {
			t.Errorf("%s: with an error in the last read: %v", name, err)
		}
	}
}

// TestTranscribeTogether: several hear at once as each alone, and one whose sound does not come
// holds up no other.
func TestTranscribeTogether(t *testing.T) {
	e := modelstest.SenseVoice{Seed: 5, Layout: "Axera"}
	m, _, dir := onCard(t, e.Write, softCard, OpenOptions{MaxQueue: 5})
	stuck := &sound{samples: babble(9, 6), err: io.EOF, hold: make(chan struct{}), at: 16000}
	result := make(chan error, 1)
	go func() {
		_, err := transcribed(context.Background(), m, TranscribeRequest{Sound: stuck, Key: "slow"})
		result <- err
	}()
	var g sync.WaitGroup
	for i := range 4 {
		g.Go(func() {
			alone := babble(uint64(i), 7)
			r := TranscribeRequest{Sound: &sound{samples: alone, err: io.EOF}, Key: fmt.Sprint(i % 2)}
			got, err := transcribed(context.Background(), m, r)
			want, _ := wantedText(t, e, dir, alone, 0)
			if err != nil || joinedText(got) != want {
				t.Errorf("%d: %q, %v", i, joinedText(got), err)
			}
		})
	}
	g.Wait()
	close(stuck.hold)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// sound gives samples, then err, or err with the last of them. It waits for hold before the sample
// at.
type sound struct {
	samples []float32
	err     error
	joined  bool
	hold    chan struct{}
	at, n   int
}

func (s *sound) Read(p []float32) (int, error) {
	if s.hold != nil && s.n >= s.at {
		<-s.hold
	}
	n := copy(p[:min(len(p), 1000)], s.samples[s.n:])
	if s.n += n; n == 0 || s.joined && s.n == len(s.samples) {
		return n, s.err
	}
	return n, nil
}

// silence is n samples a time. Its caller leaves while it is read the time at, and it fails in the
// end.
type silence struct {
	n, at, reads int
	leave        func()
}

func (s *silence) Read(p []float32) (int, error) {
	if s.reads++; s.reads == s.at {
		s.leave()
	}
	if s.reads > 200 {
		return 0, errors.New("it was read on")
	}
	n := min(s.n, len(p))
	clear(p[:n])
	return n, nil
}

// babble is a sound like speech: tones that change, with pauses.
func babble(seed uint64, seconds float64) []float32 {
	rng := rand.New(rand.NewPCG(seed, 7))
	out := make([]float32, 0, int(seconds*16000))
	for len(out) < cap(out) {
		f, n, level := 120+300*rng.Float64(), 800+rng.IntN(3000), 0.3*rng.Float64()
		if rng.IntN(4) == 0 {
			level = 0
		}
		for i := range min(n, cap(out)-len(out)) {
			x := 0.0
			for h := 1.0; h < 6; h++ {
				x += math.Sin(2*math.Pi*f*h*float64(i)/16000) / h
			}
			out = append(out, float32(level*x+0.001*rng.NormFloat64()))
		}
	}
	return out
}

func transcribed(ctx context.Context, m *Model, r TranscribeRequest) (all []Segment, err error) {
	for s, err := range m.Transcribe(ctx, r) {
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	return all, nil
}

func heardAll(t *testing.T, m *Model, samples []float32, language string) []Segment {
	t.Helper()
	all, err := transcribed(context.Background(), m, TranscribeRequest{Sound: &sound{samples: samples, err: io.EOF}, Language: language})
	if err != nil {
		t.Error(err)
	}
	return all
}

func joinedText(all []Segment) (text string) {
	for _, s := range all {
		text += s.Text + "|"
	}
	return text
}

// wantedText is what the net's logits say of a sound, with | behind each sentence and each piece.
func wantedText(t *testing.T, e modelstest.SenseVoice, dir string, samples []float32, language int32) (text string, pieces int) {
	t.Helper()
	const rows = 64
	all := cutUp(t, samples, 400+160*(6*rows-1))
	var norm *features.CMVN
	if e.Layout == "Axera" {
		b, err := os.ReadFile(filepath.Join(dir, "am.mvn"))
		if err == nil {
			norm, err = features.ReadCMVN(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tokens := e.Tokens()
	for _, p := range all {
		bank := features.NewFbank(features.SenseVoice)
		x := features.AppendLFR(nil, bank.Finish(bank.Append(nil, p.Samples)))
		n := len(x) / features.LFRWidth
		if norm != nil {
			_ = norm.Apply(x)
		}
		x = append(x, make([]float32, rows*features.LFRWidth-len(x))...)
		var mask []int32
		if e.Layout == "Axera" {
			mask = make([]int32, rows+4)
			for i := range n + 4 {
				mask[i] = 1
			}
		}
		last, piece := 0, ""
		for _, row := range e.Logits(x, mask, [4]int32{language, 1, 2, 14})[4 : 4+n] {
			best := 0
			for i, v := range row {
				if v > row[best] {
					best = i
				}
			}
			if best != 0 && best != last && !strings.HasPrefix(tokens[best], "<|") {
				piece += strings.ReplaceAll(tokens[best], "▁", " ")
				if strings.ContainsAny(tokens[best], ".?。") {
					piece += "|"
				}
			}
			last = best
		}
		for s := range strings.SplitSeq(strings.TrimSuffix(piece, "|"), "|") {
			if s = strings.TrimSpace(s); s != "" {
				text += s + "|"
			}
		}
	}
	return text, len(all)
}
