// Package profiles says how long a card takes for a piece of work, so that you can judge a model on
// a card you do not have. It reads the profiles that the simulated card keeps time by: measured
// lines where they fit, else a formula over weights, cache and rows. The README of axcl/simcard
// explains the lines.
//
// A Profile is read-only once parsed and may be used from any goroutine. Nothing needs closing.
package profiles

import (
	"embed"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

//go:embed *.profile
var files embed.FS

// Names are the profiles that ship inside.
var Names = []string{"pi5", "cm3588", "onboard"}

// Profile is what things cost on one kind of host and card. Rates are in units a second.
type Profile struct {
	Name      string
	Copies    map[string]Copy // "h2d-pinned", "d2h-pinned", "d2d" …
	Enqueue   time.Duration   // the host's cost of an asynchronous call
	Execute   time.Duration   // the fixed part of one execute
	Sync      time.Duration   // a synchronisation
	Load      float64         // bytes a second that models load at
	Memory    float64         // bytes a second that weights and cache stream at
	Head      float64         // the same for the head
	Matrix    float64         // operations a second
	Attention float64

	HostCall                 time.Duration // of a piece of work on the host's processor
	HostMemory, HostProducts float64       // bytes and products a second
	layers                   []line
	encoders                 []encoder
}

// Copy is the cost of one copy: a fixed part and a rate.
type Copy struct {
	Fixed time.Duration
	Rate  float64
}

// Time is what copying n bytes takes.
func (c Copy) Time(n int64) time.Duration { return c.Fixed + over(float64(n), c.Rate) }

type line struct {
	linear              bool // of a layer that keeps a state
	hidden, rows, cells int
	weights             float64
	time                time.Duration
}

// encoder is a measured encoder of pictures.
type encoder struct {
	patches, out int
	time         time.Duration
}

// Layer is what of a decoder layer decides on its cost.
type Layer struct {
	Hidden, Heads, KVHeads, HeadDim, Intermediate int
	Weights                                       int64
	State                                         int64 // bytes of the states that it keeps; 0: it keeps rows
}

// Load reads a profile: a name of Names, or a file's path. Errors name the file and the line.
func Load(name string) (*Profile, error) {
	p := &Profile{Name: name, Copies: map[string]Copy{}}
	for _, n := range Names {
		if n == name {
			b, err := files.ReadFile(name + ".profile")
			if err != nil {
				return nil, err
			}
			return p, p.parse(name, string(b), 0)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("profiles: %q is neither one of %s nor a file that can be read: %w", name, strings.Join(Names, ", "), err)
	}
	if len(b) > 1<<20 {
		return nil, fmt.Errorf("profiles: %s is larger than any profile", name)
	}
	return p, p.parse(name, string(b), 0)
}

func (p *Profile) parse(from, text string, depth int) error {
	for i, l := range strings.Split(text, "\n") {
		l, _, _ = strings.Cut(l, "#")
		w := strings.Fields(l)
		if len(w) == 0 {
			continue
		}
		if err := p.line(w, depth); err != nil {
			return fmt.Errorf("profiles: %s:%d: %w", from, i+1, err)
		}
	}
	return nil
}

func (p *Profile) line(w []string, depth int) (err error) {
	bad := fmt.Errorf("cannot read the line that begins with %q", w[0])
	rates := map[string]*float64{"load": &p.Load, "memory": &p.Memory, "head": &p.Head, "matrix": &p.Matrix, "attention": &p.Attention,
		"host-memory": &p.HostMemory, "host-products": &p.HostProducts}
	times := map[string]*time.Duration{"enqueue": &p.Enqueue, "execute": &p.Execute, "host-call": &p.HostCall}
	switch {
	case w[0] == "like" && len(w) == 2 && depth < 4:
		b, err := files.ReadFile(w[1] + ".profile")
		if err != nil {
			return bad
		}
		return p.parse(w[1], string(b), depth+1)
	case w[0] == "call" && len(w) == 3:
		d, err := time.ParseDuration(w[2])
		if err == nil && w[1] == "axclrtSynchronizeStreamWithTimeout" {
			p.Sync = d
		}
		return err
	case w[0] == "copy" && len(w) == 4:
		var c Copy
		if c.Fixed, err = time.ParseDuration(w[2]); err != nil {
			return err
		}
		if c.Rate, err = rate(w[3]); err != nil {
			return err
		}
		p.Copies[w[1]] = c
	case w[0] == "table" && len(w) == 2 && w[1] == "clear":
		p.layers, p.encoders = nil, nil
	case w[0] == "table" && len(w) == 3 && (w[1] == "less" || w[1] == "more"):
		return p.shift(w[1], w[2])
	case w[0] == "layer" && len(w) == 6, w[0] == "linear" && len(w) == 5:
		return p.layer(w[0] == "linear", w[1:])
	case w[0] == "encoder" && len(w) == 4:
		return p.encoder(w[1:])
	case len(w) == 2 && rates[w[0]] != nil:
		*rates[w[0]], err = rate(w[1])
		return err
	case len(w) == 2 && times[w[0]] != nil:
		*times[w[0]], err = time.ParseDuration(w[1])
		return err
	default:
		return bad
	}
	return nil
}

// shift makes every call of the tables quicker or slower.
func (p *Profile) shift(how, by string) error {
	d, err := time.ParseDuration(by)
	if err != nil {
		return err
	}
	if how == "less" {
		d = -d
	}
	for i := range p.layers {
		p.layers[i].time = max(p.layers[i].time+d, 0)
	}
	for i := range p.encoders {
		p.encoders[i].time = max(p.encoders[i].time+d, 0)
	}
	return nil
}

func (p *Profile) layer(linear bool, words []string) error {
	l := line{linear: linear}
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		if k == "time" {
			d, err := time.ParseDuration(v)
			if err != nil {
				return err
			}
			l.time = d
			continue
		}
		x, err := rate(v)
		if err != nil {
			return err
		}
		switch {
		case k == "hidden":
			l.hidden = int(x)
		case k == "rows":
			l.rows = int(x)
		case k == "cells" && !linear:
			l.cells = int(x)
		case k == "weights":
			l.weights = x
		default:
			return fmt.Errorf("a layer has no %q", k)
		}
	}
	p.layers = append(p.layers, l)
	return nil
}

func (p *Profile) encoder(words []string) error {
	var e encoder
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		var err error
		switch k {
		case "time":
			e.time, err = time.ParseDuration(v)
		case "patches":
			e.patches, err = strconv.Atoi(v)
		case "out":
			e.out, err = strconv.Atoi(v)
		default:
			err = fmt.Errorf("an encoder has no %q", k)
		}
		if err != nil {
			return err
		}
	}
	p.encoders = append(p.encoders, e)
	return nil
}

// EncoderTime is what a call of an encoder of pictures takes that makes rows of out values of this
// many patches; ok says that somebody has measured one.
func (p *Profile) EncoderTime(patches, out int) (t time.Duration, ok bool) {
	for _, e := range p.encoders {
		if e.patches == patches && e.out == out {
			return e.time, true
		}
	}
	return 0, false
}

// rate reads "25GB/s", "2.5TOPS", "31.5MB", "1024".
func rate(s string) (float64, error) {
	n := 0
	for n < len(s) && (s[n] >= '0' && s[n] <= '9' || s[n] == '.') {
		n++
	}
	v, err := strconv.ParseFloat(s[:n], 64)
	if err != nil || v > 1e15 {
		return 0, fmt.Errorf("%q is no number", s)
	}
	if n < len(s) {
		if f, ok := map[byte]float64{'k': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12}[s[n]]; ok {
			v *= f
		}
	}
	return v, nil
}

func over(amount, perSecond float64) time.Duration {
	if perSecond <= 0 {
		return 0
	}
	return time.Duration(amount / perSecond * 1e9)
}

// attention is what looking back on h cells costs in addition to the rest.
func (p *Profile) attention(l Layer, n, h float64) time.Duration {
	kv, q := float64(l.KVHeads*l.HeadDim), float64(l.Heads*l.HeadDim)
	return over(2*h*kv*2, p.Memory) + over(4*n*(h+n)*q, p.Attention)
}

// LayerTime is what one execute of a layer takes with a group of rows rows that sees cells cells.
// measured says that a line of the table fits, rather than the formula alone.
func (p *Profile) LayerTime(l Layer, rows, cells int) (t time.Duration, measured bool) {
	if l.State > 0 {
		cells = 0 // a state is as large at any length
	}
	off := func(x *line) float64 { // how far a line's weights are from the layer's
		if x.linear != (l.State > 0) || x.hidden != l.Hidden || x.rows != rows {
			return math.Inf(1)
		}
		return math.Abs(float64(l.Weights)/x.weights - 1)
	}
	nearest := 0.15
	for i := range p.layers {
		nearest = min(nearest, off(&p.layers[i]))
	}
	var below, above *line
	for i := range p.layers {
		x := &p.layers[i]
		if off(x) > nearest {
			continue
		}
		if x.cells <= cells && (below == nil || x.cells > below.cells) {
			below = x
		}
		if x.cells >= cells && (above == nil || x.cells < above.cells) {
			above = x
		}
	}
	n, h := float64(rows), float64(cells)
	if below != nil && above != nil && above.cells > below.cells {
		f := float64(cells-below.cells) / float64(above.cells-below.cells)
		return below.time + time.Duration(float64(above.time-below.time)*f), true
	}
	if below == nil {
		below = above
	}
	if below != nil {
		return max(below.time+p.attention(l, n, h)-p.attention(l, n, float64(below.cells)), p.Execute), true
	}
	q, kv := float64(l.Heads*l.HeadDim), float64(l.KVHeads*l.HeadDim)
	params := float64(l.Hidden) * (2*q + 2*kv + 3*float64(l.Intermediate))
	t = p.Execute + over(float64(l.Weights+2*l.State), p.Memory) // the state is read, and written
	if l.State == 0 {
		t += p.attention(l, n, h)
	}
	if rows > 1 {
		t += over(2*n*params, p.Matrix)
	}
	return t, false
}

// HeadTime is what one row of a head of this many bytes takes.
func (p *Profile) HeadTime(weights int64) time.Duration {
	return p.Execute + over(float64(weights), p.Head)
}

// HostTime is what the host's processor takes to read this many bytes and, at the same time, to
// compute as many products.
func (p *Profile) HostTime(bytes, products int64) time.Duration {
	return p.HostCall + max(over(float64(bytes), p.HostMemory), over(float64(products), p.HostProducts))
}
