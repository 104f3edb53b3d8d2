package grammar

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"weak"

	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/internal/fair"
)

// memo keeps the grammars compiled last: clients send the same schema with every request, and a
// grammar that is kept has its masks.
type memo struct {
	line func() *fair.Line

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
	memoBytes  = 8 << 20  // of all grammars that are kept
)

// compiling has a place for each processor, by turns of those who ask: a compilation may take what
// a mebibyte of schema does, and many at once are no faster. Large ones share a room.
var compiling = sync.OnceValue(func() *fair.Line { return fair.New(runtime.GOMAXPROCS(0), budget.Get().Schemas) })

var recent = memo{line: compiling}

// get finds a grammar, or compiles it when it is the asker's turn. Errors are compile's, ctx's, and
// ErrRoom.
func (m *memo) get(ctx context.Context, asker, key string, compile func(*meter) (*Grammar, error)) (*Grammar, error) {
	if len(key) > memoKeyMax {
		return m.inTurn(ctx, asker, len(key), compile)
	}
	m.mu.Lock()
	if i := slices.IndexFunc(m.last, func(e memoEntry) bool { return e.key == key }); i >= 0 {
		e := m.last[i]
		m.last = append(slices.Delete(m.last, i, i+1), e)
		m.mu.Unlock()
		return e.g, nil
	}
	m.mu.Unlock()
	g, err := m.inTurn(ctx, asker, len(key), compile) // outside the lock: it may take a while, and twice is no harm
	if err != nil || g.bytes > memoBytes {
		return g, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = append(m.last, memoEntry{key, g})
	bytes := int64(0)
	for i := len(m.last) - 1; i >= 0; i-- {
		if bytes += m.last[i].g.bytes; bytes > memoBytes || len(m.last)-i > memoSize {
			m.last = slices.Delete(m.last, 0, i+1)
			break
		}
	}
	return g, nil
}

const (
	perByte  = 1 << 10  // of a source, while it is compiled
	mostMade = 64 << 20 // that a compilation takes, whatever its source is
	guess    = 64       // steps a byte of a source
)

// inTurn compiles when it is the asker's turn, and gives what came of it a part of the room for
// those in use.
func (m *memo) inTurn(ctx context.Context, asker string, source int, compile func(*meter) (*Grammar, error)) (g *Grammar, err error) {
	line, takes, work := m.line(), min(int64(source)*perByte, mostMade), int64(source)*guess
	//rule:T16 TestSchemaTurns asker => ""
	if err := line.Take(ctx, asker, takes, work); err != nil {
		return nil, err
	}
	steps := newMeter(ctx)
	defer func() {
		line.Done(asker, work, steps.done)
		line.Free(takes)
	}()
	g, err = metered(steps, compile)
	if err != nil {
		return nil, err
	}
	return g, inUse.keep(g)
}

// metered is compile, ended by its meter where that says so.
func metered(m *meter, compile func(*meter) (*Grammar, error)) (g *Grammar, err error) {
	defer catch(&err)
	m.step(0) // its request may have gone
	return compile(m)
}

// held is the memory of grammars that somebody uses.
type held struct {
	mu    sync.Mutex
	large []use
}

// use is a grammar that takes room, for as long as it was not collected.
type use struct {
	g     weak.Pointer[Grammar]
	bytes int64
}

// inUse are those of the process. A grammar is in use until it is collected.
var inUse held

// smallest is what a grammar may take without asking for room.
const smallest = 256 << 10

// keep takes room for a grammar, and gives it back when it is collected. The error is ErrRoom.
func (h *held) keep(g *Grammar) error {
	if g.bytes <= smallest || h.take(g) {
		return nil
	}
	runtime.GC() // those that are no longer used are found by it
	if h.take(g) {
		return nil
	}
	return fmt.Errorf("grammar: %w", ErrRoom)
}

// take is keep, without looking for those that are no longer used.
func (h *held) take(g *Grammar) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := g.bytes
	h.large = slices.DeleteFunc(h.large, func(u use) bool { return u.g.Value() == nil })
	for _, u := range h.large {
		taken += u.bytes
	}
	//rule:T7 TestGrammarRoom > budget.Get().Schemas => < 0
	if taken > budget.Get().Schemas {
		return false
	}
	h.large = append(h.large, use{weak.Make(g), g.bytes})
	return true
}
