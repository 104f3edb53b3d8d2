package tokenizer

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
)

// looksTiktoken reports whether a file begins with a line of base64 and a number.
func looksTiktoken(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	f := bytes.Fields(line)
	if len(f) != 2 {
		return false
	}
	_, err1 := base64.StdEncoding.DecodeString(string(f[0]))
	_, err2 := strconv.Atoi(string(f[1]))
	return err1 == nil && err2 == nil
}

// parseTiktoken reads a tiktoken file: a token in base64 and its rank, which is its id, on each
// line. It holds no control tokens: they come from tokenizer_config.json, or are known by the
// number of tokens.
func parseTiktoken(b []byte, c Config, side sideFiles) (*Tokenizer, error) {
	r := &lineReader{rest: b}
	build := &vocabBuilder{}
	var buf []byte
	for {
		line, ok := r.next()
		if !ok {
			break
		}
		f := bytes.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) != 2 {
			return nil, badf("line %d: %q is not a token and a rank", r.n, truncate(line))
		}
		id, err := strconv.ParseInt(string(f[1]), 10, 64)
		if err == nil {
			buf, err = base64.StdEncoding.AppendDecode(buf[:0], f[0])
		}
		if err != nil {
			return nil, badf("line %d: %q is not a token and a rank", r.n, truncate(line))
		}
		if err := build.add(buf, id, false); err != nil {
			return nil, err
		}
	}
	if build.top == 0 {
		return nil, badf("there is no token in it")
	}
	t := newTokenizer()
	plain, err := build.build()
	if err != nil {
		return nil, err
	}
	styleOf(plain, c, nil).apply(t)
	tokens := side.added
	if len(tokens) == 0 {
		tokens = knownSpecials(build.top)
	}
	return t, t.setRanked(build, tokens)
}

// setRanked builds a vocabulary without merges: two neighbours merge if together they are a token,
// and its id is the rank.
func (t *Tokenizer) setRanked(b *vocabBuilder, tokens []added) error {
	if err := t.setAdded(b, tokens, false); err != nil {
		return err
	}
	p := newPairs(t.vocab.size() * 2)
	for id := range int32(t.vocab.size()) {
		s := t.vocab.bytes(id)
		if len(s) > 256 || t.flags[id]&flagAdded != 0 {
			continue
		}
		for i := 1; i < len(s); i++ {
			a := t.vocab.findBytes(s[:i])
			if a < 0 {
				continue
			}
			if b := t.vocab.findBytes(s[i:]); b >= 0 && p.n < maxMerges {
				p.put(a, b, id, id)
			}
		}
	}
	m := &bpe{v: t.vocab, merges: p, raw: true, unk: -1, whole: true, special: t.kept}
	m.symbolTables()
	t.model = m
	t.dec.byteLevel = true
	return nil
}

// knownSpecials returns the control tokens that go with a published tiktoken file, told by how many
// tokens it has.
func knownSpecials(n int32) []added {
	var out []added
	put := func(id int32, names ...string) {
		for _, s := range names {
			out = append(out, added{id: id, content: s, special: true})
			id++
		}
	}
	switch n {
	case 128000: // Llama 3
		put(n, "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
			"<|finetune_right_pad_id|>",
			"<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>")
		for i := int32(3); i < 248; i++ {
			put(n+8+i, fmt.Sprintf("<|reserved_special_token_%d|>", i))
		}
	case 151643: // Qwen
		put(n, "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>", "<|box_end|>",
			"<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>")
	}
	return out
}
