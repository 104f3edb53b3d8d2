package jinja

import "testing"

// TestCase: letters whose other case is no single letter, as Python has them.
func TestCase(t *testing.T) {
	for src, want := range map[string]string{
		"{{ 'ŉß'.title() }}|{{ 'ŉ'.capitalize() }}|{{ 'ß'|title }}": "ʼNß|ʼN|SS",
		"{{ 'ß'|upper }}{{ 'ﬁx'|capitalize }}{{ 'ΑΣ Σ'.lower() }}":  "SSFixας σ",
		"{{ 'ǆ'.title() }}{{ 'ǆ'.upper() }}{{ 'aB-c d'|title }}":    "ǅǄAb-C D",
		"{{ 'aBß ŉǅ日ΑΣ ΑΣa aΣ İ'.swapcase() }}{{ ''.swapcase() }}":  "AbSS ʼNǅ日ας ασA Aς i̇",
		"{{ '日本語back ªb 1a ⅷx ʰa'.title() }}":                       "日本語Back ªb 1A Ⅷx ʰa",
		"{{ 'they\\'re'.title() }} {{ 'they\\'re'|title }}":         "They'Re They're",
	} {
		if out, err := render(t, src, nil); err != nil || out.String() != want {
			t.Errorf("%s: %q %v, want %q", src, out, err, want)
		}
	}
}
