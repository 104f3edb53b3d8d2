package tokenizer

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// CLIP's tokenizer is byte-level BPE in which the last symbol of a word is another one than within
// a word: its text ends in </w>. It comes as vocab.json and merges.txt, or as vocab.txt, a line for
// each token, and neither says how text is cut. So it becomes a tokenizer.json that does.
const (
	clipMark  = "</w>"
	clipStart = "<|startoftext|>"
	clipEnd   = "<|endoftext|>"
)

// clipJSON is what Hugging Face's converter writes around CLIP's vocabulary.
type clipJSON struct {
	Normalizer json.RawMessage `json:"normalizer"`
	Pre        json.RawMessage `json:"pre_tokenizer"`
	Decoder    json.RawMessage `json:"decoder"`
	Post       any             `json:"post_processor"`
	Added      []clipToken     `json:"added_tokens"`
	Model      clipModel       `json:"model"`
}

type clipToken struct {
	ID      int64  `json:"id"`
	Content string `json:"content"`
	Special bool   `json:"special"`
}

type clipModel struct {
	Type   string          `json:"type"`
	Suffix string          `json:"end_of_word_suffix"`
	Vocab  json.RawMessage `json:"vocab"`
	Merges []string        `json:"merges"`
}

const (
	clipNormalizer = `{"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}`
	clipWords      = `{"type": "Sequence", "pretokenizers": [
		{"type": "Split", "behavior": "Removed", "invert": true, "pattern": {"Regex": "'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"}},
		{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]}`
	clipDecoder = `{"type": "ByteLevel"}`
)

// parseCLIP makes the tokenizer of vocab.json and the merges, "a b" each.
func parseCLIP(vocab json.RawMessage, merges []string) (*Tokenizer, error) {
	ends := make(map[string]int64)
	r := &reader{b: vocab}
	r.open('{')
	for first := true; r.more('}', first); first = false {
		switch k := string(r.key()); k {
		case clipStart, clipEnd:
			ends[k] = r.int()
		default:
			r.int()
		}
	}
	if r.err != nil {
		return nil, r.err
	}
	if len(ends) != 2 {
		return nil, unsupportedf("a vocab.json without %s and %s, which is not CLIP's (other models bring a tokenizer.json)", clipStart,
			clipEnd)
	}
	j := clipJSON{
		Normalizer: json.RawMessage(clipNormalizer), Pre: json.RawMessage(clipWords), Decoder: json.RawMessage(clipDecoder),
		Post:  map[string]any{"type": "RobertaProcessing", "cls": []any{clipStart, ends[clipStart]}, "sep": []any{clipEnd, ends[clipEnd]}},
		Added: []clipToken{{ends[clipStart], clipStart, true}, {ends[clipEnd], clipEnd, true}},
		Model: clipModel{"BPE", clipMark, vocab, merges},
	}
	b, err := json.Marshal(j)
	if err != nil {
		return nil, badf("%v", err)
	}
	return parseHF(b)
}

// parseCLIPFiles reads vocab.json, which is b, and the merges.txt beside it.
func parseCLIPFiles(fsys fs.FS, name string, b []byte) (*Tokenizer, error) {
	name = path.Join(path.Dir(name), "merges.txt")
	text, err := readFile(fsys, name, maxFile)
	if err != nil {
		return nil, &Error{File: name, What: "cannot be read, and vocab.json needs it", Err: err}
	}
	var merges []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" || len(merges) == 0 && strings.HasPrefix(line, "#version") {
			continue
		}
		if merges = append(merges, line); len(merges) > maxMerges {
			return nil, &Error{File: name, What: "there are more than 8388608 merges in it"}
		}
	}
	return parseCLIP(b, merges)
}

// clipHead is how CLIP's vocab.txt begins: with the bytes in the order of its alphabet.
const clipHead = "!\n\"\n#\n$\n"

func looksCLIP(head []byte) bool {
	return bytes.HasPrefix(bytes.ReplaceAll(head, []byte("\r"), nil), []byte(clipHead))
}

// parseCLIPLines reads vocab.txt, where a token's id is its line. The merges are not in it, but the
// tokens stand in their order: each is what the merges before it leave of its symbols, two parts.
func parseCLIPLines(b []byte) (*Tokenizer, error) {
	// At \n alone: a token may hold other ends of lines. One at the end ends the last line.
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) > maxID {
		return nil, badf("it has %d lines", len(lines))
	}
	ids := make(map[string]int, len(lines))
	ranks := make(map[[2]string]int, len(lines))
	var merges []string
	for id, token := range lines {
		token = strings.TrimSuffix(token, "\r")
		if _, twice := ids[token]; twice || token == "" || len(token) > 512 || !utf8.ValidString(token) {
			return nil, badf("line %d is %q, which is no token, or there twice", id+1, token[:min(len(token), 40)])
		}
		ids[token] = id
		if token == clipStart || token == clipEnd {
			continue
		}
		parts := clipParts(token, ranks)
		switch {
		case len(parts) == 1:
			continue
		case len(parts) != 2:
			return nil, badf("line %d, %q, is no merge of two tokens before it", id+1, token)
		}
		ranks[[2]string(parts)] = len(merges)
		merges = append(merges, parts[0]+" "+parts[1])
	}
	vocab, err := json.Marshal(ids)
	if err != nil {
		return nil, badf("%v", err)
	}
	return parseCLIP(vocab, merges)
}

// clipParts is what merges leave of a token's symbols.
func clipParts(token string, ranks map[[2]string]int) (parts []string) {
	word, ended := strings.CutSuffix(token, clipMark)
	if word == "" {
		word, ended = token, false // the four signs themselves
	}
	for _, r := range word {
		parts = append(parts, string(r))
	}
	if ended {
		parts[len(parts)-1] += clipMark
	}
	for len(parts) > 2 {
		best, at := len(ranks), -1
		for i := range len(parts) - 1 {
			if rank, ok := ranks[[2]string(parts[i:i+2])]; ok && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
	return parts
}

// Window returns n ids for a net that reads that many: Prefix, the ids of text, Suffix, and pad for
// the rest. Where text is too long, cut ids of its end are left out. Nothing in text becomes a
// control token. Errors: those of [Tokenizer.EncodeContext]; n has no room for Prefix and Suffix.
func (t *Tokenizer) Window(ctx context.Context, text string, n int, pad int32) (ids []int32, cut int, err error) {
	room := n - len(t.prefix) - len(t.suffix)
	if room < 0 {
		return nil, 0, badf("a window of %d ids has no room for what goes around a text", n)
	}
	list, err := t.EncodeContext(ctx, nil, []Part{{Text: text}})
	if err != nil {
		return nil, 0, err
	}
	cut = max(len(list)-room, 0)
	ids = slices.Concat(t.prefix, list[:len(list)-cut], t.suffix)
	for len(ids) < n {
		ids = append(ids, pad)
	}
	return ids, cut, nil
}
