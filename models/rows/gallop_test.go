package rows

import (
	"errors"
	"math/bits"
	"testing"
)

// TestGallop: whatever is there is found, with few questions; what is not there costs one.
func TestGallop(t *testing.T) {
	for n := range 70 {
		for have := range n + 1 {
			asked := 0
			got, err := Gallop(n, func(i int) (bool, error) {
				if asked++; i < 0 || i >= n {
					t.Fatalf("asked for %d of %d", i, n)
				}
				return i < have, nil
			})
			if got != have || err != nil || asked > 2*bits.Len(uint(have))+2 || have == 0 && asked > 1 {
				t.Errorf("%d of %d: %d after %d questions, %v", have, n, got, asked, err)
			}
		}
	}
	broken := errors.New("broken")
	got, err := Gallop(10, func(i int) (bool, error) {
		if i > 1 {
			return false, broken
		}
		return true, nil
	})
	if !errors.Is(err, broken) || got < 1 || got > 2 {
		t.Errorf("%d, %v", got, err)
	}
}
