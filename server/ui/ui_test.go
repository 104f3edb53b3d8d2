package ui

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// The page is whole: one script, one style, both named by the policy, and nothing from elsewhere.
func TestPage(t *testing.T) {
	p := string(Page())
	if strings.Count(p, "<script>") != 1 || strings.Count(p, "<style>") != 1 || strings.Count(p, "<script") != 1 {
		t.Error("the policy names one script and one style")
	}
	if m := regexp.MustCompile(`(?i)(src|href)\s*=\s*"[^"]+"|url\(|@import|https?://|\sstyle=|\son\w+=`).FindAllString(p, -1); len(m) != 1 || m[0] != `href="data:,"` {
		t.Errorf("the page refers to %q", m)
	}
	if len(p) > 16<<10 {
		t.Errorf("%d bytes", len(p))
	}
	if pol := Policy(); strings.Count(pol, "'sha256-") != 2 || !strings.Contains(pol, "default-src 'none'") || strings.Contains(pol, "unsafe") {
		t.Errorf("policy %s", pol)
	}
}

// A new chat begins empty, whatever the old one's answer was doing; a question that failed is not sent again with the next.
func TestNewChat(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here")
	}
	out, err := exec.CommandContext(t.Context(), node, "testdata/chat.mjs", "index.html").CombinedOutput()
	if want := "user one\nuser two\nuser three\nuser three, assistant yes, user four\n"; err != nil || string(out) != want {
		t.Errorf("sent %q, %v, want %q", out, err, want)
	}
}
