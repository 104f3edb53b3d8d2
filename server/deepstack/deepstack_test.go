package deepstack

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/axle-llm/axle/ask"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAnswer: an answer has whole pixels, an empty list where there is nothing, and an error its
// text.
func TestAnswer(t *testing.T) {
	b, err := Answer([]ask.Detection{{Label: "dog", Confidence: 0.987654, X0: 1.4, Y0: 2.5, X1: 30, Y1: 40.6}})
	const want = `{"success":true,"predictions":[{"label":"dog","confidence":0.9877,` +
		`"y_min":3,"x_min":1,"y_max":41,"x_max":30}]}`
	if err != nil || string(b) != want {
		t.Errorf("%s %v, want %s", b, err, want)
	}
	if b, err := Answer(nil); err != nil || string(b) != `{"success":true,"predictions":[]}` {
		t.Errorf("nothing: %s %v", b, err)
	}
	if b := Dialect().Error(errors.New("x"), 400, `no "picture"`); string(b) != `{"success":false,"error":"no \"picture\""}` {
		t.Errorf("%s", b)
	}
}

// TestLeast: a confidence is between 0 and 1, and 0.4 where none is said.
func TestLeast(t *testing.T) {
	for value, want := range map[string]float64{"": 0.4, "0": 0, "0.65": 0.65, "1": 1, "1.01": -1, "-1": -1, "NaN": -1, "x": -1,
		"40%": -1} {
		if v, err := Least(value); (err == nil) != (want >= 0) || err == nil && v != want {
			t.Errorf("%q: %g, %v", value, v, err)
		}
	}
}
