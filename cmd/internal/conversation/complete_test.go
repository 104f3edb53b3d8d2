package conversation

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ollama/ollama/types/model"
)

// TestCompleted: Tab knows the commands, what follows them, the server's models, and the files of
// pictures where the model sees, written so that the prompt finds them.
func TestCompleted(t *testing.T) {
	_, talk, _ := listening(t)
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"cat.png", "my cat.JPG", "it's.webp", "notes.txt", ".hidden.png", "evil\x1b[31m.png"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("\x89PNG\r\n\x1a\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "more of it"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before string
		sees   bool
		from   int
		want   []string
	}{
		{"/s", false, 0, []string{"/save", "/set", "/show"}},
		{"/set no", false, 5, []string{"noformat", "nohistory", "nomarkdown", "nothink", "nowordwrap"}},
		{"/set parameter t", false, 15, []string{"temperature", "top_k", "top_p"}},
		{"/show s", false, 6, []string{"system"}},
		{"/nope x", false, 6, nil},
		{"what is in c", false, 11, nil},
		{"what is in c", true, 11, []string{"cat.png"}},
		{"m", true, 0, []string{"more\\ of\\ it/", "my\\ cat.JPG"}},
		{"in my\\ c", true, 3, []string{"my\\ cat.JPG"}},
		{"./it", true, 0, []string{"./it\\'s.webp"}},
		{"", true, 0, []string{"/bye", "/clear", "/exit", "/help", "/load", "/save", "/set", "/show"}},
		{"say ", true, 4, []string{"cat.png", "it\\'s.webp", "more\\ of\\ it/", "my\\ cat.JPG"}},
		{dir + "/ca", true, 0, []string{dir + "/cat.png"}},
		{"e", true, 0, nil}, // a name that a terminal would obey
		{"two\nlines /s", false, 10, nil},
	} {
		talk.caps = nil
		if c.sees {
			talk.caps = []model.Capability{model.CapabilityVision}
		}
		from, got := talk.complete(t.Context())(c.before)
		if from != c.from || !slices.Equal(got, c.want) {
			t.Errorf("%q (%v): %d %q, want %d %q", c.before, c.sees, from, got, c.from, c.want)
		}
	}
	talk.caps = []model.Capability{model.CapabilityVision}
	for _, name := range []string{"cat.png", "my\\ cat.JPG", "./it\\'s.webp"} {
		if _, images, err := talk.images("what is in " + name); err != nil || len(images) != 1 {
			t.Errorf("%s is not found as it is completed: %d %v", name, len(images), err)
		}
	}
}
