package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/audio/vad"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel/axmodeltest"
	"github.com/axle-llm/axle/engine/pictures"
	"github.com/axle-llm/axle/engine/speech"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/models/modelstest"
)

// TestQwenASR: what is written down of sounds of any length, in a language that is given or not,
// with words before it and without, is what the weights say of the sound in float64.
func TestQwenASR(t *testing.T) {
	lane.NoRace(t)
	testQwenASR(t, softCard)
}

func testQwenASR(t *testing.T, open func() (axcl.Device, string, error)) {
	e := modelstest.QwenASR{Seed: 1, Mask: axcl.Int32}
	var ck *axmodeltest.Checkpoint
	m, _, dir := onCard(t, func(dir string) (err error) {
		ck, err = e.WriteChecked(dir)
		return err
	}, open, OpenOptions{})
	if i := m.Info(); !i.Capabilities.Audio || i.Capabilities.Vision || i.Vocab != 320 || i.CardBytes <= 0 || i.Name != filepath.Base(dir) {
		t.Errorf("%+v", i)
	}
	// With these words and a language 405 of 448 tokens are not sound: 43 rows are left, 3.32 s.
	words := "Axle, axcl, " + strings.Repeat("and so on ", 36)
	for i, c := range []struct {
		language, name, prompt string
		seconds                float64
		longest                int // samples of a piece
	}{{"", "", "", 2.7, 480000}, {"en-GB", "English", "", 1.2, 480000}, {"zh", "Chinese", words, 6.1, 53120}} {
		sound := babble(uint64(i), c.seconds)
		got, err := transcribed(t.Context(), m, TranscribeRequest{Sound: hearing(sound), Language: c.language, Prompt: c.prompt})
		if err != nil {
			t.Errorf("%q: %v", c.language, err)
		}
		pieces := cutUp(t, sound, c.longest)
		if len(got) != len(pieces) || len(got) == 0 || len(got) == 1 && c.prompt != "" {
			t.Errorf("%q: %d segments of %d pieces", c.language, len(got), len(pieces))
			continue
		}
		for k, s := range got {
			if s.Language != strings.TrimSuffix(c.language, "-GB") || s.Logprob >= 0 || len(s.Tokens) < 3 || s.Text == "" {
				t.Errorf("%q: %+v", c.language, s)
			}
			saidOf(t, e, ck, pieces[k].Samples, c.prompt, c.name, s.Tokens)
		}
	}
	if st := m.Stats(); st.Encoded < 4 || st.State != "ready" {
		t.Errorf("%d calls, %s", st.Encoded, st.State)
	}
}

// TestSoundRows: the encoder's rows of sound are what the weights make of it in float64, whatever
// was heard before.
func TestSoundRows(t *testing.T) {
	lane.NoRace(t)
	testSoundRows(t, softCard)
}

func testSoundRows(t *testing.T, open func() (axcl.Device, string, error)) {
	e := modelstest.QwenASR{Seed: 2}
	_, c, dir := onCard(t, e.Write, open, OpenOptions{})
	p, err := models.OpenAny(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	hears, err := p.(*models.QwenASR).Text.Hearing()
	if err != nil {
		t.Fatal(err)
	}
	lengths := []float64{3.17, 0.02, 1}
	var wanted [][][]float64
	for i, seconds := range lengths {
		wanted = append(wanted, e.Rows(melOf(t, babble(uint64(i), seconds))))
	}
	if err := c.Do(t.Context(), func(dev axcl.Device) error {
		enc, err := pictures.OpenSound(dev, hears, "digest")
		if err != nil {
			return err
		}
		for i, seconds := range lengths {
			var b []byte
			for _, x := range babble(uint64(i), seconds) {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
			}
			made, err := enc.Prepare(b)
			if err != nil {
				return err
			}
			if made.Rows() != nil {
				t.Error("there are rows before the encoder was called")
			}
			for range 2 { // the second does nothing
				if err := enc.Step(made); err != nil {
					return err
				}
			}
			want, got := wanted[i], made.Rows()
			if got.N != len(want) || made.N() != len(want) || len(got.Hidden) != len(want)*len(want[0]) || got.ID != enc.Name(b) {
				return fmt.Errorf("%g s: %d rows in %d values, want %d of %d", seconds, got.N, len(got.Hidden), len(want), len(want[0]))
			}
			for r, row := range want {
				for k, v := range row {
					if x := float64(axcl.Float32(got.Hidden[r*len(row)+k])); math.Abs(x-v) > 0.005*(1+math.Abs(v)) {
						return fmt.Errorf("%g s, row %d, value %d: %g, want %g", seconds, r, k, x, v)
					}
				}
			}
		}
		for _, samples := range []int{0, 200, 480001} {
			if _, err := enc.Prepare(make([]byte, 4*samples)); err == nil {
				t.Errorf("%d samples are taken", samples)
			}
		}
		other := *hears
		other.Encoder.Out = []axcl.Tensor{{Name: "rows"}}
		if _, err := pictures.OpenSound(dev, &other, "digest"); !errors.Is(err, axcl.ErrModel) {
			t.Errorf("other tensors than the file's: %v", err)
		}
		if err := enc.Close(); err != nil {
			return err
		}
		if err := enc.Close(); !errors.Is(err, axcl.ErrClosed) {
			t.Errorf("closed again: %v", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestQwenASRAnswers: an answer is taken apart into language and text.
func TestQwenASRAnswers(t *testing.T) {
	dir := t.TempDir()
	if err := (modelstest.QwenASR{Seed: 1}).Write(dir); err != nil {
		t.Fatal(err)
	}
	o, err := models.OpenAny(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	p := o.(*models.QwenASR)
	const marker, language, english, chinese, no = 262, 263, 264, 265, 266
	for _, c := range []struct {
		ids            []int32
		asked          string
		language, text string
	}{
		{[]int32{language, english, marker, ' ', 'H', 'i', '!'}, "", "en", "Hi!"},
		{[]int32{language, chinese, marker, 0xe4, 0xbd, 0xa0}, "", "zh", "你"},
		{[]int32{language, chinese, ',', english, marker, 'a'}, "", "zh", "a"},
		{[]int32{language, ' ', 'T', 'h', 'a', 'i', marker, 'a'}, "", "th", "a"},
		{[]int32{language, ' ', 'E', 'l', 'v', 'i', 's', 'h', marker, 'a'}, "", "", "a"},
		{[]int32{language, no, marker}, "", "", ""},
		{[]int32{language, no, marker, 'a'}, "", "", ""},
		{[]int32{'O', 'h'}, "", "", "Oh"},
		{[]int32{'O', 'h'}, "en-US", "en", "Oh"},
		{[]int32{marker, 'O', 'h'}, "zh", "zh", "Oh"},
		{nil, "zh", "", ""},
	} {
		var asked speech.SoundPrompt
		q, err := speech.NewQwenASR(p, "m", 1000, func(_ context.Context, s speech.SoundPrompt) (speech.SoundAnswer, error) {
			asked = s
			return speech.SoundAnswer{IDs: c.ids, Logprob: -0.5 * float64(len(c.ids))}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r := TranscribeRequest{Sound: hearing(babble(1, 2)), Language: c.asked, Key: "k", Temperature: 0.25}
		n := 0
		for s, err := range q.Transcribe(t.Context(), r) {
			n++
			if err != nil || s.Language != c.language || s.Text != c.text || s.Logprob != -0.5 || s.Start != 0 || s.End != 2*time.Second ||
				s.Temperature != 0.25 || len(s.Tokens) == 0 {
				t.Errorf("%d: %+v, %v", c.ids, s, err)
			}
		}
		if n != min(len(c.text), 1) || asked.Key != "k" || asked.Limit != 72 || asked.Temperature != 0.25 || len(asked.Sound) != 4*32000 {
			t.Errorf("%d: %d segments, asked with key %q for %d tokens", c.ids, n, asked.Key, asked.Limit)
		}
	}
}

// TestQwenASRAgain: the same sound again costs no call of the encoder and no row of the prompt but
// the last. For another key it does.
func TestQwenASRAgain(t *testing.T) {
	lane.NoRace(t)
	m, _, _ := onCard(t, modelstest.QwenASR{Seed: 1}.Write, softCard, OpenOptions{})
	hear := func(key string) (text string, st Stats) {
		before := m.Stats()
		got, err := transcribed(t.Context(), m, TranscribeRequest{Sound: hearing(babble(4, 2.5)), Key: key})
		if err != nil || len(got) != 1 {
			t.Fatal(got, err)
		}
		st = m.Stats()
		st.Encoded, st.PromptTokens, st.CachedTokens = st.Encoded-before.Encoded, st.PromptTokens-before.PromptTokens,
			st.CachedTokens-before.CachedTokens
		return got[0].Text, st
	}
	first, st := hear("a")
	if st.Encoded != 1 || st.CachedTokens > 0 || st.PromptTokens < 33 {
		t.Errorf("at first: %+v", st)
	}
	again, st := hear("a")
	if again != first || st.Encoded != 0 || st.CachedTokens != st.PromptTokens-1 {
		t.Errorf("again: %q, not %q: %d calls, %d of %d tokens cached", again, first, st.Encoded, st.CachedTokens, st.PromptTokens)
	}
	other, st := hear("b")
	if other != first || st.Encoded != 1 || st.CachedTokens > 0 {
		t.Errorf("for another: %q, not %q: %d calls, %d tokens cached", other, first, st.Encoded, st.CachedTokens)
	}
}

// TestQwenASRTogether: several hear at once as each alone, and one whose sound does not come holds
// up no other.
func TestQwenASRTogether(t *testing.T) {
	lane.NoRace(t)
	m, _, _ := onCard(t, modelstest.QwenASR{Seed: 1}.Write, softCard, OpenOptions{MaxQueue: 5})
	var alone [4]string
	for i := range alone {
		alone[i] = joinedText(heardAll(t, m, babble(uint64(i), 1.5+float64(i)/3), "en"))
	}
	stuck := &sound{samples: babble(9, 2), err: io.EOF, hold: make(chan struct{}), at: 16000}
	result := make(chan error, 1)
	go func() {
		_, err := transcribed(context.Background(), m, TranscribeRequest{Sound: stuck, Key: "slow"})
		result <- err
	}()
	var g sync.WaitGroup
	for i := range alone {
		g.Go(func() {
			r := TranscribeRequest{Sound: hearing(babble(uint64(i), 1.5+float64(i)/3)), Key: fmt.Sprint(i % 2), Language: "en"}
			got, err := transcribed(context.Background(), m, r)
			if text := joinedText(got); err != nil || text != alone[i] || text == "" {
				t.Errorf("%d: %q, alone %q, %v", i, text, alone[i], err)
			}
		})
	}
	g.Wait()
	close(stuck.hold)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// TestQwenASRRefused: what cannot be heard is said, and loses nothing. Nothing but speech is
// answered.
func TestQwenASRRefused(t *testing.T) {
	m, _, _ := onCard(t, modelstest.QwenASR{Seed: 1}.Write, softCard, OpenOptions{})
	ctx := t.Context()
	for name, c := range map[string]struct {
		r    TranscribeRequest
		want string
	}{
		"a language it does not know": {TranscribeRequest{Language: "tlh"}, `does not know the language "tlh": it knows ar, cs`},
		"a translation":               {TranscribeRequest{Translate: true}, "does not translate"},
		"many words":                  {TranscribeRequest{Prompt: strings.Repeat("word ", 90)}, "beside speech: give it fewer words"},
	} {
		c.r.Sound = hearing(babble(1, 2))
		if got, err := transcribed(ctx, m, c.r); !errors.Is(err, ErrRequest) || !strings.Contains(fmt.Sprint(err), c.want) || len(got) > 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if _, _, err := collect(m.Generate(ctx, Request{Prompt: "x"})); !errors.Is(err, ErrUnsupported) {
		t.Errorf("it writes: %v", err)
	}
	if _, err := m.Embed(ctx, EmbedRequest{Input: []string{"x"}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("it embeds: %v", err)
	}
	if _, err := m.Rerank(ctx, RerankRequest{Query: "x", Documents: []string{"y"}}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("it ranks: %v", err)
	}
	if got := heardAll(t, m, make([]float32, 48000), ""); len(got) > 0 || m.Stats().PromptTokens > 0 {
		t.Errorf("silence: %+v", got)
	}
	if got := heardAll(t, m, babble(3, 0.012), ""); len(got) > 0 { // shorter than a window
		t.Errorf("a click: %+v", got)
	}
	if got := heardAll(t, m, babble(1, 2), "en"); len(got) == 0 {
		t.Error("afterwards it hears nothing")
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if _, err := transcribed(ctx, m, TranscribeRequest{Sound: hearing(babble(1, 2))}); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	_, err := openQwenASR(ctx, &models.QwenASR{}, OpenOptions{Draft: func() (*models.Package, error) { return nil, nil }})
	if !errors.Is(err, ErrUnsupported) {
		t.Errorf("with a draft: %v", err)
	}
}

// cutUp cuts a sound where it is quiet. Silent pieces are left out.
func cutUp(t *testing.T, samples []float32, longest int) (all []vad.Piece) {
	t.Helper()
	cut, err := vad.NewSplitter(longest)
	if err != nil {
		t.Fatal(err)
	}
	all = cut.Add(samples)
	if p, ok := cut.Finish(); ok {
		all = append(all, p)
	}
	return slices.DeleteFunc(all, func(p vad.Piece) bool { return p.Silent })
}

// melOf is what the encoder is to hear of samples, and how many rows it is to give.
func melOf(t *testing.T, samples []float32) (values []float32, n int) {
	t.Helper()
	mel, err := features.NewMel(features.MelOptions{Mels: 128, FramesFirst: true, Tail: features.Mirror})
	if err != nil {
		t.Fatal(err)
	}
	values = make([]float32, 3000*128)
	frames, err := mel.Compute(values, samples)
	if err != nil {
		t.Fatal(err)
	}
	n = frames / 100 * 13
	for rest := frames % 100; rest > 0; rest -= 8 {
		n++
	}
	return values, n
}

// saidOf holds tokens against the oracle's: each is the likeliest of what the weights make of the
// sound and what stands around it, or as good as that.
func saidOf(t *testing.T, e modelstest.QwenASR, ck *axmodeltest.Checkpoint, samples []float32, words, language string,
	got []int32) {
	t.Helper()
	var rows []axmodeltest.Row
	add := func(r axmodeltest.Row) {
		r.Pos = len(rows)
		for j := range rows {
			r.See = append(r.See, j)
		}
		rows = append(rows, r)
	}
	text := func(s string) {
		for s != "" {
			id, size := int(s[0]), 1
			for i, w := range []string{"<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_end|>", "<|audio_pad|>", "<asr_text>",
				"language", " English", " Chinese"} {
				if strings.HasPrefix(s, w) {
					id, size = 257+i, len(w)
				}
			}
			add(axmodeltest.Row{Token: id})
			s = s[size:]
		}
	}
	text("<|im_start|>system\n" + words + "<|im_end|>\n<|im_start|>user\n<|audio_start|>")
	for _, row := range e.Rows(melOf(t, samples)) {
		add(axmodeltest.Row{Seen: &axmodeltest.Seen{Row: row}})
	}
	text("<|audio_end|><|im_end|>\n<|im_start|>assistant\n")
	if language != "" {
		text("language " + language + "<asr_text>")
	}
	prompt := len(rows)
	for _, id := range got {
		add(axmodeltest.Row{Token: int(id)})
	}
	logits := ck.Oracle(rows)
	for i, id := range got {
		at := logits[prompt+i-1]
		if best := slices.Max(at); best-at[id] > 0.05*best-0.05*slices.Min(at) {
			t.Errorf("token %d is %d, with %.3f; the oracle's best has %.3f", i, id, at[id], best)
		}
	}
}
