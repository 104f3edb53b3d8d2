package transcript_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/axle-llm/axle/cmd/internal/transcript"
	"github.com/axle-llm/axle/tokenizer/chat"
)

func Example() {
	dir, err := os.MkdirTemp("", "transcript-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "short.jinja")
	if err := os.WriteFile(file, []byte("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"), 0o600); err != nil {
		panic(err)
	}
	c, err := transcript.Read(strings.NewReader(`{"messages": [{"role": "user", "content": "Hello"}]}`), "-", "")
	if err != nil {
		panic(err)
	}
	t, err := transcript.Template(file, chat.JinjaOptions{})
	if err != nil {
		panic(err)
	}
	pieces, err := t.Render(context.Background(), c)
	if err != nil {
		panic(err)
	}
	for _, p := range pieces {
		fmt.Print(p.Text)
	}
	// Output: user: Hello
}
