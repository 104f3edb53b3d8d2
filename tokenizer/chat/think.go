package chat

import "strings"

// ThinkTag is a pair of tags between which a model thinks.
type ThinkTag struct{ Open, Close string }

// ThinkTags are the pairs that the family's [Parser] reads, the one that all families know first.
func ThinkTags(family string) []ThinkTag {
	tags := parseFormatOf(family).think
	out := make([]ThinkTag, len(tags))
	for i, t := range tags {
		out[i] = ThinkTag{Open: t.open, Close: t.close}
	}
	return out
}

// CallTags are the tags that begin a tool call for the family's [Parser] wherever they stand, in
// thinking too.
func CallTags(family string) []string {
	var out []string
	for _, o := range parseFormatOf(family).calls {
		out = append(out, o.open)
	}
	return out
}

// ThinkEnd returns the tag that ends the thinking of a model with this template, as the model
// writes it and [Parser] reads it. It is empty for a template that knows no thinking, and for none.
func ThinkEnd(t Template) string {
	if t == nil {
		return ""
	}
	tags := parseFormatOf(t.Family()).think
	for i := len(tags) - 1; i >= 0; i-- { // a family's own tags come last
		if s := t.Source(); strings.Contains(s, strings.TrimSpace(tags[i].open)) || strings.Contains(s, tags[i].close) {
			return tags[i].close
		}
	}
	if t.Capabilities().Thinking {
		return tags[0].close
	}
	return ""
}
