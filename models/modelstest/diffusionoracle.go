package modelstest

import (
	"math"

	"github.com/x448/float16"

	"github.com/axle-llm/axle/axcl"
)

// Drawn is what a diffusion model is asked for. Its noise is given: portions of as many values as a
// latent has, in the order in which they are drawn.
type Drawn struct {
	Prompt, Negative []int32 // ids, as many as the net takes
	Guidance         float64 // not used by LCM
	Steps            int     // of all timesteps
	Tail             int     // of those, the last that are made; 0: all
	Picture          []byte  // three bytes a pixel, in the size of its pictures; nil: none
	Noise            func() []float32
}

// Oracle draws in float64: three bytes for each pixel.
func (e Diffusion) Oracle(r Drawn) []byte {
	o := drawOracle{e.weights(), e}
	states := []rows{o.prompt(r.Prompt)}
	if e.Layout != "LCM" {
		states = append(states, o.prompt(r.Negative))
	}
	picture := o.seen(r)
	x := rowsOf(r.Noise(), e.places())
	times, sigmas := e.walk(r.Steps)
	if r.Tail > 0 {
		times, sigmas = times[len(times)-r.Tail:], sigmas[len(sigmas)-r.Tail-1:]
	}
	eps := func(x rows, t float64) rows {
		time := o.embedded(int(math.RoundToEven(t)))
		with := o.noise(x, time, states[0])
		if len(states) == 1 {
			return with
		}
		without := o.noise(x, time, states[1])
		return without.plus(with.plus(without.times(-1)).times(r.Guidance))
	}
	var last rows // DPM++'s guess before
	mean := func(sigma float64) float64 { return 1 / math.Sqrt(sigma*sigma+1) }
	for i, t := range times {
		sigma, to := sigmas[i], sigmas[i+1]
		a, b := mean(sigma), mean(to)
		if i == 0 {
			scale, of := 1.0, a
			switch {
			case e.Layout == "Euler" && picture == nil:
				scale = math.Sqrt(sigma*sigma + 1)
			case e.Layout == "Euler":
				scale, of = sigma, 1
			case picture != nil:
				scale = sigma * a
			}
			if x = x.times(scale); picture != nil {
				x = x.plus(picture.times(of))
			}
		}
		switch e.Layout {
		case "LCM":
			guess := x.plus(eps(x, t).times(-sigma * a)).times(1 / a)
			skip, out := 0.25/(100*t*t+0.25), 10*t/math.Sqrt(100*t*t+0.25)
			x = guess.times(out).plus(x.times(skip))
			if i < len(times)-1 {
				x = x.times(b).plus(rowsOf(r.Noise(), e.places()).times(to * b))
			}
		case "DPM++":
			if sigma == to {
				continue
			}
			guess := x.plus(eps(x, t).times(-sigma * a)).times(1 / a)
			h := math.Log(sigma / to)
			bent := guess
			if last != nil {
				before := math.Log(sigmas[i-1] / sigma)
				bent = guess.plus(guess.plus(last.times(-1)).times(h / (2 * before)))
			}
			x = x.times(to * b / (sigma * a)).plus(bent.times(b * (1 - math.Exp(-h))))
			last = guess
		case "Euler":
			x = x.plus(eps(x.times(a), t).times(to - sigma))
		}
	}
	return o.picture(x.times(1 / 0.18215))
}

func (x rows) times(by float64) rows { return x.each(func(v float64) float64 { return v * by }) }

func (e Diffusion) places() int {
	h, w := e.latent()
	return h * w
}

// walk is the timesteps of so many steps, and the noise beside a picture of 1 at each and behind
// the last.
func (e Diffusion) walk(steps int) (times, sigmas []float64) {
	var table []float64
	left := 1.0
	for i := range 1000 {
		root := math.Sqrt(0.00085) + float64(i)/999*(math.Sqrt(0.012)-math.Sqrt(0.00085))
		left *= 1 - root*root
		table = append(table, math.Sqrt((1-left)/left))
	}
	switch e.Layout {
	case "LCM":
		for i := range steps {
			t := 999 - 20*(50*i/steps)
			times, sigmas = append(times, float64(t)), append(sigmas, table[t])
		}
		return times, append(sigmas, 0)
	case "DPM++":
		for i, t := range e.Times() {
			root := math.Pow(table[999], 1.0/7) + float64(i)/19*(math.Pow(table[0], 1.0/7)-math.Pow(table[999], 1.0/7))
			times, sigmas = append(times, float64(t)), append(sigmas, math.Pow(root, 7))
		}
		return times, append(sigmas, sigmas[19])
	}
	for i := range steps {
		t := (steps-1-i)*(1000/steps) + 1
		times, sigmas = append(times, float64(t)), append(sigmas, table[t])
	}
	return times, append(sigmas, 0)
}

// drawOracle computes the nets in float64.
type drawOracle struct {
	*weights
	e Diffusion
}

func (e Diffusion) embedded(w *weights, times []int) (all rows) {
	for _, t := range times {
		all = append(all, drawOracle{w, e}.embedded(t))
	}
	return all
}

// embedded is a timestep as the denoiser's blocks take it.
func (o drawOracle) embedded(t int) []float64 {
	waves := make([]float64, drawWaves)
	for i := range drawWaves / 2 {
		angle := float64(t) * math.Exp(-math.Log(10000)*float64(i)/(drawWaves/2))
		waves[i], waves[drawWaves/2+i] = math.Cos(angle), math.Sin(angle)
	}
	return o.linear64(o.linear64(rows{waves}, "time.1").each(silu64), "time.2").each(silu64)[0]
}

// rounded is what a type leaves of numbers.
func (x rows) rounded(t axcl.Type) rows {
	switch t {
	case axcl.BF16:
		return x.each(func(v float64) float64 { return float64(axcl.Float32(axcl.BFloat16(float32(v)))) })
	case axcl.FP16:
		return x.each(func(v float64) float64 { return float64(float16.Fromfloat32(float32(v)).Float32()) })
	}
	return x
}

func (o drawOracle) attention(x, of rows, name string, heads int, sees func(i, j int) bool) rows {
	return o.linear64(attend(o.linear64(x, name+".q"), o.linear64(of, name+".k"), o.linear64(of, name+".v"), heads, sees), name+".out")
}

// prompt are a prompt's states.
func (o drawOracle) prompt(ids []int32) rows {
	words, places := o.get("words"), o.get("places")
	x := newRows(drawIDs, drawWords)
	for i, id := range ids {
		for c := range x[i] {
			x[i][c] = words.row(int(id))[c] + places.row(i)[c]
		}
	}
	y := o.norm64(x, "text.norm1", 1e-5)
	x = x.plus(o.attention(y, y, "text", 2, func(i, j int) bool { return j <= i }))
	y = o.linear64(o.norm64(x, "text.norm2", 1e-5), "text.up").each(func(v float64) float64 { return v * sigmoid64(1.702*v) })
	x = x.plus(o.linear64(y, "text.down"))
	return o.norm64(x, "text.norm3", 1e-5).rounded(o.e.Given).rounded(o.e.States)
}

// group is a norm of groups of channels.
func (o drawOracle) group(x planes, name string, eps float64) planes {
	by, to := o.get(name+".weight").v, o.get(name+".bias").v
	n, each := len(x.v)/4, x.height*x.width
	y := newPlanes(len(x.v), x.height, x.width)
	for g := range 4 {
		v := standard(flat(x.v[g*n:(g+1)*n]), eps)
		for c := range n {
			for i := range each {
				y.v[g*n+c][i] = v[c*each+i]*float64(by[g*n+c]) + float64(to[g*n+c])
			}
		}
	}
	return y
}

func (o drawOracle) conv(x planes, name string, stride int) planes {
	return o.conv2D64(x, name, stride, o.get(name + ".weight").dims[2]/2)
}

func (x planes) silu() planes { return planes{x.v.each(silu64), x.height, x.width} }

func (x planes) plus(y planes) planes { return planes{x.v.plus(y.v), x.height, x.width} }

func (o drawOracle) residual(x planes, time []float64, name string) planes {
	y := o.conv(o.group(x, name+".norm1", 1e-5).silu(), name+".conv1", 1)
	if time != nil {
		for c, v := range o.linear64(rows{time}, name+".time")[0] {
			for i := range y.v[c] {
				y.v[c][i] += v
			}
		}
	}
	y = o.conv(o.group(y, name+".norm2", 1e-5).silu(), name+".conv2", 1)
	if o.has(name + ".skip.weight") {
		x = o.conv(x, name+".skip", 1)
	}
	return x.plus(y)
}

// noise is what the denoiser sees in a latent.
func (o drawOracle) noise(sample rows, time []float64, states rows) rows {
	h, w := o.e.latent()
	x := o.residual(o.conv(planes{sample, h, w}, "unet.in", 1), time, "unet.res1")
	y := o.linear64(o.group(x, "unet.mix.norm", 1e-6).v.turned(), "unet.mix.in")
	z := o.norm64(y, "unet.mix.norm1", 1e-5)
	y = y.plus(o.attention(z, z, "unet.mix.self", 2, nil))
	y = y.plus(o.attention(o.norm64(y, "unet.mix.norm2", 1e-5), states, "unet.mix.cross", 2, nil))
	z = o.linear64(o.norm64(y, "unet.mix.norm3", 1e-5), "unet.mix.up")
	wide := z.columns(0, 4*drawWide)
	for i := range wide {
		for c, v := range z[i][4*drawWide:] {
			wide[i][c] *= gelu64(v)
		}
	}
	y = y.plus(o.linear64(wide, "unet.mix.down"))
	x = x.plus(planes{o.linear64(y, "unet.mix.out").turned(), h, w})
	deep := o.residual(o.conv(x, "unet.down", 2), time, "unet.res2")
	deep = o.conv(deep.doubled(), "unet.up", 1)
	x = o.residual(deep.beside(x), time, "unet.res3")
	return sample.plus(o.conv(o.group(x, "unet.norm", 1e-5).silu(), "unet.out", 1).v)
}

// picture is the decoder's, in bytes.
func (o drawOracle) picture(latent rows) (pix []byte) {
	h, w := o.e.latent()
	x := o.conv(o.conv(planes{latent, h, w}, "vae.post", 1), "vae.in", 1)
	x = o.residual(x, nil, "vae.res1")
	y := o.group(x, "vae.norm1", 1e-6).v.turned()
	x = x.plus(planes{o.attention(y, y, "vae.mid", 1, nil).turned(), h, w})
	for _, name := range []string{"vae.up0", "vae.up1", "vae.up2"} {
		x = o.conv(x.doubled(), name, 1)
	}
	x = o.conv(o.group(x, "vae.norm2", 1e-6).silu(), "vae.out", 1)
	for i := range x.v[0] {
		for c := range 3 {
			pix = append(pix, byte(math.RoundToEven(255*min(max(x.v[c][i]/2+0.5, 0), 1))))
		}
	}
	return pix
}

// seen is the latent of the picture that the drawing begins with.
func (o drawOracle) seen(r Drawn) rows {
	if r.Picture == nil {
		return nil
	}
	width, height := o.e.size()
	x := newPlanes(3, height, width)
	for i, v := range r.Picture {
		x.v[i%3][i/3] = float64(v)/127.5 - 1
	}
	x = o.conv(x, "see.in", 1)
	for _, name := range []string{"see.down0", "see.down1", "see.down2"} {
		x = o.conv(x, name, 2)
	}
	x = o.conv(o.conv(o.group(o.residual(x, nil, "see.res"), "see.norm", 1e-6).silu(), "see.out", 1), "see.quant", 1)
	noise := rowsOf(r.Noise(), o.e.places())
	y := newRows(4, o.e.places())
	for c := range y {
		for i := range y[c] {
			spread := math.Exp(min(max(x.v[4+c][i], -30), 20) / 2)
			y[c][i] = 0.18215 * (x.v[c][i] + spread*noise[c][i])
		}
	}
	return y
}
