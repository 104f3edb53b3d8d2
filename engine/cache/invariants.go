//go:build invariants

package cache

import "fmt"

// CheckSeqs is Check with the sequences that stand on the tree. It also returns an error for a
// sequence that does not match its rows.
func CheckSeqs(t *Tree, seqs []*Seq, ids func(i int) []int32) error {
	stand, reserved := make([]int32, t.Size()), make([]bool, t.Size())
	for at, s := range seqs {
		parent := t.root(s.Key)
		for i, n := range s.Path {
			if id := ids(at)[i]; t.state[n] != cellNode || t.parent[n] != parent || t.token[n] != id {
				return fmt.Errorf("cell %d is in state %d with token %d under %d; a sequence has it for token %d (its number %d) under %d",
					n, t.state[n], t.token[n], t.parent[n], id, i, parent)
			}
			if s.See[n/64]>>(n%64)&1 == 0 {
				return fmt.Errorf("a sequence stands on cell %d and does not see it", n)
			}
			parent = n
		}
		for _, n := range s.Reserved {
			reserved[n] = true
		}
		if n := len(s.Path); n > 0 {
			stand[s.Path[n-1]]++
		}
	}
	for n, is := range reserved {
		if !is && t.reserved[n/64]>>(n%64)&1 == 1 {
			return fmt.Errorf("cell %d is reserved, for no sequence", n)
		}
	}
	_, err := Check(t, stand)
	return err
}
