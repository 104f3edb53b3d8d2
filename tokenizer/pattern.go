package tokenizer

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// pattern is tokenizer.json's way to write what a Split or Replace looks for.
type pattern struct {
	String *string
	Regex  *string
}

func (p pattern) compile() (matcher, error) {
	switch {
	case p.String != nil && *p.String != "":
		return scanMatcher{literal{*p.String}}, nil
	case p.Regex != nil && *p.Regex != "":
		return compilePattern(*p.Regex)
	}
	return nil, badf("a pattern is empty")
}

// The split patterns that tokenizers in use ask for.
const (
	patGPT2     = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patCL100K   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patQwen2    = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patQwen35   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patO200K    = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patCLIP     = `'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+`
	patDigits3  = `\p{N}{1,3}`
	patDeepCJK  = `[一-龥぀-ゟ゠-ヿ]+`
	patDeepseek = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| " +
		"?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
)

// knownPattern returns the hand-written scanner for a pattern, or nil.
func knownPattern(p string) scanner {
	t := classes()
	switch p {
	case patGPT2, `'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`:
		return gpt2{t}
	case patCL100K, `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`:
		return cl100k{t, 3, classLetter}
	case patQwen2:
		return cl100k{t, 1, classLetter}
	case patQwen35:
		return cl100k{t, 1, classLetter | classMark}
	case patO200K:
		return o200k{t, true}
	case strings.Replace(patO200K, `[\r\n/]*`, `[\r\n]*`, 1):
		return o200k{t, false}
	case patCLIP:
		return clip{t}
	case patDigits3:
		return atMost{t, func(_ rune, c uint8) bool { return c&classNumber != 0 }, 3}
	case patDeepCJK:
		return atMost{t, func(r rune, _ uint8) bool { return r >= '一' && r <= '龥' || r >= 0x3040 && r <= 0x30FF }, 1 << 30}
	case patDeepseek:
		return deepseek3{t}
	}
	return nil
}

// compilePattern makes a matcher of a regular expression: by hand if it is known, else with
// regexp2. A pattern that regexp2 cannot read, or on which it takes too long, is refused: a
// tokenizer that cuts words elsewhere than its model learned is worse than none.
func compilePattern(p string) (matcher, error) {
	if sc := knownPattern(p); sc != nil {
		return scanMatcher{sc}, nil
	}
	if len(p) > 4096 {
		return nil, unsupportedf("a split pattern of %d bytes", len(p))
	}
	re, err := regexp2.Compile(p, regexp2.None)
	if err != nil {
		return nil, &Error{What: fmt.Sprintf("split pattern %q", p), Err: fmt.Errorf("%w: %v", ErrUnsupported, err)}
	}
	if probe := slowProbe(re, time.Second, 4*time.Second); probe != "" {
		return nil, &Error{What: fmt.Sprintf("split pattern %q", p), Err: fmt.Errorf("%w: it takes too long on repeated %q", ErrUnsupported,
			probe)}
	}
	re.MatchTimeout = slowMatch
	return slowPattern{re}, nil
}

// slowProbe is the text that a pattern takes too long on in each of the tries, or "". They say how
// long all probes may take together, one match a twentieth of it: a machine that was busy elsewhere
// needs the second.
func slowProbe(re *regexp2.Regexp, tries ...time.Duration) (probe string) {
	for _, limit := range tries {
		if probe = slowIn(re, limit); probe == "" {
			break
		}
	}
	return probe
}

func slowIn(re *regexp2.Regexp, limit time.Duration) (probe string) {
	re.MatchTimeout = limit / 20
	begun := time.Now()
	for _, probe := range []string{"a", " ", "1", "!", "aA1 ", "\n "} {
		s := strings.Repeat(probe, 2000) + "\x00"
		for at := 0; ; {
			x, err := re.FindStringMatchStartingAt(s, at)
			if err != nil || time.Since(begun) > limit {
				return probe
			}
			if x == nil || at > 100 {
				break
			}
			at = x.Index + max(x.Length, 1)
		}
	}
	return ""
}

// How long a pattern of regexp2's may take: what few probes show says little about the text that
// somebody will send.
const (
	slowMatch = time.Second          // for one match, and whatever the text
	slowByte  = 4 * time.Microsecond // more for a byte; regexp2 takes a tenth of that where it does not go back and forth
)

func slowLimit(n int) time.Duration { return slowMatch + time.Duration(n)*slowByte }

// slowPattern is a pattern without a scanner of its own. regexp2 counts characters, so their byte
// offsets go along.
type slowPattern struct{ re *regexp2.Regexp }

// each panics where it takes too long, for words cut elsewhere are worse than none; see catchHalt.
func (x slowPattern) each(s string, m *room, f func(span)) {
	begun := time.Now()
	runes := make([]rune, 0, utf8.RuneCountInString(s))
	off := make([]int32, 0, cap(runes)+1)
	for i, r := range s {
		runes, off = append(runes, r), append(off, int32(i))
	}
	off = append(off, int32(len(s)))
	prev := int32(0)
	y, err := x.re.FindRunesMatch(runes)
	for n := 0; err == nil && y != nil; n++ {
		if n%64 == 63 {
			m.wanted()
		}
		now := time.Now() // for each match: one may take nearly as long as a match may
		m.spent(now.Sub(begun))
		begun = now
		a, b := off[y.Index], off[y.Index+y.Length]
		if prev < a {
			f(span{prev, a, false})
		}
		if a < b {
			f(span{a, b, true})
		}
		prev = b
		y, err = x.re.FindNextMatch(y)
	}
	if err != nil { // there is none but the time-out
		panic(halted{ErrSlow})
	}
	if prev < int32(len(s)) {
		f(span{prev, int32(len(s)), false})
	}
	m.spent(time.Since(begun)) // many short stretches add up
}
