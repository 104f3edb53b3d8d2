package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/x448/float16"

	"github.com/axle-llm/axle/ask"
	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/models"
	"github.com/axle-llm/axle/vision"
	"github.com/axle-llm/axle/vision/diffusion"
)

// DrawRequest asks for a picture, and Drawing is an event of its making.
type (
	DrawRequest = ask.DrawRequest
	Drawing     = ask.Drawing
)

// draws is what a backend that draws has in addition.
type draws interface {
	Draw(ctx context.Context, r DrawRequest) iter.Seq2[Drawing, error]
}

// Draw yields an event for each step of a picture, and the picture last. Leaving the loop, or ctx,
// ends it after the call of a net that the card is at. Errors: ErrUnsupported, if the model does
// not draw, or not as it is asked to; ErrRequest; ErrNonsense; ErrBusy; the card's.
func (m *Model) Draw(ctx context.Context, r DrawRequest) iter.Seq2[Drawing, error] {
	return drawWith(ctx, m.b, r, m.info.Name)
}

func drawWith(ctx context.Context, b Backend, r DrawRequest, name string) iter.Seq2[Drawing, error] {
	if b, ok := b.(draws); ok {
		return b.Draw(ctx, r)
	}
	return func(yield func(Drawing, error) bool) {
		yield(Drawing{}, fmt.Errorf("%w: %s does not draw", ErrUnsupported, name))
	}
}

const (
	drawStrength = 0.6       // of what may change of a picture
	drawPartial  = 3         // pictures on the way, at most
	drawPrompt   = 256 << 10 // bytes of a prompt
)

// drawer is the nets of a diffusion model on a card. The states of a prompt go from its net to the
// denoiser on the card, and so does the latent where the denoiser is asked twice in a step. One
// picture is drawn at a time.
type drawer struct {
	*netBackend
	p       *models.Diffusion
	latent  axcl.Buffer    // what the denoiser takes
	prompts [2]axcl.Buffer // states: of the prompt, and of what is not to be seen; nil: they are copied
}

// The nets, in the order of their files.
const (
	drawText = iota
	drawDenoiser
	drawDecoder
	drawEncoder
)

func openDiffusion(ctx context.Context, p *models.Diffusion, o OpenOptions) (*Model, error) {
	d := ask.Draws{Width: p.Width, Height: p.Height, Steps: p.Steps, MostSteps: models.DiffusionMost, Guided: p.Guided,
		Guidance: p.Guidance, Pictures: p.Encoder.Path != ""}
	if p.Rows != nil {
		d.MostSteps, d.Choices = p.Steps, p.Setting.Choices(p.Steps)
	}
	info := Info{Name: p.Name, Capabilities: ask.Capabilities{Drawing: true}, Draws: d}
	return openNets(ctx, p, p.Files(), info, o, func(n *netBackend) (Backend, error) {
		n.called = "draw"
		b := &drawer{netBackend: n, p: p}
		if err := b.believe(); err != nil {
			return nil, err
		}
		return b, n.keep(ctx, b.bind)
	})
}

// believe takes the tensors' sizes from the card: their bytes tell what numbers a net takes, also
// where a file calls them otherwise.
func (b *drawer) believe() error {
	p := *b.p
	for i, f := range []*models.NetFile{&p.Text, &p.Denoiser, &p.Decoder, &p.Encoder}[:len(b.nets)] {
		ins, outs := b.nets[i].Tensors(0)
		for _, side := range []struct {
			ours *[]axcl.Tensor
			card []axcl.Tensor
		}{{&f.In, ins}, {&f.Out, outs}} {
			*side.ours = slices.Clone(*side.ours)
			for k := range *side.ours {
				t := &(*side.ours)[k]
				t.Size = side.card[slices.IndexFunc(side.card, func(c axcl.Tensor) bool { return c.Name == t.Name })].Size
				whole := t.Type == axcl.Int32 || t.Type == axcl.Uint32 || t.Type == axcl.Int64
				if n := count(*t); t.Size != 4*n && (whole || t.Size != 2*n) && (!whole || t.Size != 8*n) {
					return fmt.Errorf("engine: %w: %s: the card takes %d bytes for %s of %v", axcl.ErrModel, b.info.Name, t.Size, t.Name,
						t.Shape)
				}
			}
		}
	}
	b.p = &p
	return nil
}

// bind makes the buffers of what stays on the card.
func (b *drawer) bind(dev axcl.Device) (err error) {
	d := b.p.Denoiser
	if b.latent, err = b.buffer(dev, d.In[0].Size); err != nil {
		return err
	}
	given, states := b.p.Text.Out[0], d.In[2]
	if b.width(given) != b.width(states) || b.width(states) == 2 && b.brain(given) != b.brain(states) {
		return nil // numbers of another form: they are converted on the way
	}
	for i := range b.prompts {
		if b.prompts[i], err = b.buffer(dev, states.Size); err != nil {
			return err
		}
	}
	return nil
}

// Draw draws a picture. Keys take turns, a picture each.
func (b *drawer) Draw(ctx context.Context, r DrawRequest) iter.Seq2[Drawing, error] {
	return counted(&b.waiting, func(yield func(Drawing, error) bool) {
		g, err := b.begin(ctx, r)
		if err != nil {
			yield(Drawing{}, err)
			return
		}
		type event struct {
			Drawing
			err error
		}
		// There is room for all events: who reads slowly does not hold up the next picture.
		events := make(chan event, g.way.Steps()+2)
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer close(events)
			if err := g.draw(ctx, func(d Drawing) { events <- event{Drawing: d} }); err != nil {
				events <- event{err: err}
			}
		}()
		defer func() { cancel(); <-done }()
		for e := range events {
			if !yield(e.Drawing, e.err) {
				return
			}
		}
	})
}

// drawing is one picture on its way.
type drawing struct {
	*drawer
	r        DrawRequest
	way      *diffusion.Way
	ids      [2][]int32 // of the prompt, and of what is not to be seen: nil where the denoiser is asked once
	guidance float64
	shows    map[int]bool // steps that are shown
	cuts     []Cut        // of the prompts
	states   [2][]byte    // of the prompts, where they do not stay on the card
}

// begin checks a request.
func (b *drawer) begin(ctx context.Context, r DrawRequest) (*drawing, error) {
	can := b.info.Draws
	if err := b.able(r); err != nil {
		return nil, err
	}
	g := &drawing{drawer: b, r: r, guidance: can.Guidance, shows: map[int]bool{}}
	steps := r.Steps
	if steps == 0 {
		steps = can.Steps
	}
	if can.Choices != nil && !slices.Contains(can.Choices, steps) {
		return nil, fmt.Errorf("%w: %s draws in %v steps, not in %d", ErrRequest, b.info.Name, anyOf(can.Choices), steps)
	} else if steps < 1 || steps > can.MostSteps {
		return nil, fmt.Errorf("%w: %s draws in 1 to %d steps, not in %d", ErrRequest, b.info.Name, can.MostSteps, steps)
	}
	tail := steps
	if r.Picture != nil {
		strength := r.Strength
		if strength == 0 {
			strength = drawStrength
		}
		tail = b.p.Setting.Tail(steps, strength)
	}
	if r.Guidance != 0 {
		g.guidance = r.Guidance
	}
	var err error
	if g.way, err = diffusion.New(b.p.Setting, steps, tail); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	for i := range min(r.Partial, tail-1) {
		g.shows[(i+1)*tail/(min(r.Partial, tail-1)+1)-1] = true
	}
	prompts := []string{r.Prompt}
	if can.Guided && g.guidance != 1 { // with 1 what is not to be seen makes no difference
		prompts = append(prompts, r.Negative)
	}
	for i, text := range prompts {
		tok, room, cut := b.p.Tokenizer, b.p.Text.In[0].Shape[1], 0
		if g.ids[i], cut, err = tok.Window(ctx, text, room, tok.Suffix()[0]); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("%w: the prompt: %w", ErrRequest, err)
		}
		if room -= len(tok.Prefix()) + len(tok.Suffix()); cut > 0 {
			g.cuts = append(g.cuts, Cut{Limit: room, Prompt: room + cut, Kept: room})
		}
	}
	return g, nil
}

// able says why a request cannot be done, whatever its number of steps.
func (b *drawer) able(r DrawRequest) error {
	can := b.info.Draws
	switch {
	case r.Width != 0 && r.Width != can.Width || r.Height != 0 && r.Height != can.Height:
		return fmt.Errorf("%w: %s draws pictures of %d×%d pixels, not of %d×%d", ErrRequest, b.info.Name, can.Width, can.Height,
			r.Width, r.Height)
	case !can.Guided && (r.Negative != "" || r.Guidance != 0):
		return fmt.Errorf("%w: %s takes no negative prompt and no guidance: it draws with the prompt alone", ErrUnsupported,
			b.info.Name)
	case !(r.Guidance >= 0 && r.Guidance <= 50):
		return fmt.Errorf("%w: a guidance is between 0 and 50, not %g", ErrRequest, r.Guidance)
	case r.Picture != nil && !can.Pictures:
		return fmt.Errorf("%w: %s has no encoder of pictures: it draws from a prompt alone", ErrUnsupported, b.info.Name)
	case !(r.Strength >= 0 && r.Strength <= 1):
		return fmt.Errorf("%w: a strength is between 0 and 1, not %g", ErrRequest, r.Strength)
	case r.Partial < 0 || r.Partial > drawPartial:
		return fmt.Errorf("%w: %d pictures on the way: 0 to %d can be had", ErrRequest, r.Partial, drawPartial)
	case len(r.Prompt)+len(r.Negative) > drawPrompt:
		return fmt.Errorf("%w: a prompt of %d bytes: %d can be had", ErrRequest, len(r.Prompt)+len(r.Negative), drawPrompt)
	}
	return nil
}

// anyOf are numbers in words.
func anyOf(all []int) string {
	text := fmt.Sprint(all[0])
	for i, n := range all[1:] {
		if i == len(all)-2 {
			text += fmt.Sprint(" or ", n)
		} else {
			text += fmt.Sprint(", ", n)
		}
	}
	return text
}

// draw draws the picture, in the turn of its key.
func (g *drawing) draw(ctx context.Context, tell func(Drawing)) error {
	done, err := g.turn(ctx, g.r.Key)
	if err != nil {
		return err
	}
	defer done()
	noise := diffusion.NewNoise(g.r.Seed)
	picture, err := g.picture(ctx, noise)
	if err != nil {
		return err
	}
	if err := g.read(ctx); err != nil {
		return err
	}
	x := make([]float32, count(g.p.Denoiser.In[0]))
	noise.Fill(x)
	g.way.Start(x, picture)
	asked, eps, without := make([]float32, len(x)), make([]float32, len(x)), make([]float32, len(x))
	for step := range g.way.Steps() {
		at := Drawing{Step: step + 1, Steps: g.way.Steps()}
		if step == 0 {
			at.Cuts = g.cuts
		}
		if !g.way.Idle(step) {
			g.way.Ask(step, asked, x)
			if err := g.denoise(ctx, step, asked, eps, without); err != nil {
				return err
			}
			if g.shows[step] {
				g.way.Guess(step, asked, x, eps)
				if at.Pixels, err = g.decode(ctx, asked); err != nil {
					return err
				}
				at.Width, at.Height = g.p.Width, g.p.Height
			}
		}
		g.way.Step(step, x, eps, noise)
		tell(at)
	}
	last := Drawing{Step: g.way.Steps(), Steps: g.way.Steps(), Done: true, Width: g.p.Width, Height: g.p.Height}
	if last.Pixels, err = g.decode(ctx, x); err != nil {
		return err
	}
	tell(last)
	return nil
}

// piece is a piece of work for the card, with calls of a net: after it others may have their turn,
// and ctx may end the drawing.
func (g *drawing) piece(ctx context.Context, net int, f func(n axcl.Net) error) error {
	if ctx.Err() != nil { // else the call might begin before it is seen that ctx has ended
		return context.Cause(ctx)
	}
	_, err := g.nets[net].piece(ctx, func(axcl.Device) error {
		err := f(g.nets[net].net)
		if err == nil {
			g.calls.Add(1)
		}
		return err
	})
	return err
}

// read makes the states of the prompts.
func (g *drawing) read(ctx context.Context) error {
	in, out := g.p.Text.In[0], g.p.Text.Out[0]
	for i, ids := range g.ids {
		if ids == nil {
			continue
		}
		b := make([]byte, 0, in.Size)
		for _, id := range ids {
			if b = binary.LittleEndian.AppendUint32(b, uint32(id)); in.Size == 8*len(ids) {
				b = binary.LittleEndian.AppendUint32(b, 0)
			}
		}
		states := map[string][]byte{}
		if g.prompts[i] == nil {
			states[out.Name] = make([]byte, out.Size)
		}
		if err := g.piece(ctx, drawText, func(n axcl.Net) error {
			if g.prompts[i] != nil {
				if err := n.Bind(0, out.Name, g.prompts[i]); err != nil {
					return err
				}
			}
			return n.Run(0, map[string][]byte{in.Name: b}, states)
		}); err != nil {
			return err
		}
		if g.prompts[i] == nil {
			to := g.p.Denoiser.In[2]
			v := make([]float32, count(out))
			g.take(out, v, states[out.Name])
			g.states[i] = g.give(to, v)
		}
	}
	return nil
}

// denoise puts the noise that is seen in a latent into eps.
func (g *drawing) denoise(ctx context.Context, step int, latent, eps, without []float32) error {
	d := g.p.Denoiser
	sample, time, states := d.In[0], d.In[1], d.In[2]
	x, when := g.give(sample, latent), g.time(time, step)
	out := map[string][]byte{d.Out[0].Name: make([]byte, d.Out[0].Size)}
	for i, to := range [][]float32{eps, without} {
		if g.ids[i] == nil {
			continue
		}
		if err := g.piece(ctx, drawDenoiser, func(n axcl.Net) error {
			in := map[string][]byte{time.Name: when}
			if i == 0 {
				if err := g.latent.Write(0, x); err != nil {
					return err
				}
				if err := n.Bind(0, sample.Name, g.latent); err != nil {
					return err
				}
			}
			if g.prompts[i] == nil {
				in[states.Name] = g.states[i]
			} else if err := n.Bind(0, states.Name, g.prompts[i]); err != nil {
				return err
			}
			return n.Run(0, in, out)
		}); err != nil {
			return err
		}
		if err := g.sound(d.Out[0], to, out[d.Out[0].Name]); err != nil {
			return fmt.Errorf("%w, step %d", err, step+1)
		}
	}
	if g.ids[1] != nil {
		diffusion.Guide(eps, without, g.guidance)
	}
	return nil
}

// time is a step's time as the denoiser takes it.
func (g *drawing) time(t axcl.Tensor, step int) []byte {
	at := g.way.Time(step)
	if g.p.Rows != nil {
		return g.give(t, g.p.Rows[slices.Index(g.p.Setting.Times(g.p.Steps), at)])
	}
	b := make([]byte, t.Size)
	b[0], b[1] = byte(at), byte(at>>8) // of four or eight bytes: below 1000
	return b
}

// decode makes a picture of a latent.
func (g *drawing) decode(ctx context.Context, latent []float32) ([]byte, error) {
	scaled := make([]float32, len(latent))
	for i, v := range latent {
		scaled[i] = float32(float64(v) / diffusion.Latent)
	}
	in, out := g.p.Decoder.In[0], g.p.Decoder.Out[0]
	b := make([]byte, out.Size)
	if err := g.piece(ctx, drawDecoder, func(n axcl.Net) error {
		return n.Run(0, map[string][]byte{in.Name: g.give(in, scaled)}, map[string][]byte{out.Name: b})
	}); err != nil {
		return nil, err
	}
	planes := make([]float32, count(out))
	if err := g.sound(out, planes, b); err != nil {
		return nil, fmt.Errorf("%w, the picture", err)
	}
	return diffusion.Pixels(make([]byte, 0, len(planes)), planes), nil
}

// picture is the latent of the picture that the drawing begins with; nil: none.
func (g *drawing) picture(ctx context.Context, noise *diffusion.Noise) ([]float32, error) {
	if g.r.Picture == nil {
		return nil, nil
	}
	in, out := g.p.Encoder.In[0], g.p.Encoder.Out[0]
	planes, err := g.planes(ctx)
	if err != nil {
		return nil, err
	}
	b := make([]byte, out.Size)
	if err := g.piece(ctx, drawEncoder, func(n axcl.Net) error {
		return n.Run(0, map[string][]byte{in.Name: g.give(in, planes)}, map[string][]byte{out.Name: b})
	}); err != nil {
		return nil, err
	}
	moments := make([]float32, count(out))
	if err := g.sound(out, moments, b); err != nil {
		return nil, fmt.Errorf("%w, the picture to begin with", err)
	}
	x := make([]float32, len(moments)/2)
	noise.Fill(x)
	diffusion.Sample(x, moments)
	return x, nil
}

// planes is the picture to begin with as the encoder takes it: its middle, in the form of what is
// drawn. Pictures are decoded by turns of their keys, within the memory that all models have for
// it, and not before the drawing's turn.
func (g *drawing) planes(ctx context.Context) (planes []float32, err error) {
	err = decodePicture(ctx, g.r.Key, g.r.Picture, func(p *vision.Picture) error {
		p = p.Fill(g.p.Width, g.p.Height)
		n := g.p.Width * g.p.Height
		planes = make([]float32, 3*n)
		for i, v := range p.Pix {
			planes[i%3*n+i/3] = float32(float64(v)/127.5 - 1)
		}
		return nil
	})
	return planes, err
}

func count(t axcl.Tensor) int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// width is the bytes of a number: two or four, as package models has checked.
func (b *drawer) width(t axcl.Tensor) int { return t.Size / count(t) }

// give are numbers as a tensor takes them.
func (b *drawer) give(t axcl.Tensor, v []float32) []byte {
	out := make([]byte, 0, t.Size)
	switch {
	case b.width(t) == 4:
		for _, x := range v {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
		}
	case b.brain(t):
		for _, x := range v {
			out = binary.LittleEndian.AppendUint16(out, axcl.BFloat16(x))
		}
	default:
		for _, x := range v {
			out = binary.LittleEndian.AppendUint16(out, float16.Fromfloat32(x).Bits())
		}
	}
	return out
}

// take puts a tensor's numbers into v.
func (b *drawer) take(t axcl.Tensor, v []float32, from []byte) {
	switch {
	case b.width(t) == 4:
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(from[4*i:]))
		}
	case b.brain(t):
		for i := range v {
			v[i] = axcl.Float32(binary.LittleEndian.Uint16(from[2*i:]))
		}
	default:
		for i := range v {
			v[i] = float16.Frombits(binary.LittleEndian.Uint16(from[2*i:])).Float32()
		}
	}
}

func (b *drawer) brain(t axcl.Tensor) bool { return b.p.Brain || t.Type == axcl.BF16 }

// sound is take for what must be numbers.
func (b *drawer) sound(t axcl.Tensor, v []float32, from []byte) error {
	b.take(t, v, from)
	for _, x := range v {
		if x-x != 0 { // a NaN or an infinity
			// No strike against the card: a prompt may cause this, and can be sent on purpose.
			return fmt.Errorf("%w: %s", ErrNonsense, b.info.Name)
		}
	}
	return nil
}
