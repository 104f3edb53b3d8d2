package rows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/axle-llm/axle/prefix"
)

// This file keeps the states of models whose layers have some. A state may stand after any row, and
// is of use only with all rows before it. So its file, <64 hex>.state, also holds the rows after
// the last whole block, and is not found where a block before it is missing. It is removed earlier
// than they are. Otherwise it is a file like those of blocks.

const (
	stateMagic = "axlesta1"
	stateEnd   = ".state"
)

// StateKey names a state.
type StateKey struct {
	Key
	tail int // rows behind the last whole block
}

// Length is how many rows the state is after.
func (s *Space) Length(k StateKey) int { return k.depth*s.d.o.Block + k.tail }

// StateKey is the name of the state after the tokens. Keys are the names of their whole blocks, or
// of more; there is at least one token.
func (s *Space) StateKey(ids []int32, keys []Key) StateKey {
	n := s.d.o.Block
	depth := len(ids) / n
	var before prefix.Name
	if depth > 0 {
		before = keys[depth-1].name
	}
	return StateKey{Key{s.names.End(stateMagic, uint64(s.o.State), before, ids), depth}, len(ids) % n}
}

func (s *Space) stateFile(k StateKey) string {
	return s.file(k.Key) + stateEnd
}

func (s *Space) stateSize(k StateKey) int { return overhead + k.tail*s.o.Row + s.o.State }

// HasState reports whether the state seems to be there. Only LoadState knows whether it is sound.
func (s *Space) HasState(k StateKey) bool {
	ok, in := within(s.d, func() bool { return s.hasState(k) })
	return ok && in
}

func (s *Space) hasState(k StateKey) bool {
	if s.d.off.Load() {
		return false
	}
	st, err := s.d.stat(s.stateFile(k))
	return err == nil && st.Size() == int64(s.stateSize(k))
}

// FindState is the longest beginning of the tokens after which a state seems to be there, and all
// blocks before it; false where there is none. Keys are the names of the tokens' blocks.
func (s *Space) FindState(ids []int32, keys []Key) (StateKey, bool) {
	ids = slices.Clone(ids) // the caller's, which may outlive this call in one that hangs
	k, _ := within(s.d, func() *StateKey { return s.findState(ids, keys) })
	if k == nil {
		return StateKey{}, false
	}
	return *k, true
}

// findState is FindState; nil: there is none.
func (s *Space) findState(ids []int32, keys []Key) *StateKey {
	n := s.d.o.Block
	for b := s.find(keys); b >= 0 && !s.d.off.Load(); b-- {
		for end := min(len(ids), b*n+n-1); end >= max(b*n, 1); end-- {
			if k := s.StateKey(ids[:end], keys); s.hasState(k) {
				return &k
			}
		}
	}
	return nil
}

// LoadState reads a state and the rows behind the last block before it: as many as those are, times
// Owner.Row, and Owner.State bytes. It reports whether they are there, whole and sound; else rows
// and state hold nothing that may be used.
func (s *Space) LoadState(k StateKey, rows, state []byte) bool {
	if !s.fits(k, rows, state) {
		return false
	}
	return s.load(s.stateFile(k), k.Key, s.stateHeader(k), rows, state)
}

// SaveState is Save for a state and the rows behind the last block before it, which are to be kept
// already.
func (s *Space) SaveState(k StateKey, rows, state []byte) error {
	if s.d.off.Load() {
		return ErrOff
	}
	if !s.fits(k, rows, state) {
		return fmt.Errorf("rows: a state of %d bytes and rows of %d, wanted are %d and %d", len(state), len(rows),
			s.o.State, k.tail*s.o.Row)
	}
	return s.save(s.stateFile(k), k.Key, s.stateHeader(k), rows, state)
}

func (s *Space) fits(k StateKey, rows, state []byte) bool {
	return len(rows) == k.tail*s.o.Row && len(state) == s.o.State && len(state) > 0 && len(rows)+len(state) <= maxBytes
}

func (s *Space) stateHeader(k StateKey) []byte {
	h := s.header(k.Key, s.o.State)
	copy(h[:], stateMagic)
	return h[:]
}

func isState(name string) bool { return strings.HasSuffix(name, stateEnd) }
