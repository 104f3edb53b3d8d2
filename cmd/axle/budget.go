//go:build !scripted

package main

import (
	"io/fs"
	"runtime/debug"
	"sync"

	"go.uber.org/zap"

	"github.com/axle-llm/axle/internal/budget"
	"github.com/axle-llm/axle/internal/ram"
	"github.com/axle-llm/axle/models"
)

// besideGo is what of the budget Go's memory limit leaves: the program's own pages, and what
// libraries in C take for themselves.
const besideGo = 64 << 20

// memoryLimit sets Go's memory limit to the budget. Without a limit, garbage could take as much
// again as what is in use. What models hold in this process is not part of the budget, and is
// added.
type memoryLimit struct {
	own bool // GOMEMLIMIT is set: it is left alone

	mu     sync.Mutex
	budget int64
	models map[string]int64
}

// setBudget gives what clients send its part of this machine's memory, and tells where that is less
// than on others.
func setBudget(root fs.FS, getenv func(string) string, log *zap.Logger) *memoryLimit {
	total, _ := ram.Of(root)
	b := budget.Of(total)
	budget.Set(b)
	if b != budget.Full() {
		log.Info("this machine has little memory: what requests may take together is less, and more of them are told to come again",
			zap.String("memory", models.HumanBytes(total)), zap.Stringer("may_take", b), zap.Stringer("elsewhere", budget.Full()))
	}
	l := &memoryLimit{own: getenv("GOMEMLIMIT") != "", budget: b.Sum() - besideGo, models: map[string]int64{}}
	l.holds("", 0)
	return l
}

// holds notes how many bytes of this process's memory a model holds. It is not told when the model
// goes: the next one may have them.
func (l *memoryLimit) holds(model string, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.models[model] = max(bytes, l.models[model])
	limit := l.budget
	for _, n := range l.models {
		limit += n
	}
	if !l.own {
		//rule:T7 TestSmallMachine drop
		debug.SetMemoryLimit(limit)
	}
}
