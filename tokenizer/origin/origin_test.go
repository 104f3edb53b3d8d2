package origin

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestMarkedText holds Text against the plain thing: a byte and a mark each.
func TestMarkedText(t *testing.T) {
	//proves:T2
	type plain struct {
		s     string
		marks []bool
	}
	same := func(what string, got Text, want plain) {
		t.Helper()
		at := 0
		for s, given := range got.Runs() {
			for range len(s) {
				if given != want.marks[at] || got.GivenAt(at) != given {
					t.Fatalf("%s: byte %d of %q is marked %v", what, at, got, given)
				}
				at++
			}
		}
		if got.String() != want.s || at != len(want.marks) || got.Len() != at {
			t.Fatalf("%s: %q, want %q", what, got, want.s)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var texts []Text
		var all plain
		for range r.IntN(6) {
			s, given := strings.Repeat("ab", r.IntN(3)), r.IntN(2) == 0
			if texts = append(texts, Own(s)); given {
				texts[len(texts)-1] = Given(s)
			}
			all.s += s
			for range len(s) {
				all.marks = append(all.marks, given)
			}
		}
		joined := Join(texts, Text{})
		same("joined", joined, all)
		i := r.IntN(len(all.s) + 1)
		j := i + r.IntN(len(all.s)-i+1)
		same("slice", joined.Slice(i, j), plain{all.s[i:j], all.marks[i:j]})
		same("slice of a slice", joined.Slice(0, j).Slice(i, j), plain{all.s[i:j], all.marks[i:j]})
		same("map", joined.Map(strings.ToUpper), plain{strings.ToUpper(all.s), all.marks})
		var marks []bool
		for k := 0; k < len(all.s); k++ {
			if all.s[k] == 'b' {
				marks = append(marks, true, true)
			} else {
				marks = append(marks, all.marks[k])
			}
		}
		same("replace", joined.Replace("b", Given("cd"), -1), plain{strings.ReplaceAll(all.s, "b", "cd"), marks})
	}
}

// TestMeter: steps, bytes, depth and the context end a rendering; what is too large is refused
// before it is made.
func TestMeter(t *testing.T) {
	//proves:T7
	m := NewMeter(t.Context(), nil)
	if err := m.Step(MaxSteps); err != nil {
		t.Error(err)
	}
	if err := m.Step(1); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
	for _, n := range []int{-1, MaxText + 1} {
		if err := NewMeter(t.Context(), nil).Grow(n); !errors.Is(err, ErrBudget) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	m = NewMeter(t.Context(), nil)
	var err error
	for n := 0; n <= MaxBytes && err == nil; n += MaxText {
		err = m.Grow(MaxText)
	}
	if !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
	m = NewMeter(t.Context(), nil)
	for range MaxDepth {
		if err := m.Enter(); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.Enter(); !errors.Is(err, ErrBudget) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m = NewMeter(ctx, nil)
	cancel()
	for range 8192 {
		if err = m.Step(1); err != nil {
			break
		}
	}
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRoom: all renderings make no more together than their room has; what is done gives its part
// back.
func TestRoom(t *testing.T) {
	room := &Room{Size: 40 << 20}
	var open []*Meter
	refused := 0
	for range 64 {
		m := NewMeter(t.Context(), room)
		defer m.Close()
		open = append(open, m)
		for range 8 {
			if err := m.Grow(1 << 20); errors.Is(err, ErrRoom) {
				refused++
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	if room.Taken() > room.Size || refused < 50 {
		t.Errorf("%d bytes taken, %d refused", room.Taken(), refused)
	}
	if err := NewMeter(t.Context(), room).Grow(free); err != nil { // every rendering has as much
		t.Error(err)
	}
	for _, m := range open {
		m.Close()
		m.Close()
	}
	if room.Taken() != 0 {
		t.Errorf("%d bytes are still taken", room.Taken())
	}
}
