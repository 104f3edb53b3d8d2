package conversation

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/ollama/ollama/types/model"
)

// TestImages: a prompt's paths are found however people and terminals write them, and nothing else
// is.
func TestImages(t *testing.T) {
	t.Chdir(t.TempDir())
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"a.png": "\x89PNG\r\n\x1a\n", "b c.JPG": "\xff\xd8\xff", "it's (1).webp": "RIFF....WEBPVP8 ",
		"moving.gif": "GIF89a", "(x.png": "\x89PNG\r\n\x1a\n", "text.png": "text", "phone.heic": "\x00\x00\x00\x18ftypheic"} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("dir.png", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ in, text, says string }{
		{"what is in ./a.png?", "what is in ?", "Added image './a.png'"},
		{"a.png", "", "Added image 'a.png'"},
		{"a.png a.png", "", "Added image 'a.png' Added image 'a.png'"},
		{"in './b c.JPG' and ./a.png", "in  and", "Added image './b c.JPG' Added image './a.png'"},
		{`in "b c.JPG"`, "in", "Added image 'b c.JPG'"},
		{`in b\ c.JPG`, "in", "Added image 'b c.JPG'"},
		{`what's in './it'\''s (1).webp'`, "what's in", "Added image './it's (1).webp'"},
		{`in it\'s\ \(1\).webp`, "in", "Added image 'it's (1).webp'"},
		{"in moving.gif", "in", "Added image 'moving.gif'"},
		{"(./a.png)", "()", "Added image './a.png'"},
		{"[a.png], {./a.png}", "[], {}", "Added image 'a.png' Added image './a.png'"},
		{"in (x.png", "in", "Added image '(x.png'"},
		{"in file://" + here + "/b%20c.JPG", "in", "Added image '" + here + "/b c.JPG'"},
		{"in missing.png", "in missing.png", ""},
		{"in ./missing.png", "in ./missing.png", "There is no file './missing.png': the model reads its name only"},
		{"in http://127.0.0.1/a.png", "in http://127.0.0.1/a.png", ""},
		{"a.pngs", "a.pngs", ""},
		{"in text.png", "", "text.png is no image that can be read (text/plain; charset=utf-8): save it as jpeg or png"},
		{"in phone.heic", "", "phone.heic is no image that can be read (application/octet-stream): save it as jpeg or png"},
		{"in dir.png", "", "open dir.png: is no regular file"},
	} {
		var told bytes.Buffer
		talk := &Talk{Errw: &told, caps: []model.Capability{model.CapabilityVision}}
		text, images, err := talk.images(c.in)
		says := strings.ReplaceAll(strings.TrimSpace(told.String()), "\n", " ")
		if err != nil {
			text, says = "", err.Error()
		}
		if text != c.text || says != c.says || len(images) != strings.Count(says, "Added") {
			t.Errorf("%s: %q with %d images, %q; want %q, %q", c.in, text, len(images), says, c.text, c.says)
		}
		blind := &Talk{Errw: &told}
		if text, images, err := blind.images(c.in); text != c.in || images != nil || err != nil {
			t.Errorf("%s, where the model does not see: %q, %v", c.in, text, err)
		}
	}
}
