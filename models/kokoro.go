package models

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/onnx"
	"github.com/axle-llm/axle/audio/phonemes"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/npy"
)

// Kokoro is a package that speaks English: three nets make a spectrum of symbols and a voice. Its
// fields are not to be changed. Close it.
type Kokoro struct {
	base
	Name    string
	Parts   [3]NetFile     // durations of symbols; pitch and loudness; the spectrum
	Symbols map[rune]int32 // ids of symbols; 0 is none
	Voices  []ask.Voice    // those that speak English, the usual one first
	Others  []ask.Voice    // those of other languages, whose text is not read
	Weights []float32      // of the harmonics in the source of sound
	Bias    float32        // of their sum

	t     *tree
	rows  map[string]voiceFile // by the voice
	words map[string]func() (*phonemes.Lexicon, error)
}

// voiceFile is where the rows of a voice begin.
type voiceFile struct {
	name   string
	offset int64
}

// What all packages of Kokoro have in common.
const (
	KokoroIDs       = 96    // of symbols in a call, with a zero at each end
	KokoroFrames    = 192   // of the sound of a call
	KokoroRate      = 24000 // samples a second
	KokoroFrame     = 600   // samples of a frame
	KokoroPitches   = 2 * KokoroFrames
	KokoroHarmonics = 9
	KokoroStyle     = 256 // values of a voice's row
	KokoroHidden    = 640 // values of a symbol
	KokoroLengths   = 50  // values that a symbol's duration is the sum of
	KokoroSpectrum  = 22  // rows of a spectrum
	KokoroColumns   = KokoroFrames*KokoroFrame/5 + 1

	kokoroText   = 512
	kokoroRows   = 510 // of a voice: the first is for one symbol
	kokoroLastID = 1<<16 - 1
	maxVoices    = 512
)

// kokoroPart says which of Kokoro's nets a net is: 1, 2 or 3, or 0 where it is none.
func kokoroPart(n net) int {
	switch {
	case n.takes("ref_s", "text_mask") && n.gives("duration", "d"):
		return 1
	case n.takes("ref_s", "text_mask") && n.gives("F0_pred", "N_pred"):
		return 2
	case n.takes("ref_s", "asr", "har"):
		return 3
	}
	return 0
}

// kokoroTensors are what each part takes and gives.
func kokoroTensors(part int) (in, out []axcl.Tensor) {
	ids, style := tensor("input_ids", axcl.Int32, 1, KokoroIDs), tensor("ref_s", axcl.FP32, 1, KokoroStyle)
	asr := tensor("asr", axcl.FP32, 1, kokoroText, KokoroFrames)
	pitch, loud := tensor("F0_pred", axcl.FP32, 1, KokoroPitches), tensor("N_pred", axcl.FP32, 1, KokoroPitches)
	switch part {
	case 1:
		return []axcl.Tensor{ids, style, tensor("text_mask", axcl.Uint8, 1, KokoroIDs)},
			[]axcl.Tensor{tensor("duration", axcl.FP32, 1, KokoroIDs, KokoroLengths), tensor("d", axcl.FP32, 1, KokoroIDs, KokoroHidden)}
	case 2:
		return []axcl.Tensor{tensor("en", axcl.FP32, 1, KokoroHidden, KokoroFrames), style, ids,
				tensor("text_mask", axcl.FP32, 1, KokoroIDs), tensor("pred_aln_trg", axcl.FP32, 1, KokoroIDs, KokoroFrames)},
			[]axcl.Tensor{pitch, loud, asr}
	}
	return []axcl.Tensor{asr, pitch, loud, style, tensor("har", axcl.FP32, 1, KokoroSpectrum, KokoroColumns)},
		[]axcl.Tensor{tensor("x", axcl.FP32, 1, KokoroSpectrum, KokoroColumns)}
}

// openKokoro opens the package that was recognised as one, in either of its layouts.
func openKokoro(ke *KindError) (other, error) {
	t := ke.plan.t
	k := &Kokoro{base: base{info: ke.Info}, Name: ke.Info.Name, t: t, rows: map[string]voiceFile{}}
	k.words = map[string]func() (*phonemes.Lexicon, error){}
	for language := range accents {
		k.words[language] = sync.OnceValues(func() (*phonemes.Lexicon, error) { return k.readWords(language) })
	}
	for i := range k.Parts {
		n, err := ke.only(func(n net) bool { return kokoroPart(n) == i+1 }, fmt.Sprint("Kokoro's part ", i+1))
		if err != nil {
			return nil, err
		}
		in, out := kokoroTensors(i + 1)
		if err := n.expect("Kokoro", in, out); err != nil {
			return nil, &Error{Path: t.where(n.name), What: err.Error(), Fix: "take all files from the same package", Err: ErrMismatch}
		}
		if k.Parts[i], err = ke.file(n); err != nil {
			return nil, err
		}
	}
	for _, read := range []func() error{func() error { return k.readSymbols(ke.plan) }, k.readVoices, k.readSource} {
		if err := read(); err != nil {
			return nil, err
		}
	}
	k.describe()
	return k, nil
}

// readSymbols reads the ids of symbols: from vocab.txt, else from a config.json with the key vocab.
func (k *Kokoro) readSymbols(p *plan) error {
	at := k.t.named("vocab.txt")
	if at == "" {
		for _, name := range k.t.names {
			if path.Base(name) != "config.json" {
				continue
			}
			if o, err := p.object(name); err != nil {
				return err
			} else if _, ok := o.get("vocab"); ok {
				return k.take(name, func() (err error) { k.Symbols, err = symbolsOf(o); return err })
			}
		}
		return k.t.missing("vocab.txt", "fetch the whole package: vocab.txt or checkpoints/config.json has the ids of symbols")
	}
	b, err := k.t.read(at, maxText)
	if err != nil {
		return err
	}
	return k.take(at, func() (err error) { k.Symbols, err = symbolList(string(b)); return err })
}

// take calls read, and names the file in its error.
func (k *Kokoro) take(name string, read func() error) error {
	if err := read(); err != nil {
		return &Error{Path: k.t.where(name), What: err.Error(), Fix: "take the file of the same package", Err: ErrMismatch}
	}
	return nil
}

// symbolList reads lines of a symbol, a tab and an id. A symbol may be a space.
func symbolList(text string) (map[rune]int32, error) {
	all := map[rune]int32{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		symbol, number, _ := strings.Cut(line, "\t")
		id, err := strconv.ParseInt(number, 10, 64)
		if err == nil {
			err = addSymbol(all, symbol, id)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d is no symbol: one sign, a tab and its id are expected", n)
		}
	}
	return all, speakable(all)
}

// symbolsOf reads the key vocab: an object from symbols to ids.
func symbolsOf(o object) (map[rune]int32, error) {
	var ids map[string]int64
	all := map[rune]int32{}
	v, _ := o.get("vocab")
	if err := json.Unmarshal(v, &ids); err != nil {
		return nil, errors.New("vocab is no object from symbols to ids")
	}
	for symbol, id := range ids {
		if err := addSymbol(all, symbol, id); err != nil {
			return nil, fmt.Errorf("vocab: %w", err)
		}
	}
	return all, speakable(all)
}

func addSymbol(all map[rune]int32, symbol string, id int64) error {
	r, n := utf8.DecodeRuneInString(symbol)
	_, twice := all[r]
	if n != len(symbol) || r == utf8.RuneError || id < 1 || id > kokoroLastID || twice {
		return fmt.Errorf("%.20q with id %d is no symbol, or there twice", symbol, id)
	}
	all[r] = int32(id)
	return nil
}

// speakable says which symbol is missing without which English cannot be said.
func speakable(all map[rune]int32) error {
	for _, r := range " .,əɪɹˈntsk" {
		if all[r] == 0 {
			return fmt.Errorf("has no symbol %q: it is of another model", string(r))
		}
	}
	return nil
}

// kokoroLanguages are the languages of voices by the first letter of their names.
var kokoroLanguages = map[byte]string{'a': "en-US", 'b': "en-GB", 'e': "es", 'f': "fr", 'h': "hi", 'i': "it", 'j': "ja",
	'p': "pt-BR", 'z': "zh"}

// voiceName is how voices are called: a letter for the language, f or m, and a name.
var voiceName = regexp.MustCompile(`^[a-z][fm]_[a-z0-9_]{1,40}$`)

// voiceIn is the voice whose rows a file has, by the file's name.
func voiceIn(name string) (voice ask.Voice, ok bool) {
	folder, ext := path.Base(path.Dir(name)), path.Ext(name)
	voice.Name = strings.TrimSuffix(path.Base(name), ext)
	voice.Language = kokoroLanguages[(voice.Name + " ")[0]]
	return voice, voice.Language != "" && voiceName.MatchString(voice.Name) &&
		(folder == "voices" && ext == ".bin" || folder == "voices_npy" && ext == ".npy")
}

// readVoices finds the voices, in folders voices and voices_npy, and checks their sizes.
func (k *Kokoro) readVoices() error {
	for _, name := range k.t.names {
		voice, ok := voiceIn(name)
		if !ok {
			continue
		}
		if other, ok := k.rows[voice.Name]; ok {
			return &Error{Path: k.t.where(name), What: "is the same voice as " + other.name, Fix: "keep one of the two", Err: ErrMismatch}
		}
		if len(k.rows) == maxVoices {
			return &Error{Path: k.t.where(name), What: fmt.Sprintf("more than %d voices", maxVoices), Fix: "remove some", Err: ErrMalformed}
		}
		if err := k.t.checkPointer(name); err != nil {
			return err
		}
		at := voiceFile{name: name}
		if err := k.take(name, func() (err error) { at.offset, err = k.voiceOffset(name); return err }); err != nil {
			return err
		}
		k.rows[voice.Name] = at
		if strings.HasPrefix(voice.Language, "en-") {
			k.Voices = append(k.Voices, voice)
		} else {
			k.Others = append(k.Others, voice)
		}
	}
	if len(k.rows) == 0 {
		return k.t.missing("voices", "fetch the whole package: voices lie in the folder voices or voices_npy")
	}
	usual := func(v ask.Voice) int {
		return map[bool]int{true: 0, false: 1}[v.Name == "af_heart"]
	}
	for _, list := range [][]ask.Voice{k.Voices, k.Others} {
		slices.SortFunc(list, func(a, b ask.Voice) int { return cmp.Or(usual(a)-usual(b), strings.Compare(a.Name, b.Name)) })
	}
	return nil
}

// voiceOffset is where the rows of a voice begin in its file, which has them all.
func (k *Kokoro) voiceOffset(name string) (offset int64, err error) {
	const want = 4 * kokoroRows * KokoroStyle
	if path.Ext(name) == ".npy" {
		f, err := k.t.openAt(name)
		if err != nil {
			return 0, err
		}
		defer f.Close()
		a, at, err := npy.ReadHeader(io.NewSectionReader(f, 0, k.t.files[name]))
		if err != nil {
			return 0, err
		}
		if offset = at; a.Type != "<f4" || a.Len() != kokoroRows*KokoroStyle || a.Dims[0] != kokoroRows {
			return 0, fmt.Errorf("is %s %v: <f4 [%d 1 %d] is expected", a.Type, a.Dims, kokoroRows, KokoroStyle)
		}
	}
	if has := k.t.files[name] - offset; has != want {
		return 0, fmt.Errorf("has %d bytes of a voice, not %d: fp32 [%d %d] is expected", has, want, kokoroRows, KokoroStyle)
	}
	return offset, nil
}

// Row reads the row of a voice for a text of 1 to 510 symbols. Errors: an unknown voice's;
// the file's.
func (k *Kokoro) Row(voice string, symbols int) ([]float32, error) {
	at, ok := k.rows[voice]
	if !ok || symbols < 1 || symbols > kokoroRows {
		return nil, fmt.Errorf("models: %s has no row of %.40q for %d symbols", k.Name, voice, symbols)
	}
	f, err := k.t.openAt(at.name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, 4*KokoroStyle)
	if _, err := f.ReadAt(b, at.offset+int64(len(b)*(symbols-1))); err != nil {
		return nil, &Error{Path: k.t.where(at.name), What: cause(err), Fix: "fetch the file again", Err: err}
	}
	row := make([]float32, KokoroStyle)
	for i := range row {
		row[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	if !finite(row) {
		return nil, &Error{Path: k.t.where(at.name), What: fmt.Sprintf("row %d has a value that is no number", symbols-1),
			Fix: "fetch the file again", Err: ErrMalformed}
	}
	return row, nil
}

func finite(row []float32) bool {
	return !slices.ContainsFunc(row, func(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) })
}

// readSource reads the ten numbers of the source of sound from its graph, which is computed here.
func (k *Kokoro) readSource() error {
	at := k.t.named("model4_har_sim.onnx")
	if at == "" {
		return k.t.missing("model4_har_sim.onnx", "fetch the whole package")
	}
	b, err := k.t.read(at, onnx.MaxBytes)
	if err != nil {
		return err
	}
	return k.take(at, func() error {
		g, err := onnx.Read(b)
		if err == nil {
			k.Weights, k.Bias, err = harmonics(g)
		}
		return err
	})
}

// harmonics finds the sum of nine harmonics in a graph: a product with nine weights, and a bias,
// which the product takes too or which is added to it.
func harmonics(g *onnx.Graph) (weights []float32, bias float32, err error) {
	tensors := map[string][]float32{} // each is read once: a large one may be named by many nodes
	for i := range g.Tensors {
		if v, err := g.Tensors[i].Float32s(); err == nil && (len(v) == 1 || len(v) == KokoroHarmonics) {
			tensors[g.Tensors[i].Name] = v
		}
	}
	one := func(names []string) []float32 {
		for _, name := range names {
			if v := tensors[name]; len(v) == 1 {
				return v
			}
		}
		return nil
	}
	added := map[string][]float32{} // by what it is added to
	for _, n := range g.Nodes {
		if b := one(n.Inputs); b != nil && n.Op == "Add" {
			for _, name := range n.Inputs {
				if added[name] == nil {
					added[name] = b
				}
			}
		}
	}
	for _, n := range g.Nodes {
		if n.Op != "MatMul" && n.Op != "Gemm" && n.Op != "Conv" || len(n.Inputs) < 2 || len(n.Outputs) != 1 {
			continue
		}
		w, b := tensors[n.Inputs[1]], one(n.Inputs[2:])
		if b == nil {
			b = added[n.Outputs[0]]
		}
		if len(w) != KokoroHarmonics || b == nil {
			continue
		}
		if weights != nil {
			return nil, 0, fmt.Errorf("has two sums of %d harmonics", KokoroHarmonics)
		}
		weights, bias = w, b[0]
	}
	if weights == nil {
		return nil, 0, fmt.Errorf("has no sum of %d harmonics: it is of another model", KokoroHarmonics)
	}
	if !finite(append(slices.Clone(weights), bias)) {
		return nil, 0, errors.New("has a weight that is no number")
	}
	return weights, bias, nil
}

// accents are the two kinds of English, and how the names of their dictionaries begin.
var accents = map[string]struct {
	accent phonemes.Accent
	prefix string
}{"en-US": {phonemes.American, "us"}, "en-GB": {phonemes.British, "gb"}}

// misaki is where the dictionaries come from.
const misaki = "github.com/hexgrad/misaki, folder misaki/data"

// dictionariesOf are the names of a language's dictionaries, the better one first.
func dictionariesOf(language string) []string {
	a, ok := accents[language]
	if !ok {
		return nil
	}
	return []string{a.prefix + "_gold.json", a.prefix + "_silver.json"}
}

// LackedDictionaries are the names of the dictionaries that a package of Kokoro of these files
// lacks, for the languages of its voices.
func LackedDictionaries(files []string) (lacks []string) {
	bases := map[string]bool{}
	for _, f := range files {
		bases[path.Base(f)] = true
	}
	for _, f := range files {
		voice, ok := voiceIn(f)
		if !ok {
			continue
		}
		for _, name := range dictionariesOf(voice.Language) {
			if !bases[name] {
				lacks, bases[name] = append(lacks, name), true
			}
		}
	}
	return lacks
}

// dictionaries are the files of a language that lie in the package, the better one first, and what
// they are called. The first one is needed.
func (k *Kokoro) dictionaries(language string) (found, names []string) {
	names = dictionariesOf(language)
	for _, name := range names {
		if at := k.t.named(name); at != "" {
			found = append(found, at)
		}
	}
	if len(found) > 0 && path.Base(found[0]) != names[0] {
		found = nil
	}
	return found, names
}

// Lexicon says how words of a language sound, en-US or en-GB, by the dictionaries in the package.
// They are read once, when it is called for the first time. Errors: ErrMissing, where there are
// none; a dictionary's.
func (k *Kokoro) Lexicon(language string) (*phonemes.Lexicon, error) {
	read := k.words[language]
	if read == nil {
		return nil, fmt.Errorf("models: %s reads no text of the language %q", k.Name, language)
	}
	return read()
}

func (k *Kokoro) readWords(language string) (*phonemes.Lexicon, error) {
	found, names := k.dictionaries(language)
	if found == nil {
		return nil, &Error{Path: k.t.where("dictionaries/" + names[0]), What: "missing, and with it how words sound",
			Fix: fmt.Sprintf("pull the model again, or put %s there, which %s has, and load it again",
				strings.Join(names, " and "), misaki), Err: ErrMissing}
	}
	l := phonemes.NewLexicon(accents[language].accent)
	for _, at := range found {
		b, err := k.t.read(at, maxJSON)
		if err != nil {
			return nil, err
		}
		if err := l.AddMisaki(b); err != nil {
			return nil, &Error{Path: k.t.where(at), What: err.Error(), Fix: "take the file of " + misaki, Err: ErrMalformed}
		}
	}
	cmu := k.t.highest(func(base string) bool { return strings.HasPrefix(strings.ToLower(base), "cmudict") })
	if cmu == "" || language != "en-US" { // its sounds are American
		return l, nil
	}
	b, err := k.t.read(cmu, maxJSON)
	if err != nil {
		return nil, err
	}
	if err := l.AddCMU(b); err != nil {
		return nil, &Error{Path: k.t.where(cmu), What: err.Error(), Fix: "fetch the package's file again, or remove it: it is not needed",
			Err: ErrMalformed}
	}
	return l, nil
}

// describe says what is known.
func (k *Kokoro) describe() {
	i := &k.info
	i.Says, i.Capabilities, i.Voices, i.Vocab = "", []string{"speech"}, k.Voices, len(k.Symbols)
	i.Groups = []string{fmt.Sprintf("%d symbols or %.1f s of speech", KokoroIDs-2, float64(KokoroFrames*KokoroFrame)/KokoroRate)}
	for _, language := range []string{"en-US", "en-GB"} {
		speaks := slices.ContainsFunc(k.Voices, func(v ask.Voice) bool { return v.Language == language })
		if found, names := k.dictionaries(language); speaks && found == nil {
			i.Notes = append(i.Notes, fmt.Sprintf("it does not speak %s yet: put %s of %s into its folder dictionaries, or pull it again",
				language, strings.Join(names, " and "), misaki))
		}
	}
	if n := len(k.Others); n > 0 {
		i.Notes = append(i.Notes, fmt.Sprintf("only English text is read: voices of other languages have no use (%s; %d in all)",
			k.Others[0].Name, n))
	}
	var files []int64
	var buffers []axcl.Tensor
	for _, f := range k.Parts {
		files, buffers = append(files, f.Size), slices.Concat(buffers, f.In, f.Out)
	}
	for _, t := range k.Parts[1].Out { // these are kept from the second call to the third
		if t.Name == "asr" || t.Name == "N_pred" {
			buffers = append(buffers, t)
		}
	}
	k.memory(files, buffers...)
	i.Quantization = cmp.Or(i.Quantization, quantizationOf(k.Parts[0].Path))
}
