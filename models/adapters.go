package models

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/axle-llm/axle/axmodel"
)

// Adapter is a LoRA adapter of a package whose layers take one as inputs. Its values stay in its
// files, which are checked when they are read.
type Adapter struct {
	Name   string
	Rank   int
	Digest string // of its manifest, and so of its files, in hex

	pkg    *Package
	folder string
	order  []int // of the layers' inputs, where each lies in a file
	files  []adapterFile
}

type adapterFile struct {
	name string
	sum  [sha256.Size]byte
}

const (
	maxAdapters    = 64
	maxAdapterName = 64
)

// adapterName is a folder's name that can be a model's tag, or a part of one.
var adapterName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)

// adapterFolders are the folders that hold an adapter each, by their names.
func (p *plan) adapterFolders() (all []string) {
	for _, name := range p.t.names {
		dir := path.Dir(name)
		if path.Base(name) == "manifest.json" && path.Base(path.Dir(dir)) == "lora" && strings.Count(name, "/") <= 4 {
			all = append(all, dir)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	return all
}

// findAdapters counts what belongs to adapters as files of the package.
func (p *plan) findAdapters() {
	for _, dir := range p.adapterFolders() {
		p.extra = append(p.extra, p.t.in(dir)...)
	}
}

// readAdapters reads the manifests.
func (pkg *Package) readAdapters() error {
	p := pkg.p
	dirs := p.adapterFolders()
	if len(dirs) > maxAdapters {
		return &Error{Path: p.t.where(path.Dir(dirs[0])), What: fmt.Sprintf("has %d adapters, limit %d", len(dirs), maxAdapters),
			Err: ErrMalformed}
	}
	if pkg.Shape.Adapter == nil {
		if len(dirs) > 0 {
			p.note("the adapters in %s are not used: the layers take none", path.Dir(dirs[0]))
		}
		return nil
	}
	for _, dir := range dirs {
		a, err := pkg.readAdapter(dir)
		if err != nil {
			return &Error{Path: p.t.where(path.Join(dir, "manifest.json")), What: err.Error(), Fix: "take the adapter of the same build",
				Err: ErrMalformed}
		}
		if slices.ContainsFunc(pkg.Adapters, func(b *Adapter) bool { return strings.EqualFold(a.Name, b.Name) }) {
			return &Error{Path: p.t.where(dir), What: "is the second adapter called " + a.Name, Err: ErrMismatch}
		}
		pkg.Adapters = append(pkg.Adapters, a)
	}
	return nil
}

// readAdapter reads and checks a manifest. What it says of sizes and shapes must be what the layers
// take.
func (pkg *Package) readAdapter(dir string) (*Adapter, error) {
	t := pkg.p.t
	a := &Adapter{Name: path.Base(dir), pkg: pkg, folder: dir}
	if len(a.Name) > maxAdapterName || !adapterName.MatchString(a.Name) {
		return nil, fmt.Errorf("the folder is called %.100q: letters, digits, points, - and _ are expected, %d at the most", a.Name,
			maxAdapterName)
	}
	data, err := t.read(path.Join(dir, "manifest.json"), maxText)
	if err != nil {
		return nil, err
	}
	o, err := parseObject(data)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	a.Digest = hex.EncodeToString(sum[:])
	ts := pkg.Shape.Adapter
	rank, _, err := o.num(1, 1<<20, "rank")
	a.Rank = int(rank)
	n, _, err2 := o.num(1, maxLayers, "num_layers")
	switch {
	case err != nil:
		return nil, err
	case err2 != nil:
		return nil, err2
	case a.Rank != ts[0].Shape[len(ts[0].Shape)-2]:
		return nil, fmt.Errorf("rank is %d, the layers take adapters of rank %d", a.Rank, ts[0].Shape[len(ts[0].Shape)-2])
	case int(n) != len(pkg.Layers):
		return nil, fmt.Errorf("num_layers is %d, the model has %d layers", n, len(pkg.Layers))
	case o.str("packed_dtype") != "BF16":
		return nil, fmt.Errorf("packed_dtype is %.40q: adapters of BF16 are read", o.str("packed_dtype"))
	}
	if f := o.flag("scale_folded_into_b"); f == nil || !*f {
		return nil, fmt.Errorf("scale_folded_into_b is not true: adapters are read whose B is scaled already")
	}
	if err := a.readOrder(o); err != nil {
		return nil, err
	}
	return a, a.readFiles(o)
}

// readOrder reads tensor_order, and holds ab_shapes against the layers' inputs.
func (a *Adapter) readOrder(o object) error {
	order, shapes := o.strs("tensor_order"), decoded[map[string][2][2]int](o, "ab_shapes")
	ts := a.pkg.Shape.Adapter
	if len(order) != len(ts) {
		return fmt.Errorf("tensor_order names %d tensors, a layer takes %d", len(order), len(ts))
	}
	for i, part := range axmodel.LoraParts {
		for k, side := range []string{"A", "B"} {
			at := slices.Index(order, part+"_"+side)
			if at < 0 {
				return fmt.Errorf("tensor_order does not name %s_%s", part, side)
			}
			s := ts[2*i+k].Shape
			if got := shapes[part][k]; got != [2]int{s[len(s)-2], s[len(s)-1]} {
				return fmt.Errorf("ab_shapes says %v of %s_%s, the layers take %v", got, part, side, s)
			}
			a.order = append(a.order, at)
		}
	}
	return nil
}

// readFiles reads what files says of each layer's.
func (a *Adapter) readFiles(o object) error {
	list, want := o.sub("files"), int64(a.pkg.Shape.AdapterBytes())
	for i := range a.pkg.Layers {
		f := adapterFile{name: fmt.Sprintf("layer_%02d.bf16.bin", i)}
		about := list.sub(f.name)
		size, ok, err := about.num(0, 1<<40, "size")
		sum, bad := hex.DecodeString(about.str("sha256"))
		switch has := a.pkg.p.t.files[path.Join(a.folder, f.name)]; {
		case about == nil:
			return fmt.Errorf("files does not name %s", f.name)
		case err != nil || !ok || size != want:
			return fmt.Errorf("files says that %s has %d bytes, a layer takes %d", f.name, size, want)
		case bad != nil || len(sum) != sha256.Size:
			return fmt.Errorf("files has no sha256 of %s", f.name)
		case has != want:
			return fmt.Errorf("%s has %d bytes, a layer takes %d", f.name, has, want)
		}
		copy(f.sum[:], sum)
		a.files = append(a.files, f)
	}
	return nil
}

// Layer reads what the adapter gives a layer, in the order in which the layers' inputs are
// numbered, and checks it against the manifest. Errors: *Error, with ErrMismatch where the file is
// another.
func (a *Adapter) Layer(i int) ([]byte, error) {
	t, f := a.pkg.p.t, a.files[i]
	name, size := path.Join(a.folder, f.name), a.pkg.Shape.AdapterBytes()
	file, err := t.openAt(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b := make([]byte, size+1)
	n, err := io.ReadFull(io.NewSectionReader(file, 0, int64(size)+1), b)
	if err != nil && err != io.ErrUnexpectedEOF {
		return nil, &Error{Path: t.where(name), What: cause(err), Err: err}
	}
	if n != size || sha256.Sum256(b[:size]) != f.sum {
		return nil, &Error{Path: t.where(name), What: "is not the file that the adapter's manifest names: its sha256 or its size differs",
			Fix: "fetch it again, e.g. with `axle pull`", Err: ErrMismatch}
	}
	ts := a.pkg.Shape.Adapter
	begins := make([]int, len(ts)) // by place in the file
	sizes := make([]int, len(ts))
	for k, at := range a.order {
		sizes[at] = ts[k].Size
	}
	for k := 1; k < len(begins); k++ {
		begins[k] = begins[k-1] + sizes[k-1]
	}
	out := make([]byte, 0, size)
	for _, at := range a.order {
		out = append(out, b[begins[at]:][:sizes[at]]...)
	}
	return out, nil
}

// adapterNames are the package's.
func (p *Package) adapterNames() (all []string) {
	for _, a := range p.Adapters {
		all = append(all, a.Name)
	}
	return all
}

// adapterMemory is what an adapter takes on a card for one layer, whose inputs begin on multiples
// of 256 bytes, and what the zeros take that stand for none.
func (p *Package) adapterMemory() (layer, zeros int64) {
	for _, t := range p.Shape.Adapter {
		layer += (int64(t.Size) + 255) &^ 255
		zeros = max(zeros, int64(t.Size))
	}
	return layer, zeros
}
