package terminal

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestPlot(t *testing.T) {
	for _, c := range []struct {
		name          string
		values        []float64
		columns, rows int
		want          []string
	}{
		{"a ramp", []float64{0, 1, 2, 3, 4, 5, 6, 7, 8}, 5, 2, []string{"⠀⠀⠀⣠⣾", "⢀⣠⣾⣿⣿"}},
		{"the last ones", []float64{8, 8, 8, 8, 0, 0}, 1, 1, []string{"⣀"}},
		{"a gap, and what is beyond", []float64{99, math.NaN(), -5, 8}, 2, 1, []string{"⡇⣸"}},
		{"nothing", nil, 2, 1, []string{"⠀⠀"}},
		{"no room", []float64{1}, 0, 3, nil},
	} {
		if got := Plot(c.values, c.columns, c.rows, 0, 8); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestMap(t *testing.T) {
	runs := []Run{{4, -1, false}, {4, 1, false}, {4, 2, true}, {0, 5, false}, {8, 0, false}}
	for _, c := range []struct {
		columns, rows, per int
		want               []string
	}{
		{20, 1, 1, []string{"▓▓▓▓████▒▒▒▒········"}},
		{10, 2, 1, []string{"▓▓▓▓████▒▒", "▒▒········"}},
		{5, 1, 4, []string{"▓█▒··"}},
		{3, 1, 7, []string{"▓▒·"}},
		{200, 9, 1, []string{"▓▓▓▓████▒▒▒▒········"}},
	} {
		got, per := Map(runs, c.columns, c.rows, false)
		if !slices.Equal(got, c.want) || per != c.per {
			t.Errorf("%d by %d: %q, %d cells a block, want %q, %d", c.columns, c.rows, got, per, c.want, c.per)
		}
	}
	if got, _ := Map(runs, 20, 1, true); strings.Count(got[0], "\x1b[38;5;") != 2 || !strings.Contains(got[0], "\x1b[0m·") {
		t.Errorf("in colour: %q", got)
	}
	if got, per := Map(nil, 20, 1, true); got != nil || per != 0 {
		t.Errorf("no cells: %q, %d", got, per)
	}
}
