package chat

import (
	"errors"
	"strings"
	"unicode"
)

// shadow is a private alphabet: a block of characters from the last two planes of Unicode that the conversation at hand does not use.
// Template text is printed in it; what people and tools wrote is not and cannot be, so that after rendering each character says
// where it came from. Spaces stay as they are, so that trimming works, and lengths in characters do not change.
type shadow struct {
	base rune
	of   map[rune]rune
	back []rune
}

const (
	shadowFirst = 0xF0000
	shadowBlock = 4096
	shadowCount = 31 // blocks up to U+10EFFF, so that the end of the plane stays free
)

var errShadow = errors.New("the conversation uses every private character there is")

// newShadow makes an alphabet in the first block that used does not contain.
func newShadow(used [shadowCount]bool) (*shadow, error) {
	for i, u := range used {
		if !u {
			return &shadow{base: shadowFirst + rune(i)*shadowBlock, of: make(map[rune]rune)}, nil
		}
	}
	return nil, errShadow
}

// shadowUsed marks the blocks that a string's characters lie in.
func shadowUsed(used *[shadowCount]bool, s string) {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0xF3 { // only such bytes begin characters from U+C0000 on
			for _, r := range s[i:] {
				if k := (r - shadowFirst) / shadowBlock; r >= shadowFirst && int(k) < shadowCount {
					used[k] = true
				}
			}
			return
		}
	}
}

// hide writes text in the alphabet. Characters beyond its size stay as they are, which makes them text.
func (s *shadow) hide(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsSpace(r) {
			b.WriteRune(r)
			continue
		}
		h, ok := s.of[r]
		if !ok {
			if len(s.back) >= shadowBlock || r >= shadowFirst {
				b.WriteRune(r)
				continue
			}
			h = s.base + rune(len(s.back))
			s.of[r], s.back = h, append(s.back, r)
		}
		b.WriteRune(h)
	}
	return b.String()
}

// show returns what r stands for, and whether it is the template's.
func (s *shadow) show(r rune) (rune, bool) {
	if k := int(r - s.base); k >= 0 && k < len(s.back) {
		return s.back[k], true
	}
	return r, false
}

// plain undoes hide.
func (s *shadow) plain(text string) string {
	var b strings.Builder
	b.Grow(len(text))
	for i, r := range text {
		if shadowStray(text[i:], r) {
			b.WriteByte(text[i])
			continue
		}
		r, _ = s.show(r)
		b.WriteRune(r)
	}
	return b.String()
}

// shadowStray reports whether r was read from a byte that is no character's; it stays what it is.
func shadowStray(text string, r rune) bool {
	return r == unicode.ReplacementChar && !strings.HasPrefix(text, "\uFFFD")
}

// shadowRoles are the roles a template may put inside a control token, as <|user|>.
var shadowRoles = map[string]bool{"system": true, "user": true, "assistant": true, "tool": true, "developer": true, "model": true, "function": true,
	"observation": true, "ipython": true, "environment": true}

// pieces splits a rendered prompt. White space says nothing about its origin; between two stretches of the template's it goes with them, which no
// control token notices, for none has a space in it. A role's name between the halves of a control token, as in <|user|>, belongs to it.
func (s *shadow) pieces(text string) []Piece {
	var out []Piece
	var b strings.Builder
	own := false
	flush := func() {
		if b.Len() == 0 {
			return
		}
		p := Piece{Text: b.String(), Control: own}
		b.Reset()
		if n := len(out); n >= 2 && p.Control && !out[n-1].Control && out[n-2].Control && shadowJoins(out[n-2].Text, out[n-1].Text, p.Text) {
			out[n-2].Text += out[n-1].Text + p.Text
			out = out[:n-1]
			return
		}
		out = append(out, p)
	}
	for i, r := range text {
		shown, control := s.show(r)
		if control != own {
			flush()
			own = control
		}
		if shadowStray(text[i:], r) {
			b.WriteByte(text[i])
			continue
		}
		b.WriteRune(shown)
	}
	flush()
	return out
}

// shadowJoins reports whether what stands between two stretches of template text may be counted as the template's.
func shadowJoins(before, between, after string) bool {
	if strings.TrimSpace(between) == "" {
		return true
	}
	open := strings.LastIndexByte(before, '<') > strings.LastIndexByte(before, '>')
	return open && shadowRoles[between] && strings.Contains(after, ">")
}
