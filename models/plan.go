package models

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/axle-llm/axle/axmodel"
)

// plan says which files of a tree make the model and what its configuration is. Only small text
// files are read to make one, so that a hub can make it from a listing and fetch nothing that this
// machine does not need. The file is long because vendors lay packages out in many ways, and each
// method finds one kind of file in all of them.
type plan struct {
	t        *tree
	layout   string
	base     string // folder of the configuration
	source   string // file the configuration was read from; empty when all was inferred
	cfg      Config
	facts    facts
	template string
	layers   []string
	whole    bool // layout I: layers are whole decoders, the one for tokens first
	head     string
	embed    string
	table    string // of a head that is not the embedding table; mostly there is none

	tokenizer     string // a file or a folder
	tokenizerType string
	family        string
	chatTemplate  string // a .jinja file or a tokenizer_config.json, or empty: a built-in one
	postConfig    string
	genConfig     string
	encoders      []string
	perLayer      [3]string // Gemma-4: table, projection and norm of layer inputs; empty without
	visionErr     error     // why the encoder cannot be used, though text can be read
	extra         []string  // further files read while planning
	notes         []string
}

func (p *plan) note(format string, a ...any) { p.notes = append(p.notes, fmt.Sprintf(format, a...)) }

func (p *plan) bad(name, format string, a ...any) *Error {
	return &Error{Path: p.t.where(name), What: fmt.Sprintf(format, a...), Err: ErrMalformed}
}

func makePlan(t *tree) (*plan, error) {
	p := &plan{t: t, base: "."}
	//rule:G24 TestKinds$ p.recognise, p.language => p.language
	for _, step := range []func() error{p.configure, p.recognise, p.language} {
		if err := step(); err != nil {
			return p, err // as far as it went
		}
	}
	return p, nil
}

// language finds the files of a language model.
func (p *plan) language() error {
	for _, step := range []func() error{p.findLayers, p.findHead, p.findEmbed, p.findTable, p.findFacts, p.findFamily, p.findTokenizer,
		p.findRest} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// foreign recognises builds for other chips of the vendor, which this project's cards cannot run.
var foreign = regexp.MustCompile(`(?i)ax[-_]?(615|620|630|637)`)

// configure finds the configuration, and with it the layout.
func (p *plan) configure() error {
	var configs, modes, scripts []string
	for _, name := range p.t.names {
		file, deep := path.Base(name), strings.Count(name, "/")
		switch {
		case file == "config.json" && deep <= 3:
			configs = append(configs, name)
		case strings.HasPrefix(file, "mode_") && strings.HasSuffix(file, ".json") && deep <= 2:
			modes = append(modes, name)
		case strings.HasSuffix(file, ".sh") && deep <= 2:
			scripts = append(scripts, name)
		}
	}
	shallow := func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "/"), strings.Count(b, "/")), cmp.Compare(a, b))
	}
	slices.SortFunc(configs, shallow)
	slices.SortFunc(modes, shallow)
	empty := ""
	var bad error // a file called config.json somewhere below that is none: it matters only if nothing else describes the model
	for i, name := range configs {
		o, err := p.object(name)
		if err != nil && path.Dir(name) == "." {
			return err
		}
		if err != nil {
			bad = cmp.Or(bad, err)
			continue
		}
		if o == nil && path.Dir(name) == "." {
			empty = name
		}
		if !o.vendor() {
			continue
		}
		p.layout = "A"
		if dir := path.Dir(name); dir != "." {
			p.layout = "B"
			if up := path.Base(path.Dir(dir)); up == "vlm" || up == "llm" {
				p.layout = "D"
			}
		}
		if err := p.take(name, o); err != nil {
			return err
		}
		for _, other := range configs[i+1:] {
			if o, err := p.object(other); err == nil && o.vendor() {
				p.note("%s also describes a model; %s is used", other, name)
			}
		}
		return nil
	}
	for _, name := range modes {
		o, err := p.object(name)
		if err != nil {
			return err
		}
		if o = o.sub("mode_param"); o.vendor() {
			p.layout = "F"
			return p.take(name, o)
		}
	}
	if name, o := p.bestScript(scripts); name != "" {
		p.layout = "E"
		p.base = path.Dir(name)
		if empty != "" {
			p.note("%s is empty: the configuration is read from %s", empty, name)
		} else {
			p.note("there is no config.json: the configuration is read from %s", name)
		}
		return p.take(name, o)
	}
	if bad != nil {
		return bad
	}
	if empty != "" {
		p.note("%s is empty: everything is inferred from file names and tensor shapes", empty)
	} else {
		p.note("there is no configuration: everything is inferred from file names and tensor shapes")
	}
	return nil
}

// object reads a JSON file; an empty file is a nil object.
func (p *plan) object(name string) (object, error) {
	data, err := p.t.read(name, maxJSON)
	if err != nil {
		return nil, err
	}
	if len(strings.TrimSpace(string(data))) == 0 {
		return nil, nil
	}
	o, err := parseObject(data)
	if err != nil {
		return nil, p.bad(name, "not a JSON object: %v", err)
	}
	return o, nil
}

func (p *plan) take(name string, o object) error {
	cfg, err := parseConfig(o)
	if err != nil {
		return p.bad(name, "%v", err)
	}
	p.cfg, p.source = cfg, name
	p.base = path.Dir(name)
	p.facts = parseFacts(o)
	p.extra = append(p.extra, name)
	if cfg.PrefillTemplate != "" {
		p.layout = "H"
	}
	return nil
}

// bestScript picks, of several run scripts, the one for this machine: AXCL before on-board, this
// processor before others, this chip always; and of several builds of the weights the one that is
// closest to the original.
func (p *plan) bestScript(names []string) (string, object) {
	arch := map[string]string{"amd64": "x86", "arm64": "aarch64"}[runtime.GOARCH]
	best, bestScore := "", -1000
	var flags object
	others := map[string]string{} // layer template to a script that names it
	for _, name := range names {
		data, err := p.t.read(name, maxScript)
		if err != nil {
			continue
		}
		o := parseScript(string(data))
		if o == nil {
			continue
		}
		score := -2 * strings.Count(name, "/")
		if strings.Contains(path.Base(name), "video") { // of two that differ in what they show
			score--
		}
		if strings.Contains(name, "axcl") {
			score += 8
		}
		if arch != "" && strings.Contains(name, arch) {
			score += 2
		}
		if strings.Contains(strings.ToLower(name), "int4") {
			score--
		}
		if foreign.MatchString(name + o.str("template_filename_axmodel")) {
			score -= 100
		}
		others[path.Join(path.Dir(name), o.str("template_filename_axmodel"))] = name
		if score > bestScore {
			best, bestScore, flags = name, score, o
		}
	}
	for _, template := range slices.Sorted(maps.Keys(others)) {
		name := others[template]
		if template != path.Join(path.Dir(best), flags.str("template_filename_axmodel")) && !foreign.MatchString(name+template) {
			p.note("%s describes another build of the weights, %s, which is not used", name, template)
		}
	}
	return best, flags
}

var layerName = regexp.MustCompile(`^(?:(.*)_)?l(\d{1,4})((?:_[A-Za-z0-9_]+)?)\.axmodel$`)

// findLayers lists the layer files, from the template where there is one, else from names that
// differ in nothing but a number.
func (p *plan) findLayers() error {
	if p.cfg.Template == "" {
		if err := p.inferTemplate(); err != nil {
			if p.findDecoder() {
				return nil
			}
			return err
		}
	}
	var err error
	if p.template, p.layers, err = p.expand(p.cfg.Template, p.cfg.Layers); err != nil {
		return err
	}
	switch {
	case p.layout == "A" && p.source != "" && path.Dir(p.template) != p.base:
		p.layout = "C"
	case p.layout == "" && path.Dir(p.template) != ".":
		p.layout = "C"
	case p.layout == "":
		p.layout = "A"
	}
	if p.layout == "A" && !strings.Contains(p.template, "_together") && !regexp.MustCompile(`_p\d+_l%d`).MatchString(p.template) {
		p.layout = "G"
	}
	for _, name := range p.layers {
		if err := p.t.checkPointer(name); err != nil {
			return err
		}
	}
	return nil
}

// layerVerb is what a layer template may hold beside text.
var layerVerb = regexp.MustCompile(`%%|%([0-]{0,2})([1-9]\d?)?[diu]|%`)

// LayerFile is the name that a layer template gives layer i, as printf would: one %d, %i or %u,
// with the flags 0 and - and a width of 32 at the most, and %% for a percent sign. ok is false for
// any other template.
func LayerFile(template string, i int) (name string, ok bool) {
	numbers, bad := 0, false
	name = layerVerb.ReplaceAllStringFunc(template, func(verb string) string {
		if verb == "%%" {
			return "%"
		}
		m := layerVerb.FindStringSubmatch(verb)
		width, err := strconv.Atoi(cmp.Or(m[2], "0"))
		if len(verb) < 2 || err != nil || width > 32 {
			bad = true
			return verb
		}
		numbers++
		return fmt.Sprintf("%"+m[1]+m[2]+"d", i)
	})
	return name, numbers == 1 && !bad && strings.Contains(strings.ReplaceAll(path.Base(template), "%%", ""), "%")
}

// expand turns a template into the names of n layers, or of as many as there are when n is 0.
func (p *plan) expand(template string, n int) (string, []string, error) {
	where := p.source
	first, ok := LayerFile(template, 0)
	if !ok {
		return "", nil, p.bad(where, "the layer template %.200q must hold one %%d (or %%i, %%u, with 0 or - and a width up to 32), "+
			"and no other %% than %%%%", template)
	}
	found, _, err := p.t.resolve(p.base, first)
	if err != nil {
		return "", nil, err
	}
	name := path.Join(path.Dir(found), layerVerb.ReplaceAllStringFunc(path.Base(template), func(verb string) string {
		return map[bool]string{true: "%", false: "%d"}[verb == "%%"]
	}))
	at := func(i int) string {
		file, _ := LayerFile(template, i)
		return path.Join(path.Dir(found), path.Base(file))
	}
	there := 0
	for there < maxLayers && p.t.has(at(there)) {
		there++
	}
	if n == 0 {
		n = there
		if n == 0 {
			return "", nil, p.t.missing(at(0), "")
		}
		p.note("axmodel_num is not given: %d layers by file names", n)
	}
	if there < n {
		e := p.t.missing(at(there), fmt.Sprintf("%d of %d layers are there; fetch the others, e.g. with `axle pull`", p.count(at, n), n))
		return "", nil, e
	}
	if there > n {
		p.note("axmodel_num is %d, but there are %d layer files: the first %d are used", n, there, n)
	}
	layers := make([]string, n)
	for i := range layers {
		layers[i] = at(i)
	}
	return name, layers, nil
}

func (p *plan) count(at func(int) string, n int) (there int) {
	for i := range n {
		if p.t.has(at(i)) {
			there++
		}
	}
	return there
}

// inferTemplate groups files that look like layers and picks a group.
func (p *plan) inferTemplate() error {
	type group struct {
		template string
		indices  map[int]bool
		n        int // consecutive from 0
	}
	groups := map[string]*group{}
	for _, name := range p.t.names {
		m := layerName.FindStringSubmatch(path.Base(name))
		if m == nil {
			continue
		}
		i, err := strconv.Atoi(m[2])
		if err != nil || i >= maxLayers {
			continue
		}
		prefix := m[1]
		if prefix != "" {
			prefix += "_"
		}
		key := path.Join(path.Dir(name), prefix+"l%d"+m[3]+".axmodel")
		if strings.Count(key, "%") != 1 {
			continue
		}
		if groups[key] == nil {
			groups[key] = &group{template: key, indices: map[int]bool{}}
		}
		groups[key].indices[i] = true
	}
	var list []*group
	alone := "" // layers by their name only
	for _, g := range groups {
		for g.indices[g.n] {
			g.n++
		}
		if !p.belongs(g.template) {
			alone = max(alone, g.template)
			continue
		}
		list = append(list, g)
	}
	if len(list) == 0 {
		return p.noLayers(alone)
	}
	abroad := func(g *group) int {
		if foreign.MatchString(g.template) {
			return 1
		}
		return 0
	}
	slices.SortFunc(list, func(a, b *group) int {
		return cmp.Or(abroad(a)-abroad(b), b.n-a.n, cmp.Compare(a.template, b.template))
	})
	g := list[0]
	if most := slices.Max(slices.Collect(maps.Keys(g.indices))); most >= g.n && p.cfg.Layers == 0 {
		missing := strings.Replace(g.template, "%d", strconv.Itoa(g.n), 1)
		return p.t.missing(missing, fmt.Sprintf("layer %d is there but not this one; fetch it, e.g. with `axle pull`", most))
	}
	p.cfg.Template = g.template
	p.base = "."
	p.note("layers are %s, by file names", g.template)
	for _, other := range list[1:] {
		if abroad(other) == 0 {
			p.note("%s is another set of layers, not used", other.template)
		}
	}
	return nil
}

// belongs says whether a head or a table of embeddings lies beside the files of a template, or
// above: else they are layers by their name only.
func (p *plan) belongs(template string) bool {
	for _, dir := range []string{path.Dir(template), "."} {
		for _, name := range p.t.in(dir) {
			file := path.Base(name)
			if strings.HasSuffix(file, "post.axmodel") || isTable(file) {
				return true
			}
		}
	}
	return false
}

// noLayers says why a folder is not a package as precisely as its content allows. alone is the
// template of files that have the names of layers, and neither head nor table beside them.
func (p *plan) noLayers(alone string) error {
	e := &Error{Path: p.t.where("."), What: "no layer files (…l0….axmodel) and no configuration that names any",
		Fix: "name a folder that holds an .axmodel package", Err: ErrNotPackage}
	for _, name := range p.t.names {
		if path.Ext(name) == ".axmodel" {
			if err := p.t.checkPointer(name); err != nil {
				return err
			}
		}
	}
	if ev := (&evidence{p: p}); len(ev.nets()) > 0 {
		n := ev.nets()[0]
		e.What += fmt.Sprintf("; of no other kind that axle knows: %s takes %s and gives %s", n.name, tensors(n.in), tensors(n.out))
	}
	if alone != "" {
		e.What += fmt.Sprintf("; %s are layers by their name only: neither a head (…_post.axmodel) nor a table of embeddings is with them",
			strings.Replace(alone, "%d", "*", 1))
		e.Fix = "fetch the model whole, e.g. with `axle pull`"
	}
	for _, name := range p.t.names {
		switch ext := path.Ext(name); ext {
		case ".gguf":
			e.What = "holds GGUF files, which this chip cannot run"
			e.Fix = "pull a compiled package of the same model; `axle pull --list` lists the catalogue"
			return e
		case ".safetensors":
			e.What = "holds a checkpoint (safetensors), not compiled .axmodel files"
			e.Fix = "`axle compile` makes a package for the software card from it"
		}
	}
	for name, why := range p.t.broken {
		if strings.HasSuffix(name, ".axmodel") {
			e.What += fmt.Sprintf("; %s cannot be followed: %s", name, why)
			break
		}
	}
	return e
}

// named finds a file that the configuration names.
func (p *plan) named(file string, to *string) error {
	name, found, err := p.t.resolve(p.base, file)
	if err != nil {
		return err
	}
	if !found || !p.t.has(name) {
		return p.t.missing(name, "")
	}
	*to = name
	return p.t.checkPointer(name)
}

func (p *plan) findHead() error {
	if p.whole {
		return nil
	}
	if p.cfg.Head != "" {
		return p.named(p.cfg.Head, &p.head)
	}
	dir := path.Dir(p.template)
	prefix, _, _ := strings.Cut(path.Base(p.template), "l%d")
	prefix = regexp.MustCompile(`_p\d+_$`).ReplaceAllString(prefix, "_")
	found := slices.DeleteFunc(p.t.in(dir), func(name string) bool {
		return !strings.HasSuffix(name, "_post.axmodel") && path.Base(name) != "post.axmodel"
	})
	if i := slices.Index(found, path.Join(dir, prefix+"post.axmodel")); i > 0 {
		found[0], found[i] = found[i], found[0]
	}
	if len(found) == 0 {
		return p.t.missing(path.Join(dir, prefix+"post.axmodel"),
			"the head (…_post.axmodel) belongs beside the layers; fetch it, e.g. with `axle pull`")
	}
	p.head = found[0]
	p.note("the head is %s, by file names", p.head)
	return p.t.checkPointer(p.head)
}

// findTable finds the table of a head that is not the embedding table.
func (p *plan) findTable() error {
	for _, name := range p.t.in(path.Dir(p.embed)) {
		if path.Base(name) == axmodel.HeadTable {
			p.table = name
			return p.t.checkPointer(name)
		}
	}
	return nil
}

func (p *plan) findEmbed() error {
	if p.cfg.Embed != "" {
		return p.named(p.cfg.Embed, &p.embed)
	}
	for _, dir := range []string{path.Dir(p.template), p.base, "."} {
		for _, name := range p.t.in(dir) {
			if isTable(path.Base(name)) {
				p.embed = name
				p.note("the embedding table is %s, by file names", name)
				return p.t.checkPointer(name)
			}
		}
	}
	return p.t.missing(path.Join(path.Dir(p.template), "model.embed_tokens.weight.bfloat16.bin"), "")
}

// isTable says whether a file is a table of embeddings, by its name.
func isTable(file string) bool {
	file = strings.ToLower(file)
	ext := path.Ext(file)
	return strings.Contains(file, "embed") && (ext == ".bin" || ext == ".npy") && !strings.Contains(file, "per_layer") &&
		!strings.Contains(file, "vision") && !strings.Contains(file, "speech") && !strings.Contains(file, "llm_embedding")
}

// findFacts reads what Hugging Face's config.json knows, beside the vendor's or in a tokenizer
// folder.
func (p *plan) findFacts() error {
	dirs := []string{path.Dir(p.template), p.base, "."}
	for _, name := range p.t.names {
		if path.Base(name) != "config.json" || name == p.source {
			continue
		}
		dir := path.Dir(name)
		tok := p.t.has(path.Join(dir, "tokenizer_config.json")) || p.t.has(path.Join(dir, "tokenizer.json"))
		if !slices.Contains(dirs, dir) && (!tok || !p.related(dir)) {
			continue
		}
		o, err := p.object(name)
		if err != nil {
			return err
		}
		if o == nil || o.vendor() {
			continue
		}
		f := parseFacts(o)
		if f.modelType == "" && f.vocab == 0 {
			continue
		}
		if p.facts.modelType == "" {
			stop := p.facts.eos
			p.facts = f
			if stop != nil {
				p.facts.eos = stop
			}
		}
		if err := p.cfg.mixed(o); err != nil {
			return p.bad(name, "%v", err)
		}
		p.extra = append(p.extra, name)
	}
	return nil
}

// related keeps the tokenizer folders of other models that legacy repositories carry (a Qwen2.5 one
// beside Qwen3 layers) out of the guess.
func (p *plan) related(dir string) bool {
	family, own := familyOf(path.Base(dir)), familyOf(path.Base(p.template))
	return family == "" || family == own || generic(own) || path.Dir(p.template) == dir
}

func (p *plan) findRest() error {
	for i, file := range []string{p.cfg.PerLayer, p.cfg.PerLayerProject, p.cfg.PerLayerNorm} {
		if file == "" {
			continue
		}
		if err := p.named(file, &p.perLayer[i]); err != nil {
			return err
		}
		p.extra = append(p.extra, p.perLayer[i])
	}
	if p.cfg.PostConfig != "" {
		name, found, err := p.t.resolve(p.base, p.cfg.PostConfig)
		if err != nil {
			return err
		}
		if found && p.t.has(name) {
			p.postConfig = name
		} else {
			p.note("post_config_path names %s, which is not there: sampling defaults come from elsewhere", name)
		}
	}
	tok := p.tokenizer
	if p.t.has(tok) {
		tok = path.Dir(tok)
	}
	for _, dir := range []string{p.base, path.Dir(p.template), tok, "."} {
		if name := path.Join(dir, "post_config.json"); p.postConfig == "" && p.t.has(name) {
			p.postConfig = name
		}
		if name := path.Join(dir, "generation_config.json"); p.genConfig == "" && p.t.has(name) {
			p.genConfig = name
		}
		if name := path.Join(dir, "1_Pooling/config.json"); p.facts.pooling == "" && p.t.has(name) {
			o, err := p.object(name)
			if err != nil {
				return err
			}
			p.facts.pooling = poolingOf(o)
			p.extra = append(p.extra, name)
		}
	}
	p.findAdapters()
	return p.findEncoder()
}
