package vad

import (
	"fmt"
	"math"
	"slices"
)

const (
	hop       = SampleRate / 100 // samples of which one level is taken; pieces are cut between hops
	around    = 10               // hops on each side of a cut that are to be quiet
	least     = SampleRate       // of a longest piece
	most      = 600 * SampleRate
	alike     = 3.  // decibels: places that differ by no more are as quiet
	aboveTalk = 9.  // decibels above the noise of what may be speech,
	neverTalk = -60 // decibels of full scale: unless it is below this,
	mayTalk   = -40 // and always if it is above this
	loudHops  = 5   // so many make a piece that is not silent
)

// Piece is a part of a stream.
type Piece struct {
	Start   int // how many samples are before it
	Samples []float32
	Silent  bool // nothing in it stands out from the noise: there is nothing to recognise
}

// Splitter cuts a stream of samples in pieces. Together these are the stream: no sample is lost or
// doubled. A piece is cut in its second half, where a fifth of a second is the quietest: in the
// middle of the last such pause. The pieces do not depend on the blocks in which the samples come.
type Splitter struct {
	longest int
	start   int // of held
	held    []float32
	power   []float64 // of each whole hop of held: the mean square
}

// NewSplitter makes pieces of at most longest samples. Less than a second and more than ten minutes
// are errors.
func NewSplitter(longest int) (*Splitter, error) {
	if longest < least || longest > most {
		return nil, fmt.Errorf("vad: pieces of at most %d samples: it must be %d to %d", longest, least, most)
	}
	return &Splitter{longest: longest}, nil
}

// Add takes the next samples, and returns the pieces that are complete, if any. Their samples are
// the caller's.
func (s *Splitter) Add(samples []float32) (pieces []Piece) {
	for len(samples) > 0 {
		n := min(len(samples), s.longest+1-len(s.held))
		s.held = append(s.held, samples[:n]...)
		samples = samples[n:]
		for hop*(len(s.power)+1) <= len(s.held) {
			s.power = append(s.power, power(s.held[hop*len(s.power):][:hop]))
		}
		if len(s.held) > s.longest {
			pieces = append(pieces, s.cut(s.place()))
		}
	}
	return pieces
}

// Finish returns the rest, and begins the next stream. ok is false if there is no rest.
func (s *Splitter) Finish() (p Piece, ok bool) {
	if ok = len(s.held) > 0; ok {
		if rest := s.held[hop*len(s.power):]; len(rest) > 0 {
			s.power = append(s.power, power(rest))
		}
		p = s.cut(len(s.power))
	}
	s.start = 0
	return p, ok
}

// power is the mean square; what is no number counts as very loud.
func power(samples []float32) float64 {
	const loud = 1e6
	sum := 0.
	for _, x := range samples {
		sum += float64(x) * float64(x)
	}
	if mean := sum / float64(len(samples)); mean < loud {
		return mean
	}
	return loud
}

func decibels(power float64) float64 { return 10 * math.Log10(power+1e-12) }

// noise is the level that a tenth of hops is below.
func noise(power []float64) float64 {
	sorted := slices.Sorted(slices.Values(power))
	return decibels(sorted[len(sorted)/10])
}

// place is the number of hops after which a full buffer is cut.
func (s *Splitter) place() int {
	hops := s.longest / hop
	sums := make([]float64, hops+1)
	for i, p := range s.power[:hops] {
		sums[i+1] = sums[i] + p
	}
	level := func(at int) float64 {
		a, b := max(0, at-around), min(hops, at+around)
		return decibels(max(0, sums[b]-sums[a]) / float64(b-a))
	}
	half, quiet := (hops+1)/2, math.Inf(1)
	for at := half; at <= hops; at++ {
		quiet = min(quiet, level(at)+alike)
	}
	last := hops
	for level(last) > quiet {
		last--
	}
	first := last
	for first > half && level(first-1) <= quiet {
		first--
	}
	return (first + last + 1) / 2
}

// cut takes the samples of so many hops.
func (s *Splitter) cut(hops int) Piece {
	n := min(hops*hop, len(s.held))
	p := Piece{Start: s.start, Samples: slices.Clone(s.held[:n])}
	talk := min(max(noise(s.power[:hops])+aboveTalk, neverTalk), mayTalk)
	loud := 0
	for _, power := range s.power[:hops] {
		if decibels(power) > talk {
			loud++
		}
	}
	p.Silent = loud < loudHops
	s.start += n
	s.held = s.held[:copy(s.held, s.held[n:])]
	s.power = s.power[:copy(s.power, s.power[hops:])]
	return p
}
