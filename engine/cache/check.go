package cache

import "fmt"

// Check reports a cell whose account is wrong, and how many nodes there are. stand is how many
// sequences stand on each; nil: that is not looked at, nor whether a pass has cells. It costs too
// much for every day.
func Check(t *Tree, stand []int32) (nodes int, err error) {
	seen := make([]bool, t.Size())
	var walk func(parent int32) error
	walk = func(parent int32) error {
		before := none
		for n := t.first(parent); n != none; n = t.next[n] {
			if seen[n] || t.state[n] != cellNode || t.parent[n] != parent || t.prev[n] != before {
				return fmt.Errorf("node %d: seen %v, state %d, parent %d (want %d), prev %d (want %d)", n, seen[n], t.state[n], t.parent[n],
					parent, t.prev[n], before)
			}
			seen[n], before = true, n
			nodes++
			if err := walk(n); err != nil {
				return err
			}
		}
		return nil
	}
	for r := range t.roots {
		if err := walk(^int32(r)); err != nil {
			return nodes, err
		}
	}
	free := 0
	for i, st := range t.state {
		bit := t.free[i/64]>>(i%64)&1 == 1
		switch {
		case bit != (st == cellFree):
			return nodes, fmt.Errorf("cell %d: free bit %v, state %d", i, bit, st)
		case st == cellNode && !seen[i]:
			return nodes, fmt.Errorf("cell %d is a node that no root reaches", i)
		case stand != nil && st == cellTaken:
			return nodes, fmt.Errorf("cell %d was taken by a pass and neither kept nor given back", i)
		case stand != nil && t.refs[i] != stand[i]:
			return nodes, fmt.Errorf("cell %d: %d sequences are said to stand on it, %d do", i, t.refs[i], stand[i])
		}
		if bit {
			free++
		}
	}
	if free != t.nfree {
		return nodes, fmt.Errorf("%d cells are free, the account says %d", free, t.nfree)
	}
	return nodes, nil
}

// CheckSeqs is Check for the sequences that stand on the tree, and reports one whose rows are not
// what it has.
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
