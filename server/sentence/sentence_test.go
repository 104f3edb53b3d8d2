package sentence

import (
	"strings"
	"testing"
)

// TestEnded: where a text is cut while its rest is still to come.
func TestEnded(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		"No end":                       "",
		"This ends.":                   "",
		"This ends. ":                  "This ends. ",
		"This ends. That too! And":     "This ends. That too! ",
		"She said “Hello!” and":        "She said “Hello!” ",
		"Mr. Smith, Dr. Who e.g. no. ": "",
		"It is 3.14159 and":            "",
		"One line\nand":                "One line\n",
		// A mark ends a sentence before what is behind it has come, but for a full stop.
		"And you?":                   "And you?",
		"Stop! Who is there?!":       "Stop! Who is there?!",
		"Wait…":                      "Wait…",
		"She said “Hello!”":          "She said “Hello!”",
		"He asked (why?":             "He asked (why?",
		"Look?q":                     "",
		"That is so! \"":             "That is so! ",
		"Really?\n\"":                "Really?\n",
		"Open a main.":               "",
		"Well...":                    "",
		"What?.":                     "",
		"Yes! It is 3.":              "Yes! ",
		"你好。我":                       "你好。",
		strings.Repeat("word ", 401): strings.Repeat("word ", 401),
		strings.Repeat("a", 2001):    strings.Repeat("a", 2001),
		// A beginning that is too short to be spoken alone does not keep the rest back.
		"Hi! " + strings.Repeat("word ", 401): "Hi! " + strings.Repeat("word ", 401),
		"Hi! " + strings.Repeat("a", 2001):    "Hi! " + strings.Repeat("a", 2001),
	} {
		if got := in[:ended(in)]; got != want {
			t.Errorf("%.30q: %.30q, want %.30q", in, got, want)
		}
	}
}
