package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// timeForm is a letter of strftime's, and timeVerbs most of their layouts; a minus takes zeros off
// the front.
var (
	timeForm  = regexp.MustCompile(`%-?[a-zA-Z%]`)
	timeVerbs = map[byte]string{
		'Y': "2006", 'y': "06", 'm': "01", 'B': "January", 'b': "Jan", 'h': "Jan", 'd': "02", 'e': "_2", 'j': "002", 'A': "Monday",
		'a': "Mon", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'Z': "MST", 'z': "-0700", 'F': "2006-01-02", 'T': "15:04:05",
		'R': "15:04", 'D': "01/02/06", 'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05", 'n': "\n", 't': "\t",
		'%': "%",
	}
)

// strftime is Python's, in English.
func strftime(t time.Time, format string) string {
	return timeForm.ReplaceAllStringFunc(format, func(verb string) string {
		c := verb[len(verb)-1]
		layout, ok := timeVerbs[c]
		out := t.Format(layout)
		switch {
		case ok:
		case c == 'f':
			out = fmt.Sprintf("%06d", t.Nanosecond()/1000)
		case c == 's':
			out = strconv.FormatInt(t.Unix(), 10)
		case c == 'u':
			out = strconv.Itoa((int(t.Weekday())+6)%7 + 1)
		case c == 'w':
			out = strconv.Itoa(int(t.Weekday()))
		default:
			return verb
		}
		if len(verb) == len("%-d") {
			if out = strings.TrimLeft(out, "0 "); out == "" {
				return "0"
			}
		}
		return out
	})
}
