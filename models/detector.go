package models

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/axle-llm/axle/axcl"
	"github.com/axle-llm/axle/vision"
	"github.com/axle-llm/axle/vision/detect"
)

// Detector is a package of one net that finds things in a picture: a YOLO. Its fields are not to be
// changed. Close it.
type Detector struct {
	base
	Name    string
	Net     NetFile
	Image   axcl.Tensor
	Outputs []axcl.Tensor // in the order of Form.Outputs
	Layout  vision.Layout // how the picture is written
	RGB     bool          // red comes first; else blue does
	Form    detect.Form   // how the boxes lie in the outputs
	Labels  []string      // by class
}

const (
	maxLabels = 1 << 16 // bytes of a list of labels
	maxLabel  = 64      // bytes of a label
)

// openDetector opens the package that was recognised as one.
func openDetector(k *KindError) (other, error) {
	n, err := k.only(detects, "a detector")
	if err != nil {
		return nil, err
	}
	t := k.plan.t
	d := &Detector{base: base{info: k.Info}, Name: k.Info.Name}
	if err := d.take(*n); err != nil {
		return nil, &Error{Path: t.where(n.name), What: err.Error(), Fix: "take another build of the detector", Err: ErrMismatch}
	}
	if d.Net, err = k.file(n); err != nil {
		return nil, err
	}
	d.Net.In, d.Net.Out = []axcl.Tensor{d.Image}, d.Outputs
	if err := d.readLabels(t); err != nil {
		return nil, err
	}
	// The vendor's builds of detectors and Frigate's take blue first.
	if d.RGB, err = readColours(k.plan, false); err != nil {
		return nil, err
	}
	d.describe()
	return d, nil
}

// take notes the tensors of the net, or says which of them is not as it should be.
func (d *Detector) take(n net) (err error) {
	d.Image = n.in[0]
	typ := map[axcl.Type]vision.Type{axcl.Uint8: vision.U8, axcl.FP32: vision.F32}[d.Image.Type]
	if typ == 0 {
		return fmt.Errorf("%s is %v: pictures are written as uint8 or fp32", d.Image.Name, d.Image.Type)
	}
	s := d.Image.Shape
	d.Layout = vision.Layout{Kind: vision.Planes, Type: typ, Width: s[3], Height: s[2]}
	if s[3] == 3 {
		d.Layout = vision.Layout{Kind: vision.Rows, Type: typ, Width: s[2], Height: s[1]}
	}
	if w, h := d.Layout.Width, d.Layout.Height; s[0] != 1 || w > 1<<11 || h > 1<<11 {
		return fmt.Errorf("%s is %v: one picture of up to 2048×2048 pixels is expected", d.Image.Name, s)
	}
	var shapes [][]int
	for _, o := range n.out {
		shapes = append(shapes, o.Shape)
	}
	if d.Form, err = detect.Read(d.Layout.Width, d.Layout.Height, shapes); err != nil {
		return err
	}
	for _, i := range d.Form.Outputs {
		if n.out[i].Type != axcl.FP32 {
			return fmt.Errorf("%s is %v: fp32 is expected", n.out[i].Name, n.out[i].Type)
		}
		d.Outputs = append(d.Outputs, n.out[i])
	}
	return nil
}

// readLabels reads what the classes are called. Without a list a net of 80 classes knows COCO's.
func (d *Detector) readLabels(t *tree) error {
	at := t.highest(func(base string) bool {
		switch base {
		case "labels.txt", "labelmap.txt", "classes.txt":
			return true
		}
		return path.Ext(base) == ".names"
	})
	if at == "" {
		if d.Labels = strings.Split(coco, ","); len(d.Labels) != d.Form.Classes {
			return t.missing("labels.txt", fmt.Sprintf("put the names of the net's %d classes there, one a line", d.Form.Classes))
		}
		return nil
	}
	b, err := t.read(at, maxLabels)
	if err != nil {
		return err
	}
	if d.Labels, err = labelList(string(b), d.Form.Classes); err != nil {
		return &Error{Path: t.where(at), What: err.Error(), Fix: "take the list of the same detector", Err: ErrMismatch}
	}
	return nil
}

// labelList reads a label a line. Where each line begins with its number, as Frigate's lists do,
// that is left out.
func labelList(text string, classes int) (labels []string, err error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("is not UTF-8")
	}
	numbered := true
	for line := range strings.Lines(strings.TrimRight(text, " \t\r\n")) {
		line = strings.TrimSpace(line)
		n, rest, _ := strings.Cut(line, " ")
		numbered = numbered && n == fmt.Sprint(len(labels)) && rest != ""
		if labels = append(labels, line); line == "" || len(line) > maxLabel {
			return nil, fmt.Errorf("line %d has %d bytes: a label has 1 to %d", len(labels), len(line), maxLabel)
		}
	}
	if len(labels) != classes {
		return nil, fmt.Errorf("has %d labels, the net knows %d classes", len(labels), classes)
	}
	if numbered {
		for i, line := range labels {
			_, rest, _ := strings.Cut(line, " ")
			labels[i] = strings.TrimSpace(rest)
		}
	}
	return labels, nil
}

// readColours reads whether red comes first: input_pixel_format of config.json, as Frigate's
// setting is called. No tensor tells it. usual is what holds where nothing is said.
func readColours(p *plan, usual bool) (rgb bool, err error) {
	at := p.t.named("config.json")
	if at == "" {
		return usual, nil
	}
	o, err := p.object(at)
	if err != nil {
		return usual, nil // another program's file says nothing of the net
	}
	switch format := strings.ToLower(o.str("input_pixel_format")); format {
	case "":
		return usual, nil
	case "bgr", "rgb":
		return format == "rgb", nil
	default:
		return false, &Error{Path: p.t.where(at), What: fmt.Sprintf("input_pixel_format is %q", format), Fix: "write rgb or bgr",
			Err: ErrMalformed}
	}
}

// describe says what is known.
func (d *Detector) describe() {
	i := &d.info
	i.Says, i.Capabilities = "", []string{"detection"}
	i.Groups = []string{fmt.Sprintf("pictures of %d×%d pixels, %d classes", d.Layout.Width, d.Layout.Height, len(d.Labels))}
	d.memory([]int64{d.Net.Size}, append([]axcl.Tensor{d.Image}, d.Outputs...)...)
	i.Quantization = cmp.Or(i.Quantization, quantizationOf(d.Net.Path))
}

// coco are the 80 classes of the COCO challenge, in the order in which detectors number them.
const coco = "person,bicycle,car,motorcycle,airplane,bus,train,truck,boat,traffic light,fire hydrant,stop sign,parking meter,bench," +
	"bird,cat,dog,horse,sheep,cow,elephant,bear,zebra,giraffe,backpack,umbrella,handbag,tie,suitcase,frisbee,skis,snowboard," +
	"sports ball,kite,baseball bat,baseball glove,skateboard,surfboard,tennis racket,bottle,wine glass,cup,fork,knife,spoon,bowl," +
	"banana,apple,sandwich,orange,broccoli,carrot,hot dog,pizza,donut,cake,chair,couch,potted plant,bed,dining table,toilet,tv," +
	"laptop,mouse,remote,keyboard,cell phone,microwave,oven,toaster,sink,refrigerator,book,clock,vase,scissors,teddy bear," +
	"hair drier,toothbrush"
