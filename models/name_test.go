package models_test

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/axle-llm/axle/internal/fuzzguard"
	"github.com/axle-llm/axle/models"
)

func TestNames(t *testing.T) {
	//proves:T9
	for _, c := range []struct{ in, short, path string }{
		{"qwen3", "qwen3:latest", "registry.ollama.ai/library/qwen3/latest"},
		{"qwen3:0.6b", "qwen3:0.6b", "registry.ollama.ai/library/qwen3/0.6b"},
		{"AXERA-TECH/Qwen3-0.6B", "AXERA-TECH/Qwen3-0.6B:latest", "registry.ollama.ai/AXERA-TECH/Qwen3-0.6B/latest"},
		{"library/qwen3", "qwen3:latest", "registry.ollama.ai/library/qwen3/latest"},
		{"hf.co/AXERA-TECH/Qwen3-0.6B:main", "hf.co/AXERA-TECH/Qwen3-0.6B:main", "hf.co/AXERA-TECH/Qwen3-0.6B/main"},
		{"host:5000/a/b:c", "host:5000/a/b:c", "host:5000/a/b/c"},
		{"_x", "_x:latest", "registry.ollama.ai/library/_x/latest"},
		{strings.Repeat("a", 80), strings.Repeat("a", 80) + ":latest", "registry.ollama.ai/library/" + strings.Repeat("a", 80) + "/latest"},
	} {
		n, err := models.ParseName(c.in)
		if err != nil || n.String() != c.short || n.Path() != c.path {
			t.Errorf("%q: %q %q %v", c.in, n, n.Path(), err)
			continue
		}
		if back, err := models.NameFromPath(n.Path()); err != nil || back != n && !back.EqualFold(n) {
			t.Errorf("%q: back %q, %v", c.in, back, err)
		}
		if again, err := models.ParseName(n.String()); err != nil || again.Path() != n.Path() {
			t.Errorf("%q: again %q, %v", c.in, again, err)
		}
	}
	a, _ := models.ParseName("Qwen3:0.6B")
	if b, _ := models.ParseName("qwen3:0.6b"); !a.EqualFold(b) {
		t.Error("case matters")
	}
}

func TestDigests(t *testing.T) {
	//proves:T9
	hex := strings.Repeat("0123456789abcdef", 4)
	for _, ok := range []string{"sha256:" + hex, "sha256-" + hex, "sha256:" + strings.ToUpper(hex)} {
		d, err := models.ParseDigest(ok)
		if err != nil || d.String() != "sha256:"+hex || d.File() != "sha256-"+hex || d.Short() != hex[:12] || d.IsZero() {
			t.Errorf("%q: %v %v", ok, d, err)
		}
	}
	for _, bad := range []string{"", "sha256:", hex, "sha256:" + hex[1:], "sha256:" + hex + "0", "sha512:" + hex, "sha256_" + hex,
		"sha256:" + hex[:63] + "g",
		"sha256:../../../../../../../../../../../../../../../../../../etc/passwd", "sha256:" + strings.Repeat("/", 64), " sha256:" + hex,
		"sha256:" + hex + "\n"} {
		if d, err := models.ParseDigest(bad); !errors.Is(err, models.ErrDigest) || !d.IsZero() {
			t.Errorf("%q: %v %v", bad, d, err)
		}
	}
}

// A name that is accepted is four path elements that stay where they are put, prints as something
// that parses to itself, and has no character that a shell, a log or a URL would take for its own.
func FuzzName(f *testing.F) {
	//proves:T9
	for _, s := range modelsHostile() {
		f.Add(s)
	}
	f.Add("AXERA-TECH/Qwen3-0.6B:main")
	f.Add("libRary/xZid")
	f.Add("Registry.Ollama.ai/Library/x:Latest")
	f.Fuzz(func(t *testing.T, s string) {
		fuzzguard.Check(t, len(s), func() {
			n, err := models.ParseName(s)
			if err != nil {
				if !n.IsZero() {
					t.Fatalf("%q: an error and a name", s)
				}
				return
			}
			p := n.Path()
			if !fs.ValidPath(p) || path.Clean(p) != p || strings.Count(p, "/") != 3 || strings.ContainsAny(p, "\\ \x00\n\"'`$%;&|<>*?") ||
				len(p) > 600 {
				t.Fatalf("%q became the path %q", s, p)
			}
			for part := range strings.SplitSeq(p, "/") {
				if strings.HasPrefix(part, ".") || strings.HasPrefix(part, "-") {
					t.Fatalf("%q became the path %q", s, p)
				}
			}
			if again, err := models.ParseName(n.String()); err != nil || again != n {
				t.Fatalf("%q prints as %q, which is %q, %v", s, n.String(), again, err)
			}
			if back, err := models.NameFromPath(p); err != nil || back.Path() != p {
				t.Fatalf("%q: %q back from its path is %q, %v", s, n, back, err)
			}
		})
	})
}
