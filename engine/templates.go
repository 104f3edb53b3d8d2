package engine

import (
	"container/list"
	"fmt"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/internal/ranked"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// mostTemplates is how many templates of requests are cached, compiled. If a model was made of
// another with its own template, every request to it brings that template.
const mostTemplates = 8

// templates is the cache of all models' templates, which keeps the most recently used. The zero
// value is ready.
var templates templateCache

type templateCache struct {
	mu    ranked.Mutex[ranked.Templates]
	order list.List // of *cachedTemplate, the most recently used first
	by    map[ask.Template]*list.Element
}

type cachedTemplate struct {
	source ask.Template
	tmpl   chat.Template
}

// compile returns the compiled template, nil for the zero one. Error: *ask.TemplateError.
func (c *templateCache) compile(t ask.Template) (chat.Template, error) {
	if t.Text == "" {
		return nil, nil
	}
	c.mu.Lock()
	e := c.by[t]
	if e != nil {
		c.order.MoveToFront(e)
	}
	c.mu.Unlock()
	if e != nil {
		return e.Value.(*cachedTemplate).tmpl, nil
	}
	tmpl, err := compileTemplate(t)
	if err != nil {
		return nil, &ask.TemplateError{Err: err}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[ask.Template]*list.Element{}
	}
	if c.by[t] == nil {
		c.by[t] = c.order.PushFront(&cachedTemplate{t, tmpl})
	}
	for c.order.Len() > mostTemplates {
		delete(c.by, c.order.Remove(c.order.Back()).(*cachedTemplate).source)
	}
	return tmpl, nil
}

func compileTemplate(t ask.Template) (chat.Template, error) {
	switch t.Kind {
	case "", ask.TemplateGo:
		return chat.NewGo(t.Text)
	case ask.TemplateJinja:
		return chat.NewJinja(t.Text, "the request's template", chat.JinjaOptions{})
	}
	return nil, fmt.Errorf("%q is no language of templates: there are %q and %q", t.Kind, ask.TemplateGo, ask.TemplateJinja)
}
