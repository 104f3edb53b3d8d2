package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/axle-llm/axle/sampler/grammar"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// This file is what binds an answer: its format, or the call that it must be, behind the thinking
// that may come first.

// thoughts says how an answer may begin.
type thoughts struct {
	may  bool   // it may think first
	open string // the tag with which the prompt has begun the thinking; empty where it has not
}

// thoughts looks at the prompt's end: templates begin the thinking, or end it there, or leave it to
// the model.
func (m *Model) thoughts(r *Request, prompt []chat.Piece) thoughts {
	t := m.template(r)
	if r.Raw || t == nil {
		return thoughts{}
	}
	tags := chat.ThinkTags(t.Family())
	longest := 0
	for _, tag := range tags {
		longest = max(longest, len(tag.Open), len(tag.Close))
	}
	ends := ending(prompt, longest)
	h := thoughts{may: t.Capabilities().Thinking && m.think(r) != chat.ThinkOff}
	past := r.Continue
	for _, tag := range tags {
		if strings.HasSuffix(ends, strings.TrimSpace(tag.Open)) {
			h.open = tag.Open
		}
		past = past || strings.HasSuffix(ends, tag.Close)
	}
	if past && h.open == "" {
		h.may = false // whatever was asked for
	}
	return h
}

// ending is what a prompt ends with, n bytes of it if there are this many, white space behind it
// left out.
func ending(prompt []chat.Piece, n int) string {
	end := ""
	for i := len(prompt) - 1; i >= 0 && len(end) < n; i-- {
		text := prompt[i].Text
		if end == "" {
			text = strings.TrimRight(text, " \n")
		}
		end = text[max(0, len(text)+len(end)-n):] + end
	}
	return end
}

// ways are the ways to think that the parser of the answer reads. Where tools are offered, no call
// is within: that would be one.
func (m *Model) ways(r *Request, h thoughts) []grammar.Thought {
	family := m.template(r).Family()
	tags := chat.ThinkTags(family)
	var not []string
	if len(r.Tools) > 0 && r.ToolChoice != "none" {
		not = chat.CallTags(family)
	}
	var out []grammar.Thought
	for _, tag := range tags {
		w := grammar.Thought{Open: tag.Open, End: tag.Close, Not: slices.Clone(not)}
		for _, other := range tags {
			if other != tag {
				w.Not = append(w.Not, other.Open) // the parser would wait for that one's end
			}
		}
		switch h.open {
		case "":
			out = append(out, w)
		case tag.Open:
			w.Open = ""
			out = append(out, w)
		}
	}
	return out
}

// bound compiles what binds an answer to a prompt of n tokens, nil for nothing, and how many tokens
// it may have. A bound answer that has no limit of its own ends with the context's length: a string
// that never closes would else go on for ten. Its thinking may take three quarters of what there is
// room for.
func (m *Model) bound(ctx context.Context, r *Request, isChat bool, h thoughts, n int) (
	limit int, mask func() Matcher, notes []grammar.Note, err error,
) {
	g, err := m.grammar(ctx, r, isChat)
	if err == nil && g != nil && h.may {
		g, err = grammar.Thinking(g, m.ways(r, h)...)
	}
	switch {
	case ctx.Err() != nil:
		return 0, nil, nil, context.Cause(ctx)
	case errors.Is(err, grammar.ErrRoom):
		return 0, nil, nil, err
	case err != nil:
		return 0, nil, nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	most := 10 * r.NumCtx
	if limit = min(r.Limit, most); limit <= 0 {
		if limit = most; g != nil {
			//rule:T16 TestFormatHolds r.NumCtx => most
			limit = r.NumCtx
		}
	}
	t := m.trie()
	if g == nil || t == nil {
		return limit, nil, nil, nil
	}
	room := r.NumCtx - n
	if r.Shift {
		room = max(room, r.NumCtx/4)
	}
	think := min(limit, room) * 3 / 4
	if r.ThinkLimit > 0 {
		think = min(think, r.ThinkLimit)
	}
	return limit, func() Matcher {
		out := g.Matcher(t)
		//rule:T16 TestFormatHolds drop
		out.LimitThinking(think)
		return out
	}, g.Notes(), nil
}

// grammar is that of the answer proper: the call that is required, else the format. Where tools may
// be called beside a format, the answer is one or the other.
func (m *Model) grammar(ctx context.Context, r *Request, isChat bool) (*grammar.Grammar, error) {
	forced, err := m.calls(ctx, r)
	if !isChat && err == nil {
		return compileFormat(r.Format, ctx, r.Key)
	}
	if forced != nil || err != nil {
		return forced, err
	}
	g, err := compileFormat(r.Format, ctx, r.Key)
	if g == nil || err != nil || len(r.Tools) == 0 || r.ToolChoice == "none" {
		return g, err
	}
	any := *r
	any.ToolChoice = "required"
	calls, err := m.calls(ctx, &any)
	if errors.Is(err, grammar.ErrRoom) {
		return nil, err
	}
	if err != nil {
		return g, nil // a family whose calls have no format, or tools that cannot be held to: the answer is what was asked for
	}
	return grammar.Or(g, calls)
}

// compileFormat is the format's grammar, nil for none. It waits for the turn of the key that asks,
// and ends when its request has gone.
func compileFormat(f Format, ctx context.Context, key string) (*grammar.Grammar, error) {
	switch {
	case f.GBNF != "":
		return grammar.GBNFFor(ctx, key, f.GBNF)
	case len(f.Schema) > 0:
		return grammar.SchemaFor(ctx, key, f.Schema, grammar.Options{Strict: f.Strict})
	case f.JSON:
		return grammar.JSON(), nil
	}
	return nil, nil
}

// calls is the grammar of the calls that the request requires, nil where it requires none.
func (m *Model) calls(ctx context.Context, r *Request) (*grammar.Grammar, error) {
	switch r.ToolChoice {
	case "", "auto", "none":
		return nil, nil
	}
	var offered []grammar.Tool
	for _, t := range r.Tools {
		if r.ToolChoice == "required" || r.ToolChoice == t.Name {
			g := grammar.Tool{Name: t.Name, Parameters: t.Parameters, Strict: t.Strict}
			if len(t.Schema) > 0 {
				g.Parameters = t.Schema
			}
			offered = append(offered, g)
		}
	}
	if len(offered) == 0 {
		return nil, fmt.Errorf("tool_choice %q names no offered tool", r.ToolChoice)
	}
	family := ""
	if t := m.template(r); t != nil {
		family = t.Family()
	}
	return grammar.ToolCallsFor(ctx, r.Key, family, offered, !r.SerialTools)
}
