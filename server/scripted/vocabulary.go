package scripted

import (
	"strings"
	"sync"
	"unicode"

	"github.com/axle-llm/axle/engine"
	"github.com/axle-llm/axle/sampler/grammar"
)

// The ids below vocab are for formats: 256 bytes and the end of text. Words come after them, as
// they are met.
const (
	endOfText = 256
	vocab     = 257
)

// Vocabulary is what formats are compiled against.
type Vocabulary struct{}

// Vocab, Bytes, Control and EOS make a grammar.Vocabulary.
func (Vocabulary) Vocab() int { return vocab }

// Bytes is the byte an id stands for.
func (Vocabulary) Bytes(id int32) []byte {
	if id < 0 || id >= endOfText {
		return nil
	}
	return []byte{byte(id)}
}

// Control tells the end of text from bytes.
func (Vocabulary) Control(id int32) bool { return id == endOfText }

// EOS is the end of text.
func (Vocabulary) EOS() []int32 { return []int32{endOfText} }

// words numbers words as they come.
type words struct {
	mu   sync.RWMutex
	ids  map[string]int32
	list []string
}

func newWords() *words { return &words{ids: map[string]int32{}} }

func (w *words) id(s string) int32 {
	w.mu.RLock()
	id, ok := w.ids[s]
	w.mu.RUnlock()
	if ok {
		return id
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if id, ok = w.ids[s]; !ok {
		id = vocab + int32(len(w.list))
		w.ids[s] = id
		w.list = append(w.list, s)
	}
	return id
}

func (w *words) text(id int32) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if i := int(id) - vocab; i >= 0 && i < len(w.list) {
		return w.list[i]
	}
	return ""
}

// source gives an answer's tokens: the script's, or where a format forbids them, the shortest that
// the format allows.
func (b *Backend) source(tokens []string, job engine.Job) func() (string, bool) {
	if job.Mask == nil {
		i := 0
		return func() (string, bool) {
			if i == len(tokens) {
				return "", false
			}
			i++
			return tokens[i-1], true
		}
	}
	want := strings.Join(tokens, "")
	return b.source(boundaries(constrained(want, strings.HasPrefix(want, "<think>"), job.Mask)), engine.Job{})
}

// boundaries divides a text that a format binds where its grammar does: words and what stands
// between them are tokens of their own, so that limits, stop strings and the end of a call are met
// inside it.
func boundaries(text string) (out []string) {
	word := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
	start, before := 0, false
	for i, r := range text {
		if now := word(r); i > start && now != before {
			out, start = append(out, text[start:i]), i
		}
		before = word(r)
	}
	if start < len(text) {
		out = append(out, text[start:])
	}
	return out
}

// closers end what may be any text: a JSON string, and a call's arguments in the families that
// write them without quotes.
var closers = []string{`"`, "\n</parameter>", "</parameter>", "</param>", "<escape>", "</think>"}

// closer is what ends the free text that the mask is in; "" where it is in none, or nothing does
// now.
func closer(mask engine.Matcher) string {
	m, ok := mask.(*grammar.Matcher)
	if !ok || !m.Allowed('~') {
		return ""
	}
	for _, c := range closers {
		try, fits := m.Clone(), true
		for i := 0; i < len(c) && fits; i++ {
			fits = try.Allowed(int32(c[i])) && try.Accept(int32(c[i])) == nil
		}
		if fits && !try.Allowed('~') {
			return c
		}
	}
	return ""
}

// constrained follows want as far as the mask allows and then ends as soon as it can.
func constrained(want string, thinks bool, mask engine.Matcher) string {
	var sb strings.Builder
	put := func(c byte) bool {
		if !mask.Allowed(int32(c)) || mask.Accept(int32(c)) != nil {
			return false
		}
		sb.WriteByte(c)
		return true
	}
	said := 0
	for said < len(want) && put(want[said]) {
		said++
	}
	if said == len(want) && thinks && !strings.Contains(sb.String(), "</think>") {
		return sb.String()
	}
	const order = "}]\":,{[0123456789-+tfnuelrsaTZ:."
	for sb.Len() < 1<<14 && !mask.Done() {
		if c := closer(mask); c != "" {
			for i := range len(c) {
				put(c[i])
			}
			continue
		}
		c, ok := -1, false
		for i := 0; i < len(order) && !ok; i++ {
			c, ok = int(order[i]), mask.Allowed(int32(order[i]))
		}
		for x := 33; x < 256 && !ok; x++ {
			c, ok = x, mask.Allowed(int32(x))
		}
		for _, x := range " \n\t\r" {
			if !ok {
				c, ok = int(x), mask.Allowed(x)
			}
		}
		if !ok || !put(byte(c)) {
			break
		}
	}
	return sb.String()
}
