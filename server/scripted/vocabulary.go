package scripted

import (
	"strings"
	"sync"

	"github.com/axle-llm/axle/engine"
)

// The ids below vocab are for formats: 256 bytes and the end of text. Words come after them, as they are met.
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

// source gives an answer's tokens: the script's, or where a format forbids them, the shortest that the format allows.
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
	text := constrained(strings.Join(tokens, ""), strings.HasPrefix(strings.Join(tokens, ""), "<think>"), job.Mask)
	return b.source(cut(text), engine.Job{})
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
