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

// This file compiles what constrains an answer: its format, or a required tool call, after optional
// thinking.

// thoughts says whether an answer begins with thinking.
type thoughts struct {
	may  bool   // it may begin with thinking
	open string // the tag with which the prompt began the thinking; empty if it did not
}

// thoughts looks at the prompt's end. A template may begin the thinking there, end it, or leave it
// to the model.
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
		h.may = false // even if the request asked for thinking
	}
	return h
}

// ending returns the last n bytes of a prompt, or all of a shorter one, without trailing white
// space.
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

// ways returns the kinds of thinking that the answer's parser recognises. If tools are offered, the
// thinking must not contain a call, because the parser would take it for one.
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
				w.Not = append(w.Not, other.Open) // the parser would wait for the other tag's end
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

// bound compiles the constraint of an answer to a prompt of n tokens, nil for none, and returns the
// most tokens that the answer may have. A constrained answer without a limit ends at the context's
// length: otherwise a string that is never closed would go on for ten contexts. Its thinking may
// take three quarters of the room.
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

// grammar returns the grammar of the answer itself: the required call, else the format. If a
// request has a format and optional tools, the answer is one or the other.
func (m *Model) grammar(ctx context.Context, r *Request, isChat bool) (*grammar.Grammar, error) {
	forced, err := requiredCalls(ctx, r, m.template(r))
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
	calls, err := requiredCalls(ctx, &any, m.template(&any))
	if errors.Is(err, grammar.ErrRoom) {
		return nil, err
	}
	if err != nil {
		return g, nil // the family's calls have no format, or the tools cannot be enforced: the format alone counts
	}
	return grammar.Or(g, calls)
}

// compileFormat returns the format's grammar, nil for none. It waits for the key's turn, and ends
// with the request's ctx.
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

// requiredCalls returns the grammar of the calls that the request requires, nil for none.
func requiredCalls(ctx context.Context, r *Request, t chat.Template) (*grammar.Grammar, error) {
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
	if t != nil {
		family = t.Family()
	}
	return grammar.ToolCallsFor(ctx, r.Key, family, offered, !r.SerialTools)
}
