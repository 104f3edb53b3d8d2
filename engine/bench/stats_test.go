package bench

import (
	"math"
	"strings"
	"testing"
)

func TestDiffer(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b []float64
		want float64 // as R's wilcox.test says
	}{
		{"apart, 5 and 5", []float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}, 2.0 / 252},
		{"apart, 4 and 4", []float64{1, 2, 3, 4}, []float64{9, 8, 7, 6}, 2.0 / 70},
		{"apart, 3 and 3", []float64{1, 2, 3}, []float64{9, 8, 7}, 0.1},
		{"apart with ties within", []float64{1, 1, 1, 1}, []float64{2, 2, 2, 2}, 2.0 / 70},
		{"one between", []float64{1, 2, 3, 6}, []float64{5, 7, 8, 9}, 4.0 / 70},
		{"mixed", []float64{1, 3, 5, 7}, []float64{2, 4, 6, 8}, 48.0 / 70},
		{"all the same", []float64{5, 5, 5, 5}, []float64{5, 5, 5, 5}, 1},
		{"none", nil, []float64{1}, 1},
	} {
		if got := Differ(tt.a, tt.b); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if got := Differ(tt.b, tt.a); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s, turned: %v, want %v", tt.name, got, tt.want)
		}
	}
	var a, b []float64
	for i := range 40 {
		a, b = append(a, float64(i)), append(b, float64(i)+30)
	}
	if p := Differ(a, b); p > 1e-6 {
		t.Errorf("40 values far apart: %v", p)
	}
}

func TestSample(t *testing.T) {
	s := NewSample([]float64{10, 12, 9, 11, 30})
	if s.Median != 11 || s.Low != 9 || s.High != 30 || math.Abs(s.Spread()-100*19.0/11) > 1e-9 || s.String() != "11.00 ±173%" {
		t.Errorf("%+v %s", s, s)
	}
	if NewSample(nil).String() != "-" || !math.IsNaN(Percentile(nil, 0.5)) || Percentile([]float64{1, 2}, 0.5) != 1.5 ||
		Percentile([]float64{3}, 0.99) != 3 {
		t.Error("small samples")
	}
}

// TestRooflineSays names what takes most of a token.
func TestRooflineSays(t *testing.T) {
	base := Case{Load: Load{Prompt: 1, Output: 9, Clients: 1}, Decode: NewSample([]float64{100})} // 10 ms
	for _, tt := range []struct {
		name   string
		bytes  int64 // at 1 GB/s: a million is a millisecond
		states int64 // likewise
		token  Parts
		want   string
	}{
		{"memory", 8e6, 0, Parts{Layers: 9e6}, "Memory holds it back: 80 %"},
		{"fixed", 2e6, 0, Parts{Layers: 8e6, Head: 1e6}, "fixed cost holds it back: 70 %"},
		{"link", 1e6, 0, Parts{Layers: 2e6, Upload: 3e6, Down: 4e6}, "The link holds it back: 70 %"},
		{"host", 1e6, 0, Parts{Layers: 2e6, Upload: 1e6}, "The host holds it back: 70 %"},
		{"too fast", 20e6, 0, Parts{Layers: 9e6}, "faster than memory allows: weights stayed in a cache"},
		{"memory, with states", 6e6, 2e6, Parts{Layers: 9e6},
			"80 % of a token is reading weights, cache and states. A smaller quantization would help; more clients at once would not"},
		{"fixed, with states", 1e6, 1e6, Parts{Layers: 8e6, Head: 1e6},
			"70 % of a token goes to the card's 7 calls beyond what reading takes. Layers that keep a state"},
	} {
		c := base
		c.Token = tt.token
		r := NewRoofline(tt.bytes, 0, tt.states, 1e9, "test", 7, []Case{c})
		if !strings.Contains(r.Text, tt.want) {
			t.Errorf("%s: %s", tt.name, r.Text)
		}
		if want := min(float64(tt.bytes+tt.states)/1e5, 100); math.Abs(r.Share-want) > 0.01 {
			t.Errorf("%s: %v %% of the limit, want %v", tt.name, r.Share, want)
		}
	}
	if r := NewRoofline(1, 1, 0, 0, "", 1, nil); !strings.Contains(r.Text, "--profile") {
		t.Error(r.Text)
	}
	if r := NewRoofline(1, 1, 0, 1, "", 1, nil); !strings.Contains(r.Text, "No case") {
		t.Error(r.Text)
	}
	if read, copied := Memory(0); read <= 0 || copied <= 0 {
		t.Error(read, copied)
	}
}
