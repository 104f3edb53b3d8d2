package chat

import "slices"

// ThinkTag is a pair of tags between which a model thinks.
type ThinkTag struct{ Open, Close string }

// ThinkTags are the pairs that the family's [Parser] reads, the one that all families know first.
func ThinkTags(family string) []ThinkTag {
	return slices.Clone(parseFormatOf(family).think)
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
