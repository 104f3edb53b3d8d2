package immich

import (
	"slices"
	"strings"
	"unicode"
)

// Match says which of the installed models, by their names, is meant by the one that Immich names;
// -1: none of them by its name. The same name is one, whatever its case. Otherwise a model is meant
// whose name has every word of Immich's before __, behind which is who trained or packed it: of
// ViT-L-14-336__openai vit, l, 14 and 336, which clip-vit-l-14-336 has. Of several it is the one
// with the fewest words, and then the first. A model for Chinese texts, which has cn in its name,
// is meant by names with that only.
func Match(asked string, installed []string) int {
	for i, name := range installed {
		if strings.EqualFold(strings.TrimSuffix(name, ":latest"), asked) {
			return i
		}
	}
	name, _, _ := strings.Cut(asked, "__")
	want := words(name)
	if len(want) < 2 { // buffalo_l has two: a single letter or number means any model
		return -1
	}
	best, least := -1, 0
	for i, name := range installed {
		have := words(strings.TrimSuffix(name, ":latest"))
		if slices.ContainsFunc(want, func(w string) bool { return !slices.Contains(have, w) }) ||
			slices.Contains(have, chinese) != slices.Contains(want, chinese) {
			continue
		}
		if best < 0 || len(have) < least {
			best, least = i, len(have)
		}
	}
	return best
}

// chinese is the word for models that read Chinese. It is often written as a part of cnclip.
const chinese = "cn"

// words are the runs of letters and the runs of digits in a name, in lower case.
func words(name string) (all []string) {
	kind := func(r rune) int {
		switch {
		case unicode.IsLetter(r):
			return 1
		case unicode.IsDigit(r):
			return 2
		}
		return 0
	}
	last := 0
	for _, r := range strings.ReplaceAll(strings.ToLower(name), "cnclip", "cn-clip") {
		k := kind(r)
		switch {
		case k == 0:
		case k == last:
			all[len(all)-1] += string(r)
		default:
			all = append(all, string(r))
		}
		last = k
	}
	return all
}
