package tokenizer

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// bertHead is how a list of BERT's tokens begins.
const bertHead = "[PAD]\n"

func looksBERT(head []byte) bool {
	return bytes.HasPrefix(bytes.ReplaceAll(head, []byte("\r"), nil), []byte(bertHead))
}

// parseBERTLines reads BERT's vocab.txt, where a token's id is its line. It says nothing else, so
// it becomes a tokenizer.json as BERT's uncased models have it: [CLS], WordPiece, [SEP].
func parseBERTLines(b []byte) (*Tokenizer, error) {
	// At \n alone: Chinese lists have U+2028, and others, as tokens.
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) > maxID {
		return nil, badf("it has %d lines", len(lines))
	}
	ids := make(map[string]int, len(lines))
	for id, token := range lines {
		token = strings.TrimSuffix(token, "\r")
		if _, twice := ids[token]; twice || token == "" || len(token) > maxToken || !utf8.ValidString(token) {
			return nil, badf("line %d is %q, which is no token, or there twice", id+1, token[:min(len(token), 40)])
		}
		ids[token] = id
	}
	var added []clipToken
	for _, name := range []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"} {
		id, ok := ids[name]
		if !ok && name != "[MASK]" {
			return nil, badf("it lacks %s, which texts need", name)
		}
		if ok {
			added = append(added, clipToken{int64(id), name, true})
		}
	}
	j, err := json.Marshal(map[string]any{
		"normalizer":    map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "lowercase": true},
		"pre_tokenizer": map[string]any{"type": "BertPreTokenizer"},
		"decoder":       map[string]any{"type": "WordPiece", "prefix": "##", "cleanup": true},
		"post_processor": map[string]any{"type": "BertProcessing", "cls": []any{"[CLS]", ids["[CLS]"]},
			"sep": []any{"[SEP]", ids["[SEP]"]}},
		"added_tokens": added,
		"model": map[string]any{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
			"max_input_chars_per_word": 100, "vocab": ids},
	})
	if err != nil {
		return nil, badf("%v", err)
	}
	return parseHF(j)
}
