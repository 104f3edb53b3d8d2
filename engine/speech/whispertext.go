package speech

import (
	"compress/zlib"
	"io"
	"strings"

	"github.com/axle-llm/axle/models"
)

// textOf is the text of tokens. Bytes that are no UTF-8 are replaced.
func textOf(p *models.Whisper, tokens []int32) string {
	var text strings.Builder
	for _, id := range tokens {
		if id < p.EOT {
			text.WriteString(p.Tokens[id])
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(text.String(), "\ufffd"))
}

// compression is how many times smaller zlib makes a text: more for one that repeats itself.
func compression(text string) float64 {
	if text == "" {
		return 0
	}
	var n counter
	z := zlib.NewWriter(&n)
	_, _ = io.WriteString(z, text) // a counter gives no error
	_ = z.Close()
	return float64(len(text)) / float64(n)
}

type counter int

func (n *counter) Write(p []byte) (int, error) {
	*n += counter(len(p))
	return len(p), nil
}

// promptTokens are the last tokens of a text, as many as a prompt may have. The vocabulary lists
// tokens in the order in which pairs are joined, and has none across words.
func promptTokens(p *models.Whisper, text string) (tokens []int32) {
	text = strings.ToValidUTF8(text[max(0, len(text)-whisperPrompt):], "")
	ids := make(map[string]int32, len(p.Tokens))
	for i := len(p.Tokens) - 1; i >= 0; i-- {
		ids[p.Tokens[i]] = int32(i)
	}
	for word := range strings.FieldsSeq(text) {
		var parts []string
		for _, b := range []byte(" " + word) {
			parts = append(parts, string([]byte{b}))
		}
		for {
			best, first := -1, int32(len(p.Tokens))
			for i := 1; i < len(parts); i++ {
				if id, ok := ids[parts[i-1]+parts[i]]; ok && id < first {
					best, first = i, id
				}
			}
			if best < 0 {
				break
			}
			parts[best-1] += parts[best]
			parts = append(parts[:best], parts[best+1:]...)
		}
		for _, part := range parts {
			if id, ok := ids[part]; ok {
				tokens = append(tokens, id)
			}
		}
	}
	const most = models.WhisperPlaces/2 - 1
	return tokens[max(0, len(tokens)-most):]
}
