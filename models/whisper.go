package models

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/axcl"
)

// Whisper is a package that writes speech down: an encoder that hears thirty seconds, and a decoder
// that says a token in each call. Its fields are not to be changed. Close it.
type Whisper struct {
	base
	Name    string
	Encoder NetFile
	Mel     axcl.Tensor // the encoder's input, [1, Mels, 3000]
	First   NetFile     // layout A: takes the first four tokens; no path in others
	Decoder NetFile     // takes a token
	Token   string      // the decoder's input of it
	Cross   []Kept      // what the encoder gives and the decoders take
	Self    []Kept      // what a decoder gives and takes back: all rows in layout A, the new row in others
	Places  []byte      // layout A: an input for each place of a token
	Mels    int
	Layers  int
	Width   int
	Vocab   int
	Tokens  []string // the bytes of each text token, by id
	WhisperIDs
}

// Kept is a tensor that stays on the card between calls: what a net gives as From, a net takes as
// To. To has room for all rows where From is one row.
type Kept struct{ From, To axcl.Tensor }

// WhisperIDs are the tokens with a meaning. Text tokens come before EOT.
type WhisperIDs struct {
	EOT, SOT, Translate, Transcribe, SOTPrev, NoSpeech, NoTimestamps int32
	Stamp                                                            int32   // 0.00 s; each of the next is 0.02 s later
	NonSpeech                                                        []int32 // tokens that are not said, such as brackets
	Languages                                                        []WhisperLanguage
}

// WhisperLanguage is a language by its ISO code, and its token.
type WhisperLanguage struct {
	Code string
	ID   int32
}

// What all of Whisper's models have in common.
const (
	WhisperPlaces = 448  // of tokens
	WhisperStamps = 1501 // tokens of times, to 30.00 s
	whisperRows   = 1500 // of what is heard
	whisperFrames = 3000 // of mel
	whisperStart  = 4    // tokens that layout A's first net takes
	whisperDeep   = 64   // layers, at most
	whisperWide   = 4096
	whisperVocab  = 1 << 17
)

// Language returns the token of a language by its ISO code. ok is false where the model does not
// know it.
func (w *Whisper) Language(code string) (id int32, ok bool) {
	code = spokenLanguage(code)
	for _, l := range w.Languages {
		if l.Code == code {
			return l.ID, true
		}
	}
	return 0, false
}

// openWhisper opens the package that was recognised as one, in any of its three layouts.
func openWhisper(k *KindError) (other, error) {
	t := k.plan.t
	w := &Whisper{base: base{info: k.Info}, Name: k.Info.Name}
	var found whisperFiles
	if err := found.sort(k); err != nil {
		return nil, err
	}
	files := []*net{found.encoder, found.decoder}
	to := []*NetFile{&w.Encoder, &w.Decoder}
	if found.first != nil {
		files, to = append(files, found.first), append(to, &w.First)
	}
	if err := w.measure(*found.decoder); err != nil {
		return nil, &Error{Path: t.where(found.decoder.name), What: err.Error(), Err: ErrMismatch}
	}
	for i, check := range []func(net) error{w.checkEncoder, w.checkDecoder, w.checkFirst}[:len(files)] {
		if err := check(*files[i]); err != nil {
			return nil, &Error{Path: t.where(files[i].name), What: err.Error(), Fix: "take all files from the same package",
				Err: ErrMismatch}
		}
		var err error
		if *to[i], err = k.file(files[i]); err != nil {
			return nil, err
		}
	}
	if err := w.readConfig(k.plan); err != nil {
		return nil, err
	}
	if err := w.readTokens(t); err != nil {
		return nil, err
	}
	if found.first != nil {
		if err := w.readPlaces(t); err != nil {
			return nil, err
		}
	}
	w.describe(t, files)
	return w, nil
}

// whisperFiles says which net is what. first is of layout A alone.
type whisperFiles struct{ encoder, first, decoder *net }

// oneWhisper fails for files of several models, as the vendor's repository has them.
func oneWhisper(k *KindError) error {
	var e *Error
	if !errors.As(new(whisperFiles).sort(k), &e) || !errors.Is(e, ErrMismatch) {
		return nil // what is missing is seen when all is here
	}
	e.Fix = "these are several models: download the files of one into a folder of your own, and name the folder above it in AXLE_MODEL_PATH"
	return e
}

func (f *whisperFiles) sort(k *KindError) error {
	for i := range k.nets {
		n := &k.nets[i]
		if !whisper(*n) && !(n.takes("offset", "mask", "self_k_0", "cross_k_0")) {
			continue
		}
		place := &f.decoder
		switch {
		case len(n.in) == 1:
			place = &f.encoder
		case n.takes("tokens", "n_layer_cross_k") && !n.takes("in_n_layer_self_k_cache"):
			place = &f.first
		}
		if *place != nil {
			return k.twice(n, *place)
		}
		*place = n
	}
	missing := ""
	switch {
	case f.encoder == nil:
		missing = "encoder"
	case f.decoder == nil:
		missing = "decoder of one token"
	case f.first == nil && f.decoder.takes("in_n_layer_self_k_cache"):
		missing = "decoder of the first four tokens"
	case f.first != nil && !f.decoder.takes("in_n_layer_self_k_cache"):
		return &Error{Path: k.plan.t.where(f.first.name), What: "does not belong to " + f.decoder.name,
			Fix: "take all files from the same package", Err: ErrMismatch}
	}
	if missing != "" {
		return k.lacks("Whisper's " + missing)
	}
	return nil
}

// tensor is one that is expected.
func tensor(name string, typ axcl.Type, shape ...int) axcl.Tensor {
	return axcl.Tensor{Name: name, Type: typ, Shape: shape}
}

// measure reads the model's size from the decoder's tensors, and with it what is kept on the card.
func (w *Whisper) measure(n net) error {
	w.Token = "tokens"
	heard, said, logits := "cross_k", "self_k", n.output("logits")
	switch {
	case n.takes("in_n_layer_self_k_cache"):
		heard, said = "n_layer_cross_k", "in_n_layer_self_k_cache"
	case n.takes("self_k_0"):
		heard, said = "cross_k_0", "self_k_0"
		if n.takes("token") {
			w.Token = "token"
		}
	}
	cross := n.input(heard)
	switch {
	case said == "self_k_0" && shaped(cross, 1, whisperRows, -1):
		for w.Layers <= whisperDeep && n.takes(fmt.Sprint("self_k_", w.Layers)) {
			w.Layers++
		}
	case shaped(cross, -1, 1, whisperRows, -1):
		w.Layers = cross.Shape[0]
	default:
		return fmt.Errorf("%s is %v: [layers 1 %d width] is expected", heard, cross.Shape, whisperRows)
	}
	w.Width = cross.Shape[len(cross.Shape)-1]
	if w.Layers < 1 || w.Layers > whisperDeep || w.Width < 1 || w.Width > whisperWide {
		return fmt.Errorf("%s is of %d layers of width %d: at most %d of %d are possible", heard,
			w.Layers, w.Width, whisperDeep, whisperWide)
	}
	if !shaped(logits, 1, 1, -1) || logits.Shape[2] < 1 || logits.Shape[2] > whisperVocab {
		return fmt.Errorf("logits is %v: [1 1 vocabulary] is expected, of at most %d tokens", logits.Shape, whisperVocab)
	}
	w.Vocab = logits.Shape[2]
	all := func(rows int) []int { return []int{w.Layers, 1, rows, w.Width} }
	one := func(rows int) []int { return []int{1, rows, w.Width} }
	keep := func(from, to string, given, taken []int, kept *[]Kept) {
		*kept = append(*kept, Kept{tensor(from, axcl.FP32, given...), tensor(to, axcl.FP32, taken...)})
	}
	switch said {
	case "in_n_layer_self_k_cache":
		for _, x := range []string{"k", "v"} {
			keep("n_layer_cross_"+x, "n_layer_cross_"+x, all(whisperRows), all(whisperRows), &w.Cross)
			keep("out_n_layer_self_"+x+"_cache", "in_n_layer_self_"+x+"_cache", all(WhisperPlaces), all(WhisperPlaces), &w.Self)
		}
	case "self_k":
		for _, x := range []string{"k", "v"} {
			keep("cross_"+x, "cross_"+x, all(whisperRows), all(whisperRows), &w.Cross)
			keep("this_self_"+x, "self_"+x, all(1), all(WhisperPlaces), &w.Self)
		}
	default:
		for i := range w.Layers {
			for _, x := range []string{"k", "v"} {
				name := fmt.Sprintf("_%s_%d", x, i)
				keep("cross"+name, "cross"+name, one(whisperRows), one(whisperRows), &w.Cross)
				keep("this_self"+name, "self"+name, one(1), one(WhisperPlaces), &w.Self)
			}
		}
	}
	return nil
}

// expect says which tensor of a net of a kind is not as it should be, or that it takes others too.
func (n net) expect(kind string, in, out []axcl.Tensor) error {
	for i, side := range [][]axcl.Tensor{in, out} {
		has, verb := n.in, "take"
		if i == 1 {
			has, verb = n.out, "give"
		}
		for _, want := range side {
			at := slices.IndexFunc(has, func(t axcl.Tensor) bool { return t.Name == want.Name })
			if at < 0 {
				return fmt.Errorf("does not %s %s, %v %v", verb, want.Name, want.Type, want.Shape)
			}
			if t := has[at]; t.Type != want.Type || !slices.Equal(t.Shape, want.Shape) {
				return fmt.Errorf("%s is %v %v: %v %v is expected", t.Name, t.Type, t.Shape, want.Type, want.Shape)
			}
		}
	}
	if len(n.in) != len(in) {
		return fmt.Errorf("takes %s: another form of %s", tensors(n.in), kind)
	}
	return nil
}

// output is an output by its name; the zero Tensor where there is none.
func (n net) output(name string) (t axcl.Tensor) {
	if i := slices.IndexFunc(n.out, func(t axcl.Tensor) bool { return t.Name == name }); i >= 0 {
		t = n.out[i]
	}
	return t
}

// checkEncoder also notes how the encoder calls what it gives: in layout C, its names are the
// decoder's with something in front.
func (w *Whisper) checkEncoder(n net) error {
	w.Mel = n.in[0]
	var out []axcl.Tensor
	for i := range w.Cross {
		from := &w.Cross[i].From
		for _, t := range n.out {
			if strings.HasSuffix(t.Name, "_"+from.Name) {
				from.Name = t.Name
			}
		}
		out = append(out, *from)
	}
	if w.Mels = w.Mel.Shape[1]; w.Mels != 80 && w.Mels != 128 {
		return fmt.Errorf("%s is %v: 80 or 128 mels are expected", w.Mel.Name, w.Mel.Shape)
	}
	return n.expect("Whisper", []axcl.Tensor{tensor(w.Mel.Name, axcl.FP32, 1, w.Mels, whisperFrames)}, out)
}

func (w *Whisper) checkDecoder(n net) error {
	in := []axcl.Tensor{tensor(w.Token, axcl.Int32, 1, 1)}
	if n.takes("offset") {
		in = append(in, tensor("offset", axcl.Int32, 1), tensor("mask", axcl.Int32, WhisperPlaces))
	} else {
		in = append(in, tensor("positional_embedding", axcl.FP32, 1, w.Width), tensor("mask", axcl.FP32, WhisperPlaces))
	}
	out := []axcl.Tensor{tensor("logits", axcl.FP32, 1, 1, w.Vocab)}
	for _, c := range w.Cross {
		in = append(in, c.To)
	}
	for _, c := range w.Self {
		in, out = append(in, c.To), append(out, c.From)
	}
	return n.expect("Whisper", in, out)
}

func (w *Whisper) checkFirst(n net) error {
	in := []axcl.Tensor{tensor("tokens", axcl.Int32, 1, whisperStart)}
	out := []axcl.Tensor{tensor("logits", axcl.FP32, 1, whisperStart, w.Vocab)}
	for _, c := range w.Cross {
		in = append(in, c.To)
	}
	for _, c := range w.Self {
		out = append(out, c.From)
	}
	return n.expect("Whisper", in, out)
}

// readTokens reads the bytes of the text tokens: in each line base64, a space, and the id. The last
// token of OpenAI's list has no bytes, and stands there as "=".
func (w *Whisper) readTokens(t *tree) error {
	at := t.ending("tokens.txt")
	if at == "" {
		return t.missing("tokens.txt", "fetch the whole package")
	}
	b, err := t.read(at, maxTokenList)
	if err != nil {
		return err
	}
	if w.Tokens, err = whisperTokens(b, int(w.EOT)); err != nil {
		return &Error{Path: t.where(at), What: err.Error(), Fix: "take the tokens of the same model", Err: ErrMismatch}
	}
	return nil
}

func whisperTokens(b []byte, count int) ([]string, error) {
	tokens, there := make([]string, count), make([]bool, count)
	lines, n, found := bufio.NewScanner(bytes.NewReader(b)), 0, 0
	for lines.Scan() {
		n++
		line := strings.TrimRight(lines.Text(), "\r ")
		if line == "" {
			continue
		}
		text, number, _ := strings.Cut(line, " ")
		id, err := strconv.ParseUint(number, 10, 31)
		token, wrong := base64.StdEncoding.DecodeString(text)
		if text == "=" {
			wrong = nil
		}
		switch {
		case err != nil || wrong != nil:
			return nil, fmt.Errorf("line %d is no token: base64, a space and a number are expected", n)
		case id >= uint64(count): // a token with a meaning, which is no text
			continue
		case there[id]:
			return nil, fmt.Errorf("line %d has token %d again", n, id)
		}
		tokens[id], there[id] = string(token), true
		found++
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	if found < count {
		return nil, fmt.Errorf("has %d text tokens, not %d: token %d is not there", found, count, slices.Index(there, false))
	}
	return tokens, nil
}

// readPlaces reads layout A's table of places.
func (w *Whisper) readPlaces(t *tree) (err error) {
	at := t.ending("positional_embedding.bin")
	if at == "" {
		return t.missing("positional_embedding.bin", "fetch the whole package")
	}
	want := 4 * WhisperPlaces * w.Width
	if w.Places, err = t.read(at, int64(want)); err != nil {
		return err
	}
	what := ""
	if len(w.Places) != want {
		what = fmt.Sprintf("has %d bytes, not %d: fp32 [%d %d] is expected", len(w.Places), want, WhisperPlaces, w.Width)
	}
	for i := 0; i < len(w.Places) && what == ""; i += 4 {
		if x := float64(math.Float32frombits(binary.LittleEndian.Uint32(w.Places[i:]))); math.IsNaN(x) || math.IsInf(x, 0) {
			what = fmt.Sprintf("value %d is no number", i/4)
		}
	}
	if what != "" {
		return &Error{Path: t.where(at), What: what, Fix: "fetch the file again", Err: ErrMismatch}
	}
	return nil
}

// describe says what is known.
func (w *Whisper) describe(t *tree, nets []*net) {
	i := &w.info
	i.Says, i.Capabilities, i.Vocab = "", []string{"audio"}, w.Vocab
	for _, l := range w.Languages {
		i.Languages = append(i.Languages, l.Code)
	}
	slices.Sort(i.Languages)
	i.Groups = []string{fmt.Sprintf("%d layers of %d, %d mels, %d languages", w.Layers, w.Width, w.Mels, len(w.Languages))}
	var files []int64
	var buffers []axcl.Tensor
	for _, n := range nets {
		files = append(files, t.files[n.name])
		buffers = slices.Concat(buffers, n.in, n.out)
	}
	for _, c := range w.Cross {
		buffers = append(buffers, sized(c.To))
	}
	for _, c := range w.Self { // layout A has two, which take turns
		buffers = append(buffers, sized(c.To))
		if w.First.Path != "" {
			buffers = append(buffers, sized(c.To))
		}
	}
	w.memory(files, buffers...)
	i.Quantization = cmp.Or(i.Quantization, quantizationOf(w.Encoder.Path))
}

// sized is a tensor of four bytes a value with its size.
func sized(t axcl.Tensor) axcl.Tensor {
	t.Size = 4 * elements(t)
	return t
}

// Size is the bytes that are kept on the card.
func (k Kept) Size() int { return sized(k.To).Size }

// RowSize is the bytes of one row, and Rows how many From has; each goes to a layer of To.
func (k Kept) RowSize() int { return 4 * k.To.Shape[len(k.To.Shape)-1] }

// Rows: see RowSize.
func (k Kept) Rows() int { return elements(k.From) / k.From.Shape[len(k.From.Shape)-1] }

// readConfig reads the tokens with a meaning. Where no file says them, the vocabulary does.
func (w *Whisper) readConfig(p *plan) error {
	at := p.t.highest(func(base string) bool { return strings.HasSuffix(base, "_config.json") })
	if at == "" {
		ids, ok := usualWhisper(w.Vocab)
		if !ok {
			return &Error{Path: p.t.where("."), What: fmt.Sprintf("no ..._config.json says the ids of a vocabulary of %d", w.Vocab),
				Fix: "fetch the whole package", Err: ErrMissing}
		}
		w.WhisperIDs = ids
		return nil
	}
	o, err := p.object(at)
	if err != nil {
		return err
	}
	if err := w.configured(o); err != nil {
		return &Error{Path: p.t.where(at), What: err.Error(), Fix: "take the configuration of the same model", Err: ErrMismatch}
	}
	return nil
}

func (w *Whisper) configured(o object) error {
	for _, c := range []struct {
		key  string
		want int
	}{{"n_mels", w.Mels}, {"n_vocab", w.Vocab}, {"n_text_ctx", WhisperPlaces}, {"n_text_state", w.Width}, {"n_text_layer", w.Layers}} {
		if n, ok, err := o.num(0, math.MaxInt32, c.key); err != nil {
			return err
		} else if ok && int(n) != c.want {
			return fmt.Errorf("%s is %d, the nets have %d", c.key, n, c.want)
		}
	}
	for _, c := range []struct {
		key string
		id  *int32
	}{{"sot", &w.SOT}, {"eot", &w.EOT}, {"no_timestamps", &w.NoTimestamps}, {"no_speech", &w.NoSpeech}, {"translate", &w.Translate},
		{"transcribe", &w.Transcribe}, {"sot_prev", &w.SOTPrev}} {
		n, ok, err := o.num(0, int64(w.Vocab)-1, c.key)
		if err == nil && !ok {
			err = fmt.Errorf("%s is not there", c.key)
		}
		if err != nil {
			return err
		}
		*c.id = int32(n)
	}
	w.Stamp = w.NoTimestamps + 1
	if int(w.Stamp)+WhisperStamps > w.Vocab {
		return fmt.Errorf("no_timestamps is %d: no room for the %d times in a vocabulary of %d", w.NoTimestamps, WhisperStamps, w.Vocab)
	}
	ids, err := w.idList(o, "all_language_tokens")
	if err != nil {
		return err
	}
	codes := strings.Split(o.str("all_language_codes"), ",")
	if len(ids) != len(codes) || len(ids) == 0 {
		return fmt.Errorf("has %d all_language_tokens and %d all_language_codes", len(ids), len(codes))
	}
	for i, code := range codes {
		if ids[i] <= w.EOT || ids[i] >= w.Stamp {
			return fmt.Errorf("all_language_tokens has %d, which is no token with a meaning", ids[i])
		}
		w.Languages = append(w.Languages, WhisperLanguage{strings.TrimSpace(code), ids[i]})
	}
	for _, id := range []int32{w.SOT, w.NoSpeech, w.Translate, w.Transcribe, w.SOTPrev, w.NoTimestamps} {
		if id <= w.EOT || id >= w.Stamp {
			return errors.New("the tokens with a meaning do not lie between eot and the times")
		}
	}
	if w.NonSpeech, err = w.idList(o, "non_speech_tokens"); err != nil {
		return err
	}
	for _, id := range w.NonSpeech {
		if id == w.EOT || id >= w.Stamp { // a text needs them
			return fmt.Errorf("non_speech_tokens has %d, which is the end or a time", id)
		}
	}
	return nil
}

// idList reads ids with commas between them.
func (w *Whisper) idList(o object, key string) (ids []int32, err error) {
	for text := range strings.SplitSeq(o.str(key), ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil || int(n) >= w.Vocab {
			return nil, fmt.Errorf("%s has %.20q, which is no token", key, text)
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}

// whisperCodes are the languages in the order of their tokens; yue is turbo's alone.
const whisperCodes = "en zh de es ru ko fr ja pt tr pl ca nl ar sv it id hi fi vi he uk el ms cs ro da hu ta no th ur hr bg lt la mi " +
	"ml cy sk te fa lv bn sr az sl kn et mk br eu is hy ne mn bs kk sq sw gl mr pa si km sn yo so af oc ka be tg sd gu am yi lo uz fo ht " +
	"ps tk nn mt sa lb my bo tl mg as tt haw ln ha ba jw su yue"

// whisperOdd are the tokens that are not said, of the vocabulary of 50,257 text tokens.
var whisperOdd = []int32{1, 2, 7, 8, 9, 10, 14, 25, 26, 27, 28, 29, 31, 58, 59, 60, 61, 62, 63, 90, 91, 92, 93, 359, 503, 522, 542, 873,
	893, 902, 918, 922, 931, 1350, 1853, 1982, 2460, 2627, 3246, 3253, 3268, 3536, 3846, 3961, 4183, 4667, 6585, 6647, 7273, 9061, 9383,
	10428, 10929, 11938, 12033, 12331, 12562, 13793, 14157, 14635, 15265, 15618, 16553, 16604, 18362, 18956, 20075, 21675, 22520, 26130,
	26161, 26435, 28279, 29464, 31650, 32302, 32470, 36865, 42863, 47425, 49870, 50254}

// usualWhisper are the ids of OpenAI's models, by their vocabulary.
func usualWhisper(vocab int) (ids WhisperIDs, ok bool) {
	codes := strings.Fields(whisperCodes)
	switch vocab {
	case 51865:
		codes = codes[:len(codes)-1]
	case 51866:
	default:
		return ids, false
	}
	ids.EOT, ids.SOT = 50257, 50258
	for i, code := range codes {
		ids.Languages = append(ids.Languages, WhisperLanguage{code, ids.SOT + 1 + int32(i)})
	}
	next := ids.SOT + 1 + int32(len(codes))
	ids.Translate, ids.Transcribe, ids.SOTPrev, ids.NoSpeech, ids.NoTimestamps = next, next+1, next+3, next+4, next+5
	ids.Stamp, ids.NonSpeech = next+6, whisperOdd
	return ids, true
}
