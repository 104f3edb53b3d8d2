package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/engine/card"
	"github.com/axle-llm/axle/engine/pictures"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/tokenizer/chat"
)

// This file tests whether a model on this card sees what it is shown. Wrong answers about pictures
// read as well as right ones, so each probe compares results with expected ones. Answers about
// colours and corners are compared with what was drawn. All other results are compared with those
// of the same rows, put through the card by hand, and with those of a wrong answer. A result passes
// if it is near enough to the right one. It need not have the same bits, because a card may round
// differently in another pass.

// Probe is one test of how a model sees, and its result.
type Probe struct {
	Name  string      `json:"name"`
	State cards.State `json:"state"`
	Gave  string      `json:"gave"`  // the result
	Means string      `json:"means"` // what the result says about the card and the package
}

// ProbeSight runs the nine probes and passes each result to tell. Nothing else may use the model
// meanwhile, and all its cached rows are dropped. Errors: ErrUnsupported, with the reason, for a
// model that does not see or that several cards hold; the card's errors; the error of ctx.
func (m *Model) ProbeSight(ctx context.Context, tell func(Probe)) error {
	b, ok := m.b.(*cardBackend)
	if !ok {
		return fmt.Errorf("%w: pictures are probed on one card: name one", ErrUnsupported)
	}
	if err := b.m.pictures.sees(m.info.Name); err != nil {
		return err
	}
	e := &eyesight{m: m, b: b, l: b.m, v: b.m.pictures.encoder.sees, name: rand.Text()}
	for _, probe := range []func(context.Context) (Probe, error){e.tensors, e.colours, e.quarters, e.twoPictures, e.deep, e.textAlone,
		e.across, e.again, e.together} {
		p, err := probe(ctx)
		if err != nil {
			return err
		}
		tell(p)
	}
	return nil
}

type eyesight struct {
	m    *Model
	b    *cardBackend
	l    *lm
	v    *models.Vision
	name string // of this run: it finds nothing that earlier runs cached
	keys int
}

// The pictures of most questions: four coloured quarters, and the same quarters in other places.
var (
	corners = []string{"top left", "top right", "bottom left", "bottom right"}
	painted = []string{"red", "green", "blue", "yellow"}
	paints  = map[string]color.NRGBA{"red": {220, 20, 20, 255}, "green": {20, 160, 40, 255}, "blue": {20, 40, 220, 255},
		"yellow": {240, 220, 20, 255}}
)

// drawn returns a picture of four quarters, as a PNG of the encoder's size.
func (e *eyesight) drawn(colours ...string) []byte {
	w, h := e.v.Layout.Width, e.v.Layout.Height
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			m.SetNRGBA(x, y, paints[colours[min(2*y/h, 1)*2+min(2*x/w, 1)]])
		}
	}
	return asPNG(m)
}

func asPNG(m image.Image) []byte {
	var b bytes.Buffer
	_ = png.Encode(&b, m) // cannot fail: it writes to memory
	return b.Bytes()
}

func (e *eyesight) plain(colour string) []byte { return e.drawn(colour, colour, colour, colour) }

func (e *eyesight) a() []byte { return e.drawn(painted...) }

func (e *eyesight) other() []byte { return e.drawn("blue", "yellow", "yellow", "green") }

// key returns a new key, under which nothing is cached.
func (e *eyesight) key() string {
	e.keys++
	return fmt.Sprintf("probe %s %d", e.name, e.keys)
}

func about(words string, pictures ...[]byte) []chat.Message {
	return []chat.Message{{Role: "user", Content: words, Images: pictures}}
}

func (e *eyesight) request(msgs []chat.Message) Request {
	r := Request{Messages: msgs, Sampling: e.m.Sampling(), NumCtx: e.m.info.Context, Limit: 24, Think: chat.ThinkOff, Key: e.key()}
	r.Sampling.Temperature = 0
	return r
}

// says returns the model's answer to words and a picture.
func (e *eyesight) says(ctx context.Context, words string, picture []byte) (string, error) {
	var sb strings.Builder
	for ev, err := range e.m.Chat(ctx, e.request(about(words, picture))) {
		if err != nil {
			return "", err
		}
		sb.WriteString(ev.Text)
	}
	return strings.TrimSpace(sb.String()), nil
}

// prompt returns a conversation as ids, and its pictures.
func (e *eyesight) prompt(ctx context.Context, msgs []chat.Message) ([]int32, [][]byte, error) {
	r := e.request(msgs)
	ids, _, images, err := e.m.prompt(ctx, &r, true, new(Cut))
	return ids, images, err
}

// logits returns the logits after a prompt, as a request for an answer gets them.
func (e *eyesight) logits(ctx context.Context, msgs []chat.Message, key string, repeatable bool) ([]float32, Usage, error) {
	ids, images, err := e.prompt(ctx, msgs)
	if err != nil {
		return nil, Usage{}, err
	}
	job := Job{IDs: ids, Images: images, Limit: 1, Sampling: e.m.Sampling(), Key: key, Repeatable: repeatable}
	ps, let, err := e.b.hold(ctx, &job)
	if err != nil {
		return nil, Usage{}, err
	}
	defer let()
	all := make([]int32, e.l.shape.Out)
	for i := range all {
		all[i] = int32(i)
	}
	s, err := e.l.submit(ctx, job, &embedding{picks: all, sum: make([]float64, len(all))}, ps...)
	if err != nil {
		return nil, Usage{}, err
	}
	defer e.l.forgetCaller(s)
	var u Usage
	for {
		tokens, err, closed := s.box.take(nil)
		for _, t := range tokens {
			u = t.Usage
		}
		switch {
		case err != nil:
			return nil, u, err
		case closed:
			out := make([]float32, len(all))
			for i, v := range s.embed.sum {
				out[i] = float32(v)
			}
			return out, u, nil
		}
		select {
		case <-s.box.wake:
		case <-ctx.Done():
			return nil, u, ctx.Err()
		}
	}
}

// off returns the distance of b from a, relative to a.
func off(a, b []float32) float64 {
	var d, n float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		d, n = d+(x-y)*(x-y), n+x*x
	}
	return math.Sqrt(d / max(n, math.SmallestNonzeroFloat64))
}

// near reports whether got is close to right, and not closer to wrong. d and away are the distances
// of got and wrong from right.
func near(right, got, wrong []float32) (d, away float64, ok bool) {
	d, away = off(right, got), off(right, wrong)
	//rule:G21 TestProbesFind <= min(0.1, away/2) => >= 0
	return d, away, away > 1e-6 && d <= min(0.1, away/2)
}

// howNear puts the two distances of near into words.
func howNear(d, away float64) string {
	if d == 0 {
		return fmt.Sprintf("the same bits, a wrong picture's are %.2g away", away)
	}
	return fmt.Sprintf("%.2g away, a wrong picture's are %.2g away", d, away)
}

// verdict returns the probe of a success or of a problem.
func verdict(ok bool, name, gave, good, bad string) Probe {
	if ok {
		return Probe{name, cards.OK, gave, good}
	}
	return Probe{name, cards.Problem, gave, bad}
}

// tensors reports what the card says about the encoder.
func (e *eyesight) tensors(ctx context.Context) (p Probe, err error) {
	gave := e.v.String()
	err = e.l.card.Do(ctx, func(axcl.Device) error {
		ins, outs := e.l.pictures.encoder.enc.(*pictures.Encoder).Tensors()
		for i, ts := range [][]axcl.Tensor{ins, outs} {
			for _, t := range ts {
				gave += fmt.Sprintf("; %s %q %v %v", []string{"in", "out"}[i], t.Name, t.Type, t.Shape)
			}
		}
		gave += fmt.Sprintf("; a call took %v", e.l.pictures.encoder.took.Round(time.Microsecond))
		return nil
	})
	means := fmt.Sprintf("the card and the file agree; a picture becomes %d rows of the prompt", e.v.Rows)
	return Probe{"the encoder's tensors", cards.OK, gave, means}, err
}

// colours asks for the colour of a plain picture, once for red and once for blue.
func (e *eyesight) colours(ctx context.Context) (Probe, error) {
	red, err := e.says(ctx, "Which colour is this?", e.plain("red"))
	if err != nil {
		return Probe{}, err
	}
	blue, err := e.says(ctx, "Which colour is this?", e.plain("blue"))
	return judgeColours(red, blue), err
}

func judgeColours(red, blue string) Probe {
	p := Probe{Name: "red and blue", State: cards.Problem, Gave: fmt.Sprintf("of a red picture %.60q, of a blue one %.60q", red, blue)}
	switch r, b := colourIn(red), colourIn(blue); {
	case r == "red" && b == "blue":
		p.State, p.Means = cards.OK, "red, green and blue come in the encoder's order"
	case r == "blue" && b == "red":
		p.Means = "red and blue are exchanged: this encoder was compiled for blue first; take another build of it"
	case r == "" && b == "":
		p.Means = "no colour is named: the model sees nothing that it knows, or does not answer in English"
	default:
		p.Means = "colours are named wrong: what reaches the encoder is not the picture, or is normed otherwise than in its training"
	}
	return p
}

// colourIn returns the first colour that a text names.
func colourIn(text string) (name string) {
	text, at := strings.ToLower(text), math.MaxInt
	for _, c := range []string{"red", "green", "blue", "yellow", "black", "white", "orange", "purple", "pink", "brown", "gray", "grey"} {
		if i := strings.Index(text, c); i >= 0 && i < at {
			name, at = c, i
		}
	}
	return name
}

// squares returns a picture of four coloured squares on white, one in each quarter.
func (e *eyesight) squares(colours ...string) []byte {
	w, h := e.v.Layout.Width, e.v.Layout.Height
	m := image.NewNRGBA(image.Rect(0, 0, w, h))
	draw.Draw(m, m.Rect, image.White, image.Point{}, draw.Src)
	for i, c := range colours {
		x, y := i%2*w/2, i/2*h/2
		draw.Draw(m, image.Rect(x+w/12, y+h/12, x+w/2-w/12, y+h/2-h/12), image.NewUniform(paints[c]), image.Point{}, draw.Src)
	}
	return asPNG(m)
}

// quarters asks for the colour of each corner.
func (e *eyesight) quarters(ctx context.Context) (Probe, error) {
	var said []string
	for _, c := range corners {
		s, err := e.says(ctx, "Which colour is the square at the "+c+"?", e.squares(painted...))
		if err != nil {
			return Probe{}, err
		}
		said = append(said, s)
	}
	return judgeQuarters(said), nil
}

func judgeQuarters(said []string) Probe {
	p := Probe{Name: "four quarters", State: cards.Problem}
	got := make([]string, len(said))
	right := 0
	for i, s := range said {
		if got[i] = colourIn(s); got[i] == painted[i] {
			right++
		}
		p.Gave += fmt.Sprintf("%s %s is said to be %.40q", []string{"", ","}[min(i, 1)], corners[i], s)
	}
	p.Gave = strings.TrimSpace(p.Gave)
	for what, order := range map[string][]int{"left and right": {1, 0, 3, 2}, "top and bottom": {2, 3, 0, 1},
		"rows and columns": {0, 2, 1, 3}, "both sides": {3, 2, 1, 0}} {
		if turned := []string{painted[order[0]], painted[order[1]], painted[order[2]], painted[order[3]]}; slices.Equal(got, turned) {
			p.Means = what + " are exchanged: patches, or their positions, lie in another order than this encoder wants"
			return p
		}
	}
	switch {
	case right == len(said):
		p.State, p.Means = cards.OK, "patches and their positions are where they belong"
	case right == len(said)-1:
		p.State, p.Means = cards.Note, "one of four is wrong: small models err so; patches in a wrong order err more"
	default:
		p.Means = fmt.Sprintf("%d of 4 are right: patches lie in another order than this encoder wants, or the model is not up to it",
			right)
	}
	return p
}

const sameWords = "What is this?"

// twoPictures asks about two pictures in the same words, in both orders.
func (e *eyesight) twoPictures(ctx context.Context) (Probe, error) {
	const name = "two pictures, the same words"
	first, second := about(sameWords, e.a()), about(sameWords, e.other())
	var got [][]float32
	before := e.b.Stats().Encoded
	one, two := e.key(), e.key()
	for i, msgs := range [][]chat.Message{first, second, first, second, second, first} {
		l, _, err := e.logits(ctx, msgs, []string{one, two}[i/4], false)
		if err != nil {
			return Probe{}, err
		}
		got = append(got, l)
	}
	calls := int(e.b.Stats().Encoded - before)
	want := 4 * (e.v.Tiles*e.v.Tiles + 1)
	a, b := got[0], got[1]
	ok, worst := calls == want, 0.0
	for _, c := range [][3][]float32{{a, got[2], b}, {b, got[3], a}, {b, got[4], a}, {a, got[5], b}} {
		d, _, good := near(c[0], c[1], c[2])
		ok, worst = ok && good, max(worst, d)
	}
	return verdict(ok, name, fmt.Sprintf("each again: %s; %d calls of the encoder, %d are needed", howNear(worst, off(a, b)), calls, want),
		"each picture has its own answer, whichever came first, and is encoded once",
		"one picture's answer is given for another, or pictures make no difference: answers about pictures cannot be trusted"), nil
}

// deep compares an answer with and without the rows that are added between layers.
func (e *eyesight) deep(ctx context.Context) (Probe, error) {
	const name = "rows added between layers"
	if len(e.v.Deep) == 0 {
		return Probe{name, cards.Note, "the encoder gives none", "nothing to look at: this family adds no rows"}, nil
	}
	s, err := e.shown(ctx, about(sameWords, e.a()), 0)
	if err != nil {
		return Probe{}, err
	}
	with, err := e.byHand(ctx, s)
	if err != nil {
		return Probe{}, err
	}
	without, err := e.byHand(ctx, s.blind())
	if err != nil {
		return Probe{}, err
	}
	got, _, err := e.logits(ctx, about(sameWords, e.a()), e.key(), false)
	d, away, ok := near(with[0], got, without[0])
	return verdict(ok, name, fmt.Sprintf("an answer is %.2g from what it is to be, %.2g without them", d, away),
		"they are added, and they matter", "they are lost on the way, or change nothing: answers read well and are wrong"), err
}

// textAlone sends a text with the encoder on the card, and again without it.
func (e *eyesight) textAlone(ctx context.Context) (Probe, error) {
	text := about("Say yes.")
	with, _, err := e.logits(ctx, text, e.key(), true)
	if err != nil {
		return Probe{}, err
	}
	enc := e.l.pictures.encoder.enc.(*pictures.Encoder)
	if err := e.l.card.Do(ctx, func(axcl.Device) error { return e.l.card.Watched(0, enc.Close) }); err != nil {
		return Probe{}, err
	}
	without, _, err := e.logits(ctx, text, e.key(), true)
	err = errors.Join(err, e.l.card.Do(ctx, func(d axcl.Device) error {
		return e.l.card.Watched(card.FileLimit, func() error { return enc.Reopen(d) })
	}))
	if err != nil {
		return Probe{}, err
	}
	return verdict(slices.Equal(with, without), "text alone", fmt.Sprintf("the encoder off the card changes logits by %.2g", off(with,
		without)), "text is answered as if there were no encoder, bit for bit",
		"an encoder beside the layers changes answers to text: the card is not to be trusted with both"), nil
}

// across compares a pass that ends in the middle of a picture with one that does not.
func (e *eyesight) across(ctx context.Context) (Probe, error) {
	const name = "a picture across passes"
	msgs := about(sameWords, e.a())
	whole, err := e.shown(ctx, msgs, 0)
	if err != nil {
		return Probe{}, err
	}
	at := slices.Index(whole.ids, e.v.Placeholder)
	var got [][]float32
	for _, s := range []struct {
		msgs  []chat.Message
		first int
	}{{msgs, at}, {msgs, at + e.v.PerCall/2}, {about(sameWords, e.other()), at}} {
		one, err := e.shown(ctx, s.msgs, s.first)
		if err != nil {
			return Probe{}, err
		}
		l, err := e.byHand(ctx, one)
		if err != nil {
			return Probe{}, err
		}
		got = append(got, l[0])
	}
	d, away, ok := near(got[0], got[1], got[2])
	return verdict(ok, name, "a pass that ends in the picture against one that begins with it: "+howNear(d, away),
		"a picture may lie across passes",
		"a picture that lies across passes is seen otherwise: its rows, or their positions, go wrong there"), nil
}

// again asks a second question about the same picture, once with the first question cached and once
// with nothing cached.
func (e *eyesight) again(ctx context.Context) (Probe, error) {
	const name = "a second turn"
	turn := func(picture []byte) []chat.Message {
		return append(about("See?", picture), chat.Message{Role: "assistant", Content: "Yes."}, chat.Message{Role: "user", Content: "So?"})
	}
	key := e.key()
	if _, _, err := e.logits(ctx, about("See?", e.a()), key, false); err != nil {
		return Probe{}, err
	}
	before := e.b.Stats().Encoded
	known, u, err := e.logits(ctx, turn(e.a()), key, false)
	if err != nil {
		return Probe{}, err
	}
	calls := e.b.Stats().Encoded - before
	fresh, cold, err := e.logits(ctx, turn(e.a()), e.key(), false)
	if err != nil {
		return Probe{}, err
	}
	wrong, _, err := e.logits(ctx, turn(e.other()), e.key(), false)
	d, away, ok := near(fresh, known, wrong)
	// Where rows cannot be reused (a state that is not kept, or a card that needs its cells in
	// order), the answer is right, but slower.
	reused := u.Cached >= e.v.Rows || !e.l.restores()
	return verdict(ok && calls == 0 && cold.Cached == 0 && reused, name,
		fmt.Sprintf("%d of %d rows were known, %d calls of the encoder; against all anew: %s", u.Cached, u.Prompt, calls, howNear(d, away)),
		"a picture that was looked at is not looked at again, and the answer is the same",
		"what is kept of a picture gives another answer than the picture, or is not found again"), err
}

// together sends a picture and a text in one pass.
func (e *eyesight) together(ctx context.Context) (Probe, error) {
	const name = "a picture and a text in one pass"
	if !e.l.proven.Mixed || !e.l.limits.Together {
		return Probe{name, cards.Note, "rows of several texts do not share passes here", "nothing to look at: each goes alone"}, nil
	}
	step := e.l.minWide
	var each []shown
	var alone [][]float32
	for _, msgs := range [][]chat.Message{about(sameWords, e.a()), about("Say yes, or no."), about(sameWords, e.other())} {
		s, err := e.shown(ctx, msgs, 0)
		if err != nil {
			return Probe{}, err
		}
		s.cuts = s.cuts[:0]
		for at := 0; at < len(s.ids); {
			at = min(at+step/2, len(s.ids)) // two share a pass
			s.cuts = append(s.cuts, at)
		}
		l, err := e.byHand(ctx, s)
		if err != nil {
			return Probe{}, err
		}
		each, alone = append(each, s), append(alone, l[0])
	}
	both, err := e.byHand(ctx, each[:2]...)
	if err != nil {
		return Probe{}, err
	}
	d, away, ok := near(alone[0], both[0], alone[2])
	dt, _, okText := near(alone[1], both[1], alone[0])
	return verdict(ok && okText, name, "together against alone: "+howNear(max(d, dt), away),
		"pictures and text of several people share passes", "what shares a pass with a picture is answered wrong: say so with the card's "+
			"firmware, and serve with --parallel 1"), nil
}
