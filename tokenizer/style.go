package tokenizer

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// style is how a byte-level vocabulary wants its text cut, where the file itself does not say.
type style struct {
	patterns []string // splits, one after the other
	digits   bool     // every digit a word, before the splits
	nfc      bool
	whole    bool // a word that is a token is that token
}

var (
	styleQwen2    = style{patterns: []string{patQwen2}, nfc: true}
	styleQwen35   = style{patterns: []string{patQwen35}, nfc: true}
	styleLlama3   = style{patterns: []string{patCL100K}, whole: true}
	styleO200K    = style{patterns: []string{patO200K}, whole: true}
	styleGPT2     = style{patterns: []string{patGPT2}}
	styleSmolLM   = style{patterns: []string{patGPT2}, digits: true}
	styleDeepSeek = style{patterns: []string{patDigits3, patDeepCJK, patDeepseek}}
)

func (y style) apply(t *Tokenizer) {
	cls := classes()
	if y.nfc {
		t.norm = append(t.norm, form{norm.NFC, true, false})
	}
	if y.digits {
		t.steps = append(t.steps, splitStep{scanMatcher{atMost{cls, func(_ rune, c uint8) bool { return c&classNumber != 0 }, 1}}, isolated,
			false})
	}
	for _, p := range y.patterns {
		t.steps = append(t.steps, splitStep{scanMatcher{knownPattern(p)}, isolated, false})
	}
}

// typeName brings a tokenizer_type to one spelling: any case, with or without _ - and dots.
func typeName(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-. ", r) {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// styleOf picks a style: by tokenizer_type where that is certain, else by what the vocabulary
// shows. A vocabulary was learned from text cut by its pattern, so no token crosses the pattern's
// borders: how long its numbers are, and whether punctuation and contractions stand in one token
// with letters, tell the patterns apart.
func styleOf(v *vocab, c Config, listed map[int]bool) style {
	switch n := typeName(c.Type); {
	case strings.HasPrefix(n, "qwen35"):
		return styleQwen35
	case n == "qwen25", n == "qwen3", n == "qwen3vl", n == "qwen3omni", n == "internvl3", n == "internvl35",
		n == "locateanything":
		return styleQwen2
	case n == "smollm2", n == "smolvlm2":
		return styleSmolLM
	case n == "smollm3", n == "llama3":
		return styleLlama3
	}
	digits, led, shortened := habits(v, listed)
	const some = 8 // more than accidents
	switch {
	case v.find("<｜begin▁of▁sentence｜>") >= 0:
		return styleDeepSeek
	case led < some && digits <= 1 && v.size() > 1000:
		return styleSmolLM
	case led < some && digits > 3:
		return styleGPT2
	case shortened > some:
		return styleO200K
	case digits > 1:
		return styleLlama3
	case v.size() > 200_000: // Qwen3's has 151,669 tokens, Qwen3.5's 248,077
		return styleQwen35
	}
	return styleQwen2
}

// habits looks at a vocabulary's tokens: the most digits of one, how many have a sign before a
// word, and how many end in what follows an apostrophe.
func habits(v *vocab, listed map[int]bool) (digits, led, shortened int) {
	cls := classes()
	for id := range int32(v.size()) {
		s := string(v.bytes(id))
		if listed[int(id)] || len(s) < 2 || len(s) > 32 || !utf8.ValidString(s) {
			continue
		}
		n, letters := 0, 0
		for _, r := range s {
			switch c := cls.of(r); {
			case r >= '0' && r <= '9':
				n++
			case c&classLetter != 0:
				letters++
			}
		}
		if n == len(s) {
			digits = max(digits, n)
		}
		if s[0] < 128 && isPunct(rune(s[0])) && s[0] != '\'' && letters > 1 && letters == utf8.RuneCountInString(s)-1 {
			led++
		}
		if k := strings.IndexByte(s, '\''); k > 1 && contraction(s, k, true) == len(s) && letters > 2 {
			shortened++
		}
	}
	return digits, led, shortened
}

// plainTags are added tokens that their makers do not count as special: they are text of a kind,
// and people may write them.
var plainTags = map[string]bool{
	"<think>": true, "</think>": true, "<tool_call>": true, "</tool_call>": true, "<tool_response>": true, "</tool_response>": true,
	"<tools>": true, "</tools>": true, "<arg_key>": true, "</arg_key>": true, "<arg_value>": true, "</arg_value>": true,
	"<|fim_prefix|>": true, "<|fim_middle|>": true, "<|fim_suffix|>": true, "<|fim_pad|>": true, "<|repo_name|>": true,
	"<|file_sep|>": true,
	"[multimodal]": true, "<mask>": true,
}

// controlName reports whether an added token of this name is a control token, for files that list
// their added tokens without saying. What is not known to be harmless is.
func controlName(s string) bool {
	return !plainTags[s] && strings.TrimSpace(strings.ReplaceAll(s, spaceMark, " ")) != "" && !strings.HasPrefix(s, "<unused")
}

// htmlTag reports whether s is one of the tags of HTML that Gemma has as tokens, which are text.
// Elsewhere <s> is a control token.
func htmlTag(s string) bool {
	return strings.HasPrefix(s, "<") && strings.HasSuffix(s, ">") && htmlTags[strings.Trim(s, "</>")]
}

var htmlTags = func() map[string]bool {
	m := make(map[string]bool)
	for _, s := range strings.Fields("a b bbox blockquote body br caption code div em footer h1 h2 h3 h4 h5 h6 hr html i iframe img li " +
		"ol p pre s span strong sub sup table tbody td tfoot th thead tr u ul") {
		m[s] = true
	}
	return m
}()
