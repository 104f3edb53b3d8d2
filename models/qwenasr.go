package models

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/axcl"
)

// QwenASR is a recogniser of speech that is a language model with an encoder of sound: the rows
// that the encoder makes of a piece of speech stand in the prompt, and the answer is what was said.
// Its fields are not to be changed. Close it.
type QwenASR struct {
	base
	Name string
	Text *Package // its layers, head and tokenizer. [Package.Hearing] is the encoder
}

// Hearing is how a language model hears: through two nets, one after the other.
type Hearing struct {
	Front, Encoder NetFile

	Mel     axcl.Tensor // what Front takes: frames of sound, [1, 3000, 128]
	Between Kept        // what Front gives, and the encoder takes
	Mask    axcl.Tensor // of the encoder: 1 for each row that counts, in a type of its own
	Output  axcl.Tensor // of the encoder: rows of the prompt, [1, Rows, hidden]
	Rows    int         // the most rows of a piece of sound

	Placeholder int32 // the token that stands for a row
	Text        int32 // the token between the language and the text of an answer
}

// Words of a prompt and of an answer that are one token each.
const (
	SoundBegins   = "<|audio_start|>"
	SoundRow      = "<|audio_pad|>"
	SoundEnds     = "<|audio_end|>"
	TextBegins    = "<asr_text>"
	turnBegins    = "<|im_start|>"
	turnEnds      = "<|im_end|>"
	soundFrames   = features.MelFrames
	soundMels     = 128
	maxConvValues = 1 << 24
)

// SoundRows is how many rows a piece of sound of that many frames has: 13 for each second, and for
// the rest one for every eight frames that have begun.
func SoundRows(frames int) int { return 13*(frames/100) + (frames%100+7)/8 }

// SoundFrames is the most frames of a piece of sound that has at most that many rows.
func SoundFrames(rows int) int { return 100*(rows/13) + 8*(rows%13) }

// QwenLanguages are the languages that Qwen3-ASR writes down, by their ISO codes, as it calls them:
// the list support_languages in the configuration of its checkpoints.
var QwenLanguages = map[string]string{"zh": "Chinese", "en": "English", "yue": "Cantonese", "ar": "Arabic", "de": "German",
	"fr": "French", "es": "Spanish", "pt": "Portuguese", "id": "Indonesian", "it": "Italian", "ko": "Korean", "ru": "Russian",
	"th": "Thai", "vi": "Vietnamese", "ja": "Japanese", "tr": "Turkish", "hi": "Hindi", "ms": "Malay", "nl": "Dutch", "sv": "Swedish",
	"da": "Danish", "fi": "Finnish", "pl": "Polish", "cs": "Czech", "fil": "Filipino", "fa": "Persian", "el": "Greek",
	"ro": "Romanian", "hu": "Hungarian", "mk": "Macedonian"}

// Language returns what the model calls a language, by its ISO code; empty where it is to find the
// language. ok is false where the model does not know it.
func (q *QwenASR) Language(code string) (name string, ok bool) {
	code = spokenLanguage(code)
	switch code {
	case "", "auto":
		return "", true
	case "tl":
		code = "fil"
	}
	name, ok = QwenLanguages[code]
	return name, ok
}

// convolves says whether a net is the first of Qwen3-ASR's two, and attends whether it is the
// second.
func convolves(n net) bool { return n.takes("input_features") && n.gives("conv_output") }
func attends(n net) bool   { return n.takes("input_features", "feature_attention_mask") }

// openQwenASR opens the package that was recognised as one: the nets of the encoder, and the others
// as those of a language model.
func openQwenASR(k *KindError) (other, error) {
	p, h := k.plan, &Hearing{}
	front, err := k.only(convolves, "Qwen3-ASR's conv_frontend")
	if err != nil {
		return nil, err
	}
	encoder, err := k.only(attends, "Qwen3-ASR's encoder")
	if err != nil {
		return nil, err
	}
	if err := p.language(); err != nil {
		return nil, err
	}
	text, err := p.open(k.Info.Name)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (other, error) {
		_ = text.Close()
		return nil, err
	}
	bad := func(n *net, err error) (other, error) {
		return fail(&Error{Path: p.t.where(n.name), What: err.Error(), Fix: "take encoder and layers from one build", Err: ErrMismatch})
	}
	if err := h.takeFront(*front); err != nil {
		return bad(front, err)
	}
	if err := h.takeEncoder(*encoder, text.Hidden); err != nil {
		return bad(encoder, err)
	}
	if reach := text.reach(); reach <= h.Rows {
		return fail(&Error{Path: p.t.where(p.layers[0]), What: fmt.Sprintf("its prefill groups take %d rows, a piece of sound has up to %d",
			reach, h.Rows), Fix: "take a build with more prefill groups", Err: ErrMismatch})
	}
	if h.Front, err = k.file(front); err != nil {
		return fail(err)
	}
	if h.Encoder, err = k.file(encoder); err != nil {
		return fail(err)
	}
	text.hears, text.digest, text.Size = h, k.Info.Digest, k.Info.Size
	q := &QwenASR{base: base{info: k.Info}, Name: k.Info.Name, Text: text}
	q.describe(path.Base(front.name), path.Base(encoder.name))
	return q, nil
}

// reach is how many rows of a prompt go through prefill groups.
func (p *Package) reach() (rows int) {
	for _, g := range p.Shape.Groups {
		if g.Rows > 1 {
			rows = max(rows, g.Rows+g.Cells)
		}
	}
	return min(rows, p.Context)
}

// takeFront notes the tensors of the first net, or says which of them is not as it should be.
func (h *Hearing) takeFront(n net) error {
	h.Mel, h.Between.From = n.input("input_features"), n.output("conv_output")
	switch out := h.Between.From; {
	case len(n.in) != 1:
		return fmt.Errorf("takes %s: another form of Qwen3-ASR", tensors(n.in))
	case h.Mel.Type != axcl.FP32 || !shaped(h.Mel, 1, soundFrames, soundMels):
		return fmt.Errorf("input_features is %v %v: fp32 [1 %d %d] is expected", h.Mel.Type, h.Mel.Shape, soundFrames, soundMels)
	case out.Type != axcl.FP32 || !shaped(out, 1, SoundRows(soundFrames), -1) || elements(out) < 1 || elements(out) > maxConvValues:
		return fmt.Errorf("conv_output is %v %v: fp32 [1 %d width] is expected", out.Type, out.Shape, SoundRows(soundFrames))
	}
	return nil
}

// takeEncoder does the same for the second net.
func (h *Hearing) takeEncoder(n net, hidden int) error {
	h.Between.To, h.Mask = n.input("input_features"), n.input("feature_attention_mask")
	h.Rows = SoundRows(soundFrames)
	from := h.Between.From
	if t := h.Between.To; t.Type != from.Type || !slices.Equal(t.Shape, from.Shape) {
		return fmt.Errorf("input_features is %v %v: conv_output is %v %v", t.Type, t.Shape, from.Type, from.Shape)
	}
	if !shaped(h.Mask, 1, h.Rows) || One(h.Mask.Type) == nil {
		return fmt.Errorf("feature_attention_mask is %v %v: [1 %d] of numbers is expected", h.Mask.Type, h.Mask.Shape, h.Rows)
	}
	if len(n.in) != 2 || len(n.out) != 1 {
		return fmt.Errorf("takes %s and gives %s: another form of Qwen3-ASR", tensors(n.in), tensors(n.out))
	}
	h.Output = n.out[0]
	if t := h.Output; t.Type != axcl.FP32 && t.Type != axcl.BF16 || !shaped(t, 1, h.Rows, hidden) {
		return fmt.Errorf("gives %s: rows of %d are expected, fp32 or bf16 [1 %d %[2]d]", tensors(n.out), hidden, h.Rows)
	}
	return nil
}

// One is the number 1 in a tensor of that type; nil for a type that no mask has.
func One(t axcl.Type) []byte {
	switch t {
	case axcl.Int8, axcl.Uint8:
		return []byte{1}
	case axcl.Int16, axcl.Uint16:
		return []byte{1, 0}
	case axcl.Int32, axcl.Uint32:
		return []byte{1, 0, 0, 0}
	case axcl.Int64, axcl.Uint64:
		return []byte{1, 0, 0, 0, 0, 0, 0, 0}
	case axcl.FP16:
		return []byte{0, 0x3c}
	case axcl.BF16:
		return []byte{0x80, 0x3f}
	case axcl.FP32:
		return []byte{0, 0, 0x80, 0x3f}
	}
	return nil
}

// Hearing is how the package hears, with its tokens. It is nil, without an error, for a package
// that does not. The error is an *Error that says what the tokenizer lacks.
func (p *Package) Hearing() (*Hearing, error) {
	p.hearsOnce.Do(func() {
		if p.hears != nil {
			p.hearsErr = p.hears.resolve(p)
		}
	})
	if p.hearsErr != nil {
		return nil, p.hearsErr
	}
	return p.hears, nil
}

// resolve finds the tokens by their names.
func (h *Hearing) resolve(p *Package) error {
	words, err := p.Tokenizer()
	if err != nil {
		return err
	}
	for _, w := range []string{turnBegins, turnEnds, SoundBegins, SoundEnds, SoundRow, TextBegins} {
		id, ok := words.ID(w)
		if !ok || int(id) >= p.Vocab || w != TextBegins && !words.Control(id) {
			return &Error{Path: p.p.t.where(p.p.tokenizer), What: "has no token " + w + ", which a prompt about sound has",
				Fix: "take the tokenizer of the same model", Err: ErrMismatch}
		}
		switch w {
		case SoundRow:
			h.Placeholder = id
		case TextBegins:
			h.Text = id
		}
	}
	return nil
}

// describe says what is known.
func (q *QwenASR) describe(front, encoder string) {
	i, t := &q.info, q.Text.Info()
	i.Says, i.Capabilities = "", []string{"audio"}
	for code := range QwenLanguages {
		i.Languages = append(i.Languages, code)
	}
	slices.Sort(i.Languages)
	i.Layout, i.TokenizerType, i.Quantization, i.Context, i.Prefill = t.Layout, t.TokenizerType, t.Quantization, t.Context, t.Prefill
	i.Parameters, i.Estimated, i.ParameterSize = t.Parameters, t.Estimated, t.ParameterSize
	i.Hidden, i.Layers, i.Heads, i.KVHeads, i.HeadDim, i.FeedForward = t.Hidden, t.Layers, t.Heads, t.KVHeads, t.HeadDim, t.FeedForward
	i.Vocab, i.Cells, i.KV, i.Groups, i.Memory, i.Notes = t.Vocab, t.Cells, t.KV, t.Groups, t.Memory, t.Notes
	h := q.Text.hears
	i.Encoder = fmt.Sprintf("%s and %s: 30 s of sound, to %d rows %s", front, encoder, h.Rows, strings.ToLower(h.Output.Type.String()))
}

// Close closes the package. A second Close returns [ErrClosed].
func (q *QwenASR) Close() error { return errors.Join(q.Text.Close(), q.base.Close()) }
