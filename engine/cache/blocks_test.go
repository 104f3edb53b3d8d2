package cache

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/axle-llm/axle/prefix"
)

// TestBlocksTold: after every change of random trees, on the card and in memory, exactly the blocks
// were told that the rows make. What is there is found anew from the roots, text by text.
func TestBlocksTold(t *testing.T) {
	const size = 4
	for seed := range uint64(6) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := New(160)
		r := &recorder{t: t, tokens: map[prefix.Name][]int32{}, at: map[string]map[prefix.Name]int{OnCard: {}, InMemory: {}}}
		names := func(key string) *prefix.Chain { return prefix.New([]byte("secret"), size, []string{key}) }
		listening := false
		listen := func() {
			(&Blocks{Size: size, Names: names, Listener: r}).Listen(c)
			listening = true
		}
		if seed%2 == 0 {
			listen()
		}
		var memory *RAM
		var seqs []*Seq
		for step := range 1500 {
			if step == 100 && !listening {
				listen()
			}
			if step == 200 {
				if memory = NewMemory(400*8).Open(8, 8, c); memory == nil {
					t.Fatal("no memory")
				}
				defer memory.Close()
			}
			switch op := rng.IntN(12); {
			case op < 2 && len(seqs) < 4: // a text that begins like others, and goes on
				s := NewSeq([]string{"", "ann"}[rng.IntN(2)], c.Size(), false)
				ids := make([]int32, 3+rng.IntN(20))
				for i := range ids {
					ids[i] = int32(rng.IntN(2))
				}
				if rng.IntN(6) == 0 {
					ids[rng.IntN(len(ids))] = -1 - int32(rng.IntN(2)) // a picture's row
				}
				c.Stand(&s, c.Match(s.Key, ids, len(ids)))
				for _, id := range ids[len(s.Path):] {
					if n, ok := c.Take(nil, 1, 0, true); ok {
						c.Commit(&s, n[0], id)
					}
				}
				seqs = append(seqs, &s)
			case op < 7 && len(seqs) > 0:
				s := seqs[rng.IntN(len(seqs))]
				if n, ok := c.Take(nil, 1, 0, true); ok {
					c.Commit(s, n[0], int32(rng.IntN(2)))
				}
			case op == 7 && len(seqs) > 0: // rows that were guessed wrongly
				s := seqs[rng.IntN(len(seqs))]
				if tip := c.Tip(s); tip >= 0 && rng.IntN(2) == 0 {
					c.leave(s)
					c.Prune(tip, 1+rng.IntN(6))
					seqs = slices.DeleteFunc(seqs, func(o *Seq) bool { return o == s })
				}
			case op == 8 && len(seqs) > 0:
				i := rng.IntN(len(seqs))
				c.leave(seqs[i])
				seqs = slices.Delete(seqs, i, i+1)
			case op == 9 && memory != nil:
				if p, ok, _ := memory.Choose(func(int, int, int, int) bool { return true }); ok {
					memory.Store(p, rng.IntN(8) == 0)
				}
			case op == 10: // a row that moves
				from := int32(rng.IntN(c.Size()))
				if to, ok := c.Take(nil, 1, 0, true); ok && c.Holds(from) && len(seqs) == 0 {
					c.Relocate(from, to[0])
				} else if ok {
					c.Give(to...)
				}
			case step%300 == 0:
				c.Forget()
			}
			if step%16 != 0 {
				continue
			}
			if listening {
				r.same(OnCard, blocksOf(c, size, names))
			}
			if memory != nil {
				r.same(InMemory, blocksOf(memory.tree, size, names))
			}
		}
		if len(r.at[OnCard]) == 0 && r.most == 0 || r.closed {
			t.Fatal("no block was told")
		}
		if Unlisten(c); !r.closed {
			t.Error("the listener was not closed")
		}
		Unlisten(c) // does nothing
	}
}

// blocksOf finds the blocks of a tree's texts, and how often each is there.
func blocksOf(c *Tree, size int, names func(string) *prefix.Chain) map[prefix.Name]int {
	all := map[prefix.Name]int{}
	for n := range int32(c.Size()) {
		if !c.Holds(n) {
			continue
		}
		path, root := c.pathTo(n)
		ids := make([]int32, len(path))
		for i, p := range path {
			ids[i] = c.token[p]
		}
		if len(ids)%size == 0 && slices.Min(ids) >= 0 {
			list := names(c.names[^root]).Blocks(ids, nil)
			all[list[len(list)-1]]++
		}
	}
	return all
}

// recorder notes what it is told.
type recorder struct {
	t      *testing.T
	at     map[string]map[prefix.Name]int
	tokens map[prefix.Name][]int32
	most   int
	closed bool
}

func (r *recorder) Stored(place, _ string, name prefix.Name, before *prefix.Name, tokens []int32) {
	if before != nil && r.at[place][*before] == 0 {
		r.t.Fatalf("a block on the %s stands behind one that is not there", place)
	}
	if known, ok := r.tokens[name]; ok && !slices.Equal(known, tokens) {
		r.t.Fatalf("one name for %v and %v", known, tokens)
	}
	r.tokens[name] = slices.Clone(tokens)
	r.at[place][name]++
	r.most = max(r.most, len(r.at[place]))
}

func (r *recorder) Removed(place string, name prefix.Name) {
	if r.at[place][name]--; r.at[place][name] < 0 {
		r.t.Fatalf("a block leaves the %s that was not there", place)
	}
	if r.at[place][name] == 0 {
		delete(r.at[place], name)
	}
}

func (r *recorder) Close() { r.closed = true }

func (r *recorder) same(place string, want map[prefix.Name]int) {
	r.t.Helper()
	if !maps.Equal(r.at[place], want) {
		r.t.Fatalf("on the %s %d blocks were told, there are %d", place, len(r.at[place]), len(want))
	}
}
