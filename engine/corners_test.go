package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// TestEmptyStop: an empty stop string counts for nothing.
func TestEmptyStop(t *testing.T) {
	m := New(&parrot{say: "hello STOP world"}, Options{Stop: []string{""}})
	text, done, err := collect(m.Generate(context.Background(), Request{Prompt: "p", Stop: []string{"", "STOP"}, Sampling: m.Sampling()}))
	if err != nil || text != "hello " || done == nil || done.Stop != "STOP" {
		t.Errorf("%q %+v %v", text, done, err)
	}
}

// letters is a vocabulary of bytes; 0 ends.
type letters struct{}

func (letters) Vocab() int            { return 128 }
func (letters) Bytes(id int32) []byte { return []byte{byte(id)} }
func (letters) Control(id int32) bool { return id == 0 }
func (letters) EOS() []int32          { return []int32{0} }

// TestThinkingIsOver: where the prompt is past the thinking, or leaves it to the model, a format
// binds from the first token.
func TestThinkingIsOver(t *testing.T) {
	for _, c := range []struct {
		name, template string
		cont           bool
		free           bool // the answer may begin with anything
		may            bool // or with the tag of thinking
	}{
		{"open", "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}{% endif %}<think>", false, true, true},
		{"not begun", "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}{% endif %}", false, false, true},
		{"closed", "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}{% endif %}<think>\n\n</think>\n\n", false,
			false, false},
		{"going on with an answer", "{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}{% endif %}", true, false,
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tmpl, err := chat.NewJinja(c.template, "test", chat.JinjaOptions{})
			if err != nil {
				t.Fatal(err)
			}
			p := &parrot{say: "x"}
			m := New(p, Options{Template: tmpl, Vocabulary: letters{}})
			r := Request{Messages: []chat.Message{{Role: "user", Content: "q"}}, Think: chat.ThinkOn, Format: Format{JSON: true},
				Sampling: m.Sampling()}
			if c.cont {
				r.Messages, r.Continue = append(r.Messages, chat.Message{Role: "assistant", Content: "a"}), true
			}
			if _, _, err := collect(m.Chat(context.Background(), r)); err != nil {
				t.Fatal(err)
			}
			if p.job.Mask == nil {
				t.Fatal("no mask")
			}
			if got := p.job.Mask.Allowed('h'); got != c.free {
				t.Errorf("a first letter that begins no JSON is allowed: %v, want %v", got, c.free)
			}
			if got := p.job.Mask.Allowed('<'); got != c.may {
				t.Errorf("the first letter of a tag is allowed: %v, want %v", got, c.may)
			}
		})
	}
}

// TestSlowReaderHasCells: a sequence whose reader does not read gives up its cells for one that
// needs them, at once and when it grows.
func TestSlowReaderHasCells(t *testing.T) {
	for _, prompt := range []int{3, 85} {
		t.Run(fmt.Sprint(prompt), func(t *testing.T) {
			b := onFake(t, newFake(), OpenOptions{CardOptions: still})
			job := greedy([]int32{1, 2, 3}, 2*boxRoom)
			job.Shift, job.NumCtx, job.IgnoreStop = true, 64, true
			s, err := b.m.submit(context.Background(), job, nil)
			if err != nil {
				t.Fatal(err)
			}
			for !s.box.full() {
				<-s.box.wake
			}
			ids := make([]int32, prompt)
			for i := range ids {
				ids[i] = int32(7 + i*5%40)
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			grow := greedy(ids, 90-prompt)
			grow.IgnoreStop = true
			n := 0
			for _, err := range b.Complete(ctx, grow) {
				if err != nil {
					t.Fatalf("after %d tokens: %v", n, err)
				}
				n++
			}
			b.m.forgetCaller(s)
			clean(t, b)
		})
	}
}

// short is an embedding table that lacks a row: that of a token which the fake never says.
type short struct{ *fake }

func (s short) Row(dst []uint16, id int32) error {
	if id == 0 {
		return errors.New("no such row")
	}
	return s.fake.Row(dst, id)
}

// TestNoEmbedding: a token without an embedding ends the request that asked for it, not those
// beside it.
func TestNoEmbedding(t *testing.T) {
	truth := onFake(t, newFake(), OpenOptions{Proven: &Proven{}, CardOptions: still})
	want, _, _ := run(truth, greedy([]int32{1, 2, 3, 4}, 20))
	f := newFake()
	b := onFake(t, f, OpenOptions{CardOptions: still})
	release := hold(b)
	b.m.embed = short{f}
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			if i%2 == 0 {
				if _, _, err := run(b, greedy([]int32{1, 2, 0, int32(4 + i)}, 5)); err == nil {
					t.Error("a token that has no embedding was answered")
				}
			} else if got, _, err := run(b, greedy([]int32{1, 2, 3, 4}, 20)); err != nil || !slices.Equal(got, want) {
				t.Errorf("beside it: %v %v", got, err)
			}
		})
	}
	for b.Stats().Queued < 6 {
		time.Sleep(time.Millisecond)
	}
	release()
	wg.Wait()
	clean(t, b)
}

// TestInOrder: on a card that must use its cells in order, answers in turn neither begin anew for
// ever nor fall out of order.
func TestInOrder(t *testing.T) {
	ids := func(seed, n int) (out []int32) {
		for i := range n {
			out = append(out, int32((seed+i*7)%fakeVocab))
		}
		return out
	}
	// Two prompts with the same beginning, the first's reader away until the second has begun.
	for name, groups := range map[string]int{"wide passes reach": 5, "wide passes do not": 3} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			f.ordered, f.shape.Groups = true, f.shape.Groups[:groups]
			b := onFake(t, f, OpenOptions{CardOptions: still})
			truth := onFake(t, newFake(), OpenOptions{Proven: &Proven{}, CardOptions: still})
			first, second := greedy(append(ids(1, 50), ids(2, 20)...), 5), greedy(append(ids(1, 50), ids(3, 20)...), 5)
			first.IgnoreStop, second.IgnoreStop = true, true
			release := hold(b)
			s, err := b.m.submit(context.Background(), first, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range boxRoom {
				s.box.put(Token{ID: -1})
			}
			begun, both := make(chan struct{}), make(chan struct{})
			at := f.passes + 1
			f.run = func(n int) error {
				if n == at {
					close(begun)
					<-both
				}
				return nil
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			var got []int32
			done := make(chan error, 1)
			go func() {
				for tok, err := range b.Complete(ctx, second) {
					if err != nil {
						done <- err
						return
					}
					if tok.Final == "" {
						got = append(got, tok.ID)
					}
				}
				done <- nil
			}()
			for b.Stats().Queued < 2 {
				time.Sleep(time.Millisecond)
			}
			release()
			<-begun
			_, _, _ = s.box.take(nil) // the reader is back
			close(both)
			var out []int32
			for closed := false; !closed; {
				var tokens []Token
				if tokens, err, closed = s.box.take(nil); err != nil {
					t.Fatal(err)
				}
				for _, tok := range tokens {
					if tok.Final == "" {
						out = append(out, tok.ID)
					}
				}
				if !closed {
					select {
					case <-s.box.wake:
					case <-ctx.Done():
						t.Fatal("neither comes to an end")
					}
				}
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			b.m.forgetCaller(s)
			for i, job := range []Job{first, second} {
				want, _, _ := run(truth, job)
				if have := [][]int32{out, got}[i]; !slices.Equal(have, want) {
					t.Errorf("prompt %d: %v, want %v", i, have, want)
				}
			}
			clean(t, b)
		})
	}
	t.Run("vectors", func(t *testing.T) {
		f := newFake()
		f.ordered = true
		b, truth := onFake(t, f, OpenOptions{CardOptions: still}), onFake(t, newFake(), OpenOptions{Proven: &Proven{}, CardOptions: still})
		b.pooling, truth.pooling = "mean", "mean"
		inputs := [][]int32{ids(1, 30), ids(2, 25), ids(1, 28)}
		got, err := b.Embed(context.Background(), inputs, "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range inputs {
			want, err := truth.Embed(context.Background(), inputs[i:i+1], fmt.Sprint(i))
			if err != nil || !slices.Equal(got[i], want[0]) {
				t.Errorf("input %d has another vector than alone (%v)", i, err)
			}
		}
		clean(t, b)
	})
}

// TestPleased: an answer whose reader had what it wanted is done, though its client is gone by the
// time the worker looks.
func TestPleased(t *testing.T) {
	for _, pleased := range []bool{true, false} {
		f := newFake()
		b := onFake(t, f, OpenOptions{CardOptions: still})
		ctx, cancel := context.WithCancel(context.Background())
		job := greedy([]int32{1, 2, 3}, 80)
		job.IgnoreStop = true
		left := make(chan struct{}) // the worker is in the middle of an answer until then
		at := f.passes + 5
		f.run = func(n int) error {
			if n == at {
				<-left
			}
			return nil
		}
		for range b.Complete(ctx, job) {
			if !pleased {
				cancel()
			}
			break
		}
		cancel()
		close(left)
		clean(t, b)
		if st := b.Stats(); st.Done == 1 != pleased || st.Cancelled == 0 != pleased {
			t.Errorf("%d done, %d cancelled; pleased: %v", st.Done, st.Cancelled, pleased)
		}
	}
}

// TestUnequalGroups: wide passes that see more carry fewer rows: guesses and prompts keep to what a
// pass that reaches can carry.
func TestUnequalGroups(t *testing.T) {
	f := newFake()
	f.shape.Groups = []axcl.Group{{Rows: 1, Cells: 96}, {Rows: 16, Cells: 0}, {Rows: 16, Cells: 24}, {Rows: 4, Cells: 88}}
	b := onFake(t, f, OpenOptions{CardOptions: still})
	truth := onFake(t, newFake(), OpenOptions{Proven: &Proven{}, CardOptions: still})
	var wg sync.WaitGroup
	for i := range 3 {
		job := greedy([]int32{48, 53, 58, 63, 52, 57, 62, 51, 56, 61, 50, 55, 60, 49, 54, 59, 48, 53, 58, 63, 52, 57, int32(i)}, 50)
		job.Key, job.IgnoreStop = fmt.Sprint(i), true
		want, _, _ := run(truth, job)
		wg.Go(func() {
			if got, _, err := run(b, job); err != nil && !errors.As(err, new(*ContextError)) || !slices.Equal(got, want[:len(got)]) {
				t.Errorf("%v %v, want %v", got, err, want)
			}
		})
	}
	wg.Wait()
	clean(t, b)
}

// TestCrowd (T16): a client that fills the queue makes room for another's first request, and only
// for as many as it has more.
func TestCrowd(t *testing.T) {
	b := onFake(t, newFake(), OpenOptions{MaxQueue: 6, CardOptions: still})
	release := hold(b)
	submit := func(key string) (*seq, error) {
		job := greedy([]int32{1, 2, 3}, 3)
		job.Key = key
		return b.m.submit(context.Background(), job, nil)
	}
	var many, few []*seq
	for range 6 {
		s, err := submit("many")
		if err != nil {
			t.Fatal(err)
		}
		many = append(many, s)
	}
	if _, err := submit("many"); !errors.Is(err, ErrBusy) {
		t.Errorf("the client that filled the queue: %v, want ErrBusy", err)
	}
	for i := range 4 {
		s, err := submit("few")
		if ok := i < 3; ok != (err == nil) {
			t.Errorf("the other's request %d: %v", i, err)
		}
		if s != nil {
			few = append(few, s)
		}
	}
	release()
	for i, s := range slices.Concat(many, few) {
		var err error
		for closed := false; !closed; {
			if _, err, closed = s.box.take(nil); !closed {
				<-s.box.wake
			}
		}
		if gone := i >= 3 && i < 6; gone != errors.Is(err, ErrBusy) {
			t.Errorf("request %d: %v", i, err)
		}
		b.m.forgetCaller(s)
	}
	clean(t, b)
}

// TestCheckupInOrder (D6): the hourly question is put to a card that must use its cells in order as
// it was at load, whatever ran since.
func TestCheckupInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.ordered = true
		b := onFake(t, f, OpenOptions{})
		if err := b.card.Do(context.Background(), func(axcl.Device) error { return b.m.canary.remember(nil) }); err != nil {
			t.Fatal(err)
		}
		if _, _, err := run(b, greedy([]int32{1, 2, 3}, 20)); err != nil {
			t.Fatal(err)
		}
		<-time.After(2 * time.Hour)
		if err := b.card.Err(); err != nil {
			t.Error(err)
		}
		_ = b.Close()
	})
}

// TestCheckupFails (D4): a question that the card could not take is put again; the third failure
// within a minute loses the card.
func TestCheckupFails(t *testing.T) {
	//proves:D4
	for _, failures := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			b := onFake(t, f, OpenOptions{})
			if err := b.card.Do(context.Background(), func(axcl.Device) error {
				left := failures
				f.run = func(int) error {
					if left--; left >= 0 {
						return &axcl.Error{Op: "axclrtEngineExecute", Code: 0x8030070c}
					}
					return nil
				}
				b.m.canary.sample = []int32{0} // something to ask
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Hour + 10*time.Second)
			if err := b.card.Err(); err != nil {
				t.Errorf("after one failure: %v", err)
			}
			<-time.After(time.Minute)
			if err := b.card.Err(); (failures == 3) != (err != nil && !errors.Is(err, ErrWrong)) {
				t.Errorf("after %d failures: %v", failures, err)
			}
			_ = b.Close()
		})
	}
}

// onLink is a fake whose link can be looked at.
type onLink struct {
	*fake
	off atomic.Bool
}

func (o *onLink) Gone() bool { return o.off.Load() }

// TestLinkSeen (D8): a card that is off its link is lost within about a second, idle and in the
// middle of a call that does not return.
func TestLinkSeen(t *testing.T) {
	for _, busy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := &onLink{fake: newFake()}
			lost := make(chan error, 1)
			card, err := OpenCard(func() (axcl.Device, string, error) { return o, "test", nil },
				CardOptions{Lost: func(err error) { lost <- err }})
			if err != nil {
				t.Fatal(err)
			}
			hang := make(chan struct{})
			if busy {
				go func() {
					_ = card.Do(context.Background(), func(axcl.Device) error {
						return card.Watched(0, func() error { <-hang; return nil })
					})
				}()
			}
			<-time.After(5 * time.Second)
			o.off.Store(true)
			start := time.Now()
			if err := <-lost; !errors.Is(err, axcl.ErrLost) || time.Since(start) > 1100*time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(start))
			}
			close(hang)
			_ = card.Close()
			synctest.Wait()
		})
	}
}

// noDevice is a fake that is there when it is opened and is not later.
type noDevice struct {
	*fake
	away atomic.Bool
}

func (n *noDevice) Info() (axcl.Info, error) {
	if n.away.Load() {
		return axcl.Info{}, &axcl.Error{Op: "axclrtGetDeviceProperties", Code: 0x80300184}
	}
	return n.fake.Info()
}

// TestNoLongerThere (D8): a card that the library no longer knows is lost, with nothing running
// too.
func TestNoLongerThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &noDevice{fake: newFake()}
		card, err := OpenCard(func() (axcl.Device, string, error) { return n, "test", nil }, CardOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.away.Store(true)
		<-time.After(2 * infoEvery)
		if err := card.Err(); !errors.Is(err, axcl.ErrLost) {
			t.Errorf("%v, want ErrLost", err)
		}
		_ = card.Close()
	})
}

// TestFullAndLost: of two copies one's queue is full and the other's card is lost: that is a full
// queue, not the end of all.
func TestFullAndLost(t *testing.T) {
	busy := onFake(t, newFake(), OpenOptions{MaxQueue: 1, CardOptions: still})
	f := newFake()
	f.heat = func() float64 { return 97 }
	dying := onFake(t, f, OpenOptions{CardOptions: still})
	r := Replicate(busy, dying)
	release := hold(busy)
	s, err := busy.m.submit(context.Background(), greedy([]int32{1}, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := dying.card.Do(context.Background(), func(axcl.Device) error {
		f.run = func(int) error { return axcl.ErrLost }
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds the one copy dead
		if _, _, err := run(r, greedy([]int32{1, 2, 3}, 5)); !errors.Is(err, ErrBusy) || errors.Is(err, axcl.ErrLost) {
			t.Errorf("%v, want ErrBusy", err)
		}
	}
	if st := r.Stats(); st.Temperature != 0 {
		t.Errorf("%v °C, which a lost card said last", st.Temperature)
	}
	release()
	busy.m.forgetCaller(s)
	_ = r.Close()
}

// TestTopLogprobsAlone: the most likely tokens come with each one's own probability, asked for or
// not.
func TestTopLogprobsAlone(t *testing.T) {
	b := onFake(t, newFake(), OpenOptions{CardOptions: still})
	job := greedy([]int32{1, 2, 3}, 2)
	job.Sampling.TopLogprobs = 3
	for tok, err := range b.Complete(context.Background(), job) {
		if err != nil {
			t.Fatal(err)
		}
		if tok.Final == "" && (tok.Logprob == nil || len(tok.Logprob.Top) != 3) {
			t.Errorf("%+v", tok.Logprob)
		}
	}
}

// TestThinkingTag: a family that ends its thinking in its own way is waited for in that way.
func TestThinkingTag(t *testing.T) {
	tmpl, err := chat.NewJinja("{% for m in messages %}{{ m.content }}{% endfor %}{% if enable_thinking %}<|thought_start|>{% endif %}{# "+
		"<|tool_call_start|> #}", "minicpm", chat.JinjaOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const end = "<|thought_end|>"
	p := &parrot{say: "x"}
	m := New(p, Options{Template: tmpl, Vocabulary: letters{}})
	if _, _, err := collect(m.Chat(context.Background(), Request{Messages: []chat.Message{{Role: "user", Content: "q"}},
		Think: chat.ThinkOn, Format: Format{JSON: true}, Sampling: m.Sampling()})); err != nil {
		t.Fatal(err)
	}
	for _, c := range []byte("so" + end) {
		if err := p.job.Mask.Accept(int32(c)); err != nil {
			t.Fatalf("%q of the thinking: %v", c, err)
		}
	}
	if p.job.Mask.Accept('h') == nil {
		t.Error("behind the thinking the format does not bind")
	}
}

// TestEndlessTemplate: a template that comes to no end is the request's fault.
func TestEndlessTemplate(t *testing.T) {
	tmpl, err := chat.NewGo("{{ range .Messages }}{{ range $.Messages }}{{ range $.Messages }}{{ range $.Messages }}{{ .Content }}{{ end " +
		"}}{{ end }}{{ end }}{{ end }}")
	if err != nil {
		t.Fatal(err)
	}
	m := New(&parrot{say: "x"}, Options{Template: tmpl})
	var many []chat.Message
	for i := range 100 {
		many = append(many, chat.Message{Role: []string{"user", "assistant"}[i%2], Content: "hello"})
	}
	if _, _, err := collect(m.Chat(context.Background(), Request{Messages: many, Sampling: m.Sampling()})); !errors.Is(err, ErrRequest) {
		t.Errorf("%v, want ErrRequest", err)
	}
}
