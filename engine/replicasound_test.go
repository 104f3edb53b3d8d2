package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"testing"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/lane"
	"github.com/axle-llm/axle/models"
)

// TestReplicasHear: on two cards a sound is written down by one that can. Once a part of the sound
// was read it stays where it is, since the other card would miss that part.
func TestReplicasHear(t *testing.T) {
	gone := fmt.Errorf("%w: the link is down", axcl.ErrLost)
	text := func(r Backend) (all string, err error) {
		for s, err := range r.(hears).Transcribe(t.Context(), TranscribeRequest{Sound: hearing(make([]float32, 99))}) {
			if err != nil {
				return all, err
			}
			all += s.Text
		}
		return all, nil
	}
	for _, c := range []struct {
		name          string
		first, second ear
		want          string
		err           error
	}{
		{"both", ear{says: "a"}, ear{says: "b"}, "a", nil},
		{"the first is lost before it reads", ear{early: gone}, ear{says: "b"}, "b", nil},
		{"the first is full", ear{early: ErrBusy}, ear{says: "b"}, "b", nil},
		{"the first is lost while it reads", ear{late: gone}, ear{says: "b"}, "", axcl.ErrLost},
		{"the first is lost behind a text", ear{says: "a", last: gone}, ear{says: "b"}, "a", axcl.ErrLost},
		{"both are lost", ear{early: gone}, ear{early: gone}, "", axcl.ErrLost},
		{"a mistake of the request", ear{early: ErrRequest}, ear{says: "b"}, "", ErrRequest},
	} {
		got, err := text(Replicate(&c.first, &c.second))
		if fewer := new(FewerError); errors.As(err, &fewer) { // which is not the card's own error
			err = fewer.Cause
		}
		if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %q, %v, want %q, %v", c.name, got, err, c.want, c.err)
		}
	}
	r := Replicate(&ear{early: gone}, &ear{says: "b"})
	for range 2 { // the lost one is not asked again
		if got, err := text(r); got != "b" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	deaf := New(Replicate(named{}, named{}), Options{Name: "mute"})
	for _, err := range deaf.Transcribe(t.Context(), TranscribeRequest{}) {
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("a model that does not hear: %v", err)
		}
	}
	for _, err := range deaf.Speak(t.Context(), SpeakRequest{}) {
		if !errors.Is(err, ErrUnsupported) {
			t.Errorf("a model that does not speak: %v", err)
		}
	}
}

// TestTwoCardsOfSound: recognisers and speakers on two cards do what they do on one, also when one
// card is lost.
func TestTwoCardsOfSound(t *testing.T) {
	lane.NoRace(t)
	for _, k := range sounding() {
		t.Run(k.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := k.write(dir); err != nil {
				t.Fatal(err)
			}
			work := func(device string, lose bool) (all []any) {
				cards, err := OpenCards(device, CardOptions{Check: -1})
				if err != nil {
					t.Fatal(err)
				}
				defer cards.Close()
				p, err := models.OpenAny(dir)
				if err != nil {
					t.Fatal(err)
				}
				m, err := OpenAny(t.Context(), p, OpenOptions{Copies: cards.Copies})
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				for turn := range 2 {
					if lose && turn > 0 {
						cards.Copies[0].Lose(errors.New("pulled out"))
					}
					one, err := k.ask(m, "", 3)
					if err != nil || reflect.ValueOf(one).Len() == 0 {
						t.Fatalf("%s, turn %d: %+v, %v", device, turn, one, err)
					}
					all = append(all, one)
				}
				return all
			}
			one := work("soft", false)
			if two := work("soft,soft", false); !reflect.DeepEqual(one, two) {
				t.Errorf("two cards answer otherwise:\n%+v\n%+v", one, two)
			}
			if two := work("soft,soft", true); !reflect.DeepEqual(one, two) {
				t.Errorf("two cards answer otherwise where one is lost:\n%+v\n%+v", one, two)
			}
		})
	}
}

// named is a backend that does nothing.
type named struct{ Backend }

func (named) Info() Info   { return Info{Name: "one"} }
func (named) Stats() Stats { return Stats{} }

// ear is a backend that hears: it may fail before it reads, while it does, or behind a text.
type ear struct {
	named
	early, late, last error
	says              string
}

func (e *ear) Transcribe(_ context.Context, r TranscribeRequest) iter.Seq2[Segment, error] {
	return func(yield func(Segment, error) bool) {
		if e.early != nil {
			yield(Segment{}, e.early)
			return
		}
		if _, err := r.Sound.Read(make([]float32, 9)); err != nil && err != io.EOF { //nolint:errorlint // as ask.Sound has it
			yield(Segment{}, err)
			return
		}
		if e.late != nil {
			yield(Segment{}, e.late)
			return
		}
		if yield(Segment{Text: e.says}, nil) && e.last != nil {
			yield(Segment{}, e.last)
		}
	}
}
