package models

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/axmodel"
)

// This file says what a folder is before layers are looked for in it. The kinds themselves are in
// packagekinds.go.

// ErrKind is a package that is whole and of a kind that axle does not run yet. The error's
// [KindError] says which.
var ErrKind = errors.New("models: a package of a kind that axle does not run yet")

// KindError is what [Open] gives, inside an *Error, for a package that is no language model: a
// speech recogniser, a detector.
type KindError struct {
	Kind string // Whisper
	Does string // speech recognition
	Info Info   // what there is to say of it; empty where it was recognised in a listing ([Select])

	files []string
	plan  *plan
	nets  []net
	why   error                             // why another net cannot be read; nil: all could
	open  func(k *KindError) (other, error) // nil: axle does not run it yet

	opened other // where it does
}

// Error is the sentence that is said of the package wherever a model's abilities would stand.
func (e *KindError) Error() string {
	article := "a"
	if strings.ContainsRune("AEIOaeio", rune(e.Kind[0])) {
		article = "an"
	}
	why := "axle does not run it yet"
	if e.open != nil {
		why = "it is no language model"
	}
	return fmt.Sprintf("%s %s package (%s): %s", article, e.Kind, e.Does, why)
}

// Runs reports whether axle runs the kind: [OpenAny] opens the package.
func (e *KindError) Runs() bool { return e.open != nil }

// Is matches [ErrKind], where axle does not run the kind.
func (e *KindError) Is(target error) bool { return target == ErrKind && e.open == nil }

// Limits on what is read to recognise a package: a whole one has few nets that are not copies of
// each other.
const (
	maxNets    = 32
	maxConfigs = 16
)

// evidence is what a package is recognised by: what its configurations say and what tensors its
// nets have. Names of folders say nothing.
type evidence struct {
	p       *plan
	configs []object // the vendor's own one alone, where that names layers
	named   bool     // a configuration names layers
	tried   bool
	list    []net
	broken  error // why one of them cannot be read
}

// net is one .axmodel file with the tensors of all its groups, by the names that the file has.
type net struct {
	name    string
	in, out []axcl.Tensor
}

// recognise says what the package is, where it is no language model: as an *Error around a
// KindError. Where a configuration names layers their tensors are not asked for in a listing: the
// files are read when they have come.
func (p *plan) recognise() error {
	e := &evidence{p: p, named: p.cfg.Template != ""}
	e.readConfigs()
	for _, k := range kinds {
		said := k.says != nil && slices.ContainsFunc(e.configs, k.says)
		if said || k.nets != nil && !e.named && k.nets(e) {
			if k.open != nil && !p.t.listed {
				e.nets() // also of what its configuration says
			}
			ke := &KindError{Kind: k.name, Does: k.does, files: p.everything(), plan: p, nets: e.list, why: e.broken, open: k.open}
			if p.t.listed && k.one != nil {
				if err := k.one(ke); err != nil { // known before gigabytes are fetched
					return err
				}
			}
			return &Error{Path: p.t.label, What: ke.Error(), Err: ke}
		}
	}
	return nil
}

// readConfigs takes in every config.json. One that is none says nothing.
func (e *evidence) readConfigs() {
	t := e.p.t
	if e.named {
		if o, err := e.p.object(e.p.source); err == nil {
			e.configs = append(e.configs, o)
		}
		return
	}
	for _, name := range t.names {
		if path.Base(name) != "config.json" || strings.Count(name, "/") > 3 || len(e.configs) == maxConfigs {
			continue
		}
		if o, err := e.p.object(name); err == nil && o != nil {
			e.configs = append(e.configs, o)
		}
	}
}

// numbered are names that end in a number. Several files may differ in nothing else.
var numbered = regexp.MustCompile(`^(.*_)(\d{1,4})\.axmodel$`)

// nets reads one of each set of files that differ in nothing but a number. What cannot be read is
// passed over: its user says why.
func (e *evidence) nets() []net {
	if e.tried {
		return e.list
	}
	e.tried = true
	t := e.p.t
	seen := map[string]bool{}
	for _, name := range t.names {
		if path.Ext(name) != ".axmodel" || foreign.MatchString(name) || len(e.list) == maxNets {
			continue
		}
		pattern := name
		if m := layerName.FindStringSubmatch(path.Base(name)); m != nil {
			pattern = path.Join(path.Dir(name), m[1]+"_l#"+m[3])
		} else if m := numbered.FindStringSubmatch(path.Base(name)); m != nil {
			pattern = path.Join(path.Dir(name), m[1]+"#")
		}
		if seen[pattern] {
			continue
		}
		f, err := t.openAt(name)
		if err != nil {
			continue
		}
		if m, err := axmodel.Read(f, t.files[name]); err == nil {
			e.list = append(e.list, asNet(name, m))
			seen[pattern] = true
		} else if e.broken == nil {
			e.broken = &Error{Path: t.where(name), What: what(err), Fix: "fetch the file again", Err: ErrMalformed}
		}
		f.Close()
	}
	return e.list
}

func asNet(name string, m *axmodel.Meta) net {
	n := net{name: name}
	for _, g := range m.Groups {
		for i, t := range g.Inputs {
			t.Name = g.RawInputs[i]
			n.in = append(n.in, t)
		}
		for i, t := range g.Outputs {
			t.Name = g.RawOutputs[i]
			n.out = append(n.out, t)
		}
	}
	return n
}

// any says whether a net is so.
func (e *evidence) any(is func(n net) bool) bool { return slices.ContainsFunc(e.nets(), is) }

// takes says whether the net has inputs of these names.
func (n net) takes(names ...string) bool { return hasAll(n.in, names) }

// gives says whether it has outputs of these names.
func (n net) gives(names ...string) bool { return hasAll(n.out, names) }

func hasAll(ts []axcl.Tensor, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(ts, func(t axcl.Tensor) bool { return t.Name == name })
	})
}

// input is an input by its name; the zero Tensor where there is none.
func (n net) input(name string) (t axcl.Tensor) {
	if i := slices.IndexFunc(n.in, func(t axcl.Tensor) bool { return t.Name == name }); i >= 0 {
		t = n.in[i]
	}
	return t
}

// shaped says whether a tensor has these dimensions; −1 stands for any.
func shaped(t axcl.Tensor, dims ...int) bool {
	if len(t.Shape) != len(dims) {
		return false
	}
	for i, d := range dims {
		if d >= 0 && d != t.Shape[i] {
			return false
		}
	}
	return true
}

// elements is how many values a tensor has.
func elements(t axcl.Tensor) int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

func integer(t axcl.Tensor) bool {
	return t.Type == axcl.Int32 || t.Type == axcl.Uint32 || t.Type == axcl.Int64
}

// everything lists what a pull fetches of a package whose files nothing names: all but builds for
// other chips and what is hidden.
func (p *plan) everything() (all []string) {
	for _, name := range p.t.names {
		if !foreign.MatchString(name) && !strings.HasPrefix(name, ".") && !strings.Contains(name, "/.") {
			all = append(all, name)
		}
	}
	return all
}

// describe fills in what there is to say of a package of another kind, whose error err is; any
// other error stays as it is.
func (p *plan) describe(err error, name string) error {
	var k *KindError
	if !errors.As(err, &k) {
		return err
	}
	if p.cfg.ModelName != "" {
		name = p.cfg.ModelName
	}
	dir := ""
	if d, ok := p.t.fsys.(*dirFS); ok {
		dir = d.dir
	}
	k.Info = Info{Name: name, Kind: k.Kind, Says: k.Error(), Architecture: squeeze(k.Kind), Family: squeeze(k.Kind), Path: dir,
		Source: p.source}
	size, digest, derr := identify(p.t, k.files)
	if derr != nil {
		return derr
	}
	k.Info.Size, k.Info.Digest = size, digest
	if k.open == nil {
		return err
	}
	if k.opened, derr = k.open(k); derr != nil {
		return derr
	}
	k.Info = k.opened.Info()
	return err
}

// only is the net that is so: a package has one. what is its use, in errors.
func (k *KindError) only(is func(net) bool, what string) (*net, error) {
	var it *net
	for i := range k.nets {
		switch n := &k.nets[i]; {
		case !is(*n):
		case it != nil:
			return nil, k.twice(n, it)
		default:
			it = n
		}
	}
	if it == nil {
		return nil, k.lacks(what)
	}
	return it, nil
}

func (k *KindError) twice(n, other *net) error {
	return &Error{Path: k.plan.t.where(n.name), What: "is of the same use as " + other.name,
		Fix: "keep the files of one model in the folder", Err: ErrMismatch}
}

// lacks is the error of a package without a net. Where one cannot be read it may be that one.
func (k *KindError) lacks(what string) error {
	if k.why != nil {
		return k.why
	}
	return &Error{Path: k.plan.t.where("."), What: "none of its nets is " + what, Fix: "fetch the whole package", Err: ErrMissing}
}

// file is a net's file as the engine takes it.
func (k *KindError) file(n *net) (NetFile, error) {
	real, _, err := k.plan.t.realPath(n.name)
	return NetFile{real, k.plan.t.files[n.name], n.in, n.out}, err
}

// Net is the path of one of the package's nets, to try a card with; empty where it has none that
// can be read.
func (k *KindError) Net() string {
	if len(k.nets) == 0 {
		return ""
	}
	f, err := k.file(&k.nets[0])
	if err != nil {
		return ""
	}
	return f.Path
}

// tensors are some of them in words.
func tensors(ts []axcl.Tensor) string {
	var parts []string
	for i, t := range ts {
		if i == 3 && len(ts) > 4 {
			parts = append(parts, fmt.Sprintf("%d more", len(ts)-i))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %v %v", t.Name, t.Type, t.Shape))
	}
	return listed(parts, " and ")
}
