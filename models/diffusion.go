package models

import (
	"encoding/binary"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/internal/npy"
	"github.com/axle-llm/axle/tokenizer"
	"github.com/axle-llm/axle/vision/diffusion"
)

// Diffusion is a package that draws: Stable Diffusion 1.5 in one of three packings. Each net's
// tensors are in the order of their use. Its fields are not to be changed. Close it.
type Diffusion struct {
	base
	Name          string
	Text          NetFile // from a prompt's ids to its states
	Denoiser      NetFile // takes a latent, a time and the states of a prompt; gives the noise in the latent
	Decoder       NetFile // from a latent to a picture in planes
	Encoder       NetFile // from a picture to the moments of latents; no path where there is none
	Width, Height int     // of its pictures
	Setting       diffusion.Setting
	Steps         int         // the usual ones
	Rows          [][]float32 // the time as the denoiser takes it, for each of Steps; nil: it takes the timestep itself
	Guided        bool        // the denoiser is asked without the prompt too
	Guidance      float64     // the usual one; 0 where it is not guided
	Tokenizer     *tokenizer.Tokenizer
	Brain         bool // two-byte numbers are bfloat16, and not half floats
}

const (
	// DiffusionMost is the most steps of a package that takes any number.
	DiffusionMost   = 150
	diffusionSides  = 2048     // pixels of a side, at most
	diffusionRows   = 16 << 20 // bytes of a file of times
	diffusionRatio  = 8        // pixels of a side for each of a latent
	diffusionPlanes = 4        // of a latent
)

// latent says whether a tensor is one of planes of such sides; 0 stands for any.
func latent(t axcl.Tensor, planes, height, width int) bool {
	some := func(n int) int {
		if n == 0 {
			return -1
		}
		return n
	}
	return shaped(t, 1, planes, some(height), some(width))
}

// denoises is the denoiser of a latent.
func denoises(n net) bool {
	return latent(n.input("sample"), diffusionPlanes, 0, 0) && shaped(n.input("encoder_hidden_states"), 1, 77, -1)
}

// drawsPictures recognises the kind, also where nothing but builds for another chip is there.
func drawsPictures(e *evidence) bool {
	return e.any(denoises) || len(e.nets()) == 0 && foreignDenoiser(e.p.t) != ""
}

// foreignDenoiser is a denoiser for another chip, by its name; empty: none.
func foreignDenoiser(t *tree) string {
	for _, name := range t.names {
		if path.Base(name) == "unet.axmodel" && foreign.MatchString(name) {
			return name
		}
	}
	return ""
}

// openDiffusion opens the package that was recognised as one.
func openDiffusion(k *KindError) (other, error) {
	t := k.plan.t
	d := &Diffusion{base: base{info: k.Info}, Name: k.Info.Name}
	unet, others, err := k.denoiser(d.Name)
	if err != nil {
		return nil, err
	}
	if err := d.find(k, unet); err != nil {
		return nil, err
	}
	dir := path.Dir(unet.name)
	if err := d.readTimes(t, unet, dir); err != nil {
		return nil, err
	}
	if err := d.readScheduler(k.plan); err != nil {
		return nil, err
	}
	if err := d.readTokenizer(t, dir); err != nil {
		return nil, err
	}
	d.readTypes(k.plan, dir)
	d.describe(others)
	// What tries a card tries the net that the time goes to.
	k.nets = append([]net{*unet}, slices.DeleteFunc(slices.Clone(k.nets), func(n net) bool { return n.name == unet.name })...)
	return d, nil
}

// sizeAtEnd is a name that ends in the size of pictures, but for its tag.
var sizeAtEnd = regexp.MustCompile(`-(\d{2,4}x\d{2,4})(:[^:/]*)?$`)

// denoiser chooses the package's denoiser: of several sizes the one that the model's name ends in,
// else the first. others are the sizes that are not chosen.
func (k *KindError) denoiser(name string) (unet *net, others []string, err error) {
	t := k.plan.t
	type variant struct {
		n    *net
		size string
	}
	var all []variant
	for i := range k.nets {
		n := &k.nets[i]
		if !denoises(*n) {
			continue
		}
		s := n.input("sample").Shape
		v := variant{n, fmt.Sprintf("%dx%d", s[3]*diffusionRatio, s[2]*diffusionRatio)}
		if v.size == "320x320" && path.Base(path.Dir(n.name)) == "models_320x320" {
			continue // the vendor's smaller chip's
		}
		if i := slices.IndexFunc(all, func(w variant) bool { return w.size == v.size }); i >= 0 {
			return nil, nil, k.twice(n, all[i].n)
		}
		all = append(all, v)
	}
	if len(all) == 0 {
		for _, n := range k.nets {
			if denoises(n) {
				return nil, nil, k.otherChip(n.name)
			}
		}
		if other := foreignDenoiser(t); other != "" {
			return nil, nil, k.otherChip(other)
		}
		return nil, nil, k.lacks("a denoiser")
	}
	chosen := 0
	if m := sizeAtEnd.FindStringSubmatch(name); m != nil {
		if i := slices.IndexFunc(all, func(v variant) bool { return v.size == m[1] }); i >= 0 {
			chosen = i
		}
	}
	for i, v := range all {
		if i != chosen {
			others = append(others, v.size)
		}
	}
	return all[chosen].n, others, nil
}

func (k *KindError) otherChip(name string) error {
	return &Error{Path: k.plan.t.where(name), What: "is built for the AX620E, which has another processor than this card",
		Fix: "take the package's build for the AX650", Err: ErrMismatch}
}

// find notes the tensors of the denoiser, and the nets that belong to it: those nearest to it.
func (d *Diffusion) find(k *KindError, unet *net) (err error) {
	t := k.plan.t
	bad := func(n *net, format string, a ...any) error {
		return &Error{Path: t.where(n.name), What: fmt.Sprintf(format, a...), Fix: "take another build of the package", Err: ErrMismatch}
	}
	sample, states := unet.input("sample"), unet.input("encoder_hidden_states")
	h, w := sample.Shape[2], sample.Shape[3]
	d.Width, d.Height = w*diffusionRatio, h*diffusionRatio
	switch {
	case h*w*diffusionPlanes < 16 || d.Width > diffusionSides || d.Height > diffusionSides:
		return bad(unet, "draws %d×%d pixels: up to %d×%d are known", d.Width, d.Height, diffusionSides, diffusionSides)
	case len(unet.in) != 3:
		return bad(unet, "has %d inputs: a latent, a time and a prompt's states are expected", len(unet.in))
	case len(unet.out) == 0 || !latent(unet.out[0], diffusionPlanes, h, w):
		return bad(unet, "gives %s: noise of %v is expected", tensors(unet.out), sample.Shape)
	}
	time := unet.in[slices.IndexFunc(unet.in, func(t axcl.Tensor) bool { return t.Name != sample.Name && t.Name != states.Name })]
	if !integer(time) && !shaped(time, 1, -1) || integer(time) && elements(time) != 1 {
		return bad(unet, "takes %s: a timestep or its embedding is expected", tensors([]axcl.Tensor{time}))
	}
	length := states.Shape[1]
	parts := []struct {
		to       *NetFile
		what     string
		in, out  func(t axcl.Tensor) bool
		optional bool
	}{
		{&d.Text, "encoder of prompts", func(t axcl.Tensor) bool { return integer(t) && shaped(t, 1, length) },
			func(t axcl.Tensor) bool { return slices.Equal(t.Shape, states.Shape) }, false},
		{&d.Decoder, "decoder of latents", func(t axcl.Tensor) bool { return latent(t, diffusionPlanes, h, w) },
			func(t axcl.Tensor) bool { return latent(t, 3, d.Height, d.Width) }, false},
		{&d.Encoder, "encoder of pictures", func(t axcl.Tensor) bool { return latent(t, 3, d.Height, d.Width) },
			func(t axcl.Tensor) bool { return latent(t, 2*diffusionPlanes, h, w) }, true},
	}
	for _, p := range parts {
		var it *net
		for i := range k.nets {
			n := &k.nets[i]
			if len(n.in) != 1 || !p.in(n.in[0]) || !slices.ContainsFunc(n.out, p.out) {
				continue
			}
			if it == nil || apart(unet.name, n.name) < apart(unet.name, it.name) {
				it = n
			} else if apart(unet.name, n.name) == apart(unet.name, it.name) {
				return k.twice(n, it)
			}
		}
		if it == nil {
			if p.optional {
				continue
			}
			return k.lacks(fmt.Sprintf("the %s for pictures of %d×%d pixels", p.what, d.Width, d.Height))
		}
		if *p.to, err = k.file(it); err != nil {
			return err
		}
		p.to.Out = []axcl.Tensor{it.out[slices.IndexFunc(it.out, p.out)]}
	}
	if d.Denoiser, err = k.file(unet); err != nil {
		return err
	}
	d.Denoiser.In, d.Denoiser.Out = []axcl.Tensor{sample, time, states}, unet.out[:1]
	for _, f := range d.Files() {
		for _, x := range slices.Concat(f.In, f.Out) {
			if n := elements(x); !integer(x) && x.Size != 4*n && x.Size != 2*n {
				return &Error{Path: f.Path, What: fmt.Sprintf("%s has %d bytes for %d numbers: two or four each are known", x.Name,
					x.Size, n), Fix: "take another build of the package", Err: ErrMismatch}
			}
		}
	}
	return nil
}

// apart is how many folders lie between two files.
func apart(a, b string) int {
	x, y := folders(a), folders(b)
	same := 0
	for same < len(x) && same < len(y) && x[same] == y[same] {
		same++
	}
	return len(x) + len(y) - 2*same
}

// folders are those that a file lies in; none: it lies beside the configuration.
func folders(name string) []string {
	if dir := path.Dir(name); dir != "." {
		return strings.Split(dir, "/")
	}
	return nil
}

// nearest is the file of such a name that lies nearest to a folder; empty: none.
func nearest(t *tree, dir string, fits func(base string) bool) (at string) {
	for _, n := range t.names {
		if fits(path.Base(n)) && !foreign.MatchString(n) && (at == "" || apart(dir+"/x", n) < apart(dir+"/x", at)) {
			at = n
		}
	}
	return at
}

// Files are the package's nets, in the order in which they are loaded.
func (d *Diffusion) Files() []NetFile {
	files := []NetFile{d.Text, d.Denoiser, d.Decoder}
	if d.Encoder.Path != "" {
		files = append(files, d.Encoder)
	}
	return files
}

// readTimes reads what the denoiser is told of each step's time, where it is made for fixed steps.
// The file's name tells the method.
func (d *Diffusion) readTimes(t *tree, unet *net, dir string) error {
	if integer(d.Denoiser.In[1]) {
		d.Setting.Method, d.Steps, d.Guided, d.Guidance = diffusion.Euler, 30, true, 7.5
		return nil
	}
	times := func(base string, has string) bool {
		return path.Ext(base) == ".npy" && strings.Contains(strings.ToLower(base), has)
	}
	at := nearest(t, dir, func(base string) bool { return times(base, "dpmpp") })
	d.Setting.Method, d.Guided, d.Guidance = diffusion.DPM, true, 7
	if lcm := nearest(t, dir, func(base string) bool { return times(base, "time_input_txt2img") }); at == "" ||
		lcm != "" && apart(dir+"/x", lcm) < apart(dir+"/x", at) {
		at = lcm
		d.Setting.Method, d.Guided, d.Guidance = diffusion.LCM, false, 0
	}
	if at == "" {
		return t.missing(path.Join(dir, "time_input_txt2img.npy"), "fetch the whole package: the denoiser "+unet.name+
			" takes the embeddings of its steps' times")
	}
	bad := func(format string, a ...any) error {
		return &Error{Path: t.where(at), What: fmt.Sprintf(format, a...), Fix: "fetch the file again", Err: ErrMismatch}
	}
	if err := t.checkPointer(at); err != nil {
		return err
	}
	f, err := t.openAt(at)
	if err != nil {
		return err
	}
	defer f.Close()
	a, err := npy.Read(f, diffusionRows)
	width := elements(d.Denoiser.In[1])
	switch {
	case err != nil:
		return bad("%s", strings.TrimPrefix(err.Error(), "npy: "))
	case a.Type != "<f4" || len(a.Dims) != 2 || a.Dims[1] != width:
		return bad("has %v numbers of %s: rows of %d of <f4 are expected", a.Dims, a.Type, width)
	}
	least := 1
	if d.Setting.Method == diffusion.DPM {
		least = 2
	}
	if n := a.Dims[0]; n < least || n > d.Setting.Most() {
		return bad("has %d rows: %v takes %d to %d", n, d.Setting.Method, least, d.Setting.Most())
	}
	d.Steps = a.Dims[0]
	for i := range d.Steps {
		row, sum := make([]float32, width), 0.0
		for c := range row {
			row[c] = math.Float32frombits(binary.LittleEndian.Uint32(a.Data[4*(i*width+c):]))
			sum += float64(row[c])
		}
		if math.IsNaN(sum) || math.IsInf(sum, 0) {
			return bad("row %d holds a NaN or an infinity", i)
		}
		d.Rows = append(d.Rows, row)
		// The one package whose rows are known: rows of other weights would draw mosaics.
		known := map[int]float64{0: 19.93497, 3: 3.86755}
		if want, ok := known[i]; ok && strings.Contains(d.Name, "lcm-lora-sdv1-5") && width == 1280 && math.Abs(sum-want) > 1e-3 {
			return bad("row %d sums up to %.5f, that of lcm-lora-sdv1-5 to %.5f", i, sum, want)
		}
	}
	return nil
}

// readScheduler reads how Euler's steps lie, as diffusers writes it down.
func (d *Diffusion) readScheduler(p *plan) error {
	at := p.t.named("scheduler_config.json")
	if d.Setting.Method != diffusion.Euler || at == "" {
		return nil
	}
	o, err := p.object(at)
	if err != nil {
		return err
	}
	bad := func(key string, v any, want string) error {
		return &Error{Path: p.t.where(at), What: fmt.Sprintf("%s is %v: axle draws with %s", key, v, want),
			Fix: "take a package of Stable Diffusion 1.5", Err: ErrMismatch}
	}
	for key, want := range map[string]string{"beta_schedule": "scaled_linear", "prediction_type": "epsilon"} {
		if v := o.str(key); v != "" && v != want {
			return bad(key, v, want)
		}
	}
	for key, want := range map[string]float64{"beta_start": 0.00085, "beta_end": 0.012, "num_train_timesteps": diffusion.Trained} {
		if v := o.float(key); v != nil && math.Abs(*v-want) > 1e-9 {
			return bad(key, *v, fmt.Sprint(want))
		}
	}
	switch s := diffusion.Spacing(o.str("timestep_spacing")); s {
	case "", diffusion.Linspace, diffusion.Leading, diffusion.Trailing:
		d.Setting.Spacing = s
	default:
		return bad("timestep_spacing", s, "linspace, leading and trailing")
	}
	if n, ok, err := o.num(0, 20, "steps_offset"); err != nil {
		return p.bad(at, "%v", err)
	} else if ok {
		d.Setting.Offset = int(n)
	}
	if f := o.flag("use_karras_sigmas"); f != nil {
		d.Setting.Karras = *f
	}
	return nil
}

// readTokenizer reads CLIP's vocabulary and merges, the nearest to the denoiser.
func (d *Diffusion) readTokenizer(t *tree, dir string) (err error) {
	at := nearest(t, dir, func(base string) bool { return base == "vocab.json" })
	if at == "" {
		at = nearest(t, dir, func(base string) bool { return base == "tokenizer.json" })
	}
	if at == "" {
		return t.missing(path.Join(dir, "tokenizer/vocab.json"), "fetch the whole package")
	}
	if err := t.checkPointer(at); err != nil {
		return err
	}
	if d.Tokenizer, err = tokenizer.OpenFS(t.fsys, at); err != nil {
		return &Error{Path: t.where(at), What: strings.TrimPrefix(err.Error(), "tokenizer: "), Fix: "fetch the package again",
			Err: ErrMalformed}
	}
	if len(d.Tokenizer.Prefix()) != 1 || len(d.Tokenizer.Suffix()) != 1 {
		return &Error{Path: t.where(at), What: "does not put one id before a text and one behind it, as CLIP's tokenizer does",
			Fix: "fetch the package again", Err: ErrMismatch}
	}
	return nil
}

// readTypes reads which two-byte numbers the nets take, which a tensor's size does not tell.
func (d *Diffusion) readTypes(p *plan, dir string) {
	d.Brain = d.Text.Out[0].Type == axcl.BF16
	for _, name := range p.t.names {
		if path.Base(name) != "config.json" || path.Base(path.Dir(name)) != "text_encoder" || apart(dir+"/x", name) > 2 {
			continue
		}
		if o, err := p.object(name); err == nil && o.str("torch_dtype") != "" {
			d.Brain = o.str("torch_dtype") == "bfloat16"
		}
	}
}

// describe says what is known. others are the sizes that the package has too.
func (d *Diffusion) describe(others []string) {
	i := &d.info
	i.Says, i.Capabilities = "", []string{"image"}
	steps := fmt.Sprintf("%d steps", d.Steps)
	if d.Rows == nil {
		steps = fmt.Sprintf("1 to %d steps", DiffusionMost)
	}
	i.Groups = []string{fmt.Sprintf("pictures of %d×%d pixels, %v, %s", d.Width, d.Height, d.Setting.Method, steps)}
	for _, size := range others {
		i.Groups = append(i.Groups, fmt.Sprintf("%s pixels too, under a name that ends in -%s", strings.Replace(size, "x", "×", 1), size))
	}
	var sizes []int64
	var buffers []axcl.Tensor
	for _, f := range d.Files() {
		sizes, buffers = append(sizes, f.Size), append(buffers, slices.Concat(f.In, f.Out)...)
	}
	states := d.Denoiser.In[2] // two prompts' stay on the card, and a latent
	d.memory(sizes, append(buffers, states, states, d.Denoiser.In[0])...)
}
