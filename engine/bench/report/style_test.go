package report

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The report has the page's colours, in light and in dark.
func TestSameLook(t *testing.T) {
	css := ""
	for _, name := range []string{"first.css", "base.css", "views.css"} {
		b, err := os.ReadFile("../../../server/ui/style/" + name)
		if err != nil {
			t.Fatal(err)
		}
		css += string(b)
	}
	light, dark, _ := strings.Cut(style, "@media")
	for _, half := range []string{light, dark} {
		found := regexp.MustCompile(`--(paper|raised|soft|line|ink|dim|go|s[1-6]):(#[0-9a-f]+)`).FindAllStringSubmatch(half, -1)
		if len(found) != 13 {
			t.Errorf("%d colours, want 13", len(found))
		}
		for _, m := range found {
			if !regexp.MustCompile(`--` + m[1] + `: ` + m[2] + `\b`).MatchString(css) {
				t.Errorf("--%s is %s here and another colour in the page", m[1], m[2])
			}
		}
	}
}
