package engine

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestZipformer: in both packings the utterances are what greedy search makes of logits computed in
// float64, with their times.
func TestZipformer(t *testing.T) {
	lane.NoRace(t)
	testZipformer(t, softCard)
}

func testZipformer(t *testing.T, open func() (axcl.Device, string, error)) {
	for _, e := range []modelstest.Zipformer{{Seed: 1, Layout: "Axera"}, {Seed: 2, Layout: "HY"}} {
		t.Run(e.Layout, func(t *testing.T) {
			m, _, _ := onCard(t, e.Write, open, OpenOptions{})
			if i := m.Info(); !i.Capabilities.Audio || i.Vocab != len(e.Symbols()) || i.CardBytes <= 0 {
				t.Errorf("%+v", i)
			}
			for _, seconds := range []float64{6, 0.03, 1.7} {
				sound := babble(e.Seed, seconds)
				got, want := heardAll(t, m, sound, ""), wantedUtterances(e, sound)
				if !slices.EqualFunc(got, want, sameUtterance) || seconds > 1 && len(want) == 0 {
					t.Errorf("%g s:\n got %+v\nwant %+v", seconds, got, want)
				}
			}
		})
	}
}

// TestZipformerEnds: an utterance ends at a pause, an empty one too, and after twenty seconds. The
// next one begins without what was heard before.
func TestZipformerEnds(t *testing.T) {
	lane.NoRace(t)
	e := modelstest.Zipformer{Seed: 2, Layout: "HY"}
	m, _, _ := onCard(t, e.Write, softCard, OpenOptions{})
	rest := func(seconds float64) []float32 { return make([]float32, int(16000*seconds)) }
	for _, c := range []struct {
		name  string
		sound []float32
		ends  int
	}{
		{"a short pause", slices.Concat(babble(1, 2), rest(0.9), babble(2, 2)), 1},
		{"a pause", slices.Concat(babble(1, 2), rest(2), babble(2, 2)), 2},
		{"silence first", slices.Concat(rest(5), babble(2, 2), rest(2)), 1},
		{"silence", rest(6), 0},
		{"no sound", nil, 0},
	} {
		got, want := heardAll(t, m, c.sound, ""), wantedUtterances(e, c.sound)
		if len(want) != c.ends || !slices.EqualFunc(got, want, sameUtterance) {
			t.Errorf("%s: %d utterances\n got %+v\nwant %+v", c.name, c.ends, got, want)
		}
	}
	got := heardAll(t, m, babble(7, 22), "")
	if len(got) != 2 || got[0].End < 20*time.Second || got[0].End > 20200*time.Millisecond || got[1].Start < got[0].End {
		t.Errorf("without a pause: %+v", got)
	}
	// Behind a pause it is as if nothing had been said before: here with a pause whose frames are
	// those of the calls.
	alone := heardAll(t, m, slices.Concat(rest(0.32*20), babble(3, 2)), "")
	after := heardAll(t, m, slices.Concat(babble(1, 0.32*10), rest(0.32*20), babble(3, 2)), "")
	if len(alone) != 1 || len(after) != 2 || alone[0].Text != after[1].Text || alone[0].Start+3200*time.Millisecond != after[1].Start {
		t.Errorf("alone %+v\nafter another %+v", alone, after)
	}
}

// TestZipformerPieces: how a sound is cut into reads changes nothing.
func TestZipformerPieces(t *testing.T) {
	e := modelstest.Zipformer{Seed: 2, Layout: "HY"}
	m, _, _ := onCard(t, e.Write, softCard, OpenOptions{})
	samples := slices.Concat(babble(4, 3), make([]float32, 20000), babble(5, 1))
	for _, partial := range []bool{false, true} {
		want, err := transcribed(t.Context(), m, TranscribeRequest{Sound: hearing(samples), Partial: partial})
		if err != nil || len(want) < 2 {
			t.Fatal(want, err)
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for _, most := range []int{1, 7, 160, 5000, 100000} {
			s := &pieces{samples, func() int { return 1 + rng.IntN(most) }}
			got, err := transcribed(t.Context(), m, TranscribeRequest{Sound: s, Partial: partial})
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("pieces up to %d: %v\n got %+v\nwant %+v", most, err, got, want)
			}
		}
	}
}

// TestZipformerPartial: parts come while the sound does, only where they are asked for. Each begins
// with the one before, and they change nothing of the whole.
func TestZipformerPartial(t *testing.T) {
	for _, e := range []modelstest.Zipformer{{Seed: 1, Layout: "Axera"}, {Seed: 2, Layout: "HY"}} {
		m, _, _ := onCard(t, e.Write, softCard, OpenOptions{})
		samples := slices.Concat(babble(4, 4), make([]float32, 40000), babble(5, 2))
		want := heardAll(t, m, samples, "en")
		s := hearing(samples)
		var whole []Segment
		text, parts, read := "", 0, 0
		for seg, err := range m.Transcribe(t.Context(), TranscribeRequest{Sound: s, Partial: true}) {
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(seg.Text, text) || seg.Partial && seg.Text == text {
				t.Errorf("%q after %q", seg.Text, text)
			}
			text = seg.Text
			if parts++; !seg.Partial {
				whole, text = append(whole, seg), ""
			} else if late := s.n - int(seg.End*16000/time.Second); late > 16000*(e.Step()+60)/100 || s.n < read {
				t.Errorf("a part comes %d samples after its end", late)
			}
			read = s.n
		}
		if !reflect.DeepEqual(whole, want) || parts < len(want)+4 || len(want) != 2 {
			t.Errorf("%s: %d parts\n got %+v\nwant %+v", e.Layout, parts, whole, want)
		}
	}
}

// TestZipformerTogether: more at once than the card has room for are heard as each alone. One whose
// sound does not come holds up no other.
func TestZipformerTogether(t *testing.T) {
	e := modelstest.Zipformer{Seed: 2, Layout: "HY"}
	m, _, _ := onCard(t, e.Write, softCard, OpenOptions{})
	ask := func(i int) TranscribeRequest {
		return TranscribeRequest{Sound: hearing(slices.Concat(babble(uint64(i), 2), make([]float32, 20000), babble(uint64(i+9), 1))),
			Key: fmt.Sprint(i % 5), Partial: i%2 == 0}
	}
	const clients = models.ZipformerSets + 3
	var alone [clients][]Segment
	for i := range alone {
		var err error
		if alone[i], err = transcribed(t.Context(), m, ask(i)); err != nil || len(alone[i]) == 0 {
			t.Fatal(err, alone[i])
		}
	}
	var g sync.WaitGroup
	stuck := ask(0).Sound.(*sound)
	stuck.hold, stuck.at = make(chan struct{}), 20000
	g.Go(func() {
		got, err := transcribed(t.Context(), m, TranscribeRequest{Sound: stuck, Key: "slow", Partial: true})
		if err != nil || !reflect.DeepEqual(got, alone[0]) {
			t.Errorf("one whose sound came late: %v\n got %+v\nwant %+v", err, got, alone[0])
		}
	})
	var others sync.WaitGroup
	for i := range alone {
		others.Go(func() {
			got, err := transcribed(t.Context(), m, ask(i))
			if err != nil || !reflect.DeepEqual(got, alone[i]) {
				t.Errorf("%d: %v\n got %+v\nwant %+v", i, err, got, alone[i])
			}
		})
	}
	others.Wait()
	close(stuck.hold)
	g.Wait()
	if st := m.Stats(); st.Queued != 0 {
		t.Errorf("%d wait", st.Queued)
	}
}

// TestZipformerFails: one that fails where others have all sets of states leaves theirs as they
// were, wherever in its steps it fails: also while it moves states to this machine, and behind
// that.
func TestZipformerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := &axcl.Error{Op: "Run", Layer: -1, Code: 0x8030070c}
		var d *nonsense
		m, _, _ := onCard(t, modelstest.Zipformer{Seed: 2, Layout: "HY"}.Write, failing(&d), OpenOptions{})
		samples := babble(4, 2)
		want := heardAll(t, m, samples, "")
		moved := 0
		for _, after := range []int{0, 1, 2, 12, 20, 30, 40, 46, 50, 60} {
			hold := make(chan struct{})
			var g sync.WaitGroup
			for i := range models.ZipformerSets {
				g.Go(func() {
					s := &sound{samples: samples, err: io.EOF, hold: hold, at: 16000}
					got, err := transcribed(t.Context(), m, TranscribeRequest{Sound: s, Key: fmt.Sprint(i)})
					if err != nil || len(want) == 0 || !reflect.DeepEqual(got, want) {
						t.Errorf("after %d calls, %d: %v\n got %+v\nwant %+v", after, i, err, got, want)
					}
				})
			}
			synctest.Wait()
			calls, before := 0, m.Stats().Passes["transcribe"]
			fail := func() error {
				if calls++; calls > after {
					return failed
				}
				return nil
			}
			d.fail.Store(&fail)
			if _, err := transcribed(t.Context(), m, TranscribeRequest{Sound: hearing(babble(9, 2))}); !errors.Is(err, failed) {
				t.Errorf("after %d calls: %v", after, err)
			}
			d.fail.Store(nil)
			moved += after - int(m.Stats().Passes["transcribe"]-before)
			close(hold)
			g.Wait()
			time.Sleep(time.Minute) // three calls that fail in less would lose the card
		}
		if moved < 35 {
			t.Errorf("%d states were moved", moved)
		}
	})
}

// TestZipformerLeft: who leaves in the middle gives up the place of the states.
func TestZipformerLeft(t *testing.T) {
	m, _, _ := onCard(t, modelstest.Zipformer{Seed: 2, Layout: "HY"}.Write, softCard, OpenOptions{})
	want := heardAll(t, m, babble(1, 3), "")
	for i := range 2 * models.ZipformerSets {
		for range m.Transcribe(t.Context(), TranscribeRequest{Sound: hearing(babble(uint64(i), 5)), Partial: true}) {
			break
		}
	}
	used := 0
	for _, s := range m.b.(*zipformer).sets {
		if s.of != nil && !s.of.over.Load() {
			used++
		}
	}
	if got := heardAll(t, m, babble(1, 3), ""); used != 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d sets are in use\n got %+v\nwant %+v", used, got, want)
	}
}

// pieces is samples in reads of sizes.
type pieces struct {
	samples []float32
	size    func() int
}

func (p *pieces) Read(to []float32) (int, error) {
	n := copy(to, p.samples[:min(len(p.samples), p.size())])
	if p.samples = p.samples[n:]; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// sameUtterance compares segments. Log probabilities may differ as those of float32 and float64 do.
func sameUtterance(a, b Segment) bool {
	near := math.Abs(a.Logprob-b.Logprob) < 1e-2
	a.Logprob, b.Logprob = 0, 0
	return near && reflect.DeepEqual(a, b)
}

// wantedUtterances are what a Zipformer says of a sound, step by step from the definitions.
func wantedUtterances(e modelstest.Zipformer, samples []float32) (all []Segment) {
	if len(samples) == 0 {
		return nil
	}
	step, symbols := e.Step(), e.Symbols()
	long := time.Duration(len(samples)) * time.Second / 16000
	// 0.3 s of zeros, and more until whole calls take all frames.
	padded := append(slices.Clone(samples), make([]float32, 4800)...)
	for ((len(padded)+80)/160-7)%step != 0 {
		padded = append(padded, 0)
	}
	bank := features.NewFbank(features.Zipformer)
	x := bank.Finish(bank.Append(nil, padded))
	o := e.Oracle()
	first, n, blanks := 0, 0, 0
	last := [2]int32{}
	s := Segment{Language: "en"}
	finish := func() {
		if s.Text = strings.TrimSpace(s.Text); s.Text != "" {
			s.Logprob /= float64(len(s.Tokens))
			all = append(all, s)
		}
		o.Restart()
		n, blanks, last, s = 0, 0, [2]int32{}, Segment{Language: "en"}
	}
	for at := 0; 80*(at+step+7) <= len(x); at += step {
		if n == 0 {
			first = at
		}
		for _, row := range o.Hear(x[80*at:][:80*(step+7)]) {
			from := time.Duration(first)*10*time.Millisecond + time.Duration(n)*40*time.Millisecond
			from, to := min(from, long-40*time.Millisecond), min(from+40*time.Millisecond, long)
			n++
			blanks++
			logits := e.Logits(row, last)
			best := 0
			for i, v := range logits {
				if v > logits[best] {
					best = i
				}
			}
			if best == 0 {
				continue
			}
			blanks, last = 0, [2]int32{last[1], int32(best)}
			symbol := symbols[best]
			if symbol[0] == '<' {
				continue
			}
			s.Text += strings.ReplaceAll(symbol, "▁", " ")
			if len(s.Tokens) == 0 {
				s.Start = from
			}
			s.End, s.Tokens = to, append(s.Tokens, int32(best))
			s.Logprob += math.Log(softmax(logits, 1)[best])
			chinese := []rune(symbol)[0] >= 0x4e00
			if chinese {
				s.Language = "zh"
			}
			if chinese || strings.HasPrefix(symbol, "▁") || len(s.Words) == 0 {
				s.Words = append(s.Words, ask.Word{Text: strings.TrimPrefix(symbol, "▁"), Start: from, End: to})
			} else {
				w := &s.Words[len(s.Words)-1]
				w.Text, w.End = w.Text+symbol, to
			}
		}
		quiet := 40 * time.Millisecond * time.Duration(blanks)
		if quiet >= 2400*time.Millisecond || quiet >= 1200*time.Millisecond && blanks < n || n >= 500 {
			finish()
		}
	}
	finish()
	return all
}
