package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/server/catalog"
)

// mostPrompts is how many models that are not loaded are kept open for their prompts: a tokenizer
// of a large vocabulary takes tens of megabytes, and up to a second to be read.
const mostPrompts = 2

// prompts are the models that are open for their prompts alone, the one used last at the end.
type prompts struct {
	mu   ranked.Mutex[ranked.Local]
	open []*promptOnly
}

type promptOnly struct {
	key   string
	once  sync.Once
	model *engine.Model
	err   error
}

// of returns the model with that key, and opens it if none of the last few is it.
func (p *prompts) of(key string, open func() (*engine.Model, error)) (*engine.Model, error) {
	p.mu.Lock()
	i := slices.IndexFunc(p.open, func(o *promptOnly) bool { return o.key == key })
	found := &promptOnly{key: key}
	if i >= 0 {
		found = p.open[i]
		p.open = slices.Delete(p.open, i, i+1)
	}
	p.open = append(p.open, found)
	if n := len(p.open); n > mostPrompts {
		p.open = slices.Delete(p.open, 0, n-mostPrompts)
	}
	p.mu.Unlock()
	found.once.Do(func() { found.model, found.err = open() })
	if found.err != nil { // may be mended, so it is tried again
		p.mu.Lock()
		p.open = slices.DeleteFunc(p.open, func(o *promptOnly) bool { return o == found })
		p.mu.Unlock()
	}
	return found.model, found.err
}

// Prompts implements [pool.Prompter].
func (l *Loader) Prompts(_ context.Context, e *catalog.Entry) (ask.Model, error) {
	if e.Model == nil {
		return nil, fmt.Errorf("%s has no package", e.Name)
	}
	m, err := l.prompts.of(e.Key+"\n"+e.Name.Full(), func() (*engine.Model, error) {
		p, err := e.Model.OpenAny()
		if err != nil {
			return nil, err
		}
		m, err := engine.Prompts(p, e.Name.String())
		return m, errors.Join(err, p.Close())
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}
