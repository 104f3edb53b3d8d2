package report

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/axle-llm/axle/engine/bench"
	"github.com/axle-llm/axle/models"
)

// The page is one file that loads nothing: no script, no font, no picture from elsewhere. Plots are
// SVG that scales to the screen's width.

var page = template.Must(template.New("bench").Funcs(template.FuncMap{
	"figure": func(s bench.Sample) string { return s.String() }, "optional": optional, "bytes": models.HumanBytes,
	"latency": latencyPlot, "stages": stagePlot, "layers": layersPlot, "clients": clientsPlot, "roof": rooflinePlot, "best": best,
	"turns": turnsPlot, "rows": rowsPlot, "kept": func(w bench.TalkWay) string { return keptWords[w.Kept] },
	"sooner": func(c bench.TalkCase, i int) string { return sooner(&c, i) }, "moved": func(w bench.TalkWay) string { return moved(&w) },
	"ended": (*Report).end, "uneven": (*Report).uneven,
	"gb": func(v float64) string { return fmt.Sprintf("%.1f GB/s", v/1e9) },
}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>axle bench</title>
<style>
` + style + `</style></head><body>
<header>` + mark + `<h1>axle bench</h1></header>
<p class="facts">{{.When.Format "2006-01-02 15:04:05"}} UTC, axle {{.Facts.Axle}}<br>{{.Facts}}<br>{{.Facts.Card}}{{ended .}}</p>{{with uneven .}}<p>{{.}}</p>{{end}}
{{range .Models}}{{$m := .}}<h2>{{.Name}}</h2>
<p class="facts">{{.Layers}} layers, context {{.Context}}, {{bytes .Bytes}} on the card{{if .Hollow}}, shapes without weights{{end}}{{with .Draft}}, guesses by {{.}}{{end}}{{if .Apart}}<br>Layer by layer: each was waited for, so passes are slower than they are without --layers{{end}}</p>
{{if .Cases}}
<dl class="tiles">{{with best .Cases}}<div class="tile"><dt>First token</dt><dd><b>{{printf "%.0f" .First.Median}}</b> ms</dd></div><div class="tile"><dt>Reading a prompt</dt><dd><b>{{printf "%.0f" .Prefill.Median}}</b> tokens/s</dd></div><div class="tile"><dt>Writing</dt><dd><b>{{printf "%.1f" .Decode.Median}}</b> tokens/s</dd></div><div class="tile"><dt>Of</dt><dd><b>{{.Load}}</b></dd></div>{{end}}</dl>
<section class="panel"><h3>Every load</h3><div class="wide"><table><tr><th>load</th><th>first token ms</th><th>prefill t/s</th><th>decode t/s</th><th>p50 ms</th><th>p95 ms</th><th>p99 ms</th><th>next turn ms</th><th>busy</th></tr>
{{range .Cases}}<tr><td>{{.Load}}</td><td>{{figure .First}}</td><td>{{figure .Prefill}}</td><td>{{figure .Decode}}</td><td>{{figure .P50}}</td><td>{{figure .P95}}</td><td>{{figure .P99}}</td><td>{{optional .Second}}</td><td>{{printf "%.0f%%" .Busy.Median}}</td></tr>
{{end}}</table></div>
<p class="facts">p: prompt tokens, n: tokens of output, c: clients at once, spec: with guesses. ± is the farthest repeat from the median.</p></section>
<div class="plots"><section class="panel"><h3>Latency by token</h3>{{latency .Cases}}</section>
<section class="panel"><h3>Where a token's time goes</h3>{{stages .Cases}}</section>
{{if .Apart}}<section class="panel"><h3>Layer by layer</h3>{{layers .Cases}}</section>{{end}}
<section class="panel"><h3>Throughput against clients</h3>{{clients .Cases}}</section>
{{with .Roofline}}<section class="panel"><h3>Roofline</h3>{{roof .}}
<p>{{.Text}}</p>{{if .Limit}}<p class="facts">{{.Reads}} a token at {{gb .Bandwidth}} ({{.Source}}): at most {{printf "%.1f" .Limit}} tokens/s for one client{{if .Reached}}; reached {{printf "%.1f, %.0f %%" .Reached .Share}}{{end}}.<br>Bandwidth: {{.Bandwidths}}.</p>{{end}}</section>{{end}}</div>
{{end}}
{{if .Loops}}<section class="panel"><div class="wide"><table><tr><th>a token</th><th>ms</th><th>tokens/s</th><th>entries</th><th>library calls</th><th>link copies</th><th>NPU busy</th></tr>
{{range .Loops}}<tr><td>{{.Name}}</td><td>{{figure .Token}}</td><td>{{printf "%.2f" .Rate}}</td><td>{{.Runs}}</td><td>{{printf "%.0f" .Calls}}</td><td>{{printf "%.0f" .Cross}}</td><td>{{printf "%.0f%%" .Busy}}</td></tr>{{end}}</table></div></section>{{end}}
{{range $c := .Talks}}<section class="panel"><h3>{{$c.Conversations}} conversations of {{$c.Prompt}} tokens take turns</h3><div class="wide"><table><tr><th>kept on</th><th>first token ms</th><th>sooner</th><th>card</th><th>memory</th><th>disk</th><th>evaluated</th><th>moved</th><th>saved s</th></tr>
{{range $i, $w := $c.Ways}}<tr><td>{{kept $w}}</td><td>{{figure $w.First}}</td><td>{{sooner $c $i}}</td><td>{{$w.Card}}</td><td>{{$w.Memory}}</td><td>{{$w.Disk}}</td><td>{{$w.Evaluated}}</td><td>{{moved $w}}</td><td>{{printf "%.1f" $w.Saved}}</td></tr>
{{end}}</table></div>
<p class="facts">{{$c.Turns}} turns each of {{$c.New}} new tokens and {{$c.Output}} of answer; medians. Of all prompt tokens: on the card still, brought back from memory, brought from disk, or evaluated.</p></section>
<div class="plots"><section class="panel"><h3>First token, turn by turn</h3>{{turns $c}}</section><section class="panel"><h3>Where rows came from</h3>{{rows $c}}</section></div>{{end}}
{{with .Against}}<section class="panel"><h3>Against {{.Kind}} at {{.URL}}</h3><div class="wide"><table><tr><th>load</th><th>first token here</th><th>there</th><th>decode here</th><th>there</th></tr>
{{range .Cases}}<tr><td>{{.Load}}</td><td>{{figure .Here.First}}</td><td>{{figure .There.First}}</td><td>{{figure .Here.Decode}}</td><td>{{figure .There.Decode}}</td></tr>{{end}}</table></div></section>{{end}}
{{end}}</body></html>
`))

// best is the case whose figures stand above all others: one client's, without guesses, of the
// longest prompt; nil where there is none.
func best(cases []bench.Case) *bench.Case {
	var found *bench.Case
	for i := range cases {
		if c := &cases[i]; c.Clients == 1 && !c.Speculate && (found == nil || c.Prompt > found.Prompt) {
			found = c
		}
	}
	return found
}

// HTML writes the report as a page.
func (r *Report) HTML(w io.Writer) error { return page.Execute(w, r) }

// plot is a diagram being drawn, in a coordinate system of 480 by height.
type plot struct {
	strings.Builder
	x0, y0, w, h float64 // the inner area
	minX, maxX   float64
	minY, maxY   float64
	logX, logY   bool
	height       float64
}

// A colour of the page means one thing, in every plot: which load it is, whatever the clients are,
// which stage of a token, or where rows were kept. Clients are told apart by dashes, and what is
// neither has no colour. style says what the names are in light and in dark.
var (
	loadColors  = []string{"s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"}
	stageColors = []string{"t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9", "t10", "t11", "t12", "t13", "t14"}
	dashes      = []string{"", "7 4", "2 3", "10 3 2 3", "1 5", "14 5"}
)

// series is what a case is beside its clients.
func series(c *bench.Case) string {
	name := fmt.Sprintf("p%d n%d", c.Prompt, c.Output)
	if c.Speculate {
		name += " spec"
	}
	return name
}

// look is a case's colour and dash in all plots of cases.
type look struct{ color, dash string }

// looks gives each case its look; those for which no colour is left are left out.
func looks(cases []bench.Case) (shown []bench.Case, is []look) {
	colors, clients := map[string]string{}, counts(cases)
	for _, c := range cases {
		name := series(&c)
		if colors[name] == "" && len(colors) < len(loadColors) {
			colors[name] = loadColors[len(colors)]
		}
		if colors[name] == "" || len(shown) == mostShown {
			continue
		}
		at := slices.Index(clients, float64(c.Clients))
		shown, is = append(shown, c), append(is, look{colors[name], dashes[max(at, 0)%len(dashes)]})
	}
	return shown, is
}

// mostShown is how many cases a plot shows.
const mostShown = 12

func newPlot(legend int, minX, maxX, minY, maxY float64, logX, logY bool) *plot {
	p := &plot{x0: 52, y0: 10, w: 416, h: 220, minX: minX, maxX: max(maxX, minX+1e-9), minY: minY, maxY: max(maxY, minY+1e-9), logX: logX,
		logY: logY}
	p.height = p.y0 + p.h + 44 + float64((legend+1)/2)*19
	return p
}

func along(v, lo, hi float64, log bool) float64 {
	if log {
		v, lo, hi = math.Log(max(v, lo)), math.Log(lo), math.Log(hi)
	}
	if hi <= lo {
		return 0
	}
	return min(max((v-lo)/(hi-lo), 0), 1)
}

func (p *plot) at(x, y float64) (float64, float64) {
	return p.x0 + p.w*along(x, p.minX, p.maxX, p.logX), p.y0 + p.h*(1-along(y, p.minY, p.maxY, p.logY))
}

// steps are round numbers between lo and hi.
func steps(lo, hi float64, log bool) (out []float64) {
	if log {
		for e := math.Floor(math.Log10(lo)); e <= math.Ceil(math.Log10(hi)); e++ {
			for _, m := range []float64{1, 2, 5} {
				if v := m * math.Pow(10, e); v >= lo*0.999 && v <= hi*1.001 {
					out = append(out, v)
				}
			}
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10(max(hi-lo, 1e-9))))
	for _, f := range []float64{0.2, 0.5, 1, 2, 5} {
		if (hi-lo)/(step*f) <= 6 {
			step *= f
			break
		}
	}
	for v := math.Ceil(lo/step) * step; v <= hi+step*1e-6; v += step {
		out = append(out, v)
	}
	return out
}

func (p *plot) axes(xname, yname string, xs []float64) {
	for _, v := range steps(p.minY, p.maxY, p.logY) {
		_, y := p.at(p.minX, v)
		fmt.Fprintf(p, `<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`,
			p.x0, p.x0+p.w, y, y, p.x0-6, y+4, trim(v))
	}
	if xs == nil {
		xs = steps(p.minX, p.maxX, p.logX)
	}
	for _, v := range xs {
		x, _ := p.at(v, p.minY)
		fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, x, p.y0+p.h+16, trim(v))
	}
	fmt.Fprintf(p, `<line class="axis" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, p.x0, p.x0+p.w, p.y0+p.h, p.y0+p.h)
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="end">%s</text><text x="%.1f" y="%.1f">%s</text>`, p.x0+p.w, p.y0+p.h+33,
		esc(xname), p.x0+6, p.y0+12, esc(yname))
}

func trim(v float64) string { return fmt.Sprintf("%.4g", v) }

func esc(s string) string { return template.HTMLEscapeString(s) }

func (p *plot) line(xs, ys []float64, color, dash string, dots bool) {
	var path strings.Builder
	for i := range xs {
		x, y := p.at(xs[i], ys[i])
		verb := "L"
		if i == 0 {
			verb = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, x, y)
		if dots {
			fmt.Fprintf(p, `<circle cx="%.1f" cy="%.1f" r="4" class="%s"/>`, x, y, color)
		}
	}
	fmt.Fprintf(p, `<path d="%s" class="line %s" stroke-dasharray="%s"/>`, path.String(), color, cmp.Or(dash, "none"))
}

func (p *plot) key(i int, color, dash, text string) {
	x, y := p.x0+float64(i%2)*p.w/2, p.y0+p.h+52+float64(i/2)*19
	fmt.Fprintf(p, `<path d="M%.1f %.1fh20" class="line %s" stroke-dasharray="%s"/><text x="%.1f" y="%.1f">%s</text>`, x, y-4, color,
		cmp.Or(dash, "none"), x+26, y+1, esc(text))
}

func (p *plot) done(title string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 480 %.0f" role="img" aria-label="%s">%s</svg>`, p.height, esc(title), p.String()))
}

func latencyPlot(all []bench.Case) template.HTML {
	var cases []bench.Case
	for _, c := range all {
		if len(c.Latency) > 1 {
			cases = append(cases, c)
		}
	}
	cases, is := looks(cases)
	tokens, top := 2.0, 0.0
	for _, c := range cases {
		tokens = max(tokens, float64(len(c.Latency)+1))
		for _, v := range c.Latency {
			top = max(top, v)
		}
	}
	if len(cases) == 0 {
		return "<p>No case has enough tokens.</p>"
	}
	p := newPlot(len(cases), 2, tokens, 0, top*1.08, false, false)
	p.axes("token of the answer", "ms since the one before", nil)
	for i, c := range cases {
		// More points than the screen has make the page large, not the picture better.
		every := len(c.Latency)/400 + 1
		var xs, ys []float64
		for j := 0; j < len(c.Latency); j += every {
			xs, ys = append(xs, float64(j+2)), append(ys, c.Latency[j])
		}
		p.line(xs, ys, is[i].color, is[i].dash, false)
		p.key(i, is[i].color, is[i].dash, c.Load.String())
	}
	return p.done("milliseconds between tokens, by place in the answer")
}

func stagePlot(cases []bench.Case) template.HTML {
	cases = cases[:min(len(cases), mostShown)]
	if len(cases) == 0 {
		return ""
	}
	names := cases[0].Stages
	var b strings.Builder
	y := 16.0
	for _, c := range cases {
		all := 0.0
		for _, s := range c.Stages {
			all += s.Token
		}
		fmt.Fprintf(&b, `<text x="0" y="%.1f">%s: %s ms a token</text>`, y, esc(c.Load.String()), trim(all/1e3))
		x := 0.0
		for i, s := range c.Stages {
			w := 480 * s.Token / max(all, 1e-9)
			if w >= 0.1 {
				fmt.Fprintf(&b, `<rect x="%.2f" y="%.1f" width="%.2f" height="20" class="%s"><title>%s: %.1f us, %.1f%%</title></rect>`, x,
					y+6, w, stageColors[i%len(stageColors)], esc(s.Name), s.Token, s.Share)
			}
			x += w
		}
		y += 46
	}
	for i, s := range names {
		x, ky := float64(i%3)*160, y+float64(i/3)*19
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="12" height="12" rx="2" class="%s"/><text x="%.1f" y="%.1f">%s</text>`, x, ky-10,
			stageColors[i%len(stageColors)], x+18, ky+1, esc(s.Name))
	}
	return template.HTML(fmt.Sprintf(`<svg viewBox="0 0 480 %.0f" role="img" aria-label="stages of a token">%s</svg>`,
		y+float64((len(names)+2)/3)*19, b.String()))
}

// layersPlot shows what each layer takes of a token.
func layersPlot(all []bench.Case) template.HTML {
	cases, is := looks(all)
	layers, top := 1.0, 0.0
	for _, c := range cases {
		layers = max(layers, float64(len(c.Each)-1))
		for _, v := range c.Each {
			top = max(top, v)
		}
	}
	p := newPlot(len(cases), 0, layers, 0, top*1.08/1e3, false, false)
	p.axes("layer", "ms a token", nil)
	for i, c := range cases {
		var xs, ys []float64
		for l, v := range c.Each {
			xs, ys = append(xs, float64(l)), append(ys, v/1e3)
		}
		p.line(xs, ys, is[i].color, is[i].dash, false)
		p.key(i, is[i].color, is[i].dash, c.Load.String())
	}
	return p.done("milliseconds of a token in each layer")
}

func clientsPlot(cases []bench.Case) template.HTML {
	type line struct {
		name, color string
		xs, ys      []float64
	}
	var all []*line
	at := map[string]*line{}
	top, most := 0.0, 1.0
	cases, is := looks(cases)
	for i, c := range cases {
		if c.Decode.Median <= 0 {
			continue
		}
		name := series(&c)
		s := at[name]
		if s == nil {
			s = &line{name: name, color: is[i].color}
			at[name] = s
			all = append(all, s)
		}
		s.xs, s.ys = append(s.xs, float64(c.Clients)), append(s.ys, c.Decode.Median)
		top, most = max(top, c.Decode.Median), max(most, float64(c.Clients))
	}
	if len(all) == 0 {
		return "<p>No case has enough tokens.</p>"
	}
	p := newPlot(len(all), 1, max(most, 2), 0, top*1.1, true, false)
	p.axes("clients", "tokens/s, all together", counts(cases))
	for i, s := range all {
		p.line(s.xs, s.ys, s.color, "", true)
		p.key(i, s.color, "", s.name)
	}
	return p.done("tokens a second against clients")
}

// counts are the numbers of clients that were measured.
func counts(cases []bench.Case) (out []float64) {
	for _, c := range cases {
		if n := float64(c.Clients); c.Decode.Median > 0 && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

func rooflinePlot(r *bench.Roofline) template.HTML {
	if r.Limit <= 0 || len(r.Points) == 0 {
		return ""
	}
	most, low, high := 2.0, math.Inf(1), 0.0
	var clients []float64
	for _, q := range r.Points {
		clients = append(clients, float64(q.Clients))
		most, low, high = max(most, float64(q.Clients)), min(low, q.Reached), max(high, q.Limit, q.Reached)
	}
	shared := "clients that share a reading of the weights"
	if r.States > 0 {
		shared = "clients that take turns"
	}
	p := newPlot(2, 1, most, low*0.7, high*1.4, true, true)
	p.axes(shared, "tokens/s", clients)
	var xs, ys, mx, my []float64
	for n := 1.0; n < most*1.001; n *= math.Pow(most, 1.0/32) {
		xs = append(xs, n)
		ys = append(ys, r.LimitOf(n))
	}
	for _, q := range r.Points {
		mx, my = append(mx, float64(q.Clients)), append(my, q.Reached)
	}
	p.line(xs, ys, "limit", "6 4", false)
	p.line(mx, my, "best", "", true)
	p.key(0, "limit", "6 4", "limit of the memory")
	p.key(1, "best", "", "the best that was measured")
	return p.done("roofline: the memory's limit and what was measured")
}
