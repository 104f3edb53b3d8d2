package vad

import "fmt"

// Options say when a [Listener] takes speech to start and to be over. Zero values stand for
// Silero's own, and for 0.7 s.
type Options struct {
	Speech  float32 // the probability from which speech starts; 0: 0.5
	Silence float32 // the probability below which silence begins, at most Speech; 0: Speech − 0.15
	Stop    int     // after so many samples of silence speech has stopped; 0: 1600, a tenth of a second
	Pad     int     // speech starts so many samples earlier, and stops so many later; 0: 480, 30 ms
	End     int     // after so many samples of silence what was said is at its end; 0: 11200, 0.7 s
}

// Kind is a kind of [Event].
type Kind int

const (
	Started Kind = iota + 1 // speech starts
	Stopped                 // it stopped; it may start again, as after a pause in a sentence
	Ended                   // it stopped, and has not started again for Options.End samples
)

// Event says what happened at a sample, by its number from the beginning of the stream on.
type Event struct {
	Kind   Kind
	Sample int // Ended has that of the last Stopped
}

// Listener finds speech in a stream of samples, as it comes. Its events do not depend on the blocks
// in which the samples come, and their samples never fall.
type Listener struct {
	probability func(window []float32) (float32, error)
	o           Options
	window      []float32
	heard       int // samples of whole windows
	speaking    bool
	quiet       int // the sample at which silence began, or −1
	stopped     int // the sample at which speech stopped last
	ending      bool
}

// NewListener makes a listener that asks for the probability of speech in each [Window] samples,
// one after the other: the Next of a [Stream], or what asks a card. Options out of range are
// errors.
func NewListener(probability func(window []float32) (float32, error), o Options) (*Listener, error) {
	for _, d := range []struct {
		value *int
		zero  int
	}{{&o.Stop, SampleRate / 10}, {&o.Pad, 30 * SampleRate / 1000}, {&o.End, 7 * SampleRate / 10}} {
		if *d.value == 0 {
			*d.value = d.zero
		}
		if *d.value < 0 {
			return nil, fmt.Errorf("vad: Stop, Pad or End is %d samples: none may be below 0", *d.value)
		}
	}
	if o.Speech == 0 {
		o.Speech = 0.5
	}
	if o.Silence == 0 {
		o.Silence = max(o.Speech-0.15, 0.01)
	}
	if !(o.Silence > 0 && o.Silence <= o.Speech && o.Speech <= 1) {
		return nil, fmt.Errorf("vad: speech from %v and silence below %v: these must be probabilities, the second no larger", o.Speech,
			o.Silence)
	}
	return &Listener{probability: probability, o: o, window: make([]float32, 0, Window), quiet: -1}, nil
}

// Add takes the next samples and returns what they tell. An error is the probability's: the samples
// of its window, and those after it, are not heard.
func (l *Listener) Add(samples []float32) (events []Event, err error) {
	for len(samples) > 0 {
		n := min(len(samples), Window-len(l.window))
		l.window = append(l.window, samples[:n]...)
		samples = samples[n:]
		if len(l.window) < Window {
			break
		}
		p, err := l.probability(l.window)
		l.window = l.window[:0]
		if err != nil {
			return events, err
		}
		events = l.step(events, p)
	}
	return events, nil
}

// step takes a window's probability.
func (l *Listener) step(events []Event, p float32) []Event {
	begin := l.heard
	l.heard += Window
	switch {
	case p >= l.o.Speech:
		l.quiet = -1
		if !l.speaking {
			l.speaking, l.ending = true, false
			events = append(events, Event{Started, max(begin-l.o.Pad, l.stopped)})
		}
	case p < l.o.Silence && l.quiet < 0:
		l.quiet = begin
	}
	silence := 0
	if l.quiet >= 0 {
		silence = l.heard - l.quiet
	}
	if l.speaking && silence >= l.o.Stop {
		l.speaking, l.ending = false, true
		l.stopped = min(l.quiet+l.o.Pad, l.heard)
		events = append(events, Event{Stopped, l.stopped})
	}
	if l.ending && silence >= l.o.End {
		l.ending = false
		events = append(events, Event{Ended, l.stopped})
	}
	return events
}

// Finish says what the end of the stream tells: speech that goes on stops there, and what was said
// is at its end. The last samples, fewer than a [Window], are taken to be as those before them. The
// listener hears nothing after it.
func (l *Listener) Finish() (events []Event) {
	end := l.heard + len(l.window)
	if l.speaking {
		l.stopped = end
		if l.quiet >= 0 {
			l.stopped = min(l.quiet+l.o.Pad, end)
		}
		events = append(events, Event{Stopped, l.stopped})
	}
	if l.speaking || l.ending {
		events = append(events, Event{Ended, l.stopped})
	}
	l.speaking, l.ending = false, false
	return events
}
