package jinja

import (
	"regexp"
	"strings"
)

// timeForm is a letter of strftime's, and timeVerbs their layouts; a minus takes zeros off the
// front.
var (
	timeForm  = regexp.MustCompile(`%-?(.|$)`)
	timeVerbs = map[byte]string{
		'Y': "2006", 'y': "06", 'm': "01", 'B': "January", 'b': "Jan", 'd': "02", 'e': "_2", 'j': "002", 'A': "Monday", 'a': "Mon",
		'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05",
		'R': "15:04", 'D': "01/02/06", '%': "%",
	}
)

// strftime is Python's, in English.
func (r *run) strftime(format string) string {
	return timeForm.ReplaceAllStringFunc(format, func(verb string) string {
		layout, ok := timeVerbs[verb[len(verb)-1]]
		if !ok {
			r.failf("strftime_now with %q is not supported", verb)
		}
		out := r.now.Format(layout)
		if strings.HasPrefix(verb, "%-") {
			out = strings.TrimLeft(out, "0 ")
			if out == "" {
				return "0"
			}
		}
		return out
	})
}
