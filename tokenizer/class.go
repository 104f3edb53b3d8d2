package tokenizer

import (
	"sync"
	"unicode"

	"golang.org/x/text/unicode/rangetable"
)

// Character classes as the split patterns need them. \s is Unicode's White_Space; \w, which only
// the Rust library's own code uses, is letters, marks, decimal digits, connectors and joiners.
const (
	classLetter = 1 << iota // \p{L}
	classNumber             // \p{N}
	classMark               // \p{M}
	classSpace              // \s
	classUpper              // \p{Lu}\p{Lt}
	classLower              // \p{Ll}
	classSymbol             // \p{P}\p{S}
	classWord               // \w
)

// classPages is a two-level table over all characters: page number by the high bits, then class by
// the low eight.
type classPages struct {
	page  [0x110000 >> 8]uint16
	pages [][256]uint8
}

var classes = sync.OnceValue(func() *classPages {
	flat := make([]uint8, 0x110000)
	mark := func(t *unicode.RangeTable, c uint8) { rangetable.Visit(t, func(r rune) { flat[r] |= c }) }
	mark(unicode.L, classLetter|classWord)
	mark(unicode.N, classNumber)
	mark(unicode.M, classMark|classWord)
	mark(unicode.White_Space, classSpace)
	mark(unicode.Lu, classUpper)
	mark(unicode.Lt, classUpper)
	mark(unicode.Ll, classLower)
	mark(unicode.P, classSymbol)
	mark(unicode.S, classSymbol)
	mark(unicode.Nd, classWord)
	mark(unicode.Pc, classWord)
	mark(unicode.Other_Alphabetic, classWord)
	mark(unicode.Nl, classWord)
	mark(unicode.Join_Control, classWord)

	t := &classPages{}
	seen := make(map[[256]uint8]uint16)
	for p := range t.page {
		page := [256]uint8(flat[p<<8 : p<<8+256])
		n, ok := seen[page]
		if !ok {
			n = uint16(len(t.pages))
			t.pages, seen[page] = append(t.pages, page), n
		}
		t.page[p] = n
	}
	return t
})

func (t *classPages) of(r rune) uint8 {
	if uint32(r) >= 0x110000 {
		return 0
	}
	return t.pages[t.page[r>>8]][r&255]
}

func classOf(r rune) uint8 { return classes().of(r) }

func isSpace(r rune) bool { return classOf(r)&classSpace != 0 }
