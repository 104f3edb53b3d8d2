package conversation

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/axle-llm/axle/internal/terminal"
	"github.com/axle-llm/axle/server"
)

// lineReader reads what a person types in a terminal, which is raw while they type and else as it
// was.
type lineReader struct {
	in      *os.File
	out     io.Writer
	raw     *term.State // what the terminal was before; nil while it is that
	editor  *terminal.Editor
	history *History
}

func newLineReader(in *os.File, out io.Writer, complete func(string) (int, []string)) *lineReader {
	l := &lineReader{in: in, out: out, history: OpenHistory()}
	l.editor = terminal.NewEditor(terminal.Options{In: in, Out: out, Size: l.size, History: l.history, Edit: l.inEditor,
		Suspend: l.suspend, Complete: complete})
	return l
}

func (l *lineReader) size() (columns, rows int) {
	columns, rows, _ = term.GetSize(int(l.in.Fd()))
	return columns, rows
}

// line reads one text, and leaves the terminal as it was.
func (l *lineReader) line(prompt string) (string, error) {
	if err := l.makeRaw(); err != nil {
		return "", err
	}
	defer l.restore()
	return l.editor.Line(prompt, promptMore)
}

func (l *lineReader) makeRaw() error {
	state, err := term.MakeRaw(int(l.in.Fd()))
	if err != nil {
		return err
	}
	l.raw = state
	fmt.Fprint(l.out, terminal.PasteOn)
	return nil
}

// restore leaves the terminal as it was. It may be called at any time.
func (l *lineReader) restore() {
	if l.raw != nil {
		fmt.Fprint(l.out, terminal.PasteOff)
		_ = term.Restore(int(l.in.Fd()), l.raw)
		l.raw = nil
	}
}

// inEditor gives the text to the editor that the person has chosen, and reads what it became.
func (l *lineReader) inEditor(text string) (string, error) {
	_, name := server.Setting(os.Getenv, "EDITOR")
	for _, other := range []string{os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi"} {
		if strings.TrimSpace(name) == "" {
			name = other
		}
	}
	words := strings.Fields(name)
	if _, err := exec.LookPath(words[0]); err != nil {
		return "", fmt.Errorf("the editor %q is not there: set AXLE_EDITOR or EDITOR to one that is", words[0])
	}
	f, err := os.CreateTemp("", "axle-*.txt")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	l.restore()
	cmd := exec.Command(words[0], append(words[1:], f.Name())...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = l.in, l.out, l.out
	err = cmd.Run()
	if raw := l.makeRaw(); raw != nil {
		return "", raw
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w; the text is as it was", words[0], err)
	}
	b, err := os.ReadFile(f.Name())
	return strings.TrimRight(string(b), "\r\n"), err
}

// suspend stops the program, as Ctrl-Z does anywhere, and comes back when it is told to go on.
func (l *lineReader) suspend() {
	l.restore()
	_ = syscall.Kill(0, syscall.SIGTSTP)
	_ = l.makeRaw()
}
