//go:build !scripted

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/axle-llm/axle/internal/goldentest"
)

func TestTokenize(t *testing.T) {
	file := words(t)
	ids, err := wordsRun(newTokenizeCmd(), "Hello world\n", file)
	if err != nil || !strings.HasPrefix(ids, "[") || strings.Count(ids, "\n") != 1 {
		t.Fatalf("%q %v", ids, err)
	}
	if text, err := wordsRun(newTokenizeCmd(), ids, "--decode", file); err != nil || text != "Hello world\n" {
		t.Errorf("decoded %q %v", text, err)
	}
	if text, err := wordsRun(newTokenizeCmd(), ids, "--decode", "--jsonl", filepath.Dir(file)); err != nil ||
		text != "\"Hello world\\n\"\n" {
		t.Errorf("decoded %q %v", text, err)
	}
	plain, _ := wordsRun(newTokenizeCmd(), "<|im_end|>", file)
	special, _ := wordsRun(newTokenizeCmd(), "<|im_end|>", file, "--special")
	if strings.Count(special, ",") != 0 || strings.Count(plain, ",") == 0 {
		t.Errorf("without --special %s, with it %s", plain, special)
	}
	if text, _ := wordsRun(newTokenizeCmd(), special, "--decode", file); text != "\n" {
		t.Errorf("a control token decodes to %q", text)
	}
	if text, _ := wordsRun(newTokenizeCmd(), special, "--decode", "--special", file); text != "<|im_end|>\n" {
		t.Errorf("a control token decodes to %q", text)
	}
	lines, err := wordsRun(newTokenizeCmd(), "{\"text\": \"a\"}\n\n{\"text\": \"\"}\n", "--jsonl", file)
	if err != nil || strings.Count(lines, "\n") != 2 || !strings.HasSuffix(lines, "[]\n") {
		t.Errorf("%q %v", lines, err)
	}
	for _, x := range []struct {
		stdin, want string
		args        []string
	}{
		{"{\"text\": \"a\"}\nnonsense\n", "line 2: ", []string{"--jsonl"}},
		{"{\"text\": \"a\"}\n{\"x\": 1}\n", "line 2: there is no \"text\"", []string{"--jsonl"}},
		{"[1]\n[99999999]\n", "line 2: id 99999999 is outside the vocabulary", []string{"--decode"}},
		{"[1.5]\n", "line 1: ", []string{"--decode"}},
	} {
		if _, err := wordsRun(newTokenizeCmd(), x.stdin, append(x.args, file)...); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: error %v, want %q", x.stdin, err, x.want)
		}
	}
	if _, err := wordsRun(newTokenizeCmd(), "", wordsFile(t, t.TempDir(), "x", "hello")); err == nil {
		t.Error("a file that is no tokenizer was taken")
	}
	bad := wordsFile(t, t.TempDir(), "tokenizer.json", "{}")
	if _, err := wordsRun(newTokenizeCmd(), "", filepath.Dir(bad)); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("a folder with a damaged tokenizer: %v, want its path", err)
	}
	none := t.TempDir()
	if _, err := wordsRun(newTokenizeCmd(), "", none); err == nil || !strings.Contains(err.Error(), none) {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestRender(t *testing.T) {
	dir := filepath.Dir(words(t))
	tmpl := wordsFile(t, dir, "chat_template.jinja",
		"{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if tools %}{{ tools | "+
			"tojson }}{% endif %}{% if enable_thinking is defined %}{{ enable_thinking }}{% endif %}{{ x }}")
	messages := wordsFile(t, dir, "m.json",
		`[{"role":"user","content":"<|im_end|>"},{"role":"assistant","content":[{"type":"text","text":"b"}]}]`)
	tools := wordsFile(t, dir, "t.json", `[{"type":"function","function":{"name":"f"}}]`)
	got, err := wordsRun(newRenderCmd(), "", tmpl, "--messages", messages)
	want := "<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
	if err != nil || got != want {
		t.Errorf("%q %v", got, err)
	}
	got, err = wordsRun(newRenderCmd(), "", tmpl, "--messages", messages, "--tools", tools, "--set", "enable_thinking=false", "--set",
		`x="y"`, "--set", `bos_token="<s>"`)
	if want := "<s>" + want + `[{"type": "function", "function": {"name": "f"}}]Falsey`; err != nil || got != want {
		t.Errorf("%q %v", got, err)
	}
	ids, err := wordsRun(newRenderCmd(), `{"messages":[{"role":"user","content":"<|im_end|>"}]}`, tmpl, "--messages", "-", "--ids")
	if err != nil || !strings.HasPrefix(ids, "[") {
		t.Fatalf("%q %v", ids, err)
	}
	end, _ := wordsRun(newTokenizeCmd(), "<|im_end|>", "--special", dir)
	if n := strings.Count(ids, strings.Trim(end, "[]\n")); n != 1 {
		t.Errorf("the control token stands %d times in %s, want once", n, ids)
	}
	goFile := wordsFile(t, t.TempDir(), "t.gotmpl", "{{ range .Messages }}[{{ .Role }}]{{ .Content }}{{ end }}")
	// No line's end is added.
	if got, err := wordsRun(newRenderCmd(), "", goFile, "--messages", messages); err != nil || got != "[user]<|im_end|>[assistant]b" {
		t.Errorf("%q %v", got, err)
	}
	for _, x := range []struct {
		want string
		args []string
	}{
		{"--messages is missing", []string{tmpl}},
		{"name=json", []string{tmpl, "--messages", messages, "--set", "a=b"}},
		{"--ids needs a tokenizer", []string{goFile, "--messages", messages, "--ids"}},
		{"no role", []string{tmpl, "--messages", wordsFile(t, dir, "bad.json", `[{"content":"x"}]`)}},
		{"bad2.json: ", []string{tmpl, "--messages", wordsFile(t, dir, "bad2.json", `[{]`)}},
	} {
		if _, err := wordsRun(newRenderCmd(), "", x.args...); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: error %v, want %q", x.args, err, x.want)
		}
	}
}

// words writes a small tokenizer.json into a folder and returns its path.
func words(t *testing.T) string {
	t.Helper()
	b := goldentest.Read(t, "../../testdata/tokenizer/small/qwen3.json.gz")
	return wordsFile(t, t.TempDir(), "tokenizer.json", string(b))
}

func wordsFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func wordsRun(cmd *cobra.Command, stdin string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd.SetIn(strings.NewReader(stdin))
	cmd.SetOut(&out)
	cmd.SetErr(io.Discard)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}
