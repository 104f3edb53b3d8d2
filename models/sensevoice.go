package models

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/axcl"
)

// SenseVoice is a package of one net that writes speech down: it takes the rows of up to some
// seconds of sound in one call, and gives the logits of a token for each row. Its fields are not to
// be changed. Close it.
type SenseVoice struct {
	base
	Name   string
	Net    string         // the net's real path; its name in the package where there is none
	Speech axcl.Tensor    // rows of features, [1, Rows, 560]
	Mask   axcl.Tensor    // 1 for each row that counts; no name: the net takes none
	Spoken axcl.Tensor    // the language's number alone, or with the three others of the prompt
	Logits axcl.Tensor    // [1, Rows+4, Vocab]
	Rows   int            // of speech, 60 ms each
	Tokens []string       // by id
	CMVN   *features.CMVN // shifts and scales the rows; nil: the net does it
}

// The numbers of the languages in SenseVoice's prompt. The empty language is found by the model.
var senseLanguages = map[string]int32{"": 0, "auto": 0, "zh": 3, "en": 4, "yue": 7, "ja": 11, "ko": 12}

// Language returns the number of a language by its ISO code. ok is false where the model does not
// know it.
func (s *SenseVoice) Language(code string) (n int32, ok bool) {
	code = spokenLanguage(code)
	if code != "" && code != "auto" && !slices.Contains(s.info.Languages, code) {
		return 0, false
	}
	n, ok = senseLanguages[code]
	return n, ok
}

// senseExtra is how many rows the net puts before those of speech: the language, the emotion, the
// event, and whether numbers and punctuation are written.
const senseExtra = 4

const (
	maxSenseRows = 1 << 12 // four minutes
	maxTokenList = 8 << 20 // bytes
)

// sensesVoice says whether a net is SenseVoice's, in one of its two forms.
func sensesVoice(n net) bool {
	return shaped(n.input("speech"), 1, -1, features.LFRWidth) && n.takes("mask", "language") ||
		shaped(n.input("x"), 1, -1, features.LFRWidth) && n.takes("prompt")
}

// openSenseVoice opens the package that was recognised as one. Of several nets it takes the one
// that hears the longest: the others are made for streams.
func openSenseVoice(k *KindError) (other, error) {
	p := k.plan
	s := &SenseVoice{base: base{info: k.Info}, Name: k.Info.Name}
	at := ""
	for _, n := range k.nets {
		if !sensesVoice(n) {
			continue
		}
		speech := n.input("speech")
		if speech.Name == "" {
			speech = n.input("x")
		}
		if speech.Shape[1] <= s.Rows {
			continue
		}
		if err := s.take(n, speech); err != nil {
			return nil, &Error{Path: p.t.where(n.name), What: err.Error(), Err: ErrMismatch}
		}
		at = n.name
	}
	if at == "" {
		return nil, &Error{Path: p.t.where("."), What: "none of its nets takes rows of speech", Err: ErrMissing}
	}
	if i := slices.IndexFunc(p.t.names, func(name string) bool { return strings.HasPrefix(name, "embeddings/") }); i >= 0 {
		return nil, &Error{Path: p.t.where(p.t.names[i]), What: "a build whose prompt is a file of embeddings, which axle does not run",
			Fix: "pull a build that takes the language as an input", Err: ErrMismatch}
	}
	var err error
	if s.Net, _, err = p.t.realPath(at); err != nil {
		return nil, err
	}
	if s.Mask.Name != "" {
		if err := s.readCMVN(p.t); err != nil {
			return nil, err
		}
	}
	if err := s.readTokens(p.t); err != nil {
		return nil, err
	}
	s.describe(p.t.files[at])
	return s, nil
}

// take notes the tensors of a net, or says which of them is not as it should be.
func (s *SenseVoice) take(n net, speech axcl.Tensor) error {
	s.Speech, s.Rows, s.Mask, s.Spoken = speech, speech.Shape[1], n.input("mask"), n.input("language")
	out := "ctc_logits"
	prompt := 1
	if speech.Name == "x" {
		s.Mask, s.Spoken, out, prompt = axcl.Tensor{}, n.input("prompt"), "logits", senseExtra
	}
	i := slices.IndexFunc(n.out, func(t axcl.Tensor) bool { return t.Name == out })
	switch {
	case s.Rows < 1 || s.Rows > maxSenseRows:
		return fmt.Errorf("takes %d rows of speech: 1 to %d are possible", s.Rows, maxSenseRows)
	case speech.Type != axcl.FP32:
		return fmt.Errorf("%s is %v: fp32 is expected", speech.Name, speech.Type)
	case s.Spoken.Type != axcl.Int32 || elements(s.Spoken) != prompt:
		return fmt.Errorf("%s is %v %v: %d int32 are expected", s.Spoken.Name, s.Spoken.Type, s.Spoken.Shape, prompt)
	case s.Mask.Name != "" && (s.Mask.Type != axcl.Int32 || elements(s.Mask) != s.Rows+senseExtra):
		return fmt.Errorf("mask is %v %v: %d int32 are expected", s.Mask.Type, s.Mask.Shape, s.Rows+senseExtra)
	case i < 0 || n.out[i].Type != axcl.FP32 || !shaped(n.out[i], 1, s.Rows+senseExtra, -1):
		return fmt.Errorf("does not give %s, fp32 [1 %d vocabulary]", out, s.Rows+senseExtra)
	case len(n.in) != 3 && s.Mask.Name != "" || len(n.in) != 2 && s.Mask.Name == "":
		return fmt.Errorf("takes %s: another form of SenseVoice", tensors(n.in))
	}
	s.Logits = n.out[i]
	return nil
}

// readCMVN reads am.mvn, which lies beside the net or above it.
func (s *SenseVoice) readCMVN(t *tree) error {
	at, b, err := t.only("am.mvn", maxSenseRows<<8)
	if err != nil {
		return err
	}
	if s.CMVN, err = features.ReadCMVN(b); err != nil {
		return &Error{Path: t.where(at), What: strings.TrimPrefix(err.Error(), "features: am.mvn: "), Fix: "fetch the file again",
			Err: ErrMalformed}
	}
	if w := s.CMVN.Width(); w != features.LFRWidth {
		return &Error{Path: t.where(at), What: fmt.Sprintf("is of rows of %d values, the net's have %d", w, features.LFRWidth),
			Fix: "take the am.mvn of the same model", Err: ErrMismatch}
	}
	return nil
}

// readTokens reads tokens.txt: a token in each line, or a token and its id.
func (s *SenseVoice) readTokens(t *tree) error {
	at, b, err := t.only("tokens.txt", maxTokenList)
	if err != nil {
		return err
	}
	if s.Tokens, err = tokenList(b, s.Logits.Shape[2]); err != nil {
		return &Error{Path: t.where(at), What: err.Error(), Fix: "take the tokens.txt of the same model", Err: ErrMismatch}
	}
	return nil
}

// tokenList reads a list of tokens by id. Where every line ends in a number that is its id, these
// are left out. There must be as many tokens as the vocabulary has, or more.
func tokenList(b []byte, vocab int) (tokens []string, err error) {
	if !utf8.Valid(b) {
		return nil, errors.New("is not UTF-8")
	}
	numbered := true
	lines := bufio.NewScanner(strings.NewReader(string(b)))
	for lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		at := strings.LastIndexAny(line, " \t")
		id, err := strconv.Atoi(line[at+1:])
		numbered = numbered && at >= 0 && err == nil && id == len(tokens)
		tokens = append(tokens, line)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", len(tokens)+1, err)
	}
	if len(tokens) < vocab {
		return nil, fmt.Errorf("has %d tokens, the net gives logits of %d", len(tokens), vocab)
	}
	if numbered {
		for i, line := range tokens {
			tokens[i] = line[:strings.LastIndexAny(line, " \t")]
		}
	}
	return tokens[:vocab], nil
}

// describe says what is known.
func (s *SenseVoice) describe(file int64) {
	i := &s.info
	i.Says, i.Capabilities = "", []string{"audio"}
	var all []string
	for code := range senseLanguages {
		if code == "" || code == "auto" {
			continue
		}
		if all = append(all, code); slices.Contains(s.Tokens, "<|"+code+"|>") {
			i.Languages = append(i.Languages, code)
		}
	}
	if len(i.Languages) == 0 { // its tokens do not name any
		i.Languages = all
	}
	slices.Sort(i.Languages)
	i.Vocab = s.Logits.Shape[2]
	i.Groups = []string{fmt.Sprintf("%.1f s of speech", 0.06*float64(s.Rows))}
	s.memory([]int64{file}, s.Speech, s.Mask, s.Spoken, s.Logits)
	i.Quantization = cmp.Or(i.Quantization, quantizationOf(s.Net))
}
