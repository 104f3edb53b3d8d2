package engine

import "strings"

// stopper finds stop strings in text that arrives in parts. It holds back only what may still
// become a stop string.
type stopper struct {
	stops []string
	held  string
}

// write returns the text that is certainly not part of a stop string, and the stop string that was
// found, if any. The text after it is dropped.
func (s *stopper) write(text string) (out, stop string) {
	if len(s.stops) == 0 {
		return text, ""
	}
	text = s.held + text
	s.held = ""
	at := -1
	for _, st := range s.stops {
		if i := strings.Index(text, st); i >= 0 && (at < 0 || i < at || i == at && len(st) > len(stop)) {
			at, stop = i, st
		}
	}
	if at >= 0 {
		return text[:at], stop
	}
	keep := 0
	for _, st := range s.stops {
		for n := min(len(st)-1, len(text)); n > keep; n-- {
			if strings.HasSuffix(text, st[:n]) {
				keep = n
				break
			}
		}
	}
	s.held = text[len(text)-keep:]
	return text[:len(text)-keep], ""
}

// flush returns the text that was held back, at the end of an answer without a stop string.
func (s *stopper) flush() string {
	t := s.held
	s.held = ""
	return t
}
