package budget

import (
	"strings"
	"testing"
)

// TestBudget: all parts together are below a gibibyte, a small machine gives a quarter of its
// memory, each part in proportion and none less than half, and an unknown one is no small
// machine.
func TestBudget(t *testing.T) {
	//proves:T7
	full := Full()
	if full.Sum() > 1000*mib || Get() != full {
		t.Errorf("%v", full)
	}
	for _, total := range []int64{0, -1, 4 << 30, 16 << 30, 1 << 50} {
		if b := Of(total); b != full {
			t.Errorf("of %d bytes: %v", total, b)
		}
	}
	for _, total := range []int64{1, 512 << 20, 1 << 30, 2 << 30, 3 << 30} {
		b := Of(total)
		if b.Sum() > max(total/small, full.Sum()/2) || b.Sum() < full.Sum()/2-8*mib {
			t.Errorf("of %d bytes: %v", total, b)
		}
		ours, theirs := b.parts(), full.parts()
		for i, p := range ours {
			if *p.bytes < *theirs[i].bytes/2-mib || *p.bytes > *theirs[i].bytes {
				t.Errorf("of %d bytes: %s has %d, of %d", total, p.name, *p.bytes, *theirs[i].bytes)
			}
		}
	}
	two := Of(2 << 30)
	if s := two.String(); !strings.Contains(s, "requests ") || !strings.Contains(s, "pictures while they are decoded ") {
		t.Error(s)
	}
	Set(two)
	defer current.Store(nil)
	if Get() != two {
		t.Error("what was set is not what is had")
	}
}
