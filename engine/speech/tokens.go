package speech

import (
	"encoding/binary"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/axle-llm/axle/ask"
)

// This file is what the recognisers have in common that say a token, or none, for each row.

// blank is the token of rows in which nothing new is said.
const blank = 0

// heard is a token and its place among the rows of speech: from the first row of it to the last.
type heard struct {
	id       int32
	from, to int
	logprob  float64
}

// likeliest returns the token of the largest of a row's logits, and its log probability; that of
// the blank is not computed. Error: ErrNonsense.
func likeliest(row []byte) (id int32, logprob float64, err error) {
	value := func(i int) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:]))) }
	most := math.Inf(-1)
	for i := range len(row) / 4 {
		x := value(i)
		if math.IsNaN(x) || math.IsInf(x, 1) {
			return 0, 0, ErrNonsense
		}
		if x > most {
			id, most = int32(i), x
		}
	}
	if math.IsInf(most, -1) {
		return 0, 0, ErrNonsense
	}
	if id == blank {
		return id, 0, nil
	}
	sum := 0.0
	for i := range len(row) / 4 {
		sum += math.Exp(value(i) - most)
	}
	return id, -math.Log(sum), nil
}

// special returns the name of a token that is no text, such as <|en|>; empty: it is text.
func special(token string) string {
	name, ok := strings.CutPrefix(token, "<|")
	if name, end := strings.CutSuffix(name, "|>"); ok && end {
		return name
	}
	return ""
}

// segment returns the text of tokens that follow each other, and their words with times. all are
// the tokens by id, a row is so long, and the first began at start. What is later than end counts
// as its last row.
func segment(all []string, tokens []heard, row, start, end time.Duration) (s ask.Segment) {
	var text strings.Builder
	for _, t := range tokens {
		token := all[t.id]
		if special(token) != "" {
			continue
		}
		from, to := min(start+time.Duration(t.from)*row, max(end-row, start)), min(start+time.Duration(t.to+1)*row, end)
		word, fresh := strings.CutPrefix(token, "▁")
		word = strings.ReplaceAll(word, "▁", " ")
		if fresh {
			text.WriteByte(' ')
		}
		text.WriteString(word)
		if s.Tokens == nil {
			s.Start = from
		}
		s.End = to
		s.Tokens = append(s.Tokens, t.id)
		s.Logprob += t.logprob
		if first, _ := utf8.DecodeRuneInString(word); len(s.Words) > 0 && !fresh && !unicode.Is(unicode.Han, first) &&
			!unicode.In(first, unicode.Hiragana, unicode.Katakana, unicode.Hangul) {
			w := &s.Words[len(s.Words)-1]
			w.Text, w.End = w.Text+word, to
		} else if word != "" {
			s.Words = append(s.Words, ask.Word{Text: word, Start: from, End: to})
		}
	}
	if len(s.Tokens) > 0 {
		s.Logprob /= float64(len(s.Tokens))
	}
	s.Text = strings.TrimSpace(text.String())
	return s
}
