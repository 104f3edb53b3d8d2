package chat

import "strings"

// ThinkEnd returns the tag that ends the thinking of a model with this template, as the model writes it and [Parser] reads it. It is empty for a template
// that knows no thinking, and for none.
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
