package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Prompts are the words that an embedding model was taught to read before a text: one form before
// what is looked for, another before what is found. The zero value has none.
type Prompts struct {
	Named   map[string]string // what stands before a text, by the name of the form
	Default string            // stands before a text whose request names no form
	Task    string            // what {task} in Named means where the request says nothing; empty: there is no {task}
	Turns   bool              // a text is a user's turn of a chat, and Named and Default are system texts before it
}

// Names of the forms that most models have.
const (
	QueryPrompt    = "query"
	DocumentPrompt = "document"
)

// SearchTask is the task of Qwen3's embedding models and rerankers where none is told.
const SearchTask = "Given a web search query, retrieve relevant passages that answer the query"

// Names are those of the forms, sorted.
func (p Prompts) Names() []string { return slices.Sorted(maps.Keys(p.Named)) }

// Before returns what stands before a text. name is a form's; empty: the default, or with a task
// the form of a query. task replaces the model's own. It fails for a name that is not there, and
// for a task where the form takes none.
func (p Prompts) Before(name, task string) (string, error) {
	if name == "" && task == "" {
		return p.Default, nil
	}
	if name == "" {
		name = QueryPrompt
	} else if _, ok := p.Named[name]; !ok {
		if len(p.Named) == 0 {
			return "", fmt.Errorf("has no prompt names, so none called %.100q", name)
		}
		return "", fmt.Errorf("has no prompt called %.100q: take one of %s", name, strings.Join(p.Names(), ", "))
	}
	before := p.Named[name]
	switch {
	case p.Task != "" && strings.Contains(before, taskMark):
		if task == "" {
			task = p.Task
		}
		return strings.ReplaceAll(before, taskMark, task), nil
	case task != "":
		return "", fmt.Errorf("takes no instruction with a text: leave it out, or take a prompt by its name")
	}
	return before, nil
}

const taskMark = "{task}"

// Limits on what a package may name.
const (
	maxPrompts    = 64
	maxPromptName = 64
	maxPrompt     = 4096
)

// readPrompts takes prompts and default_prompt of a configuration. The default is the name of a
// prompt, or the words themselves.
func readPrompts(o object) (p Prompts, err error) {
	if _, there := o.get("prompts"); there {
		if p.Named = decoded[map[string]string](o, "prompts"); p.Named == nil {
			return p, fmt.Errorf("prompts is no object of names and words")
		}
	}
	if len(p.Named) > maxPrompts {
		return p, fmt.Errorf("prompts has %d names, limit %d", len(p.Named), maxPrompts)
	}
	p.Default = o.str("default_prompt")
	if words, ok := p.Named[p.Default]; ok {
		p.Default = words
	}
	for name, words := range p.Named {
		if name == "" || len(name) > maxPromptName {
			return p, fmt.Errorf("prompts has a name of %d bytes: 1 to %d are expected", len(name), maxPromptName)
		}
		if len(words) > maxPrompt {
			return p, fmt.Errorf("the prompt %.64q has %d bytes, limit %d", name, len(words), maxPrompt)
		}
	}
	if len(p.Default) > maxPrompt {
		return p, fmt.Errorf("default_prompt has %d bytes, limit %d", len(p.Default), maxPrompt)
	}
	return p, nil
}
