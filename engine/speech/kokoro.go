package speech

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/audio/phonemes"
	"github.com/axle-llm/axle/models"
)

// KokoroNets are the nets of a Kokoro. They are one request's from Turn to the call of done.
type KokoroNets interface {
	Turn(ctx context.Context) (done func(), err error)
	// Step calls f once with the nets, as one piece of work for the card. f waits for nothing.
	Step(ctx context.Context, f func(KokoroCall) error) error
}

// KokoroCall calls part 1, 2 or 3. What part 2 gives as asr and N_pred stays where it is, and part
// 3 takes it from there: neither is in the maps.
type KokoroCall func(part int, in, out map[string][]byte) error

// Kokoro speaks with a package's nets. English text becomes symbols, a duration for each, pitch and
// loudness, a spectrum, and sound. Its buffers are, like the nets, those of the request whose turn
// it is.
type Kokoro struct {
	p    *models.Kokoro
	stft *features.STFT
	work []float32 // a spectrum

	ids, style, hidden, masked []byte // hidden is part 1's mask, masked part 2's
	durations, rows            []byte // what part 1 gives
	en, places                 []byte // what part 2 takes
	pitch                      []byte
	harmonics, spectrum        []byte // what part 3 takes and gives
}

// NewKokoro returns a package's speaker.
func NewKokoro(p *models.Kokoro) *Kokoro {
	floats := func(n int) []byte { return make([]byte, 4*n) }
	const spectrum = models.KokoroSpectrum * models.KokoroColumns
	return &Kokoro{p: p, stft: features.NewSTFT(), work: make([]float32, spectrum),
		ids: floats(models.KokoroIDs), style: floats(models.KokoroStyle), hidden: make([]byte, models.KokoroIDs),
		masked: floats(models.KokoroIDs), durations: floats(models.KokoroIDs * models.KokoroLengths),
		rows: floats(models.KokoroIDs * models.KokoroHidden), en: floats(models.KokoroHidden * models.KokoroFrames),
		places: floats(models.KokoroIDs * models.KokoroFrames), pitch: floats(models.KokoroPitches),
		harmonics: floats(spectrum), spectrum: floats(spectrum),
	}
}

// A piece fits a call, with a zero at each end.
const _ = uint(models.KokoroIDs - 2 - phonemes.MaxSymbols)

const (
	kokoroTwice = 32                     // this many ids or fewer are given twice: alone they sound distorted
	kokoroFade  = models.KokoroRate / 20 // samples at the end of a piece that fade out
)

// Silence before the next piece, in samples: after a sentence, after a clause, between words.
const (
	kokoroSentence = models.KokoroRate / 4
	kokoroClause   = models.KokoroRate / 10
	kokoroWord     = models.KokoroRate / 20
)

// Speak yields the sound of each piece of the text when it is made: 4.8 s at most, cut at the ends
// of sentences and clauses, else between words. With the last piece of a sentence comes its text.
// The silence between two pieces is the beginning of the second. The same request sounds the same
// each time. Errors: ask.ErrRequest for a voice that the model does not have, or that speaks
// another language than English, for a speed that is not from 0.25 to 4, and for a text without
// English words; ask.ErrUnsupported where the package has no dictionary; the nets'; ErrNonsense.
func (k *Kokoro) Speak(ctx context.Context, nets KokoroNets, r ask.SpeakRequest) iter.Seq2[ask.Speech, error] {
	return func(yield func(ask.Speech, error) bool) {
		c, err := newKokoroCall(k, nets, r)
		if err != nil {
			yield(ask.Speech{}, err)
			return
		}
		silence, said := 0, false
		for piece, text := range c.lexicon.Pieces(r.Text) {
			said = true
			for todo := []string{piece}; len(todo) > 0; {
				sound, halves, err := c.say(ctx, todo[0], silence)
				if err != nil {
					yield(ask.Speech{}, err)
					return
				}
				if halves != nil {
					todo = append(halves, todo[1:]...)
					continue
				}
				s := ask.Speech{Samples: sound}
				if silence, todo = pauseAfter(todo[0]), todo[1:]; len(todo) == 0 {
					s.Text = text
				}
				if len(sound) > 0 && !yield(s, nil) {
					return
				}
			}
		}
		if !said {
			yield(ask.Speech{}, fmt.Errorf("%w: the text has no English words to speak", ask.ErrRequest))
		}
	}
}

// pauseAfter is how many samples of silence follow a piece.
func pauseAfter(piece string) int {
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(piece, "”)"))
	switch {
	case strings.ContainsRune(".!?…", last):
		return kokoroSentence
	case strings.ContainsRune(",;:—", last):
		return kokoroClause
	}
	return kokoroWord
}

// kokoroCall is one request.
type kokoroCall struct {
	*Kokoro
	nets    KokoroNets
	voice   string
	speed   float64
	lexicon *phonemes.Lexicon
}

func newKokoroCall(k *Kokoro, nets KokoroNets, r ask.SpeakRequest) (*kokoroCall, error) {
	voice, err := kokoroVoice(k.p, r.Voice)
	if err != nil {
		return nil, err
	}
	speed := r.Speed
	if speed == 0 {
		speed = 1
	}
	if !(speed >= 0.25 && speed <= 4) {
		return nil, fmt.Errorf("%w: the speed is %g: 0.25 to 4 are possible", ask.ErrRequest, speed)
	}
	lexicon, err := k.p.Lexicon(voice.Language)
	if errors.Is(err, models.ErrMissing) {
		err = fmt.Errorf("%w: %w", ask.ErrUnsupported, err)
	}
	if err != nil {
		return nil, err
	}
	return &kokoroCall{k, nets, voice.Name, speed, lexicon}, nil
}

// kokoroVoice finds a voice by its name; empty: the usual one.
func kokoroVoice(p *models.Kokoro, name string) (ask.Voice, error) {
	if len(p.Voices) == 0 {
		return ask.Voice{}, fmt.Errorf("%w: %s has no voice that speaks English", ask.ErrUnsupported, p.Name)
	}
	if name == "" {
		return p.Voices[0], nil
	}
	var names []string
	for _, v := range p.Voices {
		if v.Name == name {
			return v, nil
		}
		names = append(names, v.Name)
	}
	for _, v := range p.Others {
		if v.Name == name {
			return v, fmt.Errorf("%w: the voice %s speaks the language %s, and only English text is read: use %s", ask.ErrRequest, name,
				v.Language, strings.Join(names, ", "))
		}
	}
	return ask.Voice{}, fmt.Errorf("%w: %s has no voice %.40q: it has %s", ask.ErrRequest, p.Name, name, strings.Join(names, ", "))
}

// say makes the sound of a piece, behind some silence. Where the piece takes more frames than a
// call has, it returns halves of it instead; a single word is shortened.
func (c *kokoroCall) say(ctx context.Context, piece string, silence int) (sound []float32, halves []string, err error) {
	ids := idsOf(c.p.Symbols, piece)
	own := len(ids)
	if own < 3 { // the zeros alone
		return nil, nil, nil
	}
	style, err := c.p.Row(c.voice, own-2)
	if err != nil {
		return nil, nil, err
	}
	if own <= kokoroTwice {
		ids = append(ids, ids...)
	}
	done, err := c.nets.Turn(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	put(c.style, style)
	c.setIDs(ids)
	frames := 0
	// Between parts 1 and 2 this machine has little to do: a pass in between would only make the
	// piece late. Before part 3 it has more, and others use the card meanwhile.
	if err := c.nets.Step(ctx, func(call KokoroCall) error {
		if err := call(1, map[string][]byte{"input_ids": c.ids, "ref_s": c.style, "text_mask": c.hidden},
			map[string][]byte{"duration": c.durations, "d": c.rows}); err != nil {
			return err
		}
		times, err := lengths(floatsOf(c.durations)[:len(ids)*models.KokoroLengths], c.speed)
		if err != nil {
			return err
		}
		if sum(times[:own]) > models.KokoroFrames {
			if first, second, ok := phonemes.Halve(piece); ok {
				halves = []string{first, second}
				return nil
			}
			shorten(times[:own], models.KokoroFrames)
		}
		frames = sum(times[:own])
		c.align(spread(times, own))
		return call(2, map[string][]byte{"en": c.en, "ref_s": c.style, "input_ids": c.ids, "text_mask": c.masked,
			"pred_aln_trg": c.places}, map[string][]byte{"F0_pred": c.pitch})
	}); err != nil {
		return nil, nil, err
	}
	if halves != nil {
		return nil, halves, nil
	}
	if err := c.excite(); err != nil {
		return nil, nil, err
	}
	if err := c.nets.Step(ctx, func(call KokoroCall) error {
		return call(3, map[string][]byte{"F0_pred": c.pitch, "ref_s": c.style, "har": c.harmonics}, map[string][]byte{"x": c.spectrum})
	}); err != nil {
		return nil, nil, err
	}
	sound, err = c.sound(frames, silence)
	return sound, nil, err
}

// idsOf are the ids of symbols, between zeros. Symbols that the model does not know are left out.
func idsOf(symbols map[rune]int32, piece string) []int32 {
	ids := []int32{0}
	for _, r := range piece {
		if id, ok := symbols[r]; ok {
			ids = append(ids, id)
		}
	}
	return append(ids, 0)
}

// setIDs puts ids into the nets' inputs, with a mask of the places behind them.
func (k *Kokoro) setIDs(ids []int32) {
	clear(k.ids)
	for i, id := range ids {
		binary.LittleEndian.PutUint32(k.ids[4*i:], uint32(id))
	}
	for i := range k.hidden {
		hidden := 0
		if i >= len(ids) {
			hidden = 1
		}
		k.hidden[i] = byte(hidden)
		binary.LittleEndian.PutUint32(k.masked[4*i:], math.Float32bits(float32(hidden)))
	}
}

// lengths is how many frames each symbol takes, one at least: the sum of its values, each from 0 to
// 1, at a speed.
func lengths(values []float32, speed float64) ([]int, error) {
	times := make([]int, len(values)/models.KokoroLengths)
	for i := range times {
		long := 0.0
		for _, x := range values[i*models.KokoroLengths:][:models.KokoroLengths] {
			long += 1 / (1 + math.Exp(-float64(x)))
		}
		if math.IsNaN(long) {
			return nil, ErrNonsense
		}
		times[i] = max(1, int(math.RoundToEven(long/speed)))
	}
	return times, nil
}

func sum(times []int) (all int) {
	for _, n := range times {
		all += n
	}
	return all
}

// shorten takes a frame of each symbol, from the longest on and again, until all fit. One is left
// to each.
func shorten(times []int, most int) {
	order := make([]int, len(times))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return times[b] - times[a] })
	for over := sum(times) - most; over > 0; {
		for _, i := range order {
			if over > 0 && times[i] > 1 {
				times[i]--
				over--
			}
		}
	}
}

// spread says whose each frame is. The first own symbols fit. Those behind them, which are said
// only to be thrown away, get what is left; so do, in equal parts, the places that only fill up.
// Frames that are left over then are marked −1.
func spread(times []int, own int) []int {
	owners := make([]int, 0, models.KokoroFrames)
	for i, n := range times {
		if i >= own {
			n = min(n, models.KokoroFrames-len(owners))
		}
		for range n {
			owners = append(owners, i)
		}
	}
	left, fill := models.KokoroFrames-len(owners), models.KokoroIDs-len(times)
	for i := range fill {
		n := left / fill
		if i < left%fill {
			n++
		}
		for range n {
			owners = append(owners, len(times)+i)
		}
	}
	for len(owners) < models.KokoroFrames {
		owners = append(owners, -1)
	}
	return owners
}

// align stretches what part 1 gave of each symbol over its frames, for part 2.
func (k *Kokoro) align(owners []int) {
	clear(k.en)
	clear(k.places)
	for t, i := range owners {
		if i < 0 {
			continue
		}
		row := k.rows[4*models.KokoroHidden*i:][:4*models.KokoroHidden]
		for v := range models.KokoroHidden {
			copy(k.en[4*(models.KokoroFrames*v+t):][:4], row[4*v:])
		}
		binary.LittleEndian.PutUint32(k.places[4*(models.KokoroFrames*i+t):], math.Float32bits(1))
	}
}

func number(x float32) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) }

func put(b []byte, values []float32) {
	for i, x := range values {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(x))
	}
}

func floatsOf(b []byte) []float32 {
	values := make([]float32, len(b)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return values
}
