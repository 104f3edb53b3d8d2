package speech

import (
	"math"
	"testing"

	"github.com/axle-llm/axle/models"
)

// TestForbid: which tokens may follow others, case by case from the rules that OpenAI published
// with Whisper: a text begins with a time of at most 1 s, times come in pairs but before the end, a
// time is not before the last one, and a segment's end is after its beginning. A time is forced
// where all times that may come are together likelier than each other token.
func TestForbid(t *testing.T) {
	const (
		word, bracket = 0, 1 // and more words up to eot
		eot           = 6
		sot           = 7 // and more with a meaning up to the first time
		first         = 12
		beyond        = first + models.WhisperStamps // more of a net's logits than there are tokens
		vocab         = beyond + 3
		none, some    = 0., 20. // logits of times: together less than a word's, and more
	)
	p := &models.Whisper{WhisperIDs: models.WhisperIDs{EOT: eot, SOT: sot, Stamp: first, NonSpeech: []int32{bracket}}}
	at := func(seconds float64) int32 { return first + int32(math.Round(50*seconds)) }
	const last = 30.
	for _, c := range []struct {
		name     string
		said     []int32
		text     bool // words, and the end
		end      bool
		from, to float64 // times; from after to: none
		times    float64 // their logits
	}{
		{"the beginning", nil, false, false, 0, 1, none},
		{"the beginning, times likely", nil, false, false, 0, 1, some},
		{"a first time", []int32{at(0)}, true, true, 1, 0, none},
		{"a first time, times likely", []int32{at(0)}, true, true, 1, 0, some},
		{"a first time of 1 s", []int32{at(1)}, true, true, 1, 0, none},
		{"a word", []int32{at(0), word}, true, true, 0.02, last, none},
		{"a word, times likely", []int32{at(0), word}, false, false, 0.02, last, some},
		{"words after a later time", []int32{at(0.5), word, word}, true, true, 0.52, last, none},
		{"a segment's end", []int32{at(0), word, at(2)}, false, true, 2, last, none},
		{"a segment's end, times likely", []int32{at(0), word, at(2)}, false, false, 2, last, some},
		{"a segment's end after 30 s", []int32{at(0), word, at(last)}, false, true, last, last, none},
		{"a pair", []int32{at(0), word, at(2), at(2)}, true, true, 1, 0, none},
		{"a pair with a pause", []int32{at(0), word, at(2), at(3.5)}, true, true, 1, 0, some},
		{"a word of a second segment", []int32{at(0), word, at(2), at(3.5), word}, true, true, 3.52, last, none},
		{"the same, times likely", []int32{at(0), word, at(2), at(3.5), word}, false, false, 3.52, last, some},
		{"a second segment's end", []int32{at(0), word, at(2), at(3.5), word, word, at(4)}, false, true, 4, last, none},
		{"a word after 30 s", []int32{at(0), word, at(last), at(last), word}, true, true, 1, 0, some},
	} {
		logits := make([]float64, vocab)
		for i := range logits {
			switch {
			case i == bracket || i > eot && i < first || i >= beyond:
				logits[i] = 100 // what is never said counts for nothing
			case i >= first:
				logits[i] = c.times - 8 // 1,501 times e^-8 is half of e^0
			}
		}
		forbid(p, logits, c.said)
		for i, x := range logits {
			may := false
			switch {
			case i == bracket, i > eot && i < first, i >= beyond:
			case i < eot:
				may = c.text
			case i == eot:
				may = c.end
			default:
				may = int32(i) >= at(c.from) && int32(i) <= at(c.to)
			}
			if got := !math.IsInf(x, -1); got != may {
				t.Errorf("%s: token %d (the first time is %d): it may come: %v, want %v", c.name, i, first, got, may)
				break
			}
		}
	}
}

// TestForbidSum: times are forced by their sum, not by the likeliest, and by those alone that may
// come; against the likeliest of words and the end.
func TestForbidSum(t *testing.T) {
	p := &models.Whisper{WhisperIDs: models.WhisperIDs{EOT: 4, SOT: 5, Stamp: 6}}
	for _, c := range []struct {
		name            string
		last            int32   // the segment begins at this time
		word, end, each float64 // probabilities, but for a factor
		forced          bool
	}{
		{"1,500 times of 0.001 each", 0, 1, 0.5, 0.001, true},
		{"1,500 times of 0.0006 each", 0, 1, 0.5, 0.0006, false},
		{"the end is likeliest", 0, 0.5, 1, 0.0006, false},
		{"the end is less likely", 0, 0.5, 1, 0.001, true},
		{"500 times of 0.001 each are left", 1000, 1, 0.5, 0.001, false},
		{"500 times of 0.003 each are left", 1000, 1, 0.5, 0.003, true},
	} {
		logits := make([]float64, 6+models.WhisperStamps)
		for i := range logits {
			logits[i] = math.Log(c.each)
		}
		logits[0], logits[4] = math.Log(c.word), math.Log(c.end)
		forbid(p, logits, []int32{6 + c.last, 0})
		if word, end := math.IsInf(logits[0], -1), math.IsInf(logits[4], -1); word != c.forced || end != c.forced {
			t.Errorf("%s: no word may come: %v, no end: %v", c.name, word, end)
		}
	}
}
