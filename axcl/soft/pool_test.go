package soft

import (
	"slices"
	"testing"
)

// Every part of a task is run once, by however many workers: each takes its own share in order, and
// of others' shares the last parts first. Who is late in one task may begin the next one with
// another's parts.
func TestPool(t *testing.T) {
	for n := 1; n <= 5; n++ {
		p := newPool(n)
		took := make([][]int, n)
		for w := range took {
			took[w] = make([]int, 0, 64)
		}
		for round := range 2000 {
			count := round % 61
			for w := range took {
				took[w] = took[w][:0]
			}
			p.run(count, func(w, i int) { took[w] = append(took[w], i) })
			var all []int
			for w, parts := range took {
				all = append(all, parts...)
				last := -1
				for _, i := range parts {
					if w*count/n > i || i >= (w+1)*count/n {
						continue
					}
					if i < last {
						t.Fatalf("worker %d of %d takes these of %d parts: %v", w, n, count, parts)
					}
					last = i
				}
			}
			if slices.Sort(all); len(all) != count || count > 0 && (all[0] != 0 || all[count-1] != count-1) ||
				len(slices.Compact(all)) != count {
				t.Fatalf("%d workers: of %d parts these are run: %v", n, count, all)
			}
		}
		p.close()
	}
	s := share{}
	s.set(3, 6)
	for i, want := range []int{3, 5, 4} {
		if got, ok := s.take(i%2 == 0); !ok || got != want {
			t.Errorf("part %d was taken where %d was next", got, want)
		}
	}
	if i, ok := s.take(true); ok {
		t.Errorf("part %d was taken of none", i)
	}
}
