package graph

import "github.com/axle-llm/axle/axcl/soft/kernel"

// window is how a convolution or a pooling goes over a plane; a row of values is a plane of height
// one.
type window struct {
	n, c, ih, iw, oh, ow     int
	kh, kw, sh, sw, dh, dw   int
	top, left, groups, o, in int // o and in: channels of a group that come out and go in
}

func planes(x, y []int) window {
	w := window{n: x[0], c: x[1], ih: 1, iw: x[len(x)-1], oh: 1, ow: y[len(y)-1]}
	if len(x) == 4 {
		w.ih, w.oh = x[2], y[2]
	}
	return w
}

func (p *Plan) window(weights []int) window {
	_, x := p.operand(0)
	w, a := planes(x, p.dims()), p.node.Attrs
	w.kh, w.kw = 1, weights[len(weights)-1]
	if len(weights) == 4 {
		w.kh = weights[2]
	}
	w.sh, w.sw, w.top, w.left, w.dh, w.dw, w.groups = int(a[0]), int(a[1]), int(a[2]), int(a[3]), int(a[6]), int(a[7]), int(a[8])
	w.in, w.o = w.c/w.groups, p.dims()[1]/w.groups
	return w
}

// few is below how many channels of a group a convolution is computed value by value.
const few = 8

// conv computes places in blocks: what they see is copied side by side, and multiplied with all
// weights of a group.
func (p *Plan) conv() {
	x, _ := p.operand(0)
	wt, wd := p.operand(1)
	bias, _ := p.operand(2)
	w := p.window(wd)
	y := p.result(0)
	places, k := w.oh*w.ow, w.in*w.kh*w.kw
	if w.in*w.o < few*few {
		p.do(w.n*w.groups*w.o, places*k, func(_, i int) {
			o := i % (w.groups * w.o)
			dst := y.f[i*places:][:places]
			fillBias(dst, bias.f, o)
			for c := range w.in {
				w.slide(dst, x.f[(i/(w.groups*w.o)*w.c+o/w.o*w.in+c)*w.ih*w.iw:][:w.ih*w.iw], wt.f[o*k+c*w.kh*w.kw:][:w.kh*w.kw])
			}
		})
		return
	}
	p.rows = max(p.rows, w.o)
	seen, sums := p.own(kernel.Block*k), p.own(kernel.Block*w.o)
	blocks := (places + kernel.Block - 1) / kernel.Block
	p.do(w.n*w.groups*blocks, kernel.Block*k*w.o, func(worker, i int) {
		group, from := i/blocks, i%blocks*kernel.Block
		n := min(kernel.Block, places-from)
		at, g := group/w.groups, group%w.groups
		rows, sum := seen(worker), sums(worker)
		src := x.f[(at*w.c+g*w.in)*w.ih*w.iw:][:w.in*w.ih*w.iw]
		for r := range n {
			w.look(rows[r*k:(r+1)*k], src, (from+r)/w.ow, (from+r)%w.ow)
		}
		m := kernel.Weights{Rows: n, Cols: k, F32: rows[:n*k]}
		p.set.Mul(sum, &m, kernel.Input{F: wt.f[g*w.o*k:][:w.o*k]}, w.o, 0, n, p.scrap[worker])
		for o := range w.o {
			dst := y.f[((at*w.groups+g)*w.o+o)*places+from:][:n]
			fillBias(dst, bias.f, g*w.o+o)
			p.set.Add(dst, sum[o*n:(o+1)*n])
		}
	})
}

func fillBias(dst, bias []float32, o int) {
	if bias == nil {
		clear(dst)
		return
	}
	for i := range dst {
		dst[i] = bias[o]
	}
}

// look copies what the place sees of all channels of a group.
func (w *window) look(dst, src []float32, oy, ox int) {
	x0 := ox*w.sw - w.left
	for c := range w.in {
		plane := src[c*w.ih*w.iw:][:w.ih*w.iw]
		for ky := range w.kh {
			y := oy*w.sh - w.top + ky*w.dh
			row := dst[:w.kw]
			dst = dst[w.kw:]
			if y < 0 || y >= w.ih {
				clear(row)
				continue
			}
			line := plane[y*w.iw:][:w.iw]
			if w.dw == 1 && x0 >= 0 && x0+w.kw <= w.iw {
				copy(row, line[x0:])
				continue
			}
			for kx := range row {
				if x := x0 + kx*w.dw; x >= 0 && x < w.iw {
					row[kx] = line[x]
				} else {
					row[kx] = 0
				}
			}
		}
	}
}

// slide adds one channel's convolution to a plane.
func (w *window) slide(dst, src, weights []float32) {
	for ky := range w.kh {
		for kx := range w.kw {
			v := weights[ky*w.kw+kx]
			for oy := range w.oh {
				y := oy*w.sh - w.top + ky*w.dh
				if y < 0 || y >= w.ih {
					continue
				}
				row, line := dst[oy*w.ow:][:w.ow], src[y*w.iw:][:w.iw]
				from, to := reach(w.ow, w.iw, w.sw, kx*w.dw-w.left)
				for ox := from; ox < to; ox++ {
					row[ox] += float32(v * line[ox*w.sw+kx*w.dw-w.left])
				}
			}
		}
	}
}

// reach gives the i in [0, n) for which i·stride + off lies in [0, limit).
func reach(n, limit, stride, off int) (from, to int) {
	if off < 0 {
		from = (-off + stride - 1) / stride
	}
	to = min(n, max((limit-off+stride-1)/stride, 0))
	return min(from, to), to
}

// convTranspose multiplies each place with all weights, and then each channel adds up what falls on
// its own places.
func (p *Plan) convTranspose() {
	x, _ := p.operand(0)
	wt, wd := p.operand(1)
	bias, _ := p.operand(2)
	w := p.window(wd)
	y := p.result(0)
	places, taps := w.ih*w.iw, w.kh*w.kw
	area := w.oh * w.ow
	if w.in < few {
		p.do(w.n*w.groups*w.o, places*taps*w.in, func(_, i int) {
			at, o := i/(w.groups*w.o), i%(w.groups*w.o)
			dst := y.f[i*area:][:area]
			fillBias(dst, bias.f, o)
			for c := o / w.o * w.in; c < (o/w.o+1)*w.in; c++ {
				src := x.f[(at*w.c+c)*places:][:places]
				for tap, v := range wt.f[(c*w.o+o%w.o)*taps:][:taps] {
					w.drop(dst, tap, src, v)
				}
			}
		})
		return
	}
	// Of each group, weights by what comes out and then by what goes in.
	turn := func(dst []float32, g int) {
		for c := range w.in {
			for k, v := range wt.f[(g*w.in+c)*w.o*taps:][:w.o*taps] {
				dst[(g*w.o*taps+k)*w.in+c] = v
			}
		}
	}
	var turned []float32
	if p.constant(1) {
		turned = p.keep(w.c*w.o*taps, func(dst []float32) {
			for g := range w.groups {
				turn(dst, g)
			}
		})
	} else {
		turned = p.space(w.c * w.o * taps)
		p.do(w.groups, w.in*w.o*taps, func(_, g int) { turn(turned, g) })
	}
	all := p.space(w.n * w.groups * w.o * taps * places)
	p.rows = max(p.rows, w.o*taps)
	rows, sums := p.own(kernel.Block*w.in), p.own(kernel.Block*w.o*taps)
	blocks := (places + kernel.Block - 1) / kernel.Block
	p.do(w.n*w.groups*blocks, kernel.Block*w.in*w.o*taps, func(worker, i int) {
		group, from := i/blocks, i%blocks*kernel.Block
		n := min(kernel.Block, places-from)
		at, g := group/w.groups, group%w.groups
		row, sum := rows(worker), sums(worker)
		for c := range w.in {
			for r, v := range x.f[(at*w.c+g*w.in+c)*places+from:][:n] {
				row[r*w.in+c] = v
			}
		}
		m := kernel.Weights{Rows: n, Cols: w.in, F32: row[:n*w.in]}
		p.set.Mul(sum, &m, kernel.Input{F: turned[g*w.o*taps*w.in:][:w.o*taps*w.in]}, w.o*taps, 0, n, p.scrap[worker])
		for k := range w.o * taps {
			copy(all[(group*w.o*taps+k)*places+from:][:n], sum[k*n:])
		}
	})
	p.do(w.n*w.groups*w.o, taps*places, func(_, i int) {
		dst := y.f[i*area:][:area]
		fillBias(dst, bias.f, i%(w.groups*w.o))
		for tap := range taps {
			src := all[(i*taps+tap)*places:][:places]
			w.drop(dst, tap, src, 1)
		}
	})
}

// drop adds each place of the input, times v, to where the tap falls.
func (w *window) drop(dst []float32, tap int, src []float32, v float32) {
	ky, kx := tap/w.kw, tap%w.kw
	for line := range w.ih {
		y := line*w.sh + ky*w.dh - w.top
		if y < 0 || y >= w.oh {
			continue
		}
		row, in := dst[y*w.ow:][:w.ow], src[line*w.iw:][:w.iw]
		from, to := reach(w.iw, w.ow, w.sw, kx*w.dw-w.left)
		for px := from; px < to; px++ {
			row[px*w.sw+kx*w.dw-w.left] += float32(v * in[px])
		}
	}
}

// pooling takes each plane on its own.
func (p *Plan) pooling() {
	x, xd := p.operand(0)
	w, a := planes(xd, p.dims()), p.node.Attrs
	kh, kw, sh, sw, top, left := int(a[1]), int(a[2]), int(a[3]), int(a[4]), int(a[5]), int(a[6])
	average := a[0] == 1
	y := p.result(0)
	p.do(w.n*w.c, w.oh*w.ow*kh*kw, func(_, i int) {
		src, dst := x.f[i*w.ih*w.iw:][:w.ih*w.iw], y.f[i*w.oh*w.ow:][:w.oh*w.ow]
		for at := range dst {
			y0, x0 := at/w.ow*sh-top, at%w.ow*sw-left
			y1, x1 := min(y0+kh, w.ih), min(x0+kw, w.iw)
			y0, x0 = max(y0, 0), max(x0, 0)
			best, sum := src[y0*w.iw+x0], 0.0
			for yy := y0; yy < y1; yy++ {
				for _, v := range src[yy*w.iw+x0 : yy*w.iw+x1] {
					best = max(best, v)
					sum += float64(v)
				}
			}
			if dst[at] = best; average {
				dst[at] = float32(sum / float64((y1-y0)*(x1-x0)))
			}
		}
	})
}

// resize takes each plane on its own.
func (p *Plan) resize() {
	x, xd := p.operand(0)
	w := planes(xd, p.dims())
	y := p.result(0)
	if p.node.Attrs[0] == 0 {
		p.do(w.n*w.c, w.oh*w.ow, func(_, i int) {
			src, dst := x.f[i*w.ih*w.iw:][:w.ih*w.iw], y.f[i*w.oh*w.ow:][:w.oh*w.ow]
			for at := range dst {
				dst[at] = src[at/w.ow*w.ih/w.oh*w.iw+at%w.ow*w.iw/w.ow]
			}
		})
		return
	}
	p.do(w.n*w.c, 4*w.oh*w.ow, func(_, i int) {
		src, dst := x.f[i*w.ih*w.iw:][:w.ih*w.iw], y.f[i*w.oh*w.ow:][:w.oh*w.ow]
		for oy := range w.oh {
			y0, y1, fy := between(oy, w.ih, w.oh)
			for ox := range w.ow {
				x0, x1, fx := between(ox, w.iw, w.ow)
				up := float64(src[y0*w.iw+x0])*(1-fx) + float64(src[y0*w.iw+x1])*fx
				down := float64(src[y1*w.iw+x0])*(1-fx) + float64(src[y1*w.iw+x1])*fx
				dst[oy*w.ow+ox] = float32(up*(1-fy) + down*fy)
			}
		}
	})
}

// between gives the two places that place i of n lies between, of this many, and how far it is to
// the second.
func between(i, of, n int) (a, b int, f float64) {
	at := (float64(i)+0.5)*float64(of)/float64(n) - 0.5
	at = max(0, min(at, float64(of-1)))
	a = int(at)
	return a, min(a+1, of-1), at - float64(a)
}
