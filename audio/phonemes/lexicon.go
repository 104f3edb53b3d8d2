package phonemes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// A Lexicon knows how words sound. Make one with [NewLexicon].
type Lexicon struct {
	accent Accent
	seed   maphash.Seed
	data   []byte   // entries: length of word, word, length of value, value
	slots  []uint32 // offsets in data plus one; a power of two of them
	count  int
	others *Lexicon // words that are looked up last; nil: there are none
}

const (
	largestDictionary = 16 << 20
	longestWord       = 64 // bytes
	longestSound      = 80 // symbols
	longestValue      = 250
)

// symbols are what a dictionary may hold.
const symbols = "AIOQTWYabdfhijklmnpstuvwzæðŋɐɑɒɔəɛɜɡɪɹɾʃʊʌʒʔʤʧˈˌːθᵊᵻ"

// NewLexicon makes an empty one, which spells every word.
func NewLexicon(accent Accent) *Lexicon {
	return &Lexicon{accent: accent, seed: maphash.MakeSeed(), slots: make([]uint32, 1024)}
}

// AddMisaki adds a dictionary in misaki's form: a JSON object from a word to its symbols, or to an
// object with symbols by part of speech. A word that is known stays as it is, so the better
// dictionary comes first. After an error the words before it are in the Lexicon.
func (l *Lexicon) AddMisaki(dictionary []byte) error {
	if len(dictionary) > largestDictionary {
		return fmt.Errorf("the dictionary has %d bytes, at most %d are read", len(dictionary), largestDictionary)
	}
	d := json.NewDecoder(bytes.NewReader(dictionary))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("the dictionary is no JSON object of words: is it one of misaki's .json files?")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return fmt.Errorf("the dictionary is broken after %d words: %w", l.count, err)
		}
		word := key.(string) // a decoder gives no other key
		value, err := entry(d)
		if err != nil {
			return fmt.Errorf("the dictionary's word %.80q: %w", word, err)
		}
		if word == "" || len(word) > longestWord {
			return fmt.Errorf("the dictionary's word %.80q has %d bytes, 1 to %d are possible", word, len(word), longestWord)
		}
		l.add(word, value)
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("the dictionary ends too early: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("the dictionary has something after its end")
	}
	return nil
}

// AddCMU adds a dictionary in the form of CMUdict: in each line a word and its sounds in ARPABET.
// It has many names, and American sounds that fit those of misaki less well, so it is asked last.
// Of several sounds of a word the first counts. Lines without a word in ASCII are left out.
func (l *Lexicon) AddCMU(dictionary []byte) error {
	if len(dictionary) > largestDictionary {
		return fmt.Errorf("the dictionary has %d bytes, at most %d are read", len(dictionary), largestDictionary)
	}
	if l.others == nil {
		l.others = NewLexicon(l.accent)
	}
	number := 0
	for line := range bytes.Lines(dictionary) {
		number++
		line, _, _ = bytes.Cut(line, []byte("#"))
		fields := strings.Fields(string(line))
		if len(fields) == 0 || strings.HasPrefix(fields[0], ";;;") {
			continue
		}
		word := strings.ToLower(fields[0])
		if c := word[0]; len(word) > longestWord || c != '\'' && (c < 'a' || c > 'z') || strings.HasSuffix(word, ")") ||
			strings.ContainsFunc(word, func(c rune) bool { return c >= utf8.RuneSelf }) {
			continue
		}
		var b strings.Builder
		for _, f := range fields[1:] {
			s, ok := arpabet(f)
			if !ok {
				return fmt.Errorf("the dictionary's line %d: %.20q is no sound of ARPABET", number, f)
			}
			b.WriteString(s)
		}
		value := b.String()
		if err := sounds(value); err != nil {
			return fmt.Errorf("the dictionary's line %d: %w", number, err)
		}
		l.others.add(word, value)
	}
	if l.others.count == 0 {
		return errors.New("the dictionary has no line with a word and its sounds")
	}
	return nil
}

// arpabet is a sound of ARPABET in Kokoro's symbols. A vowel's digit is its stress.
func arpabet(s string) (string, bool) {
	name := strings.ToUpper(s)
	stress := ""
	if n := len(name) - 1; n > 0 && name[n] >= '0' && name[n] <= '2' {
		if s, ok := unstressed[name]; ok {
			return s, true
		}
		stress = [...]string{"", "ˈ", "ˌ"}[name[n]-'0']
		name = name[:n]
	}
	symbol, ok := arpabets[name]
	return stress + symbol, ok
}

// entry reads a word's value: the symbols, then for each part of speech a line break, its name, a
// space and its symbols.
func entry(d *json.Decoder) (string, error) {
	var raw any
	if err := d.Decode(&raw); err != nil {
		return "", err
	}
	var value string
	switch v := raw.(type) {
	case string:
		value = v
	case map[string]any:
		value, _ = v["DEFAULT"].(string)
		for part, sound := range v {
			s, ok := sound.(string)
			if !ok && sound != nil {
				return "", fmt.Errorf("%.40q has no symbols", part)
			}
			if part == "DEFAULT" || !ok {
				continue
			}
			if err := sounds(s); err != nil {
				return "", err
			}
			value += "\n" + part + " " + s
		}
	default:
		return "", errors.New("neither symbols nor an object by part of speech")
	}
	first, _, _ := strings.Cut(value, "\n")
	if len(value) > longestValue {
		return "", fmt.Errorf("its symbols take %d bytes, at most %d are possible", len(value), longestValue)
	}
	return value, sounds(first)
}

func sounds(s string) error {
	if n := utf8.RuneCountInString(s); n == 0 || n > longestSound {
		return fmt.Errorf("%d symbols, 1 to %d are possible", n, longestSound)
	}
	for _, c := range s {
		if !strings.ContainsRune(symbols, c) {
			return fmt.Errorf("%q is no symbol of Kokoro's English", c)
		}
	}
	return nil
}

// slot is where word is, or may go.
func (l *Lexicon) slot(word string) int {
	mask := uint64(len(l.slots) - 1)
	for at := maphash.String(l.seed, word) & mask; ; at = (at + 1) & mask {
		if l.slots[at] == 0 || l.key(l.slots[at]) == word {
			return int(at)
		}
	}
}

func (l *Lexicon) key(at uint32) string {
	return string(l.data[at : int(at)+int(l.data[at-1])])
}

func (l *Lexicon) add(word, value string) {
	at := l.slot(word)
	if l.slots[at] != 0 || len(l.data) > math.MaxUint32-1000 {
		return
	}
	l.data = append(l.data, byte(len(word)))
	l.slots[at] = uint32(len(l.data))
	l.data = append(append(append(l.data, word...), byte(len(value))), value...)
	if l.count++; 4*l.count > 3*len(l.slots) {
		old := l.slots
		l.slots = make([]uint32, 2*len(old))
		for _, offset := range old {
			if offset != 0 {
				l.slots[l.slot(l.key(offset))] = offset
			}
		}
	}
}

// find is how a word sounds as a part of speech, or by default; "" if it is not known.
func (l *Lexicon) find(word, part string) string {
	if len(word) > longestWord {
		return ""
	}
	at := l.slots[l.slot(word)]
	if at == 0 {
		return ""
	}
	end := int(at) + len(word)
	value := string(l.data[end+1 : end+1+int(l.data[end])])
	first, rest, _ := strings.Cut(value, "\n")
	for line := range strings.SplitSeq(rest, "\n") {
		if sound, ok := strings.CutPrefix(line, part+" "); ok && part != "" {
			return sound
		}
	}
	return first
}
