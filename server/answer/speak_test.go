package answer

import "testing"

// TestSpoken: a voice speaks the language that is asked for if its own is that, or one of its
// regions.
func TestSpoken(t *testing.T) {
	for _, tt := range []struct {
		asked, tag string
		want       bool
	}{
		{"", "en-US", true}, {"", "", true}, {"en", "en", true}, {"en", "en-GB", true}, {"EN_gb", "en-GB", true},
		{"zh-Hans", "zh_hans_CN", true},
		{"en", "", false}, {"en", "eng", false}, {"en-GB", "en", false}, {"en-GB", "en-US", false}, {"en-G", "en-GB", false},
	} {
		if got := spoken(tt.asked, tt.tag); got != tt.want {
			t.Errorf("%q of a voice of %q: %v", tt.asked, tt.tag, got)
		}
	}
}
