package cache

import "fmt"

// Check returns an error for a cell whose account is wrong, and the number of nodes. stand is how
// many sequences stand on each cell. If it is nil, neither this nor whether a pass has cells is
// checked. Check is too slow for production.
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
