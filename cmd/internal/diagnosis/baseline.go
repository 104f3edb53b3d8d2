package diagnosis

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/axle-llm/axle/axcl/axcltest"
	"github.com/axle-llm/axle/axcl/cards"
	"github.com/axle-llm/axle/internal/regular"
	"github.com/axle-llm/axle/models"
)

// legend says once what the figures of the checks are.
const legend = "how far the furthest row is from one that is rounded nowhere: a right card is about as far as bf16 arithmetic"

// figures is what a check measured, in words; empty where it measured nothing.
func (c Check) figures() string {
	var parts []string
	percent := func(what string, f *float64) {
		if f != nil {
			parts = append(parts, fmt.Sprintf("%s %.2f %%", what, 100**f))
		}
	}
	percent("card", c.Card)
	percent("bf16", c.BF16)
	percent("card in the baseline", c.Before)
	percent("rows have moved from the baseline's by", c.Moved)
	return strings.Join(parts, ", ")
}

// baseline is what a run of the suite measured, as a file keeps it.
type baseline struct {
	Form     int        `json:"axle_baseline"`
	Suite    string     `json:"suite"` // the checks or the package that it is of
	Device   string     `json:"device"`
	Firmware string     `json:"firmware,omitempty"`
	Library  string     `json:"library,omitempty"`
	Checks   []measured `json:"checks"`
}

// measured is a check's figures, or the rows that a vendor's model gave.
type measured struct {
	Name string     `json:"name"`
	Card *float64   `json:"card,omitempty"`
	BF16 *float64   `json:"bf16,omitempty"`
	Rows [][]uint16 `json:"rows,omitempty"`
}

// baselineForm is the form of the file that this program writes and reads, and largestBaseline how
// long it may be.
const (
	baselineForm    = 1
	largestBaseline = 4 << 20
)

// suiteOf names what the suite runs with: figures of two runs can be compared only where it is the
// same.
func suiteOf(model string, open func(string) (*models.Package, error)) (string, error) {
	if model == "" {
		var names bytes.Buffer
		for _, c := range axcltest.Checks(axcltest.Options{}) {
			fmt.Fprintln(&names, c.Name)
		}
		return fmt.Sprintf("the small models of this version of axle (%08x)", crc32.ChecksumIEEE(names.Bytes())), nil
	}
	p, err := open(model)
	if err != nil {
		return "", err
	}
	defer p.Close()
	return fmt.Sprintf("model %s (%s)", p.Name, p.Digest()), nil
}

// prepare reads the baseline and looks at where to save, before minutes are spent on the card.
func (o Options) prepare() (*baseline, error) {
	if !o.Conformance {
		return nil, nil
	}
	if o.Save != "" {
		if st, err := os.Stat(filepath.Dir(o.Save)); err != nil {
			return nil, fmt.Errorf("the baseline cannot be saved: %w", err)
		} else if !st.IsDir() {
			return nil, fmt.Errorf("the baseline cannot be saved: %s is no folder", filepath.Dir(o.Save))
		}
	}
	if o.Baseline == "" {
		return nil, nil
	}
	raw, err := regular.ReadPath(o.Baseline, largestBaseline)
	if err != nil {
		return nil, fmt.Errorf("the baseline cannot be read: %w", err)
	}
	b, err := parseBaseline(raw)
	if err != nil {
		return nil, fmt.Errorf("%s is no baseline that `axle doctor --conformance --save` wrote: %w", o.Baseline, err)
	}
	suite, err := suiteOf(o.Model, o.OpenPackage)
	if err != nil {
		return nil, err
	}
	if b.Suite != suite {
		return nil, fmt.Errorf("the baseline %s is of %s, and this run is of %s: name the same --model, or make a baseline with --save",
			o.Baseline, b.Suite, suite)
	}
	return b, nil
}

// parseBaseline reads a file and believes nothing of it.
func parseBaseline(raw []byte) (*baseline, error) {
	b := &baseline{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(b); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("something follows it")
	}
	if b.Form != baselineForm {
		return nil, fmt.Errorf("its form is %d, this program reads %d", b.Form, baselineForm)
	}
	names := []string{b.Suite, b.Device, b.Firmware, b.Library}
	for _, c := range b.Checks {
		names = append(names, c.Name)
	}
	for _, s := range names {
		if len(s) > 1000 || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return nil, fmt.Errorf("a name in it has %d bytes, or what cannot be printed", len(s))
		}
	}
	if len(b.Checks) == 0 {
		return nil, errors.New("it has no figures")
	}
	seen := map[string]bool{}
	for _, c := range b.Checks {
		in := func(f *float64) bool { return f != nil && *f >= 0 && *f <= axcltest.Furthest }
		figures, rows := in(c.Card) && in(c.BF16), c.Card == nil && c.BF16 == nil && len(c.Rows) > 0
		if seen[c.Name] || figures == rows || figures && c.Rows != nil {
			return nil, fmt.Errorf("check %.80q is there twice, or does not have two figures from 0 to %g or rows", c.Name,
				axcltest.Furthest)
		}
		seen[c.Name] = true
	}
	return b, nil
}

// keep compares what was measured with a baseline, if there is one, and saves it where that is
// wished.
func (d *Diagnosis) keep(o Options, before *baseline) {
	if before != nil {
		d.compare(o.Baseline, before)
	}
	if o.Save == "" {
		return
	}
	if !d.OK {
		d.Findings = append(d.Findings, cards.Finding{Name: "baseline", State: cards.Note,
			Text: o.Save + " is not written: what fails is no baseline"})
		return
	}
	if err := d.save(o.Save, o.Model); err != nil {
		d.problem(d.Device, fmt.Errorf("the baseline cannot be saved: %w", err), "name a file in a folder that you may write to")
		return
	}
	d.Findings = append(d.Findings, cards.Finding{Name: "baseline", State: cards.OK, Text: o.Save + " is written"})
}

// less says whether a card's figure is worse than it was. There is room for sums in another order,
// which move the furthest row a little.
func less(now, before float64) bool { return now > 1.25*before+0.001 }

// compare holds each check against the same one of a baseline.
func (d *Diagnosis) compare(path string, b *baseline) {
	text := fmt.Sprintf("compared with %s: %s", path, b.Device)
	if b.Firmware != "" {
		text += ", firmware " + b.Firmware
	}
	if b.Library != "" {
		text += ", library " + b.Library
	}
	d.Findings = append(d.Findings, cards.Finding{Name: "baseline", State: cards.OK, Text: text})
	whole := d.OK
	had := map[string]bool{}
	for _, was := range b.Checks {
		had[was.Name] = true
		i := slices.IndexFunc(d.Conformance, func(c Check) bool { return c.measures() == was.Name })
		if i < 0 {
			if whole { // else a check that failed says why
				d.Conformance = append(d.Conformance, Check{Name: was.Name})
				d.worse(&d.Conformance[len(d.Conformance)-1], "the baseline has figures of this check, and this run has none")
			}
			continue
		}
		c := &d.Conformance[i]
		switch {
		case was.Card != nil && c.Card != nil:
			//rule:G13 TestBaselineCompare false
			if c.Before = was.Card; less(*c.Card, *was.Card) {
				d.worse(c, "less precise than in the baseline")
			}
		case was.Rows != nil && sameShape(was.Rows, c.rows):
			c.Moved = new(float64)
			var other bool
			for r, row := range was.Rows {
				*c.Moved = max(*c.Moved, axcltest.Distance(c.rows[r], row))
				other = other || !(axcltest.Cosine(c.rows[r], row) >= axcltest.Same)
			}
			if other {
				d.worse(c, "rows differ from the baseline's by more than rounding")
			}
		default:
			d.worse(c, "the baseline's figures of this check are of another form")
		}
	}
	for i := range d.Conformance {
		if name := d.Conformance[i].measures(); name != "" && !had[name] && whole {
			d.worse(&d.Conformance[i], "the baseline has no figures of this check")
		}
	}
}

// worse makes a check one that failed.
func (d *Diagnosis) worse(c *Check, why string) {
	c.OK, d.OK = false, false
	c.Log = append(c.Log, why)
}

// measures is the name under which a baseline keeps what the check measured; empty: it measured
// nothing. A model's folder may be named in several ways, so its name is none.
func (c *Check) measures() string {
	switch {
	case c.Card != nil:
		return c.Name
	case c.rows != nil:
		return "rows of the model"
	}
	return ""
}

func sameShape(a, b [][]uint16) bool {
	return slices.EqualFunc(a, b, func(x, y []uint16) bool { return len(x) == len(y) })
}

// save writes what was measured, whole or not at all.
func (d *Diagnosis) save(path, model string) error {
	suite, err := suiteOf(model, d.open)
	if err != nil {
		return err
	}
	b := baseline{Form: baselineForm, Suite: suite, Device: d.Device}
	for _, c := range d.Devices {
		if c.ID == d.Device {
			b.Device, b.Firmware = c.ID+" "+c.Name, c.Firmware
		}
	}
	for _, l := range d.Libraries {
		if strings.HasPrefix(d.Device, l.Kind) {
			b.Library = l.Version
		}
	}
	for _, c := range d.Conformance {
		if name := c.measures(); name != "" {
			b.Checks = append(b.Checks, measured{name, c.Card, c.BF16, c.rows})
		}
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return regular.Replace(path, 0o600, append(raw, '\n'))
}
