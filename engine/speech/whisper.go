package speech

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/audio/features"
	"github.com/axle-llm/axle/models"
)

// WhisperNets are the nets of a Whisper, which keep what was heard and said on the card. They are
// one request's from Turn to the call of done, which is told why the turn ended early.
type WhisperNets interface {
	Turn(ctx context.Context) (done func(error), err error)
	// Hear calls the encoder.
	Hear(ctx context.Context, mel []byte) error
	// Say calls a decoder with tokens whose first stands at a place, and fills a row of logits for
	// each. Whatever was said at later places is forgotten. It takes one token, but where the
	// package has a first net, the first four together.
	Say(ctx context.Context, at int, tokens []int32, logits []byte) error
}

// Whisper writes down what is said with a package's nets, as OpenAI's transcribe does: half a
// minute at a time, with times, and again with other tokens where the text makes no sense.
//
// Its buffers are, like the nets, those of the request whose turn it is: they take 3 MB.
type Whisper struct {
	p      *models.Whisper
	mel    *features.Mel
	values []float32
	bytes  []byte // of values
	row    []byte // logits
	logits []float64
}

// NewWhisper returns a package's recogniser.
func NewWhisper(p *models.Whisper) (*Whisper, error) {
	mel, err := features.NewMel(features.MelOptions{Mels: p.Mels, Tail: features.Zeros})
	w := &Whisper{p: p, mel: mel, values: make([]float32, p.Mels*features.MelFrames), logits: make([]float64, p.Vocab),
		row: make([]byte, 4*p.Vocab)}
	if p.First.Path != "" {
		w.row = make([]byte, 4*len(w.row)) // of four tokens
	}
	w.bytes = make([]byte, 4*len(w.values))
	return w, err
}

const (
	whisperFrame   = SampleRate / 100      // samples of a frame: less is not heard
	whisperMost    = 224                   // tokens of a window
	whisperStamp   = 20 * time.Millisecond // from one time stamp to the next
	whisperFirst   = 50                    // the latest first stamp: 1 s
	whisperLeast   = time.Second           // from window to window, so that work is bounded
	whisperRepeats = 2.4                   // a text that compresses better repeats itself
	whisperUnsure  = -1.                   // the mean log probability of a text that is not taken
	whisperSilence = 0.6                   // the probability that nothing is said
	whisperQuiet   = 1. / (1 << 15)        // samples that are no louder are silence
	whisperPrompt  = 2048                  // bytes of a prompt that are read, from its end
)

// whisperHeat are the temperatures that are tried.
var whisperHeat = []float64{0, 0.2, 0.4, 0.6, 0.8, 1}

// Transcribe yields the segments of each half minute as it is recognised. It reads no more of the
// sound than that. Silence is left out. Errors: ask.ErrRequest for a language that the model does
// not know; the sound's; the nets'; ctx's; ErrNonsense.
func (w *Whisper) Transcribe(ctx context.Context, nets WhisperNets, r ask.TranscribeRequest) iter.Seq2[ask.Segment, error] {
	return func(yield func(ask.Segment, error) bool) {
		c, err := newWhisperCall(w, nets, r)
		if err != nil {
			yield(ask.Segment{}, err)
			return
		}
		for {
			var found []ask.Segment
			err := c.fill(ctx, r.Sound)
			if err == nil {
				found, err = c.window(ctx)
			}
			if err != nil {
				yield(ask.Segment{}, err)
				return
			}
			for _, s := range found {
				if !yield(s, nil) {
					return
				}
			}
			if c.ended && len(c.sound) < whisperFrame {
				return
			}
		}
	}
}

// whisperCall is one transcription.
type whisperCall struct {
	*Whisper
	nets     WhisperNets
	r        ask.TranscribeRequest
	language int32   // 0: not found yet
	prompt   []int32 // before the start

	sound []float32 // from seek on
	seek  int       // samples before
	ended bool      // there is no more sound

	held      []int32 // tokens that the decoder has seen of this window
	silence   float64 // the probability that nothing is said in this window
	likeliest int32   // language
}

func newWhisperCall(w *Whisper, nets WhisperNets, r ask.TranscribeRequest) (*whisperCall, error) {
	c := &whisperCall{Whisper: w, nets: nets, r: r}
	if r.Language != "" && !strings.EqualFold(r.Language, "auto") {
		var ok bool
		if c.language, ok = w.p.Language(r.Language); !ok {
			return nil, fmt.Errorf("%w: %s does not know the language %q: it knows %s", ask.ErrRequest, w.p.Name, r.Language, codes(w.p))
		}
	}
	if text := strings.TrimSpace(r.Prompt); w.p.First.Path == "" && text != "" {
		c.prompt = append([]int32{w.p.SOTPrev}, promptTokens(w.p, text)...)
	}
	return c, nil
}

// codes are a model's languages in words.
func codes(p *models.Whisper) string {
	var all []string
	for _, l := range p.Languages {
		all = append(all, l.Code)
	}
	return strings.Join(all, ", ")
}

// fill reads the sound to the end of the window.
func (c *whisperCall) fill(ctx context.Context, sound ask.Sound) error {
	for !c.ended && len(c.sound) < features.MelSamples {
		at := len(c.sound)
		c.sound = append(c.sound, make([]float32, min(SampleRate, features.MelSamples-at))...)
		n, err := readSound(ctx, sound, c.sound[at:])
		c.sound = c.sound[:at+n]
		if c.ended = errors.Is(err, io.EOF); err != nil && !c.ended {
			return err
		}
	}
	return nil
}

// window recognises what begins at seek, and moves on.
func (c *whisperCall) window(ctx context.Context) (found []ask.Segment, err error) {
	length := at(len(c.sound))
	quiet := true
	for _, x := range c.sound {
		quiet = quiet && x <= whisperQuiet && x >= -whisperQuiet
	}
	if quiet || len(c.sound) < whisperFrame {
		c.move(length)
		return nil, nil
	}
	done, err := c.nets.Turn(ctx)
	if err != nil {
		return nil, err
	}
	said, err := c.recognise(ctx)
	done(err)
	if err != nil {
		return nil, err
	}
	if said.silent() {
		c.move(length)
		return nil, nil
	}
	found, heard := said.segments(c, length)
	c.move(heard)
	return found, nil
}

// move leaves a part of the sound behind.
func (c *whisperCall) move(by time.Duration) {
	n := min(int(by*SampleRate/time.Second), len(c.sound))
	c.sound = c.sound[:copy(c.sound, c.sound[n:])]
	c.seek += n
}

// whisperText is what was said of a window.
type whisperText struct {
	tokens      []int32 // with time stamps, without the end
	text        string
	logprob     float64 // mean
	compression float64
	heat        float64
	silence     float64 // the probability that nothing is said
}

// silent says whether it is no text, since nothing is said.
func (t *whisperText) silent() bool { return t.silence > whisperSilence && t.logprob < whisperUnsure }

// recognise hears the window and says its text, at higher temperatures if it makes no sense.
func (c *whisperCall) recognise(ctx context.Context) (t *whisperText, err error) {
	if _, err := c.mel.Compute(c.values, c.sound); err != nil {
		return nil, err
	}
	for i, x := range c.values {
		binary.LittleEndian.PutUint32(c.bytes[4*i:], math.Float32bits(x))
	}
	if err := c.nets.Hear(ctx, c.bytes); err != nil {
		return nil, err
	}
	c.held = nil
	if c.language == 0 {
		if err := c.start(ctx, []int32{c.p.SOT}); err != nil {
			return nil, err
		}
		c.language = c.likeliest
	}
	heats := whisperHeat
	if c.r.Temperature > 0 {
		heats = []float64{c.r.Temperature}
	}
	for _, heat := range heats {
		if t, err = c.say(ctx, heat); err != nil {
			return nil, err
		}
		if t.silent() || t.compression <= whisperRepeats && t.logprob >= whisperUnsure {
			break
		}
	}
	return t, nil
}

// say says the window's text.
func (c *whisperCall) say(ctx context.Context, heat float64) (*whisperText, error) {
	task := c.p.Transcribe
	if c.r.Translate {
		task = c.p.Translate
	}
	start := append(c.prompt[:len(c.prompt):len(c.prompt)], c.p.SOT, c.language, task)
	t := &whisperText{heat: heat}
	if c.p.First.Path != "" { // takes four: the first stamp is given
		t.tokens = append(t.tokens, c.p.Stamp)
	}
	if err := c.start(ctx, append(start, t.tokens...)); err != nil {
		return nil, err
	}
	t.silence = c.silence
	rng := rand.New(rand.NewPCG(uint64(c.seek), math.Float64bits(heat)))
	count := 0
	for {
		forbid(c.p, c.logits, t.tokens)
		id, logprob, err := pick(c.logits, heat, rng)
		if err != nil {
			return nil, err
		}
		t.logprob += logprob
		if count++; id == c.p.EOT {
			break
		}
		t.tokens = append(t.tokens, id)
		if count == whisperMost || len(c.held) == models.WhisperPlaces {
			break
		}
		if err := c.next(ctx, id); err != nil {
			return nil, err
		}
	}
	t.logprob /= float64(count)
	t.text = textOf(c.p, t.tokens)
	t.compression = compression(t.text)
	return t, nil
}

// start has the decoder see the first tokens, but those that it has seen. Afterwards logits are
// those of the last, and what the start of transcripts says of the sound is noted.
func (c *whisperCall) start(ctx context.Context, tokens []int32) error {
	if c.p.First.Path != "" {
		four := []int32{c.p.SOT, c.p.Languages[0].ID, c.p.Transcribe, c.p.Stamp}
		copy(four, tokens)
		if err := c.nets.Say(ctx, 0, four, c.row); err != nil {
			return err
		}
		c.held = four
		if err := c.read(0); err != nil {
			return err
		}
		c.note()
		return c.read(len(four) - 1)
	}
	same := 0
	for same < len(c.held) && same < len(tokens)-1 && c.held[same] == tokens[same] {
		same++
	}
	c.held = c.held[:same]
	for _, id := range tokens[same:] {
		if err := c.next(ctx, id); err != nil {
			return err
		}
		if id == c.p.SOT {
			c.note()
		}
	}
	return nil
}

// next has the decoder see a token.
func (c *whisperCall) next(ctx context.Context, id int32) error {
	if err := c.nets.Say(ctx, len(c.held), []int32{id}, c.row[:4*c.p.Vocab]); err != nil {
		return err
	}
	c.held = append(c.held, id)
	return c.read(0)
}

// read takes the logits of a row.
func (c *whisperCall) read(row int) error {
	b := c.row[4*c.p.Vocab*row:]
	for i := range c.logits {
		x := float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		if math.IsNaN(x) || math.IsInf(x, 1) {
			return ErrNonsense
		}
		c.logits[i] = x
	}
	return nil
}

// note reads from the logits behind the start which language is spoken, and whether any is.
func (c *whisperCall) note() {
	most := math.Inf(-1)
	for _, l := range c.p.Languages {
		if x := c.logits[l.ID]; x > most || c.likeliest == 0 {
			c.likeliest, most = l.ID, x
		}
	}
	c.silence = math.Exp(c.logits[c.p.NoSpeech] - logSum(c.logits))
}

// logSum is the logarithm of the sum of exponentials; −∞ of none.
func logSum(x []float64) float64 {
	most := math.Inf(-1)
	for _, v := range x {
		most = max(most, v)
	}
	if math.IsInf(most, -1) {
		return most
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v - most)
	}
	return most + math.Log(sum)
}

// forbid sets the logits of tokens that may not come next to −∞. Never said are brackets and the
// like, and tokens with a meaning but the end. A text begins with a time stamp of at most 1 s.
// Stamps come in pairs, the end of a segment and the beginning of the next, except before the end,
// and never fall; a segment takes some time. A stamp comes if all stamps together are likelier than
// each other token. Since a stamp is first, no blank and no end can be.
func forbid(p *models.Whisper, logits []float64, said []int32) {
	never := math.Inf(-1)
	none := func(from, to int32) {
		for i := range logits[from:to] {
			logits[int(from)+i] = never
		}
	}
	none(p.EOT+1, p.Stamp)
	for _, id := range p.NonSpeech {
		logits[id] = never
	}
	none(p.Stamp+models.WhisperStamps, int32(len(logits)))
	n := len(said)
	if n == 0 {
		none(0, p.Stamp)
		none(p.Stamp+whisperFirst+1, int32(len(logits)))
		return
	}
	last := int32(-1)
	for _, id := range said {
		if id >= p.Stamp {
			last = id
		}
	}
	open := said[n-1] < p.Stamp                    // a text is being said
	ended := !open && n > 1 && said[n-2] < p.Stamp // a segment ended: the next begins, or the end comes
	switch {
	case ended:
		none(0, p.EOT)
		none(p.Stamp, last)
	case !open:
		none(p.Stamp, int32(len(logits)))
	case last >= 0:
		none(p.Stamp, min(last+1, int32(len(logits))))
	}
	likeliest := never
	for _, x := range logits[:p.Stamp] {
		likeliest = max(likeliest, x)
	}
	if logSum(logits[p.Stamp:]) > likeliest {
		none(0, p.Stamp)
	}
}

// pick returns the likeliest token, or at a temperature above 0 one drawn, and its log probability.
func pick(logits []float64, heat float64, rng *rand.Rand) (id int32, logprob float64, err error) {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	most := logits[best]
	if math.IsInf(most, -1) {
		return 0, 0, ErrNonsense
	}
	if heat > 0 {
		sum := 0.0
		for _, x := range logits {
			sum += math.Exp((x - most) / heat)
		}
		left := rng.Float64() * sum
		for i, x := range logits {
			if left -= math.Exp((x - most) / heat); left < 0 {
				best = i
				break
			}
		}
	}
	return int32(best), logits[best] - logSum(logits), nil
}

// segments cuts a text at pairs of time stamps. heard is how far the sound is written down: to the
// last pair, or to its end.
func (t *whisperText) segments(c *whisperCall, length time.Duration) (all []ask.Segment, heard time.Duration) {
	stamp := func(i int) bool { return t.tokens[i] >= c.p.Stamp }
	after := func(i int) time.Duration { return min(time.Duration(t.tokens[i]-c.p.Stamp)*whisperStamp, length) }
	add := func(tokens []int32, from, to time.Duration) {
		s := ask.Segment{Start: at(c.seek) + from, End: at(c.seek) + to, Text: textOf(c.p, tokens), Seek: at(c.seek), Logprob: t.logprob,
			NoSpeech: t.silence, Compression: t.compression, Temperature: t.heat}
		for _, l := range c.p.Languages {
			if l.ID == c.language {
				s.Language = l.Code
			}
		}
		for _, id := range tokens {
			if id < c.p.EOT {
				s.Tokens = append(s.Tokens, id)
			}
		}
		if s.Text != "" && to > from {
			all = append(all, s)
		}
	}
	n, first := len(t.tokens), 0
	for i := 1; i < n; i++ {
		if stamp(i) && stamp(i-1) {
			add(t.tokens[first:i], after(first), after(i-1))
			first = i
		}
	}
	closed := n > 1 && stamp(n-1) && !stamp(n-2)
	switch {
	case first > 0 && !closed: // what follows the last pair is heard again
		return all, min(max(after(first-1), whisperLeast), length)
	case first > 0:
		add(t.tokens[first:], after(first), after(n-1))
	default:
		to := length
		for i := 1; i < n; i++ {
			if stamp(i) {
				to = after(i)
			}
		}
		if n > 0 {
			add(t.tokens, after(0), to)
		}
	}
	return all, length
}
