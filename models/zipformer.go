package models

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/axcl"
)

// Zipformer is a package that writes speech down while it is spoken: an encoder that takes a piece
// of sound in each call, together with the states that the call before left, and a decoder and a
// joiner that say at most one symbol for each of the encoder's rows. Its fields are not to be
// changed. Close it.
type Zipformer struct {
	base
	Name    string
	Encoder NetFile
	Decoder NetFile
	Joiner  NetFile
	Frames  axcl.Tensor // the encoder's input, [1, Step+7, 80]
	Rows    axcl.Tensor // what it gives, [1, Step/4, width]
	States  []Kept      // what it gives and takes back
	Last    axcl.Tensor // the decoder's input: the last two symbols
	Context axcl.Tensor // what it gives
	Row     axcl.Tensor // the joiner's inputs: one of the encoder's rows,
	After   axcl.Tensor // and what the decoder gave
	Logits  axcl.Tensor // of each symbol
	Step    int         // frames from call to call
	Symbols []string    // by id; 0 is the blank
}

const (
	// ZipformerSets is how many sets of states are on a card: that of the call that runs, and those
	// of seven transcriptions. A set takes about 2 MB. A second of sound takes some 30 to 50 short
	// calls, so not many more microphones are heard at once; a transcription for which there is no
	// set has its states in this machine's memory.
	ZipformerSets = 8

	zipformerKinds  = 7 // states of a stage
	zipformerStages = 16
	zipformerDeep   = 64 // layers of a stage
	zipformerAhead  = 7  // frames of a call that the next one takes again
	zipformerShrink = 4  // frames of a row
	zipformerFrames = 3000
	zipformerWide   = 1 << 14
	zipformerVocab  = 1 << 17
	zipformerBytes  = 256 << 20 // of a set of states
	zipformerBlank  = 0
)

// zipformerStates are the states of a stage of L layers, in the order of the encoder's tensors: the
// type, and the dimensions behind L. −1 stands for any. The rows of key and values are as many.
var zipformerStates = [zipformerKinds]struct {
	kind string
	typ  axcl.Type
	dims []int
}{{"len", axcl.Int32, []int{1}}, {"avg", axcl.FP32, []int{1, -1}}, {"key", axcl.FP32, []int{-1, 1, -1}},
	{"val", axcl.FP32, []int{-1, 1, -1}}, {"val2", axcl.FP32, []int{-1, 1, -1}}, {"conv1", axcl.FP32, []int{1, -1, -1}},
	{"conv2", axcl.FP32, []int{1, -1, -1}}}

// zipformer is the encoder, or the joiner by its usual names.
func zipformer(n net) bool {
	return zipformerEncoder(n) || zipformerJoiner(n) && n.takes("encoder_out", "decoder_out")
}

func zipformerEncoder(n net) bool {
	return n.takes("x", "cached_len_0", "cached_key_0") && n.gives("encoder_out")
}

func zipformerDecoder(n net) bool {
	return len(n.in) == 1 && len(n.out) == 1 && integer(n.in[0]) && shaped(n.in[0], 1, 2)
}

func zipformerJoiner(n net) bool {
	return len(n.in) == 2 && len(n.out) == 1 && shaped(n.in[0], 1, -1) && shaped(n.in[1], 1, -1) && shaped(n.out[0], 1, -1)
}

// openZipformer opens the package that was recognised as one.
func openZipformer(k *KindError) (other, error) {
	t := k.plan.t
	z := &Zipformer{base: base{info: k.Info}, Name: k.Info.Name}
	var found []*net
	for _, part := range []struct {
		name  string
		is    func(net) bool
		check func(net) error
		file  *NetFile
	}{{"encoder", zipformerEncoder, z.checkEncoder, &z.Encoder}, {"decoder of two symbols", zipformerDecoder, z.checkDecoder, &z.Decoder},
		{"joiner", zipformerJoiner, z.checkJoiner, &z.Joiner}} {
		it, err := k.only(part.is, "a Zipformer's "+part.name)
		if err != nil {
			return nil, err
		}
		if err := part.check(*it); err != nil {
			return nil, &Error{Path: t.where(it.name), What: err.Error(), Fix: "take all files from the same package", Err: ErrMismatch}
		}
		if *part.file, err = k.file(it); err != nil {
			return nil, err
		}
		found = append(found, it)
	}
	if err := z.readSymbols(t); err != nil {
		return nil, err
	}
	z.describe(t, found)
	return z, nil
}

// like says where a tensor is not of a type and these dimensions; −1 stands for any.
func like(t axcl.Tensor, typ axcl.Type, dims ...int) error {
	fits := t.Type == typ && shaped(t, dims...)
	for _, d := range t.Shape {
		fits = fits && d > 0 && d <= zipformerWide
	}
	if !fits {
		return fmt.Errorf("%s is %v %v: %v %s is expected, n up to %d", t.Name, t.Type, t.Shape, typ,
			strings.ReplaceAll(fmt.Sprint(dims), "-1", "n"), zipformerWide)
	}
	return nil
}

// checkEncoder reads the size of a call and the states.
func (z *Zipformer) checkEncoder(n net) error {
	z.Frames, z.Rows = n.input("x"), n.output("encoder_out")
	if err := cmp.Or(like(z.Frames, axcl.FP32, 1, -1, features.FbankBins), like(z.Rows, axcl.FP32, 1, -1, -1)); err != nil {
		return err
	}
	z.Step = z.Frames.Shape[1] - zipformerAhead
	if z.Step < zipformerShrink || z.Step > zipformerFrames || z.Step != zipformerShrink*z.Rows.Shape[1] {
		return fmt.Errorf("takes %d frames and gives %d rows: %d frames more than %d for each row are expected, and at most %d",
			z.Frames.Shape[1], z.Rows.Shape[1], zipformerAhead, zipformerShrink, zipformerFrames)
	}
	stages := 0
	for stages <= zipformerStages && n.takes(fmt.Sprint("cached_len_", stages)) {
		stages++
	}
	// An output's name need not say which state it is: they come in the order of the inputs.
	given := slices.DeleteFunc(slices.Clone(n.out), func(t axcl.Tensor) bool { return t.Name == "encoder_out" })
	if states := zipformerKinds * stages; stages > zipformerStages || len(n.in) != 1+states || len(given) != states {
		return fmt.Errorf("takes %d tensors and gives %d: x or encoder_out and %d states of each of at most %d stages are expected",
			len(n.in), len(n.out), zipformerKinds, zipformerStages)
	}
	total := 0
	for i, kind := range zipformerStates {
		for stage := range stages {
			name := fmt.Sprintf("cached_%s_%d", kind.kind, stage)
			if !n.takes(name) {
				return fmt.Errorf("does not take %s", name)
			}
			to, from := n.input(name), n.output("new_"+name)
			if from.Name == "" {
				from = given[stages*i+stage]
			}
			if err := z.checkState(n, stage, to, from, kind.typ, kind.dims); err != nil {
				return err
			}
			if slices.ContainsFunc(z.States, func(k Kept) bool { return k.From.Name == from.Name }) {
				return fmt.Errorf("gives no tensor for %s", name)
			}
			kept := Kept{from, to}
			if total += kept.Size(); total > zipformerBytes {
				return fmt.Errorf("has states of more than %d MB", zipformerBytes>>20)
			}
			z.States = append(z.States, kept)
		}
	}
	return nil
}

// checkState compares a state with what its stage's others say of layers and rows.
func (z *Zipformer) checkState(n net, stage int, to, from axcl.Tensor, typ axcl.Type, behind []int) error {
	length := n.input(fmt.Sprint("cached_len_", stage))
	if !shaped(length, -1, 1) || length.Shape[0] < 1 || length.Shape[0] > zipformerDeep {
		return fmt.Errorf("%s is %v: [layers 1] is expected, of at most %d layers", length.Name, length.Shape, zipformerDeep)
	}
	dims := append(length.Shape[:1:1], behind...)
	if behind[0] < 0 {
		if key := n.input(fmt.Sprint("cached_key_", stage)); len(key.Shape) > 1 {
			dims[1] = key.Shape[1]
		}
	}
	if err := like(to, typ, dims...); err != nil {
		return err
	}
	return like(from, typ, to.Shape...)
}

func (z *Zipformer) checkDecoder(n net) error {
	z.Last, z.Context = n.in[0], n.out[0]
	if err := like(z.Last, axcl.Int32, 1, 2); err != nil {
		return err
	}
	return like(z.Context, axcl.FP32, z.Context.Shape...)
}

// checkJoiner takes the first input for the encoder's row where the names do not say which it is.
func (z *Zipformer) checkJoiner(n net) error {
	z.Row, z.After, z.Logits = n.in[0], n.in[1], n.out[0]
	if strings.Contains(z.Row.Name, "decoder") && !strings.Contains(z.After.Name, "decoder") {
		z.Row, z.After = z.After, z.Row
	}
	if vocab := z.Logits.Shape[1]; z.Logits.Type != axcl.FP32 || vocab < 2 || vocab > zipformerVocab {
		return fmt.Errorf("%s is %v %v: fp32 [1 vocabulary] is expected, of at most %d symbols", z.Logits.Name, z.Logits.Type,
			z.Logits.Shape, zipformerVocab)
	}
	return cmp.Or(like(z.Row, axcl.FP32, 1, z.Rows.Shape[2]), like(z.After, axcl.FP32, 1, elements(z.Context)))
}

// readSymbols reads tokens.txt: in each line a symbol, a space and its id.
func (z *Zipformer) readSymbols(t *tree) error {
	at, b, err := t.only("tokens.txt", maxTokenList)
	if err != nil {
		return err
	}
	if z.Symbols, err = zipformerSymbols(b, z.Logits.Shape[1]); err != nil {
		return &Error{Path: t.where(at), What: err.Error(), Fix: "take the tokens.txt of the same model", Err: ErrMismatch}
	}
	return nil
}

// zipformerSymbols reads the symbols of a vocabulary. Symbols behind it are those of other tools,
// such as #0.
func zipformerSymbols(b []byte, vocab int) ([]string, error) {
	if !utf8.Valid(b) {
		return nil, errors.New("is not UTF-8")
	}
	symbols, there := make([]string, vocab), make([]bool, vocab)
	lines, n := bufio.NewScanner(strings.NewReader(string(b))), 0
	for lines.Scan() {
		n++
		line := strings.TrimRight(lines.Text(), "\r\t ")
		if line == "" {
			continue
		}
		last := strings.LastIndexAny(line, " \t")
		id, err := strconv.ParseUint(line[last+1:], 10, 31)
		switch {
		case last < 0 || err != nil:
			return nil, fmt.Errorf("line %d is no symbol: a text, a space and a number are expected", n)
		case id >= uint64(vocab):
			continue
		case there[id]:
			return nil, fmt.Errorf("line %d has symbol %d again", n, id)
		}
		symbols[id], there[id] = line[:last], true
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if i := slices.Index(there, false); i >= 0 {
		return nil, fmt.Errorf("has no symbol %d of the %d that the joiner gives logits of", i, vocab)
	}
	if !strings.HasPrefix(symbols[zipformerBlank], "<") {
		return nil, fmt.Errorf("symbol 0 is %.20q: the blank is expected, <blk>", symbols[zipformerBlank])
	}
	return symbols, nil
}

// Knows says whether the model knows a language by its ISO code. Where nothing tells its languages
// it may know any.
func (z *Zipformer) Knows(code string) bool {
	code, all := spokenLanguage(code), z.info.Languages
	return code == "" || code == "auto" || len(all) == 0 || slices.Contains(all, code)
}

// Speaks returns the language of a text: zh where it has a Chinese character, else en. Of a model
// whose symbols are not of these two it knows nothing.
func (z *Zipformer) Speaks(text string) string {
	switch {
	case len(z.info.Languages) == 0:
		return ""
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) }):
		return "zh"
	}
	return "en"
}

// describe says what is known. No file says the languages; the vendor's packages are of Chinese and
// English, which the symbols tell.
func (z *Zipformer) describe(t *tree, nets []*net) {
	i := &z.info
	i.Says, i.Capabilities, i.Vocab, i.Live = "", []string{"audio"}, len(z.Symbols), true
	all := strings.Join(z.Symbols[1:], "")
	if strings.ContainsFunc(all, func(r rune) bool { return unicode.Is(unicode.Han, r) }) &&
		strings.ContainsFunc(all, func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' }) {
		i.Languages = []string{"en", "zh"}
	}
	layers := 0
	for _, s := range z.States[:len(z.States)/zipformerKinds] {
		layers += s.To.Shape[0]
	}
	i.Groups = []string{fmt.Sprintf("%.2f s of sound a call, %d layers in %d stages", float64(z.Step)/100, layers,
		len(z.States)/zipformerKinds)}
	var files []int64
	var buffers []axcl.Tensor
	for _, n := range nets {
		files = append(files, t.files[n.name])
		buffers = slices.Concat(buffers, n.in, n.out)
	}
	for _, s := range z.States {
		buffers = append(buffers, slices.Repeat([]axcl.Tensor{sized(s.To)}, ZipformerSets)...)
	}
	buffers = append(buffers, sized(z.Longest()), sized(z.Context))
	z.memory(files, buffers...)
	i.Quantization = cmp.Or(i.Quantization, quantizationOf(z.Encoder.Path))
}

// Longest is the state that takes the most memory.
func (z *Zipformer) Longest() axcl.Tensor {
	return slices.MaxFunc(z.States, func(a, b Kept) int { return cmp.Compare(a.Size(), b.Size()) }).To
}
