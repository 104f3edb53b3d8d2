package features

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	lfrFrames = 7 // in a row
	lfrHop    = 6
)

// LFRWidth is how many values a row of [AppendLFR] has.
const LFRWidth = lfrFrames * FbankBins

// LFRRows is how many rows [AppendLFR] makes of frames.
func LFRRows(frames int) int { return (frames + lfrHop - 1) / lfrHop }

// AppendLFR joins frames of an [Fbank] to rows of seven, six frames apart ("low frame rate"), and
// appends them to dst. Row i has the frames 6·i−3 to 6·i+3; before the first frame and after the
// last, these are repeated. An incomplete frame at the end is left out.
func AppendLFR(dst, frames []float32) []float32 {
	n := len(frames) / FbankBins
	for i := range LFRRows(n) {
		for k := range lfrFrames {
			at := max(0, min(lfrHop*i+k-lfrFrames/2, n-1))
			dst = append(dst, frames[at*FbankBins:][:FbankBins]...)
		}
	}
	return dst
}

// CMVN shifts and scales the values of rows: one shift and one scale for each column.
type CMVN struct{ shift, scale []float32 }

const (
	maxCMVN  = 1 << 20 // bytes of a file: SenseVoice's has 11 thousand
	maxWidth = 4096
)

// ReadCMVN reads a file am.mvn, as FunASR's models have it: text in Kaldi's form, with the list in
// brackets after <AddShift> and the one after <Rescale>. Files of more than a mebibyte, missing,
// doubled or unequal lists, rows of more than 4096 columns and numbers that are not finite are
// errors.
func ReadCMVN(text []byte) (*CMVN, error) {
	if len(text) > maxCMVN {
		return nil, fmt.Errorf("features: am.mvn has %d bytes, at most %d are read", len(text), maxCMVN)
	}
	c := &CMVN{}
	var list *[]float32 // where the next list goes
	open := false
	for word := range strings.FieldsSeq(string(text)) {
		switch {
		case open && word == "]":
			list, open = nil, false
		case open:
			v, err := strconv.ParseFloat(word, 32)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
				return nil, fmt.Errorf("features: am.mvn: %.40q stands where a number should", word)
			}
			if len(*list) == maxWidth {
				return nil, fmt.Errorf("features: am.mvn: a list of more than %d numbers", maxWidth)
			}
			*list = append(*list, float32(v))
		case word == "<AddShift>":
			list = &c.shift
		case word == "<Rescale>":
			list = &c.scale
		case word == "[" && list != nil:
			if len(*list) > 0 {
				return nil, errors.New("features: am.mvn has two lists of a kind")
			}
			open = true
		}
	}
	switch {
	case open:
		return nil, errors.New("features: am.mvn ends within a list: fetch the file again")
	case len(c.shift) == 0 || len(c.scale) == 0:
		return nil, errors.New("features: am.mvn has no list after <AddShift>, or none after <Rescale>: it is another kind of file")
	case len(c.shift) != len(c.scale):
		return nil, fmt.Errorf("features: am.mvn shifts %d columns and scales %d", len(c.shift), len(c.scale))
	}
	return c, nil
}

// Width is how many columns the rows have.
func (c *CMVN) Width() int { return len(c.shift) }

// Apply makes (x + shift)·scale of every value. Rows that are not whole are an error.
func (c *CMVN) Apply(rows []float32) error {
	width := c.Width()
	if len(rows)%width != 0 {
		return fmt.Errorf("features: %d values are no rows of the %d columns that am.mvn has", len(rows), width)
	}
	for ; len(rows) > 0; rows = rows[width:] {
		for i := range width {
			rows[i] = (rows[i] + c.shift[i]) * c.scale[i]
		}
	}
	return nil
}
