package grammar

import (
	"runtime"
	"slices"
	"sync"
)

// memo keeps the grammars compiled last: clients send the same schema with every request, and a grammar that is kept has
// its masks.
type memo struct {
	mu   sync.Mutex
	last []memoEntry // the one used last comes last
}

type memoEntry struct {
	key string
	g   *Grammar
}

const (
	memoSize   = 8
	memoKeyMax = 16 << 10 // of a source; longer ones are compiled each time
)

var recent memo

func (m *memo) get(key string, compile func() (*Grammar, error)) (*Grammar, error) {
	if len(key) > memoKeyMax {
		return inTurn(compile)
	}
	m.mu.Lock()
	if i := slices.IndexFunc(m.last, func(e memoEntry) bool { return e.key == key }); i >= 0 {
		e := m.last[i]
		m.last = append(slices.Delete(m.last, i, i+1), e)
		m.mu.Unlock()
		return e.g, nil
	}
	m.mu.Unlock()
	g, err := inTurn(compile) // outside the lock: it may take a while, and twice is no harm
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.last) == memoSize {
		m.last = slices.Delete(m.last, 0, 1)
	}
	m.last = append(m.last, memoEntry{key, g})
	return g, nil
}

// compiling has a place for each processor: a grammar may take 64 MiB while it is made, and many at once are no faster.
var compiling = make(chan struct{}, runtime.GOMAXPROCS(0))

func inTurn(compile func() (*Grammar, error)) (*Grammar, error) {
	compiling <- struct{}{}
	defer func() { <-compiling }()
	return compile()
}
